// MXNet's gluon.utils: batches split over devices, gradients clipped together. Nothing here blocks.
#pragma once

#include <span>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/parameter.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon {

struct SplitOptions {
  int batch_axis = 0;      // negative: from the end
  bool even_split = true;  // refuse sizes that num_slice does not divide; else the first slices are longer by one
};

// num_slice parts of the data along the axis, in order: views where the axis is the first. Throws ValueError for
// num_slice below 1 and sizes that do not divide, ShapeError for an axis that is not there.
KAON_API std::vector<NDArray> split_data(const NDArray& data, int64_t num_slice, const SplitOptions& options = {});

// The same, part i on devices[i]; ValueError where there are none.
KAON_API std::vector<NDArray> split_and_load(const NDArray& data, std::span<const Device> devices,
                                             const SplitOptions& options = {});

// Multiplies all arrays by min(1, max_norm / (norm + 1e-8)), where norm is the 2-norm of all their elements together,
// and returns norm, float32 (1,), on the first array's device: nobody waits for it. A NaN among the elements makes norm
// and all elements NaN; with an infinity, norm is infinite and finite elements become 0. Floating dtypes; sums are
// computed in float32. Throws ValueError for no arrays and a max_norm that is negative or NaN, TypeError for integers.
KAON_API NDArray clip_global_norm(std::span<const NDArray> arrays, double max_norm);

// The gradients of these parameters, apart from those that have none.
KAON_API NDArray clip_global_norm(const ParameterDict& parameters, double max_norm);

}  // namespace gluon
}  // namespace kaon
