#include "kaon/mxnet/call/sparse_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/call/layer_operators.h"
#include "kaon/mxnet/call/result_storage.h"
#include "kaon/mxnet/call/sparse_updates.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

using ops::StorageType;
using sparse::CSRNDArray;
using sparse::RowSparseNDArray;

namespace {

std::shared_ptr<SparseArray> with_parts(const SparseArray& like, NDArray data) {
  auto made = std::make_shared<SparseArray>();
  made->storage = like.storage;
  made->shape = like.shape;
  made->aux = like.aux;
  made->dtype = data.dtype();
  made->data = std::move(data);
  return made;
}

Results one_sparse(std::shared_ptr<SparseArray> array, Context context) {
  Results results;
  results.push_back(std::make_unique<ArrayObject>(std::move(array), context));
  return results;
}

std::shared_ptr<SparseArray> from_dense(StorageType storage, const NDArray& dense) {
  auto made = nothing_stored(storage, dense.shape(), dense.dtype(), dense.device());
  assign(*made, dense);
  return made;
}

// Stores the elements that `like` stores.
std::shared_ptr<SparseArray> from_dense(SparseArray& like, const NDArray& dense) {
  auto made = nothing_stored(like.storage, dense.shape(), dense.dtype(), dense.device());
  assign_like(*made, dense, like);
  return made;
}

std::shared_ptr<SparseArray> from_rows(const RowSparseNDArray& rows) {
  auto made = std::make_shared<SparseArray>();
  made->storage = StorageType::row_sparse;
  made->shape = rows.shape();
  made->dtype = rows.dtype();
  made->data = rows.data();
  made->aux = {rows.indices()};
  return made;
}

std::shared_ptr<SparseArray> from_csr(const CSRNDArray& csr) {
  auto made = std::make_shared<SparseArray>();
  made->storage = StorageType::csr;
  made->shape = csr.shape();
  made->dtype = csr.dtype();
  made->data = csr.data();
  made->aux = {csr.indptr(), csr.indices()};
  return made;
}

StorageType storage_of(const ArrayObject& object) {
  return object.sparse ? object.sparse->storage : StorageType::dense;
}

std::vector<StorageType> storages_of(Arrays arrays) {
  std::vector<StorageType> storages;
  for (const ArrayObject* x : arrays) storages.push_back(storage_of(*x));
  return storages;
}

// --- Operators with functions for sparse arrays

Results cast_storage(const OperatorInfo& info, Texts texts, Arrays inputs) {
  const StorageType storage = named_storage(info, texts, "stype").value_or(StorageType::dense);
  ArrayObject& from = *inputs[0];
  if (storage != StorageType::dense) {
    if (from.sparse && from.sparse->storage == storage) {
      refresh(*from.sparse);
      return one_sparse(std::make_shared<SparseArray>(*from.sparse), from.context);
    }
    return one_sparse(from_dense(storage, in_this_process(to_dense(from))), from.context);
  }
  return one_result(nd.identity(In<NDArray>(in_this_process(to_dense(from)), no_site)), from.context);
}

Results dot(const OperatorInfo& info, Texts texts, Arrays inputs) {
  const sparse::DotOptions options{.transpose_a = attribute(info, texts, "transpose_a", false),
                                   .transpose_b = attribute(info, texts, "transpose_b", false)};
  const Context context = inputs[0]->context;
  const StorageType a = storage_of(*inputs[0]);
  std::optional<StorageType> wanted = named_storage(info, texts, "forward_stype");
  if (a == StorageType::csr && !inputs[0]->sparse->recorded.defined()) {
    const CSRNDArray lhs = csr_of(*inputs[0]->sparse);
    const NDArray rhs = to_dense(*inputs[1]);
    const bool rows = options.transpose_a && !options.transpose_b && rhs.ndim() == 2 && !autograd::is_recording();
    if (rows && wanted.value_or(StorageType::row_sparse) == StorageType::row_sparse) {
      return one_sparse(from_rows(sparse::dot<RowSparseNDArray>(lhs, rhs, options)), context);
    }
    return one_result(sparse::dot(lhs, rhs, options), context);
  }
  const NDArray product = nd.dot(to_dense(*inputs[0]), to_dense(*inputs[1]),
                                 {.transpose_a = options.transpose_a, .transpose_b = options.transpose_b});
  const bool gives_csr = a == StorageType::dense && storage_of(*inputs[1]) == StorageType::csr &&
                         wanted.value_or(StorageType::csr) == StorageType::csr && !autograd::is_recording();
  if (gives_csr) return one_sparse(from_dense(StorageType::csr, product), context);
  return one_result(product, context);
}

// The sparse call of an operator, where there is one; nullptr: the dense one.
using SparseCall = Results (*)(const OperatorInfo& info, Texts texts, Arrays inputs);

// That nothing is stored is known: the sizes in the scope are NumPy's.
class KnownSizes {
 public:
  KnownSizes() : before_(numpy_shape()) {
    if (before_ == NumpyShape::off) set_numpy_shape(int(NumpyShape::thread));
  }
  ~KnownSizes() {
    if (before_ == NumpyShape::off) set_numpy_shape(int(NumpyShape::off));
  }
  KnownSizes(const KnownSizes&) = delete;
  KnownSizes& operator=(const KnownSizes&) = delete;

