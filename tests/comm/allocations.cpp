// Steps of a training over ranks allocate nothing: malloc itself is counted. Returns 1 and prints who asks for memory
// where one does. What MPI's and oneDNN's libraries ask for is not counted, nor what the signs of life between ranks
// do.
#include <fmt/format.h>

#include <cstdio>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "support.h"

namespace {

std::atomic<bool> counting{false}, is_idle{false};
std::atomic<long> allocations{0};
struct Range {
  uintptr_t begin, end;
};
std::vector<Range> others;  // where those libraries lie

constexpr int most_frames = 48;
struct Asker {
  void* frames[most_frames];
  int size = 0;
};
Asker askers[8];  // the first since the count began

bool is_of_others(const Asker& asker) {
  return std::any_of(asker.frames, asker.frames + asker.size, [](const void* frame) {
    const auto at = reinterpret_cast<uintptr_t>(frame);
    return std::any_of(others.begin(), others.end(), [&](const Range& r) { return at >= r.begin && at < r.end; });
  });
}

void count() {
  // A thread that asks for memory while nothing is computed gives signs of life.
  static thread_local bool gives_signs = false;
  if (is_idle.load(std::memory_order_relaxed)) gives_signs = true;
  if (gives_signs || !counting.load(std::memory_order_relaxed)) return;
  static thread_local bool looks = false;  // what backtrace itself allocates
  if (looks) return;
  looks = true;
  Asker asker;
  asker.size = backtrace(asker.frames, most_frames);
  if (!is_of_others(asker)) {
    const long place = allocations.fetch_add(1, std::memory_order_relaxed);
    if (place < long(std::size(askers))) askers[place] = asker;
  }
  looks = false;
}

void find_others() {
  void* frame;
  backtrace(&frame, 1);  // the first one loads a library
  others.clear();
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        std::string_view name = info->dlpi_name;
        name.remove_prefix(name.rfind('/') + 1);
        constexpr std::string_view names[] = {"libmpi", "libopen-", "mca_", "libpmix", "libevent", "libdnnl"};
        if (std::none_of(std::begin(names), std::end(names), [&](auto n) { return name.starts_with(n); })) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          others.push_back({begin, begin + info->dlpi_phdr[i].p_memsz});
        }
        return 0;
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
using namespace kaon::ranks_test;
namespace nn = gluon::nn;

namespace {

bool is_counted = false;  // after the first rounds

template <class F>
void with_count(F&& f) {
  counting = is_counted;
  f();
  counting = false;
}

bool on_all_ranks(bool mine) {
  return comm::mpi().all_reduce(nd.full({1}, mine), comm::Reduce::min).asscalar<float>() != 0;
}

// The same number of steps on each rank. Once more operations are pending at a time than ever before, pools grow by a
// page: what counts is that many rounds one after the other ask for nothing.
// counts_all: else what `step` makes with_count() of.
template <class Step>
bool is_steady(const std::string& what, bool counts_all, Step&& step) {
  constexpr int steps = 10, most_rounds = 15, enough = 5;
  const auto round = [&] {
    for (int i = 0; i < steps; ++i) {
      const NDArray loss = step();
      if (i % 3) loss.wait_to_read();
    }
    nd.waitall();
  };
  for (int i = 0; i < 3; ++i) round();
  find_others();
  allocations = 0;
  is_counted = counting = true;
  void* (*volatile ask)(size_t) = std::malloc;  // volatile: else no call may remain
  std::free(ask(100));
  const bool works = allocations == 1;
  is_counted = counting = false;
  int rounds = 0, steady = 0;
  long seen = 0, all = 0;
  for (; rounds < most_rounds && !on_all_ranks(steady >= enough); ++rounds) {
    allocations = 0;
    is_counted = true;
    counting = counts_all;
    round();
    is_counted = counting = false;
    const long now = allocations;
    if (now > 0) seen = std::min(now, long(std::size(askers)));
    all += now;
    steady = now == 0 ? steady + 1 : 0;
  }
  fmt::print("rank {}, {}: {} allocations in {} steps, none in the last {}\n", rank(), what, all, rounds * steps,
             steady * steps);
  std::fflush(stdout);
  if (steady < enough) {
    for (const Asker& asker : std::span(askers).first(size_t(seen))) {
      backtrace_symbols_fd(asker.frames + 2, std::min(asker.size - 2, 12), STDOUT_FILENO);
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  return works && steady >= enough;
}

nn::HybridSequential lenet() {
  return nn::HybridSequential(nn::Conv2D(6, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Conv2D(16, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Dense(120, {.activation = "relu"}), nn::Dense(84, {.activation = "relu"}),
                              nn::Dense(10));
}

bool is_steady(int threads, const char* name, const optimizer::Optimizer& rule, Mode mode,
               const gluon::TrainerOptions& options) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  auto net = lenet();
  net.initialize(init::Xavier());
  const NDArray x = numbers({4, 1, 28, 28}, rank() + 1), y = labels(4, rank());
  net(x).wait_to_read();
  if (mode == Mode::hybridized) net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::Trainer trainer(net.collect_params(), rule, options);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::TrainingStep training_step(net, loss, trainer);
  constexpr const char* modes[] = {"imperative", "hybridized", "training step"};
  return is_steady(
      fmt::format("{} threads, {}, {}", threads, name, modes[int(mode)]), mode == Mode::training_step, [&] {
        if (mode == Mode::training_step) return training_step(x, y);
        NDArray l;
        if (options.deterministic) {
          const NDArray inputs[] = {x, y};
          l = trainer.backward_by_shards(inputs, [&](std::span<const NDArray> in) { return loss(net(in[0]), in[1]); });
        } else {
          l = autograd::record([&] { return loss(net(x), y); });
          l.backward();
        }
        with_count([&] { trainer.step(4 * ranks()); });
        return l;
      });
}

}  // namespace

int main() {
  comm::mpi();
  is_idle = true;
  std::this_thread::sleep_for(std::chrono::seconds(3));  // several signs
  is_idle = false;
  bool all = true;
  for (const int threads : {1, 2}) {
    for (const Mode mode : {Mode::training_step, Mode::hybridized, Mode::imperative}) {
      const auto check = [&](const char* name, const optimizer::Optimizer& rule, gluon::TrainerOptions options = {}) {
        options.kvstore = "dist_sync";
        all = is_steady(threads, name, rule, mode, options) && all;
      };
      check("SGD", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
      check("Adam", optimizer::Adam({.learning_rate = 0.01}));
      check("clipped", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}), {.clip_global_norm = 1});
      check("bfloat16", optimizer::SGD({.learning_rate = 0.01}), {.compression_params = {.type = "bfloat16"}});
      check("2bit", optimizer::SGD({.learning_rate = 0.01}), {.compression_params = {.type = "2bit"}});
      check("shard_states", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}), {.shard_states = true});
      check("deterministic", optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}),
            {.deterministic = true, .shards = 2 * ranks()});
    }
  }
  return all ? 0 : 1;
}

#else

int main() { std::puts("malloc is not counted here"); }

#endif
