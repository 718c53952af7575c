// Fuzz target: ONNX models. Any bytes give a model or an IoError, and so do its tensors. What was read can be written,
// and read again it is the same.
#include <string>

#include "kaon/interchange/onnx/format/model.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;
using namespace kaon::onnx::format;

namespace {

Bytes as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

void look_at(const Graph& graph) {
  for (const Tensor& t : graph.initializers) {
    try {
      t.values();
    } catch (const Error&) {  // strings, more than 8 dimensions
    }
  }
  for (const SparseTensor& t : graph.sparse_initializers) {
    try {
      dense(t);
    } catch (const Error&) {
    }
  }
  for (const Node& n : graph.nodes) {
    for (const Attribute& a : n.attributes) {
      for (const auto& g : a.graphs) look_at(*g);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Model model;
  try {
    // no folder, so that external data lead nowhere
    model = read_model({reinterpret_cast<const std::byte*>(data), size}, nullptr, "/nowhere/fuzz.onnx");
  } catch (const IoError&) {
    return 0;
  }
  look_at(model.graph);
  std::string bytes;
  try {
    bytes = write_model(model);
  } catch (const ValueError&) {  // attributes that are not written
    return 0;
  }
  try {
    test::require(write_model(read_model(as_bytes(bytes), nullptr, "/nowhere/fuzz.onnx")) == bytes,
                  "a model that is written and read again is the same");
  } catch (const IoError&) {  // it has an element type of no size
  }
  return 0;
}
