// Change: how the coroutines of one thread wait for one another.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace examples {

namespace asio = boost::asio;
using boost::system::error_code;

// A coroutine waits here until another one of its thread says that something has changed.
class Change {
 public:
  explicit Change(const asio::any_io_executor& executor) : timer_(executor) {}
  asio::awaitable<void> wait() {
    error_code cancelled;
    timer_.expires_at(asio::steady_timer::time_point::max());
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  void notify() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace examples
