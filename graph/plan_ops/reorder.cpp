#include "kaon/graph/plan_ops/reorder.h"

#include <algorithm>

#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"

namespace kaon {

using namespace graph;

constinit const OpDef op::Reorder::def = make_op_def<op::Reorder>();

void run_cpu(const op::Reorder&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  int64_t images = in.shape[0], channels = in.shape[1], positions = in.shape[2] * in.shape[3];
  int64_t per_image = channels * positions;
  int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, per_image));
  if (size_of(in.dtype) == 1) {  // between row-major and channels last
    const bool to_last = out.layout == Layout::channels_last;
    const int64_t rows = to_last ? channels : positions, columns = to_last ? positions : channels;
    return c.run.parallel_for(images, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        transpose_bytes(in.as<const uint8_t>() + i * per_image, columns, out.as<uint8_t>() + i * per_image, rows, rows,
                        columns);
      }
    });
  }
  c.run.parallel_for(images, grain, [&](int64_t begin, int64_t end) {
    convert_images(in.as<float>() + begin * per_image, image_layout(in.layout), out.as<float>() + begin * per_image,
                   image_layout(out.layout), end - begin, channels, positions);
  });
}

}  // namespace kaon
