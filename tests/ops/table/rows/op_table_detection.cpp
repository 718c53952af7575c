// Rows of the test table: boxes, anchors and regions of images.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kaon/tests/ops/table/detection_inputs.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

struct Corners {
  double left, top, right, bottom, width, height;
  Corners(const double* b, BoxFormat format)
      : left(b[0]), top(b[1]), right(b[2]), bottom(b[3]), width(right - left), height(bottom - top) {
    if (format == BoxFormat::corner) return;
    width = b[2], height = b[3];
    left = b[0] - width / 2, top = b[1] - height / 2, right = b[0] + width / 2, bottom = b[1] + height / 2;
  }
  double area() const { return width < 0 || height < 0 ? 0 : width * height; }
};

// Of a NaN and a number the second counts, as in MXNet.
double common_part(double a, double b, double begin, double end) {
  return std::max(0.0, (b < end ? b : end) - (a > begin ? a : begin));
}

// Whether a suppresses b. Without an area they do not overlap, but 0 / 0 is above no threshold.
bool suppresses(const Corners& a, const Corners& b, double threshold, bool multibox) {
  const double common = common_part(a.left, a.right, b.left, b.right) * common_part(a.top, a.bottom, b.top, b.bottom);
  const double all = a.area() + b.area() - common;
  return multibox ? (all <= 0 ? 0 : common / all) >= threshold : common / all > threshold;
}

double iou(const Corners& a, const Corners& b) {
  const double common = common_part(a.left, a.right, b.left, b.right) * common_part(a.top, a.bottom, b.top, b.bottom);
  return common > 0 ? common / (a.area() + b.area() - common) : 0;
}

Shape batched(const Shape& batch, int64_t n, int64_t k) {
  Shape s = batch;
  s.push_back(n), s.push_back(k);
  return s;
}

// --- box_nms and its parts

// Rows of k numbers: class, score, box where op says, and the number of the row in the rest. No two scores are equal.
template <class Op>
Numbers detections(const Op& op, int64_t samples, int64_t n, int64_t k, uint32_t seed) {
  Numbers out(size_t(samples * n * k));
  std::mt19937 bits(seed);
  const Numbers all = boxes(samples * n, seed, op.in_format);
  for (int64_t b = 0; b < samples; ++b) {
    std::vector<int> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), bits);
    for (int64_t i = 0; i < n; ++i) {
      double* const row = &out[size_t((b * n + i) * k)];
      std::fill_n(row, k, double(i % 7));
      row[op.score_index] = double(order[size_t(i)] + 1) / 64;
      if (op.id_index >= 0) row[op.id_index] = double(bits() % 3);
      std::copy_n(&all[size_t(4 * (b * n + i))], 4, row + op.coord_start);
    }
  }
  return out;
}

// The rows of one sample that stay, in the order of `order`, with their places in it.
template <class Op>
std::vector<std::pair<int64_t, int64_t>> kept_rows(const Op& op, const double* data, int64_t k, bool multibox,
                                                   const std::vector<int64_t>& order) {
  std::vector<std::pair<int64_t, int64_t>> candidates, kept;
  for (size_t place = 0; place < order.size(); ++place) {
    const double* const row = data + order[place] * k;
    if (multibox ? row[op.id_index] < 0 : !(row[op.score_index] > op.valid_thresh)) continue;
    if (!multibox && op.id_index >= 0 && row[op.id_index] == op.background_id) continue;
    if (op.topk >= 0 && int64_t(candidates.size()) >= op.topk) break;
    candidates.emplace_back(order[place], int64_t(place));
  }
  for (const auto& one : candidates) {
    const double* const row = data + one.first * k;
    const bool stays = std::none_of(kept.begin(), kept.end(), [&](const auto& other) {
      const double* const before = data + other.first * k;
      if (op.id_index >= 0 && !op.force_suppress && before[op.id_index] != row[op.id_index]) return false;
      return suppresses(Corners(before + op.coord_start, op.in_format), Corners(row + op.coord_start, op.in_format),
                        op.overlap_thresh, multibox);
    });
    if (stays) kept.push_back(one);
  }
  return kept;
}

