// Rows of the test table: position-sensitive, deformed and rotated regions of images, and proposals.
#include <algorithm>
#include <cmath>

#include "kaon/ops/nn/region/region.h"
#include "kaon/tests/ops/table/detection_inputs.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

// A pixel that a result reads: its weight, and the derivatives of that by both numbers of trans, the first of which is
// at `trans`.
struct Read {
  Shape result, pixel, trans;
  double weight, by_down = 0, by_right = 0;
};
using Visit = engine::FunctionRef<void(const Read&)>;

bool is_image(double number, const Shape& data) { return number >= 0 && number < double(data[0]); }

// Every fifth region is of an image that does not exist.
Input regions(int64_t count, int64_t images, double height, double width, uint32_t seed) {
  Numbers rois = fractions(5 * count, seed);
  for (size_t i = 0; i < rois.size(); i += 5) {
    double* const r = &rois[i];
    r[0] = i / 5 % 5 == 4 ? -1 : std::floor(r[0] * double(images));
    r[1] = std::floor(r[1] * width), r[2] = std::floor(r[2] * height);
    r[3] = r[1] + std::floor(r[3] * width), r[4] = r[2] + std::floor(r[4] * height);
  }
  return constant(in({count, 5}, rois));
}

template <RegionPart P>
void each_read(const op::PSROIPoolingOp<P>& op, const Shape& data, const Shape& out, const Host& rois, const Host*,
               Visit visit) {
  const int64_t groups = op.group_size > 0 ? op.group_size : op.pooled_size;
  each(out, [&](const Shape& p) {
    const auto roi = [&](int k) { return rois.at({p[0], k}); };
    if (!is_image(roi(0), data)) return;
    const auto range = [&](int first, int64_t i, int64_t size) {
      const double begin = std::round(roi(first)) * op.spatial_scale;
      const double length = std::round(roi(first + 2)) * op.spatial_scale + op.spatial_scale - begin;
      const double each = (length > 0.1 ? length : 0.1) / op.pooled_size;
      const auto within = [&](double at) { return std::isnan(at) ? 0 : std::clamp(at, 0.0, double(size)); };
      return std::pair(within(std::floor(double(i) * each + begin)), within(std::ceil(double(i + 1) * each + begin)));
    };
    const auto down = range(2, p[2], data[2]), across = range(1, p[3], data[3]);
    const int64_t channel = (p[1] * groups + p[2] * groups / op.pooled_size) * groups + p[3] * groups / op.pooled_size;
    for (double y = down.first; y < down.second; ++y) {
      for (double x = across.first; x < across.second; ++x) {
        visit({p,
               {int64_t(roi(0)), channel, int64_t(y), int64_t(x)},
               {},
               1 / ((down.second - down.first) * (across.second - across.first))});
      }
    }
  });
}

// The pixels of an axis around a position inside of it: their weights, and the derivatives.
struct Line {
  int64_t pixel[2];
  double weight[2], slope[2];
  Line(double at, int64_t size) {  // before the first pixel, it is that
    const double first = at;
    at = std::max(at, 0.0);
    const double low = std::min(std::floor(at), double(size - 1)), high = std::min(low + 1, double(size - 1));
    pixel[0] = int64_t(low), pixel[1] = int64_t(high);
    weight[1] = high > low ? at - low : 0, weight[0] = 1 - weight[1];
    slope[1] = high > low && first >= 0 ? 1 : 0, slope[0] = -slope[1];
  }
};

