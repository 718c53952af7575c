#include "kaon/ops/array_values.h"

#include <fmt/format.h>

namespace kaon {

using namespace ops;

namespace {
NDArray fill_with(const std::vector<ops::Number>& numbers, const Shape& shape, DType dtype, Device device) {
  const auto fill_from = [&]<class T>(T ops::Number::*value) {
    std::vector<T> values;
    values.reserve(numbers.size());
    for (const ops::Number& n : numbers) values.push_back(n.*value);
    return NDArray::from(values.data(), values.size(), shape, dtype, device);
  };
  bool are_integers = true, are_large = false;
  for (const ops::Number& n : numbers) are_integers &= n.is_integer, are_large |= n.is_large;
  // the bits of a large integer are those of the number modulo 2^64
  if (are_integers && !(are_large && is_floating(dtype))) return fill_from(&ops::Number::integer);
  return fill_from(&ops::Number::real);
}
}  // namespace

NDArray ArrayValues::fill(const Shape& shape, DType dtype, Device device) const {
  return fill_with(numbers_, shape, dtype, device);
}

ArrayRows::ArrayRows(const Row& r0, const Row& r1, const Row& r2, const Row& r3, const Row& r4, const Row& r5,
                     const Row& r6, const Row& r7, const Row& r8, const Row& r9, const Row& r10, const Row& r11,
                     const Row& r12, const Row& r13, const Row& r14, const Row& r15) {
  const Row* const rows[max_rows] = {&r0, &r1, &r2,  &r3,  &r4,  &r5,  &r6,  &r7,
                                     &r8, &r9, &r10, &r11, &r12, &r13, &r14, &r15};
  size_t count = max_rows;
  while (count > 1 && rows[count - 1]->numbers.empty()) --count;  // left out
  const size_t columns = r0.numbers.size();
  numbers_.reserve(count * columns);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<ops::Number>& row = rows[i]->numbers;
    if (row.size() != columns) {
      throw ShapeError(fmt::format("[array] row {} has {} values, row 0 has {}", i, row.size(), columns));
    }
    numbers_.insert(numbers_.end(), row.begin(), row.end());
  }
  shape_ = Shape(int64_t(count), int64_t(columns));
}

NDArray ArrayRows::fill(DType dtype, Device device) const { return fill_with(numbers_, shape_, dtype, device); }

}  // namespace kaon
