#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/ops/attributes.h"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/statistics/kernels/bins.h"
#include "kaon/ops/statistics/kernels/even_bins.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

std::string ops::to_text(const Interval& value) {
  return fmt::format("({}, {})", to_text(value.low), to_text(value.high));
}

bool ops::from_text(std::string_view text, Interval& value) {
  const size_t comma = text.find(',');
  if (text.size() < 5 || comma == text.npos || (text.front() != '(' && text.front() != '[')) return false;
  const auto trimmed = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  };
  return (text.back() == ')' || text.back() == ']') && from_text(trimmed(text.substr(1, comma - 1)), value.low) &&
         from_text(trimmed(text.substr(comma + 1, text.size() - comma - 2)), value.high);
}

constinit const OpDef op::Histogram::def = make_op_def<op::Histogram>();

void op::Histogram::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  if (!bin_cnt) {
    c.expect_same_dtype();
    c.expect_ndim(1, 1);
    if (c.shape(1)[0] < 2) c.fail(fmt::format("bins must have 2 edges at least, got {}", c.shape(1)[0]));
    c.set_output(0, Shape(c.shape(1)[0] - 1), DType::int64);
    return c.set_output(1, c.shape(1), c.dtype());
  }
  if (*bin_cnt < 1) c.fail_value(fmt::format("bin_cnt must be positive, got {}", *bin_cnt));
  if (!range) c.fail_value("range must be given with bin_cnt");
  if (!std::isfinite(range->low) || !std::isfinite(range->high) || range->low > range->high) {
    c.fail_value(fmt::format("range must be two finite numbers that ascend, got {}", to_text(*range)));
  }
  c.set_output(0, Shape(*bin_cnt), DType::int64);
  c.set_output(1, Shape(*bin_cnt + 1), c.dtype());
}

namespace {

// Elements from `first` on as numbers.
void load(const TensorView& data, int64_t first, int64_t n, double* out) {
  dispatch_number("_histogram", data.dtype, [&]<class T>() {
    const T* x = data.as<const T>() + first;
    for (int64_t i = 0; i < n; ++i) out[i] = double(accumulate_t<T>(x[i]));
  });
}

// The edges as numbers, in workspace; and as the second output.
const double* make_edges(const op::Histogram& op, KernelContext& c, int64_t bins) {
  auto* edges = static_cast<double*>(c.run.workspace(size_t(bins + 1) * sizeof(double)));
  if (op.bin_cnt) {
    const EvenBins even = even_bins(op);
    for (int64_t i = 0; i <= bins; ++i) edges[i] = edge_in(even, i, c.in(0).dtype);
  } else {
    load(c.in(1), 0, bins + 1, edges);
    for (int64_t i = 0; i < bins; ++i) {
      if (!(edges[i] <= edges[i + 1])) {
        throw ValueError(
            fmt::format("[_histogram] bins must ascend, got {} after {} at {}", edges[i + 1], edges[i], i + 1));
      }
    }
  }
  if (c.out(1).data) {
    dispatch_number("_histogram", c.out(1).dtype, [&]<class T>() {
      for (int64_t i = 0; i <= bins; ++i) c.out(1).as<T>()[i] = convert<T>(edges[i]);
    });
  }
  return edges;
}

}  // namespace

// Pieces of the data count for themselves.
void run_cpu(const op::Histogram& op, KernelContext& c) {
  constexpr int64_t tile = 1024, least = 1 << 15, most_pieces = 8;
  const TensorView& data = c.in(0);
  const int64_t bins = c.out(0).size(), n = data.size();
  const double* const edges = make_edges(op, c, bins);
  if (!c.out(0).data) return;
  const EvenBins even = op.bin_cnt ? even_bins(op) : EvenBins{};
  const int64_t pieces = bins > least ? 1 : std::clamp<int64_t>(n / least, 1, most_pieces);
  const int64_t length = (n + pieces - 1) / pieces;
  auto* counts = static_cast<int64_t*>(c.run.workspace(size_t(pieces * bins) * sizeof(int64_t)));
  const auto edge = [edges](int64_t i) { return edges[i]; };
  c.run.parallel_for(pieces, 1, [&](int64_t piece, int64_t last) {
    double x[tile];
    for (; piece < last; ++piece) {
      int64_t* own = counts + piece * bins;
      std::fill_n(own, bins, 0);
      const int64_t end = std::min(n, (piece + 1) * length);
      for (int64_t i = piece * length; i < end; i += tile) {
        const int64_t m = std::min(tile, end - i);
        load(data, i, m, x);
        for (int64_t k = 0; k < m; ++k) {
          if (!(x[k] >= edges[0] && x[k] <= edges[bins])) continue;
          ++own[bin_of(x[k], bins, op.bin_cnt ? even.guess(x[k]) : -1, edge)];
        }
      }
    }
  });
  int64_t* total = c.out(0).as<int64_t>();
  std::copy_n(counts, bins, total);
  for (int64_t p = 1; p < pieces; ++p) {
    for (int64_t i = 0; i < bins; ++i) total[i] += counts[p * bins + i];
  }
}

}  // namespace kaon
