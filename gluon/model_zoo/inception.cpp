// Inception v3 (Szegedy et al. 2015): branches of convolutions of different sizes, side by side.
#include <initializer_list>

#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

struct InceptionConv {
  int64_t channels;
  Shape kernel_size;
  Shape strides{1};
  Shape padding{0};
};
using Convs = std::initializer_list<InceptionConv>;

nn::HybridSequential conv(const InceptionConv& c) {
  return nn::HybridSequential(
      nn::Conv2D(c.channels,
                 {.kernel_size = c.kernel_size, .strides = c.strides, .padding = c.padding, .use_bias = false}),
      nn::BatchNorm({.epsilon = 0.001}), nn::Activation("relu"));
}

enum class Before { nothing, average, maximum };

nn::HybridSequential branch(Convs convs, Before before = Before::nothing) {
  nn::HybridSequential all;
  if (before == Before::average) all.add(nn::AvgPool2D({.pool_size = 3, .strides = 1, .padding = 1}));
  if (before == Before::maximum) all.add(nn::MaxPool2D({.pool_size = 3, .strides = 2}));
  for (const InceptionConv& c : convs) all.add(conv(c));
  return all;
}

nn::HybridConcurrent beside(std::initializer_list<nn::AnyBlock> branches) {
  nn::HybridConcurrent all(1);
  for (const nn::AnyBlock& b : branches) all.add(b);
  return all;
}

// The names are those of the paper's figures: of windows 1 x n and n x 1.
const Shape row3{1, 3}, column3{3, 1}, row7{1, 7}, column7{7, 1};
const Shape pad_row3{0, 1}, pad_column3{1, 0}, pad_row7{0, 3}, pad_column7{3, 0};

nn::HybridConcurrent block_a(int64_t pooled) {
  return beside({branch({{64, {1}}}), branch({{48, {1}}, {64, {5}, {1}, {2}}}),
                 branch({{64, {1}}, {96, {3}, {1}, {1}}, {96, {3}, {1}, {1}}}),
                 branch({{pooled, {1}}}, Before::average)});
}

nn::HybridConcurrent block_b() {
  return beside({branch({{384, {3}, {2}}}), branch({{64, {1}}, {96, {3}, {1}, {1}}, {96, {3}, {2}}}),
                 branch({}, Before::maximum)});
}

nn::HybridConcurrent block_c(int64_t n) {
  return beside({branch({{192, {1}}}), branch({{n, {1}}, {n, row7, {1}, pad_row7}, {192, column7, {1}, pad_column7}}),
                 branch({{n, {1}},
                         {n, column7, {1}, pad_column7},
                         {n, row7, {1}, pad_row7},
                         {n, column7, {1}, pad_column7},
                         {192, row7, {1}, pad_row7}}),
                 branch({{192, {1}}}, Before::average)});
}

nn::HybridConcurrent block_d() {
  return beside({branch({{192, {1}}, {320, {3}, {2}}}),
                 branch({{192, {1}}, {192, row7, {1}, pad_row7}, {192, column7, {1}, pad_column7}, {192, {3}, {2}}}),
                 branch({}, Before::maximum)});
}

// After the convolutions, 1 x 3 and 3 x 1 ones side by side.
nn::HybridSequential split_branch(const nn::HybridSequential& before) {
  return nn::HybridSequential(
      before, beside({branch({{384, row3, {1}, pad_row3}}), branch({{384, column3, {1}, pad_column3}})}));
}

nn::HybridConcurrent block_e() {
  return beside({branch({{320, {1}}}), split_branch(branch({{384, {1}}})),
                 split_branch(branch({{448, {1}}, {384, {3}, {1}, {1}}})), branch({{192, {1}}}, Before::average)});
}

}  // namespace

Model inception_v3(const ModelOptions& options) {
  const nn::MaxPoolOptions pool{.pool_size = 3, .strides = 2};
  nn::HybridSequential features;
  features.add(conv({32, {3}, {2}}), conv({32, {3}}), conv({64, {3}, {1}, {1}}), nn::MaxPool2D(pool), conv({80, {1}}),
               conv({192, {3}}), nn::MaxPool2D(pool));
  for (const int64_t pooled : {32, 64, 64}) features.add(block_a(pooled));
  features.add(block_b());
  for (const int64_t n : {128, 160, 160, 192}) features.add(block_c(n));
  features.add(block_d(), block_e(), block_e(), nn::AvgPool2D({.pool_size = 8}), nn::Dropout(0.5));
  return Model("inception3", features, nn::Dense(options.classes));
}

}  // namespace kaon::gluon::model_zoo::vision::detail
