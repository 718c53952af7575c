#include "kaon/ops/nn/conv_winograd.h"

#include <algorithm>

#include "kaon/ops/nn/onednn.h"

namespace kaon {
namespace {

bool is_there() {
  static const bool found = onednn::guarded("Convolution", [] {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::dims images{1, 32, 8, 8}, one{1, 1};
    const onednn::Desc x(images, dnnl::memory::data_type::f32, Tag::nChw16c);
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::convolution_winograd, x, onednn::any({32, 32, 3, 3}), x,
                                               one, one, one);
    const dnnl::convolution_forward::primitive_desc made(desc, onednn::engine(), true);  // empty where there is none
    return made && !onednn::is_reference(made.impl_info_str());
  });
  return found;
}

}  // namespace

bool winograd_pays(const ConvGeometry& g) {
  if (g.axes != 2 || g.groups != 1) return false;
  for (size_t i : {0, 1}) {
    if (g.kernel[i] != 3 || g.stride[i] != 1 || g.dilate[i] != 1 || g.pad[i] > 1) return false;
  }
  const bool in_blocks = g.in_channels % 16 == 0 && g.out_channels % 16 == 0;
  return in_blocks && std::min(g.in_channels, g.out_channels) >= 32 && is_there();
}

// Measured on two AVX-512 cores with 1 MB of L2 cache each, with weights that come from memory as those of a net do. For
// one image oneDNN mostly takes tiles of 2 x 2 by itself, which need 16 numbers for 9 weights; several images go in
// tiles of 4 x 4, which need 36 and much more scratch memory: that pays for images of many positions only.
ConvCut winograd_cut(const ConvGeometry& g) {
  ConvCut cut;
  const bool many_positions = g.out_positions() >= 2000, many_weights = g.in_channels * g.out_channels > 65536;
  if (many_positions && g.batch >= 4 && g.batch % 2 == 0) cut.piece = 2;
  if (g.batch == 1 && many_positions) return {1, 1, 2};  // of many rows: tiles of 4 x 4 as well
  const bool alone = g.batch == 1 && g.flops_per_image() >= 100e6;  // work for a second thread
  if ((alone || many_weights) && g.out_channels % 32 == 0) cut.slices = 2;
  return cut;
}

}  // namespace kaon