std::vector<int64_t> by_score(const double* data, int64_t n, int64_t k, int score) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int64_t i) {  // NaN is the largest
    const double s = data[i * k + score];
    return std::isnan(s) ? std::numeric_limits<double>::infinity() : s;
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) > key(b); });
  return order;
}

void convert(double* box, BoxFormat from, BoxFormat to) {
  if (from == to) return;
  const Numbers b(box, box + 4);
  for (size_t axis : {0, 1}) {
    const double first = b[axis], second = b[axis + 2];
    box[axis] = to == BoxFormat::center ? (first + second) / 2 : first - second / 2;
    box[axis + 2] = to == BoxFormat::center ? second - first : first + second / 2;
  }
}

void nms(Rows& rows, const op::BoxNms& op, const Shape& batch, int64_t n, int64_t k, uint32_t seed = 1) {
  const Shape shape = batched(batch, n, k);
  const int64_t samples = batch.size();
  rows.emplace_back(
      op, std::vector{in(shape, detections(op, samples, n, k, seed))},
      [=](const Hosts& in) {
        Host out = in[0], numbers = zeros(batched(batch, n, 1), -1);
        numbers.dtype = DType::int64;
        out.dtype.reset();
        for (int64_t b = 0; b < samples && op.topk != 0; ++b) {
          const double* const data = in[0].values.data() + b * n * k;
          double* const to = out.values.data() + b * n * k;
          std::fill_n(to, n * k, -1.0);
          int64_t at = 0;
          for (const auto& [row, place] : kept_rows(op, data, k, false, by_score(data, n, k, op.score_index))) {
            std::copy_n(data + row * k, k, to + at * k);
            convert(to + at * k + op.coord_start, op.in_format, op.out_format);
            numbers.values[size_t(b * n + at++)] = double(row);
          }
        }
        return Hosts{out, numbers};
      },
      RowOptions{.differentiate = op.in_format == op.out_format});
}

void suppress(Rows& rows, const op::BoxSuppress& op, int64_t samples, int64_t n, int64_t k, uint32_t seed) {
  Numbers data = detections(op, samples, n, k, seed), order;
  const bool multibox = op.kind == SuppressKind::multibox;
  for (int64_t i = 0; multibox && i < samples * n; i += 3) data[size_t(i * k + op.id_index)] = -1;
  for (int64_t b = 0; b < samples; ++b) {
    for (int64_t i : by_score(data.data() + b * n * k, n, k, op.score_index)) order.push_back(double(i));
  }
  rows.emplace_back(
      op, std::vector{in({samples, n, k}, data), index({samples, n}, order, DType::int64)},
      [=](const Hosts& in) {
        Host out = zeros({samples, n}, -1);
        out.dtype = DType::int64;
        for (int64_t b = 0; b < samples; ++b) {
          std::vector<int64_t> own;
          for (int64_t i = 0; i < n; ++i) own.push_back(int64_t(in[1].at({b, i})));
          int64_t at = 0;
          for (const auto& [row, place] : kept_rows(op, in[0].values.data() + b * n * k, k, multibox, own)) {
            out.values[size_t(b * n + (multibox ? place : at++))] = double(row);
          }
        }
        return out;
      },
      RowOptions{.differentiate = false});
}

