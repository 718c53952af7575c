// Images read from files: pixels against MXNet's, damaged files, borders. tests/data/images has the script.
#include "kaon/ops/image_file/image_file.h"

#include <catch2/catch.hpp>
#include <random>
#include <span>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/support/files.h"

namespace image_file_test {

#ifdef KAON_IMAGES

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

fs::path file_of(const std::string& name) { return data_file("images/" + name); }

std::vector<fs::path> image_files() {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(data_file("images"))) {
    if (entry.path().extension() == ".jpg" || entry.path().extension() == ".png") all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// What decoding and waiting says: "" if the image is read.
std::string failure(std::string_view bytes, const image::DecodeOptions& options = {}) {
  try {
    const NDArray pixels = image::imdecode(bytes, options);
    pixels.wait_to_read();
    return "";
  } catch (const IoError& e) {
    return e.what();
  }
}

bool same(const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.asvector<uint8_t>() == b.asvector<uint8_t>();
}

}  // namespace

TEST_CASE("image files: the pixels of JPEG and PNG of every kind are MXNet's") {
  const NamedArrays expected = nd_file::load(file_of("pixels.params"));
  CHECK(expected.size() == 3 * image_files().size());
  for (const auto& [name, pixels] : expected) {  // "rgb.jpg 1 0": flag and to_rgb
    INFO(name);
    const size_t end = name.find(' ');
    const image::DecodeOptions options{.flag = name[end + 1] - '0', .to_rgb = name[end + 3] == '1'};
    const fs::path file = file_of(name.substr(0, end));
    const std::string bytes = bytes_of(file);
    CHECK(same(image::imread(file, options), pixels));
    CHECK(same(image::imdecode(bytes, options), pixels));
    CHECK(same(image::imdecode(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), options),
               pixels));
    const std::vector<uint8_t> numbers(bytes.begin(), bytes.end());
    const NDArray array = nd.array(numbers, Shape(int64_t(numbers.size())), {.dtype = DType::uint8});
    CHECK(same(image::imdecode(array, options), pixels));
  }
}

TEST_CASE("image files: the same on engines of 0, 1 and 2 threads, and many at a time") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::vector<NDArray> read;
    for (int i = 0; i < 50; ++i) read.push_back(image::imread(file_of(i % 2 ? "progressive.jpg" : "interlaced.png")));
    CHECK(read[0].shape() == Shape(13, 17, 3));
    for (size_t i = 2; i < read.size(); ++i) CHECK(same(read[i], read[i - 2]));
    CHECK_FALSE(same(read[0], read[1]));
  }
}

TEST_CASE("image files: the contents count, not the name; errors say file and byte") {
  ScratchFolder folder;
  fs::copy_file(file_of("rgb.png"), folder / "wrong.jpg");
  CHECK(same(image::imread(folder / "wrong.jpg"), image::imread(file_of("rgb.png"))));
  const std::string bytes = bytes_of(file_of("rgb.jpg"));
  std::ofstream(folder / "cut.jpg", std::ios::binary) << bytes.substr(0, bytes.size() - 20);
  const NDArray cut = image::imread(folder / "cut.jpg");  // the header is whole
  CHECK(cut.shape() == Shape(13, 17, 3));
  CHECK_THROWS_WITH(cut.wait_to_read(), Contains("[imread] " + (folder / "cut.jpg").string()) &&
                                            Contains("damaged JPEG, at byte 7") && Contains("of 730") &&
                                            Contains("Premature end") && Contains("image_file_test.cpp"));
  const NDArray after = cut.astype(DType::float32) + 1;
  CHECK_THROWS_AS(after.wait_to_read(), IoError);
  CHECK_THROWS_AS(image::imread(folder / "none.jpg"), IoError);
  CHECK_THROWS_AS(image::imread(folder / ""), IoError);
  // flag as in MXNet: any but 0 is colour
  CHECK(same(image::imread(file_of("grey.jpg"), {.flag = 2}), image::imread(file_of("grey.jpg"))));
}

TEST_CASE("image files: whatever is cut off is missed") {
  for (const fs::path& file : image_files()) {
    const std::string bytes = bytes_of(file);
    for (size_t n = 0; n < bytes.size(); ++n) {
      const std::string what = failure(std::string_view(bytes).substr(0, n));
      INFO(file.filename() << " without " << bytes.size() - n << " bytes: " << what);
      if (what.empty() || !Contains("[imdecode] bytes:").match(what)) FAIL();
    }
  }
}

TEST_CASE("image files: flipped bits and exchanged bytes give an image or an IoError", "[arithmetic]") {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  size_t read = 0, refused = 0;
  for (const fs::path& file : image_files()) {
    const std::string bytes = bytes_of(file);
    INFO(file.filename());
    for (int i = 0; i < 300; ++i) {
      std::string damaged = bytes;
      for (size_t k = below(3) + 1; k-- > 0;) {
        char& c = damaged[below(damaged.size())];
        c = below(2) ? char(c ^ (1 << below(8))) : char(random());
      }
      if (below(4) == 0) damaged.erase(below(damaged.size()), below(20));
      const bool is_read = failure(damaged, {.flag = int(below(2)), .to_rgb = below(2) == 1}).empty();
      ++(is_read ? read : refused);
    }
  }
  CHECK(read > 500);  // of pixels that were flipped no file tells
  CHECK(refused > 2000);
}

