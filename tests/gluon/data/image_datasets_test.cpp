// Datasets of images: folders, lists, CIFAR and FashionMNIST.
#include <catch2/catch.hpp>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/image_file/image_file.h"
#include "kaon/tests/support/files.h"

namespace image_datasets_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

// Record i of a CIFAR file: labels, then bytes that differ by record, plane and pixel.
std::string cifar(int count, int first, int label_bytes) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    for (int l = 0; l < label_bytes; ++l) bytes += char((i + 3 * l) % 10);
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < 1024; ++p) bytes += char(7 * i + 50 * c + p % 31);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("cifar: images are turned to rows of pixels; labels of both files") {
  ScratchFolder folder;
  fs::create_directories(folder / "cifar-10-batches-bin");
  for (int b = 1; b <= 5; ++b) {
    write_bytes(folder / ("cifar-10-batches-bin/data_batch_" + std::to_string(b) + ".bin"), cifar(2, 2 * b, 1));
  }
  write_bytes(folder / "test_batch.bin", cifar(3, 0, 1));
  vision::CIFAR10 train(folder / "."), test(folder / ".", false);
  CHECK(train.size() == 10);
  CHECK(test.size() == 3);
  const Sample s = train.get(3);  // record 5
  CHECK(s.data.shape() == Shape(32, 32, 3));
  CHECK(s.data.dtype() == DType::uint8);
  CHECK(*s.label.as<int32_t>() == 5);
  for (int p : {0, 40, 1023}) {
    for (int c = 0; c < 3; ++c) CHECK(s.data.as<uint8_t>()[3 * p + c] == uint8_t(35 + 50 * c + p % 31));
  }
  write_bytes(folder / "train.bin", cifar(4, 0, 2));
  CHECK(*vision::CIFAR100(folder / ".").get(3).label.as<int32_t>() == 3);
  CHECK(*vision::CIFAR100(folder / ".", true).get(3).label.as<int32_t>() == 6);

  const std::string root = (folder / ".").string();
  CHECK(message([&] { vision::CIFAR100(folder / ".", true, false); }) ==
        "[CIFAR100] " + root +
            ": expected a file test.bin in it or in its folder cifar-100-binary, of cifar-100-binary.tar.gz from "
            "https://www.cs.toronto.edu/~kriz/cifar.html, found neither");
  write_bytes(folder / "test_batch.bin", cifar(3, 0, 1).substr(0, 5000));
  CHECK(message([&] { vision::CIFAR10(folder / ".", false); }) ==
        "[CIFAR10] " + (folder / "./test_batch.bin").string() +
            ": expected records of 3073 bytes, got 5000 bytes: record 1 is truncated");
  write_bytes(folder / "test_batch.bin", "\x0b" + std::string(3072, 'a'));
  CHECK(message([&] { vision::CIFAR10(folder / ".", false); }) ==
        "[CIFAR10] " + (folder / "./test_batch.bin").string() + ": record 0: expected a label from 0 to 9, got 11");
}

TEST_CASE("fashion mnist: MNIST's files, its own message") {
  CHECK(vision::FashionMNIST(fs::path(KAON_DATA_DIR) / "mnist-10k", false).size() == 1000);
  CHECK(message([] { vision::FashionMNIST("nowhere"); }) ==
        "[FashionMNIST] nowhere: expected a folder with train-images-idx3-ubyte or train-images-idx3-ubyte.gz from "
        "https://github.com/zalandoresearch/fashion-mnist, got nothing");
}