void take(Rows& rows, const op::BoxTake& op, const Shape& data, const Shape& taken, const Numbers& which) {
  rows.emplace_back(
      op, std::vector{in(data), index(taken, which, DType::int64)},
      [=](const Hosts& in) {
        return generate({data[0], taken[1], data[2]}, [&](const Shape& p) {
          const auto row = int64_t(in[1].at({p[0], p[1]}));
          if (row < 0) return -1.0;
          Numbers numbers;
          for (int64_t k = 0; k < data[2]; ++k) numbers.push_back(in[0].at({p[0], row, k}));
          convert(numbers.data() + op.coord_start, op.in_format, op.out_format);
          return numbers[size_t(p[2])];
        });
      },
      RowOptions{.differentiate = op.in_format == op.out_format});
  if (op.in_format != op.out_format) return;
  rows.emplace_back(
      op::BackwardBoxTake{.count = data[1]},
      std::vector{constant(in({data[0], taken[1], data[2]})), index(taken, which, DType::int64)},
      [=](const Hosts& in) {
        Host out = zeros(data);
        each(in[0].shape, [&](const Shape& p) {
          const auto row = int64_t(in[1].at({p[0], p[1]}));
          if (row >= 0) out.at({p[0], row, p[2]}) = in[0].at(p);
        });
        return out;
      },
      RowOptions{.differentiate = false});
}

// --- boxes against boxes

void overlaps(Rows& rows, const op::BoxIou& op, const Shape& lhs, const Shape& rhs) {
  const auto count = [](const Shape& s) { return s.size() / 4; };
  rows.emplace_back(
      op, std::vector{in(lhs, boxes(count(lhs), 1, op.format)), in(rhs, boxes(count(rhs), 2, op.format))},
      [=](const Hosts& in) {
        Shape shape;
        for (const Shape& s : {lhs, rhs}) {
          for (int i = 0; i + 1 < s.ndim(); ++i) shape.push_back(s[i]);
        }
        Host out = zeros(shape);
        for (size_t i = 0; i < out.values.size(); ++i) {
          out.values[i] = iou(Corners(&in[0].values[i / size_t(count(rhs)) * 4], op.format),
                              Corners(&in[1].values[i % size_t(count(rhs)) * 4], op.format));
        }
        return out;
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

void decode(Rows& rows, const op::BoxDecode& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data), in({1, data[1], 4}, boxes(data[1], 3, op.format))},
      [=](const Hosts& in) {
        return generate(data, [&](const Shape& p) {
          const int axis = int(p[2] % 2);
          const double first = in[1].at({0, p[1], axis}), second = in[1].at({0, p[1], axis + 2});
          const double size = op.format == BoxFormat::center ? second : second - first;
          const double middle = op.format == BoxFormat::center ? first : first + size / 2;
          const double at = in[0].at({p[0], p[1], axis}) * (axis == 0 ? op.std0 : op.std1) * size + middle;
          double exponent = in[0].at({p[0], p[1], axis + 2}) * (axis == 0 ? op.std2 : op.std3);
          if (op.clip > 0) exponent = std::min(exponent, double(op.clip));
          return at + (p[2] < 2 ? -0.5 : 0.5) * std::exp(exponent) * size;
        });
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

void encode(Rows& rows, int64_t samples, int64_t anchors, int64_t refs) {
  const int64_t n = samples * anchors;
  Numbers is_sample = fractions(n, 4), match = fractions(n, 5);
  for (double& v : match) v = std::floor(v * double(refs + 1));  // some are past the last
  for (size_t i = 0; i < is_sample.size(); i += 3) is_sample[i] = -1;
  rows.emplace_back(
      op::BoxEncode{},
      std::vector{in({samples, anchors}, is_sample), in({samples, anchors}, match),
                  in({samples, anchors, 4}, boxes(n, 6)), in({samples, refs, 4}, boxes(samples * refs, 7)),
                  in({4}, {0, 0.125, -0.25, 0.5}), in({4}, {0.5, 0.25, 1, 2})},
      [=](const Hosts& in) {
        Host targets = zeros({samples, anchors, 4}), masks = targets;
        each(targets.shape, [&](const Shape& p) {
          if (!(in[0].at({p[0], p[1]}) > 0.5)) return;
          const double match = in[1].at({p[0], p[1]});
          const auto ref = match > 0 ? int64_t(std::min(match, double(refs - 1))) : 0;
          const int axis = int(p[2] % 2);
          const double begin = in[2].at({p[0], p[1], axis}), size = in[2].at({p[0], p[1], axis + 2}) - begin;
          const double other = in[3].at({p[0], ref, axis}), length = in[3].at({p[0], ref, axis + 2}) - other;
          const double value = p[2] < 2 ? (other + length / 2 - begin - size / 2) / size : std::log(length / size);
          targets.at(p) = (value - in[4].at(Shape(p[2]))) / in[5].at(Shape(p[2]));
          masks.at(p) = 1;
        });
        return Hosts{targets, masks};
      },
      RowOptions{.loosen = 8, .differentiate = false});
}

// --- bipartite matching

// `order`: of the scores of all samples, one after the other.
template <class Op>
Hosts paired(const Op& op, const Host& data, const Numbers& order) {
  const int d = data.shape.ndim();
  const int64_t r = data.shape[d - 2], c = data.shape[d - 1], samples = data.shape.product(0, d - 2);
  Shape rows, columns;
  for (int i = 0; i + 2 < d; ++i) rows.push_back(data.shape[i]), columns.push_back(data.shape[i]);
  rows.push_back(r), columns.push_back(c);
  Host by_row = zeros(rows, -1), by_column = zeros(columns, -1);
  for (int64_t b = 0; b < samples; ++b) {
    int64_t pairs = 0;
    for (int64_t j = 0; j < r * c && (op.topk <= 0 || pairs <= op.topk); ++j) {
      const auto at = int64_t(order[size_t(b * r * c + j)]);
      const double score = data[size_t(b * r * c + at)];
      double &row = by_row.values[size_t(b * r + at / c)], &column = by_column.values[size_t(b * c + at % c)];
      if (std::isnan(score) || row >= 0 || column >= 0) continue;
      if (op.is_ascend ? score >= op.threshold : score <= op.threshold) break;
      row = double(at % c), column = double(at / c), ++pairs;
    }
  }
  return {by_row, by_column};
}

Numbers order_of(const Numbers& scores, int64_t samples, int64_t n, bool is_ascend) {
  Numbers order;
  for (int64_t b = 0; b < samples; ++b) {
    Numbers own(scores.begin() + b * n, scores.begin() + (b + 1) * n);
    if (is_ascend) std::transform(own.begin(), own.end(), own.begin(), std::negate<>());
    for (int64_t i : by_score(own.data(), n, 1, 0)) order.push_back(double(i));
  }
  return order;
}

void match(Rows& rows, const op::BipartiteMatching& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data, Fill::distinct)},
      [=](const Hosts& in) {
        const int64_t samples = data.product(0, data.ndim() - 2), n = data.product(data.ndim() - 2, data.ndim());
        return paired(op, in[0], order_of(in[0].values, samples, n, op.is_ascend));
      },
      RowOptions{.differentiate = false});
}

