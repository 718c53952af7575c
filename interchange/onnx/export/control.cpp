// Loops and conditions as ONNX's Scan, Loop and If, and recurrent layers that no operator of ONNX is.
#include <fmt/format.h>

#include <optional>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/interchange/onnx/export/program.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

using graph::ControlFlow;
using graph::ControlKind;
using Names = std::vector<std::string>;

std::vector<TensorMeta> metas_of(const Emit& e) {
  std::vector<TensorMeta> metas;
  for (int i = 0; i < e.count(); ++i) metas.push_back({e.shape(i), e.dtype(i)});
  return metas;
}

std::vector<TensorMeta> results_of(const graph::Graph& g, size_t n) {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < n; ++i) metas.push_back(g.meta(g.outputs[i]));
  return metas;
}

Names part(const Names& all, int begin, int count) { return {all.begin() + begin, all.begin() + begin + count}; }

void append(Names& names, const Names& more) { names.insert(names.end(), more.begin(), more.end()); }

// What is true of one number, as a bool of the rank that Loop and If want.
std::string truth(Emit& e, const std::string& value, DType dtype) {
  return e.reshape(dtype == DType::boolean ? value : e.cast(value, DType::boolean), Shape());
}

const ControlFlow& program_of(const Emit& e) {
  const ControlFlow& p = graph::program_of(*e.symbol().op, e.symbol().attrs.get());
  if (p.is_random) {
    const graph::Draws draws = graph::find_draws(p.graphs);
    if (draws.always) e.fail("a body that draws random numbers");
  }
  return p;
}

// Data and states of a row, then what the body captures.
void foreach (Emit& e) {
  const ControlFlow& p = program_of(e);
  const std::vector<TensorMeta> inputs = metas_of(e);
  const std::vector<TensorMeta> rows = p.iteration(std::span(inputs).first(size_t(p.num_values())));
  const graph::Graph body_graph = p.inferred(0, rows);
  const std::vector<TensorMeta> made = results_of(body_graph, size_t(p.num_outputs + p.num_states));
  Builder& b = e.builder();
  const Names data = part(e.all(), 0, p.num_data), states = part(e.all(), p.num_data, p.num_states);
  b.open_graph("foreach");
  Names state_inputs, row_inputs;
  for (int i = 0; i < p.num_states; ++i) {
    state_inputs.push_back(b.body_input("state", rows[size_t(p.num_data + i)]));
  }
  for (int i = 0; i < p.num_data; ++i) {
    TensorMeta meta = rows[size_t(i)];
    const bool is_number = inputs[size_t(i)].shape.ndim() == 1;  // whose rows have no dimensions in ONNX
    if (is_number) meta.shape = Shape();
    const std::string row = b.body_input("row", meta);
    row_inputs.push_back(is_number ? e.reshape(row, Shape(1)) : row);
  }
  Names read = row_inputs;
  append(read, state_inputs);
  append(read, part(e.all(), p.num_data + p.num_states, p.num_captured));
  const Names written = write_graph(body_graph, b, read);
  Names results = part(written, p.num_outputs, p.num_states);
  append(results, part(written, 0, p.num_outputs));
  std::vector<TensorMeta> result_metas(made.begin() + p.num_outputs, made.end());
  result_metas.insert(result_metas.end(), made.begin(), made.begin() + p.num_outputs);
  b.set_body_outputs(results, result_metas);
  Names whole = states;
  append(whole, data);
  const Names out = e.nodes("Scan", whole, {integer("num_scan_inputs", p.num_data), body("body", b.close_graph())},
                            p.num_states + p.num_outputs);
  for (int i = 0; i < p.num_outputs; ++i) e.set(out[size_t(p.num_states + i)], i);
  for (int i = 0; i < p.num_states; ++i) e.set(out[size_t(i)], p.num_outputs + i);
}

// The rows that iterations have not made are 0.
std::string padded_rows(Emit& e, const std::string& rows, const TensorMeta& whole) {
  const std::string count = e.node("Shape", {rows}, {integer("start", 0), integer("end", 1)});
  Shape rest = whole.shape;
  const std::string missing = e.sub(e.builder().constant({whole.shape[0]}), count);
  std::vector<int64_t> tail(rest.begin() + 1, rest.end());
  const std::string shape = tail.empty() ? missing : e.concat({missing, e.builder().constant(tail)}, 0);
  return e.concat({rows, e.node("Expand", {e.number(0, whole.dtype), shape})}, 0);
}

