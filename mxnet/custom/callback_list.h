// CallbackList: functions of a program behind one object, whose last life's sign is a call of the one that deletes it.
#pragma once

#include <utility>
#include <vector>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/shutdown.h"

namespace kaon::mxnet {

// The functions take the interpreter's lock themselves, on whatever thread: none is called while a lock of ours is
// held that a thread with the interpreter's lock waits for. Not copied.
class CallbackList {
 public:
  CallbackList() = default;
  // `deleter`: the place of the function that ends the object.
  CallbackList(const MXCallbackList& list, size_t deleter) : deleter_(deleter) {
    for (int i = 0; i < list.num_callbacks; ++i) functions_.emplace_back(list.callbacks[i], list.contexts[i]);
  }
  CallbackList(CallbackList&& other) noexcept
      : functions_(std::exchange(other.functions_, {})), deleter_(other.deleter_) {}
  CallbackList& operator=(CallbackList&&) = delete;
  ~CallbackList() {
    if (has(deleter_) && may_call_back()) call<int (*)(void*)>(deleter_);
  }

  bool has(size_t i) const { return i < functions_.size() && functions_[i].first; }
  // Calls function i, which has the type F, with its context as the last argument. 0: it has failed, or is not there.
  template <class F, class... Args>
  int call(size_t i, Args... args) const {
    if (!has(i)) return 0;
    return reinterpret_cast<F>(reinterpret_cast<void (*)(void)>(functions_[i].first))(args..., functions_[i].second);
  }

 private:
  std::vector<std::pair<int (*)(void), void*>> functions_;
  size_t deleter_ = 0;
};

}  // namespace kaon::mxnet
