#include "kaon/graph/plan_ops/pad_rows.h"

#include <algorithm>
#include <cstring>

#include "kaon/ops/op_def.h"

namespace kaon {

using namespace graph;
namespace {

constexpr int64_t piece = 1 << 18;  // bytes

}  // namespace

constinit const OpDef op::PadRows::def = make_op_def<op::PadRows>();
constinit const OpDef op::TakeRows::def = make_op_def<op::TakeRows>();

void run_cpu(const op::PadRows&, KernelContext& c) {
  const int64_t given = int64_t(c.in(0).bytes());
  c.run.parallel_for(int64_t(c.out().bytes()), piece, [&](int64_t begin, int64_t end) {
    const int64_t copied = std::clamp(given, begin, end);
    if (copied > begin) std::memcpy(c.out().as<char>() + begin, c.in(0).as<char>() + begin, size_t(copied - begin));
    if (end > copied) std::memset(c.out().as<char>() + copied, 0, size_t(end - copied));
  });
}

void run_cpu(const op::TakeRows&, KernelContext& c) {
  c.run.parallel_for(int64_t(c.out().bytes()), piece, [&](int64_t begin, int64_t end) {
    std::memcpy(c.out().as<char>() + begin, c.in(0).as<char>() + begin, size_t(end - begin));
  });
}

}  // namespace kaon
