#include "kaon/interchange/onnx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "kaon/gluon/internal/adopt_values.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/trace_check.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/onnx/block/roles.h"
#include "kaon/interchange/onnx/block/state.h"
#include "kaon/interchange/onnx/convert/call.h"
#include "kaon/interchange/onnx/convert/expansion.h"
#include "kaon/interchange/onnx/convert/opsets.h"
#include "kaon/interchange/onnx/format/structure.h"

namespace kaon::onnx {

using convert::InputForm;
using convert::Program;

namespace {

ValueInfo as_public(const format::ValueInfo& info) {
  ValueInfo v;
  v.name = info.name;
  v.kind = ValueInfo::Kind(int(info.kind));
  v.element_type = format::name_of(info.type);
  v.dtype = format::dtype_of(info.type).value_or(DType::float32);
  v.has_shape = info.has_shape && info.dims.size() <= size_t(Shape::max_ndim);
  if (!v.has_shape) return v;
  for (const auto& d : info.dims) {
    v.shape.push_back(d.value);
    v.dim_names.push_back(d.name);
  }
  return v;
}

void count_operators(const std::vector<format::Node>& nodes, const format::Model& model, Summary& summary) {
  for (const format::Node& n : nodes) {
    const std::string name = (n.domain.empty() ? "" : n.domain + ".") + n.op_type;
    const bool is_function =
        std::any_of(model.functions.begin(), model.functions.end(),
                    [&](const format::Function& f) { return f.name == n.op_type && f.domain == n.domain; });
    const auto opset = model.opsets.find(n.domain);
    const int64_t version = opset == model.opsets.end() ? 1 : opset->second;
    if (++summary.operators[name] == 1 && !is_function && !convert::find_converter(n.domain, n.op_type, version)) {
      summary.unsupported.push_back(name);
    }
    for (const auto& a : n.attributes) {
      for (const auto& g : a.graphs) count_operators(g->nodes, model, summary);
    }
  }
}

constexpr size_t kMaxPrograms = 16;
constexpr int64_t kAnyRows = 0;  // in forms, which have no such first dimension where there are rows

// The forms for another common first dimension. Throws ShapeError where the inputs have none.
std::vector<InputForm> with_rows(std::vector<InputForm> forms, int64_t rows) {
  std::optional<int64_t> common;
  for (InputForm& form : forms) {
    for (TensorMeta& m : form.arrays) {
      if (m.shape.ndim() == 0 || (common && *common != m.shape[0])) {
        throw ShapeError(fmt::format(
            "[onnx] policy bucket: all inputs need the same number of rows, their first dimension; one has shape {}",
            m.shape.str()));
      }
      common = m.shape[0];
      m.shape[0] = rows;
    }
  }
  return forms;
}

std::vector<size_t> places_of(const Program& program) {
  std::vector<size_t> places;
  for (const Symbol& variable : program.block_inputs) {
    const auto& all = program.inputs;
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Symbol& i) { return i.entry().node == variable.entry().node; });
    if (at != all.end()) places.push_back(size_t(at - all.begin()));
  }
  return places;
}

}  // namespace

bool Block::State::Entry::fits(const std::vector<NDArray>& arrays) const {
  return forms.size() == arrays.size() &&
         std::equal(forms.begin(), forms.end(), arrays.begin(), [](const auto& f, const NDArray& x) {
           return f.kind == convert::Value::Kind::tensor && f.arrays[0].dtype == x.dtype() &&
                  f.arrays[0].shape == x.shape();
         });
}

// Whether a program is nothing but its block.
static bool is_direct(const Program& program, const std::vector<size_t>& places, size_t num_inputs) {
  if (!program.block || !program.steps.empty() || places.size() != num_inputs) return false;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] != i) return false;
  }
  return std::ranges::all_of(program.outputs, [](const convert::Value& v) {
    return v.kind == convert::Value::Kind::tensor && !v.is_constant();
  });
}

