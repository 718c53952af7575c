// The members of NDArray that deal with gradients.
#include <fmt/format.h>

#include <span>

#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/history.h"
#include "kaon/ops/functions.h"

namespace kaon {

using namespace graph;

void NDArray::attach_grad(GradReq req) {
  if (!is_floating(dtype())) {
    throw TypeError(fmt::format("[attach_grad] gradients need a floating dtype, got {}", name_of(dtype())));
  }
  if (req == GradReq::null) {
    node().annotation = nullptr;
    return;
  }
  autograd::ModeScope mode(false, false);
  attach_grad(req, nd.zeros_like(*this));
}

void NDArray::attach_grad(GradReq req, const NDArray& gradient) {
  if (req == GradReq::null) {
    node().annotation = nullptr;
    return;
  }
  if (!gradient.defined()) throw ValueError("[attach_grad] the gradient is undefined");
  if (gradient.shape() != shape()) {
    throw ShapeError(
        fmt::format("[attach_grad] the gradient has shape {}, the array {}", gradient.shape().str(), shape().str()));
  }
  if (gradient.dtype() != dtype()) {
    throw TypeError(fmt::format("[attach_grad] the gradient has dtype {}, the array {}", name_of(gradient.dtype()),
                                name_of(dtype())));
  }
  if (gradient.device() != device()) {
    throw DeviceError(
        fmt::format("[attach_grad] the gradient is on {}, the array on {}", gradient.device().str(), device().str()));
  }
  IntrusivePtr<autograd::History> h(new autograd::History);
  h->req = req;
  h->grad = gradient;
  node().annotation = h;
}

NDArray NDArray::grad() const {
  autograd::History* h = autograd::history_of(*this);
  return h ? h->grad : NDArray();
}

void NDArray::backward(std::source_location site) const { autograd::backward(std::span(this, 1), {}, false, site); }
void NDArray::backward(const NDArray& head, bool retain_graph, std::source_location site) const {
  autograd::backward(std::span(this, 1), std::span(&head, 1), retain_graph, site);
}

}  // namespace kaon
