#include "kaon/engine/operation/failure_log.h"

#include <algorithm>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "kaon/engine/operation/one_event_failures.h"
#include "kaon/engine/operation/var.h"

namespace kaon::engine {
namespace {

// Sets the message, and adds the operation's label to exceptions of Kaon's own types.
void complete_record(OpError& error, const std::exception_ptr& why) {
  std::string context = describe(error.label);
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& x) {
    if (std::string_view(x.what()).ends_with(context)) context.clear();  // the text already names the operation
    error.message = x.what() + context;
    if (dynamic_cast<const Error*>(&x)) error.exception = add_context(why, context);
  } catch (...) {
    error.message = "an exception of a type not derived from std::exception" + context;
  }
}

// Replaces an out-of-memory exception with a preallocated equal one. The thrown object may be stored in the C++
// runtime's emergency pool, which is small; a record that kept it would exhaust the pool.
std::exception_ptr to_keep(const std::exception_ptr& why, const std::exception_ptr& bad_alloc,
                           const std::exception_ptr& memory_error) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const std::bad_alloc& e) {
    return typeid(e) == typeid(std::bad_alloc) ? bad_alloc : why;
  } catch (const MemoryError& e) {
    return typeid(e) == typeid(MemoryError) ? memory_error : why;
  } catch (...) {
    return why;
  }
}

IntrusivePtr<const OpError> ready_made(const char* name, std::exception_ptr exception, const char* text) {
  IntrusivePtr<OpError> error(new OpError);
  error->exception = std::move(exception);
  error->message = text;
  error->label.name = name;
  error->reported.store(true, std::memory_order_relaxed);
  return error;
}

IntrusivePtr<OpError> make(const OpNode& op) noexcept {
  try {
    IntrusivePtr<OpError> error(new OpError);
    error->label = op.label;
    error->sequence = op.sequence;
    return error;
  } catch (...) {
    return {};
  }
}

}  // namespace

FailureLog::FailureLog() {
  constexpr const char* no_memory = "[engine] an operation ran out of memory, and there was none to say which";
  constexpr const char* dropped = "[engine] dropped: its scope was stopped; there was no memory to say which operation";
  no_memory_ = ready_made("out of memory", std::make_exception_ptr(MemoryError(no_memory)), no_memory);
  bad_alloc_ = std::make_exception_ptr(std::bad_alloc());
  dropped_ = ready_made("dropped", std::make_exception_ptr(Cancelled(dropped)), dropped);
}

FailureLog::~FailureLog() {
  for (const OpError* e = first_; e;) std::exchange(e, e->next)->release();
}

IntrusivePtr<const OpError> FailureLog::record(const OpNode& op, std::exception_ptr why, bool is_reported) noexcept {
  IntrusivePtr<const OpError> shared = no_memory_;
  if (IntrusivePtr<OpError> error = make(op)) {
    error->exception = to_keep(why, bad_alloc_, no_memory_->exception);
    try {
      complete_record(*error, why);
    } catch (...) {  // out of memory: the record has no message
    }
    error->reported.store(is_reported, std::memory_order_relaxed);
    shared = error;
  }
  if (!is_reported) add(*shared);
  return shared;
}

IntrusivePtr<const OpError> FailureLog::record_dropped(const OpNode& op) noexcept {
  IntrusivePtr<OpError> error = make(op);
  if (!error) return dropped_;
  error->exception = dropped_->exception;
  error->reported.store(true, std::memory_order_relaxed);
  try {
    complete_record(*error, std::make_exception_ptr(
                                Cancelled("[" + std::string(op.label.name) + "] dropped: its scope was stopped")));
  } catch (...) {  // out of memory: the record keeps the preallocated exception
  }
  return error;
}

IntrusivePtr<const OpError> FailureLog::inherit(const OpNode& op, bool& heals) noexcept {
  const OpError* first = nullptr;
  for (int i = 0; i < op.num_deps; ++i) {
    const OpError* e = op.deps[i].var()->error();
    if (!e) continue;
    if (op.deps[i].mode() == AccessMode::write) {
      heals = true;
    } else if (!first) {
      first = e;
    }
  }
  if (!first) return {};
  try {
    IntrusivePtr<OpError> heir(new OpError);
    std::vector<IntrusivePtr<const OpError>>& roots = heir->roots;
    auto add = [&](IntrusivePtr<const OpError> root) {
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(std::move(root));
    };
    for (int i = 0; i < op.num_deps; ++i) {
      const OpError* e = op.deps[i].var()->error();
      if (!e || op.deps[i].mode() == AccessMode::write) continue;
      if (e->roots.empty()) add(IntrusivePtr<const OpError>(e));
      for (const auto& root : e->roots) add(root);
    }
    std::sort(roots.begin(), roots.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
    heir->label = op.label;
    heir->sequence = roots.front()->sequence;
    return heir;
  } catch (...) {
    return IntrusivePtr<const OpError>(first);
  }
}

void FailureLog::add(const OpError& error) noexcept {
  std::lock_guard lock(mutex_);
  error.reported.store(false, std::memory_order_relaxed);
  if (&error == no_memory_.get() && std::exchange(error.is_listed, true)) return;
  if (count_ >= prune_at_) {
    prune();
    prune_at_ = 2 * count_ + 64;
  }
  error.retain();
  error.next = std::exchange(first_, &error);
  ++count_;
}

void FailureLog::prune() noexcept {
  for (const OpError** at = &first_; const OpError* e = *at;) {
    if (!e->reported.load(std::memory_order_relaxed)) {
      at = &e->next;
      continue;
    }
    *at = e->next;
    e->is_listed = false;
    e->release();
    --count_;
  }
}

std::exception_ptr FailureLog::take_unreported() {
  std::lock_guard lock(mutex_);
  prune();
  if (!first_) return nullptr;
  std::vector<IntrusivePtr<const OpError>> errors;
  errors.reserve(count_);
  for (const OpError* e = first_; e; e = e->next) errors.emplace_back(e);
  std::sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  std::exception_ptr all =
      are_one_event(errors) ? errors.front()->exception : std::make_exception_ptr(AggregateError(std::move(errors)));
  for (const OpError* e = first_; e; e = e->next) e->reported.store(true, std::memory_order_relaxed);
  prune();
  return all;
}

}  // namespace kaon::engine
