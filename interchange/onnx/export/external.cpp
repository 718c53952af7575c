#include "kaon/interchange/onnx/export/external.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"
#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/file/digest.h"

namespace kaon::onnx::exporting {

namespace fs = std::filesystem;
using format::Tensor;

namespace {

// Offsets that ONNX's own tools choose: pages, and for large arrays the units in which Windows maps files.
constexpr uint64_t kPage = 4096, kMapped = 65536, kLarge = 1 << 20;
constexpr uint64_t kMostBeforeElements = 160;  // what a file has in front of an array besides its name and shape

// An undefined array stands for the elements that the tensor has.
uint64_t bytes_of(const Tensor& tensor, const NDArray& array) {
  return array.defined() ? uint64_t(array.size()) * size_of(array.dtype()) : tensor.bytes.size();
}

void with_elements(const Tensor& tensor, const NDArray& array, engine::FunctionRef<void(std::string_view)> use) {
  if (array.defined()) return interchange::with_bytes(array, use);
  use({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

void put_inside(Tensor& tensor, const NDArray& array) {
  if (!array.defined()) return;
  auto own = std::make_shared<std::vector<std::byte>>(size_t(bytes_of(tensor, array)));
  interchange::with_bytes(array, [&](std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(own->data(), bytes.data(), bytes.size());
  });
  tensor.bytes = *own;
  tensor.keeper = own;
}

bool is_data_of(const std::string& name, const std::string& model) {
  const std::string prefix = model + '.', suffix = ".data";
  return name.size() == prefix.size() + 16 + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == name.size() - suffix.size();
}

// The second file of the model that has the name now; "" where it has none of ours.
std::string older_data(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  try {
    for (const Tensor& t : format::read_model(path).graph.initializers) {
      if (is_data_of(t.location, path.filename().string())) return t.location;
    }
  } catch (const Error&) {  // no model, or one that is damaged: nothing is known to be its
  }
  return "";
}

void write_data(const fs::path& file, const format::Graph& graph, std::span<const NDArray> arrays) {
  engine::AtomicFile out(file);
  const std::string zeros(size_t(kMapped), '\0');
  uint64_t at = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& t = graph.initializers[i];
    if (t.location.empty()) continue;
    out.write(zeros.data(), size_t(t.external_offset - at));
    with_elements(t, arrays[i], [&](std::string_view bytes) { out.write(bytes.data(), bytes.size()); });
    at = t.external_offset + t.external_length;
  }
  out.commit();
}

// Chooses which arrays are stored in the second file, and where. Gives its name, "" where none are.
std::string place(format::Graph& graph, std::span<const NDArray> arrays, uint64_t smallest, const std::string& model) {
  interchange::Digest digest;
  uint64_t end = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    Tensor& t = graph.initializers[i];
    const uint64_t length = bytes_of(t, arrays[i]);
    if (length < std::max<uint64_t>(smallest, 1)) continue;
    const uint64_t unit = length >= kLarge ? kMapped : kPage;
    t.external_offset = (end + unit - 1) / unit * unit;
    t.external_length = length;
    end = t.external_offset + t.external_length;
    digest.add(t.external_offset);
    with_elements(t, arrays[i], [&](std::string_view bytes) { digest.add(bytes); });
  }
  if (end == 0) return "";
  const std::string name = fmt::format("{}.{}.data", model, digest.text());
  for (Tensor& t : graph.initializers) {
    if (t.external_length > 0) t.location = name;
  }
  return name;
}

uint64_t size_without_elements(const format::Model& model) {
  format::Model empty = model;
  for (Tensor& t : empty.graph.initializers) t.bytes = {};
  return format::write_model(empty).size();
}

}  // namespace

void write_files(format::Model& model, std::span<const NDArray> arrays, const fs::path& path, uint64_t most,
                 uint64_t smallest) {
  uint64_t bytes = size_without_elements(model);
  for (size_t i = 0; i < arrays.size(); ++i)
    bytes += kMostBeforeElements + bytes_of(model.graph.initializers[i], arrays[i]);
  std::string name;
  if (bytes > std::min<uint64_t>(most, format::kLargestFile)) {
    name = place(model.graph, arrays, smallest, path.filename().string());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    Tensor& t = model.graph.initializers[i];
    if (!t.location.empty()) continue;
    put_inside(t, arrays[i]);
  }
  const std::string data = format::write_model(model);
  if (data.size() > format::kLargestFile) {
    throw ValueError(
        fmt::format("[onnx] a model of {} bytes without the arrays beside it does not fit a file of "
                    "protobuf, 2 GiB",
                    data.size()));
  }
  const std::string older = older_data(path);
  std::error_code ignored;
  const fs::path beside = path.parent_path() / name;
  const bool is_new = !name.empty() && !fs::exists(beside, ignored);
  if (!name.empty()) write_data(beside, model.graph, arrays);
  try {
    engine::write_file(path, data);
  } catch (...) {
    if (is_new) fs::remove(beside, ignored);
    throw;
  }
  if (!older.empty() && older != name) fs::remove(path.parent_path() / older, ignored);
}

}  // namespace kaon::onnx::exporting
