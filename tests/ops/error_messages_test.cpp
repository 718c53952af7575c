// Wrong calls: each throws its kind of exception at once, and says the operator, what it expected and what it got.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <typeinfo>

#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/rnn/rnn.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/image_file/image_file.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/promotion/promotion.h"

namespace error_messages_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

struct Wrong {
  std::function<void()> call;
  const std::type_info& kind;
  std::vector<std::string> says;  // parts of the text, the operator first
};

template <class E>
Wrong wrong(std::vector<std::string> says, std::function<void()> call) {
  return {std::move(call), typeid(E), std::move(says)};
}

NDArray ones(const Shape& shape, DType t = DType::float32) { return nd.ones(shape, {.dtype = t}); }

NDArray recorded(NDArray& x) {
  x = ones({2, 3});
  x.attach_grad();
  return autograd::record([&] { return nd.square(x); });
}

const DType half = DType::float16, whole = DType::int32;

std::vector<Wrong> shapes() {
  return {
      wrong<ShapeError>({"[broadcast_add]", "(2, 3)", "(2, 4)"},
                        [] {
                          ones({2, 3}) + ones({2, 4});
                        }),
      wrong<ShapeError>({"[broadcast_mul]", "(2, 3)", "(3, 2)"},
                        [] {
                          nd.broadcast_mul(ones({2, 3}), ones({3, 2}));
                        }),
      wrong<ShapeError>({"[expand_dims]", "axis 4 is out of range", "2 dimensions takes -3 to 2"},
                        [] {
                          nd.expand_dims(ones({2, 3}), 4);
                        }),
      wrong<ShapeError>({"[assign]", "(2, 3)", "(2, 2)"},
                        [] {
                          NDArray x = ones({2, 2});
                          x.assign(ones({2, 3}));
                        }),
      wrong<ShapeError>({"[slice_assign]", "(3,)", "(1, 2)"},
                        [] {
                          NDArray x = ones({2, 2});
                          x.slice_assign({0, 0}, {1, 2}, ones({3}));
                        }),
      wrong<ShapeError>({"[dot]", "axis 1 of lhs", "3 and 4", "(2, 3)", "(4, 5)"},
                        [] {
                          nd.dot(ones({2, 3}), ones({4, 5}));
                        }),
      wrong<ShapeError>({"[batch_dot]", "(2, 3, 4)", "(2, 5, 4)"},
                        [] {
                          nd.batch_dot(ones({2, 3, 4}), ones({2, 5, 4}));
                        }),
      wrong<ShapeError>({"[batch_dot]", "lhs must have 3 dimensions", "(2, 3)"},
                        [] {
                          nd.batch_dot(ones({2, 3}), ones({2, 3}));
                        }),
      wrong<ShapeError>({"[FullyConnected]", "weight must have shape (5, 3)", "got (5, 4)"},
                        [] {
                          nd.FullyConnected(ones({2, 3}), ones({5, 4}), op::FullyConnected{.num_hidden = 5});
                        }),
      wrong<ShapeError>({"[FullyConnected]", "bias must have shape (5,)", "got (4,)"},
                        [] {
                          nd.FullyConnected(ones({2, 3}), ones({5, 3}), ones({4}), {.num_hidden = 5});
                        }),
      wrong<ShapeError>(
          {"[Convolution]", "kernel (3, 3)", "(1, 3, 8)"},
          [] {
            nd.Convolution(ones({1, 3, 8}), ones({4, 3, 3, 3}), op::Convolution{.kernel = {3, 3}, .num_filter = 4});
          }),
      wrong<ShapeError>(
          {"[Convolution]", "kernel (5, 5) exceeds the padded data", "(1, 3, 4, 4)"},
          [] {
            nd.Convolution(ones({1, 3, 4, 4}), ones({4, 3, 5, 5}), op::Convolution{.kernel = {5, 5}, .num_filter = 4});
          }),
      wrong<ShapeError>({"[_contrib_BilinearResize2D]", "at least one pixel", "(1, 1, 0, 2)"},
                        [] {
                          nd.BilinearResize2D(ones({1, 1, 0, 2}), {.height = 2, .width = 2});
                        }),
      wrong<ShapeError>({"[UpSampling]", "input 1", "divides 4 x 4", "(1, 1, 3, 2)"},
                        [] {
                          const NDArray both[] = {ones({1, 1, 2, 2}), ones({1, 1, 3, 2})};
                          nd.UpSampling(both, {.scale = 2});
                        }),
      wrong<ShapeError>({"[UpSampling]", "input 1 must have shape (2, 1, 4, 4)", "(2, 1, 3, 3)"},
                        [] {
                          nd.UpSampling(ones({1, 2, 2, 2}), ones({2, 1, 3, 3}), {.scale = 2});
                        }),
      wrong<ShapeError>({"[RNN]", "parameters must have shape (10,)", "(8,)"},
                        [] {
                          nd.RNN(ones({2, 1, 1}), ones({8}), ones({1, 1, 2}),
                                 {.state_size = 2, .num_layers = 1, .mode = RnnMode::rnn_tanh});
                        }),
      wrong<ShapeError>({"[scaled_dot_product_attention]", "key must have the batch 2 and the dim 4", "(2, 1, 3, 5)"},
                        [] {
                          nd.scaled_dot_product_attention(ones({2, 1, 3, 4}), ones({2, 1, 3, 5}), ones({2, 1, 3, 4}));
                        }),
      wrong<ShapeError>({"[scaled_dot_product_attention]", "value must have 2 samples, 1 heads and 3 steps"},
                        [] {
                          nd.scaled_dot_product_attention(ones({2, 1, 3, 4}), ones({2, 1, 3, 4}), ones({2, 1, 2, 4}));
                        }),
      wrong<ShapeError>({"[scaled_dot_product_attention]", "a multiple of those of key", "got 3 and 2"},
                        [] {
                          nd.scaled_dot_product_attention(ones({1, 3, 2, 4}), ones({1, 2, 2, 4}), ones({1, 2, 2, 4}));
                        }),
      wrong<ShapeError>({"[scaled_dot_product_attention]", "mask must broadcast to (1, 2, 3, 4)", "got (3, 3)"},
                        [] {
                          const NDArray query = ones({1, 2, 3, 5}), key = ones({1, 2, 4, 5});
                          nd.scaled_dot_product_attention(query, key, key, ones({3, 3}), {.use_mask = true});
                        }),
      wrong<ShapeError>(
          {"[_backward_scaled_dot_product_attention]", "logsum must have shape (1, 1, 2)", "got (1, 1, 3)"},
          [] {
            const NDArray x = ones({1, 1, 2, 3}), sums = ones({1, 1, 3});
            nd._backward_scaled_dot_product_attention(std::array{&x, &x, &sums, &x, &x, &x}, {});
          }),
      wrong<ShapeError>({"[cache_append]", "data must have the shape of cache, with at most 4 steps", "(1, 2, 5, 3)"},
                        [] {
                          nd.cache_append(ones({1, 2, 4, 3}), ones({1, 2, 5, 3}), ones({1}));
                        }),
      wrong<ValueError>({"[cache_append]", "has 0 outputs, got 1 arrays for them"},
                        [] {
                          nd.call(op::CacheAppend{}, ones({1, 2, 4, 3}), ones({1, 2, 1, 3}), ones({1}));
                        }),
      wrong<ShapeError>({"[cache_append]", "position must have shape (1,) or (3,)", "got (2,)"},
                        [] {
                          nd.cache_append(ones({3, 2, 4, 3}), ones({3, 2, 1, 3}), ones({2}));
                        }),
      wrong<ShapeError>({"[rotary_embedding]", "positions must have shape (3,) or (batch, 3)", "(4,)"},
                        [] {
                          nd.rotary_embedding(ones({2, 3, 4}), ones({4}));
                        }),
      wrong<ShapeError>({"[CTCLoss]", "label must have 2 rows of at most 3 labels", "(2, 4)"},
                        [] {
                          nd.CTCLoss(ones({3, 2, 4}), ones({2, 4}));
                        }),
      wrong<ShapeError>({"[CTCLoss]", "at least one class", "(3, 2, 0)"},
                        [] {
                          nd.CTCLoss(ones({3, 2, 0}), ones({2, 1}));
                        }),
      wrong<ShapeError>({"[_rnn_scan]", "weight must have 4 rows per unit", "(6, 1)"},
                        [] {
                          const NDArray gates = ones({1, 1, 6}), weight = ones({6, 1}), state = ones({1, 2});
                          nd._rnn_scan(std::array{&gates, &weight, &state}, {});
                        }),
      wrong<ShapeError>({"[Crop]", "3 rows from 1 on", "(1, 1, 3, 3)"},
                        [] {
                          nd.Crop(ones({1, 1, 3, 3}), {.offset = {1, 0}, .h_w = {3, 3}});
                        }),
      wrong<ShapeError>({"[Pooling]", "kernel (3, 3)", "(1, 1, 2, 2)"},
                        [] {
                          nd.Pooling(ones({1, 1, 2, 2}), {.kernel = {3, 3}});
                        }),
      wrong<ShapeError>({"[reshape]", "(2, 3)", "(4, 2)", "number of elements"},
                        [] {
                          ones({2, 3}).reshape({4, 2});
                        }),
      wrong<ShapeError>({"[Reshape]", "(2, 3)", "(-1, -1)", "only one dimension may be -1"},
                        [] {
                          nd.reshape(ones({2, 3}), {-1, -1});
                        }),
      wrong<ShapeError>({"[Concat]", "all dimensions but dim 1 must be equal", "input 0 is (2, 3), input 1 is (3, 4)"},
                        [] {
                          nd.concat(ones({2, 3}), ones({3, 4}));
                        }),
      wrong<ShapeError>({"[stack]", "input 1 must have shape (2, 3)", "got (2, 4)"},
                        [] {
                          nd.stack(ones({2, 3}), ones({2, 4}));
                        }),
      wrong<ShapeError>({"[SliceChannel]", "axis 1", "(2, 5)", "2 parts"},
                        [] {
                          nd.split(ones({2, 5}), 2);
                        }),
      wrong<ShapeError>({"[sum]", "axis 2", "2 dimensions"},
                        [] {
                          nd.sum(ones({2, 3}), {.axis = Shape(2)});
                        }),
      wrong<ShapeError>({"[sum]", "axis 0", "twice"},
                        [] {
                          nd.sum(ones({2, 3}), {.axis = {0, 0}});
                        }),
      wrong<ShapeError>({"[max]", "at least one element", "(3, 0)"},
                        [] {
                          nd.max(ones({3, 0}));
                        }),
      wrong<ShapeError>({"[softmax]", "axis -3", "2 dimensions"},
                        [] {
                          nd.softmax(ones({2, 3}), {.axis = -3});
                        }),
      wrong<ShapeError>({"[transpose]", "axes (0, 0)", "(2, 3)"},
                        [] {
                          nd.transpose(ones({2, 3}), {0, 0});
                        }),
      wrong<ShapeError>({"[broadcast_to]", "(2, 3)", "(2, 4)"},
                        [] {
                          nd.broadcast_to(ones({2, 3}), {2, 4});
                        }),
      wrong<ShapeError>({"[slice]", "one entry per leading axis", "(2, 3)"},
                        [] {
                          nd.slice(ones({2, 3}), {0, 0, 0}, {1, 1, 1});
                        }),
      wrong<ShapeError>({"[slice_axis]", "[1, 5)", "axis 0", "(2, 3)"},
                        [] {
                          nd.slice_axis(ones({2, 3}), 0, 1, 5);
                        }),
      wrong<ShapeError>({"[argmax]", "dtype float16", "2050 elements", "(1, 2050)"},
                        [] {
                          nd.argmax(ones({1, 2050}, half), {.axis = 1});
                        }),
      wrong<ShapeError>({"[argmin]", "dtype uint8", "258 elements"},
                        [] {
                          nd.argmin(ones({2, 129}, DType::uint8));
                        }),
      wrong<ShapeError>({"[squeeze]", "axis 0", "(2, 3)"},
                        [] {
                          nd.squeeze(ones({2, 3}), Shape(0));
                        }),
      wrong<ShapeError>({"[where]", "y must have shape (2, 3)", "got (3, 2)"},
                        [] {
                          nd.where(ones({2, 3}), ones({2, 3}), ones({3, 2}));
                        }),
      wrong<ShapeError>({"[BatchNorm]", "gamma must have shape (3,)", "got (4,)"},
                        [] {
                          nd.BatchNorm(ones({2, 3}), ones({4}), ones({3}), ones({3}), ones({3}), {});
                        }),
      wrong<ShapeError>({"[sgd_update]", "grad must have shape (3,)", "got (4,)"},
                        [] { nd.sgd_update(ones({3}), ones({4}), {.lr = 1}); }),
      wrong<ShapeError>({"[_zeros]", "(4294967296, 4294967296)", "too large"},
                        [] {
                          nd.zeros({int64_t(1) << 32, int64_t(1) << 32});
                        }),
      wrong<ShapeError>({"[empty]", "(4294967296, 4294967296)", "too large"},
                        [] {
                          NDArray::empty({int64_t(1) << 32, int64_t(1) << 32});
                        }),
      wrong<ShapeError>({"[reshape]", "(4294967296, 4294967296, -1)", "too large"},
                        [] {
                          ones({2, 3}).reshape({int64_t(1) << 32, int64_t(1) << 32, -1});
                        }),
      wrong<ShapeError>({"[reshape]", "(0, 4)", "(4611686018427387904, 0, 4)"},
                        [] {
                          ones({0, 4}).reshape({int64_t(1) << 62, 0, 4});
                        }),
      wrong<ShapeError>({"[_backward_SoftmaxOutput]", "label must have shape (4,)", "got (1,)"},
                        [] {
                          nd._backward_SoftmaxOutput(ones({4, 3}), ones({1}), {});
                        }),
      wrong<ShapeError>({"[asscalar]", "one element", "(2, 3)"},
                        [] {
                          ones({2, 3}).asscalar<float>();
                        }),
      wrong<ShapeError>({"[array]", "6", "(2, 2)"},
                        [] {
                          nd.array({1, 2, 3, 4, 5, 6}, {2, 2});
                        }),
      wrong<ShapeError>({"[broadcast_add]", "(2, 3)", "(3,)"},
                        [] {
                          NDArray x = ones({3});
                          x += ones({2, 3});
                        }),
      wrong<ShapeError>({"[backward]", "(3, 2)", "(2, 3)"},
                        [] {
                          NDArray x;
                          recorded(x).backward(ones({3, 2}));
                        }),
  };
}

