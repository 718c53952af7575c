#include "kaon/gluon/internal/gradient_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/engine/engine.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon::detail {

using engine::IntrusivePtr;
using ops::ArrayNode;

namespace {

constexpr int64_t values_in_byte = 4, grain = 1 << 14;  // bytes of codes for one piece of work
enum Code : uint8_t { zero, plus, minus };

// Codes of residual + x, four in a byte; the residual becomes what they leave.
void encode(const NDArray& x, const NDArray& residual, const NDArray& codes, float threshold) {
  const auto body = [from = x.ptr(), left = residual.ptr(), to = codes.ptr(), threshold](RunContext& run) {
    const auto* gradient = static_cast<const float*>(from->data());
    auto* rest = static_cast<float*>(left->data());
    auto* code = static_cast<uint8_t*>(to->data());
    const int64_t n = from->shape.size();
    run.parallel_for(to->shape.size(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        uint8_t all = 0;
        for (int64_t i = b * values_in_byte; i < std::min(n, (b + 1) * values_in_byte); ++i) {
          float r = rest[i] + gradient[i];
          Code c = zero;
          if (r >= threshold) {
            c = plus;
            r -= threshold;
          } else if (r <= -threshold) {
            c = minus;
            r += threshold;
          }
          rest[i] = r;
          all = uint8_t(all | c << 2 * (i % values_in_byte));
        }
        code[b] = all;
      }
    });
  };
  const Access accesses[] = {read(x.var()), update(residual.var()), write(codes.var())};
  x.engine().push(accesses, body, {.label = {"compress_gradient"}});
}

// x becomes the sum of what the codes of all ranks say.
void decode_sum(const NDArray& codes, int ranks, const NDArray& x, float threshold) {
  const auto body = [from = codes.ptr(), to = x.ptr(), ranks, threshold](RunContext& run) {
    const auto* code = static_cast<const uint8_t*>(from->data());
    auto* sum = static_cast<float*>(to->data());
    const int64_t n = to->shape.size(), bytes = from->shape.size() / ranks;
    run.parallel_for(bytes, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * values_in_byte; i < std::min(n, end * values_in_byte); ++i) {
        int total = 0;
        for (int64_t r = 0; r < ranks; ++r) {
          const int c = code[r * bytes + i / values_in_byte] >> 2 * (i % values_in_byte) & 3;
          total += (c == plus) - (c == minus);
        }
        sum[i] = float(total) * threshold;
      }
    });
  };
  const Access accesses[] = {read(codes.var()), x.node().covers_buffer() ? write(x.var()) : update(x.var())};
  x.engine().push(accesses, body, {.label = {"decompress_gradient"}});
}

}  // namespace

GradientWire::GradientWire(comm::Communicator ranks, const CompressionParams& compression)
    : ranks_(std::move(ranks)), threshold_(float(compression.threshold)) {
  if (compression.type == "none") {
    type_ = Type::none;
  } else if (compression.type == "2bit") {
    type_ = Type::two_bits;
  } else if (compression.type == "float16") {
    type_ = Type::float16;
  } else if (compression.type == "bfloat16") {
    type_ = Type::bfloat16;
  } else {
    throw ValueError(fmt::format(
        "[gradient compression] there is no type '{}'; there are: none, 2bit, float16, bfloat16", compression.type));
  }
  if (!(threshold_ > 0) || !std::isfinite(threshold_)) {
    throw ValueError(
        fmt::format("[gradient compression] threshold must be a number above 0, got {}", compression.threshold));
  }
}

void GradientWire::all_reduce(const NDArray& x, std::optional<int> priority) const {
  if (priority) {
    ranks_.all_reduce_by_priority(x, *priority);
  } else {
    ranks_.all_reduce_in_place(x);
  }
}

void GradientWire::add_up(const NDArray& x, NDArray& residual, std::optional<int> priority) const {
  if (type_ == Type::none) return all_reduce(x, priority);
  if (type_ == Type::two_bits) return add_up_two_bits(x, residual);
  const DType narrow = type_ == Type::float16 ? DType::float16 : DType::bfloat16;
  if (size_of(x.dtype()) <= size_of(narrow)) return all_reduce(x, priority);
  const NDArray sent = nd.cast(x, narrow);
  all_reduce(sent, priority);
  NDArray(x).assign(nd.cast(sent, x.dtype()));
}

void GradientWire::add_up_two_bits(const NDArray& x, NDArray& residual) const {
  if (x.dtype() != DType::float32) {
    throw TypeError(
        fmt::format("[gradient compression] 2bit is for float32, got a gradient of {}", name_of(x.dtype())));
  }
  if (!residual.defined()) residual = nd.zeros(x.shape(), {.dtype = x.dtype(), .device = cpu()});
  const NDArray on_host = x.as_in_context(cpu());  // x itself where it is there
  const NDArray codes = NDArray::empty({(x.size() + values_in_byte - 1) / values_in_byte}, DType::uint8, cpu());
  encode(on_host, residual, codes, threshold_);
  decode_sum(ranks_.all_gather(codes), ranks_.size(), on_host, threshold_);
  if (on_host.ptr() != x.ptr()) NDArray(x).assign(on_host);
}

// Both of a pair add the same two numbers, in either order: every rank has the same bits.
void GradientWire::add_up_by_tree(const NDArray& x) const {
  for (int distance = 1; distance < ranks_.size(); distance *= 2) {
    NDArray(x) += ranks_.exchange(x, ranks_.rank() ^ distance);
  }
}

}  // namespace kaon::gluon::detail
