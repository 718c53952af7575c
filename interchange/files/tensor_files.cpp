#include "kaon/interchange/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/graph/symbol_picture.h"
#include "kaon/interchange/file/file_bytes.h"
#include "kaon/interchange/numpy/npy_format.h"
#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/interchange/safetensors/header.h"
#include "kaon/interchange/torch_files.h"
#include "kaon/interchange/zip/zip_file.h"

namespace kaon {

using namespace interchange;
namespace fs = std::filesystem;

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::mxnet_params: return "MXNet's arrays (.params)";
    case FileKind::mxnet_symbol: return "MXNet's program (symbol.json)";
    case FileKind::mxnet_states: return "a pickle (states of MXNet's Trainer)";
    case FileKind::safetensors: return "safetensors";
    case FileKind::safetensors_index: return "an index of safetensors files";
    case FileKind::npy: return "NumPy's array (.npy)";
    case FileKind::npz: return "NumPy's archive (.npz)";
    case FileKind::torch: return "PyTorch's archive (.pt)";
    case FileKind::torch_legacy: return "PyTorch's format before 1.6";
    case FileKind::onnx: return "ONNX";
    case FileKind::unknown: break;
  }
  return "of a kind that is not known";
}

namespace {

bool is_torch(const FileBytes& file) {
  const auto entries = read_zip(file);
  return std::any_of(entries.begin(), entries.end(), [](const ZipEntry& e) { return e.name.ends_with("/data.pkl"); });
}

FileKind kind_of_json(const FileBytes& file) {
  const std::string_view text = file.view();
  const size_t map = text.find("\"weight_map\""), nodes = text.find("\"nodes\"");
  if (map < nodes) return FileKind::safetensors_index;
  return nodes != std::string_view::npos ? FileKind::mxnet_symbol : FileKind::unknown;
}

// Of damaged files, whose readers say what is wrong.
FileKind kind_of_name(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::pair<std::string_view, FileKind> endings[] = {{".params", FileKind::mxnet_params},
                                                               {".nd", FileKind::mxnet_params},
                                                               {".safetensors", FileKind::safetensors},
                                                               {".safetensors.index.json", FileKind::safetensors_index},
                                                               {".json", FileKind::mxnet_symbol},
                                                               {".npy", FileKind::npy},
                                                               {".npz", FileKind::npz},
                                                               {".pt", FileKind::torch},
                                                               {".pth", FileKind::torch}};
  for (const auto& [ending, kind] : endings) {
    if (name.ends_with(ending)) return kind;
  }
  return FileKind::unknown;
}

FileKind kind_of_bytes(const FileBytes& file, const fs::path& path) {
  const std::string_view bytes = file.view();
  const auto begins = [&](std::string_view mark) { return bytes.starts_with(mark); };
  if (begins("\x93NUMPY")) return FileKind::npy;
  if (begins("PK\x03\x04") || begins("PK\x05\x06")) return is_torch(file) ? FileKind::torch : FileKind::npz;
  if (begins("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9")) return FileKind::torch_legacy;
  const std::string extension = path.extension().string();
  if (extension == ".onnx") return FileKind::onnx;
  if (bytes.size() >= 8) {
    const auto first = file.number<uint64_t>(0, "the first bytes");
    if (first == 0x112) return FileKind::mxnet_params;
    if (bytes.size() >= 9 && bytes[8] == '{' && first <= bytes.size() - 8) return FileKind::safetensors;
  }
  if (const size_t text = bytes.find_first_not_of(" \t\r\n"); text != std::string_view::npos && bytes[text] == '{') {
    if (const FileKind kind = kind_of_json(file); kind != FileKind::unknown) return kind;
  }
  const FileKind by_name = kind_of_name(path);
  if (by_name != FileKind::unknown) return by_name;
  if (bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) return FileKind::mxnet_states;
  return FileKind::unknown;
}

[[noreturn]] void fail_unknown(const fs::path& file, std::string_view found) {
  throw IoError(
      fmt::format("{}: expected MXNet's .params or symbol.json, .safetensors or its index, .npy, .npz, "
                  "PyTorch's .pt or .onnx, found {}",
                  file.string(), found));
}

std::string_view found_in(const fs::path& file) {
  return fs::file_size(file) == 0 ? "an empty file" : "a file that is of none of these by its contents or its name";
}

// The initializers of the model's graph, by their names and in its own layout.
NamedArrays load_initializers(const fs::path& file) {
  const onnx::format::Model model = onnx::format::read_model(file);
  NamedArrays arrays;
  std::unordered_set<std::string_view> seen;
  const auto add = [&](const std::string& name, const auto& values) {
    try {
      if (!seen.insert(name).second) throw IoError(fmt::format("[onnx] two initializers are named '{}'", name));
      arrays.emplace_back(name, values());
    } catch (const Error& e) {
      std::rethrow_exception(e.with_context(" in " + file.string()));
    }
  };
  for (const onnx::format::Tensor& t : model.graph.initializers) add(t.name, [&] { return t.values(); });
  for (const onnx::format::SparseTensor& t : model.graph.sparse_initializers) {
    add(t.values.name, [&] { return dense(t); });
  }
  return arrays;
}

}  // namespace

