// Transforms of images: deterministic ones against MXNet's (tests/data/transforms has the script), random ones against
// operators that the golden data covers.
#include "kaon/gluon/data/transforms.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <sstream>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/support/files.h"

namespace transforms_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::gluon::data::vision::transforms;
using namespace kaon::test;

namespace {

// "small Resize(5,4,0,1)"
struct Call {
  std::string image, name;
  std::vector<double> numbers;
  explicit Call(const std::string& text) {
    const size_t space = text.find(' '), open = text.find('(');
    image = text.substr(0, space);
    name = text.substr(space + 1, open - space - 1);
    std::istringstream in(text.substr(open + 1, text.size() - open - 2));
    for (std::string one; std::getline(in, one, ',');) numbers.push_back(std::stod(one));
  }
  double operator[](size_t i) const { return numbers[i]; }
  int integer(size_t i) const { return int(numbers[i]); }
  ImageSize size(size_t i) const {
    return numbers[i + 1] < 0 ? ImageSize(integer(i)) : ImageSize(integer(i), integer(i + 1));
  }
};

Compose transform_of(const Call& c) {
  if (c.name == "Resize") return Compose({Resize(c.size(0), {.keep_ratio = c[2] != 0, .interpolation = c.integer(3)})});
  if (c.name == "CenterCrop") return Compose({CenterCrop(c.size(0), c.integer(2))});
  if (c.name == "CropResize") {
    std::optional<ImageSize> size;
    if (c[4] >= 0) size = c.size(4);
    return Compose({CropResize(c.integer(0), c.integer(1), c.integer(2), c.integer(3), size, c.integer(6))});
  }
  if (c.name == "Rotate") return Compose({Rotate(c[0], {.zoom_in = c[1] != 0, .zoom_out = c[2] != 0})});
  if (c.name == "ToTensor") return Compose({ToTensor()});
  if (c.name == "Cast") return Compose({Cast(DType::float32)});
  REQUIRE(c.name == "Normalize");
  return Compose({Normalize({float(c[0]), float(c[1]), float(c[2])}, {float(c[3]), float(c[4]), float(c[5])})});
}

// The largest difference, and how many numbers differ at all.
struct Difference {
  double largest = 0;
  size_t count = 0;
};
Difference difference(const NDArray& a, const NDArray& b) {
  Difference d;
  const auto x = a.asvector<float>(), y = b.asvector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const double one = std::abs(double(x[i]) - double(y[i]));
    d.largest = std::max(d.largest, one);
    d.count += one != 0;
  }
  return d;
}

HostTensor noise(const Shape& shape, DType dtype = DType::uint8) {
  SampleRandom random(8, 8, 8);
  HostTensor image(shape, dtype);
  for (int64_t i = 0; i < image.size(); ++i) {
    if (dtype == DType::uint8) image.mutable_as<uint8_t>()[i] = uint8_t(random.below(256));
    if (dtype == DType::float32) image.mutable_as<float>()[i] = 4 * random.uniform() - 1;
  }
  return image;
}

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

}  // namespace

TEST_CASE("transforms: deterministic ones give what MXNet gives") {
  const NamedArrays arrays = nd_file::load(data_file("transforms/transforms.params"));
  std::map<std::string, HostTensor> images;
  for (const auto& [name, array] : arrays) {
    if (name.starts_with("image ")) images[name.substr(6)] = HostTensor::copy_of(array);
  }
  size_t calls = 0;
  for (const auto& [name, expected] : arrays) {
    if (name.starts_with("image ")) continue;
    INFO(name);
    const Call call(name);
    const NDArray got = transform_of(call)(images.at(call.image)).to_array();
    REQUIRE(got.shape() == expected.shape());
    REQUIRE(got.dtype() == expected.dtype());
    const Difference d = difference(got, expected);
    CHECK(d.largest <= (got.dtype() == DType::uint8 ? 0 : 2e-5));
    ++calls;
  }
  CHECK(calls > 250);
}