template <RegionPart P>
void each_read(const op::DeformablePSROIPoolingOp<P>& op, const Shape& data, const Shape& out, const Host& rois,
               const Host* trans, Visit visit) {
  const int64_t parts = op.part_size > 0 ? op.part_size : op.pooled_size;
  const int64_t classes = trans ? trans->shape[1] / 2 : 1;
  each(out, [&](const Shape& p) {
    const auto roi = [&](int k) { return rois.at({p[0], k}); };
    if (!is_image(roi(0), data)) return;
    Read read;
    read.result = p;
    read.trans =
        Shape(p[0], p[1] / (op.output_dim / classes) * 2, p[2] * parts / op.pooled_size, p[3] * parts / op.pooled_size);
    std::vector<Line> lines[2];
    double lengths[2];
    for (int axis : {0, 1}) {
      const double begin = std::round(roi(2 - axis)) * op.spatial_scale - 0.5;
      const double length = std::round(roi(4 - axis)) * op.spatial_scale + op.spatial_scale - 0.5 - begin;
      lengths[axis] = length > 0.1 ? length : 0.1;
      Shape at = read.trans;
      at[1] += 1 - axis;
      const double moved = trans ? trans->at(at) * double(op.trans_std) * lengths[axis] : 0;
      const double each = lengths[axis] / op.pooled_size;
      for (int s = 0; s < op.sample_per_part; ++s) {
        const double y = double(p[axis + 2]) * each + begin + moved + s * each / op.sample_per_part;
        const int64_t size = data[axis + 2];
        if (y >= -0.5 && y <= double(size) - 0.5) lines[axis].emplace_back(y, size);
      }
    }
    const int64_t g = op.group_size, channel = (p[1] * g + p[2] * g / op.pooled_size) * g + p[3] * g / op.pooled_size;
    const double count = double(lines[0].size() * lines[1].size());
    for (const Line& y : lines[0]) {
      for (const Line& x : lines[1]) {
        for (int k = 0; k < 4; ++k) {
          const int i = k / 2, j = k % 2;
          read.pixel = Shape(int64_t(roi(0)), channel, y.pixel[i], x.pixel[j]);
          read.weight = y.weight[i] * x.weight[j] / count;
          read.by_down = y.slope[i] * x.weight[j] * double(op.trans_std) * lengths[0] / count;
          read.by_right = y.weight[i] * x.slope[j] * double(op.trans_std) * lengths[1] / count;
          visit(read);
        }
      }
    }
  });
}

template <RegionPart P>
void each_read(const op::RROIAlignOp<P>& op, const Shape& data, const Shape& out, const Host& rois, const Host*,
               Visit visit) {
  each(out, [&](const Shape& p) {
    const auto roi = [&](int k) { return rois.at({p[0], k}); };
    bool finite = is_image(roi(0), data);
    for (int k = 1; k < 6; ++k) finite = finite && std::isfinite(roi(k));
    if (!finite) return;
    const double angle = roi(5) * M_PI / 180;
    double length[2], samples[2];
    for (int a : {0, 1}) {
      length[a] = std::max(roi(4 - a) * op.spatial_scale, 1.0);
      samples[a] = op.sampling_ratio > 0 ? op.sampling_ratio : std::ceil(length[a] / double(out[a + 2]));
    }
    for (double s = 0; s < samples[0]; ++s) {
      for (double t = 0; t < samples[1]; ++t) {
        const double v = length[0] * ((double(p[2]) + (s + 0.5) / samples[0]) / double(out[2]) - 0.5);
        const double u = length[1] * ((double(p[3]) + (t + 0.5) / samples[1]) / double(out[3]) - 0.5);
        const double y = v * std::cos(angle) - u * std::sin(angle) + roi(2) * op.spatial_scale;
        const double x = u * std::cos(angle) + v * std::sin(angle) + roi(1) * op.spatial_scale;
        if (y < -1 || y > double(data[2]) || x < -1 || x > double(data[3])) continue;
        const Line down(y, data[2]), across(x, data[3]);
        for (int k = 0; k < 4; ++k) {
          visit({p,
                 {int64_t(roi(0)), p[1], down.pixel[k / 2], across.pixel[k % 2]},
                 {},
                 down.weight[k / 2] * across.weight[k % 2] / (samples[0] * samples[1])});
        }
      }
    }
  });
}