// Converts twice, for two numbers of rows that no model has as a dimension: the programs are the same where nothing
// depends on the number.
Block::State::Entry Block::State::convert_for_any_rows(const std::vector<InputForm>& forms) const {
  constexpr int64_t some = 1009, others = 1013;
  const auto convert = [&](int64_t rows) {
    convert::Conversion conversion(model, parameters, constants, turned, kept);
    return std::shared_ptr<const Program>(conversion.convert(with_rows(forms, rows), nullptr));
  };
  const std::shared_ptr<const Program> program = convert(some), other = convert(others);
  if (!program->block || !other->block) {
    throw ValueError("[onnx] policy bucket: the model's outputs are constants");
  }
  try {
    graph::check_trace(program->block->program(), other->block->program(), "the model");
  } catch (const VerifyError& e) {
    throw ShapeError(
        fmt::format("[onnx] policy bucket needs a program that holds for any number of rows, but for {} rows and for "
                    "{} it differs: {}",
                    some, others, e.what()));
  }
  return {with_rows(forms, kAnyRows), program, places_of(*program), true};
}

Block::Block(const std::filesystem::path& file, const LoadOptions& options)
    : gluon::Block("onnx"), state_(std::make_shared<State>()) {
  State& s = *state_;
  s.model = format::read_model(file);
  convert::check_opsets(s.model, file.string());
  convert::check_expansion(s.model, file.string());
  const block::Roles roles = block::roles_of(s.model.graph.nodes);
  std::unordered_set<std::string_view> taken;
  for (const format::Tensor& t : s.model.graph.initializers) {
    if (taken.insert(t.name).second) continue;
    throw ValueError(fmt::format("[onnx] {}: two initializers are named '{}'", file.string(), t.name));
  }
  for (const format::ValueInfo& info : s.model.graph.inputs) taken.insert(info.name);
  block::OwnMemory memory;
  for (const format::Tensor& t : s.model.graph.initializers) {
    if (t.type == format::ElementType::string) {
      s.constants[t.name] = convert::Value::text(t.strings, t.shape());
      continue;
    }
    const NDArray values = t.values();
    const auto dtype = format::dtype_of(t.type);
    // it has a name of its own: for a square matrix nothing else tells the two layouts apart
    const std::string turned_name = t.name + std::string(gluon::transposed_suffix);
    const bool is_turned = is_floating(*dtype) && values.ndim() == 2 && values.size() > 0 && roles.is_weight(t.name) &&
                           !taken.contains(turned_name);
    const NDArray own = is_turned ? nd.transpose(values) : values;
    // numbers without dimensions are attributes rather than weights
    if (!options.trainable || !is_floating(*dtype) || values.ndim() == 0 || values.size() == 0 ||
        roles.scales.contains(t.name)) {
      convert::Value& constant = s.constants[t.name] = convert::Value::constant(values, t.type);
      if (is_turned) constant.turned = Symbol::constant(own);  // once for all programs
      continue;
    }
    const std::string& name = is_turned ? turned_name : t.name;
    const gluon::Parameter p(name, own.shape(),
                             {.dtype = *dtype, .differentiable = !roles.statistics.contains(t.name)});
    std::optional<gluon::detail::AdoptValues> adopts;
    if (is_turned || memory.add(t.bytes)) adopts.emplace();
    p.set_data(own);
    if (is_turned) s.turned.insert(t.name);
    share_param(name, p);
    s.parameters.emplace(t.name, p);
  }
  for (const format::SparseTensor& t : s.model.graph.sparse_initializers) {
    s.constants[t.values.name] = convert::Value::constant(format::dense(t), t.values.type);
  }
  for (const format::ValueInfo& info : s.model.graph.inputs) {
    if (!s.parameters.contains(info.name) && !s.constants.contains(info.name)) s.inputs.push_back(info);
  }
  node_->active = true;
}

std::vector<ValueInfo> Block::inputs() const {
  std::vector<ValueInfo> all;
  for (const auto& info : state_->inputs) all.push_back(as_public(info));
  return all;
}

std::vector<ValueInfo> Block::outputs() const {
  std::vector<ValueInfo> all;
  for (const auto& info : state_->model.graph.outputs) all.push_back(as_public(info));
  return all;
}

Summary Block::summary() const {
  const format::Model& m = state_->model;
  Summary s{.ir_version = m.ir_version,
            .opsets = m.opsets,
            .producer = m.producer,
            .operators = {},
            .unsupported = {},
            .faults = format::find_faults(m)};
  count_operators(m.graph.nodes, m, s);
  for (const format::Function& f : m.functions) count_operators(f.nodes, m, s);
  for (const format::Tensor& t : m.graph.initializers) s.parameters += t.size();
  return s;
}