std::vector<Wrong> types() {
  return {
      wrong<TypeError>({"[RNN]", "one dtype", "float32 and float16"},
                       [] {
                         nd.RNN(ones({2, 1, 1}), ones({10}, half), ones({1, 1, 2}),
                                {.state_size = 2, .num_layers = 1, .mode = RnnMode::rnn_tanh});
                       }),
      wrong<TypeError>(
          {"[RNN]", "sequence_length must be numbers", "bool"},
          [] {
            nd.RNN(ones({2, 1, 1}), ones({10}), ones({1, 1, 2}), ones({1}, DType::boolean),
                   {.state_size = 2, .num_layers = 1, .mode = RnnMode::rnn_tanh, .use_sequence_length = true});
          }),
      wrong<TypeError>({"[scaled_dot_product_attention]", "one dtype", "float32 and float16"},
                       [] {
                         const NDArray x = ones({1, 1, 2, 2});
                         nd.scaled_dot_product_attention(x, x, ones({1, 1, 2, 2}, half));
                       }),
      wrong<TypeError>({"[scaled_dot_product_attention]", "mask must be bool or float32", "got int32"},
                       [] {
                         const NDArray x = ones({1, 1, 2, 2});
                         nd.scaled_dot_product_attention(x, x, x, ones({2, 2}, whole), {.use_mask = true});
                       }),
      wrong<TypeError>({"[cache_append]", "one dtype", "float32 and float16"},
                       [] {
                         nd.cache_append(ones({1, 1, 2, 2}), ones({1, 1, 1, 2}, half), ones({1}));
                       }),
      wrong<TypeError>({"[CTCLoss]", "labels and lengths must be numbers", "bool"},
                       [] {
                         nd.CTCLoss(ones({3, 2, 4}), ones({2, 1}, DType::boolean));
                       }),
      wrong<TypeError>({"[broadcast_add]", "one dtype", "float32 and int32"}, [] { ones({2}) + ones({2}, whole); }),
      wrong<TypeError>({"[dot]", "one dtype", "float32 and float16"},
                       [] {
                         nd.dot(ones({2, 2}), ones({2, 2}, half));
                       }),
      wrong<TypeError>({"[exp]", "floating dtype", "int32"}, [] { nd.exp(ones({2}, whole)); }),
      wrong<TypeError>({"[logaddexp]", "floating dtype", "int32"},
                       [] { nd.logaddexp(ones({2}, whole), ones({2}, whole)); }),
      wrong<TypeError>({"[mean]", "floating dtype", "int32"}, [] { nd.mean(ones({2}, whole)); }),
      wrong<TypeError>({"[relu]", "bool"}, [] { nd.relu(ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[nansum]", "bool", "use cast"}, [] { nd.nansum(ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[_backward_gather_nd]", "not implemented", "bool"},
                       [] {
                         nd._backward_gather_nd(ones({2}, DType::boolean), ones({1, 2}), {.shape = {3}});
                       }),
      wrong<ValueError>({"[_arange]", "infer_range is not implemented", "give stop"},
                        [] { nd.arange(5, {.infer_range = true}); }),
      wrong<ValueError>({"[_pooling_along]", "lp is not implemented"},
                        [] {
                          const NDArray x = ones({1, 1, 2, 2});
                          nd._pooling_along(x, x, ones({1, 1, 1, 1}), {.kernel = {2, 2}, .pool_type = PoolType::lp});
                        }),
      wrong<TypeError>({"[kernel]", "not implemented", "int32"},
                       [] { dispatch_float("kernel", DType::int32, []<class T>() {}); }),
      wrong<TypeError>({"[_random_uniform]", "not implemented", "bool"},
                       [] { nd.random_uniform({2}, {.dtype = DType::boolean}); }),
      wrong<TypeError>({"[_plus_scalar]", "1.5", "int32"}, [] { ones({2}, whole) + 1.5; }),
      wrong<TypeError>({"[softmax]", "floating dtype", "int64"}, [] { nd.softmax(ones({2}, DType::int64)); }),
      wrong<TypeError>(
          {"[_backward_LayerNorm]", "one dtype"},
          [] {
            nd._backward_LayerNorm(ones({2, 3}, DType::float64), ones({2, 3}), ones({3}), ones({2}), ones({2}), {});
          }),
      wrong<TypeError>({"[_backward_LayerNorm]", "mean and std", "float32", "float16"},
                       [] {
                         nd._backward_LayerNorm(ones({2, 3}, half), ones({2, 3}, half), ones({3}, half),
                                                ones({2}, half), ones({2}, half), {});
                       }),
      wrong<TypeError>({"[_sample_multinomial]", "299", "uint8"},
                       [] { nd.sample_multinomial(ones({300}), {.dtype = DType::uint8}); }),
      wrong<TypeError>({"[attach_grad]", "floating dtype", "int32"}, [] { ones({2}, whole).attach_grad(); }),
      wrong<TypeError>({"[broadcast_add]", "one dtype", "int32 and float32"},
                       [] {
                         NDArray x = ones({2}, whole);
                         x += ones({2});
                       }),
      wrong<TypeError>({"[Embedding]", "float16", "float32"},
                       [] {
                         nd.Embedding(ones({2}), ones({4, 2}), {.input_dim = 4, .output_dim = 2, .dtype = half});
                       }),
  };
}

NDArray called(const op::RNN& op) {
  const NDArray x = ones({2, 1, 1}), parameters = ones({10}), state = ones({1, 1, 2});
  return op.mode == RnnMode::lstm ? nd.RNN(x, parameters, state, state, op) : nd.RNN(x, parameters, state, op);
}

std::vector<Wrong> values() {
  constexpr RnnMode plain = RnnMode::rnn_tanh;
  return {
      wrong<ValueError>({"[RNN]", "state_size must be at least 1", "0"},
                        [] { called({.num_layers = 1, .mode = plain}); }),
      wrong<ValueError>({"[RNN]", "num_layers must be at least 1", "0"},
                        [] { called({.state_size = 2, .mode = plain}); }),
      wrong<ValueError>({"[RNN]", "p must lie in [0, 1]", "1.5"},
                        [] { called({.state_size = 2, .num_layers = 1, .mode = plain, .p = 1.5}); }),
      wrong<ValueError>({"[RNN]", "projection_size", "for mode lstm", "3"},
                        [] { called({.state_size = 2, .num_layers = 1, .mode = plain, .projection_size = 3}); }),
      wrong<ValueError>({"[RNN]", "lstm_state_clip_min and lstm_state_clip_max come together"},
                        [] { called({.state_size = 2, .num_layers = 1, .lstm_state_clip_min = 0}); }),
      wrong<ValueError>(
          {"[RNN]", "must not exceed", "1.0, 0.0"},
          [] { called({.state_size = 2, .num_layers = 1, .lstm_state_clip_min = 1, .lstm_state_clip_max = 0}); }),
      wrong<ValueError>({"[RNN]", "takes 4 inputs", "got 3"},
                        [] {
                          nd.RNN(ones({2, 1, 1}), ones({10}), ones({1, 1, 2}), {.state_size = 2, .num_layers = 1});
                        }),
      wrong<ValueError>({"[CTCLoss]", "takes 3 inputs", "got 2"},
                        [] {
                          nd.CTCLoss(ones({3, 2, 4}), ones({2, 1}), {.use_data_lengths = true});
                        }),
      wrong<ValueError>({"[scaled_dot_product_attention]", "scale must be finite", "nan"},
                        [] {
                          const NDArray x = ones({1, 1, 2, 2});
                          nd.scaled_dot_product_attention(x, x, x, {.scale = NAN});
                        }),
      wrong<ValueError>({"[rotary_embedding]", "dims must be even and at most 4", "got 3"},
                        [] {
                          nd.rotary_embedding(ones({2, 4}), {.dims = 3});
                        }),
      wrong<ValueError>({"[rotary_embedding]", "base must be positive and finite", "got 0"},
                        [] {
                          nd.rotary_embedding(ones({2, 4}), {.base = 0});
                        }),
      wrong<ValueError>({"[_rnn_parameters]", "state_size must be at least 1"},
                        [] { nd._rnn_parameters(ones({1}), {.state_size = 0}); }),
      wrong<ValueError>({"[clip]", "a_min must not exceed a_max", "2", "1"}, [] { nd.clip(ones({2}), 2, 1); }),
      wrong<ValueError>({"[clip]", "no integer", "0.2", "0.8"}, [] { nd.clip(ones({2}, whole), 0.2, 0.8); }),
      wrong<ValueError>({"[_div_scalar]", "uint8", "300"}, [] { ones({2}, DType::uint8) / 300; }),
      wrong<ValueError>({"[_mod_scalar]", "uint8", "300"}, [] { ones({2}, DType::uint8) % 300; }),
      wrong<ValueError>({"[_power_scalar]", "uint8", "-1"}, [] { nd.power(ones({2}, DType::uint8), -1); }),
      wrong<ValueError>({"[_plus_scalar]", "int64", "1e+30"}, [] { ones({2}, whole) + 1e30; }),
      wrong<ValueError>({"[sgd_update]", "lr", "NaN"}, [] { nd.sgd_update(ones({3}), ones({3}), {.lr = NAN}); }),
      wrong<ValueError>({"[_full]", "int8", "-129"}, [] { nd.full({2}, -129, {.dtype = DType::int8}); }),
      wrong<ValueError>({"[_full]", "int64", "9.223372036854776e+18"},
                        [] { nd.full({2}, 0x1p63, {.dtype = DType::int64}); }),
      wrong<ValueError>({"[_full]", "int32", "nan"}, [] { ones({2}, whole).copy().assign(NAN); }),
      wrong<ValueError>({"[Pad]", "constant_value", "uint8", "256"},
                        [] {
                          nd.pad(ones({2}, DType::uint8), {.pad_width = {1, 1}, .constant_value = 256});
                        }),
      wrong<ValueError>({"[Pad]", "pad_width", "too large"},
                        [] {
                          nd.pad(ones({2}), {.pad_width = {INT64_MAX, 1}});
                        }),
      wrong<ValueError>({"[one_hot]", "on_value", "uint8", "300"},
                        [] { nd.one_hot(ones({2}), 3, {.on_value = 300, .dtype = DType::uint8}); }),
      wrong<ValueError>({"[SequenceMask]", "value", "int32", "inf"},
                        [] {
                          nd.SequenceMask(ones({2, 2}, whole), {.value = INFINITY});
                        }),
      wrong<ValueError>(
          {"[_slice_assign_scalar]", "scalar", "uint8", "-1"},
          [] { nd._slice_assign_scalar(ones({2}, DType::uint8), {.begin = {0}, .end = {1}, .scalar = -1}); }),
      wrong<ValueError>({"[tile]", "too many", "4611686018427387904"}, [] { nd.tile(ones({4}), {int64_t(1) << 62}); }),
      wrong<ValueError>({"[_backward_max]", "counted from the front", "(-1,)"},
                        [] {
                          nd._backward_max(ones({2}), ones({2, 3}), ones({2}), {.axis = Shape(-1)});
                        }),
      wrong<ValueError>({"[_random_uniform]", "float16", "1000000"},
                        [] { nd.random_uniform({2}, {.high = 1e6, .dtype = half}); }),
      wrong<ValueError>({"[_contrib_BilinearResize2D]", "at least one pixel", "0 x 2"},
                        [] {
                          nd.BilinearResize2D(ones({1, 1, 2, 2}), {.height = 0, .width = 2});
                        }),
      wrong<ValueError>({"[_contrib_BilinearResize2D]", "scale_height must be positive", "None"},
                        [] {
                          nd.BilinearResize2D(ones({1, 1, 2, 2}), {.mode = ResizeMode::odd_scale});
                        }),
      wrong<ValueError>({"[_contrib_AdaptiveAvgPooling2D]", "output_size must be", "(1, 2, 3)"},
                        [] {
                          nd.AdaptiveAvgPooling2D(ones({1, 1, 2, 2}), {1, 2, 3});
                        }),
      wrong<ValueError>({"[UpSampling]", "scale must be at least 1", "0"},
                        [] {
                          nd.UpSampling(ones({1, 1, 2, 2}), {.scale = 0});
                        }),
      wrong<ValueError>({"[Crop]", "takes 3 inputs with these attributes, got 1"},
                        [] {
                          nd.Crop(ones({1, 1, 2, 2}), {.num_args = 3});
                        }),
      wrong<ValueError>({"[Pooling]", "kernel must be at most", "2097152"},
                        [] {
                          nd.Pooling(ones({1, 1, 4, 4}), {.kernel = {1 << 21, 2}});
                        }),
      wrong<ValueError>({"[Concat]", "num_args is -3", "2"},
                        [] {
                          nd.call(op::Concat{.num_args = -3}, In<NDArray>(ones({2, 2})), In<NDArray>(ones({2, 2})));
                        }),
      wrong<ValueError>({"[Concat]", "at most 65535 arrays", "70001"},
                        [] {
                          const std::vector<NDArray> many(70000, ones({1}));
                          nd.concat(many, {.dim = 0});
                        }),
      wrong<ValueError>({"[softmax]", "temperature must be positive", "-1"},
                        [] { nd.softmax(ones({2}), {.temperature = -1}); }),
      wrong<ValueError>({"[Convolution]", "layout must be NCHW or NHWC", "got NWC"},
                        [] {
                          nd.Convolution(ones({1, 8, 8, 3}), ones({4, 3, 3, 3}),
                                         op::Convolution{.kernel = {3, 3}, .num_filter = 4, .layout = ConvLayout::NWC});
                        }),
      wrong<ShapeError>({"[Convolution]", "weight must have shape (4, 3, 3, 5)", "got (4, 5, 3, 3)"},
                        [] {
                          nd.Convolution(
                              ones({1, 8, 8, 5}), ones({4, 5, 3, 3}),
                              op::Convolution{.kernel = {3, 3}, .num_filter = 4, .layout = ConvLayout::NHWC});
                        }),
      wrong<ValueError>({"[Deconvolution]", "layout must be NCW or NWC", "got NCDHW"},
                        [] {
                          nd.Deconvolution(ones({1, 8, 3}), ones({3, 3, 4}),
                                           {.kernel = {3}, .num_filter = 4, .layout = ConvLayout::NCDHW});
                        }),
      wrong<ValueError>(
          {"[Pooling]", "layout must be NCDHW or NDHWC", "got NHWC"},
          [] {
            nd.Pooling(ones({1, 8, 8, 8, 3}), op::Pooling{.global_pool = true, .layout = ConvLayout::NHWC});
          }),
      wrong<ValueError>({"[_contrib_quantized_pooling]", "channels second", "got NHWC"},
                        [] {
                          nd.quantized_pooling(nd.zeros({1, 8, 8, 3}, {.dtype = DType::int8}), ones({1}), ones({1}),
                                               {.kernel = {2, 2}, .layout = ConvLayout::NHWC});
                        }),
      wrong<ValueError>({"[_contrib_DeformableConvolution]", "layout must be NCHW for", "got NHWC"},
                        [] {
                          nd.DeformableConvolution(
                              ones({1, 3, 8, 8}), ones({1, 18, 6, 6}), ones({4, 3, 3, 3}),
                              {.kernel = {3, 3}, .num_filter = 4, .no_bias = true, .layout = ConvLayout::NHWC});
                        }),
      wrong<ValueError>({"[Convolution]", "stride must be at least 1", "(0, 1)"},
                        [] {
                          nd.Convolution(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}),
                                         op::Convolution{.kernel = {3, 3}, .stride = {0, 1}, .num_filter = 4});
                        }),
      wrong<ValueError>({"[Dropout]", "p must", "1.5"}, [] { nd.Dropout(ones({2}), {.p = 1.5}); }),
      wrong<ValueError>({"[scaled_dot_product_attention]", "dropout must lie in [0, 1], got 1.5"},
                        [] {
                          const NDArray x = ones({1, 1, 2, 2});
                          nd.scaled_dot_product_attention(x, x, x, {.dropout = 1.5});
                        }),
      wrong<ValueError>({"[norm]", "ord must be 1 or 2", "3"}, [] { nd.norm(ones({2}), {.ord = 3}); }),
      wrong<ValueError>({"[repeat]", "repeats", "-1"}, [] { nd.repeat(ones({2}), -1); }),
      wrong<ValueError>({"[polygamma]", "n must be 1 to 100", "0"}, [] { nd.polygamma(ones({2}), {.n = 0}); }),
      wrong<ValueError>(
          {"[Deconvolution]", "target_shape (4,) needs adj 1", "smaller than stride 1"},
          [] {
            nd.Deconvolution(ones({1, 1, 3}), ones({1, 1, 3}), {.kernel = {3}, .target_shape = {4}, .num_filter = 1});
          }),
      wrong<ValueError>({"[_arange]", "step 0.5", "int32"}, [] { nd.arange(0, 3, {.step = 0.5, .dtype = whole}); }),
      wrong<ValueError>({"[slice]", "step must not be 0"}, [] { nd.slice(ones({4}), {0}, {4}, {0}); }),
      wrong<ValueError>({"[one_hot]", "depth must not be negative", "-1"}, [] { nd.one_hot(ones({2}), -1); }),
      wrong<ValueError>({"[broadcast_sub]", "needs an array", "two numbers"}, [] { nd.subtract(1, 2); }),
      wrong<ValueError>({"[backward]", "1 heads", "2 head gradients"},
                        [] {
                          NDArray x;
                          const NDArray y = recorded(x), heads[] = {ones({2, 3}), ones({2, 3})};
                          autograd::backward(std::span(&y, 1), heads);
                        }),
      wrong<IndexError>({"[NDArray]", "index 3", "(3, 2)"},
                        [] {
                          ones({3, 2})[3];
                        }),
      wrong<IndexError>({"[NDArray]", "index -4", "(3, 2)"},
                        [] {
                          ones({3, 2})[-4];
                        }),
      wrong<IndexError>({"[take]", "7", "5"},
                        [] {
                          nd.take(ones({5, 2}), nd.array({0, 7}), {.mode = IndexMode::raise}).wait_to_read();
                        }),
      wrong<IndexError>({"[gather_nd]", "7", "5"},
                        [] {
                          nd.gather_nd(ones({5}), nd.array({{7, 0}})).wait_to_read();
                        }),
      wrong<ValueError>({"[_random_normal]", "scale must not be negative", "-1"},
                        [] { nd.random_normal({2}, {.scale = -1}).wait_to_read(); }),
  };
}

std::vector<Wrong> signals() {
  const auto reshape = [](const Shape& from, const Shape& to) {
    return [=] { nd._npx_reshape(ones(from), {.newshape = to}); };
  };
  return {
      wrong<TypeError>({"[_contrib_fft]", "floating dtype", "int32"}, [] { nd.fft(ones({2}, whole)); }),
      wrong<ValueError>({"[_contrib_fft]", "compute_size must be at least 1", "0"},
                        [] { nd.fft(ones({2}), {.compute_size = 0}); }),
      wrong<ShapeError>({"[_contrib_ifft]", "an even number", "(2, 3)"},
                        [] {
                          nd.ifft(ones({2, 3}));
                        }),
      wrong<ShapeError>({"[_contrib_count_sketch]", "each of the 3 columns", "(2,)"},
                        [] {
                          nd.count_sketch(ones({2, 3}), ones({2}), ones({3}), {.out_dim = 4});
                        }),
      wrong<ValueError>({"[_contrib_count_sketch]", "out_dim must be at least 1", "0"},
                        [] { nd.count_sketch(ones({3}), ones({3}), ones({3}), {}); }),
      wrong<TypeError>({"[_contrib_hawkesll]", "float32 or float64", "float16"},
                       [] {
                         const NDArray a = ones({1, 1}, half), b = ones({1}, half);
                         nd.hawkesll(a, b, b, a, a, ones({1, 1}, whole), b, b);
                       }),
      wrong<ShapeError>({"[_contrib_hawkesll]", "(2,)", "(3,)"},
                        [] {
                          const NDArray a = ones({1, 2}), b = ones({3}), n = ones({1});
                          nd.hawkesll(a, b, b, a, a, ones({1, 2}, whole), n, n);
                        }),
      wrong<ShapeError>({"[SVMOutput]", "2 dimensions", "(2,)"}, [] { nd.SVMOutput(ones({2}), ones({2})); }),
      wrong<ValueError>({"[IdentityAttachKLSparseReg]", "sparseness_target must lie between 0 and 1", "1"},
                        [] {
                          nd.IdentityAttachKLSparseReg(ones({2, 3}), ones({3}), {.sparseness_target = 1});
                        }),
      wrong<TypeError>({"[_contrib_BatchNormWithReLU]", "dtype of data", "float64"},
                       [] {
                         const NDArray c = ones({3}, DType::float64);
                         nd.BatchNormWithReLU(ones({2, 3}), c, c, c, c);
                       }),
      wrong<ValueError>({"[_contrib_SparseEmbedding]", "must be positive", "0"},
                        [] { nd.call(op::SparseEmbedding{}, ones({2}), ones({2})); }),
      wrong<TypeError>({"[_npi_equal]", "float32", "int32"}, [] { nd._npi_equal(ones({2}), ones({2}, whole)); }),
      wrong<ShapeError>({"[_npi_less]", "(2,)", "(3,)"}, [] { nd._npi_less(ones({2}), ones({3})); }),
      wrong<ShapeError>({"[_np_reshape]", "cannot reshape (2, 3) to (4, -1)", "no number"},
                        [] {
                          nd._np_reshape(ones({2, 3}), {.newshape = {4, -1}});
                        }),
      wrong<ValueError>({"[_np_reshape]", "order must be C", "F"},
                        [] { nd._np_reshape(ones({2}), {.newshape = {2}, .order = {"F"}}); }),
      wrong<ShapeError>({"[_npx_reshape]", "-3 leaves a dimension of 1 out"}, reshape({2, 3}, {-3, 3})),
      wrong<ShapeError>({"[_npx_reshape]", "take more dimensions than there are"}, reshape({2}, {-5})),
      wrong<ShapeError>({"[_npx_reshape]", "two sizes after it"}, reshape({4}, {-6, 2})),
      wrong<ShapeError>({"[_npx_reshape]", "codes are -6 and above"}, reshape({4}, {-7})),
      wrong<ValueError>({"[_npi_powerd]", "a must be positive", "0"}, [] { nd.random_power({2}, {.a = 0}); }),
      wrong<TypeError>({"[random_truncated_normal]", "not implemented", "float16"},
                       [] { nd.random_truncated_normal({2}, {.dtype = DType::float16}); }),
      wrong<ValueError>({"[random_truncated_normal]", "low must not exceed high", "3.0 and 2.0"},
                        [] { nd.random_truncated_normal({2}, {.low = 3}); }),
      wrong<ShapeError>({"[random_dirichlet]", "at least one class", "(2, 0)"},
                        [] {
                          nd.random_dirichlet(ones({2, 0}));
                        }),
      wrong<ShapeError>({"[_npi_choice]", "at most 3 numbers", "(4,)"},
                        [] { nd.random_choice(3, {4}, {.replace = false}); }),
      wrong<ValueError>({"[_npi_multinomial]", "n must not be negative", "-1"},
                        [] { nd.random_multinomial(-1, ones({2})); }),
      wrong<ValueError>({"[Custom]", "op_type 'no such' is not registered"}, [] { nd.Custom(ones({2}), "no such"); }),
  };
}

