#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::CacheAppend::def = make_op_def<op::CacheAppend>();

void op::CacheAppend::infer(InferContext& c) const {
  for (int i : {0, 1}) c.expect_ndim(i, 4);
  const Shape cache = c.shape(0), data = c.shape(1);
  if (data[2] > cache[2] || data[0] != cache[0] || data[1] != cache[1] || data[3] != cache[3]) {
    c.fail(fmt::format("data must have the shape of cache, with at most {} steps: {}", cache[2], c.describe_inputs()));
  }
  if (c.dtype(0) != c.dtype(1)) {
    c.fail_dtype(
        fmt::format("cache and data must have one dtype, got {} and {}", name_of(c.dtype(0)), name_of(c.dtype(1))));
  }
  const Shape position = c.shape(2);
  if (position.ndim() != 1 || (position[0] != 1 && position[0] != cache[0])) {
    c.fail(fmt::format("position must have shape (1,) or ({},), got {}", cache[0], position.str()));
  }
  if (c.dtype(2) == DType::boolean) c.fail_dtype("position must be numbers, got bool");
}

static const int64_t* load_positions(KernelContext& c, int64_t capacity, int64_t steps) {
  try {
    return load_indices(c, c.in(2), capacity - steps + 1, IndexMode::raise, "cache_append");
  } catch (const IndexError& e) {
    std::rethrow_exception(
        e.with_context(fmt::format(": the places at which {} new steps fit into a cache of {}", steps, capacity)));
  }
}

void run_cpu(const op::CacheAppend&, KernelContext& c) {
  // A position outside fails the cache: nothing else would tell its readers that it lacks these steps.
  const Shape &cache = c.in(0).shape, &data = c.in(1).shape;
  const int64_t* const positions = load_positions(c, cache[2], data[2]);
  const size_t row = size_t(data[3]) * size_of(c.in(0).dtype), bytes = size_t(data[2]) * row;
  const int64_t heads = cache[1], step = c.in(2).size() == 1 ? 0 : 1;
  c.run.parallel_for(
      cache[0] * heads, std::max<int64_t>(1, int64_t(65536 / (bytes + 1))), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = i * cache[2] + positions[i / heads * step];
          std::memcpy(c.in(0).as<char>() + size_t(at) * row, c.in(1).as<char>() + size_t(i) * bytes, bytes);
        }
      });
}

}  // namespace kaon
