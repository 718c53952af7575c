// The layer over oneDNN: made primitives, their arguments, and where they are kept.
#pragma once

#include <array>
#include <concepts>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kaon/ops/view.h"

namespace kaon::ops::onednn {

using Desc = dnnl::memory::desc;

// The process-wide CPU engine. Never destroyed: primitives may be released while the process ends.
const dnnl::engine& engine();

// While it exists, oneDNN has an OpenMP team of one thread; afterwards the caller's setting is restored. Parallelism is
// the engine's, and a team of another size would give other bits.
class SingleThreadTeam {
 public:
  SingleThreadTeam();
  ~SingleThreadTeam();
  SingleThreadTeam(const SingleThreadTeam&) = delete;
  SingleThreadTeam& operator=(const SingleThreadTeam&) = delete;

 private:
  int before_;
};

// A dense float32 tensor in row-major order of `dims`.
Desc plain(const dnnl::memory::dims& dims);
// The same with explicit strides, in elements.
Desc strided(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides);
// (batch, channel, spatial...) with the channel innermost in memory.
Desc channels_last(const dnnl::memory::dims& dims);
// Layout left to the primitive.
Desc any(const dnnl::memory::dims& dims);

// The attributes of every primitive: the caller provides the scratchpad, so that a primitive may run on any thread, and
// on several at once.
dnnl::primitive_attr attributes();

// True for oneDNN's reference kernels, which are up to 100 times slower than the others.
bool is_reference(std::string_view implementation);

// A made primitive. Thread safety: any number of threads may execute it at once.
class Primitive {
 public:
  static constexpr int max_args = 6;
  struct Argument {
    int id;  // DNNL_ARG_...
    Desc desc;
  };

  Primitive() = default;
  // `what` names the use in the list of made primitives; `args` fixes the order of the pointers given to run().
  Primitive(const char* what, const dnnl::primitive_desc_base& desc, std::vector<Argument> args);
  Primitive(Primitive&&) noexcept = default;
  Primitive& operator=(Primitive&&) noexcept = default;

  explicit operator bool() const { return bool(state_); }
  // Runs on this thread and returns when done. Throws Error with oneDNN's status.
  template <class... P>
    requires(std::convertible_to<P, const void*>&&...)
  void run(P... data) const {
    const void* pointers[] = {data...};
    execute(pointers, int(sizeof...(P)));
  }
  const Desc& desc(int arg) const;
  const std::string& implementation() const;  // "brgconv:avx512_core"

 private:
  struct State;
  struct Release {
    void operator()(State*) const;
  };
  void execute(const void* const* data, int count) const;
  std::unique_ptr<State, Release> state_;
};

// Copies between two layouts of one tensor.
Primitive make_reorder(const Desc& from, const Desc& to);

// Calls make(): exceptions of oneDNN become Error "[what] oneDNN: ...", and primitives are made for a team of one.
template <class Make>
auto guarded(const char* what, Make&& make);

// While it exists oneDNN may hold locks of its own, and fork() waits: a child would wait for these locks forever.
class Making {
 public:
  Making();
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
};

// The primitives made in this process so far, newest last, at most 4096: {use, implementation}. For tests.
std::vector<std::pair<std::string, std::string>> made_primitives();

// The key of a kernel's set of primitives: kind of operator, shapes, layouts, attributes.
class Key {
 public:
  Key() = default;
  template <class... V>
  explicit Key(V... values) {
    (add(int64_t(values)), ...);
  }
  void add(int64_t value);  // throws Error beyond the capacity
  void add(const Shape& shape);
  size_t hash() const;
  friend bool operator==(const Key& a, const Key& b) {
    return a.count_ == b.count_ && std::equal(a.values_.begin(), a.values_.begin() + a.count_, b.values_.begin());
  }

 private:
  std::array<int64_t, 48> values_{};
  int count_ = 0;
};

// The sets of primitives that imperative calls made, found by key; the least recently used leave.
// Thread safety: any thread.
std::shared_ptr<const KernelState> find_cached(const Key& key);
void keep_cached(const Key& key, std::shared_ptr<const KernelState> value);

// The contents of a plan node's slot. A slot belongs to one run of a plan at a time; the sets are shared.
struct NodeState : KernelState {
  Key key;
  std::shared_ptr<const KernelState> value;
  std::string implementation() const override { return value->implementation(); }
  int reorders() const override { return value->reorders(); }
};

// A set of primitives in use: keeps it alive.
template <class T>
class CacheHandle {
 public:
  explicit CacheHandle(const T* value, std::shared_ptr<const KernelState> owner = nullptr)
      : value_(value), owner_(std::move(owner)) {}
  const T* operator->() const { return value_; }
  const T& operator*() const { return *value_; }

 private:
  const T* value_;
  std::shared_ptr<const KernelState> owner_;
};

// The T (a KernelState) for this key: from the plan node's slot without any lookup, else from the cache, else
// make() gives a std::unique_ptr<T>.
template <class T, class Make>
CacheHandle<T> obtain(const KernelContext& c, const char* what, const Key& key, Make&& make) {
  if (c.state && *c.state) {
    const auto* node = static_cast<const NodeState*>(c.state->get());
    if (node->key == key) return CacheHandle<T>(static_cast<const T*>(node->value.get()));
  }
  std::shared_ptr<const KernelState> value = find_cached(key);
  if (!value) {
    value = std::shared_ptr<const KernelState>(guarded(what, make));
    keep_cached(key, value);
  }
  if (c.state) {
    auto node = std::make_unique<NodeState>();
    node->key = key;
    node->value = value;
    *c.state = std::move(node);
  }
  const T* made = static_cast<const T*>(value.get());
  return CacheHandle<T>(made, std::move(value));
}

[[noreturn]] void fail(const char* what, const dnnl::error& error);

// Under ThreadSanitizer one primitive is made at a time: it does not see the synchronization of oneDNN's cache.
std::unique_lock<std::mutex> lock_for_sanitizer();

template <class Make>
auto guarded(const char* what, Make&& make) {
  const Making making;
  SingleThreadTeam team;
  const auto lock = lock_for_sanitizer();
  try {
    return make();
  } catch (const dnnl::error& error) {
    fail(what, error);
  }
}

}  // namespace kaon::ops::onednn
