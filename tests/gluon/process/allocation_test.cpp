// Steady state allocates nothing: malloc itself is counted.
#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace allocation_test {

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0}, inside_dnnl{0};
uintptr_t dnnl_begin = 0, dnnl_end = 0;  // where oneDNN's library lies

// Asked for by oneDNN, or by what it calls?
bool is_dnnl() {
  void* frames[48];
  const int n = backtrace(frames, 48);
  for (int i = 0; i < n; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(frames[i]);
    if (at >= dnnl_begin && at < dnnl_end) return true;
  }
  return false;
}

void count() {
  if (!counting.load(std::memory_order_relaxed)) return;
  static thread_local bool looks = false;  // what backtrace itself allocates
  if (looks) return;
  looks = true;
  (is_dnnl() ? inside_dnnl : allocations).fetch_add(1, std::memory_order_relaxed);
  looks = false;
}

void find_dnnl() {
  is_dnnl();  // the first backtrace loads a library
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        if (std::string_view(info->dlpi_name).find("libdnnl") == std::string_view::npos) return 0;
        dnnl_begin = UINTPTR_MAX;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          dnnl_begin = std::min(dnnl_begin, begin);
          dnnl_end = std::max(dnnl_end, begin + info->dlpi_phdr[i].p_memsz);
        }
        return 1;
      },
      nullptr);
}
}  // namespace

// The program's malloc takes the place of the library's; operator new calls it.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void* realloc(void* p, size_t bytes) { return count(), __libc_realloc(p, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  count();
  *out = __libc_memalign(alignment, bytes);
  return *out || !bytes ? 0 : ENOMEM;
}
}

using namespace kaon;
using namespace kaon::test;

namespace {

// A recurrent layer: a foreach whose body has layers, the last state classified.
struct Recurrent : gluon::HybridBlock<Recurrent> {
  gluon::Parameter input = param("input", {8, 5}), state = param("state", {8, 8});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A first = f.zeros_like(f.dot(x[0], f(input), {.transpose_b = true}));
    auto step = [&](A row, A h) {
      h = f.tanh(f.dot(row, f(input), {.transpose_b = true}) + f.dot(h, f(state), {.transpose_b = true}));
      return std::pair(f.relu(h), h);
    };
    const auto [rows, last] = contrib::foreach (step, x, first);
    return out(last + f.sum(rows, {.axis = 0}));
  }
};

// As many steps as the values say.
struct Settling : gluon::HybridBlock<Settling> {
  gluon::Parameter state = param("state", {6, 6});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A steps = f.zeros({1});
    auto condition = [&](const std::vector<A>& now) { return now[0] < 3.0f; };
    auto step = [&](const std::vector<A>& now) {
      const A h = f.tanh(f.dot(now[1], f(state)));
      return std::pair(h, std::vector<A>{now[0] + 1, h});
    };
    const auto [rows, last] = contrib::while_loop(condition, step, std::vector<A>{steps, x}, 5);
    return out(last[1] + f.sum(rows, {.axis = 0}));
  }
};

// Draws numbers in one of its branches when it is trained.
struct Branching : gluon::HybridBlock<Branching> {
  gluon::Parameter a = param("a", {6, 6}), b = param("b", {6, 6});
  nn::Dense out = child("out", nn::Dense(10));
  template <class F, class A>
  auto hybrid_forward(F f, A x) {
    const A h = contrib::cond(
        f.mean(x) > 0.0f, [&] { return f.relu(f.dot(x, f(a))); },
        [&] { return f.Dropout(f.tanh(f.dot(x, f(b))), {.p = 0.25}); });
    return out(h);
  }
};

// A call each time; the engine is idle at the end.
template <class Call>
void check_steady(Engine& engine, Call&& call) {
  constexpr int calls = 10;
  auto round = [&] {
    for (int i = 0; i < calls; ++i) {
      const NDArray y = call();
      if (i % 3) y.wait_to_read();
    }
    nd.waitall();
  };
  find_dnnl();
  REQUIRE(dnnl_end > dnnl_begin);
  for (int i = 0; i < 2; ++i) round();
  allocations = inside_dnnl = 0;
  counting = true;
  {
    std::vector<int> seen(100);
    CHECK(seen.size() == 100);
  }
  const long own = allocations.exchange(0);
  // Once more operations are pending at a time than ever before, the pools grow by a page: that is not steady yet.
  int steady = 0;  // rounds without an allocation, one after the other
  for (int i = 0; i < 30 && steady < 3; ++i) {
    const uint64_t before = engine.stats().ops;
    round();
    steady = allocations.exchange(0) == 0 ? steady + 1 : 0;  // before the check, which may allocate
    CHECK(engine.stats().ops - before == calls);
    allocations = 0;
  }
  counting = false;
  CHECK(own >= 1);  // the count works
  CHECK(steady == 3);
}

// Forward and training step of a net on this batch, hybridized.
template <class Net>
void check_net(Net (*make)(), const Shape& data, bool autotune = false) {
  for (int threads : {0, 1, 2}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    Net net = make();
    const NDArray x = numbers(data), label = nd.arange(double(data[0]));
    net(x).wait_to_read();
    const HybridizeOptions options{.static_alloc = true, .static_shape = true, .autotune = autotune};
    net.hybridize(options);
    check_steady(engine, [&] { return net(x); });
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
    gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, options);
    check_steady(engine, [&] { return step(x, label); });
  }
}

}  // namespace

TEST_CASE("hybrid: forwards and training steps of an MLP allocate nothing, one operation each", "[gluon]") {
  check_net(
      +[] {
        return ready(nn::HybridSequential(nn::Dense(64, {.activation = "relu"}), nn::Dense(32, {.activation = "relu"}),
                                          nn::Dense(10)));
      },
      {1, 20});
}

TEST_CASE("hybrid: forwards and training steps of LeNet allocate nothing, one operation each", "[gluon]") {
  const auto lenet = +[] {
    return ready(nn::HybridSequential(
        nn::Conv2D(6, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
        nn::Conv2D(16, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
        nn::Dense(120, {.activation = "relu"}), nn::Dense(84, {.activation = "relu"}), nn::Dense(10)));
  };
  for (bool autotune : {false, true}) check_net(lenet, {4, 1, 28, 28}, autotune);
}

TEST_CASE("hybrid: forwards and training steps of ResNet-18 allocate nothing, one operation each", "[gluon]") {
  check_net(+[] { return ready(gluon::model_zoo::vision::ResNetV1(18, {.classes = 10, .thumbnail = true})); },
            {2, 3, 16, 16});
}

TEST_CASE("hybrid: forwards and training steps of loops and branches allocate nothing, one operation each", "[gluon]") {
  check_net(+[] { return ready(Recurrent()); }, {3, 3, 5});
  check_net(+[] { return ready(Settling()); }, {4, 6});
  check_net(+[] { return ready(Branching()); }, {4, 6});
}

#endif

}  // namespace allocation_test
