#include "kaon/mxnet/call/result_storage.h"

#include <algorithm>

#include "kaon/mxnet/call/layer_operators.h"

namespace kaon::mxnet {

using ops::StorageType;

namespace {

template <size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::ranges::find(names, name) != std::end(names);
}

// Of one array, and 0 for 0: they change what is stored and nothing else.
constexpr std::string_view keep_zeros[] = {"abs",
                                           "sign",
                                           "rint",
                                           "ceil",
                                           "floor",
                                           "trunc",
                                           "fix",
                                           "round",
                                           "sqrt",
                                           "cbrt",
                                           "square",
                                           "sin",
                                           "tan",
                                           "arcsin",
                                           "arctan",
                                           "sinh",
                                           "tanh",
                                           "arcsinh",
                                           "arctanh",
                                           "expm1",
                                           "log1p",
                                           "degrees",
                                           "radians",
                                           "relu",
                                           "_copy",
                                           "negative",
                                           "BlockGrad",
                                           "make_loss",
                                           "_mul_scalar",
                                           "_div_scalar",
                                           "Cast",
                                           "_scatter_plus_scalar",
                                           "_scatter_minus_scalar"};
// Of arrays that are all stored in one way, as which the result is stored.
constexpr std::string_view keep_storage[] = {"elemwise_add", "elemwise_sub", "elemwise_mul", "add_n",
                                             "_grad_add",    "_maximum",     "_minimum",     "_hypot"};

// Of a comparison with a number: what it gives for a zero.
std::optional<bool> compares_zero(std::string_view name, double number) {
  if (name == "_equal_scalar") return 0 == number;
  if (name == "_not_equal_scalar") return 0 != number;
  if (name == "_greater_scalar") return 0 > number;
  if (name == "_greater_equal_scalar") return 0 >= number;
  if (name == "_lesser_scalar") return 0 < number;
  if (name == "_lesser_equal_scalar") return 0 <= number;
  return std::nullopt;
}

StorageType product_storage(const OperatorInfo& info, Texts texts, StorageType lhs, StorageType rhs) {
  const std::optional<StorageType> wanted = named_storage(info, texts, "forward_stype");
  if (lhs == StorageType::csr) {
    const bool rows = attribute(info, texts, "transpose_a", false) && !attribute(info, texts, "transpose_b", false) &&
                      wanted.value_or(StorageType::row_sparse) == StorageType::row_sparse;
    return rows ? StorageType::row_sparse : StorageType::dense;
  }
  const bool csr =
      lhs == StorageType::dense && rhs == StorageType::csr && wanted.value_or(StorageType::csr) == StorageType::csr;
  return csr ? StorageType::csr : StorageType::dense;
}

bool sums_rows(const OperatorInfo& info, Texts texts) {
  const Shape axes = attribute(info, texts, "axis", Shape());
  return axes == Shape(1) && attribute(info, texts, "keepdims", false);
}

}  // namespace

std::optional<StorageType> named_storage(const OperatorInfo& info, Texts texts, std::string_view key) {
  const std::string_view text = find_text(texts, key);
  if (text.empty() || text == "None") return std::nullopt;
  if (text == "default") return StorageType::dense;
  if (text == "row_sparse") return StorageType::row_sparse;
  if (text == "csr") return StorageType::csr;
  refuse_text(info, key, text);
}

bool keeps_pattern(const OperatorInfo& info, std::span<const StorageType> inputs) {
  if (inputs.empty() || inputs[0] == StorageType::dense) return false;
  if (inputs[0] == StorageType::row_sparse && (info.name == "_scatter_elemwise_div" || info.name == "_square_sum")) {
    return true;
  }
  return inputs.size() == 1 && is_one_of(info.name, keep_zeros);
}

StorageType result_storage(const OperatorInfo& info, Texts texts, std::span<const StorageType> inputs) {
  if (inputs.empty()) return StorageType::dense;
  const std::string_view name = info.name;
  const StorageType first = inputs[0];
  if (name == "cast_storage") return named_storage(info, texts, "stype").value_or(StorageType::dense);
  if (inputs.size() == 2 && name == "dot") return product_storage(info, texts, first, inputs[1]);
  if (inputs.size() == 2 && name == "elemwise_mul" && first != inputs[1]) {
    if (first == StorageType::dense) return inputs[1];
    return inputs[1] == StorageType::dense ? first : StorageType::dense;
  }
  if (first == StorageType::dense) return first;
  if (inputs.size() == 1 && is_one_of(name, keep_zeros)) return first;
  const bool same = std::ranges::all_of(inputs, [&](StorageType s) { return s == first; });
  if (same && is_one_of(name, keep_storage)) return first;
  if (inputs.size() == 1 && name.ends_with("_scalar")) {
    const std::optional<bool> zero = compares_zero(name, attribute(info, texts, "scalar", 0.0));
    if (zero && !*zero) return first;
  }
  if (name == "clip" || name == "zeros_like") return first;
  if (first == StorageType::row_sparse) {
    if (name == "_scatter_elemwise_div" || name == "_sparse_retain") return first;
    return name == "_square_sum" && sums_rows(info, texts) ? first : StorageType::dense;
  }
  if (name == "broadcast_mul" || name == "broadcast_div" || (same && (name == "slice" || name == "Concat"))) {
    return first;
  }
  if (name == "take" && attribute(info, texts, "axis", 0) == 0) return first;
  return name == "_contrib_quadratic" && attribute(info, texts, "c", 0.0) == 0 ? first : StorageType::dense;
}

}  // namespace kaon::mxnet