FileKind kind_of(const fs::path& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) fail_unknown(file, "a folder");
  return kind_of_bytes(FileBytes::map(file), file);
}

NamedArrays load_tensors(const fs::path& file) {
  const FileKind kind = kind_of(file);
  switch (kind) {
    case FileKind::mxnet_params: return nd_file::load(file);
    case FileKind::safetensors:
    case FileKind::safetensors_index: return safetensors::load(file).arrays;
    case FileKind::npy: return {{file.stem().string(), npy::load(file)}};
    case FileKind::npz: return npz::load(file);
    case FileKind::torch:
    case FileKind::torch_legacy: return torch_files::load(file);
    case FileKind::onnx: return load_initializers(file);
    case FileKind::unknown: fail_unknown(file, found_in(file));
    default: throw IoError(fmt::format("{}: expected a file of tensors, found {}", file.string(), name_of(kind)));
  }
  return {};
}

void save_tensors(const fs::path& file, const NamedArrays& arrays, const SaveTensorsOptions& options) {
  const std::string name = file.filename().string();
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
    return safetensors::save(file, arrays, {.metadata = options.metadata, .max_shard_bytes = options.max_shard_bytes});
  }
  if (name.ends_with(".npz")) return npz::save(file, arrays, {.compress = options.compress});
  if (name.ends_with(".params") || name.ends_with(".nd")) return nd_file::save(file, arrays);
  if (!name.ends_with(".npy")) {
    throw ValueError(fmt::format(
        "[save_tensors] expected a name ending in .params, .nd, .safetensors, .npz or .npy, got '{}'", name));
  }
  if (arrays.size() != 1) {
    throw ValueError(
        fmt::format("[save_tensors] an npy file holds one array, got {}: name an npz file", arrays.size()));
  }
  npy::save(file, arrays[0].second);
}

