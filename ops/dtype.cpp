#include "kaon/ops/dtype.h"

namespace kaon {

// float -> half: round to nearest even; too large becomes infinity, NaN stays a quiet NaN.
float16::float16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t magnitude = u & 0x7fffffff;
  uint32_t result;
  if (magnitude > 0x7f800000) {
    result = 0x7e00 | ((magnitude >> 13) & 0x1ff);
  } else if (magnitude >= 0x477ff000) {  // 65520 and above round beyond the largest half, 65504
    result = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal halves, from 2^-14; the exponent's bias changes from 127 to 15
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    result = (rounded - 0x38000000) >> 13;
  } else {
    // Subnormal: adding 0.5 lets the float adder align and round; the bits of the sum's mantissa are the answer.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    result = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
  }
  bits = uint16_t(sign | result);
}

float16::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  uint32_t result;
  if (magnitude >= 0x7c00) {  // infinity and NaN
    result = 0x7f800000 | ((magnitude & 0x3ff) << 13);
  } else if (magnitude >= 0x400) {
    result = (magnitude << 13) + 0x38000000;
  } else {  // subnormal: a small integer times 2^-24
    result = std::bit_cast<uint32_t>(float(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | result);
}

}  // namespace kaon
