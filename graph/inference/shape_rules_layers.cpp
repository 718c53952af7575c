// Shapes of the layers of neural networks: weights from the data, and the data from the results.
#include <algorithm>

#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

void learn(const op::FullyConnected& o, ShapeFacts& f) {
  Shape &data = f.in(0), &weight = f.in(1), &out = f.out();
  if (data.ndim() < 1) return;  // it may have any number of dimensions
  f.has_ndim(weight, 2);
  f.is(weight, 0, o.num_hidden);
  if (!o.no_bias) f.is(f.in(2), Shape(o.num_hidden));
  const int n = data.ndim(), kept = o.flatten ? 1 : n - 1;
  f.has_ndim(out, kept + 1);
  for (int i = 0; i < kept; ++i) f.same(data, i, out, i);
  f.is(out, kept, o.num_hidden);
  std::vector<int> rest;
  for (int i = kept; i < n; ++i) rest.push_back(i);
  f.same_product(weight, {1}, data, rest);
}

namespace {

// The axes of an array in `layout`: n, then c, then the positions.
struct ImageAxes {
  int channel, first;
  ImageAxes(const std::optional<ConvLayout>& layout, int ndim)
      : channel(ops::is_channels_last(layout) ? ndim - 1 : 1), first(ops::is_channels_last(layout) ? 1 : 2) {}
};

int64_t entry(const Shape& s, int i, int64_t otherwise) { return i < s.ndim() ? s[i] : otherwise; }

}  // namespace

void learn(const op::Convolution& o, ShapeFacts& f) {
  Shape &data = f.in(0), &out = f.out();
  if (data.ndim() < 0) return;
  f.probe();
  if (data.ndim() != o.kernel.ndim() + 2) return;
  const ImageAxes at(o.layout, data.ndim());
  // Said here too: a probe knows nothing where its numbers of channels cannot be split into the groups.
  f.has_ndim(f.in(1), data.ndim());
  f.is(f.in(1), 0, o.num_filter);
  for (int i = 0; i < o.kernel.ndim(); ++i) f.is(f.in(1), at.first + i, o.kernel[i]);
  if (out.ndim() != data.ndim()) return;
  f.same(data, 0, out, 0);
  for (int i = 0; i < o.kernel.ndim(); ++i) {  // each result of stride 1 is one position of the data
    if (entry(o.stride, i, 1) != 1 || out[at.first + i] < 0) continue;
    const int64_t window = (o.kernel[i] - 1) * entry(o.dilate, i, 1);
    const int64_t size = out[at.first + i] + window - 2 * entry(o.pad, i, 0);
    if (size >= 0) f.is(data, at.first + i, size);
  }
  Shape& weight = f.in(1);
  f.same_product(data, {at.channel}, weight, {at.channel == 1 ? 1 : data.ndim() - 1}, o.num_group);
}

void learn(const op::Deconvolution& o, ShapeFacts& f) {
  Shape &data = f.in(0), &out = f.out();
  if (data.ndim() < 0) return;
  f.probe();
  if (data.ndim() != o.kernel.ndim() + 2 || out.ndim() != data.ndim()) return;
  f.same(data, 0, out, 0);
  const ImageAxes at(o.layout, data.ndim());
  if (f.in(1).ndim() == data.ndim()) f.same(data, at.channel, f.in(1), 0);
}

void learn(const op::Pooling& o, ShapeFacts& f) {
  Shape &data = f.in(0), &out = f.out();
  if (data.ndim() < 0) return;
  f.probe();
  f.has_ndim(out, data.ndim());
  const ImageAxes at(o.layout, data.ndim());
  f.same(data, 0, out, 0);
  f.same(data, at.channel, out, at.channel);
  for (int i = 0; i < data.ndim() - 2 && o.global_pool; ++i) f.is(out, at.first + i, 1);
}

namespace {
// Statistics and parameters have an element for each channel.
void learn_batch_norm(int axis, ShapeFacts& f) {
  f.all_same(1, 1);
  Shape& data = f.in();
  if (data.ndim() < 1) return;
  const int at = ops::normalize_axis(axis, data.ndim(), "BatchNorm");
  for (int round = 0; round < 2; ++round) {
    const auto each = [&](Shape& s) {
      f.has_ndim(s, 1);
      f.same(data, at, s, 0);
    };
    for (int i = 1; i < f.num_inputs(); ++i) each(f.in(i));
    for (int i = 1; i < f.num_outputs(); ++i) each(f.out(i));
  }
  f.all_same(1, 1);
}
}  // namespace

void learn(const op::BatchNorm& o, ShapeFacts& f) { learn_batch_norm(o.axis, f); }
void learn(const op::BatchNormWithReLU& o, ShapeFacts& f) { learn_batch_norm(o.axis, f); }
void learn(const op::SyncBatchNorm&, ShapeFacts& f) { learn_batch_norm(1, f); }

void learn(const op::UpSampling& o, ShapeFacts& f) {
  Shape &data = f.in(), &out = f.out();
  if (data.ndim() < 0) return;
  f.has_ndim(data, 4);
  f.has_ndim(out, 4);
  f.same(data, 0, out, 0);
  if (f.num_inputs() == 1 || o.sample_type == UpSamplingType::bilinear) {
    f.same(data, 1, out, 1);
    if (f.num_inputs() > 1) {  // a filter for each channel
      const int64_t kernel = 2 * o.scale - o.scale % 2;
      f.is(f.in(1), Shape(-1, 1, kernel, kernel));
      f.same(data, 1, f.in(1), 0);
    }
    for (int i : {2, 3}) f.same_product(out, {i}, data, {i}, o.scale);
  }
}

void learn(const op::SoftmaxOutput& o, ShapeFacts& f) {
  Shape &data = f.in(0), &label = f.in(1);
  f.same(data, f.out());
  if (label.ndim() < 0) {
    f.probe();
  } else if (label.ndim() == data.ndim() && !o.multi_output) {
    f.same(label, data);  // probabilities
  }
}

void learn(const op::SVMOutput&, ShapeFacts& f) {
  f.same(f.in(0), f.out());
  f.probe();
}

void learn(const op::BilinearSampler&, ShapeFacts& f) {
  Shape &data = f.in(0), &grid = f.in(1), &out = f.out();
  if (data.ndim() < 0 || grid.ndim() < 0) return;
  for (Shape* s : {&data, &grid, &out}) f.has_ndim(*s, 4);
  f.is(grid, 1, 2);
  f.same(data, 0, out, 0), f.same(grid, 0, out, 0), f.same(data, 0, out, 0);
  f.same(data, 1, out, 1);
  f.same(grid, 2, out, 2), f.same(grid, 3, out, 3);
}

}  // namespace kaon::graph
