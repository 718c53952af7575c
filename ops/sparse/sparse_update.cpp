#include <fmt/format.h>

#include <array>
#include <tuple>

#include "kaon/engine/error.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/sparse/sparse.h"

namespace kaon::sparse {

namespace {

// Updates the stored rows as an array of their own, and puts them back. `update` gets the rows of the weight and of
// each state.
template <class... States>
void update_rows(const RowSparseNDArray& grad, auto update, const NDArray& weight, const States&... states) {
  if (weight.shape() != grad.shape()) {
    throw ShapeError(
        fmt::format("[sparse.update] weight has shape {}, its gradient {}", weight.shape().str(), grad.shape().str()));
  }
  const auto rows_of = [&](const NDArray& x) {
    return nd.take(x, grad.indices(), {.axis = 0, .mode = IndexMode::raise});
  };
  const auto put_back = [&](const NDArray& x, const NDArray& rows) { x.at(grad.indices()) = rows; };
  const std::array<NDArray, 1 + sizeof...(States)> rows{rows_of(weight), rows_of(states)...};
  std::apply([&](const auto&... r) { update(r...); }, rows);
  size_t i = 0;
  put_back(weight, rows[i++]);
  (put_back(states, rows[i++]), ...);
}

}  // namespace

void sgd_update(const NDArray& weight, const RowSparseNDArray& grad, const op::SGDUpdate& op) {
  if (!op.lazy_update) return nd.sgd_update(weight, grad.todense(), op);
  update_rows(
      grad, [&](const NDArray& w) { nd.sgd_update(w, grad.data(), op); }, weight);
}

void sgd_mom_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& mom,
                    const op::SGDMomUpdate& op) {
  if (!op.lazy_update) return nd.sgd_mom_update(weight, grad.todense(), mom, op);
  update_rows(
      grad, [&](const NDArray& w, const NDArray& m) { nd.sgd_mom_update(w, grad.data(), m, op); }, weight, mom);
}

void adam_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& mean, const NDArray& var,
                 const op::AdamUpdate& op) {
  if (!op.lazy_update) return nd.adam_update(weight, grad.todense(), mean, var, op);
  const auto update = [&](const NDArray& w, const NDArray& m, const NDArray& v) {
    nd.adam_update(w, grad.data(), m, v, op);
  };
  update_rows(grad, update, weight, mean, var);
}

void ftrl_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& z, const NDArray& n,
                 const op::FtrlUpdate& op) {
  const auto update = [&](const NDArray& w, const NDArray& a, const NDArray& b) {
    nd.ftrl_update(w, grad.data(), a, b, op);
  };
  update_rows(grad, update, weight, z, n);
}

void adagrad_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& history,
                    const op::SparseAdagradUpdate& op) {
  update_rows(
      grad, [&](const NDArray& w, const NDArray& h) { nd._sparse_adagrad_update(w, grad.data(), h, op); }, weight,
      history);
}

void group_adagrad_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& history,
                          const op::GroupAdagradUpdate& op) {
  update_rows(
      grad, [&](const NDArray& w, const NDArray& h) { nd.group_adagrad_update(w, grad.data(), h, op); }, weight,
      history);
}

}  // namespace kaon::sparse
