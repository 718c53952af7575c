// Matrices of Eigen and OpenCV as arrays, and back.
#include <catch2/catch.hpp>

#include "kaon/eigen.h"
#include "kaon/kaon.h"
#include "kaon/opencv.h"

namespace matrix_libraries_test {

using namespace kaon;
using Catch::Matchers::Contains;

TEST_CASE("Eigen: matrices of both orders, expressions and vectors become arrays") {
  Eigen::MatrixXf columns(2, 3);
  columns << 1, 2, 3, 4, 5, 6;
  const NDArray x = eigen::array(columns);
  CHECK(x.shape() == Shape(2, 3));
  CHECK(x.asvector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(eigen::array(columns.transpose() * 2).asvector<float>() == std::vector<float>{2, 8, 4, 10, 6, 12});
  CHECK(eigen::array(Eigen::Vector3d(1, 2, 3)).shape() == Shape(3));
  CHECK(eigen::array(Eigen::Vector3d(1, 2, 3)).dtype() == DType::float64);
  CHECK(eigen::array(Eigen::MatrixXi(0, 4)).shape() == Shape(0, 4));
}

TEST_CASE("Eigen: an array as a matrix, to read and to write") {
  const NDArray x = nd.arange(6).reshape({2, 3}), column = nd.ones({4}), cube = nd.ones({1, 2, 3});
  const auto m = eigen::map<const float>(x);
  CHECK(m.rows() == 2);
  const Eigen::MatrixXf product = eigen::map<const float>(x) * eigen::map<const float>(x).transpose();
  CHECK(product(1, 1) == 50);
  eigen::map<float>(x) *= 10;
  CHECK(x.asvector<float>() == std::vector<float>{0, 10, 20, 30, 40, 50});
  CHECK(eigen::map<const float>(column).cols() == 1);
  CHECK_THROWS_WITH(eigen::map<float>(cube), Contains("[eigen] a matrix has 1 or 2 dimensions"));
  CHECK_THROWS_AS(eigen::map<double>(x), TypeError);
}

TEST_CASE("OpenCV: a matrix as an array, which keeps it") {
  NDArray x;
  uint8_t* pixels;
  {
    cv::Mat image(4, 5, CV_8UC3, cv::Scalar(1, 2, 3));
    pixels = image.data;
    x = opencv::array(image);
  }
  CHECK(x.shape() == Shape(4, 5, 3));
  CHECK(x.dtype() == DType::uint8);
  CHECK(x(3, 4).asvector<int>() == std::vector<int>{1, 2, 3});
  x += 1;
  x.wait_to_read();
  CHECK(pixels[0] == 2);
  const cv::Mat floats(3, 2, CV_32F, cv::Scalar(0.5));
  CHECK(opencv::array(floats).sum().asscalar<float>() == 3);
  const cv::Mat part = cv::Mat(4, 4, CV_32F)(cv::Rect(1, 1, 2, 2));
  CHECK_THROWS_WITH(opencv::array(part), Contains("[opencv] the matrix is not continuous"));
  const cv::Mat wide(2, 2, CV_16U, cv::Scalar(65535));
  CHECK(opencv::array(wide).dtype() == DType::uint16);
  CHECK(opencv::array(wide).asvector<int>() == std::vector<int>(4, 65535));
  CHECK(opencv::array(cv::Mat(1, 1, CV_16S, cv::Scalar(-9))).asscalar<int16_t>() == -9);
}

TEST_CASE("OpenCV: an array as a matrix") {
  const NDArray x = nd.arange(24).reshape({2, 4, 3});
  const cv::Mat m = opencv::mat(x);
  CHECK(m.rows == 2);
  CHECK(m.channels() == 3);
  CHECK(m.at<cv::Vec3f>(1, 2) == cv::Vec3f(18, 19, 20));
  CHECK(opencv::mat(nd.ones({2, 3}, {.dtype = DType::uint8})).type() == CV_8UC1);
  CHECK(opencv::mat(nd.ones({2, 3}, {.dtype = DType::uint16})).type() == CV_16UC1);
  CHECK(opencv::mat(nd.ones({2, 3}, {.dtype = DType::int16})).type() == CV_16SC1);
  CHECK_THROWS_AS(opencv::mat(nd.ones({2, 2}, {.dtype = DType::uint32})), TypeError);
  CHECK_THROWS_WITH(opencv::mat(nd.ones({2})), Contains("[opencv] expected an array of shape"));
  CHECK_THROWS_AS(opencv::mat(nd.ones({2, 2}, {.dtype = DType::int64})), TypeError);
}

}  // namespace matrix_libraries_test
