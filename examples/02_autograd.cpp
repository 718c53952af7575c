// Gradients: what is recorded, and what backward() computes from it.
// Prints the gradient of x^2 + 3x; gradients added up over two calls; a second derivative; how the training mode
// changes Dropout; the message for backward() without record(); and a line fitted to points by gradient descent.
#include <kaon/kaon.h>

using namespace kaon;

int main() {
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();  // room for the gradient
  NDArray y = autograd::record([&] { return x * x + 3 * x; });
  y.backward();  // of the sum of y
  fmt::print("d(x^2 + 3x)/dx at 1 2 3 =\n{}\n\n", x.grad());

  // A head gradient weighs the elements of y. GradReq::add adds to what is there.
  x.attach_grad(GradReq::add);
  for (int i = 0; i < 2; ++i) {
    NDArray z = autograd::record([&] { return x * x; });
    z.backward(nd.array({1, 0, 10}));
  }
  fmt::print("two gradients of x^2 with weights 1 0 10, added =\n{}\n\n", x.grad());

  // Gradients are made of operators, so they can be recorded in turn.
  NDArray v = nd.array({2});
  v.attach_grad();
  NDArray second = autograd::record([&] {
    NDArray first = autograd::grad(v * v * v, v, true);
    return autograd::grad(first, v, true);
  });
  fmt::print("second derivative of v^3 at 2: {}\n\n", second.asscalar<float>());

  // record() also switches to training, where Dropout drops. Inside pause() nothing is recorded.
  random::seed(3);
  NDArray ones = nd.ones({8});
  fmt::print("Dropout, predicting: {}\n", nd.Dropout(ones, {.p = 0.5}));
  fmt::print("Dropout, training:   {}\n\n", autograd::record([&] { return nd.Dropout(ones, {.p = 0.5}); }));

  try {
    (x * x).backward();
  } catch (const StateError& e) {
    fmt::print("StateError: {}\n\n", e.what());
  }

  // y = 2 x - 1 with noise, found again by 200 steps of gradient descent. Nothing waits until the last line.
  NDArray inputs = nd.random_uniform({100, 1}, {.low = -1, .high = 1});
  NDArray targets = inputs * 2 - 1 + nd.random_normal({100, 1}, {.scale = 0.1});
  NDArray slope = nd.zeros({1}), offset = nd.zeros({1});
  slope.attach_grad();
  offset.attach_grad();
  for (int i = 0; i < 200; ++i) {
    NDArray loss = autograd::record([&] { return nd.mean(nd.square(inputs * slope + offset - targets)); });
    loss.backward();
    slope -= 0.3 * slope.grad();
    offset -= 0.3 * offset.grad();
  }
  fmt::print("fitted: y = {:.2f} x {:+.2f}\n", slope.asscalar<float>(), offset.asscalar<float>());
}
