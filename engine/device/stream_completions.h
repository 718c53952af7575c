// StreamCompletions: calls back when work on a device has run.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kaon/engine/device/stream_order.h"

namespace kaon::engine {

// How it works. A stream has a second one for signals, which waits for an event of the first and then calls back, so
// the first is not delayed. While a callback is pending, further requests are gathered; when it arrives, one callback
// is launched for all of them. Their work is posted, since the driver's thread may not call the driver. Thread safety:
// any thread.
class StreamCompletions {
 public:
  using Work = std::function<void(std::exception_ptr)>;  // null, or the device's failure
  using Post = std::function<void(std::function<void()>)>;
  // `signals` and `order` must outlive this. `post` runs its argument later, not inside a call of this object.
  StreamCompletions(StreamOrder& order, Post post) : order_(order), post_(std::move(post)) {}
  ~StreamCompletions();  // no callback may be pending
  void add(uint32_t stream, Stream& signals);

  // Posts work once the point is reached or the device has failed.
  void when_done(StreamPoint point, Work work);
  uint64_t calls() const;  // callbacks launched so far

 private:
  struct Waiting {
    StreamPoint point;
    Work work;
  };
  struct Lane {
    StreamCompletions* owner;
    uint32_t stream;
    Stream* signals;
    bool is_called = false;
    std::vector<Waiting> called{}, gathered{};
  };
  void give_out(Lane& lane);  // launches a callback for all gathered requests
  void look(Lane& lane);      // after the callback

  StreamOrder& order_;
  const Post post_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  uint64_t calls_ = 0;
};

}  // namespace kaon::engine
