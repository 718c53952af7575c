// Programs of Symbols as ONNX models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <set>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/block/fixed_shapes.h"
#include "kaon/interchange/onnx/block/state.h"
#include "kaon/interchange/onnx/export/external.h"
#include "kaon/interchange/onnx/export/whole_program.h"
#include "kaon/interchange/onnx/format/reads.h"
#include "kaon/interchange/onnx/format/structure.h"
#include "kaon/interchange/onnx/sizes/any_size.h"

namespace kaon::onnx {

using exporting::AnySizes;
using exporting::Builder;
using exporting::KnownProgram;
using exporting::NamedSize;
using exporting::Program;
using exporting::SizedGraph;
using exporting::Sizes;
using Inputs = std::vector<std::pair<std::string, TensorMeta>>;

namespace {

constexpr int64_t kFirstOpset = 17, kLastOpset = 24;

// The program for inputs of certain shapes.
using ProgramFor = std::function<Program(const Inputs&)>;

void add_place(std::vector<NamedSize>& names, const std::string& name, const Inputs& inputs, size_t input, int axis) {
  const Shape& shape = inputs[input].second.shape;
  const int64_t size = shape[axis];
  const auto at = std::find_if(names.begin(), names.end(), [&](const NamedSize& n) { return n.name == name; });
  if (at == names.end()) return names.push_back({name, {{input, axis}}, size});
  if (at->size != size) {
    const auto& [first, first_axis] = at->places[0];
    throw ShapeError(fmt::format("[onnx] the dimension {} is {} on axis {} of {} and {} on axis {} of {}", name,
                                 at->size, first_axis, inputs[first].first, size, axis, inputs[input].first));
  }
  at->places.push_back({input, axis});
}

std::vector<NamedSize> named_sizes(const Inputs& inputs, const SaveOptions& options) {
  std::vector<NamedSize> names;
  std::set<std::pair<size_t, int>> taken;
  for (const NamedDimension& d : options.named) {
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i.first == d.input; });
    if (input == inputs.end()) {
      std::string all;
      for (const auto& i : inputs) all += (all.empty() ? "" : ", ") + i.first;
      throw ValueError(
          fmt::format("[onnx] there is no input {} with a dimension {}; inputs: {}", d.input, d.name, all));
    }
    const int rank = input->second.shape.ndim(), axis = d.axis < 0 ? d.axis + rank : d.axis;
    if (axis < 0 || axis >= rank || d.name.empty()) {
      throw ValueError(fmt::format("[onnx] axis {} of the input {} of shape {} cannot be named '{}'", d.axis, d.input,
                                   input->second.shape.str(), d.name));
    }
    const size_t place = size_t(input - inputs.begin());
    if (!taken.emplace(place, axis).second)
      throw ValueError(fmt::format("[onnx] axis {} of the input {} has two names", d.axis, d.input));
    add_place(names, d.name, inputs, place, axis);
  }
  for (size_t i = 0; !options.batch_name.empty() && i < inputs.size(); ++i) {
    if (inputs[i].second.shape.ndim() > 0 && !taken.contains({i, 0}))
      add_place(names, std::string(options.batch_name), inputs, i, 0);
  }
  return names;
}

Inputs with_sizes(Inputs inputs, const AnySizes& any, const Sizes& sizes) {
  for (size_t n = 0; n < any.names().size(); ++n) {
    for (const auto& [input, axis] : any.names()[n].places) inputs[input].second.shape[axis] = sizes[n];
  }
  return inputs;
}

SizedGraph write_sized(const Inputs& inputs, const AnySizes& any, const Sizes& sizes, int64_t opset,
                       const ProgramFor& program_for) {
  const Program program = program_for(with_sizes(inputs, any, sizes));
  return {sizes, write_whole(program, with_known_shapes(program), opset, Builder::Constants::apart)};
}