void while_loop(Emit& e) {
  const ControlFlow& p = program_of(e);
  const std::vector<TensorMeta> inputs = metas_of(e);
  const std::vector<TensorMeta> values = p.iteration(std::span(inputs).first(size_t(p.num_values())));
  const graph::Graph body_graph = p.inferred(0, values), condition = p.inferred(1, values);
  const std::vector<TensorMeta> made = results_of(body_graph, size_t(p.num_outputs + p.num_states));
  const DType asked = condition.meta(condition.outputs[0]).dtype;
  Builder& b = e.builder();
  const Names captured = part(e.all(), p.num_states, p.num_captured);
  const auto goes_on = [&](const Names& states) {
    Names read = states;
    append(read, captured);
    return truth(e, write_graph(condition, b, read)[0], asked);
  };
  const Names states = part(e.all(), 0, p.num_states);
  Names whole{e.number(double(p.max_iterations), DType::int64), goes_on(states)};
  append(whole, states);
  b.open_graph("while_loop");
  b.body_input("iteration", {Shape(), DType::int64});
  b.body_input("goes_on", {Shape(), DType::boolean});
  Names read;
  for (int i = 0; i < p.num_states; ++i) read.push_back(b.body_input("state", values[size_t(i)]));
  append(read, captured);
  const Names written = write_graph(body_graph, b, read);
  const Names next = part(written, p.num_outputs, p.num_states);
  Names results{goes_on(next)};
  append(results, next);
  append(results, part(written, 0, p.num_outputs));
  std::vector<TensorMeta> metas{{Shape(), DType::boolean}};
  metas.insert(metas.end(), made.begin() + p.num_outputs, made.end());
  metas.insert(metas.end(), made.begin(), made.begin() + p.num_outputs);
  b.set_body_outputs(results, metas);
  const Names out = e.nodes("Loop", whole, {body("body", b.close_graph())}, p.num_states + p.num_outputs);
  for (int i = 0; i < p.num_outputs; ++i) {
    e.set(padded_rows(e, out[size_t(p.num_states + i)], {e.result(i), e.result_dtype(i)}), i);
  }
  for (int i = 0; i < p.num_states; ++i) e.set(out[size_t(i)], p.num_outputs + i);
}

void cond(Emit& e) {
  const ControlFlow& p = program_of(e);
  const std::vector<TensorMeta> inputs = metas_of(e);
  const std::vector<TensorMeta> values = p.iteration(std::span(inputs).first(size_t(p.num_values())));
  Builder& b = e.builder();
  const auto branch = [&](size_t i) {
    const graph::Graph g = p.inferred(i, values);
    b.open_graph(i == 0 ? "then" : "otherwise");
    const Names written = write_graph(g, b, part(e.all(), 0, p.num_values()));
    b.set_body_outputs(part(written, 0, p.num_outputs), results_of(g, size_t(p.num_outputs)));
    return b.close_graph();
  };
  const std::string predicate = truth(e, e.in(), e.dtype());
  auto then = branch(0), otherwise = branch(1);
  const Names out =
      e.nodes("If", {predicate}, {body("then_branch", then), body("else_branch", otherwise)}, p.num_outputs);
  for (int i = 0; i < p.num_outputs; ++i) e.set(out[size_t(i)], i);
}

// --- one layer and direction of RNN: with projections, lengths and bounds

class Recurrence {
 public:
  explicit Recurrence(Emit& e) : e_(e), op_(e.op<op::RnnScan>()) {
    steps_ = e.shape(0)[0], batch_ = e.shape(0)[1];
    size_ = e.shape(0)[2] / ops::gates_of(op_.mode);
    result_ = e.shape(1)[1];
  }

