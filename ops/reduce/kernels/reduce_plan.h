// How reductions are divided among a device's threads, decided on the host. A light header, for g++ too.
#pragma once

#include <span>

#include "kaon/ops/cuda/geometry.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon::cuda {

constexpr int log2_above(int64_t n) {  // the smallest power of two that is not below n
  int log = 0;
  while (int64_t(1) << log < n) ++log;
  return log;
}

// How a block's threads share work: each result is made by 2^log_lanes of them. Consecutive threads take consecutive
// elements of one result, or, side by side, one element each of consecutive results.
struct Team {
  static constexpr int log_block = 8;
  static_assert(1 << log_block == block);

  int log_lanes = 0;
  bool side_by_side = false;

  KAON_HOST_DEVICE int lanes() const { return 1 << log_lanes; }
  KAON_HOST_DEVICE int results() const { return 1 << (log_block - log_lanes); }  // of one block
  KAON_HOST_DEVICE int lane(int thread) const {
    return side_by_side ? thread >> (log_block - log_lanes) : thread & (lanes() - 1);
  }
  KAON_HOST_DEVICE int result(int thread) const {
    return side_by_side ? thread & (results() - 1) : thread >> log_lanes;
  }

  // Results of n elements that follow each other in memory.
  static Team along(int64_t n) {
    const int few = std::min(log2_above((n + 3) / 4), 5);  // a warp, or less
    return {std::clamp(log2_above((n + 7) / 8), few, log_block), false};
  }
  // `results` of n elements, in memory beside each other.
  static Team across(int64_t n, int64_t results) {
    const int few = std::min(log2_above((n + 3) / 4), 3);
    const int free = std::max(0, log_block - log2_above(std::min(results, block)));  // no results for these
    return {std::clamp(std::min(free, log2_above((n + 3) / 4)), few, log_block), true};
  }
};

// Offsets of elements along some of an array's dimensions.
struct Axes {
  static constexpr int most = Shape::max_ndim / 2;  // kept and reduced ones alternate

  int ndim = 0;  // from the last dimension to the first
  int64_t count = 1;
  int64_t stride[most] = {};
  FastDivide size[most];

  void add(int64_t n, int64_t step) {
    size[ndim] = FastDivide(n), stride[ndim] = step, count *= n;
    ++ndim;
  }
  KAON_HOST_DEVICE int64_t offset(int64_t i) const {
    int64_t sum = 0;
    for (int d = 0; d + 1 < most; ++d) {
      if (d + 1 >= ndim) return sum + i * stride[d];
      const int64_t next = size[d].split(i);
      sum += i * stride[d];
      i = next;
    }
    return sum + i * stride[most - 1];
  }
};

struct ReducePlan {
  Axes kept, reduced;
  Team team;
  int64_t width = 1;                  // elements that follow each other in memory and are read at a time
  int64_t splits = 1, per_split = 0;  // parts that the elements of one result are reduced in

  // The elements read at a time belong to this many results, which the same threads compute.
  KAON_HOST_DEVICE int64_t results_at_a_time() const { return team.side_by_side ? width : 1; }
  int64_t groups() const {
    const int64_t of_a_block = team.results() * results_at_a_time();
    return (kept.count + of_a_block - 1) / of_a_block;
  }

  // For a row-major array, of which `pack` elements may be read at a time. Without results no other member may be
  // called.
  explicit ReducePlan(std::span<const ReduceDim> dims, int64_t pack = 1) {
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      const bool reduces = dims[i].reduced;
      int64_t size = dims[i].size;
      while (i > 0 && (dims[i - 1].reduced == reduces || dims[i - 1].size == 1)) size *= dims[--i].size;
      if (size == 1) continue;
      if (kept.ndim + reduced.ndim == 0) team.side_by_side = !reduces;
      (reduces ? reduced : kept).add(size, stride);
      stride *= size;
    }
    constexpr int64_t most_results = 8;  // that a thread has registers for
    const Axes& last = team.side_by_side ? kept : reduced;
    const bool packs = last.ndim > 0 && last.size[0].divisor() % pack == 0;
    if (packs && !(team.side_by_side && pack > most_results)) width = pack;
    const int64_t step = team.side_by_side ? 1 : width;  // of a result's elements, in a read
    const int64_t reads = reduced.count / step;
    team = team.side_by_side ? Team::across(reads, kept.count / width) : Team::along(width > 1 ? 4 * reads : reads);
    constexpr int64_t enough = 1024;  // blocks
    const int64_t worthwhile = reads / ((step > 1 ? 4 : 16) * team.lanes());
    if (kept.count > 0) splits = std::max<int64_t>(1, std::min(enough / groups(), worthwhile));
    per_split = (reads + splits - 1) / splits * step;
  }
};

}  // namespace kaon::cuda
