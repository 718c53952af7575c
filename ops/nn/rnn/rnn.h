// Recurrent layers, and the loss of unaligned sequences.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

enum class RnnMode : uint8_t { rnn_relu, rnn_tanh, lstm, gru };
constexpr std::array<std::string_view, 4> enum_names(RnnMode) { return {"rnn_relu", "rnn_tanh", "lstm", "gru"}; }

namespace ops {
// The gates of a cell; saved_blocks: what its gradient reads again, in arrays of the state's size.
constexpr int64_t gates_of(RnnMode mode) { return mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1; }
constexpr int64_t saved_blocks(RnnMode mode) { return mode == RnnMode::lstm ? 5 : mode == RnnMode::gru ? 4 : 0; }
}  // namespace ops

enum class BlankLabel : uint8_t { first, last };
constexpr std::array<std::string_view, 2> enum_names(BlankLabel) { return {"first", "last"}; }

namespace op {
// num_layers recurrent layers of state_size H over data (T, N, C), each in one direction or, if bidirectional, in both
// with the results side by side. With x a step's input, h the state before it, s the sigmoid and biases b, b':
//   rnn_relu, rnn_tanh   h' = f(W x + b + U h + b')
//   lstm                 (i, f, g, o) = W x + b + U h + b';  c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(c')
//   gru                  r = s(W_r x + b_r + U_r h + b'_r), z likewise;  n = tanh(W_n x + b_n + r (U_n h + b'_n));
//                        h' = (1 - z) n + z h
// With projection_size P (lstm only) h' is V s(o) tanh(c'), of size P. `parameters` has W, U and V of each layer and
// direction, then b and b' of each, the gates in the order above (r, z, n). state: (layers and directions, N, H or P),
// state_cell: c for lstm. Outputs: h' of the last layer (T, N, H or P per direction); with state_outputs the final
// states, and for lstm the final c. p: Dropout between layers. lstm_state_clip_min and _max bound c'; NaN becomes the
// lower bound with lstm_state_clip_nan, else it stays.
// sequence_length (N,), with use_sequence_length: sequence n ends after so many steps, at most T. Results after it are
// 0, the final states are those of its last step, and the other direction begins there. MXNet reads lengths, and the
// bounds of c, on GPUs only; the CPU ignores or refuses them. Floating dtypes.
struct RNN {
  int64_t state_size = 0;
  int num_layers = 0;
  bool bidirectional = false;
  RnnMode mode = RnnMode::lstm;
  double p = 0;
  bool state_outputs = false;
  std::optional<int64_t> projection_size{};
  std::optional<double> lstm_state_clip_min{};
  std::optional<double> lstm_state_clip_max{};
  bool lstm_state_clip_nan = false;
  bool use_sequence_length = false;
  static constexpr OpTraits traits{.name = "RNN",
                                   .inputs = Names("data", "parameters", "state", "state_cell", "sequence_length"),
                                   .infers = bit(1) | bit(2) | bit(3),
                                   .mode_dependent = true};
  static constexpr OpTraits traits_without_cell{.name = "RNN",
                                                .inputs = Names("data", "parameters", "state", "sequence_length"),
                                                .infers = bit(1) | bit(2),
                                                .mode_dependent = true};
  static constexpr void fields(auto field) {
    field("state_size", &RNN::state_size, true);
    field("num_layers", &RNN::num_layers, true);
    field("bidirectional", &RNN::bidirectional);
    field("mode", &RNN::mode, true);
    field("p", &RNN::p);
    field("state_outputs", &RNN::state_outputs);
    field("projection_size", &RNN::projection_size);
    field("lstm_state_clip_min", &RNN::lstm_state_clip_min);
    field("lstm_state_clip_max", &RNN::lstm_state_clip_max);
    field("lstm_state_clip_nan", &RNN::lstm_state_clip_nan);
    field("use_sequence_length", &RNN::use_sequence_length);
  }
  static const OpDef def;
  int num_inputs() const { return 3 + int(mode == RnnMode::lstm) + int(use_sequence_length); }
  int num_outputs() const { return !state_outputs ? 1 : mode == RnnMode::lstm ? 3 : 2; }
  const OpTraits& traits_of() const { return mode == RnnMode::lstm ? traits : traits_without_cell; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Arrays one after the other along axis `dim`, as Concat: how Gluon makes the flat parameters of RNN.
struct RnnParamConcat {
  int dim = 1;
  int num_args = 0;
  static constexpr OpTraits traits{.name = "_rnn_param_concat", .inputs = Names("arg"), .variadic = true};
  static constexpr void fields(auto field) {
    field("num_args", &RnnParamConcat::num_args, true);
    field("dim", &RnnParamConcat::dim);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The arrays that the flat `parameters` of RNN hold, in their order: W, U and, where projection_size is not 0, V of
// each layer and direction, then b and b' of each.
struct RnnParameters {
  RnnMode mode = RnnMode::lstm;
  int64_t input_size = 1;
  int64_t state_size = 1;
  int num_layers = 1;
  bool bidirectional = false;
  int64_t projection_size = 0;
  static constexpr OpTraits traits{
      .name = "_rnn_parameters", .inputs = Names("parameters"), .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("mode", &RnnParameters::mode);
    field("input_size", &RnnParameters::input_size);
    field("state_size", &RnnParameters::state_size);
    field("num_layers", &RnnParameters::num_layers);
    field("bidirectional", &RnnParameters::bidirectional);
    field("projection_size", &RnnParameters::projection_size);
  }
  static const OpDef def;
  int directions() const { return bidirectional ? 2 : 1; }
  int cells() const { return num_layers * directions(); }              // of all layers and directions
  int weights_of_cell() const { return projection_size > 0 ? 3 : 2; }  // W, U, V
  int num_outputs() const { return cells() * (weights_of_cell() + 2); }
  int64_t result_size() const { return projection_size > 0 ? projection_size : state_size; }
  Shape shape_of(int i) const;  // of output i
  int64_t size() const;         // of all together
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// The recurrence of one layer and direction of RNN, with R the size of a step's result:
//   gates (T, N, gates H)   W x + b, and but for gru + b'
//   weight (gates H, R)     U
//   state (N, R), for lstm (N, R + H)   h and c before the first step, side by side
//   bias (gates H)          for gru: b'
//   projection (P, H)       V, if projected
//   sequence_length (N,)    if use_sequence_length
// Outputs: h of all steps (T, N, R); h and c after the last one, as `state`; hidden, for lstm and gru: (T, N, blocks H)
// with i, f, g, o, c, or r, z, n and U_n h + b'_n. Steps that a sequence does not have leave the state as it is.
// clip_min and clip_max bound c. reverse: from step T - 1 to step 0.
struct RnnScan {
  RnnMode mode = RnnMode::lstm;
  bool reverse = false;
  bool projected = false;
  bool use_sequence_length = false;
  std::optional<double> clip_min{};
  std::optional<double> clip_max{};
  bool clip_nan = false;
  static constexpr OpTraits traits{.name = "_rnn_scan",
                                   .inputs = Names("gates", "weight", "state", "bias_or_projection", "sequence_length"),
                                   .outputs = 3,
                                   .visible_outputs = 2,
                                   .in_mxnet = false};
  static constexpr OpTraits traits_without_extra{.name = "_rnn_scan",
                                                 .inputs = Names("gates", "weight", "state", "sequence_length"),
                                                 .outputs = 3,
                                                 .visible_outputs = 2,
                                                 .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("mode", &RnnScan::mode);
    field("reverse", &RnnScan::reverse);
    field("projected", &RnnScan::projected);
    field("use_sequence_length", &RnnScan::use_sequence_length);
    field("clip_min", &RnnScan::clip_min);
    field("clip_max", &RnnScan::clip_max);
    field("clip_nan", &RnnScan::clip_nan);
  }
  static const OpDef def;
  bool has_extra() const { return mode == RnnMode::gru || projected; }  // bias or projection
  const OpTraits& traits_of() const { return has_extra() ? traits : traits_without_extra; }
  int num_inputs() const { return 3 + int(has_extra()) + int(use_sequence_length); }
  int num_outputs() const { return saved_blocks(mode) > 0 ? 3 : 2; }
  IndexUse index_use(std::span<const TensorView> inputs) const {
    if (!use_sequence_length) return {};
    return {num_inputs() - 1, inputs[0].shape[0] + 1};
  }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The gradients of RnnScan's gates, weight, state, and bias or projection, from the gradients of its two visible
// outputs and its hidden one, which `saved` is (for lstm and gru).
struct BackwardRnnScan {
  RnnMode mode = RnnMode::lstm;
  bool reverse = false;
  bool projected = false;
  bool use_sequence_length = false;
  std::optional<double> clip_min{};
  std::optional<double> clip_max{};
  static constexpr OpTraits traits{
      .name = "_backward_rnn_scan",
      .inputs = Names("head", "last_head", "weight", "state", "output", "saved", "projection", "sequence_length"),
      .outputs = 4,
      .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("mode", &BackwardRnnScan::mode);
    field("reverse", &BackwardRnnScan::reverse);
    field("projected", &BackwardRnnScan::projected);
    field("use_sequence_length", &BackwardRnnScan::use_sequence_length);
    field("clip_min", &BackwardRnnScan::clip_min);
    field("clip_max", &BackwardRnnScan::clip_max);
  }
  static const OpDef def;
  int num_inputs() const { return 5 + int(saved_blocks(mode) > 0) + int(projected) + int(use_sequence_length); }
  int num_outputs() const { return 3 + int(mode == RnnMode::gru || projected); }
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// Connectionist temporal classification (Graves et al. 2006): minus the logarithm of the probability, under the softmax
// of data (T, N, C), of all paths of T classes that become the row of label (N, L) when repeated classes are merged and
// then blanks removed. The blank is class 0, or C - 1 with blank_label=last. A row of labels ends before its first 0
// (first) or -1 (last), or after label_lengths[n]; data_lengths[n] says how many steps of data count. Both are cut to
// what there is. T is at least L. The loss of labels that do not fit into the steps is 0, with gradient 0, where
// MXNet's gradient is undefined; a label that is no class has probability 0, where MXNet reads outside the data. A row
// without labels has its loss, also where all rows are so, where MXNet's is undefined. Floating dtypes; MXNet takes
// float32 alone. Labels and lengths are of any dtype but bool; no gradient flows to them.
struct CTCLoss {
  bool use_data_lengths = false;
  bool use_label_lengths = false;
  BlankLabel blank_label = BlankLabel::first;
  static constexpr OpTraits traits{.name = "CTCLoss",
                                   .inputs = Names("data", "label", "data_lengths", "label_lengths"),
                                   .aliases = Names("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")};
  static constexpr OpTraits traits_without_data_lengths{.name = "CTCLoss",
                                                        .inputs = Names("data", "label", "label_lengths")};
  static constexpr void fields(auto field) {
    field("use_data_lengths", &CTCLoss::use_data_lengths);
    field("use_label_lengths", &CTCLoss::use_label_lengths);
    field("blank_label", &CTCLoss::blank_label);
  }
  static const OpDef def;
  int num_inputs() const { return 2 + int(use_data_lengths) + int(use_label_lengths); }
  const OpTraits& traits_of() const { return use_data_lengths ? traits : traits_without_data_lengths; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same from the logarithms of the probabilities, float32 or float64. Hidden: its gradient (T, N, C), which holds
// minus the probability that a path to the label has class c at step t.
struct CtcLossOfLogs {
  bool use_data_lengths = false;
  bool use_label_lengths = false;
  BlankLabel blank_label = BlankLabel::first;
  static constexpr OpTraits traits{.name = "_ctc_loss_of_logs",
                                   .inputs = Names("data", "label", "data_lengths", "label_lengths"),
                                   .outputs = 2,
                                   .visible_outputs = 1,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("use_data_lengths", &CtcLossOfLogs::use_data_lengths);
    field("use_label_lengths", &CtcLossOfLogs::use_label_lengths);
    field("blank_label", &CtcLossOfLogs::blank_label);
  }
  static const OpDef def;
  int num_inputs() const { return 2 + int(use_data_lengths) + int(use_label_lengths); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::RnnParameters& op, KernelContext& c);
void run_cuda(const op::RnnParameters& op, KernelContext& c);
void run_cpu(const op::RnnScan& op, KernelContext& c);
void run_cuda(const op::RnnScan& op, KernelContext& c);
void run_cpu(const op::BackwardRnnScan& op, KernelContext& c);
void run_cuda(const op::BackwardRnnScan& op, KernelContext& c);
void run_cpu(const op::CtcLossOfLogs& op, KernelContext& c);
void run_cuda(const op::CtcLossOfLogs& op, KernelContext& c);

}  // namespace kaon
