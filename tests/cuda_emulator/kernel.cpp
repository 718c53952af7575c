#include "kernel.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>

constinit thread_local __attribute__((tls_model("initial-exec"))) uint3 threadIdx{};
constinit thread_local __attribute__((tls_model("initial-exec"))) uint3 blockIdx{};
constinit thread_local __attribute__((tls_model("initial-exec"))) dim3 blockDim{};
constinit thread_local __attribute__((tls_model("initial-exec"))) dim3 gridDim{};

namespace kaon_emulator {
namespace {

thread_local KernelRunner* runner = nullptr;  // of the kernel that this thread runs
constexpr size_t stack_bytes = 64 * 1024;

const char* name(Barrier kind) {
  switch (kind) {
    case Barrier::sync: return "__syncthreads";
    case Barrier::sync_or: return "__syncthreads_or";
    case Barrier::sync_and: return "__syncthreads_and";
    case Barrier::sync_count: return "__syncthreads_count";
    case Barrier::warp_sync: return "__syncwarp";
    case Barrier::shuffle: return "a shuffle";
    case Barrier::ballot: return "a vote";
  }
  return "";
}

}  // namespace

// Blocks in an order of chance: every step-th, where step and their number have no common factor.
std::string KernelRunner::run(dim3 grid, dim3 block, const std::function<void()>& body, std::mt19937_64& random) {
  runner = this;
  body_ = &body;
  block_ = block;
  num_threads_ = block.x * block.y * block.z;
  random_ = &random;
  complaint_.clear();
  is_abandoned_ = false;
  blockDim = block;
  gridDim = grid;
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  uint64_t at = random() % blocks, step = 1 + random() % blocks;
  while (std::gcd(step, blocks) != 1) ++step;
  for (uint64_t i = 0; i < blocks && complaint_.empty(); ++i, at = (at + step) % blocks) {
    blockIdx = {unsigned(at % grid.x), unsigned(at / grid.x % grid.y), unsigned(at / grid.x / grid.y)};
    run_block(random);
  }
  runner = nullptr;
  return complaint_;
}

void KernelRunner::run_block(std::mt19937_64& random) {
  threads_.assign(num_threads_, {});
  next_ = 0;
  unfinished_ = num_threads_;
  descends_ = random() & 1;
  while (next_ < num_threads_) {
    if (idle_.empty()) add_fiber();
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    enter(*fiber);
  }
  const unsigned warps = (num_threads_ + 31) / 32;
  while (unfinished_ > 0) {
    bool went_on = false;
    for (unsigned w = 0; w < warps; ++w) {
      while (release_warp(w)) went_on = true;
    }
    if (unfinished_ == 0 || release_block() || went_on) continue;
    abandon();
  }
}

void KernelRunner::add_fiber() {
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *fibers_.back();
  const auto run = [this, &fiber](boost::context::fiber&& caller) {
    fiber.caller = std::move(caller);
    for (;;) {
      run_threads(fiber);
      idle_.push_back(&fiber);
      fiber.caller = std::move(fiber.caller).resume();
    }
    return std::move(fiber.caller);
  };
  boost::context::protected_fixedsize_stack stack(stack_bytes);
  fiber.self = boost::context::fiber(std::allocator_arg, stack, run);
  idle_.push_back(&fiber);
}

void KernelRunner::enter(Fiber& fiber) { fiber.self = std::move(fiber.self).resume(); }

void KernelRunner::run_threads(Fiber& fiber) {
  while (next_ < num_threads_) {
    const unsigned number = next_++;
    current_ = descends_ ? num_threads_ - 1 - number : number;
    threadIdx = {current_ % block_.x, current_ / block_.x % block_.y, current_ / block_.x / block_.y};
    threads_[current_].state = State::running;
    threads_[current_].fiber = &fiber;
    try {
      (*body_)();
    } catch (const Abandoned&) {
    } catch (const std::exception& e) {
      complaint_ = fmt::format("a kernel threw an exception: {}", e.what());
    }
    threads_[current_].state = State::exited;
    --unfinished_;
  }
}

uint64_t KernelRunner::wait(Barrier kind, unsigned mask, uint64_t value, unsigned source, const Here& here) {
  const unsigned self = current_;
  Thread& thread = threads_[self];
  if (!is_of_block(kind) && !(mask >> lane() & 1)) {
    complaint_ = fmt::format("{} at {}:{}: lane {} is not in the mask {:#x} that it gives", name(kind),
                             here.file_name(), here.line(), lane(), mask);
    throw Abandoned{};
  }
  thread.state = State::waits;
  thread.barrier = kind;
  thread.mask = mask;
  thread.source = source;
  thread.value = value;
  thread.here = here;
  Fiber& fiber = *thread.fiber;
  fiber.caller = std::move(fiber.caller).resume();
  if (is_abandoned_) throw Abandoned{};
  return threads_[self].value;
}

void KernelRunner::trap(const Here& here) {
  complaint_ = fmt::format("__trap at {}:{}", here.file_name(), here.line());
  throw Abandoned{};
}

void KernelRunner::go_on(unsigned number) {
  current_ = number;
  threadIdx = {number % block_.x, number / block_.x % block_.y, number / block_.x / block_.y};
  threads_[number].state = State::running;
  enter(*threads_[number].fiber);
}

// Lets those threads of a warp go on that wait for each other, when all that the mask names and that have not exited
// are there.
bool KernelRunner::release_warp(unsigned warp) {
  const unsigned first = warp * 32, lanes = std::min(32u, num_threads_ - first);
  for (unsigned l = 0; l < lanes; ++l) {
    const Thread& t = threads_[first + l];
    if (t.state != State::waits || is_of_block(t.barrier)) continue;
    unsigned there = 0;
    bool all_there = true;
    for (unsigned m = 0; m < lanes; ++m) {
      const Thread& other = threads_[first + m];
      if (!(t.mask >> m & 1) || other.state == State::exited) continue;
      all_there = all_there && other.state == State::waits && other.barrier == t.barrier && other.mask == t.mask;
      there |= 1u << m;
    }
    if (!all_there) continue;
    answer(first, there);
    const bool descends = (*random_)() & 1;
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned m = descends ? 31 - i : i;
      if (there >> m & 1) go_on(first + m);
    }
    return true;
  }
  return false;
}

