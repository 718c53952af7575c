// One connection of asio_server.
#pragma once

#include <fmt/format.h>
#include <kaon/asio.h>
#include <kaon/kaon.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>

#include "asio_server_change.h"
#include "asio_server_protocol.h"

namespace examples {

using namespace kaon;
using namespace std::chrono_literals;
using asio::ip::tcp;

// What is served. `net` is called on the sockets' thread with {rows, sample...}: it pushes and waits for nothing.
struct Service {
  std::function<NDArray(const NDArray&)> net;
  Shape sample;  // of one
  int64_t max_rows = 8;
  size_t max_connections = 256;  // further ones wait until one ends
  Engine* engine = &Engine::current();

  size_t sample_bytes() const { return size_t(sample.size()) * sizeof(float); }
  size_t longest() const { return std::max<size_t>(size_t(max_rows) * sample_bytes(), 1 << 20); }
};

// A coroutine that reads requests and pushes their work and, while replies are due, one that sends them; both on the
// socket's thread. That one reads while work is pending is how a client that vanishes is noticed.
class Session : public std::enable_shared_from_this<Session> {
 public:
  static constexpr size_t ahead = 4;  // requests that are pending at once

  Session(tcp::socket socket, const Service& service)
      : socket_(std::move(socket)), service_(service), changed_(socket_.get_executor()) {}

  // Ends when the client has gone, or after finish() when all that was read is answered.
  asio::awaitable<void> run() {
    try {
      socket_.set_option(tcp::no_delay(true));
      socket_.set_option(asio::socket_base::keep_alive(true));  // for clients that vanish without a word
      co_await read_requests();
    } catch (const boost::system::system_error&) {
      if (!finishing_) abort();
    }
    while (sending_) co_await changed_.wait();
    co_await close();
  }

  void finish() {  // reads no further request
    finishing_ = true;
    stop_reading_.emit(asio::cancellation_type::terminal);
  }
  void abort() {  // drops what is queued; what runs already ends unseen
    finishing_ = true;
    stop_.request_stop();
    stop_sending_.emit(asio::cancellation_type::terminal);
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  struct Reply {
    Status status;
    std::string text;  // of an error
    NDArray output;    // else
  };

  asio::awaitable<void> read_requests() {
    std::vector<float> values;
    while (!finishing_) {
      uint32_t length = 0;
      co_await read(asio::buffer(&length, sizeof length));
      if (length > service_.longest()) {
        send({Status::too_long, fmt::format("a request has at most {} bytes, got {}", service_.longest(), length), {}});
        co_return;
      }
      values.resize((length + sizeof(float) - 1) / sizeof(float));
      co_await read(asio::buffer(values.data(), length));
      while (replies_.size() >= ahead) co_await changed_.wait();
      co_await service_.engine->async_admit(asio::use_awaitable);  // there is room: the push will not block
      send(begin(values, length));
    }
  }
  asio::awaitable<void> read(asio::mutable_buffer into) {
    co_await asio::async_read(socket_, into, asio::bind_cancellation_slot(stop_reading_.slot(), asio::use_awaitable));
  }

  // Pushes the work of a request. What has not begun when stop_ is requested is dropped.
  Reply begin(const std::vector<float>& values, size_t bytes) {
    const size_t rows = bytes / service_.sample_bytes();
    if (rows == 0 || rows > size_t(service_.max_rows) || bytes % service_.sample_bytes() != 0) {
      return {Status::bad_length,
              fmt::format("expected 1 to {} samples of {} bytes (float32 of shape {}), got {} bytes", service_.max_rows,
                          service_.sample_bytes(), service_.sample.str(), bytes),
              {}};
    }
    Shape shape(rows);
    for (int64_t dim : service_.sample) shape.push_back(dim);
    // plain scopes, which a foreign coroutine must not keep across a co_await
    const EngineScope engine(*service_.engine);
    const EngineScope scope = engine.with_budget(0, stop_.get_token());
    try {
      return {Status::ok, {}, service_.net(NDArray::from(values.data(), values.size(), shape))};
    } catch (const std::exception& e) {
      return {Status::failed, e.what(), {}};
    }
  }

  void send(Reply reply) {
    replies_.push_back(std::move(reply));
    if (std::exchange(sending_, true)) return;
    asio::co_spawn(socket_.get_executor(), send_replies(shared_from_this()),
                   asio::bind_cancellation_slot(stop_sending_.slot(), asio::detached));
  }
  asio::awaitable<void> send_replies([[maybe_unused]] std::shared_ptr<Session> self) {
    try {
      for (; !replies_.empty(); replies_.pop_front(), changed_.notify()) co_await send_first();
    } catch (const boost::system::system_error&) {  // aborted, or the client has gone
      abort();
      replies_.clear();
    }
    sending_ = false;
    changed_.notify();
  }
  asio::awaitable<void> send_first() {
    Reply& reply = replies_.front();
    std::vector<float> values;
    try {
      if (reply.status == Status::ok) {
        co_await reply.output.async_wait(asio::use_awaitable);
        values = reply.output.asvector<float>();  // it is ready, so this does not wait
      }
    } catch (const boost::system::system_error&) {
      throw;
    } catch (const std::exception& e) {
      reply = {Status::failed, e.what(), {}};
    }
    const asio::const_buffer body = reply.status == Status::ok ? asio::buffer(values) : asio::buffer(reply.text);
    const uint32_t length = uint32_t(body.size());
    const std::array<asio::const_buffer, 3> parts{asio::buffer(&reply.status, 1), asio::buffer(&length, sizeof length),
                                                  body};
    co_await asio::async_write(socket_, parts, asio::use_awaitable);
  }

  // What the client has sent beyond its last request is read away, for a second at most: a socket that is closed with
  // unread bytes may take the last reply with it.
  asio::awaitable<void> close() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    asio::steady_timer limit(socket_.get_executor(), 1s);
    limit.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->socket_.close(cancelled);
    });
    std::array<char, 4096> rest;
    while (!error)
      co_await socket_.async_read_some(asio::buffer(rest), asio::redirect_error(asio::use_awaitable, error));
    socket_.close(error);
  }

  tcp::socket socket_;
  const Service& service_;
  Change changed_;
  std::deque<Reply> replies_;  // due, oldest first
  bool sending_ = false, finishing_ = false;
  std::stop_source stop_;
  asio::cancellation_signal stop_reading_, stop_sending_;
};

}  // namespace examples
