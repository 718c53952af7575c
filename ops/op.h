// Operators: structs with attributes as fields, traits, shape inference and a gradient. A light header: .cu files read
// it.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/view.h"

namespace KAON_API kaon {

class NDArray;
struct OpDef;

namespace ops {
// What an operator can say of its part in fused programs and kernels (ops/operator/).
struct CudaExpression;
struct ExpressionArgs;
struct FusedForms;
struct RegisterKernels;

// A short constexpr list of names.
struct Names {
  std::array<std::string_view, 9> items{};
  uint8_t count = 0;

  constexpr Names() = default;
  template <class... S>
    requires(sizeof...(S) > 0)
  constexpr Names(const S&... s) : items{std::string_view(s)...}, count(sizeof...(S)) {}
  constexpr std::string_view operator[](int i) const { return items[size_t(i)]; }
  constexpr int size() const { return count; }
};

// A bool that no number converts to. In braces, {0, 1} names two axes to a reader who knows MXNet; were keepdims a
// bool, it would be axis 0 with keepdims.
class Flag {
 public:
  constexpr Flag() = default;
  template <std::same_as<bool> B>
  constexpr Flag(B value) : value_(value) {}
  constexpr operator bool() const { return value_; }

 private:
  bool value_ = false;
};

// An attribute that is any text. A value: the text is kept as long as the process, once however often it is read.
struct Word {
  const char* text = "";
  friend bool operator==(const Word& a, const Word& b) { return std::string_view(a.text) == b.text; }
};

// An attribute that is a tuple of up to 64 numbers. A value.
template <class T>
class NumberTuple {
 public:
  static constexpr int max_size = 64;
  constexpr NumberTuple() = default;
  template <class... N>
    requires(sizeof...(N) >= 1 && sizeof...(N) <= size_t(max_size) && (std::convertible_to<N, T> && ...))
  constexpr NumberTuple(N... values) : items_{T(values)...}, count_(sizeof...(N)) {}
  constexpr NumberTuple(const Shape& values) requires std::same_as<T, int64_t> {
    for (const int64_t v : values) push_back(v);
  }
  constexpr int size() const { return int(count_); }
  constexpr T operator[](int i) const { return items_[size_t(i)]; }
  constexpr T& operator[](int i) { return items_[size_t(i)]; }
  constexpr const T* data() const { return items_.data(); }
  constexpr bool push_back(T value) {  // false: it is full
    if (size() == max_size) return false;
    return items_[size_t(count_++)] = value, true;
  }
  friend constexpr bool operator==(const NumberTuple&, const NumberTuple&) = default;