 private:
  const NumpyShape before_;
};

Results on_stored(const OperatorInfo& info, Texts texts, Arrays inputs) {
  SparseArray& array = *inputs[0]->sparse;
  refresh(array);
  const KnownSizes known;
  ArrayObject stored(array.data, inputs[0]->context);
  ArrayObject* const only[] = {&stored};
  Results results = call_operator(info, texts, only);
  return one_sparse(with_parts(array, results[0]->array), results[0]->context);
}

Results zeros_like(const OperatorInfo&, Texts, Arrays inputs) {
  const SparseArray& array = *inputs[0]->sparse;
  return one_sparse(nothing_stored(array.storage, array.shape, array.dtype, inputs[0]->context.device()),
                    inputs[0]->context);
}

Results add(const OperatorInfo&, Texts, Arrays inputs) {
  SparseArray &a = *inputs[0]->sparse, &b = *inputs[1]->sparse;
  const Context context = inputs[0]->context;
  if (a.storage == StorageType::csr) return one_sparse(from_csr(sparse::elemwise_add(csr_of(a), csr_of(b))), context);
  return one_sparse(from_rows(sparse::elemwise_add(rows_of(a), rows_of(b))), context);
}

Results retain(const OperatorInfo&, Texts, Arrays inputs) {
  const NDArray indices = to_dense(*inputs[1]).astype(DType::int64, no_site);
  return one_sparse(from_rows(sparse::retain(rows_of(*inputs[0]->sparse), indices)), inputs[0]->context);
}

Results square_sum(const OperatorInfo& info, Texts texts, Arrays inputs) {
  const Shape axes = attribute(info, texts, "axis", Shape());
  if (axes.ndim() != 1) throw ValueError(fmt::format("[{}] expected one axis, got {}", info.name, axes.str()));
  const bool keepdims = attribute(info, texts, "keepdims", false);
  SparseArray& array = *inputs[0]->sparse;
  const NDArray sums = sparse::square_sum(rows_of(array), int(axes[0]), keepdims);
  const StorageType storages[] = {StorageType::row_sparse};
  if (result_storage(info, texts, storages) == StorageType::dense) return one_result(sums, inputs[0]->context);
  return one_sparse(from_dense(array, sums), inputs[0]->context);
}

Results getnnz(const OperatorInfo& info, Texts texts, Arrays inputs) {
  std::optional<int> axis;
  const std::string_view text = find_text(texts, "axis");
  if (!text.empty() && !ops::from_text(text, axis)) refuse_text(info, "axis", text);
  return one_result(sparse::getnnz(csr_of(*inputs[0]->sparse), axis), inputs[0]->context);
}

SparseCall find_sparse_call(const OperatorInfo& info, Arrays inputs) {
  const std::string_view name = info.name;
  if (name == "cast_storage") return inputs.size() == 1 ? cast_storage : nullptr;
  const StorageType first = inputs.empty() ? StorageType::dense : storage_of(*inputs[0]);
  const std::vector<StorageType> storages = storages_of(inputs);
  if (name == "dot") return inputs.size() == 2 ? dot : nullptr;
  if (first == StorageType::dense || inputs[0]->sparse->recorded.defined()) return nullptr;
  if (name == "zeros_like") return zeros_like;
  if (name == "_sparse_retain" && inputs.size() == 2) return retain;
  if (inputs.size() == 1 && name != "_square_sum" && keeps_pattern(info, storages)) return on_stored;
  if (name == "_square_sum" && first == StorageType::row_sparse) return square_sum;
  if (name == "_contrib_getnnz" && first == StorageType::csr) return getnnz;
  const bool both = inputs.size() == 2 && storage_of(*inputs[1]) == first;
  if (name == "elemwise_add" && both && inputs[0]->sparse->dtype == inputs[1]->sparse->dtype) return add;
  return nullptr;
}

Results call_dense(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  std::vector<std::unique_ptr<ArrayObject>> made;
  std::vector<ArrayObject*> dense;
  for (ArrayObject* x : inputs) {
    dense.push_back(x->sparse ? made.emplace_back(std::make_unique<ArrayObject>(to_dense(*x), x->context)).get() : x);
  }
  if (info.name == "FullyConnected" && inputs.size() == 3 && inputs[2]->sparse) {  // a bias of one column, for its rows
    dense[2]->array = dense[2]->array.reshape(Shape(-1), no_site);
  }
  const bool is_filled = inputs.empty() && !outputs.empty() && outputs[0]->sparse;
  if (is_filled) {
    const SparseArray& target = *outputs[0]->sparse;
    made.push_back(std::make_unique<ArrayObject>(
        NDArray::empty(target.shape, target.dtype, outputs[0]->context.device()), outputs[0]->context));
    ArrayObject* const only[] = {made.back().get()};
    call_operator(info, texts, dense, only);
    return one_result(only[0]->array, outputs[0]->context);
  }
  return call_operator(info, texts, dense);
}

}  // namespace

