// ONNX models, read and written: nets of other tools as blocks.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/sequential.h"
#include "kaon/gluon/symbol_block.h"

namespace KAON_API kaon {
namespace onnx {

// What a model takes or gives.
struct ValueInfo {
  enum class Kind : uint8_t { tensor, sequence, optional, other };
  std::string name;
  Kind kind = Kind::tensor;
  // Of the elements: "FLOAT", "INT64", "FLOAT8E4M3FN". Those that Kaon has no dtype for are held as codes in uint8, one
  // in each, also the ones of 4 and 2 bits.
  std::string element_type;
  DType dtype = DType::float32;
  bool has_shape = false;
  Shape shape;                         // -1: any size
  std::vector<std::string> dim_names;  // by dimension; "" for a number
};

// A value of a model's input or output: an array, a sequence of arrays, strings with a shape, or nothing (an optional
// without a value).
struct Value {
  Value() = default;
  Value(NDArray array) : array(std::move(array)) {}
  Value(std::vector<NDArray> sequence) : is_sequence(true), sequence(std::move(sequence)) {}
  Value(std::vector<std::string> strings, const Shape& shape)
      : is_text(true), strings(std::move(strings)), strings_shape(shape) {}
  bool is_nothing() const { return !is_sequence && !is_text && !array.defined(); }

  NDArray array;
  bool is_sequence = false;
  std::vector<NDArray> sequence;
  bool is_text = false;
  std::vector<std::string> strings;  // row-major
  Shape strings_shape;
};

struct LoadOptions {
  // Initializers of floating numbers with dimensions are parameters, which can be trained, with gradients. Else they
  // are constants. Neither has memory of its own where it lies in the file as Kaon holds it.
  bool trainable = true;
};

// What tools show of a model.
struct Summary {
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; "" is ONNX's own
  std::string producer;
  std::map<std::string, int> operators;  // "Conv", "com.microsoft.Gelu": how many nodes, in functions and graphs too
  std::vector<std::string> unsupported;  // those of them that cannot run
  std::vector<std::string> faults;       // values that are made by no node, by several, or too late
  int64_t parameters = 0;                // elements of all initializers
};

struct SaveOptions;

// A model as a block. It is converted at the first call with inputs of certain shapes and dtypes, and kept for the next
// ones: every shape is known then, so that arithmetic on shapes costs nothing later and dimensions by name just work.
// Hybridized, as it is from the start, a call is one submission. What it computes may depend on the values of inputs,
// as where one is a shape: these values are read, which blocks, and other values are converted anew. An
// operator that is not supported throws ValueError at the call, with the node's name. A handle; thread safety: calls
// from one thread at a time; several blocks may share their parameters.
class Block : public gluon::Block {
 public:
  explicit Block(const std::filesystem::path& file, const LoadOptions& options = {});

  std::vector<ValueInfo> inputs() const;   // without those that have initializers
  std::vector<ValueInfo> outputs() const;  // of the model
  Summary summary() const;

  // All outputs. Throws ValueError for another number of inputs, TypeError and ShapeError for inputs that do not fit,
  // ValueError for outputs that are no arrays.
  std::vector<NDArray> forward(const std::vector<NDArray>& inputs,
                               std::source_location site = std::source_location::current()) const;
  // The output of a model that has one.
  NDArray operator()(const NDArray& x, std::source_location site = std::source_location::current()) const;
  // The same inside of other nets' hybrid_forward and training steps: the program for the Symbols' shapes, which must
  // be known. Throws TraceError where it depends on values.
  Symbol operator()(const Symbol& x) const;
  std::vector<Symbol> compose_on(const std::vector<Symbol>& inputs) const;  // all outputs
  // The same for models with sequences and optionals.
  std::vector<Value> run(const std::vector<Value>& inputs,
                         std::source_location site = std::source_location::current()) const;
  // The program for inputs of these shapes, in the order of inputs(), of the dtypes that the model says: a block like
  // any other, printed, exported and put into nets, which shares this one's parameters. It takes other sizes where the
  // model leaves a dimension open and the program is the same for them; its calls throw ShapeError else. Throws as
  // forward() does, TraceError where the program depends on values.
  gluon::SymbolBlock specialize(const std::vector<Shape>& shapes) const;
  // The plan of the latest hybridized call, to be looked at. Throws StateError before the first.
  engine::IntrusivePtr<PlanReport> plan() const;

