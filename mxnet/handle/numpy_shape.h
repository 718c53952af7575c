// MXNet's switch for NumPy's shapes: off, 0 dimensions and sizes of 0 stand for what is not known yet.
#pragma once

namespace kaon::mxnet {

enum class NumpyShape : int { off, thread, everywhere };

// What holds for this thread.
NumpyShape numpy_shape() noexcept;
inline bool has_numpy_shape() noexcept { return numpy_shape() != NumpyShape::off; }
// Throws ValueError for a number that is none of the three. `off` switches both kinds off.
void set_numpy_shape(int mode);

}  // namespace kaon::mxnet
