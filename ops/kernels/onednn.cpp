#include "kaon/ops/kernels/onednn.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"
#include "kaon/ops/kernels/onednn_versions.h"
#include "kaon/ops/kernels/scratch.h"

// Declared here: no source of Kaon is compiled with -fopenmp; the runtime is the one that oneDNN loads.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads(void);

namespace kaon::ops::onednn {
namespace {

using dt = dnnl::memory::data_type;

dnnl_stream_t this_thread_stream() {
  static thread_local dnnl::stream stream(engine());
  return stream.get();
}

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw Error(fmt::format("[{}] oneDNN: {}", what, dnnl_status2str(status)));
}

struct Log : WithMutex {
  std::vector<std::pair<std::string, std::string>> entries;
};
Log& log() { return ProcessWide<Log>::get(); }

// A fork takes the mutex when nothing is being made.
struct InMaking {
  std::mutex mutex;
  int count = 0;
  void lock() {
    mutex.lock();
    while (count > 0) {
      mutex.unlock();
      std::this_thread::yield();
      mutex.lock();
    }
  }
  void unlock() { mutex.unlock(); }
};
InMaking& in_making() { return ProcessWide<InMaking, ForkOrder::primitives>::get(); }

// Made at start-up, like ProcessWide objects and for the same reason.
[[maybe_unused]] const dnnl::engine& made_early = engine();

}  // namespace

const dnnl::engine& engine() {
  static const auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

Making::Making() {
  std::lock_guard lock(in_making().mutex);
  ++in_making().count;
}
Making::~Making() {
  std::lock_guard lock(in_making().mutex);
  --in_making().count;
}

SingleThreadTeam::SingleThreadTeam() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
SingleThreadTeam::~SingleThreadTeam() {
  if (before_ != 1) omp_set_num_threads(before_);
}

Desc strided(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides) { return Desc(dims, dt::f32, strides); }

Desc plain(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strided(dims, strides);
}

Desc channels_last(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size(), 1);
  int64_t step = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  return strided(dims, strides);
}

Desc any(const dnnl::memory::dims& dims) { return Desc(dims, dt::f32, dnnl::memory::format_tag::any); }

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool is_reference(std::string_view implementation) {
  return implementation.starts_with("ref") || implementation.starts_with("simple");
}

std::unique_lock<std::mutex> lock_for_sanitizer() {
#if defined(__SANITIZE_THREAD__)
  static auto* one = new std::mutex;
  return std::unique_lock(*one);
#else
  return {};
#endif
}

void fail(const char* what, const dnnl::error& error) {
  throw Error(fmt::format("[{}] oneDNN: {}", what, error.what()));
}

// The memory objects of one running execution. They are kept between runs: in a plan most pointers are those of the
// previous run, and a memory object whose pointer stays costs nothing.
struct Bound {
  std::array<dnnl_memory_t, Primitive::max_args + 1> memories{};
  std::array<dnnl_exec_arg_t, Primitive::max_args + 1> args{};
  std::array<void*, Primitive::max_args + 1> pointers{};
  ~Bound() {
    for (dnnl_memory_t m : memories) {
      if (m) dnnl_memory_destroy(m);
    }
  }
};

// Memory for a primitive, with a line behind it that must stay as it is: the code that oneDNN generates is seen by no
// sanitizer.
class Scratchpad {
 public:
  explicit Scratchpad(size_t bytes) : memory_(bytes + sizeof guard), end_(memory_.data() + bytes) {
    std::memcpy(end_, guard, sizeof guard);
  }
  std::byte* data() const { return memory_.data(); }
  bool is_whole() const { return std::memcmp(end_, guard, sizeof guard) == 0; }

 private:
  static constexpr char guard[] = "what is behind a scratchpad, which a primitive must leave as it is";
  const Scratch memory_;
  std::byte* const end_;
};

struct Primitive::State {
  const char* what;
  std::string implementation;
  dnnl::primitive primitive;
  std::vector<Argument> args;  // the scratchpad, when there is one, last
  size_t scratchpad = 0;
  std::mutex mutex;
  std::vector<std::unique_ptr<Bound>> idle;

  std::unique_ptr<Bound> take() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto bound = std::move(idle.back());
        idle.pop_back();
        return bound;
      }
    }
    auto bound = std::make_unique<Bound>();
    for (size_t i = 0; i < args.size(); ++i) {
      check(dnnl_memory_create(&bound->memories[i], c_desc(args[i].desc), engine().get(), DNNL_MEMORY_NONE), what);
      bound->args[i] = {args[i].id, bound->memories[i]};
    }
    return bound;
  }
  void give(std::unique_ptr<Bound> bound) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(bound));
  }
};

void Primitive::Release::operator()(State* state) const { delete state; }

