// Damaged files of each kind: the error names the file and a place in it.
#include <fstream>

#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/interchange/support.h"

namespace damaged_files_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// With the bytes of a number in place of those at `at`.
template <class T>
std::string with_number(std::string bytes, size_t at, T number) {
  REQUIRE(at + sizeof number <= bytes.size());
  return bytes.replace(at, sizeof number, reinterpret_cast<const char*>(&number), sizeof number);
}

std::string safetensors_of(const std::string& header, size_t data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + std::string(data, '\0');
}

// The file's reader refuses the bytes, and names the file, a place and `text`.
void check_refused(const fs::path& file, const std::string& bytes, const std::string& text) {
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string error = refusal([&] {
    if (file.extension() == ".onnx") {
      onnx::load(file);
    } else {
      summarize_file(file);
      load_tensors(file);
    }
  });
  CAPTURE(error);
  CHECK_THAT(error, Contains(file.string()) && Contains(text));
  CHECK_THAT(error, Contains("at byte ") || Contains("offset ") || Contains("line ") || Contains("node ") ||
                        Contains("\"heads\"") || Contains("\"nodes\"") || Contains("tensor "));
}

const std::string symbol_text = R"({
  "nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "relu", "name": "act", "inputs": [[0, 0, 0]]}
  ],
  "arg_nodes": [0],
  "heads": [[1, 0, 0]]
})";

std::string model_bytes() {
  onnx::format::Model m = onnx_model(17);
  m.graph.inputs = {onnx_info("x", onnx::format::ElementType::float32, {2, 3})};
  m.graph.outputs = {onnx_info("y", onnx::format::ElementType::float32, {2, 3})};
  m.graph.initializers = {onnx_tensor<float>("weights", {3}, onnx::format::ElementType::float32, {1.0f, 2.0f, 3.0f})};
  m.graph.nodes = {onnx_node("Add", {"x", "weights"}, {"y"})};
  return onnx::format::write_model(m);
}

}  // namespace

TEST_CASE("damaged files: what is cut off anywhere is refused with the file and a place", "[interchange]") {
  const ScratchFolder folder;
  const NamedArrays arrays{{"first", nd.arange(6).reshape({2, 3})}, {"second", nd.arange(4).astype(DType::int32)}};
  for (const char* name : {"t.params", "t.safetensors", "t.npz"}) save_tensors(folder / name, arrays);
  save_tensors(folder / "t.npy", {arrays[0]});
  std::ofstream(folder / "t.onnx", std::ios::binary) << model_bytes();
  std::ofstream(folder / "t-symbol.json", std::ios::binary) << symbol_text;
  fs::copy_file(foreign_file("net_alone.pt"), folder / "t.pt");
  const std::string index = bytes_of(foreign_file("model.safetensors.index.json"));
  std::ofstream(folder / "t.safetensors.index.json", std::ios::binary) << index;
  for (const char* name :
       {"t.params", "t.safetensors", "t.npz", "t.npy", "t.pt", "t-symbol.json", "t.safetensors.index.json", "t.onnx"}) {
    const std::string whole = bytes_of(folder / name);
    for (const size_t eighths : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const size_t left = whole.size() * eighths / 8;
      CAPTURE(name, left, whole.size());
      check_refused(folder / name, whole.substr(0, left), "");
    }
    CAPTURE(name);
    // another magic number: archives are found by their end, and a model has no mark
    const std::string_view kind = name;
    if (kind.ends_with(".npz") || kind.ends_with(".pt") || kind.ends_with(".onnx")) continue;
    check_refused(folder / name, "XXXXXXXXXXXXXXXX" + whole, "");
  }
}