void KernelRunner::answer(unsigned first, unsigned mask) {
  uint64_t values[32], ballot = 0;
  for (unsigned m = 0; m < 32; ++m) {
    values[m] = mask >> m & 1 ? threads_[first + m].value : ~uint64_t(0);  // of a lane that is not there: undefined
    if (mask >> m & 1 && values[m] != 0) ballot |= uint64_t(1) << m;
  }
  for (unsigned m = 0; m < 32; ++m) {
    if (!(mask >> m & 1)) continue;
    Thread& t = threads_[first + m];
    t.value = t.barrier == Barrier::ballot ? ballot : values[t.source % 32];
  }
}

// Exited threads do not count. All others have to wait at the same place: a barrier in a branch that some threads do
// not take is wrong, even where they find another.
bool KernelRunner::release_block() {
  const Thread* waits = nullptr;
  unsigned count = 0;
  for (const Thread& t : threads_) {
    if (t.state == State::exited) continue;
    if (t.state != State::waits || !is_of_block(t.barrier)) return false;
    if (waits && (t.barrier != waits->barrier || t.here.line() != waits->here.line())) return false;
    waits = &t;
    count += t.value != 0;
  }
  if (!waits) return false;
  const uint64_t answer = waits->barrier == Barrier::sync_or    ? count != 0
                          : waits->barrier == Barrier::sync_and ? count == unfinished_
                                                                : count;
  const bool descends = (*random_)() & 1;
  for (Thread& t : threads_) t.value = answer;
  for (unsigned i = 0; i < num_threads_; ++i) {
    const unsigned number = descends ? num_threads_ - 1 - i : i;
    if (threads_[number].state == State::waits) go_on(number);
  }
  return true;
}

void KernelRunner::abandon() {
  if (complaint_.empty()) {
    complaint_ = fmt::format("a kernel hangs in block ({}, {}, {}) of {} threads: {}", blockIdx.x, blockIdx.y,
                             blockIdx.z, num_threads_, who_waits());
  }
  is_abandoned_ = true;
  for (unsigned i = 0; i < num_threads_; ++i) {
    if (threads_[i].state == State::waits) go_on(i);
  }
}

// "thread 0 to 31 wait at __syncthreads (softmax.cu:30), 32 to 63 have exited"
std::string KernelRunner::who_waits() const {
  std::string text;
  for (unsigned i = 0, end; i < num_threads_; i = end) {
    const Thread& t = threads_[i];
    for (end = i + 1; end < num_threads_; ++end) {
      const Thread& other = threads_[end];
      if (other.state != t.state) break;
      if (t.state == State::waits && (other.barrier != t.barrier || other.here.line() != t.here.line())) break;
    }
    text += fmt::format("{}threads {} to {} ", text.empty() ? "" : ", ", i, end - 1);
    text += t.state == State::exited
                ? "have exited"
                : fmt::format("wait at {} ({}:{})", name(t.barrier), t.here.file_name(), t.here.line());
    if (text.size() > 500) return text + ", ...";
  }
  return text;
}

int wait_block(Barrier kind, int predicate, const Here& here) {
  return int(runner->wait(kind, 0, predicate != 0, 0, here));
}
uint64_t wait_warp(Barrier kind, unsigned mask, uint64_t value, unsigned source, const Here& here) {
  return runner->wait(kind, mask, value, source, here);
}
unsigned lane() { return runner->lane(); }
void trap(const Here& here) { runner->trap(here); }

}  // namespace kaon_emulator
