// Waiting for arrays in Asio programs: completion tokens, with cancellation.
#pragma once

#include <atomic>
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
#include <stop_token>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/await.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

namespace engine {

// The same executor; each copy keeps its context at work. Who posts from a thread of the engine does so through a copy
// of its own, which goes after the call has come back: what is posted may end before, on the context's thread, and with
// it run() and the context.
template <class AsioExecutor>
auto at_work(const AsioExecutor& executor) {
  return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
}

}  // namespace engine

// An Asio executor as Kaon's: where spawn() and Tasks may run. A Task that was spawned on it counts as work of its
// context until it has ended, so once io_context::run() has come back for want of work, adapter and context may be
// destroyed. Before that they may not while a Task is pending; after stop(), restart() and run() bring it to its end.
template <class AsioExecutor>
class AsioAdapter : public Executor {
 public:
  explicit AsioAdapter(AsioExecutor executor) : executor_(std::move(executor)) {}
  void post(std::coroutine_handle<> work) override {
    const auto executor = engine::at_work(executor_);
    boost::asio::post(executor, [work] { engine::resume_coroutine(work); });
  }
  std::shared_ptr<void> hold() override {
    return std::make_shared<decltype(engine::at_work(executor_))>(engine::at_work(executor_));
  }

 private:
  AsioExecutor executor_;
};

namespace engine {

// What is pending for one handler: calls it once, on its executor, never inline, and keeps that executor's context at
// work until then. What the handler pushes never blocks its thread: it asks for room by async_admit.
template <class Handler>
class PendingHandler {
 public:
  explicit PendingHandler(Handler handler)
      : executor_(at_work(boost::asio::get_associated_executor(handler, boost::asio::system_executor()))),
        handler_(std::move(handler)) {}

  // `keep` owns this object. Later calls do nothing. Posting to an Asio executor allocates; this does not fail.
  void complete(const std::exception_ptr& e, const std::shared_ptr<void>& keep) noexcept {
    if (done_.exchange(true)) return;
    const auto executor = *executor_;
    post_surely([&] { post(executor, e, keep); });
  }
  // The same, but throws std::bad_alloc and leaves the handler uncalled.
  void complete_or_throw(const std::exception_ptr& e, const std::shared_ptr<void>& keep) {
    if (done_.exchange(true)) return;
    const auto executor = *executor_;
    post(executor, e, keep);
  }
  bool is_done() const noexcept { return done_.load(); }

 private:
  using Associated = boost::asio::associated_executor_t<Handler, boost::asio::system_executor>;
  using AtWork = decltype(at_work(std::declval<Associated>()));

  // The function that is posted. The thread that posts it owns the handler as well until post() has returned, and so it
  // may own it last: where the context goes with this function uncalled, the handler must go here.
  class Posted {
   public:
    Posted(PendingHandler& pending, const std::exception_ptr& e, const std::shared_ptr<void>& keep)
        : pending_(pending), error_(e), keep_(keep) {}
    Posted(Posted&&) noexcept = default;
    Posted& operator=(Posted&&) = delete;
    ~Posted() {
      if (keep_ && t_posting != &pending_) pending_.drop();
    }
    void operator()() {
      Handler h = std::move(*pending_.handler_);
      pending_.drop();
      const std::exception_ptr error = std::move(error_);
      keep_.reset();  // the handler may free what we stand on
      struct InTask {
        bool saved = std::exchange(thread_context().in_task, true);
        ~InTask() { thread_context().in_task = saved; }
      } in_task;
      std::move(h)(error);
    }

   private:
    PendingHandler& pending_;
    std::exception_ptr error_;
    std::shared_ptr<void> keep_;
  };

  void post(const AtWork& executor, const std::exception_ptr& e, const std::shared_ptr<void>& keep) {
    struct Posting {
      const void* outer;
      explicit Posting(const void* self) : outer(std::exchange(t_posting, self)) {}
      ~Posting() { t_posting = outer; }
    } posting(this);
    boost::asio::post(executor, Posted(*this, e, keep));
  }
  void drop() noexcept {
    handler_.reset();
    executor_.reset();
  }

  // What this thread is posting for: a function that is destroyed meanwhile has not been posted.
  static inline constinit thread_local const void* t_posting = nullptr;