TEST_CASE("transforms: random colours are those of the operators for the factor that is drawn") {
  for (const HostTensor& image : {noise({6, 5, 3}), noise({6, 5, 1}), noise({4, 7, 3}, DType::float32)}) {
    const NDArray x = image.to_array();
    const double tolerance = image.dtype() == DType::uint8 ? 1 : 1e-5;
    for (int64_t sample = 0; sample < 6; ++sample) {
      for (double amount : {0.0, 0.4, 1.7}) {
        SampleRandom same(1, 2, sample);
        const double low = std::max(0.0, 1 - amount), f = low + (1 + amount - low) * double(same.uniform());
        const auto check = [&](const Transform& transform, const NDArray& expected) {
          SampleRandom random(1, 2, sample);
          CHECK(difference(transform(image, random).to_array(), expected).largest <= tolerance);
        };
        check(RandomBrightness(amount), nd.image_random_brightness(x, f, f));
        check(RandomContrast(amount), nd.image_random_contrast(x, f, f));
        check(RandomSaturation(amount), nd.image_random_saturation(x, f, f));
        check(RandomHue(amount), nd.image_random_hue(x, f, f));
      }
      SampleRandom same(1, 2, sample);
      std::vector<float> alpha;
      for (int i = 0; i < 3; ++i) alpha.push_back(0.3f * same.normal());
      SampleRandom random(1, 2, sample);
      const NDArray lit = nd.image_adjust_lighting(x, {.alpha = ops::FloatTuple{alpha[0], alpha[1], alpha[2]}});
      CHECK(difference(RandomLighting(0.3)(image, random).to_array(), lit).largest <= std::max(tolerance, 1e-4));
    }
  }
}

TEST_CASE("transforms: a jitter is its parts, one after another") {
  const HostTensor image = noise({5, 4, 3}, DType::float32);
  for (int64_t sample = 0; sample < 5; ++sample) {
    SampleRandom one(3, 0, sample), other(3, 0, sample);
    HostTensor parts = RandomHue(0.1)(RandomSaturation(0.4)(RandomBrightness(0.5)(image, one), one), one);
    const HostTensor whole = RandomColorJitter(0.5, 0, 0.4, 0.1)(image, other);
    CHECK(difference(whole.to_array(), parts.to_array()).largest < 1e-5);
    SampleRandom none(3, 0, sample);
    CHECK(difference(RandomColorJitter()(image, none).to_array(), image.to_array()).count == 0);
  }
}

TEST_CASE("transforms: random crops have areas and proportions in range, of all places") {
  // each pixel tells its place
  HostTensor image({40, 50, 2}, DType::uint8);
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 50; ++x) {
      image.mutable_as<uint8_t>()[2 * (50 * y + x)] = uint8_t(x);
      image.mutable_as<uint8_t>()[2 * (50 * y + x) + 1] = uint8_t(y);
    }
  }
  RandomResizedCrop crop({100, 80}, {.scale = {0.1, 0.5}, .ratio = {0.5, 2}, .interpolation = 0});
  int left = 0, right = 0;
  for (int64_t i = 0; i < 300; ++i) {
    SampleRandom random(1, 0, i), again(1, 0, i);
    const HostTensor part = crop(image, random);
    REQUIRE(part.shape() == Shape(80, 100, 2));
    const uint8_t* p = part.as<uint8_t>();
    const int last = 2 * (80 * 100 - 1), w = p[last] - p[0] + 1, h = p[last + 1] - p[1] + 1;
    CHECK(w * h > 0.1 * 2000 - w - h);
    CHECK(w * h < 0.5 * 2000 + w + h);
    CHECK(double(w) / h > 0.4);
    CHECK(double(w) / h < 2.4);
    left += p[0]<5, right += p[last]> 44;
    CHECK(difference(part.to_array(), crop(image, again).to_array()).count == 0);
  }
  CHECK(left > 10);
  CHECK(right > 10);
  // no attempt fits: the middle
  SampleRandom random(0, 0, 0);
  RandomResizedCrop too_large(ImageSize(10), {.scale = {3, 4}});
  CHECK(difference(too_large(image, random).to_array(), CenterCrop(10)(image).to_array()).count == 0);
}

TEST_CASE("transforms: probabilities of flips, rotations and RandomApply") {
  const HostTensor image = noise({3, 2, 1}), tensor = noise({1, 4, 4}, DType::float32);
  const auto share = [](const HostTensor& x, const Transform& transform) {
    int changed = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      SampleRandom random(0, 1, i);
      changed += difference(transform(x, random).to_array(), x.to_array()).count != 0;
    }
    return changed;
  };
  CHECK(std::abs(share(image, RandomFlipTopBottom()) - 500) < 80);
  CHECK(std::abs(share(image, RandomFlipLeftRight()) - 500) < 80);
  CHECK(std::abs(share(tensor, RandomRotation(5, 10, {.rotate_with_proba = 0.2})) - 200) < 70);
  CHECK(std::abs(share(image, RandomApply(CropResize(0, 1, 2, 2, ImageSize(2, 3)), 0.7)) - 700) < 80);
  CHECK(share(image, RandomApply(Compose({RandomFlipTopBottom()}), 0)) == 0);
  SampleRandom random(0, 0, 0);
  HostTensor flipped = image;
  for (int64_t i = 0; difference(flipped.to_array(), image.to_array()).count == 0; ++i) {
    SampleRandom own(0, 0, i);
    flipped = RandomFlipTopBottom()(image, own);
  }
  CHECK(flipped.as<uint8_t>()[0] == image.as<uint8_t>()[4]);
  CHECK(flipped.as<uint8_t>()[3] == image.as<uint8_t>()[3]);
}

