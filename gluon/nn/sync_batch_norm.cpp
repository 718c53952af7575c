// SyncBatchNorm: normalisation by the statistics of all ranks.
#include <fmt/format.h>

#include "kaon/comm/communicator.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/internal/shards.h"
#include "kaon/gluon/nn/norm.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon::nn {

namespace {

// The shape of what there is one of for each channel, which broadcasts with x, and the other axes.
struct Channels {
  Channels(const Shape& x, int at) {
    for (int k = 0; k < x.ndim(); ++k) {
      shape.push_back(k == at ? x[k] : 1);
      if (k != at) others.push_back(k);
    }
    count = x[at];
  }
  Shape shape, others;
  int64_t count = 0;
};

NDArray total(const NDArray& x, const Channels& c) { return nd.sum(x, c.others).reshape({c.count}); }

struct Statistics {
  NDArray mean, var, samples;  // (channels,)
};

// From each rank's own, without the cancellation of the mean of squares.
Statistics of_all_ranks(const NDArray& x, const Channels& c, const comm::Communicator& ranks) {
  const int64_t n = c.count ? x.size() / c.count : 0;
  const NDArray count = nd.full({c.count}, double(n), {.dtype = x.dtype(), .device = x.device()});
  const NDArray own_mean = n ? total(x, c) / double(n) : nd.zeros_like(count);
  const NDArray own_squares = total(nd.square(nd.broadcast_sub(x, own_mean.reshape(c.shape))), c);
  const NDArray all = ranks.all_gather(nd.concat(op::Concat{.dim = 0}, count, own_mean, own_squares))
                          .reshape({ranks.size(), 3, c.count});
  const auto kind = [&](int64_t k) { return nd.slice_axis(all, 1, k, k + 1).reshape({ranks.size(), c.count}); };
  const NDArray counts = kind(0), means = kind(1), squares = kind(2);
  const Shape by_rank{0};
  const NDArray samples = nd.sum(counts, by_rank), mean = nd.sum(counts * means, by_rank) / samples;
  const NDArray apart = nd.broadcast_sub(means, mean.reshape({1, c.count}));
  return {mean, nd.sum(squares + counts * nd.square(apart), by_rank) / samples, samples};
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(const BatchNormOptions& o) : detail::BatchNorm<SyncBatchNorm>("syncbatchnorm", o) {}
SyncBatchNorm::SyncBatchNorm(const BatchNormOptions& o, const comm::Communicator& ranks) : SyncBatchNorm(o) {
  if (!ranks.defined()) throw StateError("[SyncBatchNorm] the communicator is undefined: comm::mpi() gives one");
  if (ranks.size() > 1) ranks_ = std::make_shared<const comm::Communicator>(ranks);
}

bool SyncBatchNorm::takes_all_ranks() const { return ranks_ && autograd::is_training() && !op_.use_global_stats; }

void SyncBatchNorm::check_trace() const {
  if (!takes_all_ranks() || !gluon::detail::traces_a_plan()) return;
  throw StateError(
      fmt::format("[SyncBatchNorm] over {} ranks it cannot be trained in a plan, which does not wait for other ranks: "
                  "hybridize the parts of the net around it",
                  ranks_->size()));
}

NDArray SyncBatchNorm::over_ranks(const NDArray& given) const {
  if (gluon::detail::Shards::are_computed()) {
    throw StateError(fmt::format(
        "[SyncBatchNorm] deterministic: its statistics are of one shard of each of the {} ranks, others for "
        "another number of ranks; expected BatchNorm, whose statistics are of one shard",
        ranks_->size()));
  }
  struct Kept {
    NDArray normalized, inverse, samples;  // the last two (channels,)
  };
  const auto kept = std::make_shared<Kept>();
  const int at = op_.axis < 0 ? op_.axis + given.ndim() : op_.axis;
  if (at < 0 || at >= given.ndim()) {
    throw ValueError(
        fmt::format("[SyncBatchNorm] axis {} is not one of data of shape {}", op_.axis, given.shape().str()));
  }
  const Channels c(given.shape(), at);
  const bool scales = !op_.fix_gamma;
  const auto forward = [&](const NDArray& data, const NDArray& scale, const NDArray& shift) {
    const NDArray x = data.dtype() == scale.dtype() ? data : nd.cast(data, scale.dtype());
    const Statistics s = of_all_ranks(x, c, *ranks_);
    kept->inverse = 1.0 / nd.sqrt(s.var + op_.eps);
    kept->samples = s.samples;
    kept->normalized = nd.broadcast_mul(nd.broadcast_sub(x, s.mean.reshape(c.shape)), kept->inverse.reshape(c.shape));
    const auto move = [&](NDArray running, const NDArray& of_batch) {
      running.assign(running * op_.momentum + of_batch * (1 - op_.momentum));
    };
    move(running_mean.data(), s.mean);
    move(running_var.data(), s.var);
    NDArray y = scales ? nd.broadcast_mul(kept->normalized, scale.reshape(c.shape)) : kept->normalized;
    y = nd.broadcast_add(y, shift.reshape(c.shape));
    return y.dtype() == data.dtype() ? y : nd.cast(y, data.dtype());
  };
  const auto backward = [kept, c, scales, ranks = *ranks_](const autograd::FunctionCall& call) {
    if (autograd::is_recording()) {
      throw StateError("[SyncBatchNorm] over ranks gradients of gradients are not implemented");
    }
    const NDArray &scale = call.inputs[1], &head = call.heads[0];
    const NDArray dy = head.dtype() == scale.dtype() ? head : nd.cast(head, scale.dtype());
    const NDArray shift_gradient = total(dy, c), scale_gradient = total(dy * kept->normalized, c);
    const NDArray sums = ranks.all_reduce(nd.concat(op::Concat{.dim = 0}, shift_gradient, scale_gradient));
    const auto mean = [&](int64_t k) {
      return (sums.slice(k * c.count, (k + 1) * c.count) / kept->samples).reshape(c.shape);
    };
    const NDArray around = nd.broadcast_sub(dy, mean(0)) - nd.broadcast_mul(kept->normalized, mean(1));
    const NDArray factor = scales ? kept->inverse * scale : kept->inverse;
    const NDArray dx = nd.broadcast_mul(around, factor.reshape(c.shape));
    return std::vector<NDArray>{dx.dtype() == head.dtype() ? dx : nd.cast(dx, head.dtype()),
                                scales ? scale_gradient : NDArray(), shift_gradient};
  };
  return autograd::Function(forward, backward)(given, gamma.data(), beta.data());
}

}  // namespace kaon::gluon::nn