namespace {

void check_input(const format::ValueInfo& info, const TensorMeta& x) {
  const auto dtype = format::dtype_of(info.type);
  if (dtype && x.dtype != *dtype) {
    throw TypeError(fmt::format("[onnx] the input {} has dtype {}, got {}", info.name, kaon::name_of(*dtype),
                                kaon::name_of(x.dtype)));
  }
  if (!info.has_shape || info.kind != format::ValueInfo::Kind::tensor) return;
  bool fits = int(info.dims.size()) == x.shape.ndim();
  for (int i = 0; fits && i < x.shape.ndim(); ++i)
    fits = info.dims[size_t(i)].value < 0 || info.dims[size_t(i)].value == x.shape[i];
  if (fits) return;
  std::string expected;
  for (const auto& d : info.dims) {
    expected += (expected.empty() ? "" : ", ") + (d.value >= 0     ? std::to_string(d.value)
                                                  : d.name.empty() ? "?"
                                                                   : d.name);
  }
  throw ShapeError(fmt::format("[onnx] the input {} has shape ({}), got {}", info.name, expected, x.shape.str()));
}

Value as_public(const convert::Value& value, const std::vector<NDArray>& computed, size_t& next) {
  const auto array = [&](const convert::Value& v) { return v.is_constant() ? v.known.copy() : computed[next++]; };
  switch (value.kind) {
    case convert::Value::Kind::tensor: return array(value);
    case convert::Value::Kind::sequence: {
      std::vector<NDArray> items;
      for (const convert::Value& item : value.items) items.push_back(array(item));
      return items;
    }
    case convert::Value::Kind::strings: return {value.strings, value.strings_shape};
    case convert::Value::Kind::nothing: break;
  }
  return {};
}

}  // namespace

std::vector<Value> Block::run(const std::vector<Value>& inputs, std::source_location site) const {
  State& s = *state_;
  if (inputs.size() != s.inputs.size()) {
    throw ValueError(fmt::format("[onnx] the model takes {} inputs, got {}", s.inputs.size(), inputs.size()));
  }
  std::vector<InputForm> forms;
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputForm form;
    const auto add = [&](const NDArray& x) {
      check_input(s.inputs[i], {x.shape(), x.dtype()});
      form.arrays.push_back({x.shape(), x.dtype()});
      arrays.push_back(x);
    };
    if (inputs[i].is_sequence) {
      form.kind = convert::Value::Kind::sequence;
      for (const NDArray& x : inputs[i].sequence) add(x);
    } else if (inputs[i].is_text) {
      form.kind = convert::Value::Kind::strings;
      form.strings = inputs[i].strings;
      form.strings_shape = inputs[i].strings_shape;
    } else if (inputs[i].is_nothing()) {
      if (s.inputs[i].kind != format::ValueInfo::Kind::optional) {
        throw ValueError(
            fmt::format("[onnx] the input {} was given an array that is not defined, which only an optional may be",
                        s.inputs[i].name));
      }
      form.kind = convert::Value::Kind::nothing;
    } else {
      add(inputs[i].array);
    }
    forms.push_back(std::move(form));
  }

  // A program without steps needs nothing but its block: no values are looked up by name then.
  convert::Evaluator values;
  const bool is_active = node_->active;
  const auto is_ready = [&](const Program& program) {
    if (program.steps.empty() && is_active) return true;
    convert::Evaluator trial;
    if (!program.prepare(arrays, trial)) return false;
    values = std::move(trial);
    return true;
  };
  const bool is_bucketed = is_active && node_->options.policy == PlanPolicy::bucket && !autograd::is_recording() &&
                           !autograd::is_training() && !arrays.empty();
  const std::vector<InputForm> wanted = is_bucketed ? with_rows(forms, kAnyRows) : forms;
  auto entry = std::find_if(s.programs.begin(), s.programs.end(), [&](const State::Entry& e) {
    return e.any_rows == is_bucketed && e.forms == wanted && is_ready(*e.program);
  });
  if (entry != s.programs.end()) {
    std::rotate(s.programs.begin(), entry, entry + 1);
  } else {
    State::Entry made;
    if (is_bucketed) {
      made = s.convert_for_any_rows(forms);
    } else {
      convert::Conversion conversion(s.model, s.parameters, s.constants, s.turned, s.kept);
      made = {forms, conversion.convert(forms, &arrays), {}};
      made.places = places_of(*made.program);
      made.is_direct = is_direct(*made.program, made.places, inputs.size());
    }
    if (made.program->block) made.program->block->node()->part_of = node_.get();
    if (!is_ready(*made.program))
      throw StateError("[onnx] the program depends on values that differ each time they are computed");
    s.programs.insert(s.programs.begin(), std::move(made));
    if (s.programs.size() > kMaxPrograms) s.programs.pop_back();
  }
  const std::vector<size_t>& places = s.programs.front().places;
  const std::shared_ptr<const Program> program = s.programs.front().program;

  std::vector<NDArray> computed;
  if (program->block && is_active) {
    const uint64_t changes = node_->changes + 1;
    if (program->changes != changes) {
      program->block->hybridize(true, node_->options);
      program->changes = changes;
    }
    std::vector<NDArray> block_inputs;
    if (program->steps.empty()) {
      for (size_t place : places) block_inputs.push_back(arrays[place]);
    } else {
      for (const Symbol& variable : program->block_inputs) block_inputs.push_back(values(variable));
    }
    computed = program->block->forward(block_inputs, site);
  } else if (program->block) {
    computed = values.finish(program->computed);
  }
  std::vector<Value> outputs;
  size_t next = 0;
  for (const convert::Value& value : program->outputs) outputs.push_back(as_public(value, computed, next));
  return outputs;
}

