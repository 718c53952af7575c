// How a communicator looks after sums with a priority, of which several are under way.
#include <algorithm>
#include <thread>
#include <utility>

#include "kaon/comm/driver/driver.h"

namespace kaon::comm {

// Whether the next call is ready and may begin beside those that are under way.
bool Driver::may_join() const {
  const auto next = ready_.find(next_);
  if (running_ || !failure_.empty() || next == ready_.end()) return false;
  if (!next->second.has_priority) return false;
  if (beside_.empty()) return true;
  const auto has_company = [](const Running& r) { return r.pending && r.pending->takes_company(); };
  return next_ - beside_.front().place < Group::most_together && std::ranges::all_of(together_, has_company);
}

// Until no call with a priority is ready or under way, or the communicator has failed. Rests as wait() does.
void Driver::run_beside(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::microseconds none(0), short_time(5), long_time(100), rest(50);
  const auto after_a_step = local_size_ == size_ ? long_time : short_time;
  together_.reserve(Group::most_together);
  for (auto patience = after_a_step;;) {
    while (may_join()) {
      Running running = take();
      beside_.push_back({std::exchange(running_, nullptr), running.call.kind, running.place, running_since_});
      lock.unlock();
      running.went_on = std::chrono::steady_clock::now();
      attempt(running, [&] { run(running); });
      lock.lock();
      const auto is_lower = [&](const Running& r) { return r.call.priority < running.call.priority; };
      together_.insert(std::ranges::find_if(together_, is_lower), std::move(running));
      if (beside_.empty()) return abandon_beside();
    }
    if (together_.empty()) return;
    const bool is_last = !failure_.empty();  // what has come in time counts
    lock.unlock();
    const bool has_gone_on = look_beside(is_last ? none : patience);
    patience = has_gone_on ? after_a_step : short_time;
    if (std::ranges::none_of(together_, &Running::has_ended) && !is_last) std::this_thread::sleep_for(rest);
    lock.lock();
    if (beside_.empty()) return abandon_beside();
    for (size_t i = 0; i < together_.size();) {
      if (is_last && !together_[i].has_ended) give_up(together_[i]), together_[i].has_ended = true;
      if (!together_[i].has_ended) {
        ++i;
        continue;
      }
      end_beside(i, lock);
      if (beside_.empty() && !together_.empty()) return abandon_beside();
    }
    if (!sends_.empty()) poll_sends(lock);
  }
}

// For this time since something has been done last, or until a call has ended or failed. A call begins nothing while
// one of a higher priority has something to begin, unless that one waits for a rank that is late: else calls whose
// ranks wait for each other would wait for ever. Returns whether something has been done.
bool Driver::look_beside(std::chrono::microseconds patience) {
  constexpr std::chrono::milliseconds most_idle(20);
  bool has_gone_on = false;
  auto now = std::chrono::steady_clock::now();
  for (auto last = now + patience;;) {
    bool is_held_back = false, has_ended = false;
    for (Running& r : together_) {
      if (!r.pending) r.has_ended = true;  // it could not begin
      if (!r.has_ended) {
        const uint64_t before = r.pending->progress();
        r.pending->hold_back(is_held_back);
        attempt(r, [&] { r.has_ended = r.pending->has_ended(); });
        r.has_ended = r.has_ended || r.failure;
        now = std::chrono::steady_clock::now();
        if (r.pending->progress() != before) {
          r.went_on = now;
          last = now + patience;
          has_gone_on = true;
        }
        if (r.pending->wants_more() && now - r.went_on < most_idle) is_held_back = true;
      }
      has_ended = has_ended || r.has_ended;
    }
    if (has_ended || now >= last) return has_gone_on;
  }
}

void Driver::end_beside(size_t which, std::unique_lock<std::mutex>& lock) {
  Running ended = std::move(together_[which]);
  together_.erase(together_.begin() + ptrdiff_t(which));
  std::erase_if(beside_, [&](const Beside& b) { return b.op == ended.op; });
  end(ended, lock);
}

// fail() has ended their operations.
void Driver::abandon_beside() {
  for (Running& r : together_) abandon(r);
  together_.clear();
}

}  // namespace kaon::comm