namespace {

void add(FileSummary& summary, const std::string& name, const NDArray& array) {
  if (!array.defined()) {
    summary.tensors.push_back({name, "none", "", 0, ""});
    return;
  }
  summary.tensors.push_back(
      {name, to_string(array.dtype()), array.shape().str(), uint64_t(array.size()) * size_of(array.dtype()), ""});
}

std::string text_of(const std::vector<int64_t>& dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return text + (dims.size() == 1 ? ",)" : ")");
}

void add_safetensors(FileSummary& summary, const fs::path& file) {
  if (summary.kind == FileKind::safetensors) summary.metadata = read_safetensors_header(FileBytes::map(file)).metadata;
  for (const safetensors::TensorInfo& t : safetensors::list(file)) {
    std::string note = safetensors_dtype(t.dtype) ? "" : "Kaon has no such dtype";
    if (t.shape.size() > size_t(Shape::max_ndim)) note = fmt::format("more than {} dimensions", Shape::max_ndim);
    summary.tensors.push_back({t.name, t.dtype, text_of(t.shape), t.bytes, note});
  }
}

// Values of one kind, as the numbers that a loop kept, share a line.
void add_torch(FileSummary& summary, const fs::path& file) {
  const torch_files::Contents contents = torch_files::contents(file);
  for (const auto& [name, array] : contents.arrays) add(summary, name, array);
  std::map<std::string, std::pair<const torch_files::LeftOut*, size_t>> kinds;
  std::vector<const std::string*> order;
  for (const torch_files::LeftOut& l : contents.left_out) {
    const auto [kind, is_new] = kinds.try_emplace(l.expected + "\n" + l.found, &l, 0);
    if (is_new) order.push_back(&kind->first);
    ++kind->second.second;
  }
  for (const std::string* key : order) {
    const auto& [first, count] = kinds.at(*key);
    summary.problems.push_back(
        fmt::format("{}{} at byte {}: expected {}, found {}{}", first->is_tensor ? "the tensor" : "the value",
                    first->name.empty() ? "" : fmt::format(" '{}'", first->name), first->offset, first->expected,
                    first->found, count > 1 ? fmt::format(", and {} more of this kind", count - 1) : std::string()));
  }
}

void add_symbol(FileSummary& summary, const fs::path& file) {
  const Symbol symbol = Symbol::load(file);
  summary.inputs = symbol.list_inputs();
  summary.outputs = symbol.list_outputs();
  summary.operators = count_operators(symbol);
}

std::string text_of(const onnx::ValueInfo& value) {
  if (value.kind != onnx::ValueInfo::Kind::tensor) return value.name + " (no tensor)";
  std::string dims;
  for (int i = 0; i < value.shape.ndim(); ++i) {
    const int64_t d = value.shape[i];
    const std::string& name = size_t(i) < value.dim_names.size() ? value.dim_names[size_t(i)] : std::string();
    dims += (i ? ", " : "") + (d >= 0 ? fmt::format("{}", d) : name.empty() ? std::string("?") : name);
  }
  return fmt::format("{} {}{}", value.name, value.element_type, value.has_shape ? " (" + dims + ")" : "");
}

void add_onnx(FileSummary& summary, const fs::path& file) {
  const onnx::Block net = onnx::load(file);
  for (const onnx::ValueInfo& value : net.inputs()) summary.inputs.push_back(text_of(value));
  for (const onnx::ValueInfo& value : net.outputs()) summary.outputs.push_back(text_of(value));
  const onnx::Summary model = net.summary();
  for (const auto& [name, count] : model.operators) summary.operators[name] = count;
  for (const std::string& name : model.unsupported) summary.problems.push_back(fmt::format("the operator {}", name));
  for (const std::string& fault : model.faults) summary.problems.push_back(fault);
  summary.metadata["IR version"] = fmt::format("{}", model.ir_version);
  if (!model.producer.empty()) summary.metadata["producer"] = model.producer;
  for (const auto& [domain, version] : model.opsets) {
    summary.metadata["opset of " + (domain.empty() ? std::string("ai.onnx") : domain)] = fmt::format("{}", version);
  }
  summary.metadata["elements of initializers"] = fmt::format("{}", model.parameters);
}

}  // namespace

FileSummary summarize_file(const fs::path& file) {
  FileSummary summary;
  summary.kind = kind_of(file);
  summary.bytes = fs::file_size(file);
  switch (summary.kind) {
    case FileKind::mxnet_symbol: add_symbol(summary, file); break;
    case FileKind::safetensors_index:
    case FileKind::safetensors: add_safetensors(summary, file); break;
    case FileKind::npy: {
      const FileBytes bytes = FileBytes::map(file);
      const npy::Header header = read_npy_header(bytes, 0, bytes.size());
      const auto type = npy_dtype(header.dtype);
      if (type) expect_npy_bytes(bytes, 0, bytes.size(), header, type->dtype);
      summary.tensors.push_back({file.stem().string(), header.dtype, header.shape.str(), summary.bytes - header.offset,
                                 type ? "" : "Kaon has no such dtype"});
      break;
    }
    case FileKind::torch: add_torch(summary, file); break;
    case FileKind::mxnet_params:
    case FileKind::npz:
      for (const auto& [name, array] : load_tensors(file)) add(summary, name, array);
      break;
    case FileKind::mxnet_states:
      summary.problems.push_back("states of a Trainer need the trainer: gluon::load_mxnet_states()");
      break;
    case FileKind::torch_legacy:
      summary.problems.push_back("load it by PyTorch and save it again by torch.save");
      break;
    case FileKind::onnx: add_onnx(summary, file); break;
    case FileKind::unknown: fail_unknown(file, found_in(file));
  }
  return summary;
}

}  // namespace kaon
