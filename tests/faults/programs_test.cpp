// Programs, in each of which any allocation may fail.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "harness.h"
#include "kaon/engine/task.h"
#include "kaon/engine/when.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/metric.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace programs_test {

using namespace kaon;
using namespace kaon::test;
using namespace std::chrono_literals;

namespace {

std::filesystem::path scratch(const char* name) {
  return std::filesystem::temp_directory_path() / ("kaon_faults_" + std::to_string(getpid()) + name);
}

Results read(const NDArray& a) { return a.asvector<float>(); }

nn::HybridSequential small_net() {
  nn::HybridSequential net(nn::Dense(6, {.activation = "relu", .in_units = 5}), nn::Dense(3, {.in_units = 6}));
  net.initialize(init::One());
  return net;
}

Results forward(const HybridizeOptions* options) {
  nn::HybridSequential net = small_net();
  if (options) net.hybridize(*options);
  const NDArray x = numbers({2, 5});
  net(x).wait_to_read();
  return read(net(x));
}

Results gradients(bool hybridized) {
  nn::HybridSequential net = small_net();
  if (hybridized) net.hybridize({.static_alloc = true});
  const NDArray x = numbers({2, 5});
  autograd::record([&] { return net(x) * 2; }).backward();
  Results all;
  for (auto p : net.collect_params()) {
    const Results g = read(p.grad());
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

Results training(bool fused) {
  nn::HybridSequential net = small_net();
  gluon::loss::L2Loss loss;
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.1}));
  const NDArray x = numbers({2, 5}), y = numbers({2, 3}, 2);
  gluon::TrainingStep step(net, loss, trainer);
  for (int i = 0; i < 2; ++i) {
    if (fused) {
      step(x, y).wait_to_read();
    } else {
      autograd::record([&] { return loss(net(x), y); }).backward();
      trainer.step(2);
    }
    nd.waitall();
  }
  return read(net(x));
}

struct Loop : gluon::HybridBlock<Loop> {
  auto hybrid_forward(auto F, auto x) {
    using A = decltype(x);
    const A first = F.zeros_like(F.sum(x, {.axis = {0}}));
    return contrib::foreach ([&](const A& row, const A& state) { return std::pair(row + state, row * 2 + state); }, x,
                             first)
        .second;
  }
};

Task<Results> load(gluon::data::DataLoader loader) {
  Results all;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) {
    const std::vector<float> values = co_await batch->data.host<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  co_return all;
}

gluon::data::Dataset pairs(int64_t size) {
  return gluon::data::Dataset(size, [](int64_t i) {
    return gluon::data::Sample(gluon::data::HostTensor(Shape(2), std::vector<float>{float(i), float(-i)}), int(i));
  });
}

Task<gluon::data::Sample> later_pair(int64_t i) {
  co_await sleep_for(std::chrono::microseconds(i % 3 * 20));
  co_return gluon::data::Sample(gluon::data::HostTensor(Shape(2), std::vector<float>{float(i), float(-i)}), int(i));
}

// Samples that are changed on the way, with random numbers of their own.
gluon::data::Dataset changed_pairs(int64_t size) {
  return pairs(size)
      .transform_first([](gluon::data::HostTensor t, gluon::data::SampleRandom& random) {
        t.mutable_as<float>()[0] += float(random.uniform());
        return t;
      })
      .transform([](gluon::data::Sample s) {
        s.data.mutable_as<float>()[1] *= 2;
        return s;
      });
}

// So few places that workers wait for room, and the consumer for its batch.
constexpr gluon::data::LoaderOptions few_places{.batch_size = 2, .shuffle = true, .workers = 3, .prefetch = 2};

Task<Results> take_one(gluon::data::DataLoader loader) {
  auto batches = loader.batches();
  auto batch = co_await batches.next();
  co_return co_await batch->data.host<float>();
}

Results train_from(const gluon::data::DataLoader& loader) {
  nn::HybridSequential net(nn::Dense(3, {.in_units = 2}));
  net.initialize(init::One());
  net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
  for (auto& batch : loader.sync()) {
    autograd::record([&] { return net(batch.data); }).backward();
    trainer.step(batch.size());
  }
  nd.waitall();
  return read(net(nd.ones({1, 2})));
}

Task<float> sum_later(NDArray x) {
  NDArray y = co_await (x * 2);
  co_return co_await y.sum().item<float>();
}