 private:
  std::array<T, max_size> items_{};
  uint32_t count_ = 0;
};
using FloatTuple = NumberTuple<float>;  // float32, as MXNet keeps them
using IntTuple = NumberTuple<int64_t>;  // where a Shape has too few numbers, as two for each axis; a Shape converts

constexpr uint32_t bit(int i) { return 1u << i; }
}  // namespace ops

struct OpTraits {
  std::string_view name;      // MXNet's name, as in files
  ops::Names inputs{"data"};  // names of the inputs, as MXNet has them
  int outputs = 1;
  int visible_outputs = -1;  // returned to the caller; -1: all (BatchNorm computes 3 and returns 1)
  bool variadic = false;     // any number of inputs (concat)
  int inplace = -1;          // output 0 may take the memory of this input (same bytes, read before written per element)
  uint32_t mutates = 0;      // bit i: input i is updated in place (optimizer states, running statistics)
  int mutates_period = 0;    // variadic: > 0: inputs come in groups of this size, and `mutates` is for one group
  int ungrouped = 0;         // ... but for so many at the end
  uint32_t infers = 0;       // bit i: the shape of input i follows from the other inputs (weights)
  bool view = false;         // output 0 is the bytes of input 0 under another shape: plans alias it, no kernel runs
  bool random = false;       // draws random numbers
  bool pointwise = false;    // output element k depends on input elements k only (fusable)
  bool mode_dependent = false;  // reads KernelContext::training
  bool any_layout = false;      // right for channels_last values when all 4-D inputs share that layout
  // One pass over memory that gives the same bits each time: training with the option `mirror` may compute the result
  // again for the backward instead of keeping it. Implied by pointwise and by view.
  bool recomputable = false;
  bool in_mxnet = true;  // false: export refuses it by name
  // The derivative is zero wherever it exists (sign, argmax), or is meant to be (BlockGrad): the operator has no
  // `grad`, and gradients end here. A backward through an operator with neither throws StateError.
  bool flat = false;
  // The gradient is the operator's own, whatever arrives (SoftmaxOutput): two equal calls give it twice, and where what
  // is computed from it has a derivative of zero (BlockGrad), it is given as well.
  bool ignores_head = false;
  ops::Names aliases{};  // other names seen in files
};

namespace ops {
// Whether input `i` of `n` is updated in place. Inputs after the last whole group belong to no group.
constexpr bool is_mutated(const OpTraits& traits, int i, int n) {
  if (traits.mutates_period == 0) return i < 32 && (traits.mutates >> i & 1) != 0;
  return i < (n - traits.ungrouped) / traits.mutates_period * traits.mutates_period &&
         (traits.mutates >> (i % traits.mutates_period) & 1) != 0;
}
}  // namespace ops

// The argument of `infer`: known inputs in, outputs (and inferable inputs) out. Checks throw ShapeError, TypeError or
// ValueError (attributes) naming the operator, what was expected and what was given.
class InferContext {
 public:
  InferContext(const char* op, const OpTraits& traits, std::span<TensorMeta* const> inputs,
               std::span<TensorMeta> outputs)
      : op_(op), traits_(traits), inputs_(inputs), outputs_(outputs) {}

  const char* op() const { return op_; }
  int num_inputs() const { return int(inputs_.size()); }
  const Shape& shape(int i) const { return inputs_[size_t(i)]->shape; }
  DType dtype(int i = 0) const { return inputs_[size_t(i)]->dtype; }
  // Fills unknown dimensions of input i from `expected`, or throws ShapeError when they differ.
  void expect_shape(int i, const Shape& expected);
  // The same with the dtype, which an input of unknown shape gets; TypeError when it has another.
  void expect_input(int i, const Shape& expected, DType dtype);
  void expect_ndim(int i, int ndim) const;           // throws ShapeError
  void expect_ndim_at_least(int i, int ndim) const;  // throws ShapeError
  void expect_same_dtype() const;                    // all inputs; throws TypeError
  void expect_floating(int i = 0) const;             // throws TypeError
  void set_output(int i, const Shape& shape, DType dtype);
  void set_output(const Shape& shape, DType dtype) { set_output(0, shape, dtype); }
  [[noreturn]] void fail(const std::string& why) const;  // ShapeError "[op] why"
  [[noreturn]] void fail_dtype(const std::string& why) const;
  [[noreturn]] void fail_value(const std::string& why) const;
  // "data (2, 3), weight (4, 5)": for messages
  std::string describe_inputs() const;

 private:
  const char* op_;
  const OpTraits& traits_;
  std::span<TensorMeta* const> inputs_;  // written where unknown
  std::span<TensorMeta> outputs_;
};

// The argument of `grad`: arrays of the forward call and the gradients that arrive at its outputs. A rule is written in
// operators, so it runs eagerly and in a trace alike.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual int num_inputs() const = 0;
  // The arrays with their values. Both throw StateError when the array was written to after the call.
  virtual const NDArray& input(int i) const = 0;
  virtual const NDArray& output(int i = 0) const = 0;
  // Input i for its shape, dtype and device only: its values may have changed since the call.
  virtual const NDArray& input_like(int i) const = 0;
  virtual const NDArray& head(int i = 0) const = 0;  // gradient of output i; zeros when nothing arrives there
  virtual bool has_head(int i) const = 0;            // false: nothing arrives at output i
  virtual bool wants(int i) const = 0;               // is the gradient of input i needed?
  virtual void set(int i, NDArray gradient) = 0;     // not called: no gradient flows to input i