std::vector<Wrong> states() {
  return {
      wrong<StateError>({"[NDArray]", "holds no array"}, [] { NDArray().shape(); }),
      wrong<StateError>({"[relu]", "input 0 (data)", "holds no array"}, [] { nd.relu(NDArray()); }),
      wrong<StateError>({"[broadcast_add]", "input 1 (rhs)", "holds no array"}, [] { ones({2}) + NDArray(); }),
      wrong<StateError>({"[backward]", "not part of a recorded computation", "autograd::record"},
                        [] { ones({2}).backward(); }),
      wrong<StateError>({"[backward]", "[square]", "freed", "retain_graph"},
                        [] {
                          NDArray x;
                          const NDArray y = recorded(x);
                          y.backward();
                          y.backward();
                        }),
      wrong<StateError>({"in place", "recorded computation", "x = x + y"},
                        [] {
                          NDArray x = ones({2});
                          x.attach_grad();
                          autograd::record([&] { x += 1; });
                        }),
      wrong<StateError>({"[assign]", "recorded computation"},
                        [] {
                          NDArray x = ones({2});
                          x.attach_grad();
                          autograd::record([&] { x.assign(1); });
                        }),
      wrong<StateError>({"[grad]", "variable 0", "attach_grad"},
                        [] {
                          NDArray x;
                          const NDArray y = recorded(x);
                          autograd::grad(y, ones({2}));
                        }),
      wrong<StateError>({"[Parameter]", "is not initialized", "net.initialize()"},
                        [] {
                          gluon::nn::Dense(3)(ones({2, 4}));
                        }),
      wrong<DeviceError>({"[_ones]", "gpu(99)"}, [] { nd.ones({2}, {.device = gpu(99)}); }),
      wrong<DeviceError>({"[as_in_context]", "gpu(99)"}, [] { ones({2}).as_in_context(gpu(99)); }),
      wrong<TraceError>({"shape of data", "not known", "sym.var(\"data\", {1, 3, 224, 224})"},
                        [] { sym.var("data").shape(); }),
      wrong<ShapeError>({"[dot]", "in node bad"},
                        [] {
                          sym.as("bad").dot(sym.var("a", {2, 3}), sym.var("b", {2, 3}));
                        }),
      wrong<ValueError>({"[hybridize]", "static_shape requires static_alloc"},
                        [] { CachedGraph(sym.var("x"), {"x"}, {.static_shape = true}, "net"); }),
  };
}

// Recurrent layers and cells.
std::vector<Wrong> recurrent() {
  namespace rnn = gluon::rnn;
  using List = std::vector<NDArray>;
  const auto cell = [] {
    rnn::LSTMCell c(3);
    c.initialize();
    return c;
  };
  const auto lstm = [] {
    rnn::LSTM layer(3);
    layer.initialize();
    return layer;
  };
  const auto both = [] { return rnn::BidirectionalCell(rnn::RNNCell(2), rnn::RNNCell(2)); };
  return {
      wrong<ValueError>({"[lstm]", "2 states are expected", "got 1"},
                        [=] {
                          cell()(ones({2, 3}), {ones({2, 3})});
                        }),
      wrong<ValueError>({"[lstm]", "2 states are expected", "got 1"},
                        [=] {
                          cell().unroll(4, ones({2, 4, 3}), {ones({2, 3})});
                        }),
      wrong<ShapeError>({"[unroll] lstm", "layout NTC", "5 steps along axis 1", "(2, 4, 3)"},
                        [=] {
                          cell().unroll(5, ones({2, 4, 3}));
                        }),
      wrong<ShapeError>({"[unroll] lstm", "layout TNC", "4 steps along axis 0", "(2, 4, 3)"},
                        [=] {
                          cell().unroll(4, sym.var("x", {2, 4, 3}), {}, rnn::Layout::TNC);
                        }),
      wrong<ValueError>({"[unroll] lstm", "length must be at least 1", "got 0"},
                        [=] {
                          cell().unroll(0, ones({2, 4, 3}));
                        }),
      wrong<ValueError>({"[unroll] lstm", "2 arrays, one for each step", "got 1"},
                        [=] {
                          cell().unroll(2, List{ones({2, 3})});
                        }),
      wrong<ValueError>({"[gru]", "hidden_size must be at least 1", "got 0"}, [] { rnn::GRUCell(0); }),
      wrong<ValueError>({"[gru]", "input_size must be at least 0", "got -1"},
                        [] { rnn::GRUCell(2, {.input_size = -1}); }),
      wrong<ValueError>({"[lstmp]", "projection_size must be at least 1", "got 0"}, [] { rnn::LSTMPCell(2, 0); }),
      wrong<ShapeError>({"[lstm]", "the shared i2h_weight must have shape (16, 0)", "got (12, 0)"},
                        [=] {
                          const rnn::LSTMCell c = cell();
                          rnn::LSTMCell(4, {}, {c.i2h_weight, c.h2h_weight, c.i2h_bias, c.h2h_bias});
                        }),
      wrong<IndexError>({"[sequentialrnncell]", "cell 0 does not exist", "there are 0"},
                        [] { rnn::SequentialRNNCell()[0]; }),
      wrong<ValueError>({"[bidirectionalcell]", "needs the whole sequence", "unroll()"},
                        [=] {
                          both()(ones({2, 3}), {ones({2, 2}), ones({2, 2})});
                        }),
      wrong<ValueError>({"[ZoneoutCell]", "must make single steps", "bidirectionalcell"},
                        [=] { rnn::ZoneoutCell(both(), {.zoneout_outputs = 0.5}); }),
      wrong<ValueError>({"[VariationalDropoutCell]", "must make single steps", "bidirectionalcell"},
                        [=] { rnn::VariationalDropoutCell(both(), {.drop_states = 0.5}); }),
      wrong<ValueError>({"[ZoneoutCell]", "zoneout_states must lie in [0, 1)", "got 1"},
                        [=] { rnn::ZoneoutCell(cell(), {.zoneout_states = 1}); }),
      wrong<ValueError>({"[DropoutCell]", "rate must lie in [0, 1)", "got -0.5"}, [] { rnn::DropoutCell(-0.5); }),
      wrong<ValueError>({"[ConvCell]", "h2h_kernel must be odd", "got (2,)"},
                        [] {
                          rnn::Conv1DRNNCell({2, 5}, 3, {.i2h_kernel = 3, .h2h_kernel = 2});
                        }),
      wrong<ValueError>({"[ConvCell]", "channels and 1 axes", "got (2, 5, 5)"},
                        [] {
                          rnn::Conv1DRNNCell({2, 5, 5}, 3, {.i2h_kernel = 3, .h2h_kernel = 3});
                        }),
      wrong<ValueError>({"[ConvCell]", "reaches over 3 places of axis 0", "has 2"},
                        [] {
                          rnn::Conv1DRNNCell({2, 2}, 3, {.i2h_kernel = 3, .h2h_kernel = 3});
                        }),
      wrong<ValueError>({"[ConvCell]", "hidden_channels must be at least 1", "got 0"},
                        [] {
                          rnn::Conv1DRNNCell({2, 5}, 0, {.i2h_kernel = 3, .h2h_kernel = 3});
                        }),
      wrong<ValueError>({"[LSTM]", "hidden_size must be at least 1", "got 0"}, [] { rnn::LSTM(0); }),
      wrong<ValueError>({"[GRU]", "num_layers must be at least 1", "got 0"}, [] { rnn::GRU(2, {.num_layers = 0}); }),
      wrong<ValueError>({"[GRU]", "input_size must be at least 0", "got -1"}, [] { rnn::GRU(2, {.input_size = -1}); }),
      wrong<ValueError>({"[GRU]", "dropout must lie in [0, 1)", "got 1"}, [] { rnn::GRU(2, {.dropout = 1}); }),
      wrong<ValueError>({"[RNN]", "activation must be relu or tanh", "got sigmoid"},
                        [] { rnn::RNN(2, {.activation = "sigmoid"}); }),
      wrong<ValueError>({"[LSTM]", "projection_size must be at least 1", "got 0"},
                        [] { rnn::LSTM(2, {.projection_size = 0}); }),
      wrong<ValueError>({"[LSTM]", "state_clip_min and state_clip_max come together"},
                        [] { rnn::LSTM(2, {.state_clip_min = 1.0}); }),
      wrong<ValueError>({"[lstm]", "unfuse", "state_clip_min is set"},
                        [] { rnn::LSTM(2, {.state_clip_min = -1.0, .state_clip_max = 1.0}).unfuse(); }),
      wrong<ValueError>({"[lstm]", "2 states are expected", "got 1"},
                        [=] {
                          lstm()(ones({2, 4, 3}), {ones({1, 4, 3})});
                        }),
      wrong<ShapeError>({"[lstm]", "three axes, TNC", "got shape (2, 3)"},
                        [=] {
                          lstm()(ones({2, 3}));
                        }),
      wrong<ShapeError>({"[RNN]", "state must have shape (1, 4, 3)", "(1, 2, 3)"},
                        [=] {
                          lstm()(ones({2, 4, 3}), {ones({1, 2, 3}), ones({1, 4, 3})});
                        }),
      wrong<ValueError>({"[lstm]", "sequence_length is given, but use_sequence_length is not set"},
                        [=] {
                          lstm()(ones({2, 4, 3}), List(), ones({4}));
                        }),
      wrong<ValueError>({"[gru]", "use_sequence_length", "data, states and sequence_length"},
                        [] {
                          rnn::GRU layer(3, {.use_sequence_length = true});
                          layer.initialize();
                          layer(ones({2, 4, 3}));
                        }),
  };
}

NDArray levels(const Shape& shape, DType t = DType::int8) { return nd.ones(shape, {.dtype = t}); }
NDArray bound(float x) { return nd.full({1}, x); }

// Quantised arrays.
std::vector<Wrong> quantised() {
  const auto layer = [](const Shape& data, const Shape& weight, DType t = DType::int8) {
    return std::vector{levels(data, t), levels(weight), bound(-1), bound(1), bound(-1), bound(1)};
  };
  return {
      wrong<ValueError>({"[_contrib_quantize]", "out_type must be int8 or uint8", "auto"},
                        [] { nd.quantize(ones({2}), bound(-1), bound(1), {.out_type = QuantType::automatic}); }),
      wrong<ShapeError>({"[_contrib_quantize]", "min_range must have shape (1,)", "(2,)"},
                        [] { nd.quantize(ones({2}), ones({2}), bound(1)); }),
      wrong<TypeError>({"[_contrib_quantize_v2]", "float32 or uint8", "int8"},
                       [] { nd.quantize_v2(levels({2}), {.out_type = QuantType::uint8}); }),
      wrong<TypeError>({"[_contrib_quantize_asym]", "float32", "float16"}, [] { nd.quantize_asym(ones({2}, half)); }),
      wrong<TypeError>({"[_contrib_dequantize]", "int8 or uint8 or int32", "float32"},
                       [] { nd.dequantize(ones({2}), bound(-1), bound(1)); }),
      wrong<ValueError>({"[_contrib_dequantize]", "out_type must be float32", "float16"},
                        [] { nd.dequantize(levels({2}), bound(-1), bound(1), {.out_type = half}); }),
      wrong<TypeError>({"[_contrib_requantize]", "int32", "int8"},
                       [] { nd.requantize(levels({2}), bound(-1), bound(1)); }),
      wrong<ShapeError>({"[_contrib_calibrate_entropy]", "odd number of bins", "4"},
                        [] { nd.calibrate_entropy(ones({4}), ones({5}), {.num_quantized_bins = 3}); }),
      wrong<ValueError>({"[_contrib_calibrate_entropy]", "num_quantized_bins must be 1 to 5", "255"},
                        [] { nd.calibrate_entropy(ones({5}), ones({6})); }),
      wrong<ValueError>({"[_contrib_quantized_act]", "act_type must be relu", "tanh"},
                        [] { nd.quantized_act(levels({2}), bound(-1), bound(1), {.act_type = ActivationType::tanh}); }),
      wrong<ShapeError>({"[_contrib_quantized_flatten]", "min_data must have shape (1,)", "(3,)"},
                        [] {
                          nd.quantized_flatten(levels({2, 3}), ones({3}), bound(1));
                        }),
      wrong<ShapeError>(
          {"[_contrib_quantized_embedding]", "weight must have shape (4, 2)", "(3, 2)"},
          [] {
            nd.quantized_embedding(ones({2}), levels({3, 2}), bound(-1), bound(1), {.input_dim = 4, .output_dim = 2});
          }),
      wrong<ValueError>({"[_contrib_quantized_concat]", "takes 6 inputs", "got 7"},
                        [] { nd.quantized_concat(std::vector<NDArray>(7, bound(1))); }),
      wrong<TypeError>(
          {"[_contrib_quantized_elemwise_add]", "int8 or uint8", "float32"},
          [] { nd.quantized_elemwise_add(levels({2}), ones({2}), bound(-1), bound(1), bound(-1), bound(1)); }),
      wrong<TypeError>({"[_contrib_quantized_elemwise_mul]", "int8", "uint8"},
                       [] {
                         nd.quantized_elemwise_mul(levels({2}), levels({2}, DType::uint8), bound(-1), bound(1),
                                                   bound(-1), bound(1));
                       }),
      wrong<ValueError>({"[_contrib_quantized_batch_norm]", "output_mean_var is not implemented"},
                        [] {
                          nd.quantized_batch_norm(levels({2, 3}), ones({3}), ones({3}), ones({3}), ones({3}), bound(-1),
                                                  bound(1), {.output_mean_var = true});
                        }),
      wrong<ValueError>({"[_contrib_quantized_batch_norm]", "min_calib_range and max_calib_range"},
                        [] {
                          nd.quantized_batch_norm(levels({2, 3}), ones({3}), ones({3}), ones({3}), ones({3}), bound(-1),
                                                  bound(1), {});
                        }),
      wrong<ValueError>({"[_contrib_quantized_pooling]", "pool_type must be max or avg", "lp"},
                        [] {
                          nd.quantized_pooling(levels({1, 1, 3, 3}), bound(-1), bound(1),
                                               {.kernel = {2, 2}, .pool_type = PoolType::lp});
                        }),
      wrong<ShapeError>(
          {"[_contrib_quantized_conv]", "kernel (3, 3) exceeds the padded data"},
          [=] {
            nd.quantized_conv(layer({1, 2, 2, 2}, {4, 2, 3, 3}), {.kernel = {3, 3}, .num_filter = 4, .no_bias = true});
          }),
      wrong<TypeError>({"[_contrib_quantized_conv]", "int8 or uint8", "int32"},
                       [=] {
                         nd.quantized_conv(layer({1, 2, 3, 3}, {4, 2, 3, 3}, whole),
                                           {.kernel = {3, 3}, .num_filter = 4, .no_bias = true});
                       }),
      wrong<ShapeError>({"[_contrib_quantized_fully_connected]", "weight must have shape (4, 3)", "(4, 2)"},
                        [=] {
                          nd.quantized_fully_connected(layer({1, 3}, {4, 2}), {.num_hidden = 4, .no_bias = true});
                        }),
      wrong<TypeError>(
          {"[_sg_mkldnn_conv]", "int8 or uint8", "float32"},
          [] {
            const NDArray all[] = {ones({1, 2, 3, 3}), ones({4, 2, 3, 3}), bound(-1), bound(1)};
            nd._sg_mkldnn_conv(all, {.quantized = true, .kernel = {3, 3}, .num_filter = 4, .no_bias = true});
          }),
      wrong<ValueError>({"[_sg_mkldnn_conv]", "needs with_sum"},
                        [] {
                          const NDArray all[] = {ones({1, 2, 3, 3}), ones({4, 2, 3, 3})};
                          nd._sg_mkldnn_conv(
                              all,
                              {.kernel = {3, 3}, .num_filter = 4, .no_bias = true, .postsum_act = FusedKind::relu});
                        }),
      wrong<ValueError>({"[_sg_mkldnn_fully_connected]", "need quantized"},
                        [] {
                          const NDArray all[] = {ones({1, 3}), ones({4, 3})};
                          nd._sg_mkldnn_fully_connected(
                              all, {.enable_float_output = true, .num_hidden = 4, .no_bias = true});
                        }),
  };
}