// Rows of an operator, and of the gradient of its data. Inputs behind data: rois, and trans where there is one.
template <class Op, class Back>
void pool(Rows& rows, const Op& op, const Back& back, const Shape& data, const Shape& out, std::vector<Input> more) {
  const bool moves = more.size() > 1;
  std::vector<Input> inputs = more;
  inputs.insert(inputs.begin(), in(data));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        Host y = zeros(out);
        each_read(op, data, out, in[1], moves ? &in[2] : nullptr, [&](const Read& r) {
          if (r.weight != 0) y.at(r.result) += r.weight * in[0].at(r.pixel);
        });
        return y;
      },
      RowOptions{.loosen = 8, .loosen_gradient = 16});
  inputs[0] = in(out);
  for (Input& i : inputs) i = constant(i);
  rows.emplace_back(
      back, inputs,
      [=](const Hosts& in) {
        Host y = zeros(data);
        each_read(op, data, out, in[1], moves ? &in[2] : nullptr, [&](const Read& r) {
          if (r.weight != 0) y.at(r.pixel) += r.weight * in[0].at(r.result);
        });
        return y;
      },
      RowOptions{.loosen = 16, .differentiate = false});
}

void position_sensitive(Rows& rows, const op::PSROIPooling& op, const Shape& data, int64_t count, uint32_t seed) {
  const Input rois =
      regions(count, data[0], double(data[2]) / op.spatial_scale, double(data[3]) / op.spatial_scale, seed);
  const Shape out(count, int64_t(op.output_dim), int64_t(op.pooled_size), int64_t(op.pooled_size));
  pool(rows, op, op::BackwardPSROIPooling{op.spatial_scale, op.output_dim, op.pooled_size, op.group_size, data}, data,
       out, {rois});
}

void deformed(Rows& rows, const op::DeformablePSROIPooling& op, const Shape& data, int64_t count, int64_t classes,
              uint32_t seed) {
  const Input rois =
      regions(count, data[0], double(data[2]) / op.spatial_scale, double(data[3]) / op.spatial_scale, seed);
  const Shape out(count, int64_t(op.output_dim), int64_t(op.pooled_size), int64_t(op.pooled_size));
  std::vector<Input> more{rois};
  const int64_t parts = op.part_size > 0 ? op.part_size : op.pooled_size;
  const Shape trans(count, classes * 2, parts, parts);
  Numbers moves = fractions(trans.size(), seed + 1);
  for (double& v : moves) v = v - 0.5 + 1.0 / 128;
  if (!op.no_trans) more.push_back(in(trans, moves));
  const auto back = [&]<RegionPart P>(const Shape& shape) {
    return op::DeformablePSROIPoolingOp<P>{op.spatial_scale, op.output_dim, op.group_size,
                                           op.pooled_size,   op.part_size,  op.sample_per_part,
                                           op.trans_std,     op.no_trans,   shape};
  };
  pool(rows, op, back.template operator()<RegionPart::backward_data>(data), data, out, more);
  if (op.no_trans) return;
  rows.emplace_back(
      back.template operator()<RegionPart::backward_trans>({}),
      std::vector{constant(in(out)), constant(in(data)), rois, constant(more[1])},
      [=](const Hosts& in) {
        Host y = zeros(trans);
        each_read(op, data, out, in[2], &in[3], [&](const Read& r) {
          Shape down = r.trans;
          ++down[1];
          const double both = in[0].at(r.result) * in[1].at(r.pixel);
          y.at(down) += r.by_down * both, y.at(r.trans) += r.by_right * both;
        });
        return y;
      },
      RowOptions{.loosen = 32, .differentiate = false});
}

void rotated(Rows& rows, const op::RROIAlign& op, const Shape& data, int64_t count, uint32_t seed) {
  const Numbers some = fractions(5 * count, seed);
  Numbers rois;
  for (size_t i = 0; i < size_t(count); ++i) {
    const double* const r = &some[5 * i];
    const double height = double(data[2]) / op.spatial_scale, width = double(data[3]) / op.spatial_scale;
    rois.push_back(i % 5 == 4 ? -1 : std::floor(r[0] * double(data[0])));
    // no sample is where the image ends
    rois.push_back(std::floor(r[1] * width * 8) / 8 + 1.0 / 64);
    rois.push_back(std::floor(r[2] * height * 8) / 8 + 1.0 / 64);
    rois.push_back(std::floor(r[3] * width * 8) / 8 + 0.25), rois.push_back(std::floor(r[2] * height * 8) / 8 + 0.25);
    rois.push_back(std::floor(r[4] * 256) - 100);
  }
  const Shape out(count, data[1], op.pooled_size[0], op.pooled_size[1]);
  pool(rows, op, op::BackwardRROIAlign{op.pooled_size, op.spatial_scale, op.sampling_ratio, data}, data, out,
       {constant(in({count, 6}, rois))});
}

