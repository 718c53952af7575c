#include "kaon/engine/device/stream_completions.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace kaon::engine {

StreamCompletions::~StreamCompletions() {
  const auto is_quiet = [&] {
    std::lock_guard lock(mutex_);
    return std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane && lane->is_called; });
  };
  while (!is_quiet()) std::this_thread::yield();
}

void StreamCompletions::add(uint32_t stream, Stream& signals) {
  std::lock_guard lock(mutex_);
  if (lanes_.size() <= stream) lanes_.resize(stream + 1);
  lanes_[stream] = std::make_unique<Lane>(this, stream, &signals);
}

void StreamCompletions::when_done(StreamPoint point, Work work) {
  std::lock_guard lock(mutex_);
  Lane& lane = *lanes_[point.stream];
  lane.gathered.push_back({point, std::move(work)});
  if (!lane.is_called) give_out(lane);
}

void StreamCompletions::give_out(Lane& lane) {
  lane.called = std::exchange(lane.gathered, {});
  lane.is_called = true;
  StreamPoint last{lane.stream, 0};
  for (const Waiting& w : lane.called) last.sequence = std::max(last.sequence, w.point.sequence);
  ++calls_;
  try {
    if (const IntrusivePtr<StreamEvent> event = order_.event_after(last)) {
      lane.signals->wait(*event);
      lane.signals->call(
          [](void* argument) noexcept {
            Lane& called = *static_cast<Lane*>(argument);
            called.owner->post_([&called] { called.owner->look(called); });
          },
          &lane);
      return;
    }
  } catch (...) {  // the device has failed: look() tells every waiter
  }
  post_([this, &lane] { look(lane); });
}

void StreamCompletions::look(Lane& lane) {
  std::vector<Waiting> done;
  {
    std::lock_guard lock(mutex_);
    done = std::exchange(lane.called, {});
  }
  for (Waiting& w : done) {
    std::exception_ptr failure;
    try {
      order_.is_done(w.point);  // reads the device's state again: a failed device calls back as well
    } catch (...) {
      failure = std::current_exception();
    }
    w.work(failure);
  }
  std::lock_guard lock(mutex_);
  lane.is_called = false;
  if (!lane.gathered.empty()) give_out(lane);
}

uint64_t StreamCompletions::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

}  // namespace kaon::engine