void pairs(Rows& rows, const op::BipartitePairs& op, const Shape& data) {
  const int64_t n = data[1] * data[2];
  const Numbers scores = fractions(data.size(), 8), order = order_of(scores, data[0], n, op.is_ascend);
  rows.emplace_back(
      op, std::vector{in(data, scores), index({data[0], n}, order, DType::int64)},
      [=](const Hosts& in) { return paired(op, in[0], in[1].values); }, RowOptions{.differentiate = false});
}

}  // namespace

Rows detection_rows() {
  Rows rows;
  nms(rows, {}, {2}, 9, 6);
  nms(rows, {.id_index = 0}, {3}, 12, 6, 2);
  nms(rows, {.overlap_thresh = 0.25f, .valid_thresh = 0.05f, .topk = 5}, {2, 2}, 11, 7, 3);
  nms(rows, {.id_index = 0, .background_id = 1}, {1}, 15, 6, 4);
  nms(rows, {.overlap_thresh = 0.125f, .id_index = 6, .force_suppress = true}, Shape(), 13, 7, 5);
  nms(rows, {.coord_start = 0, .score_index = 4, .in_format = BoxFormat::center}, {2}, 9, 5, 6);
  nms(rows, {.out_format = BoxFormat::center}, {1}, 9, 6, 7);
  nms(rows, {.in_format = BoxFormat::center, .out_format = BoxFormat::center}, {1}, 9, 6, 8);
  nms(rows, {.topk = 0}, {2}, 3, 6);
  nms(rows, {.valid_thresh = 50}, {2}, 5, 6);
  nms(rows, {.overlap_thresh = -1}, {2}, 5, 6);
  nms(rows, {}, {1}, 1, 6);
  nms(rows, {}, {0}, 4, 6);
  nms(rows, {}, {2}, 0, 6);
  suppress(rows, {}, 2, 9, 6, 11);
  suppress(rows, {.overlap_thresh = 0.25f, .valid_thresh = 0.05f, .topk = 6}, 1, 301, 6, 12);
  suppress(rows, {.id_index = 6, .background_id = 2, .force_suppress = true}, 3, 17, 7, 13);
  suppress(rows, {.coord_start = 0, .score_index = 4, .in_format = BoxFormat::center}, 2, 33, 5, 14);
  suppress(rows, {.kind = SuppressKind::multibox, .topk = 7, .id_index = 0}, 2, 21, 6, 15);
  suppress(rows, {}, 0, 3, 6, 16);
  suppress(rows, {}, 2, 0, 6, 17);
  take(rows, {}, {2, 5, 4}, {2, 3}, {4, -1, 0, 1, 3, 2});
  take(rows, {}, {1, 3, 7}, {1, 4}, {2, 0, -1, -1});
  take(rows, {}, {0, 3, 7}, {0, 4}, {});
  take(rows, {.coord_start = 2, .in_format = BoxFormat::center, .out_format = BoxFormat::corner}, {1, 3, 7}, {1, 2},
       {2, 0});
  take(rows, {.coord_start = 1, .in_format = BoxFormat::corner, .out_format = BoxFormat::center}, {1, 3, 5}, {1, 2},
       {-1, 1});
  for (BoxFormat format : {BoxFormat::corner, BoxFormat::center}) {
    overlaps(rows, {.format = format}, {5, 4}, {7, 4});
    overlaps(rows, {.format = format}, {2, 3, 4}, {1, 4});
    decode(rows, {.format = format}, {2, 5, 4});
    decode(rows, {.std0 = 0.5f, .std1 = 0.25f, .std2 = 2, .std3 = 1.5f, .clip = 0.5f, .format = format}, {1, 3, 4});
  }
  overlaps(rows, {}, {0, 4}, {3, 4});
  overlaps(rows, {}, {1, 4}, {2, 0, 4});
  decode(rows, {}, {0, 3, 4});
  decode(rows, {}, {2, 0, 4});
  encode(rows, 2, 7, 3);
  encode(rows, 1, 1, 1);
  encode(rows, 0, 3, 2);
  encode(rows, 2, 5, 9);
  match(rows, {.threshold = -100}, {3, 4});
  match(rows, {.threshold = 0.5f}, {2, 5, 3});
  match(rows, {.is_ascend = true, .threshold = 1}, {1, 2, 4, 4});
  match(rows, {.threshold = -100, .topk = 1}, {5, 7});
  match(rows, {.threshold = 1}, {0, 3, 4});
  match(rows, {.threshold = 1}, {2, 0, 4});
  for (bool is_ascend : {false, true}) {
    pairs(rows, {.is_ascend = is_ascend, .threshold = 0.5f}, {2, 5, 3});
    pairs(rows, {.is_ascend = is_ascend, .threshold = is_ascend ? 2.0f : -2.0f, .topk = 2}, {1, 7, 6});
  }
  pairs(rows, {.threshold = 0.5f}, {0, 5, 3});
  return rows;
}

}  // namespace kaon::test
