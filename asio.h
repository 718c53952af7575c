// Waiting for arrays in Asio programs: completion tokens, with cancellation.
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/system_executor.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "kaon/engine/await.h"
#include "kaon/ops/ndarray.h"

namespace kaon {

namespace detail {

// The same executor; each copy keeps its context at work. Who posts from a thread of the engine does so through a copy
// of its own, which goes after the call has come back: what is posted may end before, on the context's thread, and with
// it run() and the context.
template <class AsioExecutor>
auto at_work(const AsioExecutor& executor) {
  return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
}

}  // namespace detail

// An Asio executor as Kaon's: where spawn() and Tasks may run. A Task that was spawned on it counts as work of its
// context until it has ended, so once io_context::run() has come back for want of work, adapter and context may be
// destroyed. Before that they may not while a Task is pending; after stop(), restart() and run() bring it to its end.
template <class AsioExecutor>
class AsioAdapter : public Executor {
 public:
  explicit AsioAdapter(AsioExecutor executor) : executor_(std::move(executor)) {}
  void post(std::coroutine_handle<> work) override {
    const auto executor = detail::at_work(executor_);
    boost::asio::post(executor, [work] { resume_coroutine(work); });
  }
  std::shared_ptr<void> hold() override {
    return std::make_shared<decltype(detail::at_work(executor_))>(detail::at_work(executor_));
  }

 private:
  AsioExecutor executor_;
};

namespace detail {

// What is pending for one handler: calls it once, on its executor, never inline, and keeps that executor's context at
// work until then. What the handler pushes never blocks its thread: it asks for room by async_admit.
template <class Handler>
class PendingHandler {
 public:
  explicit PendingHandler(Handler handler)
      : executor_(at_work(boost::asio::get_associated_executor(handler, boost::asio::system_executor()))),
        handler_(std::move(handler)) {}

  // `keep` owns this object. Later calls do nothing.
  void complete(std::exception_ptr e, std::shared_ptr<void> keep) {
    if (done_.exchange(true)) return;
    const auto executor = *executor_;
    boost::asio::post(executor, [this, e, keep = std::move(keep)]() mutable {
      Handler h = std::move(*handler_);
      handler_.reset();
      executor_.reset();
      keep.reset();  // the handler may free what we stand on
      struct InTask {
        bool saved = std::exchange(thread_context().in_task, true);
        ~InTask() { thread_context().in_task = saved; }
      } in_task;
      std::move(h)(e);
    });
  }
  bool is_done() const noexcept { return done_.load(); }

 private:
  using Associated = boost::asio::associated_executor_t<Handler, boost::asio::system_executor>;
  std::optional<decltype(at_work(std::declval<Associated>()))> executor_;
  std::optional<Handler> handler_;
  std::atomic<bool> done_{false};
};

// `queue` gives the wait to its engine, unless it throws: then nothing points there, and the handler goes uncalled.
template <class Wait, class F>
void enter(const std::shared_ptr<Wait>& wait, F&& queue) {
  wait->in_engine = wait;
  try {
    queue();
  } catch (...) {
    wait->in_engine.reset();
    throw;
  }
}

inline std::exception_ptr aborted() {
  return std::make_exception_ptr(boost::system::system_error(boost::asio::error::operation_aborted));
}

// One pending NDArray::async_wait. The engine holds its node while the array is not ready.
template <class Handler>
struct ArrayWait : WaitNode, std::enable_shared_from_this<ArrayWait<Handler>> {
  ArrayWait(NDArray a, Handler h)
      : WaitNode(wait_type, a.var(), AccessMode::read), array(std::move(a)), handler(std::move(h)) {}

  static constexpr OpType wait_type{
      .signal = [](OpBase& base) noexcept { static_cast<ArrayWait&>(static_cast<WaitNode&>(base)).finish(); },
  };
  void finish() {
    auto keep = std::move(in_engine);
    if (handler.is_done()) return;  // cancelled: a failure stays unreported
    if (!error && array.device().type == DeviceType::gpu &&
        array.when_run([this, keep](std::exception_ptr failure) { handler.complete(failure, keep); })) {
      return;
    }
    std::exception_ptr failure;
    try {
      if (error) throw_op_error(*error);
    } catch (...) {
      failure = std::current_exception();
    }
    handler.complete(failure, std::move(keep));
  }
  void cancel() {
    std::shared_ptr<ArrayWait> keep;
    if (array.engine().abandon_waiter(*this)) keep = std::move(in_engine);
    handler.complete(aborted(), this->shared_from_this());
  }

  NDArray array;
  PendingHandler<Handler> handler;
  std::shared_ptr<ArrayWait> in_engine;  // itself, while a var's queue points here
};

// One pending async_admit. The engine posts to it as to an executor.
template <class Handler>
struct AdmitWait : Executor, std::enable_shared_from_this<AdmitWait<Handler>> {
  explicit AdmitWait(Handler h) : handler(std::move(h)) {}
  void post(std::coroutine_handle<>) override {
    std::exception_ptr stopped;
    if (limits && limits->is_stopped())
      stopped = std::make_exception_ptr(Cancelled("[async_admit] the scope was stopped"));
    handler.complete(stopped, std::move(in_engine));
  }

  IntrusivePtr<Limits> limits{Engine::current().active_limits()};
  PendingHandler<Handler> handler;
  std::shared_ptr<AdmitWait> in_engine;  // itself, while the engine's list points here
};

}  // namespace detail

// Completes with void(std::exception_ptr) on the handler's executor when the writes pushed before are done; with a null
// pointer, or the array's failure, or operation_aborted after cancellation. Never blocks. Throws StateError in a child
// of a fork, for an array that its parent's engine has yet to write. Thread safety: any thread.
template <class Token>
auto NDArray::async_wait(Token&& token) const {
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      [](auto handler, NDArray array) {
        using Wait = detail::ArrayWait<decltype(handler)>;
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto wait = std::make_shared<Wait>(array, std::move(handler));
        if (slot.is_connected()) {
          slot.assign([weak = std::weak_ptr<Wait>(wait)](boost::asio::cancellation_type) {
            if (auto w = weak.lock()) w->cancel();
          });
        }
        detail::enter(wait, [&] {
          if (!array.engine().enqueue_waiter(*wait)) wait->finish();
        });
      },
      token, *this);
}

// Completes with void(std::exception_ptr) on the handler's executor when the engine and the caller's active limits have
// room for more work; with operation_aborted after cancellation, with Cancelled when the scope was stopped. Thread
// safety: any thread.
template <class Token>
auto Engine::async_admit(Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      [](auto handler, Engine* engine) {
        using Wait = detail::AdmitWait<decltype(handler)>;
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto wait = std::make_shared<Wait>(std::move(handler));
        if (slot.is_connected()) {
          slot.assign([weak = std::weak_ptr<Wait>(wait)](boost::asio::cancellation_type) {
            if (auto w = weak.lock()) w->handler.complete(detail::aborted(), w);
          });
        }
        detail::enter(wait, [&] { engine->on_room(std::noop_coroutine(), *wait); });
      },
      token, this);
}

}  // namespace kaon