  // Control flow in a trace: what a branch or a loop reads is known only when it runs. presence() is undefined where
  // head(i) arrives in every run; else it is a uint8 (1), 0 in a run in which none arrives and head(i) holds zeros.
  // set_sometimes() sets a gradient of which the same is true.
  virtual NDArray presence(int i) const;
  virtual void set_sometimes(int i, NDArray gradient, NDArray presence);
};

// An index outside [0, n) fails with IndexError (which ends the work of a GPU: docs/gpu.md), is taken modulo n, or
// becomes the nearest end.
enum class IndexMode : uint8_t { raise, wrap, clip };
constexpr std::array<std::string_view, 3> enum_names(IndexMode) { return {"raise", "wrap", "clip"}; }

// The argument of `compose`: the arrays of a call, whose outputs are made by calling other operators. As a gradient
// rule, it runs eagerly and in a trace alike.
class ComposeContext {
 public:
  ComposeContext(std::span<const NDArray* const> inputs, std::span<TensorMeta> outputs, NDArray* results)
      : inputs_(inputs), outputs_(outputs), results_(results) {}
  int num_inputs() const { return int(inputs_.size()); }
  const NDArray& input(int i = 0) const { return *inputs_[size_t(i)]; }
  const TensorMeta& output(int i = 0) const { return outputs_[size_t(i)]; }  // shape and dtype, as inferred
  void set(int i, NDArray result);  // output i; each must be set. Memory of an input, or of another output, is copied
  void set(NDArray result);         // output 0

 private:
  std::span<const NDArray* const> inputs_;
  std::span<TensorMeta> outputs_;
  NDArray* results_;
};

namespace ops {
// The result of `image_use`: images among the inputs and outputs of an operator with traits.any_layout.
struct ImageUse {
  uint32_t inputs = 0, outputs = 0;    // bit i: is an image; the others are weights and statistics, always row-major
  bool levels = false;                 // images of int8 and uint8 count too
  bool blocks = false;                 // kernels of the CPU take blocked16 too
  bool prefers_channels_last = false;  // kernels are fastest with it, if images have enough channels
  int few_channels = -1;               // this input may stay row-major: kernels of the CPU convert up to 4 channels
};

// The result of `index_use`: an input whose elements choose among `count`, and which are clipped or skipped otherwise;
// a length among as many as there are, and 0.
struct IndexUse {
  int input = -1;  // none
  int64_t count = 0;
  std::optional<double> ignored{};  // this element chooses none by intention
};

// The argument of `keeps_rows`: a call some of whose inputs have rows, the samples of a batch, along their first
// dimension. Axes count from the end when negative; ShapeError for one that is out of range.
class RowQuery {
 public:
  struct Input {
    const Shape* shape;
    bool has_rows;
  };
  // `op`: the name in messages. `output`: the first one. The arrays must outlive the query.
  RowQuery(const char* op, std::span<const Input> inputs, const TensorMeta& output)
      : op_(op), inputs_(inputs), output_(output) {}

  int num_inputs() const { return int(inputs_.size()); }
  const Shape& shape(int i = 0) const { return *inputs_[size_t(i)].shape; }
  int ndim(int i = 0) const { return shape(i).ndim(); }
  bool has_rows(int i) const { return inputs_[size_t(i)].has_rows; }
  int count() const;  // of the inputs that have rows
  bool all_have_rows() const { return count() == num_inputs(); }
  bool only_first_has_rows() const { return has_rows(0) && count() == 1; }
  bool is_first(int64_t axis) const { return is_first(axis, ndim()); }  // of the first input
  bool is_first(int64_t axis, int ndim) const { return normalize_axis(axis, ndim, op_) == 0; }
  bool names_first(const Shape& axes) const;  // of the first input
  // Broadcasting from the right: rows are aligned with rows, or with a single row.
  bool is_aligned() const;