TEST_CASE("image files: sizes that the bytes cannot hold are refused before memory is taken") {
  for (const char* name : {"huge_jpeg", "huge_progressive", "huge_png"}) {
    INFO(name);
    const std::string bytes = bytes_of(data_file("../fuzz/corpus/image/" + std::string(name)));
    CHECK_THROWS_WITH(image::imdecode(bytes), Contains("[imdecode] bytes: ") && (Contains("pixels")));
  }
}

TEST_CASE("image files: imresize is image_resize") {
  const NDArray pixels = image::imread(file_of("rgb.png"));
  CHECK(same(image::imresize(pixels, 9, 5), nd.image_resize(pixels, {9, 5})));
  CHECK(image::imresize(pixels, 9, 5).shape() == Shape(5, 9, 3));
}

TEST_CASE("copyMakeBorder: the borders of MXNet") {
  using image::Border;
  const NDArray x = nd.reshape(nd.arange(12), {3, 4, 1}).astype(DType::uint8);
  const auto bordered = [&](Border type) {
    return image::copyMakeBorder(x, 2, 1, 2, 3, {.type = type, .value = 9}).asvector<int>();
  };
  // as MXNet 1.9.1 printed them
  CHECK(bordered(Border::constant) == std::vector{9, 9, 9, 9, 9,  9,  9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
                                                  9, 9, 0, 1, 2,  3,  9, 9, 9, 9, 9, 4, 5, 6, 7, 9, 9, 9,
                                                  9, 9, 8, 9, 10, 11, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9});
  CHECK(bordered(Border::replicate) == std::vector{0, 0, 0, 1, 2,  3,  3,  3,  3,  0, 0, 0, 1, 2,  3,  3,  3,  3,
                                                   0, 0, 0, 1, 2,  3,  3,  3,  3,  4, 4, 4, 5, 6,  7,  7,  7,  7,
                                                   8, 8, 8, 9, 10, 11, 11, 11, 11, 8, 8, 8, 9, 10, 11, 11, 11, 11});
  CHECK(bordered(Border::reflect) == std::vector{5, 4, 4, 5, 6,  7,  7,  6,  5, 1, 0, 0, 1, 2,  3,  3,  2,  1,
                                                 1, 0, 0, 1, 2,  3,  3,  2,  1, 5, 4, 4, 5, 6,  7,  7,  6,  5,
                                                 9, 8, 8, 9, 10, 11, 11, 10, 9, 9, 8, 8, 9, 10, 11, 11, 10, 9});
  CHECK(bordered(Border::wrap) == std::vector{6,  7,  4, 5, 6,  7,  4, 5, 6,  10, 11, 8, 9, 10, 11, 8, 9, 10,
                                              2,  3,  0, 1, 2,  3,  0, 1, 2,  6,  7,  4, 5, 6,  7,  4, 5, 6,
                                              10, 11, 8, 9, 10, 11, 8, 9, 10, 2,  3,  0, 1, 2,  3,  0, 1, 2});
  CHECK(bordered(Border::reflect_101) == std::vector{10, 9, 8, 9, 10, 11, 10, 9, 8, 6, 5, 4, 5, 6, 7, 6, 5, 4,
                                                     2,  1, 0, 1, 2,  3,  2,  1, 0, 6, 5, 4, 5, 6, 7, 6, 5, 4,
                                                     10, 9, 8, 9, 10, 11, 10, 9, 8, 6, 5, 4, 5, 6, 7, 6, 5, 4});
  const NDArray pixels = image::imread(file_of("rgb.png"));
  const std::vector<double> colors{1, 2, 3};
  const NDArray wide = image::copyMakeBorder(pixels, 1, 0, 0, 2, {.values = colors});
  CHECK(wide.shape() == Shape(14, 19, 3));
  CHECK(wide[0].asvector<int>()[7] == 2);
  CHECK(same(nd.image_crop(wide, {.x = 0, .y = 1, .width = 17, .height = 13}), pixels));
  for (Border type : {Border::replicate, Border::reflect, Border::wrap, Border::reflect_101}) {
    const NDArray one = image::copyMakeBorder(nd.full({1, 1, 2}, 7.5), 3, 2, 1, 5, {.type = type});
    CHECK(one.shape() == Shape(6, 7, 2));
    CHECK(nd.min(one).asscalar<double>() == 7.5);
  }
  CHECK(image::copyMakeBorder(nd.zeros({0, 0, 1}), 1, 1, 2, 2, {.value = 4}).asvector<int>() == std::vector<int>(8, 4));
}

TEST_CASE("copyMakeBorder: its gradient is that of the pixels that are shown") {
  for (image::Border type : {image::Border::constant, image::Border::reflect}) {
    NDArray x = nd.ones({2, 3, 1});
    x.attach_grad();
    const NDArray y = autograd::record([&] { return image::copyMakeBorder(x, 1, 0, 0, 2, {.type = type}); });
    y.backward();
    const bool shows = type == image::Border::reflect;
    CHECK(x.grad().asvector<float>() ==
          (shows ? std::vector<float>{2, 4, 4, 1, 2, 2} : std::vector<float>{1, 1, 1, 1, 1, 1}));
  }
}

#endif

}  // namespace image_file_test
