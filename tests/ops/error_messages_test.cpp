// Wrong calls: each throws its kind of exception at once, and says the operator, what it expected and what it got.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <typeinfo>

#include "kaon/gluon/nn/nn.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"

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
      wrong<ShapeError>({"[Concat]", "input 1 must have shape (2, 4)", "got (3, 4)"},
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
      wrong<TypeError>({"[sum]", "bool", "use cast"}, [] { nd.sum(ones({2}, DType::boolean)); }),
      wrong<TypeError>({"[_backward_gather_nd]", "not implemented", "bool"},
                       [] {
                         nd._backward_gather_nd(ones({2}, DType::boolean), ones({1, 2}), {.shape = {3}});
                       }),
      wrong<ValueError>({"[Embedding]", "sparse_grad=True is not implemented"},
                        [] {
                          nd.Embedding(ones({2}), ones({5, 3}), {.input_dim = 5, .output_dim = 3, .sparse_grad = true});
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
      wrong<ValueError>({"[GroupNorm]", "output_mean_var is not implemented: use moments"},
                        [] {
                          nd.GroupNorm(ones({1, 2, 3}), ones({1}), ones({1}), {.output_mean_var = true});
                        }),
      wrong<ValueError>(
          {"[_contrib_SyncBatchNorm]", "output_mean_var is not implemented: use moments"},
          [] {
            nd.SyncBatchNorm(ones({2, 1}), ones({1}), ones({1}), ones({1}), ones({1}), {.output_mean_var = true});
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
      wrong<ValueError>({"[Convolution]", "layout", "NCHW", "NHWC"},
                        [] {
                          nd.Convolution(
                              ones({1, 3, 8, 8}), ones({4, 3, 3, 3}),
                              op::Convolution{.kernel = {3, 3}, .num_filter = 4, .layout = ConvLayout::NHWC});
                        }),
      wrong<ValueError>({"[Convolution]", "stride must be at least 1", "(0, 1)"},
                        [] {
                          nd.Convolution(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}),
                                         op::Convolution{.kernel = {3, 3}, .stride = {0, 1}, .num_filter = 4});
                        }),
      wrong<ValueError>({"[Dropout]", "p must", "1.5"}, [] { nd.Dropout(ones({2}), {.p = 1.5}); }),
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
      wrong<ValueError>({"[one_hot]", "depth must be positive", "0"}, [] { nd.one_hot(ones({2}), 0); }),
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
      wrong<TypeError>({"[erfinv]", "floating", "int32"}, [] { nd.erfinv(ones({2}, whole)); }),
      wrong<TypeError>({"[_contrib_quadratic]", "floating", "int32"}, [] { nd.quadratic(ones({2}, whole), {.a = 1}); }),
      wrong<TypeError>({"[_contrib_round_ste]", "bool"}, [] { nd.round_ste(ones({2}, DType::boolean)); }),
      wrong<ValueError>({"[amp_multicast]", "at least 1"}, [] { nd.amp_multicast(std::vector<NDArray>()); }),
      wrong<ValueError>({"[im2col]", "kernel must be two numbers", "(3,)"},
                        [] {
                          nd.im2col(ones({1, 1, 4, 4}), {.kernel = {3}});
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
      wrong<ValueError>({"[_image_resize]", "interp must be 1", "2"},
                        [] {
                          nd.image_resize(ones({2, 2, 3}), {3, 3}, {.interp = 2});
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

}  // namespace

TEST_CASE("errors: shapes", "[errors]") { check(shapes()); }
TEST_CASE("errors: dtypes", "[errors]") { check(types()); }
TEST_CASE("errors: values and indices", "[errors]") { check(values()); }
TEST_CASE("errors: cutting, scattering, sums up to each element", "[errors]") { check(rearranged()); }
TEST_CASE("errors: random numbers, densities and images", "[errors]") { check(drawn()); }
TEST_CASE("errors: states and devices", "[errors]") { check(states()); }

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
