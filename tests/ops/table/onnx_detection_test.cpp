// Object detection as ONNX models, on random inputs with what the test table leaves out: equal scores, boxes that are
// flipped, have no size or are not numbers. With a folder in KAON_ONNX_CASES more of them are written there, for
// check_rows.py.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "kaon/interchange/onnx.h"
#include "kaon/tests/ops/table/onnx_rows.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace onnx_detection_rows_test {

using namespace kaon;
using namespace kaon::test;
using ops::SuppressKind;

namespace {

using Values = std::vector<double>;

struct Random {
  std::mt19937 bits;
  explicit Random(uint32_t seed) : bits(seed) {}
  int below(int n) { return int(bits() % uint32_t(n)); }
  bool often(int in = 2) { return below(in) == 0; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(int(values.size()))];
  }
  double real() { return double(bits() % 4096) / 4096; }
};

template <class F>
OnnxCase made(const std::string& name, uint32_t seed, std::vector<NDArray> inputs, double tolerance, F&& f) {
  OnnxCase c{.operator_name = name, .title = fmt::format("{} number {}", name, seed)};
  std::vector<Symbol> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    c.names.push_back(fmt::format("x{}", i));
    variables.push_back(Symbol::variable(c.names.back(), inputs[i].shape(), inputs[i].dtype()));
  }
  c.program = Symbol::group(f(sym, variables));
  c.outputs = f(nd, inputs);
  c.inputs = std::move(inputs);
  c.tolerance = tolerance;
  return c;
}

// Boxes on a grid, so that some overlap exactly by a threshold, some are flipped and some have no size.
Values detections(Random& r, int64_t rows, int width, int box, int score, int id, BoxFormat format) {
  Values data(size_t(rows * width), 7);
  constexpr double inf = std::numeric_limits<double>::infinity();
  const bool has_special = r.often();
  for (int64_t i = 0; i < rows; ++i) {
    double* const row = &data[size_t(i * width)];
    const auto special = [&](double otherwise) {
      return has_special && r.often(25) ? r.pick<double>({double(NAN), inf, -inf, 0}) : otherwise;
    };
    for (int k = 0; k < 4; ++k) row[box + k] = special(r.below(12) / 8.0);
    if (format == BoxFormat::corner && !r.often(6)) {
      for (int k : {2, 3}) row[box + k] += row[box + k - 2];
    }
    row[score] = special(r.below(9) / 8.0);
    if (id >= 0) row[id] = special(r.pick({-1.0, 0.0, 0.0, 1.0, 2.0, 0.5}));
  }
  return data;
}

struct Columns {
  int width, box, score, id;
};

Columns columns(Random& r) { return r.often() ? Columns{6, 2, 1, 0} : Columns{7, 1, 0, r.pick({-1, 5, 6})}; }

float threshold(Random& r) { return r.pick({0.0f, 0.125f, 0.25f, 0.5f, 0.5f, 0.7f, 1.0f, -1.0f, 1.5f}); }

OnnxCase nms_case(uint32_t seed) {
  Random r(seed);
  const Columns c = columns(r);
  const DType t = r.pick({DType::float32, DType::float32, DType::float64, DType::float16});
  const BoxFormat out = r.pick({BoxFormat::corner, BoxFormat::center});
  const op::BoxNms op{.overlap_thresh = threshold(r),
                      .valid_thresh = r.pick({0.0f, 0.25f, -1.0f}),
                      .topk = r.pick({-1, -1, 1, 5, 100}),
                      .coord_start = c.box,
                      .score_index = c.score,
                      .id_index = c.id,
                      .background_id = r.pick({-1, 0, 1}),
                      .force_suppress = r.often(),
                      .in_format = r.pick({BoxFormat::corner, BoxFormat::corner, BoxFormat::center}),
                      .out_format = out};
  const int64_t samples = 1 + r.below(3), n = 1 + r.below(24);
  const Values data = detections(r, samples * n, c.width, c.box, c.score, c.id, op.in_format);
  return made("_contrib_box_nms", seed, {nd.array(data, {samples, n, c.width}, {.dtype = t})}, 0,
              [&](auto& F, const auto& x) { return std::vector{F.box_nms(x[0], op)}; });
}