  void write() {
    Builder& b = e_.builder();
    const bool lstm = op_.mode == RnnMode::lstm;
    const DType t = e_.dtype();
    const TensorMeta h{Shape(batch_, result_), t}, c{Shape(batch_, size_), t};
    const std::string turned = e_.transpose(e_.in(1), {1, 0});
    const std::string extra = !op_.has_extra() ? "" : op_.projected ? e_.transpose(e_.in(3), {1, 0}) : e_.in(3);
    Names inputs;
    if (lstm) inputs = {e_.slice(e_.in(2), 1, 0, result_), e_.slice(e_.in(2), 1, result_, result_ + size_)};
    else inputs = {e_.in(2)};
    const int states = int(inputs.size());
    inputs.push_back(e_.in(0));
    std::string length;
    if (op_.use_sequence_length) {
      std::vector<double> numbers;
      for (int64_t i = 0; i < steps_; ++i) numbers.push_back(double(i));
      inputs.push_back(e_.array(numbers, Shape(steps_), DType::int64));
      length = e_.reshape(e_.index(e_.count() - 1, IndexMode::raise, 0), Shape(batch_, 1));
    }
    b.open_graph("rnn");
    const std::string before = b.body_input("h", h), cell = lstm ? b.body_input("c", c) : "";
    const std::string gates = b.body_input("gates", {Shape(batch_, e_.shape(0)[2]), t});
    const std::string step = op_.use_sequence_length ? b.body_input("step", {Shape(), DType::int64}) : "";
    std::string next_cell, next = one_step(gates, e_.matmul(before, turned), before, cell, extra, next_cell);
    std::string shown = next;
    if (op_.use_sequence_length) {  // else the state stays, and the result is 0
      const std::string goes_on = e_.less(step, length);
      shown = e_.where(goes_on, next, e_.number(0));
      next = e_.where(goes_on, next, before);
      if (lstm) next_cell = e_.where(goes_on, next_cell, cell);
    }
    std::vector<TensorMeta> metas{h};
    Names results{next};
    if (lstm) results.push_back(next_cell), metas.push_back(c);
    results.push_back(shown), metas.push_back(h);
    b.set_body_outputs(results, metas);
    const int scanned = int(inputs.size()) - states;
    const Names out = e_.nodes("Scan", inputs,
                               {integer("num_scan_inputs", scanned),
                                integers("scan_input_directions", std::vector<int64_t>(size_t(scanned), op_.reverse)),
                                integers("scan_output_directions", {op_.reverse}), body("body", b.close_graph())},
                               states + 1);
    e_.set(out[size_t(states)], 0);
    e_.set(lstm ? e_.concat({out[0], out[1]}, 1) : out[0], 1);
  }

 private:
  std::string gate(const std::string& x, int64_t i) { return e_.slice(x, 1, i * size_, (i + 1) * size_); }
  std::string sigmoid(const std::string& x) { return e_.node("Sigmoid", {x}); }
  std::string tanh(const std::string& x) { return e_.node("Tanh", {x}); }

  std::string bounded(const std::string& c) {
    if (!op_.clip_min && !op_.clip_max) return c;
    std::string x = c;
    if (op_.clip_nan && op_.clip_min) x = e_.where(e_.node("IsNaN", {x}), e_.number(*op_.clip_min), x);
    return e_.node("Clip",
                   {x, op_.clip_min ? e_.number(*op_.clip_min) : "", op_.clip_max ? e_.number(*op_.clip_max) : ""});
  }

  std::string one_step(const std::string& x, const std::string& u, const std::string& h, const std::string& c,
                       const std::string& extra, std::string& next_cell) {
    if (op_.mode == RnnMode::gru) {
      const std::string with_bias = e_.add(u, extra);
      const std::string r = sigmoid(e_.add(gate(x, 0), gate(with_bias, 0)));
      const std::string z = sigmoid(e_.add(gate(x, 1), gate(with_bias, 1)));
      const std::string n = tanh(e_.add(gate(x, 2), e_.mul(r, gate(with_bias, 2))));
      return e_.add(n, e_.mul(z, e_.sub(h, n)));
    }
    const std::string sum = e_.add(x, u);
    if (op_.mode != RnnMode::lstm) return op_.mode == RnnMode::rnn_relu ? e_.node("Relu", {sum}) : tanh(sum);
    next_cell = bounded(e_.add(e_.mul(sigmoid(gate(sum, 1)), c), e_.mul(sigmoid(gate(sum, 0)), tanh(gate(sum, 2)))));
    const std::string y = e_.mul(sigmoid(gate(sum, 3)), tanh(next_cell));
    return op_.projected ? e_.matmul(y, extra) : y;
  }

  Emit& e_;
  const op::RnnScan& op_;
  int64_t steps_, batch_, size_, result_;
};

void rnn_scan(Emit& e) {
  if (e.shape()[0] > 0) return Recurrence(e).write();
  e.set(e.builder().initializer(nd.zeros(e.result(), {.dtype = e.dtype()}), "steps"), 0);
  e.set(e.node("Identity", {e.in(2)}), 1);
}

void rnn_parameters(Emit& e) {
  const auto& op = e.op<op::RnnParameters>();
  int64_t at = 0;
  for (int i = 0; i < op.num_outputs(); ++i) {
    const Shape s = op.shape_of(i);
    e.set(e.reshape(e.slice(e.in(), 0, at, at + s.size()), s), i);
    at += s.size();
  }
}

const WriterRow control_table[] = {
    {&op::ControlFlowOp<ControlKind::foreach>::def, foreach},
    {&op::ControlFlowOp<ControlKind::while_loop>::def, while_loop},
    {&op::ControlFlowOp<ControlKind::cond>::def, cond},
    {&op::RnnScan::def, rnn_scan},
    {&op::RnnParameters::def, rnn_parameters},
};

}  // namespace

std::span<const WriterRow> control_writers() { return control_table; }

}  // namespace kaon::onnx::exporting
