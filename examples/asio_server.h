// The server of asio_server: accepts connections and, at the end, finishes what they have begun.
#pragma once

#include <boost/asio/io_context.hpp>
#include <set>

#include "asio_server_session.h"

namespace examples {

// Everything runs on the thread that runs `io`, which must have one. Must outlive run().
class Server {
 public:
  // Listens; port 0 is any free one. Throws boost::system::system_error when it cannot, ValueError for an empty sample.
  Server(asio::io_context& io, const tcp::endpoint& at, Service service)
      : service_(std::move(service)), acceptor_(io), limit_(io), changed_(io.get_executor()) {
    if (!service_.sample.is_known() || service_.sample.size() < 1 || service_.max_rows < 1) {
      throw ValueError(fmt::format("[Server] expected samples and at least one row, got shape {} and {} rows",
                                   service_.sample.str(), service_.max_rows));
    }
    acceptor_.open(at.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(at);
    acceptor_.listen();
  }

  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  size_t num_sessions() const { return sessions_.size(); }

  // Accepts until stop(); ends when the last session has.
  asio::awaitable<void> run() {
    while (acceptor_.is_open()) {
      if (sessions_.size() >= service_.max_connections) {
        co_await changed_.wait();
        continue;
      }
      error_code error;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        start(std::move(socket));
      } else if (acceptor_.is_open()) {  // no descriptors, say: not for ever
        limit_.expires_after(100ms);
        co_await limit_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
    while (!sessions_.empty()) co_await changed_.wait();
    limit_.cancel();
  }

  // Accepts and reads no more; what was read is computed and answered, within `grace`.
  void stop(std::chrono::milliseconds grace = 10s) {
    error_code ignored;
    acceptor_.close(ignored);
    limit_.expires_after(grace);
    limit_.async_wait([this](error_code cancelled) {
      if (!cancelled) abort();
    });
    for (const auto& session : sessions_) session->finish();
    changed_.notify();
  }
  void abort() {  // drops what is not answered yet
    for (const auto& session : sessions_) session->abort();
  }

 private:
  void start(tcp::socket socket) {
    auto session = std::make_shared<Session>(std::move(socket), service_);
    sessions_.insert(session);
    asio::co_spawn(acceptor_.get_executor(), session->run(), [this, session](std::exception_ptr) {
      sessions_.erase(session);
      changed_.notify();
    });
  }

  const Service service_;
  tcp::acceptor acceptor_;
  asio::steady_timer limit_;
  Change changed_;
  std::set<std::shared_ptr<Session>> sessions_;
};

}  // namespace examples