// Nothing where the program takes no such inputs. What it takes and cannot be written is an error: the file would say
// that it takes them.
std::optional<SizedGraph> try_write(const Inputs& inputs, const AnySizes& any, const Sizes& sizes, int64_t opset,
                                    const ProgramFor& program_for) {
  Program program;
  KnownProgram known;
  try {
    program = program_for(with_sizes(inputs, any, sizes));
    known = with_known_shapes(program);
  } catch (const ShapeError&) {
    return std::nullopt;
  } catch (const ValueError&) {
    return std::nullopt;
  } catch (const IndexError&) {
    return std::nullopt;
  }
  try {
    return SizedGraph{sizes, write_whole(program, known, opset, Builder::Constants::apart)};
  } catch (const ValueError& e) {
    std::rethrow_exception(e.with_context(fmt::format("; for {}", any.describe(sizes))));
  }
}

Builder join(const Inputs& inputs, const AnySizes& any, std::vector<SizedGraph> graphs, int64_t opset,
             const ProgramFor& program_for) {
  for (const Sizes& sizes : any.further()) {
    if (auto graph = try_write(inputs, any, sizes, opset, program_for)) graphs.push_back(std::move(*graph));
  }
  Builder joined = any.joined(std::move(graphs));
  for (size_t n = 0; n < any.names().size(); ++n) {
    const auto one = try_write(inputs, any, any.with_one(n), opset, program_for);
    if (!one) continue;
    if (const std::string difference = any.difference(joined, *one); !difference.empty()) {
      throw ValueError(
          fmt::format("[onnx] {} cannot have any size: {}, as where an operator leaves out dimensions of 1",
                      any.names()[n].name, difference));
    }
  }
  return joined;
}

// The graphs for the sizes that are needed. Throws ShapeError where the program takes none like these.
std::vector<SizedGraph> write_needed(const Inputs& inputs, const AnySizes& any, int64_t opset,
                                     const ProgramFor& program_for) {
  std::vector<SizedGraph> graphs;
  for (const Sizes& sizes : any.needed()) {
    try {
      graphs.push_back(write_sized(inputs, any, sizes, opset, program_for));
    } catch (const ShapeError& e) {
      std::rethrow_exception(
          e.with_context(fmt::format("; the dimensions that are to have any size were {}, in the "
                                     "latest call or the shapes given {}",
                                     any.describe(sizes), any.describe(any.known()))));
    }
  }
  return graphs;
}