std::vector<NDArray> Block::forward(const std::vector<NDArray>& inputs, std::source_location site) const {
  // the call as before, which most are
  if (const State& s = *state_; node_->active && node_->options.policy != PlanPolicy::bucket && !s.programs.empty()) {
    const State::Entry& latest = s.programs.front();
    if (latest.is_direct && latest.program->changes == node_->changes + 1 && latest.fits(inputs)) {
      return latest.program->block->forward(inputs, site);
    }
  }
  std::vector<NDArray> arrays;
  const std::vector<Value> given(inputs.begin(), inputs.end());
  for (Value& v : run(given, site)) {
    if (!v.array.defined()) throw ValueError("[onnx] an output is no array: run() gives it");
    arrays.push_back(std::move(v.array));
  }
  return arrays;
}

NDArray Block::operator()(const NDArray& x, std::source_location site) const {
  const std::vector<NDArray> all = forward({x}, site);
  if (all.size() != 1)
    throw ValueError(fmt::format("[onnx] the model has {} outputs: forward({{x}}) gives all", all.size()));
  return all[0];
}

std::vector<Symbol> Block::compose_on(const std::vector<Symbol>& inputs) const {
  const State& s = *state_;
  if (inputs.size() != s.inputs.size())
    throw ValueError(fmt::format("[onnx] the model takes {} inputs, got {}", s.inputs.size(), inputs.size()));
  std::vector<InputForm> forms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorMeta meta{inputs[i].shape(), inputs[i].dtype()};  // the trace holds for these
    check_input(s.inputs[i], meta);
    forms.push_back({.arrays = {meta}, .strings = {}, .strings_shape = {}});
  }
  convert::Conversion conversion(s.model, s.parameters, s.constants, s.turned, s.kept);
  const std::unique_ptr<Program> program = conversion.convert(forms, nullptr);
  gluon::detail::CallScope scope(*node_, true);
  std::unordered_map<std::string, Symbol> replacements;
  for (size_t i = 0; i < inputs.size(); ++i) replacements[program->inputs[i].name()] = inputs[i];
  for (size_t i = 0; i < program->parameters.size(); ++i)
    replacements[program->parameter_variables[i].name()] = program->parameters[i].var();
  std::vector<Symbol> computed;
  if (program->block) {
    const Symbol all = graph::compose(program->block->program(), replacements);
    for (int i = 0; i < all.num_outputs(); ++i) computed.push_back(all.output(i));
  }
  std::vector<Symbol> outputs;
  size_t next = 0;
  for (const convert::Value& v : program->outputs) {
    if (v.kind != convert::Value::Kind::tensor)
      throw ValueError("[onnx] an output is no array: a net that is traced cannot take it");
    outputs.push_back(v.is_constant() ? Symbol::constant(v.known) : computed[next++]);
  }
  return outputs;
}

