#include "kaon/gluon/util/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace kaon::gluon {
namespace {

using namespace std::chrono_literals;

std::string duration(double seconds) {
  const int64_t s = int64_t(std::lround(seconds));
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string title, int64_t total, const Options& options)
    : engine_(Engine::current().ref()), title_(std::move(title)), total_(total), options_(options) {
  if (!options_.out) throw ValueError("[ProgressBar] out: expected a stream, got null");
  if (options_.width < 1)
    throw ValueError(fmt::format("[ProgressBar] width: expected at least 1, got {}", options_.width));
  is_terminal_ = options_.is_terminal.value_or(isatty(fileno(options_.out)) == 1);
}

ProgressBar::~ProgressBar() {
  try {
    finish();
  } catch (...) {
    // no memory for a line: nothing that a destructor could say
  }
}

void ProgressBar::step(int64_t count) {
  pushed_ += count;
  marks_.push_back({engine_->stats().ops, pushed_});
  if (marks_.size() > 64) done();  // keeps the list as short as the engine's queue
  draw(false);
}

void ProgressBar::set_text(std::string text) {
  text_ = std::move(text);
  draw(false);
}

int64_t ProgressBar::done() {
  const uint64_t completed = engine_->stats().completed;
  while (!marks_.empty() && marks_.front().ops <= completed) {
    done_ = marks_.front().steps;
    marks_.pop_front();
  }
  return done_;
}

std::string ProgressBar::line() {
  const int64_t finished = done();
  const double time = seconds(), rate = time > 0 ? double(finished) / time : 0;
  std::string bar, left;
  if (total_ > 0) {
    const auto cells = [&](int64_t steps) {
      return int(std::clamp<int64_t>(steps * options_.width / total_, 0, options_.width));
    };
    const int full = cells(finished), ahead = cells(pushed_);
    bar = " [" + std::string(size_t(full), '=') + std::string(size_t(ahead - full), '-') +
          std::string(size_t(options_.width - ahead), ' ') + "]";
    if (rate > 0 && finished < total_) left = ", " + duration(double(total_ - finished) / rate) + " left";
  }
  const std::string of = total_ > 0 ? fmt::format("/{}", total_) : "";
  std::string ahead = pushed_ > finished ? fmt::format(" (+{} pushed)", pushed_ - finished) : "";
  return fmt::format("{}{} {}{} done{}, {:.1f} steps/s{}{}{}", title_, bar, finished, of, ahead, rate, left,
                     text_.empty() ? "" : ", ", text_);
}

void ProgressBar::draw(bool always) {
  if (is_finished_ || !is_terminal_) return;
  const auto now = Clock::now();
  if (!always && now - drawn_ < 100ms) return;
  drawn_ = now;
  const std::string text = line();
  // spaces over the rest of a longer line
  const std::string rest(drawn_width_ > text.size() ? drawn_width_ - text.size() : 0, ' ');
  drawn_width_ = text.size();
  fmt::print(options_.out, "\r{}{}", text, rest);
  std::fflush(options_.out);
}

void ProgressBar::finish() {
  if (is_finished_) return;
  draw(true);
  is_finished_ = true;
  if (is_terminal_) {
    fmt::print(options_.out, "\n");
  } else {
    const double time = seconds();
    fmt::print(options_.out, "{}: {} steps in {}, {:.1f} steps/s{}{}\n", title_, pushed_, duration(time),
               time > 0 ? double(pushed_) / time : 0, text_.empty() ? "" : ", ", text_);
  }
  std::fflush(options_.out);
}

}  // namespace kaon::gluon
