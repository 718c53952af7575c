// MNIST and its file format: the digits themselves, and files that are broken in every way.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include <zlib.h>

#include "kaon/engine/storage.h"
#include "kaon/gluon/data/internal/idx.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/array/file_io.h"

namespace mnist_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::gluon::data;
namespace fs = std::filesystem;

namespace {

const fs::path mnist_folder = fs::path(KAON_DATA_DIR) / "mnist-10k";

// A folder that goes with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("kaon_mnist_" + std::to_string(std::random_device()()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
};

std::string big_endian(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

std::string idx(int code, std::vector<uint32_t> dims, const std::string& elements) {
  std::string s{'\0', '\0', char(code), char(dims.size())};
  for (uint32_t d : dims) s += big_endian(d);
  return s + elements;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

template <class F>
std::string io_error(F&& f) {
  try {
    f();
  } catch (const IoError& e) {
    return e.what();
  }
  return "no IoError";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("mnist: the digits have MXNet's shapes and types") {
  vision::MNIST train(mnist_folder), test(mnist_folder, false);
  CHECK(train.size() == 9000);
  CHECK(test.size() == 1000);
  Sample first = train.get(0);
  CHECK(first.data.shape() == Shape(28, 28, 1));
  CHECK(first.data.dtype() == DType::uint8);
  CHECK(first.label.dtype() == DType::int32);
  CHECK(first.label.shape() == Shape());

  std::vector<int> count(10);
  for (int64_t i = 0; i < train.size(); ++i) ++count[size_t(*train.get(i).label.as<int32_t>())];
  for (int c : count) CHECK(c > 700);
  Sample as_tensor = train.transform_first(vision::transforms::to_tensor).get(5);
  CHECK(as_tensor.data.shape() == Shape(1, 28, 28));
  const float* x = as_tensor.data.as<float>();
  CHECK(*std::max_element(x, x + 784) > 0.8f);
  CHECK(*std::max_element(x, x + 784) <= 1.0f);
}

TEST_CASE("mnist: plain and compressed files are the same, the plain one is preferred") {
  Folder folder;
  const std::string images = idx(8, {3, 2, 2}, "abcdefghijkl"), labels = idx(8, {3}, {1, 0, 9});
  folder.write("train-images-idx3-ubyte.gz", gzip(images));
  folder.write("train-labels-idx1-ubyte", labels);
  vision::MNIST compressed(folder.path);
  CHECK(compressed.size() == 3);
  CHECK(compressed.get(2).data.shape() == Shape(2, 2, 1));
  CHECK(compressed.get(2).data.as<uint8_t>()[3] == 'l');
  CHECK(*compressed.get(2).label.as<int32_t>() == 9);
  folder.write("train-images-idx3-ubyte", idx(8, {3, 2, 2}, "ABCDEFGHIJKL"));
  CHECK(vision::MNIST(folder.path).get(2).data.as<uint8_t>()[3] == 'L');

  folder.write("pictures", images);
  folder.write("digits", labels);
  const Dataset named = vision::MNIST::of_files(folder.path / "pictures", folder.path / "digits");
  CHECK(named.size() == 3);
  CHECK(named.get(2).data.as<uint8_t>()[3] == 'l');
  CHECK_THROWS_AS(vision::MNIST::of_files(folder.path / "digits", folder.path / "pictures"), IoError);
}

TEST_CASE("users row 57: mnist's messages name file, offset and expectation") {
  Folder folder;
  auto open = [&] { return io_error([&] { vision::MNIST mnist(folder.path); }); };
  const std::string root = folder.path.string();
  CHECK(io_error([&] { vision::MNIST mnist(folder.path / "nowhere"); }) ==
        "[MNIST] " + root +
            "/nowhere: expected a folder with train-images-idx3-ubyte or train-images-idx3-ubyte.gz from "
            "http://yann.lecun.com/exdb/mnist, got nothing");
  CHECK(open() == "[MNIST] " + root +
                      ": expected a file train-images-idx3-ubyte or train-images-idx3-ubyte.gz from "
                      "http://yann.lecun.com/exdb/mnist in it, found neither");

  const std::string images = idx(8, {3, 2, 2}, "abcdefghijkl");
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte", idx(8, {2}, {1, 2}));
  CHECK(open() == "[MNIST] " + root + "/train-labels-idx1-ubyte: at byte 4: expected 3 labels, as many as images in " +
                      root + "/train-images-idx3-ubyte, got 2");
  folder.write("train-labels-idx1-ubyte", idx(8, {3}, {1, 10, 3}));
  CHECK(open() == "[MNIST] " + root + "/train-labels-idx1-ubyte: at byte 9: expected a digit from 0 to 9, got 10");
  folder.write("train-labels-idx1-ubyte", images);
  CHECK(open() ==
        "[MNIST] " + root +
            "/train-labels-idx1-ubyte: at byte 0: expected magic number 00 00 08 01, got 3 dimensions of uint8");
  folder.write("train-labels-idx1-ubyte", idx(8, {3}, {1, 2}));
  CHECK(open() ==
        "[read_idx] " + root +
            "/train-labels-idx1-ubyte: at byte 8: expected the elements of shape (3,), can get at most 2 bytes");
  folder.write("train-images-idx3-ubyte", images + "m");
  CHECK(open() == "[read_idx] " + root +
                      "/train-images-idx3-ubyte: at byte 28: expected the end after the elements of shape (3, 2, 2), "
                      "got more bytes");
  folder.write("train-images-idx3-ubyte", "\x50\x4b\x03\x04");
  CHECK(open() ==
        "[read_idx] " + root +
            "/train-images-idx3-ubyte: at byte 0: expected the magic number 00 00, 08 09 0b 0c 0d or 0e, 01 to "
            "08; got 50 4b 03 04");
  fs::remove(folder.path / "train-images-idx3-ubyte");
  std::string compressed = gzip(images);
  folder.write("train-images-idx3-ubyte.gz", compressed.substr(0, compressed.size() - 5));
  CHECK(open() == "[read_idx] " + root + "/train-images-idx3-ubyte.gz: at byte " +
                      std::to_string(compressed.size() - 5) + ": expected more gzip data, got the end of the file");
  folder.write("train-images-idx3-ubyte.gz", compressed + "x");
  CHECK(contains(open(), "expected the end of the file after the gzip data"));
  compressed[compressed.size() - 6] = char(compressed[compressed.size() - 6] ^ 1);  // the checksum
  folder.write("train-images-idx3-ubyte.gz", compressed);
  CHECK(contains(open(), "expected valid gzip data: incorrect data check"));
}

TEST_CASE("idx: every element type, in the machine's byte order") {
  auto floats = parse_idx(idx(0x0d, {2}, std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8)), "f");
  CHECK(floats.as<float>()[0] == 1.0f);
  CHECK(floats.as<float>()[1] == -2.0f);
  auto ints = parse_idx(idx(0x0c, {1, 1}, std::string("\x01\x02\x03\x04", 4)), "i");
  CHECK(ints.shape() == Shape(1, 1));
  CHECK(*ints.as<int32_t>() == 0x01020304);
  CHECK(*parse_idx(idx(0x0e, {1}, std::string("\x3f\xf8\0\0\0\0\0\0", 8)), "d").as<double>() == 1.5);
  CHECK(*parse_idx(idx(0x0b, {1}, "\xff\xfe"), "s").as<int16_t>() == -2);
  CHECK(*parse_idx(idx(0x09, {1}, "\xff"), "b").as<int8_t>() == -1);
  CHECK(parse_idx(idx(8, {0, 28, 28}, ""), "e").shape() == Shape(0, 28, 28));
}

TEST_CASE("idx: sizes beyond the file are refused before memory is taken") {
  const size_t before = Storage::cpu().stats().peak;
  for (bool compressed : {false, true}) {
    for (auto dims : std::vector<std::vector<uint32_t>>{{0xffffffff},
                                                        {0xffffffff, 0xffffffff},
                                                        {60000, 28, 28},
                                                        {0xffffffff, 0xffffffff, 0xffffffff, 0},
                                                        {1, 2, 0x40000000, 8}}) {
      std::string bytes = idx(8, dims, "xy");
      CHECK(contains(io_error([&] { parse_idx(compressed ? gzip(bytes) : bytes, "large"); }),
                     "expected the elements of shape"));
    }
  }
  CHECK(Storage::cpu().stats().peak == before);
}

TEST_CASE("idx: truncated and damaged files throw IoError or give a tensor, nothing else") {
  const std::string plain = idx(8, {4, 3, 2}, "abcdefghijklmnopqrstuvwx"), compressed = gzip(plain);
  for (const std::string& whole : {plain, compressed}) {
    CHECK(parse_idx(whole, "whole").shape() == Shape(4, 3, 2));
    for (size_t n = 0; n < whole.size(); ++n) {
      INFO("first " << n << " bytes");
      CHECK_THROWS_AS(parse_idx(std::string_view(whole).substr(0, n), "cut"), IoError);
    }
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
      std::string damaged = whole;
      for (unsigned k = 1 + random() % 4; k > 0; --k) damaged[random() % damaged.size()] = char(random());
      try {
        HostTensor t = parse_idx(damaged, "damaged");
        CHECK(t.bytes() < 100000);
      } catch (const IoError&) {
      }
    }
  }
}

}  // namespace mnist_test
