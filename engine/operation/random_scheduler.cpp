#include "kaon/engine/operation/random_scheduler.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <mutex>
#include <string>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"

namespace kaon::engine {
namespace {
constexpr std::string_view end_mark = "end";  // the last line of a file

uint32_t draw(std::mt19937_64& random) { return uint32_t(random()); }
}  // namespace

RandomScheduler::RandomScheduler(const Schedule& schedule)
    : seed_(schedule.seed), random_(schedule.seed), replays_(schedule.kind == Schedule::Kind::replay) {
  if (!replays_) return;
  const std::string name = schedule.file ? schedule.file : "";
  std::ifstream in(name);
  if (!in) throw IoError(fmt::format("[Schedule] cannot read {}", name));
  std::string line;
  while (std::getline(in, line)) {
    if (line == end_mark) return;
    uint32_t choice = 0;
    auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), choice);
    if (failure != std::errc() || end != line.data() + line.size()) {
      throw ValueError(fmt::format("[Schedule] {}:{}: expected a number below 2^32 or \"{}\", got \"{}\"", name,
                                   replayed_.size() + 1, end_mark, line));
    }
    replayed_.push_back(choice);
  }
  if (in.bad()) throw IoError(fmt::format("[Schedule] cannot read {}", name));
  throw IoError(
      fmt::format("[Schedule] {} is cut off: it has {} choices and no line \"{}\"", name, replayed_.size(), end_mark));
}

size_t RandomScheduler::choose(size_t n) {
  const uint64_t i = choices_++;
  if (!replays_) return draw(random_) % n;
  // a program that was changed, or runs beyond the end of the file, gets the first choice
  return i < replayed_.size() ? replayed_[i] % n : 0;
}

void RandomScheduler::reserve(size_t ops) {
  std::lock_guard lock(lock_);
  if (ops > ready_.capacity()) ready_.reserve(2 * ops);
}

void RandomScheduler::add(OpNode& op) noexcept {
  std::lock_guard lock(lock_);
  ready_.push_back(&op);
}

OpNode* RandomScheduler::pick() {
  std::lock_guard lock(lock_);
  if (ready_.empty()) return nullptr;
  size_t at = choose(ready_.size());
  std::swap(ready_[at], ready_.back());
  OpNode* op = ready_.back();
  ready_.pop_back();
  return op;
}

size_t RandomScheduler::burst() {
  std::lock_guard lock(lock_);
  // mostly none, so that many operations become ready; now and then many
  return ready_.empty() ? 0 : choose(4) < 3 ? 0 : choose(2 * ready_.size() + 1);
}

bool RandomScheduler::is_empty() const noexcept {
  std::lock_guard lock(lock_);
  return ready_.empty();
}

void RandomScheduler::save(const std::filesystem::path& file) const {
  std::string text;
  uint64_t made;
  {
    std::lock_guard lock(lock_);
    made = choices_;
  }
  std::mt19937_64 again(seed_);
  for (uint64_t i = 0; i < made; ++i) text += fmt::format("{}\n", draw(again));
  write_file(file, fmt::format("{}{}\n", text, end_mark));
}

}  // namespace kaon::engine
