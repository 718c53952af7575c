// Object detection: what random boxes do not reach, and refusals.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace detection_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

using Values = std::vector<float>;

NDArray ones(const Shape& shape, DType t = DType::float32) { return nd.ones(shape, {.dtype = t}); }

// Whether call() throws E with all of these parts in its text.
template <class E, class Call>
void refused(std::initializer_list<const char*> parts, Call&& call) {
  std::string text;
  try {
    call();
    nd.waitall();
  } catch (const E& e) {
    text = e.what();
  }
  for (const char* part : parts) CHECK_THAT(text, Catch::Matchers::Contains(part));
}

}  // namespace

TEST_CASE("box_nms: equal scores keep their order, rows without a score are dropped", "[ops]") {
  const float nan = NAN;
  const NDArray data =
      nd.array(Values{nan, 0, 0, 1, 1, .5f, 2, 2, 3, 3, .5f, 4, 4, 5, 5, .75f, 6, 6, 7, 7, 0, 8, 8, 9, 9}, {5, 5});
  const NDArray y = nd.box_nms(data, {.coord_start = 1, .score_index = 0});
  CHECK(y.asvector<float>() ==
        Values{.75f, 6, 6, 7, 7, .5f, 2, 2, 3, 3, .5f, 4, 4, 5, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
}

TEST_CASE("box_nms: an overlap of exactly the threshold stays, boxes of no size overlap nothing", "[ops]") {
  // the second overlaps the first by 1/2; the last two have no area
  const NDArray data = nd.array(Values{4, 0, 0, 2, 1, 3, 0, 0, 1, 1, 2, 5, 5, 5, 5, 1, 5, 5, 5, 5}, {4, 5});
  const NDArray y = nd.box_nms(data, {.overlap_thresh = 0.5f, .coord_start = 1, .score_index = 0});
  CHECK(y.asvector<float>() == data.asvector<float>());
}

TEST_CASE("box_nms: the gradient of a row goes to its source, whatever the formats", "[ops]") {
  NDArray data = nd.array(Values{1, 0, 0, 2, 2, 3, 0, 0, 2, 2, 2, 5, 5, 7, 7}, {3, 5});
  data.attach_grad();
  const NDArray y = autograd::record(
      [&] { return nd.box_nms(data, {.coord_start = 1, .score_index = 0, .out_format = BoxFormat::center}); });
  CHECK(y.asvector<float>() == Values{3, 1, 1, 2, 2, 2, 6, 6, 2, 2, -1, -1, -1, -1, -1});
  y.backward(nd.array(Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {3, 5}));
  CHECK(data.grad().asvector<float>() == Values{0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("bipartite_matching: NaN makes no pair, in either direction", "[ops]") {
  const NDArray scores = nd.array(Values{NAN, 0.5f, 0.25f, NAN}, {2, 2});
  for (bool is_ascend : {false, true}) {
    const std::vector<NDArray> pairs =
        nd.bipartite_matching(scores, {.is_ascend = is_ascend, .threshold = is_ascend ? 1.0f : 0.0f});
    CHECK(pairs[0].asvector<float>() == Values{1, 0});
    CHECK(pairs[1].asvector<float>() == Values{1, 0});
  }
}

TEST_CASE("ROIPooling: NaN goes through, and nothing is smaller than the largest", "[ops]") {
  const NDArray data = nd.array(Values{1, NAN, 2, 3, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, {1, 2, 2, 2});
  const NDArray rois = nd.array(Values{0, 0, 0, 1, 1}, {1, 5});
  const Values y = nd.ROIPooling(data, rois, {.pooled_size = {1, 1}, .spatial_scale = 1}).asvector<float>();
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == -INFINITY);
}

TEST_CASE("RoI: regions of no image and of coordinates that no image has give an end", "[ops]") {
  const NDArray data = ones({1, 1, 3, 3});
  const NDArray rois = nd.array(Values{1,   0,   0, 1,      1,      NAN,   0,     0, 1,        1, 0,        NAN, NAN,
                                       NAN, NAN, 0, -1e30f, -1e30f, 1e30f, 1e30f, 0, INFINITY, 0, INFINITY, 1},
                                {5, 5});
  const Values aligned =
      nd.ROIAlign(data, rois, {.pooled_size = {1, 1}, .spatial_scale = 1, .sample_ratio = 2}).asvector<float>();
  const Values pooled = nd.ROIPooling(data, rois, {.pooled_size = {1, 1}, .spatial_scale = 1}).asvector<float>();
  for (size_t i : {0, 1}) CHECK(aligned[i] + pooled[i] == 0);
  CHECK(pooled[3] == 1);
}

TEST_CASE("detection: refusals say the operator, what it expected and what it got", "[ops][errors]") {
  refused<ValueError>({"[_contrib_box_nms]", "coord_start must leave 4 of 6", "3"}, [] {
    nd.box_nms(ones({2, 6}), {.coord_start = 3});
  });
  refused<ValueError>({"[_contrib_box_nms]", "score_index must be one of 6 numbers outside of the box at 2", "4"}, [] {
    nd.box_nms(ones({2, 6}), {.score_index = 4});
  });
  refused<ValueError>({"[_contrib_box_nms]", "id_index", "7"}, [] { nd.box_nms(ones({2, 6}), {.id_index = 7}); });
  refused<ValueError>({"[_contrib_box_nms]", "must differ", "1"}, [] { nd.box_nms(ones({2, 6}), {.id_index = 1}); });
  refused<ShapeError>({"[_contrib_box_nms]", "(6,)"}, [] { nd.box_nms(ones({6})); });
  refused<TypeError>({"[_contrib_box_nms]", "floating", "int32"}, [] { nd.box_nms(ones({2, 6}, DType::int32)); });
  refused<TypeError>({"[_box_suppress]", "int64", "float32"}, [] {
    nd._box_suppress(ones({1, 2, 6}), ones({1, 2}), {});
  });
  refused<ValueError>({"[_box_suppress]", "multibox needs id_index"}, [] {
    nd._box_suppress(ones({1, 2, 6}), ones({1, 2}, DType::int64), {.kind = SuppressKind::multibox});
  });
  refused<ShapeError>({"[_box_take]", "as many samples", "(2, 3)"}, [] {
    nd._box_take(ones({1, 2, 6}), ones({2, 3}, DType::int64), {});
  });
  refused<ShapeError>({"[_contrib_box_iou]", "4 numbers", "(2, 5)"}, [] { nd.box_iou(ones({2, 5}), ones({2, 4})); });
  refused<TypeError>({"[_contrib_box_iou]", "float32", "float64"}, [] {
    nd.box_iou(ones({2, 4}), ones({2, 4}, DType::float64));
  });
  refused<ShapeError>({"[_contrib_box_decode]", "anchors", "(1, 3, 4)", "(2, 3, 4)"}, [] {
    nd.box_decode(ones({2, 3, 4}), ones({2, 3, 4}));
  });
  refused<ShapeError>({"[_contrib_box_encode]", "refs must be of 2 samples", "(1, 3, 4)"}, [] {
    nd.box_encode(ones({2, 3}), ones({2, 3}), ones({2, 3, 4}), ones({1, 3, 4}), ones({4}), ones({4}));
  });
  refused<ShapeError>({"[_contrib_bipartite_matching]", "(3,)"},
                      [] { nd.bipartite_matching(ones({3}), {.threshold = 1}); });
  refused<ValueError>({"[_contrib_MultiBoxPrior]", "needs a size", "()"}, [] {
    nd.MultiBoxPrior(ones({1, 1, 2, 2}), {.sizes = {}});
  });
  refused<ValueError>({"[_contrib_MultiBoxPrior]", "both steps or none", "(0.5, -1.0)"}, [] {
    nd.MultiBoxPrior(ones({1, 1, 2, 2}), {.steps = {0.5, -1.0}});
  });
  refused<ShapeError>({"[_contrib_MultiBoxDetection]", "loc_pred", "(2, 12)", "(2, 9)"}, [] {
    nd.MultiBoxDetection(ones({2, 4, 3}), ones({2, 9}), ones({1, 3, 4}));
  });
  refused<ValueError>({"[_contrib_MultiBoxDetection]", "variances must be 4 numbers", "(1.0,)"}, [] {
    nd.MultiBoxDetection(ones({2, 4, 3}), ones({2, 12}), ones({1, 3, 4}), {.variances = {1.0}});
  });
  refused<ShapeError>({"[_contrib_MultiBoxTarget]", "label must have a class and a box", "(2, 3, 4)"}, [] {
    nd.MultiBoxTarget(ones({1, 3, 4}), ones({2, 3, 4}), ones({2, 2, 3}));
  });
  refused<ShapeError>({"[_contrib_MultiBoxTarget]", "cls_pred must be (2, classes, 3)", "(2, 2, 5)"}, [] {
    nd.MultiBoxTarget(ones({1, 3, 4}), ones({2, 3, 5}), ones({2, 2, 5}));
  });
  refused<ShapeError>({"[_contrib_ROIAlign]", "rois must be (r, 5)", "(2, 4)"}, [] {
    nd.ROIAlign(ones({1, 1, 3, 3}), ones({2, 4}), {.pooled_size = {2, 2}, .spatial_scale = 1});
  });
  refused<ValueError>({"[_contrib_ROIAlign]", "spatial_scale must be 0 to 1", "2"}, [] {
    nd.ROIAlign(ones({1, 1, 3, 3}), ones({2, 5}), {.pooled_size = {2, 2}, .spatial_scale = 2});
  });
  refused<ShapeError>({"[_contrib_ROIAlign]", "a multiple of 4 channels", "3"}, [] {
    nd.ROIAlign(ones({1, 3, 3, 3}), ones({2, 5}),
                {.pooled_size = {2, 2}, .spatial_scale = 1, .position_sensitive = true});
  });
  refused<ValueError>({"[ROIPooling]", "pooled_size must be two positive numbers", "(2,)"}, [] {
    nd.ROIPooling(ones({1, 1, 3, 3}), ones({2, 5}), {.pooled_size = {2}, .spatial_scale = 1});
  });
  refused<TypeError>({"[ROIPooling]", "one dtype", "float64"}, [] {
    nd.ROIPooling(ones({1, 1, 3, 3}), ones({2, 5}, DType::float64), {.pooled_size = {2, 2}, .spatial_scale = 1});
  });
}

TEST_CASE("box_nms: rows of class -1 are background unless another class is, as in MXNet") {
  const NDArray x = nd.array(
      {{-1, 0.9f, 0.1f, 0.1f, 0.5f, 0.5f}, {0, 0.8f, 0.6f, 0.6f, 0.9f, 0.9f}, {1, 0.7f, 0.11f, 0.1f, 0.5f, 0.5f}});
  op::BoxNms op{.overlap_thresh = 0.5, .coord_start = 2, .score_index = 1, .id_index = 0, .force_suppress = true};
  CHECK(nd.box_nms(x, op)(range(), 0).asvector<float>() == std::vector<float>{0, 1, -1});
  op.background_id = -2;
  CHECK(nd.box_nms(x, op)(range(), 0).asvector<float>() == std::vector<float>{-1, 0, -1});
}

}  // namespace detection_test