TEST_CASE("damaged files: wrong magic, sizes, dtypes and names are refused with their place", "[interchange]") {
  const ScratchFolder folder;
  const NamedArrays one{{"first", nd.arange(6).reshape({2, 3})}};
  // .params: the list's mark, the count, then the array's mark, storage, dimensions
  const std::string params = nd_file::save_to_bytes(one);
  const auto at_params = [&](size_t at, auto number, const std::string& text) {
    CAPTURE(at);
    check_refused(folder / "t.params", with_number(params, at, number), text);
  };
  at_params(0, uint64_t(0x113), "at byte 0: expected the mark of a list");
  at_params(16, int64_t(-1), "at byte 16");
  at_params(24, uint32_t(0x12345678), "at byte 24");
  at_params(28, int32_t(7), "at byte 28: expected a storage type");
  at_params(32, int32_t(-2), "at byte 32");
  at_params(36, int64_t(-2), "at byte 36: expected a dimension of 0 or more, found -2");
  at_params(44, int64_t(1) << 62, "at byte");
  at_params(52, int32_t(9), "at byte 52: expected a device type");
  at_params(60, int32_t(77), "at byte 60: expected an element type (0 to 12), found 77");

  const std::string npy = npy::save_to_bytes(one[0].second);
  const auto at_npy = [&](const std::string& bytes, const std::string& text) {
    check_refused(folder / "t.npy", bytes, text);
  };
  at_npy(replaced(npy, "NUMPY", "NUMPX"), "at byte 0: expected the magic text");
  at_npy(with_number(npy, 6, uint8_t(9)), "at byte 6: expected version 1, 2 or 3");
  at_npy(replaced(npy, "(2, 3)", "(-2,3)"), "a dimension from 0 to 2^63 - 1");
  at_npy(replaced(npy, "<f4", "<c8"), "complex numbers");
  at_npy(replaced(npy, "<f4", "<z9"), "a dtype that Kaon lacks");
  at_npy(replaced(npy, "'fortran_order'", "'descr'        "), "each once");

  const std::string npz = npz::save_to_bytes({{"aa", one[0].second}, {"bb", one[0].second}});
  check_refused(folder / "t.npz", replaced(replaced(npz, "bb.npy", "aa.npy"), "bb.npy", "aa.npy"), "'aa.npy' again");
  check_refused(folder / "t.npz", replaced(npz, "aa.npy", "cc.npy"), "the name 'aa.npy'");
  check_refused(folder / "t.npz", replaced(npz, "NUMPY", "NUMPX"), "CRC-32");

  for (
      const auto& [header, text] : std::initializer_list<std::pair<const char*, const char*>>{
          {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "tensor 'a': a dimension"},
          {R"({"a":{"dtype":"X99","shape":[2],"data_offsets":[0,8]}})",
           "tensor 'a': a dtype of the format, found 'X99'"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}})", "tensor 'a'"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "tensor 'a'"},
          {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "tensor 'a': 12 bytes"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           "'a' again"},
          {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "a hole"}}) {
    check_refused(folder / "t.safetensors", safetensors_of(header, 8), text);
  }
  check_refused(folder / "t.safetensors", with_number(safetensors_of("{}", 0), 0, int64_t(-1)), "at byte 0");
}

TEST_CASE("damaged files: symbol files name the node, the entry or the line", "[interchange]") {
  const ScratchFolder folder;
  const auto check = [&](std::string_view from, std::string_view to, const std::string& text) {
    check_refused(folder / "net-symbol.json", replaced(symbol_text, from, to), text);
  };
  check("\"op\": \"relu\"", "\"op\" \"relu\"", "line 4");
  check("\"op\": \"relu\"", "\"op\": \"nonsense\"", "operator 'nonsense' of node 'act'");
  check("[[0, 0, 0]]", "[[7, 0, 0]]", "inputs of node 1 'act', entry 0");
  check("[[0, 0, 0]]", "[[-1, 0, 0]]", "inputs of node 1 'act', entry 0");
  check("[[0, 0, 0]]", "[[1, 0, 0]]", "node 1 'act' (relu): needs its own output");
  check("[[0, 0, 0]]", "[0]", "inputs of node 1 'act', entry 0");
  check("[[1, 0, 0]]", "[[1, 0, 0], [9, 0, 0]]", "\"heads\", entry 1");
  check("[[1, 0, 0]]", "[[1, 5, 0]]", "node 1 'act' (relu): \"heads\" names output 5");
  check("[0]", "[4]", "node number 0 of \"arg_nodes\"");
  check("\"name\": \"act\", ", "", "node 1");
  check("\"op\": \"relu\"", "\"op\": \"Activation\", \"attrs\": {\"zzz\": \"1\"}", "node 1 'act' (Activation)");
}

TEST_CASE("damaged files: ONNX models name the tensor, its file and the offset", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "net.onnx";
  const std::string model = model_bytes();
  const auto with = [&](const std::function<void(onnx::format::Tensor&)>& change) {
    std::ofstream(folder / "whole.onnx", std::ios::binary) << model;
    onnx::format::Model m = onnx::format::read_model(folder / "whole.onnx");
    change(m.graph.initializers.at(0));
    return onnx::format::write_model(m);
  };
  check_refused(file, with([](auto& t) { t.dims = {-3}; }), "tensor weights has the dimension -3");
  check_refused(file, with([](auto& t) { t.dims = {4}; }), "tensor weights of 4 FLOAT elements has 12 bytes");
  check_refused(file, with([](auto& t) { t.type = onnx::format::ElementType(99); }), "unknown element type 99");
  const auto external = [&](const std::string& location, uint64_t length) {
    return with([&](auto& t) { t.location = location, t.external_offset = 0, t.external_length = length; });
  };
  check_refused(file, external("none.data", 12), "tensor weights has external data at 'none.data'");
  CHECK_THAT(refusal([&] { onnx::load(file); }),
             Contains((folder / "none.data").string() + ": cannot open: No such file"));
  check_refused(file, external("../x.data", 12), "leaves the model's folder");
  std::ofstream(folder / "short.data") << "four";
  check_refused(file, external("short.data", 12), "tensor weights: external data from 0 of length 12");
  std::ofstream(file, std::ios::binary) << external("none.data", 12);
  CHECK_THAT(refusal([&] { load_tensors(file); }), Contains(file.string()) && Contains("tensor weights"));
}

}  // namespace damaged_files_test
