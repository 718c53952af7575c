// Arrays and OpenCV's matrices, for programs that use OpenCV: Kaon itself is built without it.
#pragma once

#include <climits>
#include <opencv2/core.hpp>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace opencv {

namespace detail {
inline DType dtype_of(const cv::Mat& mat) {
  switch (mat.depth()) {
    case CV_8U: return DType::uint8;
    case CV_8S: return DType::int8;
    case CV_16U: return DType::uint16;
    case CV_16S: return DType::int16;
    case CV_32S: return DType::int32;
    case CV_32F: return DType::float32;
    case CV_64F: return DType::float64;
    case CV_16F: return DType::float16;
    default: throw TypeError("[opencv] elements of depth " + std::to_string(mat.depth()) + " have no dtype here");
  }
}
inline int depth_of(DType dtype) {
  switch (dtype) {
    case DType::uint8:
    case DType::boolean: return CV_8U;
    case DType::int8: return CV_8S;
    case DType::uint16: return CV_16U;
    case DType::int16: return CV_16S;
    case DType::int32: return CV_32S;
    case DType::float32: return CV_32F;
    case DType::float64: return CV_64F;
    case DType::float16: return CV_16F;
    default: throw TypeError("[opencv] a matrix has no elements of " + to_string(dtype));
  }
}
}  // namespace detail

// An array over the memory of a matrix, which it keeps alive: (rows, columns, channels), without the last for one
// channel; matrices of more dimensions have theirs. Throws ValueError for a matrix that is not continuous (a part of
// another: clone() it), TypeError for elements that have no dtype.
inline NDArray array(const cv::Mat& mat) {
  if (!mat.isContinuous()) throw ValueError("[opencv] the matrix is not continuous; clone() it");
  Shape shape;
  for (int i = 0; i < mat.dims; ++i) shape.push_back(mat.size[i]);
  if (mat.channels() > 1) shape.push_back(mat.channels());
  return NDArray::from_blob(mat.data, shape, detail::dtype_of(mat), [keep = mat] {});
}

// Blocks. A matrix with a copy of the elements: of a 2-D array, or of one of shape (rows, columns, channels), with
// up to 512 channels. Throws ShapeError for other shapes, TypeError for a dtype that OpenCV has not.
inline cv::Mat mat(const NDArray& array) {
  const Shape& s = array.shape();
  if ((s.ndim() != 2 && s.ndim() != 3) || (s.ndim() == 3 && (s[2] < 1 || s[2] > CV_CN_MAX))) {
    throw ShapeError("[opencv] expected an array of shape (rows, columns) or (rows, columns, channels), got " +
                     s.str());
  }
  if (s[0] > INT_MAX || s[1] > INT_MAX) throw ShapeError("[opencv] too many rows or columns: " + s.str());
  const NDArray host = array.as_in_context(cpu());
  const int channels = s.ndim() == 3 ? int(s[2]) : 1;
  const int rows = int(s[0]), columns = int(s[1]);
  cv::Mat made(rows, columns, CV_MAKETYPE(detail::depth_of(array.dtype()), channels));
  NDArray::from_blob(made.data, host.shape(), host.dtype()).assign(host).wait_to_write();
  return made;
}

}  // namespace opencv
}  // namespace kaon
