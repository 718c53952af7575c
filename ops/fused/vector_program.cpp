#include "kaon/ops/fused/vector_program.h"

#include <algorithm>

#include "kaon/ops/elementwise/kernels/gather_broadcast.h"
#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/fused/vector_kernels.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon::ops {
namespace {

using P = VectorProgram;

// Runs a program in one thread, with the memory that it needs besides the arrays.
class Worker {
 public:
  Worker(const P& program, const float* const* in, float* const* out, bool in_place, bool stream)
      : p_(program),
        in_(in),
        out_(out),
        inputs_(p_.num_dense + p_.num_broadcast),
        moving_(inputs_ + p_.num_outputs + p_.num_reduced),
        in_place_(in_place),
        stream_(stream) {
    for (int k = 0; k < p_.num_uniform; ++k) {
      std::fill_n(uniform_[k], kernels_.block, *in[inputs_ + k]);
      frame_.at[moving_ + k] = uniform_[k];
    }
    for (int k = 0; k < p_.num_slots; ++k) frame_.at[moving_ + p_.num_uniform + k] = slots_[k];
  }

  // Elements [begin, end); at most reduce_run of them where values are reduced.
  void compute(int64_t begin, int64_t end) {
    const int64_t part = p_.num_broadcast ? broadcast_elements : end - begin;
    for (int64_t i = begin; i < end; i += part) {
      const size_t n = size_t(std::min(part, end - i));
      frame_.stream = stream_;
      frame_.fetched = stream_ ? p_.num_dense : 0;
      float** at = frame_.at;
      for (int k = 0; k < p_.num_dense; ++k) *at++ = const_cast<float*>(in_[k]) + i;
      for (int k = 0; k < p_.num_broadcast; ++k) {
        gather_broadcast(p_.num_dims, p_.size, p_.stride[k], in_[p_.num_dense + k], i, broadcast_[k], int64_t(n));
        *at++ = broadcast_[k];
      }
      for (int k = 0; k < p_.num_outputs; ++k) *at++ = out_[k] + i;
      for (int k = 0; k < p_.num_reduced; ++k) *at++ = reduced_[k] + (i - begin);
      kernels_.run(p_.steps, frame_, size_t(moving_), n / kernels_.block);
      if (n % kernels_.block == 0) continue;
      frame_.stream = false;
      frame_.fetched = 0;
      if (in_place_ || n < kernels_.block) {
        compute_rest(n % kernels_.block);
      } else {  // a whole block that begins earlier: some elements get the same value again
        for (int k = 0; k < moving_; ++k) frame_.at[k] -= kernels_.block - n % kernels_.block;
        kernels_.run(p_.steps, frame_, 0, 1);
      }
    }
  }

  // The elements of reduced value k that were computed last.
  const float* reduced(int k) const { return reduced_[k]; }

 private:
  static constexpr int64_t broadcast_elements = 1024;  // of each broadcast input at a time

  // Less than a block: the memory that advances is copied to padded blocks and back.
  void compute_rest(size_t n) {
    float* targets[P::max_outputs + P::max_reduced];
    for (int k = 0; k < inputs_; ++k) {
      std::fill(std::copy_n(frame_.at[k], n, rest_[k]), rest_[k] + max_block, 0.0f);
      frame_.at[k] = rest_[k];
    }
    for (int k = inputs_; k < moving_; ++k) {
      targets[k - inputs_] = frame_.at[k];
      frame_.at[k] = rest_[k];
    }
    kernels_.run(p_.steps, frame_, 0, 1);
    for (int k = inputs_; k < moving_; ++k) std::copy_n(rest_[k], n, targets[k - inputs_]);
  }

  const VectorKernels& kernels_ = vector_kernels();
  const P& p_;
  const float* const* in_;
  float* const* out_;
  const int inputs_, moving_;
  const bool in_place_, stream_;
  VectorFrame frame_;
  alignas(64) float slots_[P::max_slots][max_block];
  float uniform_[P::max_inputs][max_block];
  float rest_[P::max_inputs + P::max_outputs + P::max_reduced][max_block];
  float broadcast_[P::max_broadcast][broadcast_elements];
  float reduced_[P::max_reduced][reduce_run];
};

struct VectorCall {
  const P& p;
  const float* const* in;
  float* const* out;
  bool in_place, stream;
  RunContext& run;

  RunKernels kernels(int k) const { return run_kernels(DType::float32, p.reductions[k].combine); }