Builder write_for_all(const Inputs& inputs, const std::vector<NamedSize>& names, int64_t opset,
                      const ProgramFor& program_for) {
  std::exception_ptr first;
  // Some programs take even sizes alone, or multiples of more.
  for (const int64_t step : {1, 2, 4, 8, 16, 32}) {
    const AnySizes any(names, step);
    try {
      return join(inputs, any, write_needed(inputs, any, opset, program_for), opset, program_for);
    } catch (const ShapeError&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

bool has_runtime_nodes(const format::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const format::Node& n) {
    return n.domain == exporting::runtime_domain || std::ranges::any_of(n.attributes, [](const format::Attribute& a) {
             return std::ranges::any_of(a.graphs, [](const auto& g) { return has_runtime_nodes(*g); });
           });
  });
}

Builder write_known(const Program& program, int64_t opset) {
  return write_whole(program, with_known_shapes(program), opset, Builder::Constants::shared);
}

void write(const Inputs& inputs, const ProgramFor& program_for, const std::filesystem::path& path,
           const SaveOptions& options) {
  const int64_t opset = options.opset == 0 ? kFirstOpset : options.opset;
  if (opset < kFirstOpset || opset > kLastOpset)
    throw ValueError(fmt::format("[onnx] opset {} is not written: {} to {} are", opset, kFirstOpset, kLastOpset));
  const std::vector<NamedSize> names = named_sizes(inputs, options);
  Builder builder =
      names.empty() ? write_known(program_for(inputs), opset) : write_for_all(inputs, names, opset, program_for);
  format::Model model;
  // The first IR version that has the opset: files that older tools read too.
  model.ir_version = opset <= 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : 11;
  model.opsets[""] = opset;
  model.producer = "kaon";
  model.graph = std::move(builder.graph());
  if (has_runtime_nodes(model.graph)) model.opsets[std::string(exporting::runtime_domain)] = 1;
  model.graph.name = "kaon";
  exporting::write_files(model, builder.arrays(), path, options.max_file_bytes, options.min_external_bytes);
}

// External data of the file that the model came from are elements of the new one.
void forget_places(format::Tensor& t) {
  t.location.clear();
  t.external_offset = t.external_length = 0;
}

void forget_places(format::Graph& graph);

void forget_places(std::vector<format::Node>& nodes) {
  for (format::Node& n : nodes) {
    for (format::Attribute& a : n.attributes) {
      for (format::Tensor& t : a.tensors) forget_places(t);
      for (format::Tensor& t : a.sparse) forget_places(t);
      for (auto& g : a.graphs) {
        g = std::make_shared<format::Graph>(*g);
        forget_places(*g);
      }
    }
  }
}

void forget_places(format::Graph& graph) {
  for (format::Tensor& t : graph.initializers) forget_places(t);
  for (format::SparseTensor& t : graph.sparse_initializers) forget_places(t.values), forget_places(t.indices);
  forget_places(graph.nodes);
}

// Normalisations of a model that was exported for training predict by the running statistics, as the loaded one does;
// unless the model reads the statistics of the batch.
template <class Parameters>
void predict_by_statistics(format::Graph& graph, const Parameters& parameters) {
  std::set<std::string> read;
  const auto add = [&](const std::string& name) { read.insert(name); };
  for (const format::ValueInfo& v : graph.outputs) add(v.name);
  for (const format::Node& n : graph.nodes) format::for_each_read(n, add);
  for (format::Node& n : graph.nodes) {
    if (n.op_type != "BatchNormalization" || !n.domain.empty() || n.inputs.size() < 5 || n.outputs.empty()) continue;
    if (!parameters.contains(n.inputs[3]) || !parameters.contains(n.inputs[4])) continue;
    if (std::any_of(n.outputs.begin() + 1, n.outputs.end(), [&](const auto& o) { return read.contains(o); })) continue;
    for (format::Attribute& a : n.attributes) {
      if (a.name != "training_mode" || a.i == 0) continue;
      a.i = 0;
      n.outputs.resize(1);
    }
  }
}

// Of the latest trace, without its inputs.
Program program_of(const gluon::BlockNode::Trace& trace) {
  Program program{trace.graph->program(), {}, {}};
  const std::span names = std::span(trace.graph->input_names()).subspan(trace.num_inputs);  // then
  for (size_t i = 0; i < names.size(); ++i) program.values[names[i]] = trace.parameters[i].reduced();
  return program;
}

// A block that reads shapes is traced again for each.
Program trace_for(const gluon::nn::AnyBlock& block, const Inputs& inputs) {
  std::vector<NDArray> arrays;
  std::vector<const NDArray*> pointers;
  for (const auto& [name, meta] : inputs) arrays.push_back(NDArray::empty(meta.shape, meta.dtype));
  for (const NDArray& a : arrays) pointers.push_back(&a);
  autograd::ModeScope mode(false, false);
  const gluon::detail::Traced traced = gluon::detail::run_trace(
      pointers, [&](std::span<const Symbol> data) { return block(std::vector<Symbol>(data.begin(), data.end())); },
      {.is_plan = true, .of = block.node().get()});
  Program program{traced.program, inputs, {}};
  for (const gluon::Parameter& p : traced.parameters) program.values[p.var().name()] = p.reduced();
  return program;
}

}  // namespace

void save(const Symbol& program, const Inputs& inputs, const std::unordered_map<std::string, NDArray>& values,
          const std::filesystem::path& path, const SaveOptions& options) {
  write(
      inputs,
      [&](const Inputs& given) {
        return Program{program, given, values};
      },
      path, options);
}

