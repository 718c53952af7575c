// StreamCompletions: tells those who wait that work on a device has run.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kaon/engine/device/stream_order.h"

namespace kaon {

// How it works. A stream has a second one for signals, which waits for an event of the first and then calls back; the
// first goes on meanwhile. While a call is on its way, all who ask are gathered: the next call, one for all of them,
// is given out when it comes. What is to be done then is posted, since the driver's thread may not call the driver.
// Thread safety: any thread.
class StreamCompletions {
 public:
  using Work = std::function<void(std::exception_ptr)>;  // null, or the device's failure
  using Post = std::function<void(std::function<void()>)>;
  // `signals` and `order` must outlive this. `post` runs what it is given later, from nowhere inside of this.
  StreamCompletions(StreamOrder& order, Post post) : order_(order), post_(std::move(post)) {}
  ~StreamCompletions();  // when nothing is on its way any more
  void add(uint32_t stream, Stream& signals);

  // Posts work once the point is reached or the device has failed.
  void when_done(StreamPoint point, Work work);
  uint64_t calls() const;  // given out so far

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
  void give_out(Lane& lane);  // a call for all that is gathered
  void look(Lane& lane);      // after the call

  StreamOrder& order_;
  const Post post_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  uint64_t calls_ = 0;
};

}  // namespace kaon