#ifdef KAON_IMAGES
TEST_CASE("image folder: classes are folders, in order") {
  ScratchFolder folder;
  for (const char* name : {"cat", "ant", "empty"}) fs::create_directories(folder / name);
  fs::copy(data_file("images/rgb.jpg"), folder / "cat/2.JPG");
  fs::copy(data_file("images/rgb.png"), folder / "cat/1.png");
  fs::copy(data_file("images/grey.jpg"), folder / "ant/9.jpeg");
  write_bytes(folder / "ant/notes.txt", "notes");
  write_bytes(folder / "readme.jpg", "a file, no class");
  vision::ImageFolderDataset d(folder / ".");
  CHECK(d.synsets() == std::vector<std::string>{"ant", "cat", "empty"});
  REQUIRE(d.size() == 3);
  CHECK(d.items()[1].first.filename() == "1.png");
  const Sample s = d.get(2);
  CHECK(*s.label.as<int32_t>() == 1);
  CHECK(s.data.to_array().asvector<uint8_t>() == image::imread(data_file("images/rgb.jpg")).asvector<uint8_t>());
  CHECK(vision::ImageFolderDataset(folder / ".", {.flag = 0}).get(2).data.shape()[2] == 1);

  write_bytes(folder / "cat/3.jpg", "damaged");
  CHECK_THAT(message([&] { vision::ImageFolderDataset(folder / ".").get(3); }),
             Contains("[ImageFolderDataset] " + (folder / "./cat/3.jpg").string() + ": expected a JPEG or PNG file"));
  fs::remove(folder / "cat/1.png");
  CHECK_THAT(message([&] { d.get(1); }), Contains("[ImageFolderDataset] ") && Contains("1.png"));
  CHECK_THAT(message([&] { vision::ImageFolderDataset(folder / "none"); }),
             Contains("[ImageFolderDataset] " + (folder / "none").string() + ": expected a folder with a folder of"));
  CHECK(message([&] { vision::ImageFolderDataset(folder / "ant"); }) ==
        "[ImageFolderDataset] " + (folder / "ant").string() + ": expected a folder of images for each class, got none");
}

TEST_CASE("image list: JPEG files are decoded at a smaller size where that is asked") {
  using Items = std::vector<std::pair<std::string, std::vector<float>>>;
  const auto decoded = [](const std::string& name, int64_t min_side, int flag = 1) {
    return vision::ImageListDataset(data_file("images"), Items{{name, {0}}}, {.flag = flag, .min_side = min_side})
        .get(0)
        .data;
  };
  for (const char* name : {"rgb.jpg", "cmyk.jpg", "progressive.jpg", "grey.jpg"}) {
    for (int flag : {0, 1}) {
      const HostTensor whole = decoded(name, 0, flag);
      const int64_t height = whole.shape()[0], width = whole.shape()[1], channels = whole.shape()[2];
      const int64_t shorter = std::min(height, width);
      for (int64_t shrink : {1, 2, 4, 8}) {
        INFO(name << " by " << shrink);
        const int64_t w = (width + shrink - 1) / shrink, h = (height + shrink - 1) / shrink;
        const HostTensor part = decoded(name, std::min(w, h), flag);
        REQUIRE(part.shape() == Shape(h, w, channels));
        CHECK(decoded(name, shorter + 1, flag).shape() == whole.shape());
        // libjpeg leaves out high frequencies: near to the average of the pixels that one stands for
        double sum = 0;
        const int64_t down = height / shrink, across = width / shrink, row = width * channels;
        for (int64_t i = 0; i < down * across * channels; ++i) {
          const int64_t c = i % channels, x = i / channels % across, y = i / channels / across;
          double average = 0;
          for (int64_t k = 0; k < shrink * shrink; ++k) {
            const int64_t at = (y * shrink + k / shrink) * row + (x * shrink + k % shrink) * channels + c;
            average += double(whole.as<uint8_t>()[at]) / double(shrink * shrink);
          }
          sum += std::abs(double(part.as<uint8_t>()[(y * w + x) * channels + c]) - average);
        }
        CHECK(sum / double(down * across * channels) < (shrink == 1 ? 0.001 : 5));
      }
    }
  }
  CHECK(decoded("rgb.png", 1).shape() == decoded("rgb.png", 0).shape());
  CHECK(message([&] { decoded("rgb.png", -1); }) == "[ImageListDataset] min_side: expected at least 0, got -1");
}

TEST_CASE("image list: paths and labels of a file, or of the program") {
  vision::ImageListDataset d(data_file("images"), data_file("recordio/images.lst"));
  REQUIRE(d.size() == 4);
  CHECK(*d.get(1).label.as<float>() == 1);
  CHECK(d.get(2).label.shape() == Shape(3));
  CHECK(d.get(3).data.shape() == image::imread(data_file("images/palette.png")).shape());
  vision::ImageListDataset own(data_file("images"), {{"grey.jpg", {4}}, {"gone.jpg", {5}}});
  CHECK(*own.get(0).label.as<float>() == 4);
  CHECK_THAT(message([&] { own.get(1); }), Contains("[ImageListDataset] ") && Contains("gone.jpg"));
  CHECK(message([] {
          const std::vector<std::pair<std::string, std::vector<float>>> none{{"grey.jpg", {}}};
          vision::ImageListDataset("x", none);
        }) == "[ImageListDataset] grey.jpg: expected a label, got none");
}
#endif

}  // namespace image_datasets_test
