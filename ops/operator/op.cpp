#include "kaon/ops/op.h"

#include <algorithm>

namespace kaon {

using namespace ops;

int RowQuery::count() const {
  return int(std::count_if(inputs_.begin(), inputs_.end(), [](const Input& i) { return i.has_rows; }));
}

bool RowQuery::names_first(const Shape& axes) const {
  return std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return is_first(a); });
}

bool RowQuery::is_aligned() const {
  const int dims = output_.shape.ndim();
  for (int i = 0; i < num_inputs(); ++i) {
    if (has_rows(i) ? ndim(i) != dims : ndim(i) == dims && shape(i)[0] != 1) return false;
  }
  return true;
}

}  // namespace kaon
