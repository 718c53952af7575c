// Profiler: a timeline of operations as a Chrome trace (opens in Perfetto and chrome://tracing).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"

namespace KAON_API kaon {

// Off costs one branch per operation. While on, each thread writes to a ring of its own (events beyond its size are
// dropped and counted in the file). Thread safety: any thread.
class Profiler {
 public:
  Profiler();
  ~Profiler();

  void start();  // forgets earlier events
  void stop();
  bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }

  // Writes {"traceEvents": [...]}: one complete event per push, operation and wait of a thread, the nodes of a plan
  // inside theirs, GPU work on tracks of its own, and a pair of events for the begin and the end of each collective,
  // which may be in flight beside the others; block path and push site as arguments; arrows from the push to the run to
  // the wait that it ended. A wait of a millisecond or more names the three operators that took most of it. Blocks.
  // Throws IoError.
  void write(const std::filesystem::path& file) const;

  static uint64_t now() noexcept;  // nanoseconds, steady

  struct Event {
    const char* name = "";
    const char* category = "";  // push, operator, piece, plan, wait, gpu, collective, or a span's own
    uint64_t begin = 0, end = 0;
    const char* block_path = nullptr;
    std::source_location site = {};
    uint64_t sequence = 0;  // of the operation that is pushed, run, or ended the wait; 0: none
    uint32_t thread = 0;    // 0: set by record
    uint64_t bytes = 0;     // of a collective: this rank's array
  };
  void record(Event event) noexcept;
  // `thread` of GPU work: this plus the number of its stream, `lanes` for each GPU.
  static constexpr uint32_t first_gpu_track = 1 << 20;
  // All events so far, by begin time. For tests and reports.
  std::vector<Event> events() const;
  uint64_t dropped() const;

 private:
  struct Ring;
  Ring& ring();
  std::atomic<bool> on_{false};
  struct State;
  std::unique_ptr<State> state_;
};

namespace engine {
// Records from construction to destruction when the profiler is on. Names must be literals or interned.
class TraceSpan {
 public:
  TraceSpan(Profiler& profiler, const char* name, const char* category)
      : profiler_(profiler), name_(name), category_(category), begin_(profiler.is_on() ? Profiler::now() : 0) {}
  ~TraceSpan() {
    if (begin_ && profiler_.is_on()) profiler_.record({name_, category_, begin_, Profiler::now()});
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Profiler& profiler_;
  const char* name_;
  const char* category_;
  uint64_t begin_;
};
}  // namespace engine

}  // namespace kaon