  std::optional<AtWork> executor_;
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
struct ArrayWait : VarWait, std::enable_shared_from_this<ArrayWait<Handler>> {
  ArrayWait(NDArray a, Handler h) : VarWait(a.var(), AccessMode::read), array(std::move(a)), handler(std::move(h)) {}

  void signalled() noexcept override {
    const std::shared_ptr<void> keep = std::move(in_engine);
    if (std::exception_ptr failure; is_over(failure, keep)) handler.complete(failure, keep);
  }
  // At the call, where the array is ready: throws std::bad_alloc, and the handler goes uncalled.
  void finish_at_once() {
    const std::shared_ptr<void> keep = std::move(in_engine);
    if (std::exception_ptr failure; is_over(failure, keep)) handler.complete_or_throw(failure, keep);
  }
  // False when there is nobody to be told any more, or when a GPU has still to run what was launched.
  bool is_over(std::exception_ptr& failure, const std::shared_ptr<void>& keep) {
    if (handler.is_done()) return false;  // cancelled: a failure stays unreported
    if (!has_failed() && array.device().type == DeviceType::gpu &&
        array.when_run([this, keep](std::exception_ptr failure) { handler.complete(failure, keep); })) {
      return false;
    }
    try {
      throw_failure();
    } catch (...) {
      failure = std::current_exception();
    }
    return true;
  }
  void cancel() {
    const std::exception_ptr failure = aborted();  // before anything else: it may throw std::bad_alloc
    std::shared_ptr<ArrayWait> keep;
    if (abandon(array.engine())) keep = std::move(in_engine);
    handler.complete(failure, this->shared_from_this());
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
    const std::exception_ptr failure = stopped();
    const std::shared_ptr<void> keep = std::move(in_engine);
    handler.complete(failure, keep);
  }
  // At the call, where there is room: throws std::bad_alloc, and the handler goes uncalled.
  void finish_at_once() { handler.complete_or_throw(stopped(), this->shared_from_this()); }
  std::exception_ptr stopped() const {
    if (!scope.stop_requested()) return nullptr;
    return std::make_exception_ptr(Cancelled("[async_admit] the scope was stopped"));
  }

  const std::stop_token scope = Engine::current().stop_token();
  PendingHandler<Handler> handler;
  std::shared_ptr<AdmitWait> in_engine;  // itself, while the engine's list points here
};

}  // namespace engine

// Completes with void(std::exception_ptr) on the handler's executor when the writes pushed before are done; with a null
// pointer, or the array's failure, or operation_aborted after cancellation. Never blocks. Throws StateError in a child
// of a fork, for an array that its parent's engine has yet to write. Thread safety: any thread.
template <class Token>
auto NDArray::async_wait(Token&& token) const {
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      [](auto handler, NDArray array) {
        using Wait = engine::ArrayWait<decltype(handler)>;
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto wait = std::make_shared<Wait>(array, std::move(handler));
        if (slot.is_connected()) {
          slot.assign([weak = std::weak_ptr<Wait>(wait)](boost::asio::cancellation_type) {
            if (auto w = weak.lock()) w->cancel();
          });
        }
        engine::enter(wait, [&] {
          if (!wait->enqueue(array.engine())) wait->finish_at_once();
        });
      },
      token, *this);
}

// Completes with void(std::exception_ptr) on the handler's executor when the engine and the caller's active budget has
// room for more work; with operation_aborted after cancellation, with Cancelled when the scope was stopped. Thread
// safety: any thread.
template <class Token>
auto Engine::async_admit(Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      [](auto handler, Engine* engine) {
        using Wait = engine::AdmitWait<decltype(handler)>;
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto wait = std::make_shared<Wait>(std::move(handler));
        if (slot.is_connected()) {
          slot.assign([weak = std::weak_ptr<Wait>(wait)](boost::asio::cancellation_type) {
            if (auto w = weak.lock()) w->handler.complete(engine::aborted(), w);
          });
        }
        engine->check_not_gone("async_admit");
        if (engine->admits_now()) return wait->finish_at_once();
        engine::enter(wait, [&] { engine->on_room(std::noop_coroutine(), *wait); });
      },
      token, this);
}

}  // namespace kaon
