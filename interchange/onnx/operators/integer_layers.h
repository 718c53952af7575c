// Convolutions and products of quantised tensors, computed with whole numbers.
#pragma once

#include <memory>
#include <optional>

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// Whether quantised layers are computed with whole numbers: where the processor multiplies these faster than floats.
// For a convolution that depends on its axes and groups.
bool computes_integers(int axes = 2, int64_t groups = 1);
// While one lives, conversions on this thread do so, or not, on every processor.
class IntegerScope {
 public:
  explicit IntegerScope(bool computes) : outer_(chosen_) { chosen_ = computes; }
  ~IntegerScope() { chosen_ = outer_; }
  IntegerScope(const IntegerScope&) = delete;
  IntegerScope& operator=(const IntegerScope&) = delete;
  static std::optional<bool> chosen() { return chosen_; }

 private:
  static inline thread_local std::optional<bool> chosen_;
  std::optional<bool> outer_;
};

// The numbers at input i with scale and zero point at the inputs `scale` (-1: of 1) and `zero`, where these are known
// and the dtype is int8 or uint8; else null. `axis`: of scales and zero points that are not one for all.
std::shared_ptr<const Levels> levels_of(const Call& c, int i, int scale, int zero, int axis);

// The convolution of data x and weights w with the call's attributes, and `bias`, numbers by filter or empty. Null
// where it is computed with floating numbers: on other processors, and for weights that are not known, or no int8
// without their zero point, data with zero points by channel.
std::shared_ptr<const IntegerLayer> integer_convolution(const Call& c, const std::shared_ptr<const Levels>& x,
                                                        const std::shared_ptr<const Levels>& w,
                                                        const std::vector<double>& bias);
// The product of x (..., k) and w (k, n), or (n, k) if `turned`, likewise.
std::shared_ptr<const IntegerLayer> integer_product(const Call& c, const std::shared_ptr<const Levels>& x,
                                                    const std::shared_ptr<const Levels>& w, bool turned,
                                                    const std::vector<double>& bias);
// Those of the call's first inputs, which DequantizeLinear has made, and the third as bias; null where they are others.
std::shared_ptr<const IntegerLayer> integer_convolution(const Call& c);
std::shared_ptr<const IntegerLayer> integer_product(const Call& c, bool turned);

// The sum of the call's two inputs, which DequantizeLinear has made of levels of one shape, and the largest numbers of
// the first one under windows that all reach it, whose values `numbers` are; null likewise.
std::shared_ptr<const IntegerLayer> integer_sum(const Call& c);
std::shared_ptr<const IntegerLayer> integer_max_pool(const Call& c, const Shape& kernel, const Shape& stride,
                                                     const Shape& pad, const Symbol& numbers);

// Numbers (float32) as levels of int8 or uint8, and back; of one scale and zero point for all.
Symbol quantised(const Symbol& numbers, DType out, double scale, int64_t zero);
Symbol dequantised(const Levels& x);

// Sets the output to the layer's numbers, float32.
void set_numbers(Call& c, const std::shared_ptr<const IntegerLayer>& layer);
// The layer's results as multiples of a step, plus `zero`: int8 or uint8.
Symbol as_levels(const IntegerLayer& layer, DType out, double step, int64_t zero);

}  // namespace kaon::onnx::convert
