// Weights of a few bits each, as language models have them: numbers side by side in bytes, with a scale and a zero
// point for each block.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/packed_weights.h"
#include "kaon/interchange/onnx/runtime/standard.h"
#include "kaon/ops/quant/kernels/block_dense.h"

namespace kaon::onnx::convert {

Symbol unpacked(const Symbol& bytes, int64_t bits) {
  Symbol rest = cast(bytes, DType::float32);
  if (bits == 8) return rest;
  Shape one = shape_of(bytes), all = one;
  one.push_back(1);
  const int64_t in_a_byte = 8 / bits;
  all[all.ndim() - 1] *= in_a_byte;
  std::vector<Symbol> parts;
  for (int64_t i = 0; i < in_a_byte; ++i) {
    const double base = double(1 << bits);
    const Symbol next = sym.floor(rest / base);
    parts.push_back(reshaped(rest - next * base, one));
    rest = next;
  }
  return reshaped(concatenated(parts, one.ndim() - 1), all);
}

namespace {

int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

void check_bits(const Call& c, int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8) c.fail_supported(fmt::format("bits {}", bits));
}

void check_size(const Call& c, int i, const Shape& expected) {
  if (c.shape(i).size() != expected.size()) {
    c.fail(fmt::format("input {} of shape {} expected, got {}", i, expected.str(), c.shape(i).str()));
  }
}

// An input as its operator takes it: once for a model where it is an initializer of another shape.
Symbol shaped(const Call& c, int i, const Shape& shape) {
  if (c.shape(i) == shape) return c.x(i);
  return c.conversion().once(c, {i}, "shape " + shape.str(), [&] { return reshaped(c.x(i), shape); });
}

// A, B, scales, zero points, groups, bias. The weight stays packed.
void matmul_n_bits(Call& c) {
  const int64_t k = c.integer("K", 0), n = c.integer("N", 0), bits = c.integer("bits", 4),
                block = c.integer("block_size", 0);
  check_bits(c, bits);
  if (block < 16 || (block & (block - 1)) != 0) {
    c.fail(fmt::format("block_size is {}, a power of two from 16 on expected", block));
  }
  if (k < 1 || n < 1 || c.rank() < 1 || c.shape().back() != k) {
    c.fail(fmt::format("K is {} and N {} for A of shape {}", k, n, c.shape().str()));
  }
  if (c.has(4)) c.fail_supported("g_idx");
  if (c.integer("weight_prepacked", 0) != 0) c.fail_supported("weight_prepacked");
  if (c.dtype() != DType::float32 && !ops::is_half(c.dtype())) {
    c.fail(fmt::format("A of float32, float16 or bfloat16 expected, got {}", kaon::name_of(c.dtype())));
  }
  if (c.dtype(1) != DType::uint8) c.fail(fmt::format("B of uint8 expected, got {}", kaon::name_of(c.dtype(1))));
  const int64_t blocks = up(k, block);
  const Shape codes(n, blocks, block * bits / 8), by_block(n, blocks);
  const bool has_packed_zeros = c.has(3) && c.dtype(3) == DType::uint8;
  const Shape zeros = has_packed_zeros ? Shape(n, up(blocks * bits, 8)) : by_block;
  check_size(c, 1, codes);
  check_size(c, 2, by_block);
  if (c.has(3)) check_size(c, 3, zeros);
  if (c.has(5)) check_size(c, 5, Shape(n));
  const op::BlockQuantizedDense op{.bits = int(bits), .block_size = block, .has_zeros = c.has(3), .no_bias = !c.has(5)};
  std::vector<Symbol> inputs{c.x(), shaped(c, 1, codes), shaped(c, 2, by_block)};
  if (c.has(3)) inputs.push_back(shaped(c, 3, zeros));
  if (c.has(5)) inputs.push_back(reshaped(c.x(5), Shape(n)));
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  Symbol y;
  Symbol::apply(op::BlockQuantizedDense::def, &op, pointers, std::span(&y, 1), std::source_location::current(), "");
  c.set(y);
}

// Rows of a table of packed numbers: data, indices, scales, zero points. Only the rows that are read are unpacked.
void gather_block_quantised(Call& c) {
  const bool packs = c.type(0) == ElementType::uint8;
  const int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 128), in_a_byte = packs ? 8 / bits : 1;
  check_bits(c, bits);
  if (block < 16 || (block & (block - 1)) != 0) {
    c.fail(fmt::format("block_size is {}, a power of two from 16 on expected", block));
  }
  if (!packs && c.type(0) != ElementType::int4 && c.type(0) != ElementType::uint4) {
    c.fail_supported(fmt::format("data of {}", format::name_of(c.type(0))));
  }
  const int rank = c.rank(), along = c.axis("quantize_axis", 1, rank), axis = c.axis("gather_axis", 0, rank);
  if (axis == along) c.fail_supported("gather_axis and quantize_axis alike");
  if (packs && bits < 8 && along != rank - 1) c.fail_supported("packed numbers of which the last axis has no blocks");
  const int64_t size = c.shape()[axis], numbers = c.shape()[along] * (along == rank - 1 ? in_a_byte : 1);
  const Shape blocks = with_dim(c.shape(), along, up(numbers, block));
  if (c.shape(2) != blocks) {
    c.fail(fmt::format("scales of shape {} expected, got {}", blocks.str(), c.shape(2).str()));
  }
  const Shape zeros = with_dim(blocks, along, packs ? up(blocks[along], in_a_byte) : blocks[along]);
  if (c.has(3) && c.shape(3) != zeros) {
    c.fail(fmt::format("zero points of shape {} expected, got {}", zeros.str(), c.shape(3).str()));
  }
  // negative indices count from the end; others outside give zeros
  const Symbol given = cast(c.x(1), DType::float64);
  const Symbol index = sym.broadcast_where(given < 0, given + double(size), given);
  const Symbol inside = cast(index >= 0, DType::float32) * cast(index < double(size), DType::float32);
  const auto rows = [&](const Symbol& x) { return sym.take(x, cast(index, DType::int64), {.axis = axis}); };
  const int moved = along > axis ? along + c.rank(1) - 1 : along;  // the axis of blocks, among those of the result
  const bool is_signed = c.type(0) == ElementType::int4;
  const auto as_numbers = [&](const Symbol& x) {
    const Symbol y = packs ? unpacked(x, bits) : cast(x, DType::float32);
    return is_signed ? y - cast(y >= 8, DType::float32) * 16.0 : y;
  };
  const auto for_each = [&](const Symbol& x) {  // a number of each block, for each number in it
    return slice_along(sym.repeat(x, int(block), moved), moved, 0, numbers);
  };
  Symbol y = as_numbers(rows(c.x(0)));
  if (c.has(3)) {
    y = y - for_each(slice_along(as_numbers(rows(c.x(3))), moved, 0, blocks[along]));
  } else if (packs) {
    y = y - double(1 << (bits - 1));
  }
  y = y * for_each(cast(rows(c.x(2)), DType::float32));
  Shape beside = Shape::filled(rank_of(y), 1);
  for (int i = 0; i < c.rank(1); ++i) beside[axis + i] = c.shape(1)[i];
  y = sym.broadcast_mul(y, reshaped(inside, beside));
  c.set(cast(y, c.dtype(2)));
}

constexpr Row runtime_weight_table[] = {
    {"MatMulNBits", matmul_n_bits, 1, kMicrosoft},
    {"GatherBlockQuantized", gather_block_quantised, 1, kMicrosoft},
};

}  // namespace

std::span<const Row> runtime_weight_rows() { return runtime_weight_table; }

}  // namespace kaon::onnx::convert
