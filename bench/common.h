// What the benchmarks share: interleaved timing, the machine's description, one JSON line per result.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kaon/engine/base/spin_lock.h"

namespace kaon::bench {

using namespace engine;

struct Result {
  double median = 0, min = 0, max = 0;
  int runs = 0;
};

template <class F>
double seconds(F&& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline Result summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back(), int(values.size())};
}

// Runs the candidates in turn, `rounds` times after one warm-up round, so that drift of the machine hits all alike.
inline std::vector<Result> interleave(int rounds, const std::vector<std::function<double()>>& candidates) {
  std::vector<std::vector<double>> values(candidates.size());
  for (auto& c : candidates) c();
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < candidates.size(); ++i) values[i].push_back(candidates[i]());
  }
  std::vector<Result> results;
  for (auto& v : values) results.push_back(summarize(v));
  return results;
}

struct Baseline {
  std::string name;
  Result result;
};

// What every line of a program says besides, `, "key": value`.
inline std::string& further_fields() {
  static std::string fields;
  return fields;
}

// As it stands between quotation marks.
inline std::string json_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += uint8_t(c) < ' ' ? ' ' : c;
  }
  return out;
}

// `ratio` is this median over the first baseline's, `ratios` has those to all where there are several. `goal` is in the
// same unit as the median.
inline void print(const std::string& name, const Result& r, const std::string& unit,
                  const std::vector<Baseline>& baselines, std::optional<double> goal = {}) {
  fmt::print("{{\"name\": \"{}\", \"median\": {:.4g}, \"min\": {:.4g}, \"max\": {:.4g}, \"unit\": \"{}\", \"runs\": {}",
             name, r.median, r.min, r.max, unit, r.runs);
  if (goal) fmt::print(", \"goal\": {:.4g}", *goal);
  auto ratio = [&](const Baseline& b) { return r.median / b.result.median; };
  if (!baselines.empty())
    fmt::print(", \"baseline\": \"{}\", \"ratio\": {:.3f}", baselines[0].name, ratio(baselines[0]));
  if (baselines.size() > 1) {
    const char* separator = ", \"ratios\": {";
    for (const Baseline& b : baselines)
      fmt::print("{}\"{}\": {:.3g}", std::exchange(separator, ", "), b.name, ratio(b));
    fmt::print("}}");
  }
  fmt::print("{}}}\n", further_fields());
}
inline void print(const std::string& name, const Result& r, const std::string& unit, const std::string& baseline = "",
                  const Result& base = {}, std::optional<double> goal = {}) {
  print(name, r, unit, baseline.empty() ? std::vector<Baseline>{} : std::vector{Baseline{baseline, base}}, goal);
}

inline void print_machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, model = "unknown";
  while (std::getline(cpuinfo, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  fmt::print("{{\"machine\": \"{}\", \"cores\": {}{}}}\n", model, std::thread::hardware_concurrency(),
             further_fields());
}

// Reads every float once, as fast as one core can: several independent sums, so that loads and not additions limit.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
inline void
read_all(const float* values, size_t n) {
  float sums[64] = {};
  for (size_t i = 0; i + 64 <= n; i += 64) {
    for (size_t k = 0; k < 64; ++k) sums[k] += values[i + k];
  }
  float total = 0;
  for (float s : sums) total += s;
  asm volatile("" ::"r"(total) : "memory");
}

// Half a round trip of one cache line between two threads: scheduling figures are comparable where it is under 100 ns.
inline void print_ping_pong() {
  constexpr int trips = 20000;
  auto run = [] {
    std::atomic<int> ball{0};
    std::thread other([&] {
      for (int i = 0; i < trips; ++i) {
        while (ball.load(std::memory_order_acquire) != 2 * i + 1) cpu_pause();
        ball.store(2 * i + 2, std::memory_order_release);
      }
    });
    double s = seconds([&] {
      for (int i = 0; i < trips; ++i) {
        ball.store(2 * i + 1, std::memory_order_release);
        while (ball.load(std::memory_order_acquire) != 2 * i + 2) cpu_pause();
      }
    });
    other.join();
    return s * 1e9 / (2 * trips);
  };
  print("ping_pong_one_way", interleave(5, {run})[0], "ns");
}

}  // namespace kaon::bench