 private:
  struct State;
  friend void save(const Block& model, const std::filesystem::path& file, const SaveOptions& options);
  std::shared_ptr<State> state_;
};

// The model of a file; its external data lie in the file's folder. Throws IoError naming file and offset for a file
// that is no model, or is damaged, and ValueError for operators of a version that is not known. Does not convert yet.
KAON_API Block load(const std::filesystem::path& file, const LoadOptions& options = {});
// The program for inputs of these shapes: load(file).specialize(shapes). Where the model says every shape, none need be
// given.
KAON_API gluon::SymbolBlock load_block(const std::filesystem::path& file, const std::vector<Shape>& shapes = {});

// A dimension of an input that has any size in the file. Dimensions of one name have one size.
struct NamedDimension {
  std::string input;
  int axis = 0;
  std::string name;
};

struct SaveOptions {
  int64_t opset = 0;            // 17 to 24; 0: 17, and that of the model for a loaded one
  std::vector<Shape> shapes{};  // of the inputs; without them those of the latest trace
  // The first dimension of every input is written as this name, of any size. Empty: the number.
  std::string_view batch_name{};
  std::vector<NamedDimension> named{};  // further ones; at most three names in all
  // Where the file would have more bytes, or more than the 2 GiB of protobuf, arrays of min_external_bytes and more are
  // stored in a second file beside it, "<file>.<16 digits>.data": ONNX's external data. 0: always.
  uint64_t max_file_bytes = 0x7fffffff;
  uint64_t min_external_bytes = 1024;
};

// Writes a hybridized block that has been called, as it predicts. With names the program is written for several sizes,
// from 2 to some 1000, and compared: numbers that follow from the sizes are computed by the model. A block that reads
// the shapes of its inputs is traced for each of them. Blocks until its parameters are computed. Throws StateError
// before a first hybridized call; ValueError for an operator that is not written, for another opset, and for a name
// whose size the program depends on otherwise; IoError. A crash leaves an old model as it was. The second file of an
// older model of this name is removed: a copy of such a model is one of both files.
KAON_API void save(const gluon::nn::AnyBlock& block, const std::filesystem::path& file,
                   const SaveOptions& options = {});
// Of a block without its type, which cannot be traced again: with names, a StateError for one that reads shapes.
KAON_API void save(const gluon::Block& block, const std::filesystem::path& file, const SaveOptions& options = {});
template <class Net>
  requires gluon::nn::detail::is_hybrid_block<Net>
void save(const Net& net, const std::filesystem::path& file, const SaveOptions& options = {}) {
  if constexpr (gluon::nn::AnyBlock::takes<Net>) save(gluon::nn::AnyBlock(net), file, options);
  else save(static_cast<const gluon::Block&>(net), file, options);
}
// The same of a program, given its inputs and the values of its other variables.
KAON_API void save(const Symbol& program, const std::vector<std::pair<std::string, TensorMeta>>& inputs,
                   const std::unordered_map<std::string, NDArray>& values, const std::filesystem::path& file,
                   const SaveOptions& options = {});
// Writes a loaded model again: its graph as it was, with the values that its parameters have now. With shapes, the
// dimensions that its inputs and outputs leave open are these numbers. Throws ValueError for another opset than its own
// and for names, which specialize() is for, and ShapeError for shapes that do not fit.
KAON_API void save(const Block& model, const std::filesystem::path& file, const SaveOptions& options = {});

}  // namespace onnx
}  // namespace kaon
