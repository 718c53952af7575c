#include "kaon/ops/quant/kernels/layer_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/ops/quant/kernels/layer_values.h"

namespace kaon::ops {
namespace {

bool same(const ConvGeometry& a, const ConvGeometry& b) {
  return a.groups == b.groups && a.in_channels == b.in_channels && a.out_channels == b.out_channels &&
         a.axes == b.axes && a.in == b.in && a.out == b.out && a.kernel == b.kernel && a.stride == b.stride &&
         a.dilate == b.dilate && a.pad == b.pad;
}

// The kept weights that were made of `weights` and `key`, else make()'s, which are kept if they can be.
std::shared_ptr<const LayerWeights> keep(KernelContext& c, const Int8ConvSet& set, const void* weights,
                                         std::vector<float> key, FunctionRef<std::shared_ptr<LayerWeights>()> make) {
  const Source source = c.source_of(weights);
  const auto made = [&] {
    std::shared_ptr<LayerWeights> result = make();
    result->g = set.g, result->offset = source.offset;
    result->key = std::move(key);
    return result;
  };
  if (!source.buffer) return made();
  const auto is_it = [&](const PackedData& derived) {
    const auto* w = dynamic_cast<const LayerWeights*>(&derived);
    return w && w->offset == source.offset && same(w->g, set.g) && w->key.size() == key.size() &&
           std::memcmp(w->key.data(), key.data(), key.size() * sizeof(float)) == 0;
  };
  const auto kept = find_or_pack(*source.buffer, is_it, [&]() -> std::shared_ptr<const PackedData> { return made(); });
  return std::static_pointer_cast<const LayerWeights>(kept);
}

// BatchNorm with running statistics taken into the filters and the bias, in place.
void fold_norm(const LayerParameters& p, int64_t filters, int64_t size, float* weights, float* bias) {
  for (int64_t o = 0; o < filters; ++o) {
    const float alpha = float((p.gamma ? p.gamma[o] : 1.f) / std::sqrt(p.var[o] + p.eps));
    bias[o] = p.bias ? p.beta[o] + alpha * (p.bias[o] - p.mean[o]) : p.beta[o] - alpha * p.mean[o];
    for (int64_t i = 0; i < size; ++i) weights[o * size + i] *= alpha;
  }
}

float largest(const float* x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  return most;
}

std::shared_ptr<LayerWeights> quantize(const Int8ConvSet& set, const float* given, const LayerParameters& p) {
  const int64_t filters = set.g.out_channels * set.slices, size = set.g.weights() / set.g.out_channels;
  auto out = std::make_shared<LayerWeights>();
  const PackedBytes folded(size_t(filters * size) * 4 + 64), levels(size_t(filters * size) + 64);
  auto* const weights = reinterpret_cast<float*>(folded.data());
  auto* const to = reinterpret_cast<int8_t*>(levels.data());
  std::copy_n(given, filters * size, weights);
  const bool has_bias = p.bias || p.beta;
  std::vector<float> bias(has_bias ? size_t(filters) : 0);
  if (p.beta) {
    fold_norm(p, filters, size, weights, bias.data());
  } else if (p.bias) {
    std::copy_n(p.bias, filters, bias.data());
  }
  out->range = largest(weights, filters * size);
  out->scales.resize(size_t(filters), filter_scale(out->range, 0, p.data_scale));
  for (int64_t o = 0; o < filters; ++o) {
    float& scale = out->scales[size_t(o)];
    if (p.is_channelwise) {
      scale = filter_scale(largest(weights + o * size, size), has_bias ? bias[size_t(o)] : 0.f, p.data_scale);
    }
    for (int64_t i = o * size; i < (o + 1) * size; ++i) to[i] = nearest_level<int8_t>(weights[i] * scale);
    if (has_bias) out->bias.push_back(nearest_level<int32_t>(bias[size_t(o)] * (scale * p.data_scale)));
  }
  out->packed = std::make_unique<PackedBytes>(size_t(set.slices) * set.slice_bytes() + 64);
  set.pack(to, out->packed->data());
  return out;
}

}  // namespace

std::shared_ptr<const LayerWeights> quantized_weights(KernelContext& c, const Int8ConvSet& set, const float* weights,
                                                      const LayerParameters& p) {
  const size_t filters = size_t(set.g.out_channels * set.slices);
  std::vector<float> key{p.data_scale, float(p.is_channelwise), float(p.eps)};
  for (const float* values : {p.bias, p.gamma, p.beta, p.mean, p.var}) {
    key.push_back(values != nullptr);
    if (values) key.insert(key.end(), values, values + filters);
  }
  return keep(c, set, weights, std::move(key), [&] { return quantize(set, weights, p); });
}

std::shared_ptr<const LayerWeights> packed_weights(KernelContext& c, const Int8ConvSet& set, const int8_t* weights) {
  return keep(c, set, weights, {}, [&] {
    auto out = std::make_shared<LayerWeights>();
    out->packed = std::make_unique<PackedBytes>(size_t(set.slices) * set.slice_bytes() + 64);
    set.pack(weights, out->packed->data());
    return out;
  });
}

}  // namespace kaon::ops
