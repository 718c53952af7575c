// The messages of ONNX files, by the published schema (onnx.proto): what is read into, and written from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/interchange/onnx/format/element_type.h"
#include "kaon/interchange/onnx/format/wire.h"
#include "kaon/ops/ndarray.h"

namespace kaon::onnx::format {

// An array in a file. Its elements stay there until values() makes an array over them.
struct Tensor {
  std::string name;
  std::vector<int64_t> dims;
  ElementType type = ElementType::undefined;
  std::shared_ptr<const void> keeper;  // of the memory that `bytes` is in
  Bytes bytes;                         // row-major, as raw_data has them
  std::vector<std::string> strings;    // of ElementType::string
  std::string place;                   // "offset 123", for messages
  // Of external data: the file beside the model ("": the elements are in `bytes`), and which of its bytes.
  std::string location;
  uint64_t external_offset = 0, external_length = 0;

  int64_t size() const;
  Shape shape() const;  // throws IoError beyond 8 dimensions
  // The elements: where they are stored as Kaon holds them, as array_over() makes them, else a copy; coded ones
  // unpacked, a code in each uint8. Throws TypeError for strings and complex numbers.
  NDArray values() const;
};

struct Graph;

struct Dimension {
  int64_t value = -1;  // -1: not known
  std::string name;    // of one that is not known
};

// What a value is. Element types of sequences and optionals are those of their tensors.
struct ValueInfo {
  enum class Kind : uint8_t { tensor, sequence, optional, other };
  std::string name;
  Kind kind = Kind::tensor;
  bool of_sequence = false;  // an optional: of a sequence
  ElementType type = ElementType::undefined;
  bool has_shape = false;
  std::vector<Dimension> dims;
  std::optional<Bytes> as_read;  // the message of the type in the file, which is written again as it is
  std::shared_ptr<const void> keeper;
};

struct Attribute {
  // The numbers of AttributeProto.AttributeType.
  enum class Type : int32_t {
    undefined = 0,
    float32 = 1,
    integer = 2,
    string = 3,
    tensor = 4,
    graph = 5,
    floats = 6,
    integers = 7,
    strings = 8,
    tensors = 9,
    graphs = 10,
    sparse_tensor = 11,
    sparse_tensors = 12,
    type_proto = 13,
    type_protos = 14
  };
  std::string name;
  std::string reference;  // of an attribute of the function that the node is in
  Type type = Type::undefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<Tensor> tensors;  // one, or a list
  std::vector<Tensor> sparse;   // values, indices; the dense shape is that of `sparse_dims`
  std::vector<int64_t> sparse_dims;
  std::vector<std::shared_ptr<Graph>> graphs;
  std::vector<float> floats;
  std::vector<int64_t> integers;
  std::vector<std::string> strings;
  ValueInfo info;  // of type_proto
};

struct Node {
  std::string name, op_type, domain, overload;
  std::vector<std::string> inputs, outputs;  // "": not given
  std::vector<Attribute> attributes;
  const Attribute* find(std::string_view attribute) const;
};

struct SparseTensor {
  Tensor values, indices;
  std::vector<int64_t> dims;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs, value_infos;
};

struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::map<std::string, int64_t> opsets;
};

struct Model {
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; "" is ONNX's own
  std::string producer, producer_version;
  std::map<std::string, std::string> metadata;
  Graph graph;
  std::vector<Function> functions;
};

// A value in a file of test data: what a TensorProto, SequenceProto or OptionalProto holds.
struct DataValue {
  bool is_sequence = false, is_nothing = false;
  std::vector<Tensor> tensors;  // one unless it is a sequence
};

// Reads a model; external data lie in files of the model's folder or below it. Throws IoError naming file and offset.
Model read_model(const std::filesystem::path& path);
Model read_model(Bytes bytes, std::shared_ptr<const void> keeper, const std::filesystem::path& path);
// Reads a file with one value of this kind.
DataValue read_data(const std::filesystem::path& path, const ValueInfo& info);
// The dense form of a sparse tensor.
NDArray dense(const SparseTensor& tensor);

constexpr size_t kLargestFile = 0x7fffffff;  // of protobuf

// A tensor with a location is written as external data, without its elements.
std::string write_model(const Model& model);

}  // namespace kaon::onnx::format