// --- proposals

// Rows of score, left, top, and right and bottom plus 1.
template <class Op>
Host proposal_rows(const Op& op, const Hosts& in) {
  const Shape map = in[0].shape;
  const int64_t anchors = map[1] / 2;
  Host rows = zeros({map[0], map[2] * map[3] * anchors, 5});
  each({map[0], map[2], map[3], anchors}, [&](const Shape& p) {
    const double stride = op.feature_stride, ratio = op.ratios[int(p[3]) / op.scales.size()];
    const double scale = op.scales[int(p[3]) % op.scales.size()];
    const double across = std::floor(std::sqrt(std::floor(stride * stride / ratio)) + 0.5);
    const double size[2] = {across * scale, std::floor(across * ratio + 0.5) * scale};
    const auto info = [&](int k) { return in[2].at({p[0], k}); };
    double score = in[0].at({p[0], anchors + p[3], p[1], p[2]}), begin[2], end[2];
    const double least = double(op.rpn_min_size) * info(2);
    bool small = false;
    for (int a : {0, 1}) {
      const auto delta = [&](int k) { return in[1].at({p[0], p[3] * 4 + k, p[1], p[2]}); };
      const auto place = double(p[2 - a]), limit = info(1 - a);
      const double middle = (stride - 1) / 2 + place * stride;
      if (op.iou_loss) {
        begin[a] = middle - (size[a] - 1) / 2 + delta(a), end[a] = middle + (size[a] - 1) / 2 + delta(a + 2);
      } else {
        const double half = (std::exp(delta(a + 2)) * size[a] - 1) / 2, moved = middle + delta(a) * size[a];
        begin[a] = moved - half, end[a] = moved + half;
      }
      for (double* at : {&begin[a], &end[a]}) {
        if (*at > limit - 1) *at = limit - 1;
        if (*at < 0) *at = 0;
      }
      small = small || end[a] - begin[a] + 1 < least;
      if (place >= std::trunc(limit / stride)) score = -1;
    }
    for (int a : {0, 1}) {
      if (small) begin[a] -= least / 2, end[a] += least / 2;
    }
    const double row[] = {small ? -1 : score, begin[0], begin[1], end[0] + 1, end[1] + 1};
    for (int k = 0; k < 5; ++k) rows.at({p[0], (p[1] * map[3] + p[2]) * anchors + p[3], k}) = row[k];
  });
  return rows;
}

// The numbers of the rows that stay, as box_nms has it.
Host kept_rows(const Host& rows, double threshold, int top) {
  const int64_t count = rows.shape[1];
  Host kept = zeros({rows.shape[0], count}, -1);
  for (int64_t n = 0; n < rows.shape[0]; ++n) {
    const auto at = [&](int64_t i, int k) { return rows.at({n, i, k}); };
    std::vector<int64_t> order, stay;
    for (int64_t i = 0; i < count; ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return at(a, 0) > at(b, 0) || (std::isnan(at(a, 0)) < std::isnan(at(b, 0)));
    });
    std::erase_if(order, [&](int64_t i) { return !(at(i, 0) > -3e38); });
    if (top > 0 && int(order.size()) > top) order.resize(size_t(top));
    for (int64_t i : order) {
      const bool good = std::none_of(stay.begin(), stay.end(), [&](int64_t j) {
        double common = 1, areas[2] = {1, 1};
        for (int a : {1, 2}) {
          common *= std::max(0.0, std::min(at(i, a + 2), at(j, a + 2)) - std::max(at(i, a), at(j, a)));
          areas[0] *= std::max(0.0, at(i, a + 2) - at(i, a)), areas[1] *= std::max(0.0, at(j, a + 2) - at(j, a));
        }
        return common / (areas[0] + areas[1] - common) > threshold;
      });
      if (good) kept.at({n, int64_t(stay.size())}) = double(i), stay.push_back(i);
    }
  }
  return kept;
}