Symbol Block::operator()(const Symbol& x) const {
  const std::vector<Symbol> all = compose_on({x});
  if (all.size() != 1)
    throw ValueError(fmt::format("[onnx] the model has {} outputs: compose_on({{x}}) gives all", all.size()));
  return all[0];
}

// The same inputs, with other sizes where the model says none: those that have one name have one size.
static std::vector<InputForm> with_other_sizes(const std::vector<format::ValueInfo>& infos,
                                               std::vector<InputForm> forms) {
  std::map<std::pair<std::string, int64_t>, int64_t> sizes;
  for (size_t i = 0; i < forms.size(); ++i) {
    Shape& shape = forms[i].arrays[0].shape;
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      const bool is_open = !infos[i].has_shape || infos[i].dims[size_t(axis)].value < 0;
      if (!is_open) continue;
      const std::string name = infos[i].has_shape ? infos[i].dims[size_t(axis)].name : "";
      const int64_t other = shape[axis] + 1009 + 4 * int64_t(sizes.size());
      shape[axis] = sizes.emplace(std::pair(name, shape[axis]), other).first->second;
    }
  }
  return forms;
}

std::vector<InputForm> Block::State::forms_of(const std::vector<Shape>& shapes) const {
  if (shapes.size() > inputs.size())
    throw ValueError(fmt::format("[onnx] the model takes {} inputs, got {} shapes", inputs.size(), shapes.size()));
  std::vector<InputForm> forms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfo info = as_public(inputs[i]);
    if (info.kind != ValueInfo::Kind::tensor)
      throw ValueError(fmt::format("[onnx] the input {} is no array: it has no shape", info.name));
    const Shape shape = i < shapes.size() ? shapes[i] : info.has_shape ? info.shape : Shape::unknown();
    if (!shape.is_known()) {
      throw ShapeError(
          fmt::format("[onnx] the shape of the input {} is not known: give one for each input", info.name));
    }
    check_input(inputs[i], {shape, info.dtype});
    InputForm form;
    form.arrays = {{shape, info.dtype}};
    forms.push_back(std::move(form));
  }
  return forms;
}

gluon::SymbolBlock Block::specialize(const std::vector<Shape>& shapes) const {
  State& s = *state_;
  const std::vector<InputForm> forms = s.forms_of(shapes);
  const auto convert = [&](const std::vector<InputForm>& inputs) {
    return convert::Conversion(s.model, s.parameters, s.constants, s.turned, s.kept).convert(inputs, nullptr);
  };
  const std::unique_ptr<Program> program = convert(forms);
  if (!program->block) throw ValueError("[onnx] the model's outputs are constants: there is nothing to run");
  // It holds for other sizes too where it is the same for them.
  std::vector<TensorMeta> expected;
  for (const InputForm& form : forms) expected.push_back(form.arrays[0]);
  try {
    const std::vector<InputForm> others = with_other_sizes(s.inputs, forms);
    if (others != forms) {
      graph::check_trace(program->block->program(), convert(others)->block->program(), "the model");
      for (size_t i = 0; i < forms.size(); ++i) {
        Shape& shape = expected[i].shape;
        for (int axis = 0; axis < shape.ndim(); ++axis)
          if (others[i].arrays[0].shape[axis] != shape[axis]) shape[axis] = -1;
      }
    }
  } catch (const Error&) {  // other sizes are another program, or none
  }
  gluon::SymbolBlock block = *program->block;
  std::vector<TensorMeta> read;
  for (size_t place : places_of(*program)) read.push_back(expected[place]);
  block.expect(read);
  return block;
}

engine::IntrusivePtr<PlanReport> Block::plan() const {
  const State& s = *state_;
  if (s.programs.empty() || !s.programs.front().program->block) return gluon::Block::plan();  // which throws
  return s.programs.front().program->block->plan();
}

Block load(const std::filesystem::path& file, const LoadOptions& options) { return Block(file, options); }

gluon::SymbolBlock load_block(const std::filesystem::path& file, const std::vector<Shape>& shapes) {
  return Block(file).specialize(shapes);
}

}  // namespace kaon::onnx
