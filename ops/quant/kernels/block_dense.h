// Dense layers whose weights are codes of a few bits in blocks, as language models have them. Exist in converted nets
// only.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

namespace op {
// y = x W^T + bias with x (..., k), bias (n,) and W (n, k) of codes q: element j of a row is scale (q - zero), with one
// scale and one zero point for each block of `block_size` elements along k, the last block filled up. Sums are of
// float32 products; on a GPU, W is rounded to data's dtype first for more than 16 rows. Inputs: data, of float32 or 16
// bits; weight, uint8 (n, blocks, bytes of a block), codes of 2, 4 or 8 bits, the first in the lowest ones; scales (n,
// blocks), floating; with has_zeros zero_points, uint8 (n, bytes), packed likewise, or floating (n, blocks), else
// 2^(bits - 1); unless no_bias a bias of data's dtype. Weight, scales and zero points get no gradient.
struct BlockQuantizedDense {
  int bits = 4;
  int64_t block_size = 32;
  bool has_zeros = false;
  bool no_bias = true;
  static constexpr OpTraits traits{.name = "_block_quantized_dense",
                                   .inputs = ops::Names("data", "weight", "scales", "zero_points", "bias"),
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("bits", &BlockQuantizedDense::bits);
    field("block_size", &BlockQuantizedDense::block_size);
    field("has_zeros", &BlockQuantizedDense::has_zeros);
    field("no_bias", &BlockQuantizedDense::no_bias);
  }
  static const OpDef def;
  int num_inputs() const { return 3 + int(has_zeros) + int(!no_bias); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};

// W (n, columns) itself in float32, of weight, scales and zero points.
struct BlockDequantize {
  int64_t columns = 0;
  int bits = 4;
  int64_t block_size = 32;
  bool has_zeros = false;
  static constexpr OpTraits traits{.name = "_block_dequantize",
                                   .inputs = ops::Names("weight", "scales", "zero_points"),
                                   .in_mxnet = false,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("columns", &BlockDequantize::columns, true);
    field("bits", &BlockDequantize::bits);
    field("block_size", &BlockDequantize::block_size);
    field("has_zeros", &BlockDequantize::has_zeros);
  }
  static const OpDef def;
  int num_inputs() const { return 2 + int(has_zeros); }
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::BlockQuantizedDense& op, KernelContext& c);
void run_cuda(const op::BlockQuantizedDense& op, KernelContext& c);
void run_cpu(const op::BlockDequantize& op, KernelContext& c);
void run_cuda(const op::BlockDequantize& op, KernelContext& c);

}  // namespace kaon