Hosts proposal_rois(const Host& rows, const Host& kept, int64_t count) {
  const int64_t images = rows.shape[0];
  Hosts y{zeros({images * count, 5}), zeros({images * count, 1})};
  each({images, count}, [&](const Shape& p) {
    int64_t some = 0;
    while (some < count && some < rows.shape[1] && kept.at({p[0], some}) >= 0) ++some;
    const int64_t to = p[0] * count + p[1];
    y[0].at({to, 0}) = double(p[0]);
    if (some == 0) return;
    const auto row = std::min(int64_t(kept.at({p[0], p[1] % some})), rows.shape[1] - 1);
    for (int k = 1; k < 5; ++k) y[0].at({to, k}) = rows.at({p[0], row, k}) - (k > 2 ? 1 : 0);
    y[1].at({to, 0}) = rows.at({p[0], row, 0});
  });
  return y;
}

std::vector<Input> maps(int64_t n, int64_t anchors, int64_t height, int64_t width, double stride, uint32_t seed) {
  const Shape scores(n, 2 * anchors, height, width), deltas(n, 4 * anchors, height, width);
  Numbers moves = fractions(deltas.size(), seed), sizes;
  for (double& v : moves) v = (v - 0.5) / 4;
  for (int64_t i = 0; i < n; ++i) {
    sizes.push_back(double(height) * stride - 2), sizes.push_back(double(width) * stride), sizes.push_back(1);
  }
  return {constant(in(scores, Fill::distinct)), constant(in(deltas, moves)), constant(in({n, 3}, sizes))};
}

template <class Op>
void proposals(Rows& rows, Op op, int64_t n, int64_t height, int64_t width, uint32_t seed) {
  const int64_t anchors = int64_t(op.scales.size()) * op.ratios.size();
  const std::vector<Input> inputs = maps(n, anchors, height, width, op.feature_stride, seed);
  // a threshold is passed, or not, by rounding: the dtypes of MXNet and float64
  const uint32_t tried = dtype_bit(DType::float32) | dtype_bit(DType::float64) | integers | dtype_bit(DType::boolean);
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        const Host all = proposal_rows(op, in);
        Hosts y = proposal_rois(all, kept_rows(all, op.threshold, op.rpn_pre_nms_top_n), op.rpn_post_nms_top_n);
        if (!op.output_score) y.pop_back();
        return y;
      },
      RowOptions{.tried = tried, .loosen = 8});
}

void proposal_parts(Rows& rows) {
  const auto before = [&](const op::ProposalRows& op, int64_t n, int64_t height, int64_t width, uint32_t seed) {
    const int64_t anchors = int64_t(op.scales.size()) * op.ratios.size();
    rows.emplace_back(
        op, maps(n, anchors, height, width, op.feature_stride, seed),
        [=](const Hosts& in) {
          Host y = proposal_rows(op, in);
          y.dtype = in[0].dtype == DType::float64 ? DType::float64 : DType::float32;
          return y;
        },
        RowOptions{.loosen = 32});
  };
  before({.rpn_min_size = 4, .scales = {1, 2}, .ratios = {0.5, 2}, .feature_stride = 4}, 2, 3, 2, 1);
  before({.rpn_min_size = 2, .scales = {2}, .ratios = {1}, .feature_stride = 8, .iou_loss = true}, 1, 2, 3, 2);
  before({.scales = {2}, .ratios = {1}}, 0, 2, 2, 3);
  const auto after = [&](int64_t n, int64_t k, int64_t count, const Numbers& kept) {
    rows.emplace_back(op::ProposalRois{.count = count},
                      std::vector{constant(in({n, k, 5})), index({n, k}, kept, DType::int64)},
                      [=](const Hosts& in) { return proposal_rois(in[0], in[1], count); });
  };
  after(2, 3, 4, {2, 0, -1, 1, -1, -1}), after(1, 2, 1, {-1, -1}), after(0, 2, 3, {}), after(1, 1, 2, {0});
}

}  // namespace

