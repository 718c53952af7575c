// Waiting for arrays in Asio programs: completion tokens, with cancellation.
#pragma once

#include <atomic>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <memory>
#include <optional>

#include "kaon/engine/await.h"
#include "kaon/ops/ndarray.h"

namespace kaon {

// An Asio executor as Kaon's: where spawn() and Tasks may run. Must outlive them.
template <class AsioExecutor>
class AsioAdapter : public Executor {
 public:
  explicit AsioAdapter(AsioExecutor executor) : executor_(std::move(executor)) {}
  void post(std::coroutine_handle<> work) override {
    boost::asio::post(executor_, [work] { resume_coroutine(work); });
  }

 private:
  AsioExecutor executor_;
};

namespace detail {

// One pending async_wait. Lives until both the engine and Asio are done with it: the engine holds its node while the
// array is not ready, cancellation only takes the handler away.
template <class Handler, class Fallback>
struct AsyncWait : WaitNode, std::enable_shared_from_this<AsyncWait<Handler, Fallback>> {
  AsyncWait(NDArray array, Handler handler, Fallback fallback)
      : WaitNode(wait_type, array.var(), AccessMode::read),
        array(std::move(array)),
        work(boost::asio::get_associated_executor(handler, fallback)),
        handler(std::move(handler)) {}

  // Calls the handler once, through its executor, never inline.
  void complete(std::exception_ptr e) {
    if (done.exchange(true)) return;
    auto executor = work.get_executor();
    boost::asio::post(executor, [self = this->shared_from_this(), e]() mutable {
      Handler h = std::move(*self->handler);
      self->handler.reset();
      self->work.reset();
      std::move(h)(e);
    });
  }

  static constexpr OpType wait_type{
      .signal =
          [](OpBase& base) noexcept {
            auto& self = static_cast<AsyncWait&>(static_cast<WaitNode&>(base));
            auto keep = std::move(self.in_engine);
            self.complete(self.failure());
          },
  };
  std::exception_ptr failure() {
    if (!error) return nullptr;
    try {
      throw_op_error(*error);
    } catch (...) {
      return std::current_exception();
    }
  }

  NDArray array;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Fallback>> work;
  std::optional<Handler> handler;
  std::atomic<bool> done{false};
  std::shared_ptr<AsyncWait> in_engine;  // itself, while a var's queue points here
};

}  // namespace detail

// Completes with void(std::exception_ptr) on the handler's executor when the writes pushed before are done; with a null
// pointer, or the array's failure, or operation_aborted after cancellation. Never blocks. Thread safety: any thread.
template <class Token>
auto NDArray::async_wait(Token&& token) const {
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      [](auto handler, NDArray array) {
        using Handler = decltype(handler);
        using Wait = detail::AsyncWait<Handler, boost::asio::system_executor>;
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        auto wait = std::make_shared<Wait>(array, std::move(handler), boost::asio::system_executor());
        if (slot.is_connected()) {
          slot.assign([weak = std::weak_ptr<Wait>(wait)](boost::asio::cancellation_type) {
            if (auto w = weak.lock()) {
              w->complete(std::make_exception_ptr(boost::system::system_error(boost::asio::error::operation_aborted)));
            }
          });
        }
        wait->in_engine = wait;
        if (!array.engine().enqueue_waiter(*wait)) {
          auto keep = std::move(wait->in_engine);
          wait->complete(wait->failure());
        }
      },
      token, *this);
}

}  // namespace kaon
