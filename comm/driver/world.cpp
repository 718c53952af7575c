#include "kaon/comm/driver/world.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/comm/driver/driver.h"

namespace kaon::comm {

void World::begin_watch(Group& group) {
  size_ = group.size();
  local_rank_ = group.local_rank();
  watch_ = std::make_unique<Watch>(
      group, options,
      Watch::Callbacks{
          .failed = [this](const std::string& text) { fail(text); },
          .progress =
              [this] {
                std::vector<Progress> all;
                for (const auto& d : drivers()) {
                  d->look_at_gpu();
                  all.push_back(d->progress());
                }
                return all;
              },
          .differs =
              [this](int rank, const Progress& other) {
                for (const auto& d : drivers()) {
                  if (std::string why = d->differs(rank, other); !why.empty()) return why;
                }
                return std::string();
              },
          .waits =
              [this](const std::set<int>& gone) {
                const auto all = drivers();
                return std::any_of(all.begin(), all.end(), [&](const auto& d) { return d->waits_for(gone); });
              },
          .long_calls =
              [this](auto least) {
                std::vector<LongCall> all;
                for (const auto& d : drivers()) {
                  for (LongCall& c : d->long_calls(least)) all.push_back(std::move(c));
                }
                return all;
              },
          .has_begun =
              [this](uint64_t communicator, uint64_t place) {
                const auto all = drivers();
                return std::any_of(all.begin(), all.end(),
                                   [&](const auto& d) { return d->has_begun(communicator, place); });
              },
          .waiting =
              [this](auto least) {
                std::vector<Waiting> all;
                for (const auto& d : drivers()) {
                  if (std::optional<Waiting> w = d->waiting(least)) all.push_back(std::move(*w));
                }
                return all;
              },
      });
}

void World::add(const std::shared_ptr<Driver>& driver) {
  std::string failure;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(drivers_, [](const auto& d) { return d.expired(); });
    drivers_.push_back(driver);
    failure = failure_;
  }
  if (!failure.empty()) driver->fail(failure);  // since it was made
}
std::vector<std::shared_ptr<Driver>> World::drivers() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Driver>> all;
  for (const auto& d : drivers_) {
    if (auto driver = d.lock()) all.push_back(std::move(driver));
  }
  return all;
}
std::string World::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}
void World::report(const std::string& failure) {
  if (watch_) watch_->report(failure);
}
void World::report_unless_explained(const std::string& failure) {
  if (watch_) watch_->report_unless_explained(failure);
}
void World::fail(const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = text;
  }
  for (const auto& d : drivers()) d->fail(text);
}
bool World::end() {
  has_ended_ = true;
  if (!watch_) return true;
  const bool is_whole = failure().empty() && watch_->say_goodbye();
  if (!is_whole) watch_.reset();
  return is_whole;
}

Device World::device() const {
  const int gpus = gpu_count();
  if (gpus == 0) throw DeviceError(fmt::format("[comm] this rank has no GPU: {}", gpu_unavailable_reason()));
  if (gpus > 1 && local_rank_ >= gpus) {
    throw DeviceError(
        fmt::format("[comm] this is rank {} of those on its machine, from 0, which has {} GPUs", local_rank_, gpus));
  }
  return gpu(gpus == 1 ? 0 : local_rank_);
}

}  // namespace kaon::comm