// The order need not be that of scores, and has numbers of rows that are not there.
OnnxCase suppress_case(uint32_t seed) {
  Random r(seed);
  Columns c = columns(r);
  if (c.id < 0) c.id = 5;
  const op::BoxSuppress op{.kind = r.pick({SuppressKind::box, SuppressKind::multibox}),
                           .overlap_thresh = threshold(r),
                           .valid_thresh = 0.25f,
                           .topk = r.pick({-1, 0, 1, 5, 100}),
                           .coord_start = c.box,
                           .score_index = c.score,
                           .id_index = c.id,
                           .background_id = r.pick({-1, 0}),
                           .force_suppress = r.often(),
                           .in_format = r.pick({BoxFormat::corner, BoxFormat::corner, BoxFormat::center})};
  const int64_t samples = 1 + r.below(3), n = 1 + r.below(24);
  const DType t = r.pick({DType::float32, DType::float32, DType::float64, DType::float16});
  const Values data = detections(r, samples * n, c.width, c.box, c.score, c.id, op.in_format);
  Values order;
  for (int64_t i = 0; i < samples * n; ++i) order.push_back(r.below(int(n) + 4) - 2);
  return made(
      "_box_suppress", seed,
      {nd.array(data, {samples, n, c.width}, {.dtype = t}), nd.array(order, {samples, n}, {.dtype = DType::int64})}, 0,
      [&](auto& F, const auto& x) { return std::vector{F._box_suppress(x[0], x[1], op)}; });
}

OnnxCase multibox_case(uint32_t seed) {
  Random r(seed);
  op::MultiBoxDetection op{.clip = r.often(),
                           .threshold = r.pick({0.01f, 0.25f, 0.5f}),
                           .nms_threshold = r.pick({0.3f, 0.5f, 0.7f, 0.0f, 1.0f}),
                           .force_suppress = r.often(),
                           .nms_topk = r.pick({-1, -1, 1, 5, 100})};
  if (r.often()) op.variances = {0.5f, 0.25f, 1.0f, 0.125f};
  const int64_t samples = 1 + r.below(3), n = 1 + r.below(24), classes = 1 + r.below(4);
  Values scores, moves, anchors;
  for (int64_t i = 0; i < samples * classes * n; ++i) scores.push_back(r.often(40) ? NAN : r.below(17) / 16.0);
  for (int64_t i = 0; i < samples * n * 4; ++i) moves.push_back(r.real() * 2 - 1);
  for (int64_t i = 0; i < n; ++i) {
    const double x = r.real() * 0.8, y = r.real() * 0.8;
    for (double v : {x, y, x + 0.1 + r.real() * 0.5, y + 0.1 + r.real() * 0.5}) anchors.push_back(v);
  }
  return made("_contrib_MultiBoxDetection", seed,
              {nd.array(scores, {samples, classes, n}, {.dtype = DType::float32}),
               nd.array(moves, {samples, n * 4}, {.dtype = DType::float32}),
               nd.array(anchors, {1, n, 4}, {.dtype = DType::float32})},
              1e-6, [&](auto& F, const auto& x) { return std::vector{F.MultiBoxDetection(x[0], x[1], x[2], op)}; });
}

OnnxCase proposal_case(uint32_t seed) {
  Random r(seed);
  const op::MultiProposal op{.rpn_pre_nms_top_n = r.pick({-1, 5, 6000}),
                             .rpn_post_nms_top_n = r.pick({1, 6, 40}),
                             .threshold = r.pick({0.5f, 0.7f}),
                             .rpn_min_size = r.pick({1, 16}),
                             .scales = {2.0f, 4.0f},
                             .ratios = {0.5f, 1.0f, 2.0f},
                             .feature_stride = r.pick({8, 16}),
                             .output_score = true,
                             .iou_loss = r.often(4)};
  const int64_t images = 1 + r.below(3), h = 1 + r.below(4), w = 1 + r.below(4), anchors = 6;
  Values scores, deltas, info;
  for (int64_t i = 0; i < images * 2 * anchors * h * w; ++i) scores.push_back(r.below(33) / 32.0);
  for (int64_t i = 0; i < images * 4 * anchors * h * w; ++i) deltas.push_back(r.real() - 0.5);
  for (int64_t i = 0; i < images; ++i) info.insert(info.end(), {20.0 + r.below(40), 20.0 + r.below(40), 1.0});
  return made("_contrib_MultiProposal", seed,
              {nd.array(scores, {images, 2 * anchors, h, w}, {.dtype = DType::float32}),
               nd.array(deltas, {images, 4 * anchors, h, w}, {.dtype = DType::float32}),
               nd.array(info, {images, 3}, {.dtype = DType::float32})},
              1e-6, [&](auto& F, const auto& x) { return F.MultiProposal(x[0], x[1], x[2], op); });
}

