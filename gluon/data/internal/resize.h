// Images of plain memory, (height, width, channels), cut and at another size.
#pragma once

#include <cstdint>

#include "kaon/gluon/data/host_tensor.h"

namespace kaon::gluon::data {

namespace detail {

// Throws ShapeError, which says `what`, unless the tensor has 3 dimensions.
void check_image(const HostTensor& image, const char* what, const char* layout = "height, width, channels");

// The part of `height` rows from y on and `width` columns from x on, which must lie in the image. Any dtype.
HostTensor cropped(const HostTensor& image, int64_t x, int64_t y, int64_t width, int64_t height);

// OpenCV's methods, which MXNet's numbers stand for: 0 nearest, 1 bilinear, 2 bicubic (A = -0.75), 3 area, 4 Lanczos of
// 8 x 8; 9 is 2 for larger images, 3 for smaller ones, 1 for others. uint8 in fractions of 11 bits as OpenCV 3.4, with
// the same results; float32. Throws TypeError for other dtypes, ShapeError for an image without pixels.
HostTensor resized(const HostTensor& image, int64_t width, int64_t height, int interpolation, const char* what);

}  // namespace detail
}  // namespace kaon::gluon::data
