// What a loaded model keeps. For the sources of onnx::Block.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/convert/conversion.h"
#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx {

struct Block::State {
  format::Model model;
  std::vector<format::ValueInfo> inputs;
  std::unordered_map<std::string, gluon::Parameter> parameters;  // by the names of initializers
  std::unordered_map<std::string, convert::Value> constants;
  std::unordered_set<std::string> turned;  // those of them that are kept transposed
  mutable convert::Kept kept;
  struct Entry {
    std::vector<convert::InputForm> forms;
    std::shared_ptr<const convert::Program> program;
    std::vector<size_t> places;  // of a program without steps: which arrays its block takes
    bool any_rows = false;       // it holds for any first dimension of the arrays, which `forms` has as kAnyRows
    bool is_direct = false;      // the block takes the model's inputs and gives its outputs
    bool fits(const std::vector<NDArray>& arrays) const;
  };
  // What specialize() converts for: a shape for each input, its own where none is given. Throws ShapeError and
  // TypeError for shapes that do not fit, and ValueError for an input that is no array.
  std::vector<convert::InputForm> forms_of(const std::vector<Shape>& shapes) const;
  // The dimensions of the graph's inputs and outputs as numbers, for inputs of these shapes.
  void fix_shapes(format::Graph& graph, const std::vector<Shape>& shapes) const;
  Entry convert_for_any_rows(const std::vector<convert::InputForm>& forms) const;
  std::vector<Entry> programs;  // the latest first
};

}  // namespace kaon::onnx
