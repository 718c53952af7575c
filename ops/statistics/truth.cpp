// any and all.
#include <algorithm>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"
#include "kaon/ops/statistics/kernels/chosen_axes.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

template <bool All>
constinit const OpDef op::Truth<All>::def = make_op_def<op::Truth<All>>();

template <bool All>
void op::Truth<All>::infer(InferContext& c) const {
  const uint32_t mask = chosen_axes(axis, c.shape(0).ndim(), c.op());
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), DType::boolean);
}

template struct op::Truth<false>;
template struct op::Truth<true>;

namespace {

constexpr int64_t truth_grain = 1 << 16;  // elements that one task reads
constexpr int64_t kWidth = 1024;          // neighbouring results of one task

// An array (outer, n, inner) that is reduced along its middle.
struct Lines {
  int64_t outer, n, inner;
};

// T: unsigned, as wide as an element, which is true where one of the bits `truth` is set.
template <class T>
struct TruthKernel {
  bool all;
  T truth;

  // What makes the result of a line no longer change: a true element for any, a false one for all.
  T decisive(T x) const { return all ? T((x & truth) == 0) : T(x & truth); }

  bool line(const T* x, int64_t n) const {
    for (int64_t i = 0; i < n; i += kWidth) {
      T found = 0;
      for (int64_t k = i, end = std::min(n, i + kWidth); k < end; ++k) found = T(found | decisive(x[k]));
      if (found) return !all;
    }
    return all;
  }
  // Up to kWidth neighbouring lines, whose elements are `inner` apart.
  void lines(const T* x, int64_t n, int64_t inner, int64_t width, bool* out) const {
    T found[kWidth] = {};
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < width; ++j) found[j] = T(found[j] | decisive(x[k * inner + j]));
    }
    for (int64_t j = 0; j < width; ++j) out[j] = (found[j] != 0) != all;
  }

  // `pieces` results of each line, one after the other.
  void run(RunContext& run, const T* x, const Lines& s, int64_t pieces, bool* out) const {
    const int64_t length = (s.n + pieces - 1) / pieces, blocks = (s.inner + kWidth - 1) / kWidth;
    const int64_t cost = std::max<int64_t>(1, length * std::min(s.inner, kWidth));
    run.parallel_for(s.outer * pieces * blocks, std::max<int64_t>(1, truth_grain / cost), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const int64_t column = i % blocks * kWidth, piece = i / blocks % pieces, o = i / blocks / pieces;
        const int64_t begin = std::min(s.n, piece * length), n = std::min(s.n, begin + length) - begin;
        const T* from = x + (o * s.n + begin) * s.inner + column;
        bool* to = out + (o * pieces + piece) * s.inner + column;
        if (s.inner == 1) {
          *to = line(from, n);
        } else {
          lines(from, n, s.inner, std::min(kWidth, s.inner - column), to);
        }
      }
    });
  }
};

void reduce_lines(RunContext& run, bool all, const void* data, DType dtype, const Lines& s, bool* out) {
  dispatch_width(dtype, [&]<class T>() {
    const TruthKernel<T> kernel{all, is_floating(dtype) ? T(T(~T(0)) >> 1) : T(~T(0))};
    const T* x = static_cast<const T*>(data);
    const int64_t tasks = s.outer * ((s.inner + kWidth - 1) / kWidth), whole = s.n * std::min(s.inner, kWidth);
    const int64_t pieces = tasks >= 64 ? 1 : std::clamp<int64_t>(whole / truth_grain, 1, 64);
    if (pieces == 1) return kernel.run(run, x, s, 1, out);
    auto* parts = static_cast<bool*>(run.workspace(size_t(s.outer * pieces * s.inner)));
    kernel.run(run, x, s, pieces, parts);
    const TruthKernel<uint8_t> last{all, 0xff};
    last.run(run, reinterpret_cast<const uint8_t*>(parts), {s.outer, pieces, s.inner}, 1, out);
  });
}

}  // namespace

// Neighbouring axes that are reduced are one; such groups are reduced one after the other, from the last.
void ops::run_truth(bool all, const std::optional<Shape>& axis, KernelContext& c) {
  const TensorView& in = c.in(0);
  if (c.out().size() == 0) return;
  const uint32_t mask = chosen_axes(axis, in.shape.ndim(), "any");
  const void* data = in.data;
  DType dtype = in.dtype;
  bool* const result = c.out().as<bool>();
  int64_t inner = 1;
  bool is_done = false;
  for (int end = in.shape.ndim(); !is_done;) {
    while (end > 0 && (mask >> (end - 1) & 1) == 0) inner *= in.shape[--end];
    int begin = end;
    while (begin > 0 && (mask >> (begin - 1) & 1) != 0) --begin;
    is_done = (mask & ((1u << begin) - 1)) == 0;
    const Lines lines{in.shape.product(0, begin), in.shape.product(begin, end), inner};
    bool* out = is_done ? result : static_cast<bool*>(c.run.workspace(size_t(lines.outer * inner)));
    reduce_lines(c.run, all, data, dtype, lines, out);
    data = out, dtype = DType::boolean, end = begin;
  }
}

}  // namespace kaon