// A weight whose gradient has another shape, for each update of one weight; and what is particular to some.
std::vector<Wrong> updates() {
  const std::vector<std::string> grad{"grad must have shape (3,)", "got (4,)"};
  std::vector<Wrong> rows;
  auto shape = [&](const char* name, std::function<void(const NDArray&, const NDArray&)> call) {
    rows.push_back(
        wrong<ShapeError>({"[" + std::string(name) + "]", grad[0], grad[1]}, [call] { call(ones({3}), ones({4})); }));
  };
  const NDArray s = ones({3}), one = ones({1});
  shape("mp_sgd_update", [=](auto& w, auto& g) { nd.mp_sgd_update(w, g, s, {.lr = 1}); });
  shape("sgd_mom_update", [=](auto& w, auto& g) { nd.sgd_mom_update(w, g, s, {.lr = 1}); });
  shape("mp_sgd_mom_update", [=](auto& w, auto& g) { nd.mp_sgd_mom_update(w, g, s, s, {.lr = 1}); });
  shape("nag_mom_update", [=](auto& w, auto& g) { nd.nag_mom_update(w, g, s, {.lr = 1}); });
  shape("mp_nag_mom_update", [=](auto& w, auto& g) { nd.mp_nag_mom_update(w, g, s, s, {.lr = 1}); });
  shape("signsgd_update", [=](auto& w, auto& g) { nd.signsgd_update(w, g, {.lr = 1}); });
  shape("signum_update", [=](auto& w, auto& g) { nd.signum_update(w, g, s, {.lr = 1}); });
  shape("rmsprop_update", [=](auto& w, auto& g) { nd.rmsprop_update(w, g, s, {.lr = 1}); });
  shape("rmspropalex_update", [=](auto& w, auto& g) { nd.rmspropalex_update(w, g, s, s, s, {.lr = 1}); });
  shape("ftrl_update", [=](auto& w, auto& g) { nd.ftrl_update(w, g, s, s, {.lr = 1}); });
  shape("ftml_update", [=](auto& w, auto& g) { nd.ftml_update(w, g, s, s, s, {.lr = 1, .t = 1}); });
  shape("adam_update", [=](auto& w, auto& g) { nd.adam_update(w, g, s, s, {.lr = 1}); });
  shape("_adamw_update", [=](auto& w, auto& g) { nd._adamw_update(w, g, s, s, one, {.lr = 1}); });
  shape("_mp_adamw_update", [=](auto& w, auto& g) { nd._mp_adamw_update(w, g, s, s, s, one, {.lr = 1}); });
  shape("_sparse_adagrad_update", [=](auto& w, auto& g) { nd._sparse_adagrad_update(w, g, s, {.lr = 1}); });
  shape("_contrib_group_adagrad_update", [=](auto& w, auto& g) { nd.group_adagrad_update(w, g, s, {.lr = 1}); });
  shape("lamb_update_phase1", [=](auto& w, auto& g) { nd.lamb_update_phase1(w, g, s, s, {.t = 1}); });
  shape("mp_lamb_update_phase1", [=](auto& w, auto& g) { nd.mp_lamb_update_phase1(w, g, s, s, s, {.t = 1}); });
  // Of many weights: arrays that make no groups.
  auto many = [&](const char* name, std::function<void(std::span<const NDArray>)> call) {
    rows.push_back(wrong<ShapeError>({"[" + std::string(name) + "]", "arrays for each of", "got 11 inputs"},
                                     [call] { call(std::vector<NDArray>(11, ones({3}))); }));
  };
  many("multi_sgd_update", [](auto a) { nd.multi_sgd_update(a, {.lrs = {1, 1, 1, 1, 1}, .wds = {1, 1, 1, 1, 1}}); });
  many("multi_sgd_mom_update", [](auto a) { nd.multi_sgd_mom_update(a, {.lrs = {1, 1, 1}, .wds = {1, 1, 1}}); });
  many("multi_mp_sgd_update", [](auto a) { nd.multi_mp_sgd_update(a, {.lrs = {1, 1, 1}, .wds = {1, 1, 1}}); });
  many("multi_mp_sgd_mom_update", [](auto a) { nd.multi_mp_sgd_mom_update(a, {.lrs = {1, 1}, .wds = {1, 1}}); });
  many("preloaded_multi_sgd_update", [](auto a) { nd.preloaded_multi_sgd_update(a, {}); });
  many("_multi_adamw_update", [](auto a) {
    nd._multi_adamw_update(a, {.lrs = {1, 1}, .wds = {1, 1}, .etas = {1, 1}});
  });
  many("_multi_lamb_update", [](auto a) {
    nd._multi_lamb_update(a, {.learning_rates = {1, 1}, .wds = {1, 1}, .step_count = {1, 1}});
  });
  many("_multi_mp_lamb_update", [](auto a) {
    nd._multi_mp_lamb_update(a, {.learning_rates = {1, 1}, .wds = {1, 1}, .step_count = {1, 1}});
  });
  const auto arrays = [](int n) { return std::vector<NDArray>(size_t(n), ones({3})); };
  for (Wrong& w : std::vector<Wrong>{
           wrong<ShapeError>({"[preloaded_multi_sgd_mom_update]", "must have shape (1,)", "got (3,)"},
                             [=] { nd.preloaded_multi_sgd_mom_update(arrays(5), {}); }),
           wrong<ShapeError>({"[preloaded_multi_mp_sgd_update]", "must have shape (1,)", "got (3,)"},
                             [=] { nd.preloaded_multi_mp_sgd_update(arrays(5), {}); }),
           wrong<ShapeError>({"[preloaded_multi_mp_sgd_mom_update]", "must have shape (2,)", "got (3,)"},
                             [=] { nd.preloaded_multi_mp_sgd_mom_update(arrays(10), {}); }),
           wrong<ValueError>({"[_multi_mp_adamw_update]", "etas must have a number for each of 1 weights, got 2"},
                             [=] {
                               nd._multi_mp_adamw_update(arrays(6), {.lrs = {1}, .wds = {1}, .etas = {1, 1}});
                             }),
           wrong<ValueError>({"[multi_sgd_update]", "lrs must have a number for each of 1 weights, got 0"},
                             [=] { nd.multi_sgd_update(arrays(2), {}); }),
           wrong<ShapeError>({"[multi_sgd_update]", "one weight or more, got no inputs"},
                             [=] { nd.multi_sgd_update(arrays(0), {}); }),
           wrong<ShapeError>({"[reset_arrays]", "one array or more, got no inputs"},
                             [=] { nd.reset_arrays(arrays(0)); }),
           wrong<ShapeError>({"[_kaon_multi_add]", "{sum, value} for each sum, got 3 arrays"},
                             [=] { nd._kaon_multi_add(arrays(3)); }),
           wrong<ShapeError>({"[_kaon_multi_add]", "(3,)", "(1,)"},
                             [=] {
                               nd._kaon_multi_add(std::vector{s, one});
                             }),
           wrong<TypeError>({"[_kaon_multi_add]", "float32", "float16"},
                            [=] {
                              nd._kaon_multi_add(std::vector{s, ones({3}, half)});
                            }),
           wrong<ValueError>({"[multi_sgd_update]", "lr and wd must not be NaN"},
                             [=] { nd.multi_sgd_update(arrays(2), {.lrs = {NAN}, .wds = {1}}); }),
           wrong<ValueError>({"[ftml_update]", "counted from 1, got 0"},
                             [=] { nd.ftml_update(s, s, s, s, s, {.lr = 1}); }),
           wrong<ValueError>(
               {"[_multi_lamb_update]", "counted from 1, got -1"},
               [=] { nd._multi_lamb_update(arrays(4), {.learning_rates = {1}, .wds = {1}, .step_count = {-1}}); }),
           wrong<ValueError>({"[ftrl_update]", "must not be NaN"},
                             [=] { nd.ftrl_update(s, s, s, s, {.lr = 1, .lamda1 = NAN}); }),
           wrong<ShapeError>({"[_adamw_update]", "rescale_grad must be one number", "(3,)"},
                             [=] { nd._adamw_update(s, s, s, s, s, {.lr = 1}); }),
           wrong<TypeError>({"[mp_sgd_update]", "16 bits or float32", "float64"},
                            [=] {
                              const NDArray d = ones({3}, DType::float64);
                              nd.mp_sgd_update(d, d, s, {.lr = 1});
                            }),
           wrong<TypeError>({"[mp_sgd_update]", "weight32 must be float32, got float16"},
                            [=] {
                              const NDArray h = ones({3}, half);
                              nd.mp_sgd_update(h, h, h, {.lr = 1});
                            }),
           wrong<TypeError>({"[adam_update]", "one dtype", "float32 and float16"},
                            [=] { nd.adam_update(s, s, s, ones({3}, half), {.lr = 1}); }),
           wrong<ShapeError>({"[lamb_update_phase2]", "a norm must be one number", "(3,)"},
                             [=] { nd.lamb_update_phase2(s, s, s, one, {.lr = 1}); }),
           wrong<TypeError>({"[mp_lamb_update_phase2]", "expected float32, got float16"},
                            [=] {
                              const NDArray h = ones({3}, half);
                              nd.mp_lamb_update_phase2(h, h, one, one, s, {.lr = 1});
                            }),
           wrong<ShapeError>({"[_contrib_group_adagrad_update]", "history must have shape (3, 1)", "got (3,)"},
                             [=] { nd.group_adagrad_update(s, s, s, {.lr = 1}); }),
           wrong<TypeError>({"[multi_lars]", "expected float32, got float16"},
                            [=] {
                              const NDArray h = ones({3}, half);
                              nd.multi_lars(h, h, h, h, {.eta = 1});
                            }),
           wrong<TypeError>({"[multi_sum_sq]", "int32"}, [=] { nd.multi_sum_sq(std::vector{ones({3}, whole)}); }),
           wrong<ValueError>({"[all_finite]", "init_output must be True"},
                             [=] { nd.all_finite(s, {.init_output = false}); }),
           wrong<ValueError>({"[multi_all_finite]", "init_output must be True"},
                             [=] { nd.multi_all_finite(arrays(2), {.init_output = false}); })}) {
    rows.push_back(std::move(w));
  }
  const auto rule = [&](const char* name, int n, std::vector<std::string> says, auto call) {
    says.insert(says.begin(), "[" + std::string(name) + "]");
    rows.push_back(wrong<ValueError>(says, [=] {
      const std::vector<NDArray> all = arrays(n);
      std::vector<const NDArray*> pointers;
      for (const NDArray& a : all) pointers.push_back(&a);
      call(std::span<const NDArray* const>(pointers));
    }));
  };
  rule("_kaon_multi_update2", 3, {"adam takes groups of 4 arrays, and weight32; got 2"},
       [](auto a) { nd._kaon_multi_update2(a, {{.kind = UpdateKind::adam}}); });
  rule("_kaon_multi_update3", 4, {"ftml takes groups of 5 arrays"},
       [](auto a) { nd._kaon_multi_update3(a, {{.kind = UpdateKind::ftml}}); });
  rule("_kaon_multi_update4", 5, {"rule must be a whole rule, got lamb_step"},
       [](auto a) { nd._kaon_multi_update4(a, {{.kind = UpdateKind::lamb_step}}); });
  rule("_kaon_multi_update5", 6, {"sgd takes groups of 2 arrays"}, [](auto a) { nd._kaon_multi_update5(a, {}); });
  rule("_kaon_multi_update6", 7, {"must not be NaN"},
       [](auto a) { nd._kaon_multi_update6(a, {{.kind = UpdateKind::ftml, .eta = NAN}}); });
  rule("_kaon_gradient_factor", 2, {"must not be NaN"},
       [](auto a) { nd._kaon_gradient_factor(a, {.rescale_grad = NAN}); });
  rule("_kaon_gradient_factor", 0, {"expected one gradient or more"}, [](auto a) { nd._kaon_gradient_factor(a, {}); });
  rule("_kaon_loss_scale", 2, {"scale_factor must be above 1"}, [](auto a) {
    const NDArray state = nd.ones({2});
    const NDArray* all[] = {&state, a[1]};
    nd._kaon_loss_scale(all, {.scale_factor = 1});
  });
  return rows;
}

