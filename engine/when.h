// when_all, when_any: several Tasks at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"

namespace KAON_API kaon {
namespace engine {

// Resumes the coroutine that waits for several others, on its executor, once `left` of them have ended and it has
// suspended.
class Gathering {
 public:
  explicit Gathering(size_t left) : left_(left + 1) {}
  void one_ended() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) post_surely(*executor_, caller_);
  }
  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) noexcept {
    caller_ = caller;
    executor_ = caller.promise().executor();
    return left_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  void await_resume() const noexcept {}

 private:
  std::atomic<size_t> left_;
  std::coroutine_handle<> caller_;
  Executor* executor_ = nullptr;
};

// For await expressions: gives the promise's executor without suspending.
struct ThisExecutor {
  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) noexcept {
    executor = caller.promise().executor();
    return false;
  }
  Executor* await_resume() const noexcept { return executor; }
  Executor* executor = nullptr;
};

template <class T>
struct Outcome {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
  std::optional<Value> value;
  std::exception_ptr error;
  Value get() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    return std::move(*value);
  }
};

template <class T>
Task<void> store_outcome(Task<T>& task, Outcome<T>& outcome) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await task;
      outcome.value.emplace();
    } else {
      outcome.value.emplace(co_await task);
    }
  } catch (...) {
    outcome.error = std::current_exception();
  }
}

template <class T>
Root run_gathered(Task<T>& task, Outcome<T>& outcome, Gathering& gathering) {
  try {
    Task<void> stored = store_outcome(task, outcome);
    co_await stored;
  } catch (...) {  // no memory
    outcome.error = std::current_exception();
  }
  gathering.one_ended();  // the caller may be gone after this
}

// Coroutines that start once all of them have been made, so that a lack of memory leaves none running alone.
class NotStarted {
 public:
  explicit NotStarted(size_t most) { roots_.reserve(most); }
  NotStarted(const NotStarted&) = delete;
  NotStarted& operator=(const NotStarted&) = delete;
  ~NotStarted() {
    for (Root root : roots_) root.handle.destroy();
  }
  void add(Root root) { roots_.push_back(root); }
  // On this thread, each up to its first suspension; the thread keeps its own context.
  void start(Executor& executor) {
    const std::vector<Root> roots = std::exchange(roots_, {});
    for (Root root : roots) {
      root.handle.promise().set_executor(&executor);
      ThreadContext saved = thread_context();
      root.handle.resume();
      thread_context() = saved;
    }
  }

 private:
  std::vector<Root> roots_;
};

}  // namespace engine

// Runs the tasks side by side on the awaiter's executor until all have ended; gives their values in order (an empty
// std::monostate for void). After all have ended, throws the failure of the first task, in order, that has one.
template <class T>
Task<std::vector<typename engine::Outcome<T>::Value>> when_all(std::vector<Task<T>> tasks) {
  std::vector<engine::Outcome<T>> outcomes(tasks.size());
  engine::ThisExecutor ask;
  Executor* executor = co_await ask;
  engine::Gathering all(tasks.size());
  engine::NotStarted roots(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) roots.add(engine::run_gathered(tasks[i], outcomes[i], all));
  roots.start(*executor);
  co_await all;
  std::vector<typename engine::Outcome<T>::Value> values;
  values.reserve(tasks.size());
  for (auto& o : outcomes) values.push_back(o.get());
  co_return values;
}
template <class... T>
Task<std::tuple<typename engine::Outcome<T>::Value...>> when_all(Task<T>... tasks) {
  std::tuple<engine::Outcome<T>...> outcomes;
  engine::ThisExecutor ask;
  Executor* executor = co_await ask;
  engine::Gathering all(sizeof...(T));
  engine::NotStarted roots(sizeof...(T));
  auto make_all = [&]<size_t... i>(std::index_sequence<i...>) {
    (roots.add(engine::run_gathered(tasks, std::get<i>(outcomes), all)), ...);
  };
  make_all(std::index_sequence_for<T...>());
  roots.start(*executor);
  co_await all;
  auto get_all = [&]<size_t... i>(std::index_sequence<i...>) {
    return std::tuple<typename engine::Outcome<T>::Value...>{std::get<i>(outcomes).get()...};
  };
  co_return get_all(std::index_sequence_for<T...>());
}

namespace engine {

template <class T>
struct Race {
  Race(std::vector<Task<T>> tasks, Executor& executor)
      : hold(executor), tasks(std::move(tasks)), outcomes(this->tasks.size()) {}
  const ScopeHold hold;  // for the losers
  std::vector<Task<T>> tasks;
  std::vector<Outcome<T>> outcomes;
  Gathering first{1};
  std::atomic<size_t> winner{SIZE_MAX};
};

template <class T>
Root run_in_race(std::shared_ptr<Race<T>> race, size_t i) {
  thread_context().op = nullptr;  // this coroutine may outlive the operation, which can end without it
  try {
    Task<void> stored = store_outcome(race->tasks[i], race->outcomes[i]);
    co_await stored;
  } catch (...) {  // no memory
    race->outcomes[i].error = std::current_exception();
  }
  { Task<T> ended = std::move(race->tasks[i]); }  // releases its frame before the slower ones end
  size_t none = SIZE_MAX;
  if (race->winner.compare_exchange_strong(none, i)) race->first.one_ended();
}

}  // namespace engine

// Runs the tasks side by side on the awaiter's executor until one of them has ended: gives its index and value, or
// throws its failure. The others run to their ends, their results dropped; a stop token in their scope
// (EngineScope::with_budget) ends them sooner. Throws ValueError when there is no task.
template <class T>
Task<std::pair<size_t, typename engine::Outcome<T>::Value>> when_any(std::vector<Task<T>> tasks) {
  if (tasks.empty()) throw ValueError("[when_any] there is no task to wait for");
  engine::ThisExecutor ask;
  Executor* executor = co_await ask;
  auto race = std::make_shared<engine::Race<T>>(std::move(tasks), *executor);
  engine::NotStarted roots(race->tasks.size());
  for (size_t i = 0; i < race->tasks.size(); ++i) roots.add(engine::run_in_race(race, i));
  roots.start(*executor);
  co_await race->first;
  size_t i = race->winner.load();
  co_return std::pair<size_t, typename engine::Outcome<T>::Value>(i, race->outcomes[i].get());
}

}  // namespace kaon
