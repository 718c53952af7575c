// The weights of convolutions as cuDNN reads them, and images in their other order. A light header: .cu files read it.
#pragma once

#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/view.h"

namespace kaon::cuda {

// Weights (outputs, inputs, taps) of this floating dtype, or (outputs, taps, inputs) where they are given so.
struct ConvWeights {
  DType dtype;
  int64_t outputs, inputs, taps;
  bool rearranged;  // given as (outputs, inputs, taps), wanted as (outputs, taps, inputs)

  ConvWeights(const ConvGeometry& g, DType t, Layout layout)
      : dtype(t),
        outputs(g.out_channels),
        inputs(g.in_channels / g.groups),
        taps(g.taps()),
        rearranged(layout == Layout::channels_last && !g.weights_channels_last && taps > 1 && inputs > 1) {}
  int64_t size() const { return outputs * inputs * taps; }
};

// to = from in the wanted layout, each output multiplied by its scale unless that is null; and bias = shift, rounded to
// the dtype. Scale and shift are outputs of BatchNormAffine: float32 for 16-bit weights.
void scale_weights(KernelContext& c, const ConvWeights& w, const void* from, const void* scale, const void* shift,
                   void* to, void* bias);
// Rearrange weights to the wanted layout, and back.
void arrange_weights(KernelContext& c, const ConvWeights& w, const void* from, void* to);
void restore_weights(KernelContext& c, const ConvWeights& w, const void* from, void* to);

// to = (planes, columns, rows) of from (planes, rows, columns).
void transpose_planes(KernelContext& c, DType t, int64_t planes, int64_t rows, int64_t columns, const void* from,
                      void* to);

}  // namespace kaon::cuda