bool is_sparse_call(const OperatorInfo& info, Texts, Arrays inputs, Arrays outputs) {
  const auto is_sparse = [](const ArrayObject* x) { return x->sparse != nullptr; };
  return std::ranges::any_of(inputs, is_sparse) || std::ranges::any_of(outputs, is_sparse) ||
         (info.name == "cast_storage" && inputs.size() == 1);
}

Results call_sparse(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  for (const ArrayObject* x : inputs) {
    if (x->is_none()) throw StateError(fmt::format("[{}] an input holds no array", info.name));
  }
  if (std::optional<Results> updated = update_sparse(info, texts, inputs, outputs)) return std::move(*updated);
  if (info.name == "_copyto" && inputs.size() == 1) {
    const bool to_sparse = !outputs.empty() && outputs[0]->sparse;
    if (inputs[0]->sparse && (to_sparse || outputs.empty())) return on_stored(*find_operator("_copy"), {}, inputs);
    return one_result(to_dense(*inputs[0]), to_sparse ? outputs[0]->context : inputs[0]->context);
  }
  if (const SparseCall call = find_sparse_call(info, inputs)) return call(info, texts, inputs);
  const std::vector<StorageType> storages = storages_of(inputs);
  Results results = call_dense(info, texts, inputs, outputs);
  if (autograd::is_recording() || results.size() != 1) return results;
  const StorageType storage = result_storage(info, texts, storages);
  if (storage == StorageType::dense) return results;
  if (keeps_pattern(info, storages)) {
    return one_sparse(from_dense(*inputs[0]->sparse, results[0]->array), results[0]->context);
  }
  return one_sparse(from_dense(storage, results[0]->array), results[0]->context);
}

void put_any_result(ArrayObject& output, ArrayObject& result) {
  if (output.is_none()) {
    output = result;
  } else if (!output.sparse) {
    put_result(output, to_dense(result), result.context);
  } else {
    const autograd::ModeScope mode(false, autograd::is_training());
    if (result.sparse && result.sparse->storage == output.sparse->storage) {
      assign(*output.sparse, *result.sparse);
    } else {
      assign(*output.sparse, in_this_process(to_dense(result)));
    }
  }
}

}  // namespace kaon::mxnet