std::vector<OnnxCase> random_cases(uint32_t count) {
  std::vector<OnnxCase> cases;
  for (uint32_t seed = 0; seed < count; ++seed) {
    switch (seed % 8) {
      case 0:
      case 1:
      case 2: cases.push_back(nms_case(seed)); break;
      case 3:
      case 4: cases.push_back(suppress_case(seed)); break;
      case 5:
      case 6: cases.push_back(multibox_case(seed)); break;
      default: cases.push_back(proposal_case(seed));
    }
  }
  return cases;
}

std::string first_difference(const std::vector<NDArray>& got, const OnnxCase& c) {
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const Host want = read(c.outputs[i]);
    const double most = c.tolerance > 0 ? c.tolerance * std::max(1.0, largest(want)) : 0;
    const std::string wrong = compare(fmt::format("output {}", i), read(got.at(i)), want, c.tolerance, most);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

TEST_CASE("onnx detection: random boxes give the same when the model is read again") {
  const ScratchFolder scratch;
  int64_t opset = first_onnx_opset;
  for (const OnnxCase& c : random_cases(160)) {
    INFO(c.title << ", opset " << opset);
    REQUIRE(write_case(c, opset, scratch / "net.onnx") == "");
    onnx::Block net = onnx::load(scratch / "net.onnx");
    for (bool hybrid : {false, true}) {
      CAPTURE(hybrid);
      net.hybridize(hybrid);
      CHECK(first_difference(net.forward(c.inputs), c) == "");
    }
    opset = opset == last_onnx_opset ? first_onnx_opset : opset + 1;
  }
}

TEST_CASE("onnx detection: NonMaxSuppression where it does the same, else a loop") {
  const auto uses = [](const op::BoxNms& op, DType t) {
    OnnxCase c{.names = {"x"}, .inputs = {nd.zeros({2, 9, 6}, {.dtype = t})}};
    c.program = sym.box_nms(Symbol::variable("x", {2, 9, 6}, t), op);
    std::string why;
    const std::set<std::string> operators = operators_of(c, last_onnx_opset, why);
    return std::pair(operators.contains("NonMaxSuppression"), operators.contains("Loop"));
  };
  CHECK(uses({}, DType::float32) == std::pair(true, false));
  CHECK(uses({}, DType::float16) == std::pair(true, false));
  CHECK(uses({}, DType::float64) == std::pair(false, true));
  CHECK(uses({.overlap_thresh = 1.5f}, DType::float32) == std::pair(false, true));
  CHECK(uses({.in_format = BoxFormat::center}, DType::float32) == std::pair(false, true));
}

TEST_CASE("onnx detection: any number of images and of boxes") {
  const ScratchFolder scratch;
  const auto file = scratch / "net.onnx";
  for (const BoxFormat format : {BoxFormat::corner, BoxFormat::center}) {
    const op::BoxNms op{.id_index = 0, .in_format = format};
    onnx::save(sym.box_nms(Symbol::variable("x", {2, 5, 6}), op), {{"x", {Shape(2, 5, 6), DType::float32}}}, {}, file,
               {.named = {{"x", 0, "images"}, {"x", 1, "boxes"}}});
    onnx::Block net = onnx::load(file);
    for (const auto& [images, boxes] : {std::pair(2, 5), std::pair(1, 1), std::pair(3, 30)}) {
      CAPTURE(images, boxes);
      Random r(uint32_t(images * 100 + boxes));
      const NDArray x =
          nd.array(detections(r, images * boxes, 6, 2, 1, 0, format), {images, boxes, 6}, {.dtype = DType::float32});
      const OnnxCase want{.outputs = {nd.box_nms(x, op)}, .tolerance = 0};
      CHECK(first_difference({net(x)}, want) == "");
    }
  }
}

TEST_CASE("onnx detection: files of random boxes for other tools", "[.]") {
  const char* folder = std::getenv("KAON_ONNX_CASES");
  if (folder == nullptr) return skip("KAON_ONNX_CASES names no folder");
  write_files(folder, random_cases(1200));
}

}  // namespace onnx_detection_rows_test
