#include "kaon/gluon/data/internal/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <vector>

namespace kaon::gluon::data::detail {
namespace {

// What each element along an axis of the result is made of: weights of elements of the image.
struct Taps {
  std::vector<size_t> begin;  // of each element in the other two, and their end
  std::vector<int64_t> from;
  std::vector<float> weight;
  std::vector<int32_t> whole;  // the weights in units of 1/2048, as OpenCV has them for uint8
};

class TapsBuilder {
 public:
  TapsBuilder(int64_t in, int64_t out)
      : in_(in), out_(out), scale_(1 / (double(out) / double(in))) {}  // as OpenCV rounds it

  // `both_shrink`: along the other axis too; area is an average only then. Along a row, bilinear takes one pixel at the
  // edges, where a column takes it twice: weights in fractions differ by that.
  Taps build(int interpolation, bool both_shrink, bool is_row) {
    for (int64_t i = 0; i < out_; ++i) {
      taps_.begin.push_back(taps_.from.size());
      switch (interpolation) {
        case 0: add(int64_t(std::floor(double(i) * scale_)), 1); break;
        case 1: add_linear(i, is_row); break;
        case 2: add_cubic(i); break;
        case 3: both_shrink ? add_area(i) : add_narrow(i); break;
        default: add_lanczos(i);
      }
    }
    taps_.begin.push_back(taps_.from.size());
    return std::move(taps_);
  }

