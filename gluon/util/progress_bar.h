// ProgressBar: a training loop's progress, pushed and done, on one line of a terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/engine.h"

namespace KAON_API kaon {
namespace gluon {

struct ProgressOptions {
  std::FILE* out = stdout;
  std::optional<bool> is_terminal{};  // asked of `out` unless given
  int width = 24;                     // of the bar, in characters
};

// One per epoch. A step counts as pushed when step() is called and as done when the engine has finished as many
// operations as were pushed until then: the bar reads counters and waits for nothing. It is redrawn by step() and
// set_text(), ten times a second at most; where `out` is no terminal, only finish() prints, one line.
// Thread safety: unsafe.
class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;
  using Options = ProgressOptions;

  // `total` steps, or 0 when that is not known. Counts the operations of the current engine. Throws ValueError for
  // options out of range.
  ProgressBar(std::string title, int64_t total, const Options& options = {});
  ~ProgressBar();  // finishes
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void step(int64_t count = 1);     // counts pushed steps
  void set_text(std::string text);  // shown after the numbers: "loss 0.21"
  void finish();                    // the last line; later calls do nothing

  int64_t pushed() const { return pushed_; }
  int64_t done();      // steps whose operations are finished
  std::string line();  // as drawn now, without control characters

 private:
  void draw(bool always);
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  struct Mark {
    uint64_t ops;
    int64_t steps;
  };
  engine::EngineRef engine_;
  std::string title_, text_;
  int64_t total_;
  Options options_;
  bool is_terminal_, is_finished_ = false;
  Clock::time_point begin_ = Clock::now(), drawn_{};
  std::deque<Mark> marks_;  // operations pushed until a step that is not done yet
  int64_t pushed_ = 0, done_ = 0;
  size_t drawn_width_ = 0;
};

}  // namespace gluon
}  // namespace kaon
