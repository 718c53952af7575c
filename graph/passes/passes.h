// Passes: functions from Graph to Graph. Each keeps the values of the outputs, bit for bit unless it says otherwise.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kaon/graph/ir/update.h"
#include "kaon/graph/passes/kernel_costs.h"

namespace kaon::graph::passes {

// The plan's options that the passes depend on.
struct Options {
  Device device{};
  bool training = false;
  bool exact = false;           // bit-equal to the imperative run
  bool winograd = false;        // as HybridizeOptions; of plans that only predict
  bool autotune = false;        // layouts and variants of kernels by their measured times
  bool mirror = false;          // values are computed again for the backward where that lowers the plan's memory
  int rematerialize_depth = 0;  // set by run(): up to how many of them one after the other, in the pass rematerialize
  bool is_gradient = false;     // the traced graph is a gradient itself
  std::vector<bool> wanted{};   // gradients, by input; empty when nothing is recorded
  std::vector<bool> heads{};    // outputs at which a gradient arrives, as in GradientForm
  std::vector<bool> refused{};  // outputs without a gradient, as in GradientForm
  std::shared_ptr<const Update> update{};  // the update by the gradients in the same run
  std::vector<bool> rows{};                // inputs whose gradient is given as rows, as in GradientForm
};

struct Pass {
  const char* name;
  Graph (*run)(Graph graph, const Options& options);
  bool in_exact = true;                                      // also where every bit must be that of the imperative run
  std::string (*why_not)(const Options& options) = nullptr;  // why it is left out; empty: it is not
};

// The program of a plan before any pass: the traced graph, its gradient, the update.
Graph program(Graph traced, const Options& options);

// The passes that a traced graph with known shapes goes through, in order.
std::span<const Pass> pipeline();
Graph run(Graph traced, const Options& options);
// The graph as it was traced and after each pass that changed it.
std::string explain(Graph traced, const Options& options);

// Removes Dropout, which is the identity outside training.
Graph drop_dropout(Graph graph, bool training);

// What RNN takes out of parameters that the program has just put together, as a recurrent layer does, is read where it
// is: neither they nor their gradients are copied. Where one array is several parameters, its gradients may be added in
// another order.
Graph separate_rnn_parameters(Graph graph, bool training);

// Merges nodes with the same operator, attributes and inputs; never random or updating ones, nor readers of updated
// values.
Graph common_subexpressions(Graph graph, bool training);

// The same before the gradient is taken, which gives merged calls one gradient where the imperative run sums two:
// equal, but not bit for bit, and infinite where two infinities cancel to NaN. Output layers stay apart, and
// nodes that narrow their inputs, such as casts to 16 bits: merged, their gradient would not be the sum of two.
Graph common_subexpressions_before_gradient(Graph graph, bool training);

// Replaces operators on constants by constants, up to 1 MB each; reshaped constants share memory. Never random numbers,
// updates, nor readers of updated values. An operator that fails here stays, and fails when it runs.
Graph fold_constants(Graph graph, bool training);

// A transpose of the last two axes before dot or batch_dot, or alone after it, becomes transpose_a and transpose_b.
// Other kernels then run: equal within rounding.
Graph fold_transposes(Graph graph, bool training);

// For pool(act(x)): applies the activation's gradient to the pooled gradient (smaller) before the max-pool gradient.
// Valid because act's value at the arg-max is the pooled value. Equal within rounding where windows overlap.
Graph pool_activation_gradients(Graph graph, bool training);

// Drops nodes that no output needs (nodes that update an input stay).
Graph dead_code(Graph graph, bool training);

// dot(x, w, transpose_b) with a matrix w is a FullyConnected without bias, with the same kernel.
Graph dense_products(Graph graph);

// A sum with one number per channel becomes the bias of the Convolution or FullyConnected that has none and that it
// alone reads. Equal within rounding.
Graph fuse_bias(Graph graph, bool training);

// A BatchNorm by moving statistics becomes part of the Convolution or FullyConnected that it alone reads: one number
// per channel to multiply with, one to add, made anew from the parameters in each run. Equal within rounding.
Graph fold_batch_norm(Graph graph, bool training);

// The sum of two values of one shape becomes part of the Convolution or FullyConnected among them that it alone reads.
// Equal within rounding.
Graph fuse_sum(Graph graph, bool training);

// A relu, sigmoid or tanh becomes part of the Convolution or FullyConnected that it alone reads.
Graph fuse_activation(Graph graph, bool training);

// Stores 4-D values between convolutions, poolings and operators of any layout with channels last, with reorders at the
// borders of such a region. With `costs` the layouts of the values and the variants of the kernels are chosen so that
// kernels and reorders together take the shortest time. On a GPU only for tensor cores: 16-bit floats, and float32 if
// TF32 is allowed when the plan is made. Shapes stay logical (N, C, H, W). Equal within rounding.
Graph layouts(Graph graph, const Options& options, KernelCosts* costs = nullptr);

// Recomputes forward values that the backward reads and that are cheap, from values that it reads anyway, before their
// first reader there: pointwise operators, poolings, normalisations, movements; never products and convolutions, random
// numbers or updates (a BatchNorm in training is repeated from its statistics, a Dropout from its mask). Depth: how
// many such values may build on each other; they live until the backward reads the first.
Graph rematerialize(Graph graph, bool training, int depth);

// Outputs that are inputs, constants, views of these, or listed twice get a copy node: a plan's outputs are arrays of
// their own.
Graph own_outputs(Graph graph);

// Pointwise operators that feed each other, and reductions of their values over the last dimensions, become one node,
// which reads its inputs and writes its outputs once; as far as that needs no more memory. The same values, bit for
// bit.
Graph fuse_pointwise(Graph graph);

// The same for GPUs, without reductions and for all dtypes: each group becomes a kernel, compiled when it first runs.
// Products and sums of different operators may be contracted: equal within rounding.
Graph fuse_kernels(Graph graph);

}  // namespace kaon::graph::passes
