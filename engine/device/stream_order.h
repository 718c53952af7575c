// StreamOrder: makes streams wait for each other with as few events as possible.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/device/stream.h"

namespace kaon::engine {

// The point after operation `number` of a stream; operations are counted from 1, and 0 is always done.
struct StreamPoint {
  uint32_t stream = 0;
  uint64_t sequence = 0;
  friend bool operator==(StreamPoint, StreamPoint) = default;
};

struct StreamOrderStats {
  uint64_t events = 0;   // recorded
  uint64_t waits = 0;    // given to streams
  uint64_t skipped = 0;  // waits that were implied already
};

// How it works. Launching gives each operation a point. A stream that must run after a point calls wait(), which costs
// nothing when the point is on the same stream, known to be done, or before one that the stream has waited for,
// directly or through another stream. Else the stream waits for the oldest recorded event that covers the point; only
// when there is none, an event is recorded at the end of the other stream: later than necessary, but a chain on one
// stream costs no event. Thread safety: any thread; each stream is launched on by one.
class StreamOrder {
 public:
  uint32_t add(Stream& stream);  // its number; it must outlive this, or be retired
  // After this nothing may be launched on the stream, which may be destroyed. Throws DeviceError when the device has
  // failed.
  void retire(uint32_t stream);
  // Gives the number of a retired stream to another one of its device, which runs after it.
  void reuse(uint32_t number, Stream& stream);
  StreamPoint launched(uint32_t stream);  // to be called after each launch: the point after it
  StreamPoint end(uint32_t stream) const;
  void wait(uint32_t stream, StreamPoint point);  // later launches on `stream` run after `point`; does not block
  // Null when it is done already. Throws DeviceError when the device has failed.
  IntrusivePtr<StreamEvent> event_after(StreamPoint point);
  bool is_done(StreamPoint point);  // throws DeviceError when the device has failed
  StreamOrderStats stats() const;

 private:
  struct Recorded {
    uint64_t sequence;
    IntrusivePtr<StreamEvent> event;
    std::vector<uint64_t> seen;  // by stream: the number that had been waited for when it was recorded
  };
  struct Lane {
    Stream* stream;
    uint64_t launched = 0;
    uint64_t done = 0;  // operations known to be done
    std::vector<uint64_t> seen{};
    std::deque<Recorded> events{};  // not known to be done
  };
  Recorded& covering(StreamPoint point);
  void forget_done(Lane& lane);

  mutable std::mutex mutex_;
  std::vector<Lane> lanes_;
  StreamOrderStats stats_;
};

// How streams use a block of memory: its last write, and the reads since.
// Thread safety: any thread; the engine's order keeps writers alone.
class StreamUse {
 public:
  // Orders later launches on `stream`, which read the memory or write it, after the uses so far.
  void order_before(StreamOrder& order, uint32_t stream, bool writes) const;
  void add(StreamPoint point, bool writes);
  std::vector<StreamPoint> points() const;  // after these no stream uses it
  StreamPoint write() const;

 private:
  mutable SpinLock lock_;
  StreamPoint write_;
  std::vector<StreamPoint> reads_;  // at most one of each stream
};

}  // namespace kaon::engine
