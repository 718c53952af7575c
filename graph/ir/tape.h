// What a tape records: calls with functions that compute their gradients, and the arrays that these need.
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/block_pool.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::autograd {
struct TapeNode;
}

namespace kaon::graph {

// Rows of the gradient of an input, as ops/array/row_gradient.h has them. Without values: of the whole gradient, which
// is given beside it.
struct RowPart {
  size_t input;
  NDArray values, indices;
};

// One step of a backward pass: the gradients of one recorded call.
struct GradCall {
  std::span<const NDArray> heads;  // gradient of each output; undefined: none arrives there
  std::span<const bool> wanted;    // by input
  std::span<NDArray> gradients;    // by input: to be filled where wanted (undefined: zero)
  std::vector<RowPart>* rows;      // ... or here, for inputs that keep rows; null: for none
  bool retain;                     // another backward may follow: the saved values must stay
};

// Computes the gradients of a recorded call. The tape makes one from an operator's grad rule; a hybridized call has its
// own.
struct GradFunction : Pooled {
  virtual ~GradFunction() = default;
  virtual void backward(const GradCall& call) = 0;
  // The saved values may be freed.
  virtual void release() = 0;
  // True: `gradients` may be given as existing arrays, which backward() may overwrite with the results.
  virtual bool writes_in_place() const { return false; }
  // The gradient to take for output i where none arrives: zeros if the call is an output layer or contains one, whose
  // gradient is its own, else undefined.
  virtual NDArray own_head(size_t) const { return {}; }

  // The call that was recorded, where it was one of an operator; inputs: none after release(), and of one whose
  // derivative is zero.
  struct Operator {
    const OpDef* def = nullptr;
    const void* attrs = nullptr;
    std::vector<const ops::ArrayNode*> inputs{};
  };
  virtual Operator recorded_operator() const { return {}; }

  // Does the gradient of input i go on to an earlier call? Else it ends in an attached gradient, or nowhere.
  bool passes_on(size_t i) const;

  autograd::TapeNode* node = nullptr;  // the call's, which owns this
};

}  // namespace kaon::graph

namespace kaon::autograd {

// Puts a call on the tape: `outputs` become results of `function` applied to `inputs`.
void record_call(const char* name, std::unique_ptr<graph::GradFunction> function,
                 std::span<const NDArray* const> inputs, std::span<NDArray> outputs);

// Whether arrays of integers that recorded calls give have gradients too, of integers, as in MXNet. For the process;
// false at first.
void record_integers(bool yes);
// Whether a gradient may go through an array of the dtype.
bool has_gradient(DType dtype);

// An array that a recorded call has read or written, with the number of writes to it up to that call.
struct SavedArray {
  explicit SavedArray(NDArray a) : array(std::move(a)), num_writes(array.node().buffer->num_writes()) {}
  bool is_changed() const { return array.node().buffer->num_writes() != num_writes; }
  NDArray array;
  uint32_t num_writes;
};
// Output `i` of the call of `node` as an array that is on the tape again, for gradients that are recorded themselves.
NDArray recorded_output(const NDArray& output, size_t i, TapeNode* node);
// This array (`what`: "input 0") of a call of `op` was changed after the call. Throws StateError, unless
// allow_changed() says that the gradient takes the values which the array has now.
void report_changed(std::string_view op, const std::string& what, const SavedArray& saved,
                    const std::source_location& recorded);
// From now on gradients take the present values of arrays that were changed after a recorded call, as in MXNet, and
// `tell` is called with what was changed; null, as at first: report_changed() throws. Gradients that are recorded
// themselves are refused in any case. For the process.
void allow_changed(void (*tell)(const std::string& what));

// An array of this shape, dtype and device, full of `value`. A small one on the CPU is filled here, without an
// operation.
NDArray filled_like(const NDArray& array, double value);

}  // namespace kaon::autograd
