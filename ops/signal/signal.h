// Signals: Fourier transforms, count sketches, the likelihood of sequences of events.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace op {
// The discrete Fourier transform of the rows, the last axis, of any length d: element k of (..., 2 d) is the pair, real
// and imaginary, of sum_j x_j exp(-2 pi i j k / d). Floating dtypes, computed in float32 at least. compute_size, how
// many rows MXNet transforms at a time, is not read.
struct Fft {
  int64_t compute_size = 128;
  static constexpr OpTraits traits{.name = "_contrib_fft"};
  static constexpr void fields(auto field) { field("compute_size", &Fft::compute_size); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The real part of the inverse transform, not divided by the length: of rows of d pairs (..., 2 d), the sums
// Re(sum_k z_k exp(2 pi i j k / d)), (..., d). Of what Fft gives, d times its input.
struct Ifft {
  int64_t compute_size = 128;
  static constexpr OpTraits traits{.name = "_contrib_ifft"};
  static constexpr void fields(auto field) { field("compute_size", &Ifft::compute_size); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The rows of data (..., d) in out_dim numbers: column h[i] of the result is the sum of s[i] data[i]. h and s are (d,)
// or (1, d), with indices and signs; they get no gradient. processing_batch_size is not read.
struct CountSketch {
  int64_t out_dim = 0;
  int processing_batch_size = 32;
  static constexpr OpTraits traits{.name = "_contrib_count_sketch", .inputs = Names("data", "h", "s")};
  static constexpr void fields(auto field) {
    field("out_dim", &CountSketch::out_dim, true);
    field("processing_batch_size", &CountSketch::processing_batch_size);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// For n sequences of at most t events of k kinds, the logarithm of their likelihood, (n,), under Hawkes' process, whose
// rate of kind m at time u is lda_m + alpha_m beta_m sum exp(-beta_m (u - v)) over the earlier events of that kind at
// times v; and the decayed sums at max_time, (n, k), with which a next part of the sequence goes on as `state`. lda
// (n, k); alpha and beta (k,); state (n, k); lags (n, t) from event to event; marks (n, t), int32, their kinds;
// valid_length and max_time (n,). All but marks have one floating dtype, float32 or float64. A mark that is no kind
// makes the sequence NaN. The gradients are those of the likelihood by lda, alpha and beta.
struct HawkesLL {
  static constexpr OpTraits traits{
      .name = "_contrib_hawkesll",
      .inputs = Names("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time"),
      .outputs = 2};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// The derivatives of each sequence's likelihood by lda, alpha and beta, (n, k) each.
struct BackwardHawkesLL {
  static constexpr OpTraits traits{
      .name = "_backward_hawkesll",
      .inputs = Names("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time"),
      .outputs = 3,
      .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::Fft& op, KernelContext& c);
void run_cuda(const op::Fft& op, KernelContext& c);
void run_cpu(const op::Ifft& op, KernelContext& c);
void run_cuda(const op::Ifft& op, KernelContext& c);
void run_cpu(const op::HawkesLL& op, KernelContext& c);
void run_cuda(const op::HawkesLL& op, KernelContext& c);
void run_cpu(const op::BackwardHawkesLL& op, KernelContext& c);
void run_cuda(const op::BackwardHawkesLL& op, KernelContext& c);

}  // namespace kaon