std::vector<Wrong> rearranged() {
  return {
      wrong<ShapeError>({"[_split_v2]", "rise to at most 3", "(0, 2, 1)"},
                        [] {
                          nd.split_v2(ones({3, 2}), Shape(2, 1));
                        }),
      wrong<ValueError>({"[_split_v2]", "begin with 0", "(1,)"},
                        [] {
                          nd._split_v2(ones({3, 2}), {.indices = Shape(1)});
                        }),
      wrong<ShapeError>({"[_split_v2]", "parts of size 1", "part 0 of axis 0 has 2"},
                        [] {
                          nd.split_v2(ones({3, 2}), 2, 0, true);
                        }),
      wrong<ShapeError>({"[depth_to_space]", "multiple of 4", "(1, 3, 2, 2)"},
                        [] {
                          nd.depth_to_space(ones({1, 3, 2, 2}), 2);
                        }),
      wrong<ValueError>({"[space_to_depth]", "block_size", "0"},
                        [] {
                          nd.space_to_depth(ones({1, 3, 2, 2}), 0);
                        }),
      wrong<ShapeError>({"[space_to_depth]", "multiples of 2", "(1, 3, 3, 2)"},
                        [] {
                          nd.space_to_depth(ones({1, 3, 3, 2}), 2);
                        }),
      wrong<ShapeError>({"[diag]", "no diagonal 4", "(2, 3)"},
                        [] {
                          nd.diag(ones({2, 3}), {.k = 4});
                        }),
      wrong<ValueError>({"[diag]", "axis1 and axis2 must differ", "1 and -1"},
                        [] {
                          nd.diag(ones({2, 3}), {.axis1 = 1, .axis2 = -1});
                        }),
      wrong<ShapeError>({"[diag]", "at least 1"}, [] { nd.diag(ones({})); }),
      wrong<ShapeError>({"[scatter_nd]", "data must have shape (2, 3)", "got (2, 2)"},
                        [] {
                          nd.scatter_nd(ones({2, 2}), ones({1, 2}), {4, 3});
                        }),
      wrong<ShapeError>({"[scatter_nd]", "1 to 2", "(3, 1)"},
                        [] {
                          nd.scatter_nd(ones({1}), ones({3, 1}), {4, 3});
                        }),
      wrong<IndexError>({"[scatter_nd]", "7", "4"},
                        [] { nd.scatter_nd(ones({1}), nd.array({{7}}), {4}).wait_to_read(); }),
      wrong<ShapeError>({"[_scatter_set_nd]", "lhs must have shape (4,)", "(3,)"},
                        [] {
                          nd._scatter_set_nd(ones({3}), ones({1}), ones({1, 1}), {.shape = {4}});
                        }),
      wrong<TypeError>({"[_scatter_set_nd]", "one dtype", "float32", "int32"},
                       [] {
                         nd._scatter_set_nd(ones({4}), ones({1}, whole), ones({1, 1}), {.shape = {4}});
                       }),
      wrong<ShapeError>({"[_contrib_index_copy]", "new_tensor must have shape (2, 3)", "(1, 3)"},
                        [] {
                          nd.index_copy(ones({4, 3}), ones({2}), ones({1, 3}));
                        }),
      wrong<TypeError>({"[_contrib_index_copy]", "one dtype"},
                       [] {
                         nd.index_copy(ones({4, 3}), ones({2}), ones({2, 3}, half));
                       }),
      wrong<ShapeError>({"[_contrib_index_array]", "axis 2 is out of range"},
                        [] {
                          nd.index_array(ones({4, 3}), {.axes = Shape(2)});
                        }),
      wrong<ShapeError>({"[_contrib_index_array]", "less than 8"},
                        [] {
                          nd.index_array(ones({1, 1, 1, 1, 1, 1, 1, 1}));
                        }),
      wrong<ShapeError>({"[_ravel_multi_index]", "2 rows", "(3, 1)"},
                        [] {
                          nd.ravel_multi_index(ones({3, 1}), {2, 2});
                        }),
      wrong<ValueError>({"[_ravel_multi_index]", "shape must be given"},
                        [] {
                          nd.ravel_multi_index(ones({3, 1}), {});
                        }),
      wrong<ValueError>({"[_unravel_index]", "must be positive", "(2, 0)"},
                        [] {
                          nd.unravel_index(ones({3}), {2, 0});
                        }),
      wrong<TypeError>({"[_unravel_index]", "bool"},
                       [] {
                         nd.unravel_index(ones({3}, DType::boolean), {2, 2});
                       }),
      wrong<ShapeError>({"[_np_cumsum]", "axis 2 is out of range"},
                        [] {
                          nd.cumsum(ones({3, 2}), {.axis = 2});
                        }),
      wrong<TypeError>({"[_np_cumsum]", "bool"},
                       [] {
                         nd.cumsum(ones({3, 2}), {.dtype = DType::boolean});
                       }),
      wrong<ShapeError>({"[khatri_rao]", "same number of columns", "(2, 3)", "(2, 2)"},
                        [] {
                          const std::vector<NDArray> two{ones({2, 3}), ones({2, 2})};
                          nd.khatri_rao(two);
                        }),
      wrong<ValueError>({"[khatri_rao]", "at least 1"}, [] { nd.khatri_rao(std::vector<NDArray>()); }),
      wrong<ShapeError>({"[_linalg_gemm]", "C must be (2, 4)", "(2, 5)"},
                        [] {
                          nd.linalg_gemm(ones({2, 3}), ones({3, 4}), ones({2, 5}));
                        }),
      wrong<ShapeError>({"[_linalg_gemm2]", "summed over, must be equal", "(2, 3)", "(2, 4)", "transpose_b"},
                        [] {
                          nd.linalg_gemm2(ones({2, 3}), ones({2, 4}), {.transpose_b = true});
                        }),
      wrong<ValueError>({"[_linalg_gemm2]", "axis -1 is that of the columns"},
                        [] {
                          nd.linalg_gemm2(ones({2, 2}), ones({2, 2}), {.axis = -1});
                        }),
      wrong<ShapeError>({"[_linalg_gemm2]", "axis 3 is out of range"},
                        [] {
                          nd.linalg_gemm2(ones({2, 2}), ones({2, 2}), {.axis = 3});
                        }),
      wrong<TypeError>({"[_linalg_gemm2]", "int32"},
                       [] {
                         nd.linalg_gemm2(ones({2, 2}, whole), ones({2, 2}, whole));
                       }),
      wrong<ShapeError>({"[_linalg_syrk]", "at least 2 dimensions", "(3,)"}, [] { nd.linalg_syrk(ones({3})); }),
      wrong<ShapeError>({"[_linalg_trmm]", "A must be square", "rows of B", "(2, 2)", "(3, 2)"},
                        [] {
                          nd.linalg_trmm(ones({2, 2}), ones({3, 2}));
                        }),
      wrong<ShapeError>({"[_linalg_trsm]", "columns of B", "(2, 2)", "(2, 3)"},
                        [] {
                          nd.linalg_trsm(ones({2, 2}), ones({2, 3}), {.rightside = true});
                        }),
      wrong<ShapeError>({"[_linalg_trsm]", "leading axes", "(2, 2, 2)", "(3, 2, 2)"},
                        [] {
                          nd.linalg_trsm(ones({2, 2, 2}), ones({3, 2, 2}));
                        }),
      wrong<ShapeError>({"[_npi_matmul]", "columns of a and the rows of b", "(2, 3)", "(4, 5)"},
                        [] {
                          nd.matmul(ones({2, 3}), ones({4, 5}));
                        }),
      wrong<ShapeError>({"[_npi_matmul]", "must broadcast", "(2, 3, 4)", "(3, 4, 5)"},
                        [] {
                          nd.matmul(ones({2, 3, 4}), ones({3, 4, 5}));
                        }),
      wrong<TypeError>({"[_npi_matmul]", "expected numbers, got bool"},
                       [] {
                         nd.matmul(ones({2, 2}, DType::boolean), ones({2, 2}, DType::boolean));
                       }),
      wrong<ShapeError>({"[_npi_tensordot]", "equal sizes", "(2, 3)", "(4, 5)"},
                        [] {
                          nd.tensordot(ones({2, 3}), ones({4, 5}), {.a_axes_summed = {1}, .b_axes_summed = {0}});
                        }),
      wrong<ValueError>({"[_npi_tensordot]", "as many axes", "(0, 1)", "(0,)"},
                        [] {
                          nd.tensordot(ones({2, 2}), ones({2, 2}), {.a_axes_summed = {0, 1}, .b_axes_summed = {0}});
                        }),
      wrong<ValueError>({"[_npi_tensordot]", "a_axes_summed names axis 1 twice"},
                        [] {
                          nd.tensordot(ones({2, 2}), ones({2, 2}), {.a_axes_summed = {1, -1}, .b_axes_summed = {0, 1}});
                        }),
      wrong<ValueError>({"[_npi_tensordot_int_axes]", "from 0 to 1, got 2", "(3,)"},
                        [] {
                          nd.tensordot(ones({3}), ones({3, 3}), 2);
                        }),
      wrong<TypeError>({"[outer]", "numbers", "bool"},
                       [] { nd.outer(ones({2}, DType::boolean), ones({2}, DType::boolean)); }),
      wrong<ShapeError>({"[kron]", "at most 4 axes", "(1, 1, 1, 1, 1)"},
                        [] {
                          nd.kron(ones({1, 1, 1, 1, 1}), ones({2}));
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "\"ij,jk->ik\"", "'j' has sizes 3 and 4", "(2, 3), (4, 5)"},
                        [] {
                          nd.einsum("ij,jk->ik", std::array{ones({2, 3}), ones({4, 5})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "\"ijk\" does not name the 2 axes of array 0"},
                        [] {
                          nd.einsum("ijk->i", std::array{ones({2, 3})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "they are for 2 arrays"}, [] { nd.einsum("i,j", std::array{ones({2})}); }),
      wrong<ShapeError>({"[_npi_einsum]", "'k' of the result is in no array"},
                        [] {
                          nd.einsum("ij->k", std::array{ones({2, 3})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "'i' is twice in the result"},
                        [] {
                          nd.einsum("ij->ii", std::array{ones({2, 3})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "diagonal of array 0", "(2, 3)"},
                        [] {
                          nd.einsum("ii->i", std::array{ones({2, 3})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "'1' is neither a letter"},
                        [] {
                          nd.einsum("i1->i", std::array{ones({2, 3})});
                        }),
      wrong<ShapeError>({"[_npi_einsum]", "lacks the ellipsis"},
                        [] {
                          nd.einsum("...i->i", std::array{ones({2, 3})});
                        }),
      wrong<ValueError>({"[_npi_einsum]", "num_args must be at least 1"},
                        [] { nd.einsum("->", std::vector<NDArray>()); }),
      wrong<ShapeError>({"[_linalg_potrf]", "square", "(2, 3)"},
                        [] {
                          nd.linalg_potrf(ones({2, 3}));
                        }),
      wrong<TypeError>({"[_linalg_potrf]", "float32 or float64", "float16"},
                       [] {
                         nd.linalg_potrf(ones({2, 2}, half));
                       }),
      wrong<ValueError>({"[_linalg_potrf]", "matrix 1 of the batch is not positive definite", "order 2"},
                        [] {
                          nd.linalg_potrf(nd.array({1, 0, 0, 1, 1, 2, 2, 1}, {2, 2, 2})).wait_to_read();
                        }),
      wrong<ShapeError>({"[_linalg_potri]", "square", "(2, 3)"},
                        [] {
                          nd.linalg_potri(ones({2, 3}));
                        }),
      wrong<ValueError>({"[_linalg_potri]", "matrix 0 of the batch has a 0 at place 2 of its diagonal"},
                        [] {
                          nd.linalg_potri(nd.array({1, 0, 1, 0}, {2, 2})).wait_to_read();
                        }),
      wrong<ShapeError>({"[_npi_solve]", "B must be (2, 2) or (2, 2, -1)", "(2, 3)"},
                        [] {
                          nd.linalg_solve(ones({2, 2, 2}), ones({2, 3}));
                        }),
      wrong<ValueError>({"[_npi_solve]", "matrix 0 of the batch is singular", "place 2"},
                        [] {
                          nd.linalg_solve(ones({2, 2}), ones({2})).wait_to_read();
                        }),
      wrong<ShapeError>({"[_linalg_inverse]", "square", "(3, 2)"},
                        [] {
                          nd.linalg_inverse(ones({3, 2}));
                        }),
      wrong<ValueError>({"[_linalg_inverse]", "is singular"},
                        [] {
                          nd.linalg_inverse(ones({2, 2})).wait_to_read();
                        }),
      wrong<ShapeError>({"[_linalg_det]", "square", "(3, 2)"},
                        [] {
                          nd.linalg_det(ones({3, 2}));
                        }),
      wrong<TypeError>({"[_linalg_slogdet]", "float32 or float64", "int32"},
                       [] {
                         nd.linalg_slogdet(ones({2, 2}, whole));
                       }),
      wrong<ShapeError>({"[_linalg_gelqf]", "more rows than columns", "(3, 2)"},
                        [] {
                          nd.linalg_gelqf(ones({3, 2}));
                        }),
      wrong<ShapeError>({"[_linalg_syevd]", "square", "(3, 2)"},
                        [] {
                          nd.linalg_syevd(ones({3, 2}));
                        }),
      wrong<TypeError>({"[_npi_svd]", "float32 or float64", "bfloat16"},
                       [] {
                         nd.linalg_svd(ones({2, 2}, DType::bfloat16));
                       }),
      wrong<ShapeError>({"[_linalg_sumlogdiag]", "square", "(3, 2)"},
                        [] {
                          nd.linalg_sumlogdiag(ones({3, 2}));
                        }),
      wrong<ShapeError>({"[_linalg_extractdiag]", "no diagonal 3", "(2, 2)"},
                        [] {
                          nd.linalg_extractdiag(ones({2, 2}), {.offset = 3});
                        }),
      wrong<ShapeError>({"[_linalg_makediag]", "fewer than 8 axes"},
                        [] {
                          nd.linalg_makediag(ones({1, 1, 1, 1, 1, 1, 1, 1}));
                        }),
      wrong<ShapeError>({"[_linalg_extracttrian]", "no diagonal -3", "(2, 2)"},
                        [] {
                          nd.linalg_extracttrian(ones({2, 2}), {.offset = -3});
                        }),
      wrong<ShapeError>({"[_linalg_maketrian]", "must be a triangle", "(4,)"}, [] { nd.linalg_maketrian(ones({4})); }),
      wrong<ShapeError>({"[_triangle]", "at least 2 dimensions", "(4,)"}, [] { nd._triangle(ones({4})); }),
      wrong<TypeError>({"[erfinv]", "floating", "int32"}, [] { nd.erfinv(ones({2}, whole)); }),
      wrong<TypeError>({"[_contrib_quadratic]", "floating", "int32"}, [] { nd.quadratic(ones({2}, whole), {.a = 1}); }),
      wrong<TypeError>({"[_contrib_round_ste]", "bool"}, [] { nd.round_ste(ones({2}, DType::boolean)); }),
      wrong<ValueError>({"[amp_cast]", "float64"}, [] { nd.amp_cast(nd.ones({2}), DType::float64); }),
      wrong<ValueError>({"[amp_multicast]", "at least 1"}, [] { nd.amp_multicast(std::vector<NDArray>()); }),
      wrong<ShapeError>({"[im2col]", "data must have 3 dimensions", "(1, 1, 4, 4)"},
                        [] {
                          nd.im2col(ones({1, 1, 4, 4}), {.kernel = {3}});
                        }),
      wrong<ValueError>({"[im2col]", "stride must be numbers of 1", "(1, 1)"},
                        [] {
                          nd.im2col(ones({1, 1, 4}), {.kernel = {3}, .stride = {1, 1}});
                        }),
      wrong<ShapeError>({"[im2col]", "windows of 5 pixels", "4"},
                        [] {
                          nd.im2col(ones({1, 1, 4, 4}), {.kernel = {3, 3}, .dilate = {2, 2}});
                        }),
      wrong<ShapeError>({"[col2im]", "a multiple of 4, 9", "(1, 4, 8)"},
                        [] {
                          nd.col2im(ones({1, 4, 8}), {.output_size = {4, 4}, .kernel = {2, 2}});
                        }),
      wrong<ValueError>({"[col2im]", "output_size", "(4,)"},
                        [] {
                          nd.col2im(ones({1, 4, 9}), {.output_size = {4}, .kernel = {2, 2}});
                        }),
      wrong<ValueError>({"[log_softmax]", "use_length"},
                        [] {
                          nd.log_softmax(ones({2, 2}), {.use_length = true});
                        }),
      wrong<ShapeError>({"[boolean_mask]", "(2,)", "got (3,)"},
                        [] {
                          nd.boolean_mask(ones({2, 2}), ones({3}));
                        }),
      wrong<TraceError>({"[boolean_mask]", "depends on the values"},
                        [] { sym.boolean_mask(sym.var("x", {2}), sym.var("m", {2})); }),
  };
}

std::vector<Wrong> drawn() {
  return {
#ifdef KAON_IMAGES
      wrong<IoError>({"[imdecode] bytes", "expected a JPEG or PNG file", "got one that begins with 42 4d 36"},
                     [] { image::imdecode("BM6 of a bitmap"); }),
      wrong<IoError>({"[imdecode] bytes", "expected a JPEG or PNG file", "got no bytes"}, [] { image::imdecode(""); }),
      wrong<IoError>({"[imdecode] bytes", "damaged PNG", "at byte 12 of 12", "ends here"},
                     [] { image::imdecode(std::string_view("\x89PNG\r\n\x1a\n\0\0\0\r", 12)); }),
      wrong<IoError>({"[imdecode] bytes", "damaged JPEG", "of 3", "Premature end"},
                     [] { image::imdecode("\xff\xd8\xff"); }),
      wrong<IoError>({"[imdecode] bytes", "at most 1073741824 pixels", "got 1048576 x 1048576"},
                     [] {
                       const char head[] =
                           "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x10\0\0\0\x10\0\0\1\0\0\0\0"
                           "\x63\x53\x9d\x68"
                           "\0\0\0\1IDAT";
                       image::imdecode(std::string_view(head, sizeof head - 1));
                     }),
#else
      wrong<Error>({"[imdecode] bytes", "KAON_IMAGES=OFF"}, [] { image::imdecode("BM6 of a bitmap"); }),
#endif
      wrong<IoError>({"[imread]", "nowhere.jpg"}, [] { image::imread("nowhere.jpg"); }),
      wrong<ValueError>({"[imdecode]", "flag must be 0 or more", "got -1"}, [] { image::imdecode("", {.flag = -1}); }),
      wrong<TypeError>({"[imdecode]", "bytes must be uint8", "got float32"}, [] { image::imdecode(ones({9})); }),
      wrong<ShapeError>({"[imdecode]", "bytes must have 1 dimension", "got (3, 3)"},
                        [] {
                          image::imdecode(ones({3, 3}, DType::uint8));
                        }),
      wrong<ValueError>({"[_image_resize]", "interp must be", "5"},
                        [] {
                          image::imresize(ones({3, 3, 3}), 2, 2, 5);
                        }),
      wrong<ShapeError>({"[copyMakeBorder]", "(height, width, channels)", "got (3, 3)"},
                        [] {
                          image::copyMakeBorder(ones({3, 3}), 1, 1, 1, 1);
                        }),
      wrong<ValueError>({"[copyMakeBorder]", "margins must be at least 0", "got 1, -1, 0 and 0"},
                        [] {
                          image::copyMakeBorder(ones({3, 3, 1}), 1, -1, 0, 0);
                        }),
      wrong<ValueError>({"[copyMakeBorder]", "no edge to repeat", "(0, 3, 1)"},
                        [] {
                          image::copyMakeBorder(ones({0, 3, 1}), 1, 1, 0, 0, {.type = image::Border::wrap});
                        }),
      wrong<ValueError>({"[copyMakeBorder]", "values must have 3 numbers", "got 2"},
                        [] {
                          const double two[] = {1, 2};
                          image::copyMakeBorder(ones({3, 3, 3}), 1, 1, 0, 0, {.values = two});
                        }),

      wrong<ValueError>({"[_random_gamma]", "alpha and beta must be positive", "-1.0 and 1.0"},
                        [] { nd.random_gamma({2}, {.alpha = -1}); }),
      wrong<ValueError>({"[_random_exponential]", "lam must be positive", "0"},
                        [] { nd.random_exponential({2}, {.lam = 0}); }),
      wrong<ValueError>({"[_random_poisson]", "lam must not be negative", "nan"},
                        [] { nd.random_poisson({2}, {.lam = NAN}); }),
      wrong<ValueError>({"[_random_negative_binomial]", "p must lie in (0, 1]", "1.0 and 2.0"},
                        [] { nd.random_negative_binomial({2}, {.p = 2}); }),
      wrong<ValueError>({"[_random_generalized_negative_binomial]", "mu and alpha", "-2"},
                        [] { nd.random_generalized_negative_binomial({2}, {.mu = -2}); }),
      wrong<TypeError>({"[_random_poisson]", "not implemented", "int32"},
                       [] { nd.random_poisson({2}, {.dtype = whole}); }),
      wrong<ValueError>({"[_random_uniform_like]", "low must not exceed high", "2.0 and 1.0"},
                        [] { nd.random_uniform_like(ones({2}), {.low = 2}); }),
      wrong<ValueError>({"[_random_normal_like]", "scale must not be negative", "-1"},
                        [] { nd.random_normal_like(ones({2}), {.scale = -1}); }),
      wrong<ValueError>({"[_random_gamma_like]", "must be positive", "0"},
                        [] { nd.random_gamma_like(ones({2}), {.beta = 0}); }),
      wrong<TypeError>({"[_random_exponential_like]", "floating dtype", "int32"},
                       [] { nd.random_exponential_like(ones({2}, whole)); }),
      wrong<ValueError>({"[_random_poisson_like]", "lam", "-1"},
                        [] { nd.random_poisson_like(ones({2}), {.lam = -1}); }),
      wrong<ValueError>({"[_random_negative_binomial_like]", "k must not be negative", "-1"},
                        [] { nd.random_negative_binomial_like(ones({2}), {.k = -1}); }),
      wrong<ValueError>({"[_random_generalized_negative_binomial_like]", "alpha", "-1"},
                        [] { nd.random_generalized_negative_binomial_like(ones({2}), {.alpha = -1}); }),
      wrong<ShapeError>({"[_sample_uniform]", "high must have shape (2,)", "(3,)"},
                        [] { nd.sample_uniform(ones({2}), ones({3})); }),
      wrong<TypeError>({"[_sample_normal]", "one dtype", "float32 and float16"},
                       [] { nd.sample_normal(ones({2}), ones({2}, half)); }),
      wrong<ShapeError>({"[_sample_gamma]", "more than 8 dimensions"},
                        [] {
                          nd.sample_gamma(ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1}), {.shape = {1, 1, 1, 1}});
                        }),
      wrong<TypeError>({"[_sample_exponential]", "not implemented", "int32"},
                       [] { nd.sample_exponential(ones({2}), {.dtype = whole}); }),
      wrong<TypeError>({"[_sample_poisson]", "needs numbers", "bool"},
                       [] { nd.sample_poisson(ones({2}, DType::boolean)); }),
      wrong<ShapeError>({"[_sample_negative_binomial]", "(2,)", "(1, 2)"},
                        [] {
                          nd.sample_negative_binomial(ones({2}), ones({1, 2}));
                        }),
      wrong<ShapeError>({"[_sample_generalized_negative_binomial]", "(2,)", "(1, 2)"},
                        [] {
                          nd.sample_generalized_negative_binomial(ones({2}), ones({1, 2}));
                        }),
      wrong<ValueError>({"[_sample_unique_zipfian]", "4 distinct classes", "from 3"},
                        [] {
                          nd.sample_unique_zipfian(3, {1, 4});
                        }),
      wrong<ValueError>({"[_sample_unique_zipfian]", "(batch, classes to draw)", "(4,)"},
                        [] { nd.sample_unique_zipfian(9, {4}); }),
      wrong<ShapeError>({"[_random_pdf_uniform]", "the shape of low must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_uniform(ones({2, 3}), ones({3}), ones({3}));
                        }),
      wrong<ShapeError>({"[_random_pdf_normal]", "the shape of mu must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_normal(ones({2, 3}), ones({3}), ones({3}));
                        }),
      wrong<ShapeError>({"[_random_pdf_gamma]", "the shape of alpha must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_gamma(ones({2, 3}), ones({3}), ones({3}));
                        }),
      wrong<ShapeError>({"[_random_pdf_exponential]", "the shape of lam must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_exponential(ones({2, 3}), ones({3}));
                        }),
      wrong<ShapeError>({"[_random_pdf_poisson]", "the shape of lam must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_poisson(ones({2, 3}), ones({3}));
                        }),
      wrong<ShapeError>({"[_random_pdf_negative_binomial]", "the shape of k must be the beginning", "(3,)"},
                        [] {
                          nd.random_pdf_negative_binomial(ones({2, 3}), ones({3}), ones({3}));
                        }),
      wrong<ShapeError>(
          {"[_random_pdf_generalized_negative_binomial]", "the shape of mu must be the beginning", "(3,)"},
          [] {
            nd.random_pdf_generalized_negative_binomial(ones({2, 3}), ones({3}), ones({3}));
          }),
      wrong<ShapeError>({"[_random_pdf_dirichlet]", "classes along the last axis", "(2, 3)"},
                        [] {
                          nd.random_pdf_dirichlet(ones({2, 3}), ones({2}));
                        }),
      wrong<TypeError>({"[_random_pdf_normal]", "floating dtype", "int32"},
                       [] { nd.random_pdf_normal(ones({2}, whole), ones({2}, whole), ones({2}, whole)); }),
      wrong<ValueError>({"[_npi_gumbel]", "scale must not be negative", "-1"},
                        [] { nd.random_gumbel({2}, {.scale = -1}); }),
      wrong<ShapeError>({"[_npi_logistic]", "(2,)", "(3,)"}, [] { nd.random_logistic(ones({2}), ones({3})); }),
      wrong<ShapeError>({"[_npi_laplace]", "(2,)", "(3,)"},
                        [] { nd.random_laplace(ones({2}), ones({2}), {.size = Shape(3)}); }),
      wrong<TypeError>({"[_npi_exponential]", "floating dtype", "int32"},
                       [] { nd.random_exponential(ones({2}, whole)); }),
      wrong<ValueError>({"[_npi_rayleigh]", "scale", "-1"}, [] { nd.random_rayleigh({2}, {.scale = -1}); }),
      wrong<ValueError>({"[_npi_pareto]", "a must be positive", "0"}, [] { nd.random_pareto({2}, {.a = 0}); }),
      wrong<ValueError>({"[_npi_weibull]", "a must be positive", "-1"}, [] { nd.random_weibull({2}, {.a = -1}); }),
      wrong<TypeError>({"[_npi_normal]", "not implemented", "int32"},
                       [] { nd.random_normal(ones({2}), ones({2}), {.dtype = whole}); }),
      wrong<ShapeError>({"[_npi_normal_n]", "more than 8 dimensions"},
                        [] {
                          nd.random_normal_n(ones({1, 1, 1, 1, 1}), ones({1}), {.size = Shape(1, 1, 1, 1)});
                        }),
      wrong<ShapeError>({"[_npi_uniform]", "(2,)", "(3,)"}, [] { nd.random_uniform(ones({2}), ones({3})); }),
      wrong<TypeError>({"[_npi_uniform_n]", "not implemented", "bool"},
                       [] { nd.random_uniform_n(ones({2}), ones({2}), {.dtype = DType::boolean}); }),
      wrong<TypeError>({"[_npi_gamma]", "floating dtype", "int32"},
                       [] { nd.random_gamma(ones({2}, whole), ones({2})); }),
      wrong<ValueError>({"[_npi_bernoulli]", "prob must lie in [0, 1]", "2"},
                        [] { nd.random_bernoulli({2}, {.prob = 2}); }),
      wrong<ValueError>({"[_npi_bernoulli]", "takes prob or logit, got both"},
                        [] { nd.random_bernoulli({2}, {.prob = 0.5, .logit = 2}); }),
      wrong<ShapeError>({"[_image_to_tensor]", "3 or 4 dimensions", "(2, 3)"},
                        [] {
                          nd.image_to_tensor(ones({2, 3}));
                        }),
      wrong<ValueError>({"[_image_normalize]", "mean must have 1 number or 3", "(1.0, 2.0)"},
                        [] {
                          nd.image_normalize(ones({3, 2, 2}), {.mean = {1.0f, 2.0f}});
                        }),
      wrong<ShapeError>({"[_image_normalize]", "1 or 3 channels in front", "(2, 2, 3)"},
                        [] {
                          nd.image_normalize(ones({2, 2, 3}), {});
                        }),
      wrong<ShapeError>({"[_image_crop]", "2 columns from 1 on", "(2, 2, 3)"},
                        [] {
                          nd.image_crop(ones({2, 2, 3}), {.x = 1, .width = 2, .height = 1});
                        }),
      wrong<ValueError>({"[_image_crop]", "positive", "1 and 0"},
                        [] {
                          nd.image_crop(ones({2, 2, 3}), {.width = 1});
                        }),
      wrong<ValueError>({"[UpSampling]", "at least one input", "none"},
                        [] { nd.UpSampling(std::vector<NDArray>{}, {.scale = 2}); }),
      wrong<ValueError>({"[_image_resize]", "interp must be", "-1"},
                        [] {
                          nd.image_resize(ones({2, 2, 3}), {3, 3}, {.interp = -1});
                        }),
      wrong<ValueError>({"[_image_resize]", "(width, height)", "(0,)"},
                        [] {
                          nd.image_resize(ones({2, 2, 3}), Shape(0));
                        }),
      wrong<ShapeError>({"[_image_flip_left_right]", "3 or 4 dimensions", "(2,)"},
                        [] { nd.image_flip_left_right(ones({2})); }),
      wrong<ShapeError>({"[_image_flip_top_bottom]", "3 or 4 dimensions", "(2,)"},
                        [] { nd.image_flip_top_bottom(ones({2})); }),
      wrong<ShapeError>({"[_image_random_flip_left_right]", "3 or 4 dimensions", "(2,)"},
                        [] { nd.image_random_flip_left_right(ones({2})); }),
      wrong<ShapeError>({"[_image_random_flip_top_bottom]", "3 or 4 dimensions", "(2,)"},
                        [] { nd.image_random_flip_top_bottom(ones({2})); }),
      wrong<ValueError>({"[_image_random_brightness]", "must not exceed max_factor", "2.0 and 1.0"},
                        [] {
                          nd.image_random_brightness(ones({2, 2, 3}), 2, 1);
                        }),
      wrong<ShapeError>({"[_image_random_contrast]", "1 or 3 channels", "(2, 2, 2)"},
                        [] {
                          nd.image_random_contrast(ones({2, 2, 2}), 1, 1);
                        }),
      wrong<ValueError>({"[_image_random_saturation]", "min_factor", "-1.0 and 1.0"},
                        [] {
                          nd.image_random_saturation(ones({2, 2, 3}), -1, 1);
                        }),
      wrong<TypeError>({"[_image_random_hue]", "needs numbers", "bool"},
                       [] {
                         nd.image_random_hue(ones({2, 2, 3}, DType::boolean), 1, 1);
                       }),
      wrong<ValueError>({"[_image_random_color_jitter]", "must not be negative", "-1"},
                        [] {
                          nd.image_random_color_jitter(ones({2, 2, 3}), {.hue = -1});
                        }),
      wrong<ValueError>({"[_image_adjust_lighting]", "alpha must have 3 numbers", "(1.0,)"},
                        [] {
                          nd.image_adjust_lighting(ones({2, 2, 3}), {.alpha = {1.0f}});
                        }),
      wrong<ValueError>({"[_image_random_lighting]", "alpha_std must not be negative", "-1"},
                        [] {
                          nd.image_random_lighting(ones({2, 2, 3}), {.alpha_std = -1});
                        }),
  };
}

std::vector<Wrong> spatial() {
  return {
      wrong<ShapeError>({"[GridGenerator]", "(2, 6)", "(2, 5)"},
                        [] {
                          nd.GridGenerator(ones({2, 5}), {.target_shape = {2, 2}});
                        }),
      wrong<ValueError>({"[GridGenerator]", "target_shape must be two positive numbers", "(0, 0)"},
                        [] {
                          nd.GridGenerator(ones({2, 6}), {});
                        }),
      wrong<ShapeError>({"[GridGenerator]", "two pixels and more", "(1, 2, 1, 4)"},
                        [] {
                          nd.GridGenerator(ones({1, 2, 1, 4}), {.transform_type = GridTransform::warp});
                        }),
      wrong<ShapeError>({"[BilinearSampler]", "(1, 2, 3, 3)", "(1, 3, 3, 3)"},
                        [] {
                          nd.BilinearSampler(ones({1, 2, 4, 4}), ones({1, 3, 3, 3}));
                        }),
      wrong<ShapeError>({"[BilinearSampler]", "at least one pixel", "(1, 2, 0, 4)"},
                        [] {
                          nd.BilinearSampler(ones({1, 2, 0, 4}), ones({1, 2, 3, 3}));
                        }),
      wrong<TypeError>({"[BilinearSampler]", "float16"},
                       [] {
                         nd.BilinearSampler(ones({1, 2, 4, 4}, half), ones({1, 2, 3, 3}));
                       }),
      wrong<ShapeError>({"[SpatialTransformer]", "loc", "(1, 6)", "(2, 6)"},
                        [] {
                          nd.SpatialTransformer(ones({1, 2, 4, 4}), ones({2, 6}), {.target_shape = {2, 2}});
                        }),
      wrong<ValueError>({"[Correlation]", "kernel_size must be odd", "2"},
                        [] {
                          nd.Correlation(ones({1, 2, 4, 4}), ones({1, 2, 4, 4}), {.kernel_size = 2});
                        }),
      wrong<ValueError>({"[Correlation]", "stride2 must be 1 to", "0"},
                        [] {
                          nd.Correlation(ones({1, 2, 4, 4}), ones({1, 2, 4, 4}), {.stride2 = 0});
                        }),
      wrong<ShapeError>({"[Correlation]", "move by up to 2 do not fit", "(1, 2, 4, 4)"},
                        [] {
                          nd.Correlation(ones({1, 2, 4, 4}), ones({1, 2, 4, 4}), {.max_displacement = 2});
                        }),
      wrong<ShapeError>({"[_contrib_DeformableConvolution]", "offset", "(1, 18, 2, 2)", "(1, 9, 2, 2)"},
                        [] {
                          nd.DeformableConvolution(ones({1, 2, 4, 4}), ones({1, 9, 2, 2}), ones({3, 2, 3, 3}),
                                                   {.kernel = {3, 3}, .num_filter = 3});
                        }),
      wrong<ValueError>({"[_contrib_DeformableConvolution]", "num_deformable_group must divide 2", "3"},
                        [] {
                          nd.DeformableConvolution(ones({1, 2, 4, 4}), ones({1, 54, 2, 2}), ones({3, 2, 3, 3}),
                                                   {.kernel = {3, 3}, .num_filter = 3, .num_deformable_group = 3});
                        }),
      wrong<ShapeError>({"[_contrib_ModulatedDeformableConvolution]", "mask", "(1, 9, 2, 2)", "(1, 18, 2, 2)"},
                        [] {
                          nd.ModulatedDeformableConvolution(ones({1, 2, 4, 4}), ones({1, 18, 2, 2}),
                                                            ones({1, 18, 2, 2}), ones({3, 2, 3, 3}),
                                                            {.kernel = {3, 3}, .num_filter = 3});
                        }),
      wrong<ShapeError>({"[_sample_images]", "positions", "(1, 2, 3, 3)", "(2, 2, 3, 3)"},
                        [] {
                          nd._sample_images(ones({1, 2, 4, 4}), ones({2, 2, 3, 3}), {});
                        }),
      wrong<ShapeError>(
          {"[_contrib_PSROIPooling]", "8 channels", "(1, 7, 4, 4)"},
          [] {
            nd.PSROIPooling(ones({1, 7, 4, 4}), ones({2, 5}), {.spatial_scale = 1, .output_dim = 2, .pooled_size = 2});
          }),
      wrong<ShapeError>(
          {"[_contrib_PSROIPooling]", "rois must be (r, 5)", "(2, 4)"},
          [] {
            nd.PSROIPooling(ones({1, 8, 4, 4}), ones({2, 4}), {.spatial_scale = 1, .output_dim = 2, .pooled_size = 2});
          }),
      wrong<ShapeError>(
          {"[_contrib_DeformablePSROIPooling]", "trans must be (2, 2 times a divisor of 2, 2, 2)", "(2, 3, 2, 2)"},
          [] {
            nd.DeformablePSROIPooling(ones({1, 2, 4, 4}), ones({2, 5}), ones({2, 3, 2, 2}),
                                      {.spatial_scale = 1, .output_dim = 2, .group_size = 1, .pooled_size = 2});
          }),
      wrong<ValueError>(
          {"[_contrib_DeformablePSROIPooling]", "sample_per_part must be 1 to", "0"},
          [] {
            nd.DeformablePSROIPooling(
                ones({1, 2, 4, 4}), ones({2, 5}),
                {.spatial_scale = 1, .output_dim = 2, .group_size = 1, .pooled_size = 2, .sample_per_part = 0});
          }),
      wrong<ShapeError>({"[_contrib_RROIAlign]", "rois must be (r, 6)", "(2, 5)"},
                        [] {
                          nd.RROIAlign(ones({1, 2, 4, 4}), ones({2, 5}), {.pooled_size = {2, 2}, .spatial_scale = 1});
                        }),
      wrong<ValueError>({"[_contrib_RROIAlign]", "spatial_scale must be 0 to 1", "2"},
                        [] {
                          nd.RROIAlign(ones({1, 2, 4, 4}), ones({2, 6}), {.pooled_size = {2, 2}, .spatial_scale = 2});
                        }),
      wrong<ShapeError>({"[_contrib_Proposal]", "bbox_pred", "(1, 48, 3, 3)", "(1, 24, 3, 3)"},
                        [] {
                          nd.Proposal(ones({1, 24, 3, 3}), ones({1, 24, 3, 3}), ones({1, 3}));
                        }),
      wrong<ValueError>({"[_contrib_MultiProposal]", "scales must be positive numbers", "(-1.0,)"},
                        [] {
                          nd.MultiProposal(ones({1, 6, 3, 3}), ones({1, 12, 3, 3}), ones({1, 3}), {.scales = {-1.0f}});
                        }),
      wrong<TypeError>({"[max_unpool]", "indices must be int64", "float32"},
                       [] {
                         nd.max_unpool(ones({1, 1, 2}), ones({1, 1, 2}), {.output_size = {4}});
                       }),
      wrong<ValueError>({"[max_unpool]", "output_size must be 1 numbers", "(4, 4)"},
                        [] {
                          nd.max_unpool(ones({1, 1, 2}), ones({1, 1, 2}, DType::int64), {.output_size = {4, 4}});
                        }),
      wrong<ShapeError>({"[max_pool_indices]", "exceeds the padded data", "(1, 1, 4)"},
                        [] {
                          nd.max_pool_indices(ones({1, 1, 4}), {.kernel = {3}, .dilation = {2}});
                        }),
      wrong<ValueError>({"[Pooling]", "dilation must be at least 1", "(0,)"},
                        [] {
                          nd.Pooling(ones({1, 1, 4}), {.kernel = {2}, .dilation = {0}});
                        }),
  };
}

std::vector<Wrong> numpy_functions() {
  return {
      wrong<ShapeError>({"[_np_any]", "axis 2 is out of range"},
                        [] {
                          nd.any(ones({2, 3}), {.axis = Shape(2)});
                        }),
      wrong<ShapeError>({"[_np_all]", "named twice"},
                        [] {
                          nd.all(ones({2, 3}), {.axis = Shape(0, -2)});
                        }),
      wrong<ValueError>({"[_np_sum]", "initial", "2.5"}, [] { nd._np_sum(ones({2}, whole), {.initial = 2.5}); }),
      wrong<ValueError>({"[_npi_mean]", "no initial"}, [] { nd._npi_mean(ones({2}), {.initial = 1}); }),
      wrong<TypeError>({"[_npi_mean]", "reals", "int32"}, [] { nd._npi_mean(ones({2}), {.dtype = whole}); }),
      wrong<TypeError>({"[_np_prod]", "numbers", "bool"}, [] { nd._np_prod(ones({2}), {.dtype = DType::boolean}); }),
      wrong<ShapeError>({"[_np_max]", "at least one element"}, [] { nd._np_max(ones({0})); }),
      wrong<ShapeError>({"[_np_min]", "at least one element"}, [] { nd._np_min(ones({0})); }),
      wrong<ShapeError>({"[_npi_argmax]", "at least one element"}, [] { nd._npi_argmax(ones({0})); }),
      wrong<ShapeError>({"[_npi_argmin]", "axis 3"}, [] { nd._npi_argmin(ones({2}), {.axis = 3}); }),
      wrong<TypeError>({"[_npi_var]", "reals", "int32"}, [] { nd.var(ones({2}), {.dtype = whole}); }),
      wrong<ShapeError>({"[_npi_std]", "axis -3"}, [] { nd.std(ones({2}), {.axis = Shape(-3)}); }),
      wrong<TypeError>({"[logsumexp]", "int32"}, [] { nd.logsumexp(ones({2}, whole)); }),
      wrong<ValueError>({"[quantile]", "[0, 1]", "1.5"}, [] { nd.quantile(ones({2}), 1.5); }),
      wrong<ShapeError>({"[quantile]", "no or one dimension", "(1, 1)"},
                        [] {
                          nd.quantile(ones({2}), ones({1, 1}));
                        }),
      wrong<ValueError>({"[_npi_percentile]", "[0, 100]", "101"}, [] { nd.percentile(ones({2}), 101); }),
      wrong<ShapeError>({"[median]", "at least one element"}, [] { nd.median(ones({0})); }),
      wrong<ValueError>({"[_histogram]", "range", "(2.0, 1.0)"}, [] { nd.histogram(ones({2}), 3, 2, 1); }),
      wrong<ValueError>({"[_histogram]", "bin_cnt", "0"}, [] { nd.histogram(ones({2}), 0, 0, 1); }),
      wrong<ShapeError>({"[_histogram]", "2 edges", "1"}, [] { nd.histogram(ones({2}), ones({1})); }),
      wrong<ValueError>({"[_histogram]", "ascend"},
                        [] {
                          nd.histogram(ones({2}), nd.array({2, 1}))[0].wait_to_read();
                        }),
      wrong<ShapeError>({"[isclose]", "(2,)", "(3,)"}, [] { nd.isclose(ones({2}), ones({3})); }),
      wrong<TypeError>({"[_contrib_allclose]", "bool"},
                       [] { nd.allclose(ones({2}, DType::boolean), ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[_product_scan]", "float16"}, [] { nd._product_scan(ones({2}, half), {}); }),
      wrong<TypeError>({"[_extreme_scan]", "int32"}, [] { nd._extreme_scan(ones({2}, whole), {}); }),
      wrong<ShapeError>({"[cumprod]", "axis 1"}, [] { nd.cumprod(ones({2}), {.axis = 1}); }),
      wrong<TypeError>({"[cummax]", "bool"}, [] { nd.cummax(ones({2}, DType::boolean)); }),
      wrong<ShapeError>({"[cummin]", "axis 1"}, [] { nd.cummin(ones({2}), {.axis = 1}); }),
      wrong<ShapeError>({"[bincount]", "1-D", "(2, 2)"},
                        [] {
                          nd.bincount(ones({2, 2}, whole));
                        }),
      wrong<TypeError>({"[bincount]", "integers", "float32"}, [] { nd.bincount(ones({2})); }),
      wrong<ValueError>({"[bincount]", "-1"}, [] { nd.bincount(nd.array({-1}, {1}, {.dtype = whole})); }),
      wrong<ShapeError>({"[bincount]", "weights", "(3,)"}, [] { nd.bincount(ones({2}, whole), ones({3})); }),
      wrong<TraceError>({"[nonzero]", "depends on the values"}, [] { sym.nonzero(sym.var("x", {2})); }),
      wrong<TraceError>({"[unique]", "depends on the values"}, [] { sym.unique(sym.var("x", {2})); }),
      wrong<TraceError>({"[bincount]", "depends on the values"}, [] { sym.bincount(sym.var("x", {2})); }),
      wrong<ShapeError>({"[searchsorted]", "(2, 3)", "(3, 3)"},
                        [] {
                          nd.searchsorted(ones({2, 3}), ones({3, 3}));
                        }),
      wrong<ShapeError>({"[take_along_axis]", "(2, 3)", "axis 1", "(1, 3)"},
                        [] {
                          nd.take_along_axis(ones({2, 3}), ones({1, 3}));
                        }),
      wrong<IndexError>({"[take_along_axis]", "index 3", "size 3"},
                        [] { nd.take_along_axis(ones({3}), nd.array({3})).wait_to_read(); }),
      wrong<ShapeError>({"[put_along_axis]", "(1,)", "(2,)"},
                        [] { nd.put_along_axis(ones({3}), ones({1}), ones({2})); }),
      wrong<IndexError>({"[put_along_axis]", "index -4", "size 3"},
                        [] { nd.put_along_axis(ones({3}), nd.array({-4}), ones({1})).wait_to_read(); }),
      wrong<ShapeError>({"[index_add]", "(2, 3)", "(1, 3)"},
                        [] {
                          nd.index_add(ones({4, 3}), ones({2}), ones({1, 3}));
                        }),
      wrong<ShapeError>({"[_npi_tril]", "dimension"}, [] { nd.tril(ones(Shape())); }),
      wrong<ShapeError>({"[triu]", "dimension"}, [] { nd.triu(ones(Shape())); }),
      wrong<ValueError>({"[_np_roll]", "one for each axis", "(1, 2)"},
                        [] {
                          nd.roll(ones({2, 3}), {1, 2}, Shape(0));
                        }),
      wrong<ValueError>({"[_npi_rot90]", "differ"},
                        [] {
                          nd.rot90(ones({2, 3}), {.axes = Shape(0, -2)});
                        }),
      wrong<ValueError>({"[_npi_diff]", "negative", "-1"}, [] { nd.diff(ones({2}), {.n = -1}); }),
      wrong<ShapeError>({"[_difference]", "no elements"}, [] { nd._difference(ones({0}), {}); }),
      wrong<ValueError>({"[_np_moveaxis]", "twice"},
                        [] {
                          nd.moveaxis(ones({2, 3}), {0, 0}, {0, 1});
                        }),
      wrong<ShapeError>({"[meshgrid]", "one dimension", "(2, 2)"},
                        [] {
                          const NDArray arrays[] = {ones({2, 2})};
                          nd.meshgrid(arrays);
                        }),
      wrong<TypeError>({"[_npi_bitwise_and]", "integers", "float32"}, [] { nd.bitwise_and(ones({2}), ones({2})); }),
      wrong<TypeError>({"[_npi_bitwise_or]", "int32", "bool"},
                       [] { nd.bitwise_or(ones({2}, whole), ones({2}, DType::boolean)); }),
      wrong<ShapeError>({"[_npi_bitwise_xor]", "(2,)", "(3,)"},
                        [] { nd.bitwise_xor(ones({2}, whole), ones({3}, whole)); }),
      wrong<TypeError>({"[_npi_bitwise_not]", "float32"}, [] { nd.bitwise_not(ones({2})); }),
      wrong<TypeError>({"[left_shift]", "bool"},
                       [] { nd.left_shift(ones({2}, DType::boolean), ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[right_shift]", "float16"}, [] { nd.right_shift(ones({2}, half), ones({2}, half)); }),
      wrong<ValueError>({"[_npi_bitwise_and_scalar]", "scalar", "1.5"},
                        [] { nd._npi_bitwise_and_scalar(ones({2}, whole), {.scalar = 1.5}); }),
      wrong<ValueError>({"[_npi_bitwise_or_scalar]", "scalar", "300"},
                        [] { nd._npi_bitwise_or_scalar(ones({2}, DType::int8), {.scalar = 300}); }),
      wrong<TypeError>({"[_npi_bitwise_xor_scalar]", "float32"}, [] { nd._npi_bitwise_xor_scalar(ones({2}), {}); }),
      wrong<ShapeError>({"[_npi_where]", "(2,)", "(3,)"}, [] { nd.broadcast_where(ones({2}), ones({3}), ones({3})); }),
      wrong<ValueError>({"[_npi_where_rscalar]", "0.5"}, [] { nd.where(ones({2}), ones({2}, whole), 0.5); }),
      wrong<ShapeError>({"[_npi_where_lscalar]", "(2,)", "(3,)"}, [] { nd.where(ones({2}), 1, ones({3})); }),
      wrong<TypeError>({"[_npi_arctan2]", "int32"}, [] { nd.arctan2(ones({2}, whole), ones({2}, whole)); }),
      wrong<ShapeError>({"[_npi_copysign]", "(2,)", "(3,)"}, [] { nd.copysign(ones({2}), ones({3})); }),
      wrong<TypeError>({"[fmod]", "float32", "float16"}, [] { nd.fmod(ones({2}), ones({2}, half)); }),
      wrong<TypeError>({"[fmax]", "bool"}, [] { nd.fmax(ones({2}, DType::boolean), ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[fmin]", "int32", "int8"}, [] { nd.fmin(ones({2}, whole), ones({2}, DType::int8)); }),
      wrong<TypeError>({"[_npi_ldexp]", "int32"}, [] { nd.ldexp(ones({2}, whole), ones({2}, whole)); }),
      wrong<TypeError>({"[_npi_arctan2_scalar]", "int32"}, [] { nd._npi_arctan2_scalar(ones({2}, whole), {}); }),
      wrong<ShapeError>({"[_npi_true_divide]", "(2,)", "(3,)"}, [] { nd.true_divide(ones({2}), ones({3}, whole)); }),
      wrong<TypeError>({"[floor_divide]", "bool"},
                       [] { nd.floor_divide(ones({2}, DType::boolean), ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[silu]", "int32"}, [] { nd.silu(ones({2}, whole)); }),
      wrong<TypeError>({"[mish]", "int32"}, [] { nd.mish(ones({2}, whole)); }),
      wrong<TypeError>({"[log_sigmoid]", "int32"}, [] { nd.log_sigmoid(ones({2}, whole)); }),
      wrong<TypeError>({"[hard_swish]", "int32"}, [] { nd.hard_swish(ones({2}, whole)); }),
      wrong<TypeError>({"[tanh_shrink]", "int32"}, [] { nd.tanh_shrink(ones({2}, whole)); }),
      wrong<ValueError>({"[hard_shrink]", "lambd", "-1"}, [] { nd.hard_shrink(ones({2}), {.lambd = -1}); }),
      wrong<ValueError>({"[soft_shrink]", "lambd", "-1"}, [] { nd.soft_shrink(ones({2}), {.lambd = -1}); }),
      wrong<ValueError>({"[celu]", "alpha", "0"}, [] { nd.celu(ones({2}), {.alpha = 0}); }),
      wrong<TypeError>({"[threshold]", "int32"}, [] { nd.threshold(ones({2}, whole), {}); }),
      wrong<ShapeError>({"[glu]", "even", "(3,)"}, [] { nd.glu(ones({3})); }),
  };
}

std::vector<Wrong> numpy_arrays() {
  const DType boolean = DType::boolean;
  const auto list = [](auto... arrays) { return std::vector<NDArray>{arrays...}; };
  return {
      wrong<TypeError>({"[_npi_subtract]", "bool"}, [=] { nd._npi_subtract(ones({2}, boolean), ones({2}, boolean)); }),
      wrong<ShapeError>({"[_npi_add]", "(2,)", "(3,)"}, [] { nd._npi_add(ones({2}), ones({3}, whole)); }),
      wrong<ShapeError>({"[_npi_multiply]", "(2,)", "(3,)"}, [] { nd._npi_multiply(ones({2}), ones({3})); }),
      wrong<TypeError>({"[_npi_mod]", "bool"}, [=] { nd._npi_mod(ones({2}, boolean), ones({2}, boolean)); }),
      wrong<TypeError>({"[_npi_power]", "bool"}, [=] { nd._npi_power(ones({2}, boolean), ones({2}, boolean)); }),
      wrong<TypeError>({"[in-place arithmetic]", "float32", "int32", "x = x + y"},
                       [] {
                         promote_types([] {
                           NDArray x = ones({2}, whole);
                           x += ones({2});
                         });
                       }),
      wrong<ShapeError>({"[in-place arithmetic]", "(3, 2)", "(2,)"},
                        [] {
                          promote_types([] {
                            NDArray x = ones({2});
                            x += ones({3, 2}, whole);
                          });
                        }),
      wrong<ShapeError>({"[_npi_hstack]", "along axis 1", "(2, 3)", "(3, 3)"},
                        [=] {
                          nd.hstack(list(ones({2, 3}), ones({3, 3})));
                        }),
      wrong<ShapeError>({"[_npi_vstack]", "along axis 0", "(2, 3)"},
                        [=] {
                          nd.vstack(list(ones({2, 3}), ones({2})));
                        }),
      wrong<TypeError>({"[_npi_dstack]", "float32", "int32"}, [=] { nd.dstack(list(ones({2}), ones({2}, whole))); }),
      wrong<ValueError>({"[_npi_column_stack]", "at least one"}, [=] { nd.column_stack(std::vector<NDArray>{}); }),
      wrong<ValueError>({"[_np_atleast_1d]", "at least one"}, [=] { nd.atleast_1d(std::vector<NDArray>{}); }),
      wrong<ValueError>({"[_np_atleast_2d]", "at least one"}, [=] { nd.atleast_2d(std::vector<NDArray>{}); }),
      wrong<ValueError>({"[_np_atleast_3d]", "at least one"}, [=] { nd.atleast_3d(std::vector<NDArray>{}); }),
      wrong<ShapeError>({"[_npi_hsplit]", "axis 1 of size 5", "2 equal parts"},
                        [] {
                          nd.hsplit(ones({3, 5}), {.sections = 2});
                        }),
      wrong<ShapeError>({"[_npi_dsplit]", "at least 3 dimensions", "(3, 4)"},
                        [] {
                          nd.dsplit(ones({3, 4}), {.sections = 2});
                        }),
      wrong<ShapeError>({"[_np_diag]", "2 dimensions", "(2, 3, 4)"},
                        [] {
                          nd._np_diag(ones({2, 3, 4}));
                        }),
      wrong<ShapeError>({"[_np_diagflat]", "too large"},
                        [] { nd.diagflat(nd.zeros({0}), std::numeric_limits<int>::max()); }),
      wrong<ValueError>({"[_np_diagonal]", "must differ", "1 and 1"},
                        [] {
                          nd.diagonal(ones({2, 3}), {.axis1 = 1});
                        }),
      wrong<TypeError>({"[_np_trace]", "bool"},
                       [=] {
                         nd.trace(ones({2, 2}, boolean));
                       }),
      wrong<ShapeError>({"[_npi_diag_indices_from]", "equal", "(2, 3)"},
                        [] {
                          nd.diag_indices_from(ones({2, 3}));
                        }),
      wrong<ValueError>({"[_npi_hanning]", "-1"}, [] { nd.hanning(-1); }),
      wrong<TypeError>({"[_npi_hamming]", "bool"}, [=] { nd.hamming(3, {.dtype = boolean}); }),
      wrong<ValueError>({"[_npi_blackman]", "-2"}, [] { nd.blackman(-2); }),
      wrong<ValueError>({"[_npi_eye]", "-1"}, [] { nd._npi_eye({.N = -1}); }),
      wrong<ValueError>({"[_npi_identity]", "square", "(2, 3)"},
                        [] {
                          nd._npi_identity({.shape = {2, 3}});
                        }),
      wrong<ValueError>({"[_npi_indices]", "negative", "(-1,)"}, [] { nd.indices({-1}); }),
      wrong<ValueError>({"[_npi_logspace]", "num", "-1"}, [] { nd.logspace(0, 1, {.num = -1}); }),
      wrong<ValueError>({"[_npi_full_like]", "fill_value", "300"},
                        [] { nd.full_like(ones({2}), 300, {.dtype = DType::uint8}); }),
      wrong<ShapeError>({"[_npi_boolean_mask_assign_scalar]", "from axis 0", "(2, 3)", "(3,)"},
                        [=] {
                          nd._npi_boolean_mask_assign_scalar(ones({2, 3}), ones({3}, boolean), {.value = 1});
                        }),
      wrong<IndexError>({"[_npi_delete]", "int_ind", "[-3, 3)", "3"},
                        [] { nd._npi_delete(ones({3}), {.int_ind = 3}); }),
      wrong<ValueError>({"[_npi_delete]", "int_ind", "step"}, [] { nd._npi_delete(ones({3}), op::Delete{}); }),
      wrong<ValueError>({"[_npi_delete]", "step must not be 0"}, [] { nd._npi_delete(ones({3}), {.step = 0}); }),
      wrong<IndexError>({"[_npi_delete]", "[-3, 3)", "5"},
                        [] { nd._npi_delete(ones({3}), nd.array({5}), std::nullopt); }),
      wrong<IndexError>({"[_npi_insert_scalar]", "[-3, 4)", "4"},
                        [] { nd._npi_insert_scalar(ones({3}), {.val = 1, .int_ind = 4}); }),
      wrong<ShapeError>({"[_npi_insert_slice]", "2 slices", "(3,)"},
                        [] { nd._npi_insert_slice(ones({3}), ones({3}), {.start = 0, .stop = 2}); }),
      wrong<TypeError>({"[_npi_insert_tensor]", "integers", "float32"},
                       [] { nd._npi_insert_tensor(ones({3}), ones({1}), {.val = 1}); }),
      wrong<ValueError>({"[_npi_insert_tensor]", "whole number", "0.5"},
                        [] { nd._npi_insert_tensor(ones({3}, whole), ones({1}, whole), {.val = 0.5}); }),
      wrong<ValueError>({"[_npi_pad]", "two numbers", "2 axes", "((1, 1),)"},
                        [] {
                          nd._npi_pad(ones({2, 3}), {.pad_width = {{1, 1}}});
                        }),
      wrong<ValueError>({"[_npi_pad]", "negative"},
                        [] {
                          nd._npi_pad(ones({2}), {.pad_width = {{-1, 1}}});
                        }),
      wrong<ShapeError>({"[_npi_pad]", "no element", "(0,)"},
                        [] {
                          nd._npi_pad(ones({0}), {.pad_width = {{1, 1}}, .mode = NumpyPadMode::edge});
                        }),
      wrong<TypeError>({"[_npi_lcm]", "integers", "float32"}, [] { nd.lcm(ones({2}), ones({2})); }),
      wrong<ValueError>({"[_npi_lcm_scalar]", "whole number", "1.5"},
                        [] { nd._npi_lcm_scalar(ones({2}, whole), {.scalar = 1.5}); }),
  };
}

std::vector<Wrong> analysis() {
  const DType boolean = DType::boolean;
  return {
      wrong<TypeError>({"[_npi_around]", "bool"}, [=] { nd.around(ones({2}, boolean)); }),
      wrong<ShapeError>({"[_npi_polyval]", "1 dimensions", "(2, 2)"},
                        [] {
                          nd.polyval(ones({2, 2}), ones({2}));
                        }),
      wrong<ShapeError>({"[interp]", "at least one point"}, [] { nd.interp(ones({2}), ones({0}), ones({0})); }),
      wrong<ShapeError>({"[interp]", "fp", "(3,)", "(2,)"}, [] { nd.interp(ones({2}), ones({3}), ones({2})); }),
      wrong<TypeError>({"[isin]", "float32", "int32"}, [] { nd.isin(ones({2}), ones({2}, whole)); }),
      wrong<TypeError>({"[_npi_ediff1d]", "bool"}, [=] { nd.ediff1d(ones({2}, boolean)); }),
      wrong<ShapeError>({"[_npi_average]", "weights", "(2, 3)", "(2,)"},
                        [] {
                          nd.average(ones({2, 3}), ones({2}), {.axis = Shape(1)});
                        }),
      wrong<TypeError>({"[nanmean]", "floating", "int32"}, [] { nd.nanmean(ones({2}, whole)); }),
      wrong<ShapeError>({"[nanmax]", "at least one element", "(0,)"}, [] { nd.nanmax(ones({0})); }),
      wrong<TypeError>({"[nanmin]", "bool"}, [=] { nd.nanmin(ones({2}, boolean)); }),
      wrong<ShapeError>({"[cov]", "one or two dimensions", "(2, 2, 2)"},
                        [] {
                          nd.cov(ones({2, 2, 2}));
                        }),
      wrong<ShapeError>({"[_np_dot]", "one size", "(2, 3)", "(2, 3)"},
                        [] {
                          nd._np_dot(ones({2, 3}), ones({2, 3}));
                        }),
      wrong<ShapeError>({"[cross]", "size 3", "(2, 2)"},
                        [] {
                          nd.cross(ones({2, 2}), ones({2, 2}));
                        }),
      wrong<TypeError>({"[_npi_norm]", "int32"}, [] { nd._npi_norm(ones({2}, whole)); }),
      wrong<ValueError>({"[_npi_norm]", "flag", "4"}, [] { nd._npi_norm(ones({2}), {.flag = 4}); }),
      wrong<ValueError>({"[_npi_norm]", "singular values", "(2, 2, 2)"},
                        [] {
                          nd._npi_norm(ones({2, 2, 2}), {.axis = Shape(0), .flag = 2});
                        }),
      wrong<ValueError>({"[linalg_norm]", "ord", "3"},
                        [] {
                          nd.linalg_norm(ones({2, 2}), {.ord = 3});
                        }),
      wrong<ValueError>({"[linalg_norm]", "one or two axes", "(2, 2, 2)"},
                        [] {
                          nd.linalg_norm(ones({2, 2, 2}), {.ord = 1});
                        }),
      wrong<TypeError>({"[linalg_norm]", "float32 or float64", "float16"},
                       [] {
                         nd.linalg_norm(ones({2, 2}, half), {.ord = 2});
                       }),
      wrong<ValueError>({"[_npi_pinv_scalar_rcond]", "hermitian"},
                        [] {
                          nd.call(op::PinvScalarRcond{.hermitian = true}, ones({2, 2}));
                        }),
      wrong<ShapeError>({"[_npi_pinv]", "(2,)", "(3,)"},
                        [] {
                          nd._npi_pinv(ones({2, 2, 2}), ones({3}));
                        }),
      wrong<ValueError>({"[_npi_tensorinv]", "ind", "2"},
                        [] {
                          nd.linalg_tensorinv(ones({2, 2}));
                        }),
      wrong<ShapeError>({"[_npi_tensorsolve]", "square", "(2, 3)"},
                        [] {
                          nd.linalg_tensorsolve(ones({2, 3}), ones({2}));
                        }),
      wrong<ValueError>({"[_npi_eigh]", "UPLO", "X"},
                        [] {
                          nd.linalg_eigh(ones({2, 2}), {.UPLO = {"X"}});
                        }),
      wrong<ShapeError>({"[_npi_eigvalsh]", "square", "(2, 3)"},
                        [] {
                          nd.linalg_eigvalsh(ones({2, 3}));
                        }),
      wrong<TypeError>({"[_npi_eigvals]", "float16"},
                       [] {
                         nd.linalg_eigvals(ones({2, 2}, half));
                       }),
      wrong<ShapeError>({"[_npi_eig]", "square", "(2, 3)"},
                        [] {
                          nd.linalg_eig(ones({2, 3}));
                        }),
      wrong<ValueError>({"[_npi_eig]", "matrix 0", "not real"},
                        [] {
                          nd.linalg_eig(nd.array({{0, 1}, {-1, 0}}))[0].wait_to_read();
                        }),
  };
}

void check(const std::vector<Wrong>& table) {
  for (const Wrong& w : table) {
    INFO(w.says[0] << " " << w.says[1]);
    try {
      w.call();
      CHECK_FALSE("nothing was thrown");
    } catch (const Error& e) {
      const std::string text = e.what();
      CHECK(std::string(typeid(e).name()) == w.kind.name());
      for (const std::string& part : w.says) CHECK_THAT(text, Catch::Matchers::Contains(part));
      CHECK(text.front() == '[');
    }
    try {
      nd.waitall();
    } catch (const AggregateError&) {
    }
  }
}

// Sparse arrays, and gradients that are.
std::vector<Wrong> sparse_arrays() {
  using Rows = sparse::RowSparseNDArray;
  using Csr = sparse::CSRNDArray;
  const auto index = [](std::vector<int64_t> v) { return nd.array(v, {.dtype = DType::int64}); };
  const auto rows = [=](DType t = DType::float32) { return Rows(ones({2, 3}, t), index({0, 2}), {4, 3}); };
  const auto csr = [=] { return Csr(ones({2}), index({0, 2}), index({0, 1, 2}), {2, 3}); };
  return {
      wrong<ShapeError>({"[RowSparseNDArray] of shape (4, 3)", "data must have shape (k, ...)", "(2, 2)"},
                        [=] {
                          Rows(ones({2, 2}), index({0, 2}), {4, 3});
                        }),
      wrong<ShapeError>({"[RowSparseNDArray] indices must have shape (2,)", "(3,)"},
                        [=] {
                          Rows(ones({2, 3}), index({0, 1, 2}), {4, 3});
                        }),
      wrong<TypeError>({"[RowSparseNDArray] indices must be int64", "float32"},
                       [] {
                         Rows(ones({2, 3}), ones({2}), {4, 3});
                       }),
      wrong<TypeError>({"[RowSparseNDArray] data must be numbers", "bool"}, [=] { rows(DType::boolean); }),
      wrong<ShapeError>({"[CSRNDArray] of shape (2,)", "2 dimensions"},
                        [=] {
                          Csr(ones({1}), index({0}), index({0, 1}), {2});
                        }),
      wrong<ShapeError>({"[CSRNDArray] indices must have shape (1,)", "(2,)"},
                        [=] {
                          Csr(ones({1}), index({0, 1}), index({0, 1}), {1, 2});
                        }),
      wrong<ShapeError>({"[CSRNDArray] indptr must have shape (3,)", "(2,)"},
                        [=] {
                          Csr(ones({1}), index({0}), index({0, 1}), {2, 2});
                        }),
      wrong<TypeError>({"[CSRNDArray] indptr must be int64", "int32"},
                       [=] {
                         Csr(ones({1}), index({0}), ones({2}, whole), {1, 2});
                       }),
      wrong<ShapeError>({"[cast_storage] a csr matrix has 2 dimensions", "(2, 3, 4)"},
                        [] {
                          sparse::cast_storage<Csr>(ones({2, 3, 4}));
                        }),
      wrong<ShapeError>({"[cast_storage]", "a row_sparse array has at least 1 dimension"},
                        [] { sparse::cast_storage<Rows>(ones({})); }),
      wrong<TypeError>({"data must be numbers", "bool"},
                       [] {
                         sparse::cast_storage<Rows>(ones({2, 2}, DType::boolean));
                       }),
      wrong<ShapeError>({"[sparse.zeros] a csr matrix has 2 dimensions", "(3,)"}, [] { sparse::zeros<Csr>({3}); }),
      wrong<ShapeError>({"[sparse.zeros]", "a row_sparse array has at least 1 dimension"},
                        [] { sparse::zeros<Rows>({}); }),
      wrong<ShapeError>({"[_csr_dot]", "must have 3 rows", "(2, 3)"},
                        [=] {
                          sparse::dot(csr(), ones({2, 3}));
                        }),
      wrong<ShapeError>({"[_csr_dot]", "must have 2 dimensions", "(3,)"}, [=] { sparse::dot(csr(), ones({3})); }),
      wrong<TypeError>({"[_csr_dot]", "one dtype", "float32 and float64"},
                       [=] {
                         sparse::dot(csr(), ones({3, 1}, DType::float64));
                       }),
      wrong<ValueError>({"[sparse.dot]", "row_sparse where transpose_a is given"},
                        [=] {
                          sparse::dot<Rows>(csr(), ones({3, 1}));
                        }),
      wrong<IndexError>({"[sparse.dot]", "indices must lie in [0, 2)"},
                        [=] {
                          const Csr bad(ones({1}), index({5}), index({0, 1}), {1, 2});
                          sparse::dot<Rows>(bad, ones({1, 1}), {.transpose_a = true});
                        }),
      wrong<IndexError>({"[sparse]", "indptr must rise from 0 to 1"},
                        [=] {
                          const Csr bad(ones({1}), index({0}), index({1, 0}), {1, 2});
                          sparse::elemwise_add(bad, bad);
                        }),
      wrong<IndexError>({"[sparse.slice]", "indptr must rise from 0 to 1"},
                        [=] {
                          Csr(ones({1}), index({0}), index({0, 9}), {1, 2}).slice(0, 1);
                        }),
      wrong<IndexError>({"[sparse]", "row 2 of a matrix of 2 rows"}, [=] { csr()[2]; }),
      wrong<IndexError>({"[sparse.retain] indices must lie in [0, 4)", "got 4"},
                        [=] {
                          sparse::retain(rows(), index({1, 4}));
                        }),
      wrong<ShapeError>({"[sparse.retain] indices must have 1 dimension", "(1, 1)"},
                        [=] {
                          sparse::retain(rows(), index({1}).reshape({1, 1}));
                        }),
      wrong<ShapeError>({"[sparse.elemwise_add]", "one shape", "(4, 3) and (5, 3)"},
                        [=] {
                          sparse::elemwise_add(rows(), sparse::zeros<Rows>({5, 3}));
                        }),
      wrong<IndexError>({"[sparse.sum_rows]", "indices must lie in [0, 2)"},
                        [=] {
                          sparse::sum_rows(ones({1, 1}), index({2}), {2, 1});
                        }),
      wrong<ValueError>({"[sparse.square_sum] axis must be 0 or 1", "2"}, [=] { sparse::square_sum(rows(), 2); }),
      wrong<ShapeError>({"[sparse.square_sum]", "2 dimensions", "(3,)"},
                        [] { sparse::square_sum(sparse::zeros<Rows>({3}), 0); }),
      wrong<ValueError>({"[sparse.getnnz] axis must be 0 or 1", "-1"}, [=] { sparse::getnnz(csr(), -1); }),
      wrong<ShapeError>({"[sparse.update]", "weight has shape (5, 3), its gradient (4, 3)"},
                        [=] {
                          sparse::sgd_update(ones({5, 3}), rows(), {.lr = 1});
                        }),
      wrong<TypeError>({"[attach_row_sparse_grad]", "floating dtype", "int32"},
                       [] { autograd::attach_row_sparse_grad(ones({2}, whole)); }),
      wrong<ShapeError>({"[attach_row_sparse_grad]", "at least 1 dimension"},
                        [] { autograd::attach_row_sparse_grad(ones({})); }),
      wrong<StateError>({"[row_sparse_grad]", "call attach_row_sparse_grad() first"},
                        [] { autograd::row_sparse_grad(ones({2})); }),
      wrong<StateError>({"[backward] a dense gradient has arrived at an array (2, 3)", "row_sparse"},
                        [] {
                          const NDArray x = ones({2, 3});
                          autograd::attach_row_sparse_grad(x);
                          autograd::record([&] { return nd.square(x); }).backward();
                        }),
  };
}

}  // namespace

TEST_CASE("errors: shapes", "[errors]") { check(shapes()); }
TEST_CASE("errors: dtypes", "[errors]") { check(types()); }
TEST_CASE("errors: values and indices", "[errors]") { check(values()); }
TEST_CASE("errors: updates of weights", "[errors]") { check(updates()); }
TEST_CASE("errors: cutting, scattering, sums up to each element", "[errors]") { check(rearranged()); }
TEST_CASE("errors: random numbers, densities and images", "[errors]") { check(drawn()); }
TEST_CASE("errors: samples, regions and places", "[errors]") { check(spatial()); }
TEST_CASE("errors: functions of NumPy's", "[errors]") { check(numpy_functions()); }
TEST_CASE("errors: arrays stacked, split, padded and edited", "[errors]") { check(numpy_arrays()); }
TEST_CASE("errors: rounding, averages, norms, eigenvalues", "[errors]") { check(analysis()); }
TEST_CASE("errors: quantised arrays", "[errors]") { check(quantised()); }
TEST_CASE("errors: recurrent layers and cells", "[errors]") { check(recurrent()); }
TEST_CASE("errors: states and devices", "[errors]") { check(states()); }
TEST_CASE("errors: signals, outputs with a gradient, operators of the program", "[errors]") { check(signals()); }

TEST_CASE("errors: sparse arrays", "[errors]") { check(sparse_arrays()); }

TEST_CASE("errors: a wrong call names its line, outside of blocks too", "[errors]") {
  NDArray x = ones({2, 3});
  const NDArray y = ones({2, 2}), z = ones({2, 3}, half);
  int line = 0;
  const std::vector<std::function<void()>> calls{
      [&] {
        line = __LINE__ + 1;
        x + y;
      },
      [&] {
        line = __LINE__ + 1;
        nd.dot(x, x);
      },
      [&] {
        line = __LINE__ + 1;
        nd.Convolution(x, y, {.kernel = {3}, .num_filter = 1});
      },
      [&] {
        line = __LINE__ + 1;
        nd.concat({.dim = 0}, x, z);
      },
      [&] {
        line = __LINE__ + 1;
        x += y;
      },
      [&] {
        line = __LINE__ + 1;
        x.assign(y);
      },
      [&] {
        line = __LINE__ + 1;
        x.slice_assign({0, 0}, {1, 2}, ones({3}));
      },
      [&] {
        line = __LINE__ + 1;
        x.reshape({4, 2});
      },
      [&] {
        line = __LINE__ + 1;
        x.slice(0, 1).reshape({4, 2});
      },
  };
  for (const auto& call : calls) {
    std::string text;
    try {
      call();
    } catch (const Error& e) {
      text = e.what();
    }
    CHECK_THAT(text, Catch::Matchers::Contains("error_messages_test.cpp:" + std::to_string(line)));
  }
}

TEST_CASE("errors: a failure while running names operator and line", "[errors]") {
  const NDArray bad = nd.random_normal({2}, {.scale = -1});
  const int line = __LINE__ - 1;
  const NDArray next = nd.relu(bad) + 1;
  for (int time = 0; time < 2; ++time) {  // each wait throws again
    try {
      next.asvector<float>();
      FAIL("nothing was thrown");
    } catch (const ValueError& e) {
      CHECK_THAT(e.what(), Catch::Matchers::Contains("[_random_normal]"));
      CHECK_THAT(e.what(), Catch::Matchers::Contains("error_messages_test.cpp:" + std::to_string(line)));
    }
  }
  CHECK_NOTHROW(nd.waitall());  // it has been reported
}

TEST_CASE("errors: attribute texts that no operator reads", "[errors]") {
  auto refused = [](const OpDef& def, const char* name, const char* text) {
    Attributes attrs(def);
    return def.read(attrs.edit(), name, text);
  };
  CHECK(refused(op::Activation::def, "act_type", "swish") == 2);
  CHECK(refused(op::Convolution::def, "kernel", "(3, x)") == 2);
  CHECK(refused(op::Pooling::def, "global_pool", "perhaps") == 2);
  CHECK(refused(op::Cast::def, "dtype", "float99") == 2);
  CHECK(refused(op::FullyConnected::def, "num_hidden", "many") == 2);
  CHECK(refused(op::FullyConnected::def, "hidden", "4") == 1);
}

}  // namespace error_messages_test
