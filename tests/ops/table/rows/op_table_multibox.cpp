// Rows of the test table: detectors of many anchors (MultiBox).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kaon/tests/ops/table/detection_inputs.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

double iou(const double* a, const double* b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]), h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double common = std::max(w, 0.0) * std::max(h, 0.0);
  return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common);
}

void prior(Rows& rows, const op::MultiBoxPrior& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data)},
      [=](const Hosts&) {
        const double h = double(data[2]), w = double(data[3]);
        const double step_y = op.steps[0] > 0 ? op.steps[0] : 1 / h, step_x = op.steps[1] > 0 ? op.steps[1] : 1 / w;
        Numbers all;
        for (int64_t y = 0; y < data[2]; ++y) {
          for (int64_t x = 0; x < data[3]; ++x) {
            const double cx = (double(x) + op.offsets[1]) * step_x, cy = (double(y) + op.offsets[0]) * step_y;
            const auto add = [&](double size, double ratio) {
              const double half_w = size * h / w * std::sqrt(ratio) / 2, half_h = size / std::sqrt(ratio) / 2;
              for (double v : {cx - half_w, cy - half_h, cx + half_w, cy + half_h}) {
                all.push_back(op.clip ? std::clamp(v, 0.0, 1.0) : v);
              }
            };
            for (int i = 0; i < op.sizes.size(); ++i) add(op.sizes[i], op.ratios[0]);
            for (int i = 1; i < op.ratios.size(); ++i) add(op.sizes[0], op.ratios[i]);
          }
        }
        return Host{.shape = {1, int64_t(all.size()) / 4, 4}, .values = all};
      },
      RowOptions{.loosen = 4, .differentiate = false});
}

struct DetectorInputs {
  int64_t samples, classes, n;
  std::vector<Input> inputs;
  DetectorInputs(int64_t samples, int64_t classes, int64_t n, uint32_t seed)
      : samples(samples), classes(classes), n(n) {
    Numbers probability(size_t(samples * classes * n)), location = fractions(samples * n * 4, seed + 1);
    std::vector<int> order(probability.size());  // no two are equal
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    for (size_t i = 0; i < order.size(); ++i) probability[i] = double(order[i]) / 256;
    for (double& v : location) v -= 0.5;
    inputs = {in({samples, classes, n}, probability), in({samples, n * 4}, location),
              in({1, n, 4}, boxes(n, seed + 2))};
  }
};

template <class Op>
Numbers detection(const Op& op, const Hosts& in, int64_t sample, int64_t i) {
  const int64_t classes = in[0].shape[1];
  int64_t best = 0;
  double score = -1;
  for (int64_t k = 1; k < classes; ++k) {
    const double p = in[0].at({sample, k, i});
    if (p > score) score = p, best = k;
  }
  if (best == 0 || score < op.threshold) return Numbers(6, -1);
  Numbers row{double(best - 1), score, 0, 0, 0, 0};
  for (int axis : {0, 1}) {
    const double begin = in[2].at({0, i, axis}), end = in[2].at({0, i, axis + 2}), size = end - begin;
    const double at = in[1].at({sample, i * 4 + axis}) * op.variances[axis] * size + (begin + end) / 2;
    const double half = std::exp(in[1].at({sample, i * 4 + axis + 2}) * op.variances[axis + 2]) * size / 2;
    row[size_t(2 + axis)] = at - half, row[size_t(4 + axis)] = at + half;
  }
  for (size_t k = 2; k < 6 && op.clip; ++k) row[k] = std::clamp(row[k], 0.0, 1.0);
  return row;
}