// Counts the tasks that have begun and whose frames are still there.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(&count) { ++*count_; }
  Counted(Counted&& o) noexcept : count_(std::exchange(o.count_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (count_) --*count_;
  }

 private:
  std::atomic<int>* count_;
};
Task<float> sum_counted(NDArray x, std::chrono::microseconds delay, Counted) {
  co_await sleep_for(delay);
  NDArray y = co_await (x * 2);
  co_return co_await y.sum().item<float>();
}

// The losers go on after the winner: the program ends when they have.
Results race() {
  std::atomic<int> running{0};
  struct UntilNone {
    std::atomic<int>& count;
    ~UntilNone() {
      while (count > 0) std::this_thread::yield();
    }
  } until_none{running};
  std::vector<Task<float>> all;
  for (int i = 0; i < 3; ++i) all.push_back(sum_counted(nd.ones({8, 8}), i * 200us, Counted(running)));
  const auto [winner, value] = sync_wait(when_any(std::move(all)));
  return {value};
}

Task<std::tuple<float, std::vector<float>, std::monostate>> several_kinds(NDArray x) {
  auto nothing = [](NDArray a) -> Task<void> { co_await a; };
  auto values = [](NDArray a) -> Task<std::vector<float>> { co_return co_await a.host<float>(); };
  co_return co_await when_all(sum_later(x), values(x), nothing(x));
}

// An operation that waits for another array, and for its values, in a coroutine.
Results operation_that_waits() {
  const NDArray x = numbers({4}), y = nd.zeros({1});
  std::vector<float> values;
  push_task(Engine::current(), {update(y.var())}, [&]() -> Task<void> {
    NDArray ready = co_await (x * 2);
    values = co_await ready.host<float>();
  });
  y.wait_to_read();
  nd.waitall();
  return values;
}

// The same without a coroutine: it blocks its worker.
Results operation_that_reads() {
  const NDArray x = numbers({64, 64}), y = nd.zeros({1});
  const NDArray product = nd.dot(x, x);
  Results values;
  Engine::current().push({update(y.var())}, [&](RunContext&) { values = read(product); });
  try {
    y.wait_to_read();
  } catch (...) {
    lacks_memory([] { nd.waitall(); });
    throw;
  }
  nd.waitall();
  return values;
}

// Tasks that nobody awaits; a failure of theirs goes to the hook.
Results spawned() {
  static std::mutex mutex;
  static std::exception_ptr failure;
  failure = nullptr;
  set_unobserved_error_hook([](std::exception_ptr e) {
    std::lock_guard lock(mutex);
    failure = e;
  });
  std::atomic<int> running{0};
  std::atomic<float> sum{0};
  auto add = [](NDArray x, std::atomic<float>& to, Counted) -> Task<void> { to += co_await x.sum().item<float>(); };
  const auto wait = [&] {
    while (running > 0) std::this_thread::yield();
    set_unobserved_error_hook({});
  };
  try {
    for (int i = 0; i < 3; ++i) {
      spawn(add(nd.ones({8}) * float(i), sum, Counted(running)), Engine::current().io_executor());
    }
  } catch (...) {
    wait();
    throw;
  }
  wait();
  std::lock_guard lock(mutex);
  if (const std::exception_ptr e = std::exchange(failure, nullptr)) std::rethrow_exception(e);
  return {sum};
}

struct Program {
  const char* name;
  Results (*run)();
  int most = 60;  // allocations tried in the fast tier
};

