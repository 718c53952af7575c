// record() and its sisters given a function that makes a Task: inside co_await expressions, and what it captures.
#include <atomic>
#include <catch2/catch.hpp>

#include "kaon/engine/task.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace record_task_test {

using namespace kaon;

namespace {

struct Counted {
  static inline std::atomic<int> live{0};
  Counted() { ++live; }
  Counted(const Counted&) { ++live; }
  ~Counted() { --live; }
};

Task<float> gradient_of_square(NDArray x, bool named) {
  NDArray y;
  if (named) {
    Counted counted;
    auto body = [x, counted]() -> Task<NDArray> {
      co_await sleep_for(std::chrono::milliseconds(1));
      const Counted copy = counted;
      NDArray square = x * x;
      co_await square;
      co_return square;
    };
    y = co_await autograd::record(body);
  } else {
    y = co_await autograd::record([&x]() -> Task<NDArray> {
      co_await sleep_for(std::chrono::milliseconds(1));
      co_return x* x;
    });
  }
  y.backward();
  const float gradient = co_await x.grad().item<float>();
  co_return gradient;
}

// The Task outlives the lambda that it was made by.
Task<NDArray> recorded_by_temporary(NDArray& x) {
  return autograd::record([&x]() -> Task<NDArray> {
    co_await sleep_for(std::chrono::milliseconds(1));
    co_return x* x;
  });
}

Task<int> modes() {
  int seen = 0;
  co_await autograd::pause([&seen]() -> Task<void> {
    seen += autograd::is_recording() ? 0 : 1;
    co_return;
  });
  co_await autograd::train_mode([&seen]() -> Task<void> {
    seen += autograd::is_training() ? 10 : 0;
    co_return;
  });
  co_await autograd::predict_mode([&seen]() -> Task<void> {
    seen += autograd::is_training() ? 0 : 100;
    co_return;
  });
  co_return seen;
}

}  // namespace

TEST_CASE("record: a Task awaited in the same expression sees what its function captures") {
  NDArray x = nd.array({3});
  x.attach_grad();
  for (bool named : {false, true}) CHECK(sync_wait(gradient_of_square(x, named)) == 6);
  CHECK(Counted::live == 0);
  CHECK(sync_wait(modes()) == 111);
  CHECK_FALSE(autograd::is_recording());
}

TEST_CASE("record: the Task keeps the function that it was made by") {
  NDArray x = nd.array({3});
  x.attach_grad();
  Task<NDArray> task = recorded_by_temporary(x);
  NDArray y = sync_wait(std::move(task));
  y.backward();
  CHECK(x.grad().asscalar<float>() == 6);
}

}  // namespace record_task_test