Primitive::Primitive(const char* what, const dnnl::primitive_desc_base& desc, std::vector<Argument> args)
    : state_(new State) {
  if (args.size() > size_t(max_args)) throw Error(fmt::format("[{}] oneDNN: too many arguments", what));
  state_->what = what;
  state_->implementation = desc.impl_info_str();
  dnnl_primitive_t made = nullptr;
  check(dnnl_primitive_create(&made, desc.get()), what);
  state_->primitive = dnnl::primitive(made);
  state_->args = std::move(args);
  const Desc scratchpad = desc.scratchpad_desc();
  state_->scratchpad = scratchpad.get_size();
  if (state_->scratchpad) state_->args.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  std::lock_guard lock(log().mutex);
  auto& entries = log().entries;
  if (entries.size() == 4096) entries.erase(entries.begin(), entries.begin() + 1024);
  entries.emplace_back(what, state_->implementation);
}

const Desc& Primitive::desc(int arg) const { return state_->args[size_t(arg)].desc; }
const std::string& Primitive::implementation() const { return state_->implementation; }

void Primitive::execute(const void* const* data, int count) const {
  State& s = *state_;
  const Scratchpad scratchpad(s.scratchpad);
  SingleThreadTeam team;
  std::unique_ptr<Bound> bound = s.take();
  const int total = int(s.args.size());
  for (int i = 0; i < total; ++i) {
    void* pointer = i < count ? const_cast<void*>(data[i]) : scratchpad.data();
    if (bound->pointers[size_t(i)] == pointer) continue;
    check(dnnl_memory_set_data_handle(bound->memories[size_t(i)], pointer), s.what);
    bound->pointers[size_t(i)] = pointer;
  }
  check(dnnl_primitive_execute(s.primitive.get(), this_thread_stream(), total, bound->args.data()), s.what);
  if (!scratchpad.is_whole()) {
    throw Error(fmt::format("[{}] oneDNN's {} has written behind its scratchpad of {} bytes", s.what, s.implementation,
                            s.scratchpad));
  }
  s.give(std::move(bound));
}

Primitive make_reorder(const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes());
  return Primitive("reorder", desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

std::vector<std::pair<std::string, std::string>> made_primitives() {
  std::lock_guard lock(log().mutex);
  return log().entries;
}

void Key::add(int64_t value) {
  if (size_t(count_) == values_.size()) throw Error("[oneDNN] key of a primitive is too long");
  values_[size_t(count_++)] = value;
}

void Key::add(const Shape& shape) {
  add(shape.ndim());
  for (int64_t d : shape) add(d);
}

size_t Key::hash() const {
  uint64_t h = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < count_; ++i) {
    h = (h ^ uint64_t(values_[size_t(i)])) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return size_t(h);
}

namespace {

// One of several, so that threads which issue different operators do not meet on one lock.
struct LruCache {
  static constexpr size_t capacity = 32;
  using Entry = std::pair<Key, std::shared_ptr<const KernelState>>;
  std::mutex mutex;
  std::list<Entry> entries;  // most recent first
  std::unordered_map<size_t, std::list<Entry>::iterator> index;
  uint32_t forks = 0;

  // A forked child makes its own primitives: threads of the parent, which it does not have, may be running the old
  // ones.
  void forget_parents() {
    if (std::exchange(forks, fork_count()) == forks) return;
    index.clear();
    new std::list<Entry>(std::move(entries));  // never destroyed
    entries.clear();
  }
};

LruCache& cache_of(size_t hash) { return ProcessWide<Shards<LruCache>>::get().all[hash >> 60]; }

}  // namespace

std::shared_ptr<const KernelState> find_cached(const Key& key) {
  const size_t hash = key.hash();
  LruCache& s = cache_of(hash);
  std::lock_guard lock(s.mutex);
  s.forget_parents();
  const auto it = s.index.find(hash);
  if (it == s.index.end() || !(it->second->first == key)) return nullptr;
  s.entries.splice(s.entries.begin(), s.entries, it->second);
  return it->second->second;
}

void keep_cached(const Key& key, std::shared_ptr<const KernelState> value) {
  const size_t hash = key.hash();
  LruCache& s = cache_of(hash);
  std::shared_ptr<const KernelState> leaving;  // destroyed outside the lock
  std::lock_guard lock(s.mutex);
  s.forget_parents();
  const auto old = s.index.find(hash);
  if (old != s.index.end()) {
    leaving = std::move(old->second->second);
    s.entries.erase(old->second);
    s.index.erase(old);
  } else if (s.entries.size() == LruCache::capacity) {
    leaving = std::move(s.entries.back().second);
    s.index.erase(s.entries.back().first.hash());
    s.entries.pop_back();
  }
  s.entries.emplace_front(key, std::move(value));
  s.index.emplace(hash, s.entries.begin());
}

}  // namespace kaon::ops::onednn