 private:
  const char* op_;
  std::span<const Input> inputs_;
  const TensorMeta& output_;
};

enum class FusedActivation { none, relu, sigmoid, tanh };
constexpr std::array<std::string_view, 4> enum_names(FusedActivation) { return {"none", "relu", "sigmoid", "tanh"}; }

// The attribute `__post_ops__`: other operators that passes have made part of a layer. With z its products,
// y = activation(scale z + bias + addend), where scale has a number per channel and addend y's shape; they are further
// inputs, in this order. On nodes of plans only: never in a file and never in an imperative call.
struct PostOps {
  bool scale = false;
  bool addend = false;
  FusedActivation activation = FusedActivation::none;
  int inputs() const { return int(scale) + int(addend); }
  friend bool operator==(const PostOps&, const PostOps&) = default;
};

// Accepts any attribute: concept Op calls `fields` with it.
struct AnyField {
  void operator()(std::string_view name, auto member, bool is_required = false) const;
};

// Facts that passes over graphs ask an operator for, beside its traits: optional members, which make_op_def finds.
// tests/ops/operator_facts_test.cpp names the operators that lack each.
//
//   bool keeps_rows(const ops::RowQuery&) const
//       Whether row i of the first output depends on row i of the inputs that have rows, and on the inputs that have
//       none, but on no other row. Asked for calls that draw no numbers and update no input. Without it, a pointwise
//       operator keeps rows that are aligned, and any other is refused by PlanPolicy::bucket.
//   ops::FusedForms fused_forms(const ops::RegisterKernels&) const
//       A float32 operator that is pointwise, or repeats its input, as a step of a fused program on the CPU.
//   std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs&) const
//       The same as an expression of a fused kernel on a GPU; none for attributes without a formula. It may call the
//       functions of headers that cmake/KaonKernelPrelude.cmake lists.
//   ops::FusedActivation as_epilogue() const
//       The activation that a layer can apply to its results in place of this operator; or none.
//   ops::ImageUse image_use() const
//       With traits.any_layout: which inputs and outputs are images. Without it, images keep a layout other than
//       row-major only where all inputs and outputs are images of one shape.
//   ops::IndexUse index_use(std::span<const TensorView> inputs) const
//       An input of indices or labels that the kernel clips or skips where they are out of range (ops/checks.h).
//   double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const
//       Multiplications and additions of a call. Without it, a call's time is estimated by its bytes alone.

// Has a kernel: run_cpu(const T&, KernelContext&), found by argument lookup in the namespace of T or in kaon.
template <class T>
concept HasKernel = requires(const T& op, KernelContext& kernel) {
  run_cpu(op, kernel);
};

// Is made of other operators: void compose(ComposeContext&) const calls them. It has neither kernel nor gradient of its
// own, and is a node of Symbols and files only: graphs and tapes hold what it is made of.
template <class T>
concept Composite = requires(const T& op, ComposeContext& call) {
  op.compose(call);
};

// An operator: a default-constructible aggregate with traits, fields, infer, and a kernel or compose(). fields(field)
// calls field(name in files, pointer to member[, is it required?]) for each attribute. `int num_inputs() const` says
// how many inputs this attribute set takes when it is not all of traits.inputs; `int num_outputs() const` likewise.
template <class T>
concept Op = (HasKernel<T> != Composite<T>)&&std::default_initializable<T>&& requires(const T& op,
                                                                                      InferContext& infer) {
  { T::traits } -> std::convertible_to<const OpTraits&>;
  T::fields(AnyField());
  op.infer(infer);
};

// Has a rule for its gradient. Without one, gradients end here if traits.flat says so; else backward throws StateError.
template <class T>
concept Differentiable = requires(const T& op, GradContext& grad) {
  op.grad(grad);
};
}  // namespace ops

}  // namespace kaon