// `again` traces the block for other inputs; null where its type is not known.
static void save(const gluon::Block& block, const gluon::nn::AnyBlock* again, const std::filesystem::path& path,
                 const SaveOptions& options) {
  const gluon::BlockNode::Trace& trace = block.node()->latest_trace("onnx::save");
  std::unordered_map<std::string, TensorMeta> metas;
  for (const graph::SymbolNode* n : graph::topological_order(trace.graph->program().entries())) {
    if (n->is_variable() && !n->constant.defined()) metas[n->name] = n->outputs[0];
  }
  Inputs inputs, latest;
  for (size_t i = 0; i < trace.num_inputs; ++i) {
    const std::string& name = trace.graph->input_names()[i];
    TensorMeta meta = !trace.metas.empty() ? trace.metas[i] : metas.contains(name) ? metas[name] : TensorMeta();
    latest.emplace_back(name, meta);
    if (i < options.shapes.size()) meta.shape = options.shapes[i];
    if (!meta.shape.is_known())
      throw ShapeError(fmt::format("[onnx] the shape of {} is not known: give SaveOptions::shapes", name));
    inputs.emplace_back(name, meta);
  }
  Program program = program_of(trace);
  const bool reads_shapes = !trace.metas.empty();
  const auto program_for = [&](const Inputs& given) {
    if (reads_shapes && given != latest) {
      if (again) return trace_for(*again, given);
      throw StateError(
          "[onnx] the block reads the shapes of its inputs and would have to be traced for others: give the net "
          "itself, not a gluon::Block of it");
    }
    program.inputs = given;
    return program;
  };
  write(inputs, program_for, path, options);
}

void save(const gluon::nn::AnyBlock& block, const std::filesystem::path& path, const SaveOptions& options) {
  save(block, &block, path, options);
}

void save(const gluon::Block& block, const std::filesystem::path& path, const SaveOptions& options) {
  save(block, nullptr, path, options);
}

void Block::State::fix_shapes(format::Graph& graph, const std::vector<Shape>& shapes) const {
  const std::vector<convert::InputForm> forms = forms_of(shapes);
  std::vector<std::optional<Shape>> given, made(graph.outputs.size());
  size_t next = 0;
  for (const format::ValueInfo& info : graph.inputs) {  // initializers may be among them
    const bool is_own = next < inputs.size() && inputs[next].name == info.name;
    given.push_back(is_own ? std::optional(forms[next++].arrays[0].shape) : std::nullopt);
  }
  try {
    const auto program = convert::Conversion(model, parameters, constants, turned, kept).convert(forms, nullptr);
    for (size_t i = 0; i < made.size(); ++i) {
      const convert::Value& value = program->outputs[i];
      if (value.kind == convert::Value::Kind::tensor) made[i] = value.shape();
    }
  } catch (const TraceError&) {  // they depend on values
  }
  block::fix_shapes(graph, given, made);
}

void save(const Block& block, const std::filesystem::path& path, const SaveOptions& options) {
  const Block::State& state = *block.state_;
  const auto own = state.model.opsets.find("");
  if (options.opset != 0 && (own == state.model.opsets.end() || own->second != options.opset)) {
    throw ValueError(
        fmt::format("[onnx] a loaded model is written in its own opset, {}, not in {}: specialize() gives "
                    "a program for any opset",
                    own == state.model.opsets.end() ? 0 : own->second, options.opset));
  }
  if (!options.batch_name.empty() || !options.named.empty()) {
    throw ValueError(
        "[onnx] a loaded model is written with the names of its own dimensions: specialize() gives a program that is "
        "written with others");
  }
  if (const std::vector<std::string> faults = format::find_faults(state.model); !faults.empty()) {
    throw ValueError(fmt::format("[onnx] the loaded model is no model: {}", fmt::join(faults, "; ")));
  }
  format::Model model = state.model;
  if (!options.shapes.empty()) state.fix_shapes(model.graph, options.shapes);
  forget_places(model.graph);
  predict_by_statistics(model.graph, state.parameters);
  for (format::Function& f : model.functions) forget_places(f.nodes);
  std::vector<NDArray> arrays;
  for (const format::Tensor& t : model.graph.initializers) {
    const auto parameter = state.parameters.find(t.name);
    if (parameter == state.parameters.end()) {
      arrays.emplace_back();
      continue;
    }
    const NDArray values = parameter->second.reduced();
    if (const auto dtype = format::dtype_of(t.type); dtype != values.dtype()) {
      throw TypeError(fmt::format("[onnx] the parameter {} has dtype {}; the model's graph is written for {}", t.name,
                                  kaon::name_of(values.dtype()), kaon::name_of(*dtype)));
    }
    arrays.push_back(state.turned.contains(t.name) ? nd.transpose(values) : values);
  }
  exporting::write_files(model, arrays, path, options.max_file_bytes, options.min_external_bytes);
}

}  // namespace kaon::onnx
