#include "kaon/graph/plan_ops/reorder.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "kaon/ops/kernels/image_layout.h"

namespace reorder_test {

using namespace kaon;
using namespace kaon::graph;

TEST_CASE("reorder: the copy that devices run is the conversion of the CPU", "[graph][cuda]") {
  const Layout layouts[] = {Layout::row_major, Layout::channels_last, Layout::blocked16};
  for (const Shape& shape : {Shape(2, 32, 3, 5), Shape(1, 16, 1, 1), Shape(3, 48, 1, 7), Shape(0, 16, 2, 2)}) {
    const int64_t channels = shape[1], positions = shape[2] * shape[3];
    std::vector<float> from(size_t(shape.size()));
    std::iota(from.begin(), from.end(), 1.f);
    for (Layout a : layouts) {
      for (Layout b : layouts) {
        std::vector<float> want(from.size()), got = want;
        convert_images(from.data(), image_layout(a), want.data(), image_layout(b), shape[0], channels, positions);
        const StridedCopy copy = reorder_copy({.shape = shape, .layout = a}, {.shape = shape, .layout = b});
        REQUIRE(copy.dims.elements() == shape.size());
        for (int64_t i = 0; i < shape.size(); ++i) {
          int64_t src = copy.src, dst = copy.dst, left = i;
          for (int k = copy.dims.count(); k-- > 0; left /= copy.dims[k].size) {
            src += left % copy.dims[k].size * copy.dims[k].src, dst += left % copy.dims[k].size * copy.dims[k].dst;
          }
          got.at(size_t(dst)) = from.at(size_t(src));
        }
        INFO(shape.str() << " from layout " << int(a) << " to " << int(b));
        CHECK(got == want);
      }
    }
  }
}

}  // namespace reorder_test