TEST_CASE("transforms: a loader's augmented batches do not depend on the number of workers") {
  Dataset d(24, [](int64_t i) {
    SampleRandom random(9, 9, i);
    HostTensor image({20 + i % 5, 18, 3}, DType::uint8);
    for (int64_t k = 0; k < image.size(); ++k) image.mutable_as<uint8_t>()[k] = uint8_t(random.below(256));
    return Sample(std::move(image), int(i));
  });
  Compose augment({RandomResizedCrop(12), RandomFlipLeftRight(),
                   RandomApply(RandomColorJitter(0.3, 0.3, 0.3, 0.1), 0.8), RandomLighting(0.1), ToTensor(),
                   RandomRotation(-20, 20), Normalize({0.5f}, {0.25f})});
  const auto load = [&](int workers) {
    std::vector<std::vector<float>> all;
    DataLoader loader(d.transform_first(augment), {.batch_size = 5, .shuffle = true, .workers = workers, .seed = 6});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (Batch& batch : loader.sync()) all.push_back(batch.data.asvector<float>());
    }
    return all;
  };
  const auto expected = load(0);
  CHECK(expected[0] != expected[5]);
  for (int workers : {1, 2, 4}) CHECK(load(workers) == expected);
}

TEST_CASE("transforms: messages say what, expected and got") {
  const HostTensor image = noise({3, 4, 3}), grey = noise({3, 4, 2});
  SampleRandom random(0, 0, 0);
  CHECK(message([] { Resize(0); }) == "[Resize] size: expected 1 to 1048576, got 0 x 0");
  CHECK(message([] { Resize(3, {.interpolation = 5}); }) == "[Resize] interpolation: expected 0 to 4 or 9, got 5");
  CHECK(message([] { RandomResizedCrop(3, {.interpolation = 11}); }) ==
        "[RandomResizedCrop] interpolation: expected 0 to 4 or 9 or 10, got 11");
  CHECK(message([] {
          RandomResizedCrop(3, {.ratio = {2, 1}});
        }) == "[RandomResizedCrop] ratio: expected positive numbers in order, got 2 and 1");
  CHECK(message([&] { CropResize(2, 0, 3, 3)(image); }) ==
        "[CropResize] 3 columns from 2 on and 3 rows from 0 on do not lie in an image of shape (3, 4, 3)");
  CHECK(message([&] {
          Resize(3)(HostTensor({0, 4, 3}, DType::uint8));
        }) == "[Resize] expected an image with pixels, got shape (0, 4, 3)");
  CHECK(message([&] {
          Resize(3)(HostTensor({2, 4, 3}, DType::int32));
        }) == "[Resize] expected dtype uint8 or float32, got int32");
  CHECK(message([&] {
          CenterCrop(3)(HostTensor({2, 4}, DType::uint8));
        }) == "[CenterCrop] expected an image (height, width, channels), got shape (2, 4)");
  CHECK(message([&] { Rotate(3)(image); }) == "[Rotate] expected dtype float32, as after ToTensor, got uint8");
  CHECK(message([] { Rotate(3, {.zoom_in = true, .zoom_out = true}); }) ==
        "[Rotate] zoom_in and zoom_out must not both be true");
  CHECK(message([] { RandomRotation(3, 3); }) == "[RandomRotation] expected two angles in order, got 3 and 3");
  CHECK(message([] { RandomHue(-1); }) == "[RandomHue] expected an amount of at least 0, got -1");
  CHECK(message([&] { RandomContrast(1)(grey, random); }) ==
        "[RandomContrast] expected an image of 1 or 3 channels, got shape (3, 4, 2)");
  CHECK(message([] { RandomApply(ToTensor(), 1.5); }) == "[RandomApply] p: expected 0 to 1, got 1.5");
}

}  // namespace transforms_test