  // parallel_for in pieces of `grain` items, each run by body(worker, first, last).
  template <class F>
  void pieces(int64_t items, int64_t grain, const F& body) const {
    const auto piece = [&](int64_t first, int64_t last) {
      Worker worker(p, in, out, in_place, stream);
      body(worker, first, last);
      if (stream) stream_flush();
    };
    if (items <= grain) return piece(0, items);
    run.parallel_for(items, grain, piece);
  }

  void store(int k, int64_t first, int64_t n, const float* results) const {
    const float count = float(double(p.row));
    float* to = out[p.num_outputs + k] + first;
    for (int64_t i = 0; i < n; ++i) to[i] = p.reductions[k].mean ? results[i] / count : results[i];
  }

  // Some rows at a time.
  void short_rows(int64_t rows) const {
    const int64_t most = reduce_run / p.row;
    pieces(rows, std::max<int64_t>(1, p.grain / p.row), [&](Worker& worker, int64_t row, int64_t last) {
      float results[reduce_run / 2];
      for (; row < last; row += most) {
        const int64_t count = std::min(most, last - row);
        worker.compute(row * p.row, (row + count) * p.row);
        for (int k = 0; k < p.num_reduced; ++k) {
          kernels(k).runs(worker.reduced(k), size_t(p.row), size_t(count), size_t(p.row), results);
          store(k, row, count, results);
        }
      }
    });
  }

  // Some of a row at a time, as reduce_dims() goes through it: runs, groups of runs, the groups of a row.
  void long_rows(int64_t rows) const {
    const int64_t length = std::min(p.row, reduce_piece), groups = (p.row + length - 1) / length;
    const int64_t items = rows * groups;
    float* partial = nullptr;
    if (groups > 1) partial = static_cast<float*>(run.workspace(size_t(items * p.num_reduced) * sizeof(float)));
    pieces(items, std::max<int64_t>(1, p.grain / length), [&](Worker& worker, int64_t item, int64_t last) {
      for (; item < last; ++item) {
        const int64_t row = item / groups, first = item % groups * length, end = std::min(p.row, first + length);
        Pairwise<float> sums[P::max_reduced] = {
            Pairwise<float>(p.reductions[0].combine), Pairwise<float>(p.reductions[1].combine),
            Pairwise<float>(p.reductions[2].combine), Pairwise<float>(p.reductions[3].combine)};
        for (int64_t i = first; i < end; i += reduce_run) {
          const int64_t n = std::min(reduce_run, end - i);
          worker.compute(row * p.row + i, row * p.row + i + n);
          for (int k = 0; k < p.num_reduced; ++k) {
            float result;
            kernels(k).runs(worker.reduced(k), size_t(n), 1, 0, &result);
            sums[k].push(result);
          }
        }
        for (int k = 0; k < p.num_reduced; ++k) {
          const float result = sums[k].result();
          if (partial) {
            partial[k * items + item] = result;
          } else {
            store(k, row, 1, &result);
          }
        }
      }
    });
    for (int k = 0; partial && k < p.num_reduced; ++k) {
      for (int64_t row = 0; row < rows; ++row) {
        Pairwise<float> sum(p.reductions[k].combine);
        for (int64_t g = 0; g < groups; ++g) sum.push(partial[k * items + row * groups + g]);
        const float result = sum.result();
        store(k, row, 1, &result);
      }
    }
  }
};

}  // namespace

FusedForms vector_forms(const OpDef& def, const void* attrs) {
  return def.fused_forms ? def.fused_forms(attrs, vector_kernels().registers) : FusedForms();
}

const VectorMoves& vector_moves() { return vector_kernels().moves; }

void run_vector_program(const P& p, const float* const* in, float* const* out, int64_t n, RunContext& run) {
  if (n == 0) return;
  bool in_place = false;
  for (int k = 0; k < p.num_inputs(); ++k) in_place = in_place || (p.num_outputs > 0 && in[k] == out[0]);
  // An in-place output is in the cache anyway.
  bool stream = !in_place && p.num_outputs > 0 && wants_stream(DType::float32, n, p.num_dense + p.num_outputs - 1);
  for (int k = 0; k < p.num_outputs; ++k) stream = stream && reinterpret_cast<uintptr_t>(out[k]) % 64 == 0;
  if (p.num_reduced == 0) {
    const VectorCall call{p, in, out, in_place, stream, run};
    return call.pieces(n, p.grain, [](Worker& worker, int64_t begin, int64_t end) { worker.compute(begin, end); });
  }
  const VectorCall call{p, in, out, in_place, false, run};  // pieces do not begin at cache lines
  if (p.row <= reduce_run) {
    call.short_rows(n / p.row);
  } else {
    call.long_rows(n / p.row);
  }
}

}  // namespace kaon::ops