void unsuppressed(Rows& rows, const op::MultiBoxRows& op, const DetectorInputs& d) {
  rows.emplace_back(
      op, d.inputs,
      [=](const Hosts& in) {
        return generate({d.samples, d.n, 6},
                        [&](const Shape& p) { return detection(op, in, p[0], p[1])[size_t(p[2])]; });
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

void detector(Rows& rows, const op::MultiBoxDetection& op, const DetectorInputs& d) {
  rows.emplace_back(
      op, d.inputs,
      [=](const Hosts& in) {
        Host out = zeros({d.samples, d.n, 6}, -1);
        for (int64_t b = 0; b < d.samples; ++b) {
          std::vector<Numbers> found;
          for (int64_t i = 0; i < d.n; ++i) {
            const Numbers row = detection(op, in, b, i);
            if (row[0] >= 0) found.push_back(row);
          }
          if (op.nms_threshold > 0 && op.nms_threshold <= 1) {
            std::vector<Numbers> sorted = found;
            std::stable_sort(sorted.begin(), sorted.end(),
                             [](const Numbers& x, const Numbers& y) { return x[1] > y[1]; });
            const size_t most = op.nms_topk > 0 ? size_t(op.nms_topk) : found.size();
            for (size_t i = 0; i < found.size(); ++i) {
              if (i >= most) {
                found[i][0] = -1;
                continue;
              }
              found[i] = sorted[i];
              for (size_t j = 0; j < i; ++j) {
                if (found[j][0] < 0 || (!op.force_suppress && sorted[i][0] != found[j][0])) continue;
                if (iou(&found[j][2], &sorted[i][2]) >= op.nms_threshold) found[i][0] = -1;
              }
            }
          }
          for (size_t i = 0; i < found.size(); ++i) {
            for (size_t k = 0; k < 6; ++k) out.at({b, int64_t(i), int64_t(k)}) = found[i][k];
          }
        }
        return out;
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

// Labels are boxes near to some of the anchors; the last ones are missing.
void target(Rows& rows, const op::MultiBoxTarget& op, int64_t samples, int64_t n, int64_t labels, int64_t width,
            uint32_t seed, bool empty = false) {
  constexpr int64_t classes = 3;
  const Numbers anchors = boxes(n, seed), moves = fractions(samples * labels * width, seed + 1);
  Numbers label(moves.size(), -1), prediction(size_t(samples * classes * n));
  std::iota(prediction.begin(), prediction.end(), 0);
  std::shuffle(prediction.begin(), prediction.end(), std::mt19937(seed));
  for (double& v : prediction) v /= 32;
  for (int64_t i = 0; i < samples * labels; ++i) {
    if (n == 0 || i % labels >= std::max<int64_t>(labels - i / labels, 1) || empty) continue;
    double* const row = &label[size_t(i * width)];
    row[0] = double(i % 2);
    for (int64_t k = 1; k < width; ++k) {
      row[k] = anchors[size_t((i * 5 % n) * 4 + (k - 1) % 4)] + std::round(moves[size_t(i * width + k)] * 8 - 4) / 64;
    }
    row[3] = std::max(row[3], row[1] + 3.0 / 64), row[4] = std::max(row[4], row[2] + 3.0 / 64);
  }
  rows.emplace_back(
      op,
      std::vector{in({1, n, 4}, anchors), in({samples, labels, width}, label), in({samples, classes, n}, prediction)},
      [=](const Hosts& in) {
        Host loc = zeros({samples, n * 4}), mask = loc, cls = zeros({samples, n}, op.ignore_label);
        for (int64_t b = 0; b < samples; ++b) {
          const auto label_at = [&](int64_t l) { return &in[1].values[size_t((b * labels + l) * width)]; };
          const auto overlap = [&](int64_t a, int64_t l) { return iou(&in[0].values[size_t(a * 4)], label_at(l) + 1); };
          int64_t valid = 0;
          while (valid < labels && label_at(valid)[0] != -1) ++valid;
          if (valid == 0) continue;
          std::vector<int64_t> best(size_t(n), -1);
          std::vector<bool> taken(static_cast<size_t>(valid));
          for (int64_t round = 0; round < valid; ++round) {
            double most = 1e-6;
            int64_t anchor = -1, which = -1;
            for (int64_t a = 0; a < n; ++a) {
              for (int64_t l = 0; l < valid && best[size_t(a)] < 0; ++l) {
                if (!taken[size_t(l)] && overlap(a, l) > most) most = overlap(a, l), anchor = a, which = l;
              }
            }
            if (anchor >= 0) best[size_t(anchor)] = which, taken[size_t(which)] = true;
          }
          std::vector<std::pair<double, int64_t>> negatives;
          for (int64_t a = 0; a < n; ++a) {
            if (best[size_t(a)] >= 0) continue;
            double most = -1;
            int64_t which = 0;
            for (int64_t l = 0; l < valid; ++l) {
              if (overlap(a, l) > most) most = overlap(a, l), which = l;
            }
            if (op.overlap_threshold > 0 && most > op.overlap_threshold) {
              best[size_t(a)] = which;
            } else if (op.negative_mining_ratio <= 0 || most < op.negative_mining_thresh) {
              double sum = 0;
              for (int64_t k = 0; k < classes; ++k) sum += std::exp(in[2].at({b, k, a}));
              negatives.emplace_back(std::exp(in[2].at({b, 0, a})) / sum, a);
            }
          }
          const auto positives = n - std::count(best.begin(), best.end(), int64_t(-1));
          std::sort(negatives.begin(), negatives.end());
          if (op.negative_mining_ratio > 0) {
            negatives.resize(std::min(negatives.size(), size_t(double(positives) * op.negative_mining_ratio)));
          }
          for (const auto& one : negatives) cls.at({b, one.second}) = 0;
          for (int64_t a = 0; a < n; ++a) {
            if (best[size_t(a)] < 0) continue;
            const double* const own = label_at(best[size_t(a)]);
            cls.at({b, a}) = own[0] + 1;
            for (int axis : {0, 1}) {
              const double begin = in[0].at({0, a, axis}), end = in[0].at({0, a, axis + 2}), size = end - begin;
              const double from = own[axis + 1], to = own[axis + 3];
              loc.at({b, a * 4 + axis}) = ((from + to) / 2 - (begin + end) / 2) / size / op.variances[axis];
              loc.at({b, a * 4 + axis + 2}) = std::log((to - from) / size) / op.variances[axis + 2];
            }
            for (int k = 0; k < 4; ++k) mask.at({b, a * 4 + k}) = 1;
          }
        }
        return Hosts{loc, mask, cls};
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

}  // namespace

Rows multibox_rows() {
  Rows rows;
  prior(rows, {}, {2, 3, 4, 5});
  prior(rows, {.sizes = {0.5, 0.25}, .ratios = {1, 4, 0.5}}, {1, 1, 3, 1});
  prior(rows, {.sizes = {0.75}, .ratios = {2, 1}, .clip = true, .steps = {0.25, 0.375}, .offsets = {0.25, 0.75}},
        {1, 2, 3, 4});
  prior(rows, {}, {1, 2, 0, 4});
  prior(rows, {}, {0, 2, 3, 4});
  unsuppressed(rows, {}, {2, 3, 7, 1});
  unsuppressed(rows, {.clip = false, .threshold = 0.25f, .variances = {1, 0.5, 0.25, 2}}, {1, 4, 9, 2});
  unsuppressed(rows, {}, {2, 3, 0, 3});
  detector(rows, {}, {2, 3, 17, 1});
  detector(rows,
           {.clip = false, .threshold = 0.25f, .background_id = 1, .nms_threshold = 0.25f, .force_suppress = true},
           {1, 4, 21, 2});
  detector(rows, {.variances = {1, 0.5, 0.25, 2}, .nms_topk = 5}, {2, 3, 19, 3});
  detector(rows, {.nms_threshold = 0}, {2, 3, 9, 4});
  detector(rows, {.nms_threshold = 1.5f, .nms_topk = 3}, {1, 3, 9, 5});
  detector(rows, {}, {0, 3, 5, 6});
  detector(rows, {}, {1, 1, 1, 7});
  target(rows, {}, 2, 23, 3, 5, 1);
  target(rows, {.overlap_threshold = 0.25f, .variances = {1, 0.5, 0.25, 2}}, 3, 17, 4, 6, 2);
  target(rows, {.overlap_threshold = -1}, 2, 9, 3, 5, 3);
  target(rows, {.ignore_label = -2, .negative_mining_ratio = 1.5f}, 2, 23, 3, 5, 4);
  target(rows, {.negative_mining_ratio = 3, .negative_mining_thresh = 0.25f, .minimum_negative_samples = 2}, 1, 31, 2,
         5, 5);
  target(rows, {.overlap_threshold = -1, .negative_mining_ratio = 1, .negative_mining_thresh = 0.125f}, 1, 31, 2, 5, 6);
  target(rows, {}, 2, 5, 2, 5, 7, true);
  target(rows, {}, 0, 5, 2, 5, 8);
  target(rows, {}, 2, 5, 0, 5, 9);
  target(rows, {.negative_mining_ratio = 2}, 2, 0, 2, 5, 10);
  return rows;
}

}  // namespace kaon::test