Rows pooled_region_rows() {
  Rows rows;
  position_sensitive(rows, {.spatial_scale = 1, .output_dim = 2, .pooled_size = 2}, {2, 8, 5, 6}, 6, 1);
  position_sensitive(rows, {.spatial_scale = 0.5f, .output_dim = 1, .pooled_size = 4, .group_size = 2}, {1, 4, 6, 5}, 3,
                     2);
  position_sensitive(rows, {.spatial_scale = 1, .output_dim = 1, .pooled_size = 1}, {1, 1, 1, 1}, 1, 3);
  position_sensitive(rows, {.spatial_scale = 1, .output_dim = 1, .pooled_size = 1}, {1, 1, 2, 2}, 0, 4);
  deformed(rows,
           {.spatial_scale = 1,
            .output_dim = 2,
            .group_size = 2,
            .pooled_size = 2,
            .sample_per_part = 2,
            .trans_std = 0.125f},
           {2, 8, 6, 5}, 6, 2, 5);
  deformed(rows,
           {.spatial_scale = 0.5f,
            .output_dim = 2,
            .group_size = 1,
            .pooled_size = 2,
            .part_size = 1,
            .sample_per_part = 3,
            .trans_std = 0.25f},
           {1, 2, 4, 4}, 2, 1, 6);
  deformed(rows, {.spatial_scale = 1, .output_dim = 1, .group_size = 1, .pooled_size = 2, .no_trans = true},
           {1, 1, 4, 3}, 2, 1, 7);
  deformed(rows, {.spatial_scale = 1, .output_dim = 1, .group_size = 1, .pooled_size = 1, .trans_std = 0.5f},
           {1, 1, 1, 1}, 1, 1, 8);
  deformed(rows, {.spatial_scale = 1, .output_dim = 1, .group_size = 1, .pooled_size = 1}, {1, 1, 2, 2}, 0, 1, 9);
  rotated(rows, {.pooled_size = {2, 3}, .spatial_scale = 1}, {2, 3, 6, 5}, 6, 10);
  rotated(rows, {.pooled_size = {3, 1}, .spatial_scale = 0.5f, .sampling_ratio = 2}, {1, 2, 4, 6}, 3, 11);
  rotated(rows, {.pooled_size = {1, 1}, .spatial_scale = 1, .sampling_ratio = 1}, {1, 1, 1, 1}, 1, 12);
  rotated(rows, {.pooled_size = {1, 2}, .spatial_scale = 1}, {1, 2, 3, 3}, 0, 13);
  rows.emplace_back(
      op::BackwardDeformablePSROIPoolingTrans{
          .spatial_scale = 1, .output_dim = 1, .group_size = 1, .pooled_size = 1, .no_trans = true},
      std::vector{in({1, 1, 1, 1}), in({1, 1, 2, 2}), in({1, 5})}, Reference(), RowOptions{.refused = true});
  proposals(rows,
            op::Proposal{.rpn_post_nms_top_n = 6,
                         .threshold = 0.3f,
                         .rpn_min_size = 4,
                         .scales = {1, 2},
                         .ratios = {0.5, 1},
                         .feature_stride = 4,
                         .output_score = true},
            2, 3, 3, 14);
  proposals(rows,
            op::MultiProposal{.rpn_pre_nms_top_n = 9,
                              .rpn_post_nms_top_n = 20,
                              .threshold = 0.5555f,
                              .rpn_min_size = 4,
                              .scales = {1, 2},
                              .ratios = {0.5, 1},
                              .feature_stride = 8,
                              .iou_loss = true},
            2, 2, 3, 15);
  proposals(
      rows,
      op::Proposal{.rpn_pre_nms_top_n = 5, .rpn_post_nms_top_n = 3, .scales = {2}, .ratios = {1}, .iou_loss = true}, 1,
      2, 2, 16);
  proposals(rows, op::MultiProposal{.rpn_post_nms_top_n = 3, .scales = {2}, .ratios = {1}, .output_score = true}, 1, 2,
            2, 17);
  proposals(rows, op::Proposal{.rpn_post_nms_top_n = 3, .scales = {2}, .ratios = {1}}, 0, 2, 2, 18);
  proposals(rows, op::MultiProposal{.rpn_post_nms_top_n = 3, .scales = {2}, .ratios = {1}}, 0, 2, 2, 19);
  proposal_parts(rows);
  return rows;
}

}  // namespace kaon::test
