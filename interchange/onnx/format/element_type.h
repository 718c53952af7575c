// The element types of ONNX, which are more than Kaon's: those of 2 to 8 bits that Kaon lacks travel as codes in uint8.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kaon/ops/dtype.h"

namespace kaon::onnx::format {

// The numbers of TensorProto.DataType.
enum class ElementType : int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
  float6e2m3 = 27,
  float6e3m2 = 28
};

std::string_view name_of(ElementType type);  // "FLOAT8E5M2"; "UNKNOWN" for other numbers
// How Kaon holds the elements; none: it does not (strings, complex numbers).
std::optional<DType> dtype_of(ElementType type);
ElementType element_type_of(DType dtype);
// Bits of an element in files; 0: no number of bits (strings).
int bits_of(ElementType type);
// Whether elements are codes in uint8, one in each: numbers of less than 8 bits and floats of 8.
bool is_coded(ElementType type);

// Of FLOAT8E8M0, which has powers of two alone.
enum class Rounding : uint8_t { up, down, nearest };

// The number that a code means, and the code of a number: rounded to nearest, halves to even. `saturate`: numbers out
// of range become the largest finite ones, else infinity or NaN, as ONNX's Cast has it; integers saturate where the
// caller wants that, else wrap.
float decode(ElementType type, uint8_t code);
uint8_t encode(ElementType type, float value, bool saturate, Rounding rounding = Rounding::up);

}  // namespace kaon::onnx::format
