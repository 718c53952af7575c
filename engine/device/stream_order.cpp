#include "kaon/engine/device/stream_order.h"

#include <algorithm>

namespace kaon::engine {

uint32_t StreamOrder::add(Stream& stream) {
  std::lock_guard lock(mutex_);
  lanes_.push_back({.stream = &stream});
  for (Lane& lane : lanes_) lane.seen.resize(lanes_.size());
  return uint32_t(lanes_.size() - 1);
}

void StreamOrder::retire(uint32_t stream) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[stream];
  forget_done(lane);
  // a later wait for this stream's work finds this event and does not need the stream
  if (lane.done < lane.launched) covering({stream, lane.launched});
  lane.stream = nullptr;
}

void StreamOrder::reuse(uint32_t number, Stream& stream) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[number];
  forget_done(lane);
  // points of one number are in order, and imply what the retired stream has waited for
  if (lane.done < lane.launched) stream.wait(*covering({number, lane.launched}).event);
  lane.stream = &stream;
}

StreamPoint StreamOrder::launched(uint32_t stream) {
  std::lock_guard lock(mutex_);
  return {stream, ++lanes_[stream].launched};
}

StreamPoint StreamOrder::end(uint32_t stream) const {
  std::lock_guard lock(mutex_);
  return {stream, lanes_[stream].launched};
}

// Drops events that are done, so that their number stays small; asking the driver about the oldest is cheap.
void StreamOrder::forget_done(Lane& lane) {
  while (!lane.events.empty() && lane.events.front().event->is_done()) {
    lane.done = std::max(lane.done, lane.events.front().sequence);
    lane.events.pop_front();
  }
}

StreamOrder::Recorded& StreamOrder::covering(StreamPoint point) {
  Lane& lane = lanes_[point.stream];
  auto at = std::lower_bound(lane.events.begin(), lane.events.end(), point.sequence,
                             [](const Recorded& r, uint64_t sequence) { return r.sequence < sequence; });
  if (at != lane.events.end()) return *at;
  lane.events.push_back({lane.launched, lane.stream->record(), lane.seen});
  ++stats_.events;
  return lane.events.back();
}

void StreamOrder::wait(uint32_t stream, StreamPoint point) {
  if (stream == point.stream) return;
  std::lock_guard lock(mutex_);
  Lane &lane = lanes_[stream], &source = lanes_[point.stream];
  if (point.sequence <= std::max(lane.seen[point.stream], source.done)) {
    ++stats_.skipped;
    return;
  }
  forget_done(source);
  if (point.sequence <= source.done) {
    ++stats_.skipped;
    return;
  }
  const Recorded& r = covering(point);
  lane.stream->wait(*r.event);
  ++stats_.waits;
  lane.seen[point.stream] = r.sequence;
  for (size_t i = 0; i < r.seen.size(); ++i) lane.seen[i] = std::max(lane.seen[i], r.seen[i]);
}

IntrusivePtr<StreamEvent> StreamOrder::event_after(StreamPoint point) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[point.stream];
  if (point.sequence <= lane.done) return nullptr;
  forget_done(lane);
  return point.sequence <= lane.done ? nullptr : covering(point).event;
}

bool StreamOrder::is_done(StreamPoint point) {
  const IntrusivePtr<StreamEvent> event = event_after(point);
  return !event || event->is_done();
}

StreamOrderStats StreamOrder::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void StreamUse::order_before(StreamOrder& order, uint32_t stream, bool writes) const {
  const auto is_behind = [&](StreamPoint p) { return p.stream == stream || p.sequence == 0; };
  {
    std::lock_guard lock(lock_);
    const bool reads_are = !writes || std::all_of(reads_.begin(), reads_.end(), is_behind);
    if (reads_are && is_behind(write_)) return;  // most arrays are used on one stream only
  }
  if (writes) {
    for (const StreamPoint& p : points()) order.wait(stream, p);
  } else {
    order.wait(stream, write());
  }
}

void StreamUse::add(StreamPoint point, bool writes) {
  std::lock_guard lock(lock_);
  if (writes) {
    reads_.clear();
    write_ = point;
    return;
  }
  for (StreamPoint& r : reads_) {
    if (r.stream != point.stream) continue;
    r.sequence = std::max(r.sequence, point.sequence);
    return;
  }
  reads_.push_back(point);
}

std::vector<StreamPoint> StreamUse::points() const {
  std::lock_guard lock(lock_);
  std::vector<StreamPoint> all = reads_;
  all.push_back(write_);
  return all;
}

StreamPoint StreamUse::write() const {
  std::lock_guard lock(lock_);
  return write_;
}

}  // namespace kaon::engine