 private:
  // The edge is repeated beyond it.
  void add(int64_t from, double weight) {
    taps_.from.push_back(std::clamp<int64_t>(from, 0, in_ - 1));
    taps_.weight.push_back(float(weight));
    taps_.whole.push_back(int32_t(std::nearbyint(taps_.weight.back() * 2048)));
  }
  // The middle of element i in the image: its left neighbour, and how far it is from that.
  int64_t middle(int64_t i, float& part) const {
    const auto at = float((double(i) + 0.5) * scale_ - 0.5);
    const float left = std::floor(at);
    part = at - left;
    return int64_t(left);
  }
  void add_linear(int64_t i, bool is_row) {
    float part;
    const int64_t left = middle(i, part);
    if (is_row && (left < 0 || left >= in_ - 1)) part = 0;
    add(left, 1 - part);
    add(left + 1, part);
  }
  void add_cubic(int64_t i) {  // Keys 1981
    constexpr float a = -0.75f;
    float x;
    const int64_t left = middle(i, x);
    const auto near = [&](float t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
    const float first = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a, second = near(x),
                third = near(1 - x);
    add(left - 1, first);
    add(left, second);
    add(left + 1, third);
    add(left + 2, 1 - first - second - third);
  }
  void add_lanczos(int64_t i) {  // sinc(t) sinc(t / 4), of sum 1
    float x;
    const int64_t left = middle(i, x);
    const auto sinc = [](double t) { return t == 0 ? 1 : std::sin(std::numbers::pi * t) / (std::numbers::pi * t); };
    double weights[8], sum = 0;
    for (int k = 0; k < 8; ++k) {
      const double t = double(x) + 3 - k;
      sum += weights[k] = sinc(t) * sinc(t / 4);
    }
    for (int k = 0; k < 8; ++k) add(left - 3 + k, weights[k] / sum);
  }
  void add_area(int64_t i) {  // the average over the element's part of the image
    const double begin = double(i) * scale_, end = std::min(begin + scale_, double(in_));
    for (auto k = int64_t(std::floor(begin)); double(k) < end; ++k) {
      const double part = std::min(double(k + 1), end) - std::max(double(k), begin);
      if (part > 1e-6) add(k, part / (end - begin));
    }
  }
  // Of larger images: nearest, but for elements that two of the image share.
  void add_narrow(int64_t i) {
    const auto left = int64_t(std::floor(double(i) * scale_));
    auto part = float(double(i + 1) - double(left + 1) / scale_);
    part = part <= 0 ? 0 : part - std::floor(part);
    add(left, 1 - part);
    add(left + 1, part);
  }

  const int64_t in_, out_;
  const double scale_;
  Taps taps_;
};

// Sums of weighted numbers along rows, and of these along columns. In float32:
struct Exact {
  using Row = float;
  using Sum = float;
  static float weight(const Taps& taps, size_t k) { return taps.weight[k]; }
  static float part(float weight, float row) { return weight * row; }
  static void store(float sum, float& out) { out = sum; }
  static void store(float sum, uint8_t& out) { out = uint8_t(std::clamp(std::nearbyint(sum), 0.0f, 255.0f)); }
};
// In whole numbers, with OpenCV's roundings: bilinear drops bits of each part, others round the sum.
struct Whole {
  using Row = int32_t;
  using Sum = int64_t;
  static int32_t weight(const Taps& taps, size_t k) { return taps.whole[k]; }
  static int64_t part(int64_t weight, int64_t row) { return weight * row; }
  static void store(int64_t sum, uint8_t& out) { out = uint8_t(std::clamp<int64_t>((sum + (1 << 21)) >> 22, 0, 255)); }
};
struct WholeLinear : Whole {
  using Sum = int32_t;
  static int32_t part(int32_t weight, int32_t row) { return (weight * (row >> 4)) >> 16; }
  static void store(int32_t sum, uint8_t& out) { out = uint8_t(std::clamp((sum + 2) >> 2, 0, 255)); }
};

// `channels` is a constant where that is 1 or 3: sums stay in registers then.
template <class Numbers, class T, class Channels>
void along_row(const T* in, Channels channels, const Taps& x, typename Numbers::Row* out) {
  using Row = typename Numbers::Row;
  const size_t width = x.begin.size() - 1;
  for (size_t j = 0; j < width; ++j, out += channels) {
    if constexpr (!std::is_same_v<Channels, int64_t>) {
      Row sums[Channels::value]{};
      for (size_t t = x.begin[j]; t < x.begin[j + 1]; ++t) {
        const T* pixel = in + x.from[t] * channels;
        const Row weight = Numbers::weight(x, t);
        for (int64_t c = 0; c < channels; ++c) sums[c] += weight * Row(pixel[c]);
      }
      for (int64_t c = 0; c < channels; ++c) out[c] = sums[c];
    } else {
      for (size_t t = x.begin[j]; t < x.begin[j + 1]; ++t) {
        const T* pixel = in + x.from[t] * channels;
        const Row weight = Numbers::weight(x, t);
        for (int64_t c = 0; c < channels; ++c) out[c] += weight * Row(pixel[c]);
      }
    }
  }
}

// Along rows, for those that are needed; then along columns.
template <class Numbers, class T>
void resize(const HostTensor& image, const Taps& x, const Taps& y, HostTensor& result) {
  using Row = typename Numbers::Row;
  using Sum = typename Numbers::Sum;
  const T* in = image.as<T>();
  T* out = result.mutable_as<T>();
  const int64_t in_height = image.shape()[0], in_width = image.shape()[1], channels = image.shape()[2];
  const int64_t height = result.shape()[0], width = result.shape()[1], row = width * channels;
  std::vector<std::vector<Row>> rows(static_cast<size_t>(in_height));
  int64_t kept = 0;  // rows before are not needed any more
  std::vector<Sum> sum(static_cast<size_t>(row));
  for (int64_t i = 0; i < height; ++i) {
    std::ranges::fill(sum, Sum(0));
    int64_t first = in_height;
    for (size_t k = y.begin[size_t(i)]; k < y.begin[size_t(i) + 1]; ++k) {
      const int64_t from = y.from[k];
      first = std::min(first, from);
      std::vector<Row>& made = rows[size_t(from)];
      if (made.empty()) {
        made.resize(size_t(row));
        const T* source = in + from * in_width * channels;
        if (channels == 3) {
          along_row<Numbers>(source, std::integral_constant<int64_t, 3>(), x, made.data());
        } else if (channels == 1) {
          along_row<Numbers>(source, std::integral_constant<int64_t, 1>(), x, made.data());
        } else {
          along_row<Numbers>(source, channels, x, made.data());
        }
      }
      const Row weight = Numbers::weight(y, k);
      for (int64_t j = 0; j < row; ++j) sum[size_t(j)] += Numbers::part(weight, made[size_t(j)]);
    }
    for (; kept < first; ++kept) rows[size_t(kept)] = {};
    for (int64_t j = 0; j < row; ++j) Numbers::store(sum[size_t(j)], out[i * row + j]);
  }
}

}  // namespace

void check_image(const HostTensor& image, const char* what, const char* layout) {
  if (!image.defined() || image.shape().ndim() != 3) {
    throw ShapeError(fmt::format("[{}] expected an image ({}), got shape {}", what, layout,
                                 image.defined() ? image.shape().str() : "none"));
  }
}

HostTensor cropped(const HostTensor& image, int64_t x, int64_t y, int64_t width, int64_t height) {
  const int64_t channels = image.shape()[2];
  HostTensor part({height, width, channels}, image.dtype());
  const size_t pixel = size_t(channels) * size_of(image.dtype()), row = size_t(width) * pixel;
  std::byte* out = part.mutable_data();
  for (int64_t i = 0; i < height && row > 0; ++i) {
    std::memcpy(out + size_t(i) * row, image.data() + size_t((y + i) * image.shape()[1] + x) * pixel, row);
  }
  return part;
}

HostTensor resized(const HostTensor& image, int64_t width, int64_t height, int interpolation, const char* what) {
  const int64_t in_height = image.shape()[0], in_width = image.shape()[1], channels = image.shape()[2];
  if (interpolation == 9) {
    interpolation = height > in_height && width > in_width ? 2 : height < in_height && width < in_width ? 3 : 1;
  }
  if (in_height == 0 || in_width == 0) {
    throw ShapeError(fmt::format("[{}] expected an image with pixels, got shape {}", what, image.shape().str()));
  }
  if (image.dtype() != DType::uint8 && image.dtype() != DType::float32) {
    throw TypeError(fmt::format("[{}] expected dtype uint8 or float32, got {}", what, name_of(image.dtype())));
  }
  HostTensor result({height, width, channels}, image.dtype());
  const bool both_shrink = in_height >= height && in_width >= width;
  const Taps x = TapsBuilder(in_width, width).build(interpolation, both_shrink, true);
  const Taps y = TapsBuilder(in_height, height).build(interpolation, both_shrink, false);
  if (image.dtype() == DType::float32) {
    resize<Exact, float>(image, x, y, result);
  } else if (interpolation == 0 || (interpolation == 3 && both_shrink)) {
    resize<Exact, uint8_t>(image, x, y, result);
  } else if (interpolation == 1 || interpolation == 3) {
    resize<WholeLinear, uint8_t>(image, x, y, result);
  } else {
    resize<Whole, uint8_t>(image, x, y, result);
  }
  return result;
}

}  // namespace kaon::gluon::data::detail
