#include "kaon/mxnet/call/sparse_updates.h"

#include <algorithm>

#include "kaon/graph/autograd.h"

namespace kaon::mxnet {

namespace {

using Dense = std::vector<NDArray>;

// `states`: the inputs after weight and gradient.
using RowUpdate = void (*)(const void* attrs, const NDArray& weight, const sparse::RowSparseNDArray& grad,
                           const Dense& states);

template <class Op, auto update, size_t... state>
RowUpdate row_update(std::index_sequence<state...>) {
  return [](const void* attrs, const NDArray& weight, const sparse::RowSparseNDArray& grad, const Dense& states) {
    update(weight, grad, states[state]..., *static_cast<const Op*>(attrs));
  };
}

struct KnownUpdate {
  const OpDef* def;
  size_t num_inputs;
  RowUpdate update;
};

// nullptr: there is none for this operator.
RowUpdate find_row_update(const OpDef& def, size_t num_inputs) {
  using std::make_index_sequence;
  static const KnownUpdate known[] = {
      {&op::SGDUpdate::def, 2, row_update<op::SGDUpdate, sparse::sgd_update>(make_index_sequence<0>())},
      {&op::SGDMomUpdate::def, 3, row_update<op::SGDMomUpdate, sparse::sgd_mom_update>(make_index_sequence<1>())},
      {&op::AdamUpdate::def, 4, row_update<op::AdamUpdate, sparse::adam_update>(make_index_sequence<2>())},
      {&op::FtrlUpdate::def, 4, row_update<op::FtrlUpdate, sparse::ftrl_update>(make_index_sequence<2>())},
      {&op::SparseAdagradUpdate::def, 3,
       row_update<op::SparseAdagradUpdate, sparse::adagrad_update>(make_index_sequence<1>())},
      {&op::GroupAdagradUpdate::def, 3,
       row_update<op::GroupAdagradUpdate, sparse::group_adagrad_update>(make_index_sequence<1>())},
  };
  for (const KnownUpdate& k : known) {
    if (k.def == &def && k.num_inputs == num_inputs) return k.update;
  }
  return nullptr;
}

}  // namespace

std::optional<Results> update_sparse(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  if (!info.def || info.def->traits.outputs != 0 || info.def->traits.variadic || inputs.size() < 2) return std::nullopt;
  if (std::ranges::none_of(inputs, [](const ArrayObject* x) { return x->sparse != nullptr; })) return std::nullopt;
  const autograd::ModeScope mode(false, autograd::is_training());
  const ops::Attributes attributes = read_attributes(info, texts, int(inputs.size()));
  Dense dense;  // weight and states to write to
  for (size_t i = 0; i < inputs.size(); ++i) dense.push_back(i == 1 ? NDArray() : to_dense(*inputs[i]));
  const bool in_place =
      !outputs.empty() && outputs[0]->array.defined() && outputs[0]->array.ptr() == inputs[0]->array.ptr();
  if (!in_place && !inputs[0]->sparse) dense[0] = dense[0].copy();
  const bool has_rows = inputs[1]->sparse && inputs[1]->sparse->storage == ops::StorageType::row_sparse;
  const RowUpdate by_rows = has_rows ? find_row_update(*info.def, inputs.size()) : nullptr;
  if (by_rows) {
    by_rows(attributes.get(), dense[0], rows_of(*inputs[1]->sparse), Dense(dense.begin() + 2, dense.end()));
  } else {
    dense[1] = to_dense(*inputs[1]);
    std::vector<const NDArray*> all;
    for (const NDArray& x : dense) all.push_back(&x);
    NDArray::apply(*info.def, attributes.get(), all, {}, no_site, {});
  }
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i]->sparse) assign(*inputs[i]->sparse, dense[i]);
  }
  Results results;
  results.push_back(std::make_unique<ArrayObject>(dense[0], inputs[0]->context));
  return results;
}

}  // namespace kaon::mxnet
