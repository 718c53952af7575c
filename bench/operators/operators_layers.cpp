// Parts of networks, random numbers, images.
#include "kaon/bench/operators/operators_parts.h"

namespace kaon::bench {

Cases layers(int64_t n) {
  const bool large = n >= 1'000'000;
  const int64_t length = row_length(n), rows = n / length;
  const Shape matrix(rows, length);
  const Shape planes = large ? Shape(4, 16, 128, 128) : Shape(1, 4, 16, 16);
  const int64_t c = planes[1];
  const NDArray x = between(-3, 3, matrix), gamma = between(0, 1, {length}), beta = between(0, 1, {length}),
                image = between(-3, 3, planes), scale = between(0.5, 1, {c}), shift = between(-1, 1, {c}),
                group_scale = between(0.5, 1, {4}), group_shift = between(-1, 1, {4}),
                labels = integers(0, length, {rows}), weight = between(-1, 1, {64, length}),
                bias = between(-1, 1, {64}), kernel = between(-1, 1, {c, c, 3, 3}),
                grid = between(-1, 1, {planes[0], 2, planes[2], planes[3]}), words = integers(0, 1000, {n / 64}),
                vectors = between(-1, 1, {1000, 64}), half = nd.cast(x, DType::float16), chances = nd.softmax(x),
                logs = nd.log_softmax(x);
  return {
      {"softmax", [=] { nd.softmax(x); }},
      {"log_softmax", [=] { nd.log_softmax(x); }},
      {"softmax_columns", [=] { nd.softmax(x, {.axis = 0}); }},
      {"softmin", [=] { nd.softmin(x); }},
      {"softmax_float16", [=] { nd.softmax(half); }},
      {"softmax_gradient", [=] { nd._backward_softmax(x, chances, {}); }},
      {"log_softmax_gradient", [=] { nd._backward_log_softmax(x, logs, {}); }},
      {"layer_norm", [=] { nd.LayerNorm(x, gamma, beta); }},
      {"rms_norm", [=] { nd.RMSNorm(x, gamma); }},
      {"group_norm", [=] { nd.GroupNorm(image, group_scale, group_shift, {.num_groups = 4}); }},
      {"instance_norm", [=] { nd.InstanceNorm(image, scale, shift); }},
      {"batch_norm", [=] { nd.BatchNorm(image, scale, shift, shift, scale, {.fix_gamma = false}); }},
      {"l2_normalization", [=] { nd.L2Normalization(x); }},
      {"max_pooling",
       [=] {
         nd.Pooling(image, {.kernel = {2, 2}, .stride = {2, 2}});
       }},
      {"max_pooling_3x3",
       [=] {
         nd.Pooling(image, {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}});
       }},
      {"avg_pooling",
       [=] {
         nd.Pooling(image, {.kernel = {2, 2}, .pool_type = PoolType::avg, .stride = {2, 2}});
       }},
      {"global_pooling", [=] { nd.Pooling(image, {.pool_type = PoolType::avg, .global_pool = true}); }},
      {"adaptive_pooling",
       [=] {
         nd.AdaptiveAvgPooling2D(image, {7, 7});
       }},
      {"bilinear_resize",
       [=] { nd.BilinearResize2D(image, {.height = 3 * planes[2] / 2, .width = 3 * planes[3] / 2}); }},
      {"nearest_resize", [=] { nd.UpSampling(image, {.scale = 2}); }},
      {"bilinear_sampler", [=] { nd.BilinearSampler(image, grid); }},
      {"im2col",
       [=] {
         nd.im2col(image, {.kernel = {3, 3}, .pad = {1, 1}});
       }},
      {"dense", [=] { nd.FullyConnected(x, weight, bias, {.num_hidden = 64}); }},
      {"convolution",
       [=] {
         nd.Convolution(image, kernel, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = int(c)});
       }},
      {"dropout", [=] { nd.Dropout(x, {.p = 0.3, .mode = DropoutMode::always}); }},
      {"embedding", [=] { nd.Embedding(words, vectors, {.input_dim = 1000, .output_dim = 64}); }},
      {"softmax_cross_entropy", [=] { nd.softmax_cross_entropy(x, labels); }},
  };
}

Cases draws(int64_t n) {
  const NDArray chances = between(0, 1, {n});
  return {
      {"uniform", [=] { nd.random_uniform({n}); }},
      {"normal", [=] { nd.random_normal({n}); }},
      {"exponential", [=] { nd.random_exponential({n}); }},
      {"gamma", [=] { nd.random_gamma({n}, {.alpha = 2.5}); }},
      {"poisson", [=] { nd.random_poisson({n}, {.lam = 4}); }},
      {"bernoulli", [=] { nd.random_bernoulli(chances); }},
      {"randint", [=] { nd.random_randint(0, 100, {n}); }},
      {"shuffle", [=] { nd.shuffle(chances); }},
  };
}

Cases images(int64_t n) {
  const Shape pixels = n >= 1'000'000 ? Shape(577, 577, 3) : Shape(18, 18, 3);
  const int64_t side = pixels[0];
  const NDArray bytes = integers(0, 256, pixels, DType::uint8), planes = between(0, 1, {3, side, side}),
                colors = between(0, 1, pixels);
  return {
      {"image_to_tensor", [=] { nd.image_to_tensor(bytes); }},
      {"image_normalize",
       [=] {
         nd.image_normalize(planes, {.mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.4f}});
       }},
      {"image_flip", [=] { nd.image_flip_left_right(bytes); }},
      {"image_crop", [=] { nd.image_crop(bytes, {.x = 2, .y = 2, .width = side - 5, .height = side - 5}); }},
      {"image_resize",
       [=] {
         nd.image_resize(colors, {side / 2, side / 2});
       }},
      {"image_brightness", [=] { nd.image_random_brightness(bytes, 0.5, 1.5); }},
      {"image_brightness_float32", [=] { nd.image_random_brightness(colors, 0.5, 1.5); }},
      {"image_contrast", [=] { nd.image_random_contrast(colors, 0.5, 1.5); }},
      {"image_saturation", [=] { nd.image_random_saturation(colors, 0.5, 1.5); }},
  };
}

}  // namespace kaon::bench