const Program programs[] = {
    {"arithmetic",
     [] {
       return read((nd.ones({3, 4}) + 2) * nd.arange(4) - 1);
     }},
    {"products and reductions",
     [] {
       return read(nd.sum(nd.dot(numbers({40, 30}), numbers({30, 20})), {.axis = {1}}));
     }},
    {"views and writes",
     [] {
       NDArray a = numbers({4, 5});
       a[1] += 3;
       a.slice_assign({0, 0}, {2, 2}, 7);
       return read(a.reshape({2, 10}).transpose());
     }},
    {"many small arrays",
     [] {
       std::vector<NDArray> all;
       for (int i = 0; i < 200; ++i) all.push_back(nd.ones({16}) * float(i));
       return read(nd.concat(all, {.dim = 0}).sum());
     }},
    {"a convolution",
     [] {
       return read(nd.Convolution(numbers({1, 2, 8, 8}), numbers({3, 2, 3, 3}), numbers({3}),
                                  {.kernel = {3, 3}, .num_filter = 3}));
     }},
    {"autograd",
     [] {
       NDArray x = numbers({3, 3});
       x.attach_grad();
       autograd::record([&] { return nd.exp(x) * x; }).backward();
       return read(x.grad());
     }},
    {"imperative forward", [] { return forward(nullptr); }},
    {"hybridized forward",
     [] {
       const HybridizeOptions options;
       return forward(&options);
     }},
    {"static_alloc",
     [] {
       const HybridizeOptions options{.static_alloc = true, .static_shape = true};
       return forward(&options);
     }},
    {"exact",
     [] {
       const HybridizeOptions options{.exact = true};
       return forward(&options);
     }},
    {"gradients", [] { return gradients(false); }},
    {"hybridized gradients", [] { return gradients(true); }},
    {"training", [] { return training(false); }},
    {"TrainingStep", [] { return training(true); }},
    {"foreach",
     [] {
       return read(Loop()(numbers({4, 3})));
     }},
    {"hybridized foreach",
     [] {
       Loop loop;
       loop.hybridize();
       return read(loop(numbers({4, 3})));
     }},
    {"parameters in a file",
     [] {
       const auto file = scratch(".params");
       nn::HybridSequential net = small_net(), other = small_net();
       net.save_parameters(file);
       other.load_parameters(file);
       std::filesystem::remove(file);
       return read(other(numbers({2, 5})));
     },
     12},
    {"an exported model",
     [] {
       const auto file = scratch("");
       nn::HybridSequential net = small_net();
       net.hybridize();
       net(numbers({2, 5})).wait_to_read();
       net.export_model(file, 0);
       auto back =
           gluon::SymbolBlock::imports(file.string() + "-symbol.json", {"data"}, file.string() + "-0000.params");
       return read(back(numbers({2, 5})));
     },
     12},
    {"a loader", [] { return sync_wait(load(gluon::data::DataLoader(pairs(7), {.batch_size = 3}))); }},
    {"a loader with workers and few places",
     [] { return sync_wait(load(gluon::data::DataLoader(changed_pairs(23), few_places))); }},
    {"a loader of samples that come later",
     [] { return sync_wait(load(gluon::data::DataLoader(gluon::data::Dataset(9, later_pair), few_places))); }},
    {"a loader that is dropped",
     [] { return sync_wait(take_one(gluon::data::DataLoader(changed_pairs(23), few_places))); }},
    {"training from a loader", [] { return train_from(gluon::data::DataLoader(changed_pairs(11), few_places)); }},
    {"a Task",
     [] {
       return Results{sync_wait(sum_later(nd.ones({8, 8})))};
     }},
    {"Tasks side by side",
     [] {
       std::vector<Task<float>> all;
       for (int i = 0; i < 3; ++i) all.push_back(sum_later(nd.ones({8, 8}) * float(i)));
       return sync_wait(when_all(std::move(all)));
     }},
    {"Tasks of several kinds",
     [] {
       auto [sum, values, nothing] = sync_wait(several_kinds(nd.ones({3})));
       values.push_back(sum);
       return values;
     }},
    {"a race", race},
    {"a timer of a new engine",  // whose io thread has no memory in reserve
     [] {
       Engine engine({.threads = 0});
       EngineScope scope(engine);
       sync_wait([]() -> Task<void> { co_await sleep_for(100us); }());
       return Results{1};
     }},
    {"an operation that waits", operation_that_waits},
    {"an operation that reads", operation_that_reads},
    {"spawned Tasks", spawned},
    {"a metric",
     [] {
       metric::Accuracy accuracy;
       accuracy.update(nd.array({0, 1, 1}), numbers({3, 2}));
       return Results{float(accuracy.get().second)};
     }},
};

}  // namespace

TEST_CASE("faults: programs bear that an allocation fails, and leave nothing behind", "[faults]") {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  for (const Program& p : programs) {
    DYNAMIC_SECTION(p.name) { survives(p.name, p.run, {.most = p.most}); }
  }
}

TEST_CASE("faults: programs bear that any allocation fails", "[faults][slow]") {
  const int threads = GENERATE(0, 2);
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  for (const Program& p : programs) {
    DYNAMIC_SECTION(p.name) { survives(p.name, p.run, {.most = 0}); }
  }
}

}  // namespace programs_test
