#include "kaon/ops/ndarray_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/checked_size.h"
#include "kaon/ops/array/file_io.h"
#include "kaon/ops/array/stored_array.h"

namespace kaon::nd_file {

using namespace ops;

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

namespace {

constexpr uint64_t list_mark = 0x112;
constexpr uint32_t v1_mark = 0xF993FAC8, v2_mark = 0xF993FAC9, v3_mark = 0xF993FACA;
constexpr int32_t cpu_type = 1;

// --- reading

// Bytes in order, each request checked against the bytes that are left.
class Input {
 public:
  Input(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
  virtual ~Input() = default;

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return size_ - offset_; }

  [[noreturn]] void fail(uint64_t at, const std::string& expected, const std::string& found) const {
    throw IoError(fmt::format("{}: at byte {}: expected {}, found {}", name_, at, expected, found));
  }
  void require(uint64_t bytes, const char* what) const {
    if (bytes > remaining()) fail(offset_, fmt::format("{} ({} bytes)", what, bytes), left());
  }
  std::string left() const { return fmt::format("only {} bytes up to the end", remaining()); }

  void read(void* to, uint64_t bytes, const char* what) {
    require(bytes, what);
    if (bytes > 0 && !fetch(to, bytes)) {
      throw IoError(
          fmt::format("{}: at byte {}: cannot read {} bytes: {}", name_, offset_, bytes, std::strerror(errno)));
    }
    offset_ += bytes;
  }
  template <class T>
  T number(const char* what) {
    T value;
    read(&value, sizeof(T), what);
    return value;
  }

 protected:
  virtual bool fetch(void* to, uint64_t bytes) = 0;

 private:
  std::string name_;
  uint64_t size_, offset_ = 0;
};

class ByteInput final : public Input {
 public:
  ByteInput(std::string_view bytes, std::string name) : Input(std::move(name), bytes.size()), next_(bytes.data()) {}

 private:
  bool fetch(void* to, uint64_t bytes) override {
    std::memcpy(to, next_, bytes);
    next_ += bytes;
    return true;
  }
  const char* next_;
};

class FileInput final : public Input {
 public:
  FileInput(std::ifstream stream, std::string name, uint64_t size)
      : Input(std::move(name), size), stream_(std::move(stream)) {}

 private:
  bool fetch(void* to, uint64_t bytes) override {
    return bool(stream_.read(static_cast<char*>(to), std::streamsize(bytes)));
  }
  std::ifstream stream_;
};

// Dimensions as read from the file; `none` when they mean that there is no array.
struct FileShape {
  Shape shape;
  bool none = false;
};

FileShape read_shape(Input& in, uint32_t mark) {
  FileShape result;
  const bool marked = mark == v1_mark || mark == v2_mark || mark == v3_mark;
  const uint64_t at = marked ? in.offset() : in.offset() - sizeof(mark);
  // without a mark the word itself is the number of dimensions, and these are 32 bits wide
  const int64_t ndim = marked ? in.number<int32_t>("number of dimensions") : int64_t(mark);
  if (ndim == (mark == v3_mark ? -1 : 0)) return {.shape = {}, .none = true};
  if (ndim < 0 || ndim > Shape::max_ndim) {
    const std::string expected =
        fmt::format("{}at most {} dimensions", marked ? "" : "the mark of an array or ", Shape::max_ndim);
    in.fail(at, expected, marked ? fmt::format("{}", ndim) : fmt::format("{:#010x}", mark));
  }
  for (int64_t i = 0; i < ndim; ++i) {
    const uint64_t dim_at = in.offset();
    const int64_t dim = marked ? in.number<int64_t>("dimension") : int64_t(in.number<uint32_t>("dimension"));
    if (mark == v3_mark && dim == -1) {
      result.none = true;
    } else if (dim < 0) {
      in.fail(dim_at, "a dimension of 0 or more", fmt::format("{}", dim));
    }
    result.shape.push_back(dim);
  }
  return result;
}

DType read_dtype(Input& in) {
  const uint64_t at = in.offset();
  const auto flag = in.number<int32_t>("element type");
  const bool fits = flag >= std::numeric_limits<int8_t>::min() && flag <= std::numeric_limits<int8_t>::max();
  if (!fits || !is_valid(DType(flag))) in.fail(at, "an element type (0 to 12)", fmt::format("{}", flag));
  return DType(flag);
}

StorageType read_storage(Input& in, bool takes_sparse) {
  const uint64_t at = in.offset();
  const auto storage = in.number<int32_t>("storage type");
  if (storage < 0 || storage > 2) in.fail(at, "a storage type (0 to 2)", fmt::format("{}", storage));
  if (storage != 0 && !takes_sparse) {
    in.fail(
        at, "dense storage (0)",
        fmt::format("sparse storage ({}: {}), which sparse::load reads", storage, storage == 1 ? "row_sparse" : "csr"));
  }
  return StorageType(storage);
}

void check_device(Input& in) {
  const uint64_t at = in.offset();
  const auto type = in.number<int32_t>("device type");
  if (type != 1 && type != 2 && type != 3 && type != 5) {
    in.fail(at, "a device type (1 cpu, 2 gpu, 3 cpu_pinned, 5 cpu_shared)", fmt::format("{}", type));
  }
  in.number<int32_t>("device number");
}

// Number of elements; refuses shapes whose sizes do not fit into 63 bits even where another dimension is 0.
uint64_t count_elements(Input& in, uint64_t at, const Shape& shape) {
  const std::optional<int64_t> count = checked_size(shape, INT64_MAX / 8);  // of the widest dtype
  if (!count) in.fail(at, "a shape that fits into memory", shape.str());
  return uint64_t(*count);
}

NDArray read_values(Input& in, const Shape& shape, uint64_t count, DType dtype) {
  if (count > in.remaining() / size_of(dtype)) {
    in.fail(in.offset(), fmt::format("the values of an array of shape {} and type {}", shape.str(), name_of(dtype)),
            in.left());
  }
  // No other thread knows the new array yet, so its memory is filled without an operation.
  NDArray array = NDArray::empty(shape, dtype, Device());
  auto* data = static_cast<uint8_t*>(array.node().data());
  in.read(data, count * size_of(dtype), "values");
  if (dtype == DType::boolean) {  // any other byte is no bool in C++
    std::transform(data, data + count, data, [](uint8_t b) { return uint8_t(b != 0); });
  }
  return array;
}

// A shape of this array or of a part of it, with the number of elements.
std::pair<Shape, uint64_t> read_part_shape(Input& in, uint32_t mark) {
  const uint64_t at = in.offset();
  const FileShape part = read_shape(in, mark);
  if (part.none) in.fail(at, "the shape of a part of a sparse array", "none");
  return {part.shape, count_elements(in, at, part.shape)};
}

StoredArray read_array(Input& in, bool takes_sparse) {
  const auto mark = in.number<uint32_t>("array");
  StoredArray array;
  if (mark == v2_mark || mark == v3_mark) array.storage = read_storage(in, takes_sparse);
  const bool is_sparse = array.storage != StorageType::dense;
  std::pair<Shape, uint64_t> stored;
  if (is_sparse) stored = read_part_shape(in, mark);
  const uint64_t shape_at = in.offset();
  const FileShape file_shape = read_shape(in, mark);
  if (file_shape.none) return {};
  array.shape = file_shape.shape;
  if (!is_sparse) stored = {array.shape, count_elements(in, shape_at, array.shape)};
  check_device(in);
  const DType dtype = read_dtype(in);
  const size_t parts = size_t(array.storage);  // 1 of row_sparse: indices, 2 of csr: indptr, indices
  std::vector<std::pair<DType, std::pair<Shape, uint64_t>>> aux;
  for (size_t i = 0; i < parts; ++i) {
    const DType part = read_dtype(in);
    aux.emplace_back(part, read_part_shape(in, mark));
  }
  // How much is stored is known by the indices: MXNet writes 0 in the other place where it has not waited for the
  // array.
  if (is_sparse && stored.first.ndim() > 0 && aux.back().second.first.ndim() == 1) {
    stored.first[0] = aux.back().second.first[0];
    stored.second = count_elements(in, shape_at, stored.first);
  }
  array.data = read_values(in, stored.first, stored.second, dtype);
  for (const auto& [part, shape] : aux) array.aux.push_back(read_values(in, shape.first, shape.second, part));
  return array;
}

NamedStoredArrays read_list(Input& in, bool takes_sparse) {
  if (const auto mark = in.number<uint64_t>("the mark of a list of arrays"); mark != list_mark) {
    in.fail(0, "the mark of a list of arrays (0x112)", fmt::format("{:#x}", mark));
  }
  in.number<uint64_t>("reserved word");
  uint64_t at = in.offset();
  const auto count = in.number<uint64_t>("number of arrays");
  if (count > in.remaining() / sizeof(uint32_t)) in.fail(at, fmt::format("{} arrays", count), in.left());
  NamedStoredArrays arrays;
  for (uint64_t i = 0; i < count; ++i) arrays.emplace_back(std::string(), read_array(in, takes_sparse));

  at = in.offset();
  const auto names = in.number<uint64_t>("number of names");
  if (names != 0 && names != count) in.fail(at, fmt::format("0 or {} names", count), fmt::format("{}", names));
  for (uint64_t i = 0; i < names; ++i) {
    const auto length = in.number<uint64_t>("length of a name");
    in.require(length, "name");
    std::string& name = arrays[size_t(i)].first;
    name.resize(size_t(length));
    in.read(name.data(), length, "name");
  }
  if (in.remaining() > 0) in.fail(in.offset(), "the end", fmt::format("{} more bytes", in.remaining()));
  return arrays;
}

// --- writing

using Sink = FunctionRef<void(const void*, size_t)>;

template <class T>
void put(Sink sink, T value) {
  sink(&value, sizeof(value));
}

void write_shape(Sink sink, const Shape& shape, int version) {
  if (version == 0) {
    put(sink, uint32_t(shape.ndim()));
    for (int64_t d : shape) put(sink, uint32_t(d));
    return;
  }
  put(sink, int32_t(shape.ndim()));
  for (int64_t d : shape) put(sink, d);
}

void write_none(Sink sink, int version) {
  constexpr uint32_t marks[] = {0, v1_mark, v2_mark, v3_mark};
  put(sink, marks[version]);  // of V0: no dimensions
  if (version >= 2) put(sink, int32_t(0));
  if (version >= 1) put(sink, int32_t(version == 3 ? -1 : 0));
}

// The array's bytes, as they are when all writes pushed before have run.
std::vector<char> bytes_of(const NDArray& given) {
  const NDArray array = on_host(given, std::source_location::current());
  std::vector<char> bytes(array.node().bytes());
  const auto copy = [&](const ArrayNode& node) {
    if (!bytes.empty()) std::memcpy(bytes.data(), node.data(), bytes.size());
  };
  read_in_turn(array, copy, {"save"});
  return bytes;
}

void write_sparse(Sink sink, const StoredArray& array) {
  put(sink, v2_mark);
  put(sink, int32_t(array.storage));
  write_shape(sink, array.data.shape(), 2);
  write_shape(sink, array.shape, 2);
  put(sink, cpu_type);
  put(sink, int32_t(0));
  put(sink, int32_t(array.data.dtype()));
  for (const NDArray& part : array.aux) {
    put(sink, int32_t(part.dtype()));
    write_shape(sink, part.shape(), 2);
  }
  const auto write_values = [&](const NDArray& part) {
    const std::vector<char> bytes = bytes_of(part);
    sink(bytes.data(), bytes.size());
  };
  write_values(array.data);
  for (const NDArray& part : array.aux) write_values(part);
}

void write_array(Sink sink, const StoredArray& stored, const std::string& name, int version) {
  const NDArray& array = stored.data;
  if (!array.defined()) return write_none(sink, version);
  if (stored.storage != StorageType::dense) return write_sparse(sink, stored);
  const Shape& shape = array.shape();
  if (shape.ndim() == 0) {
    if (version < 2) {
      throw ValueError(
          fmt::format("[save] array '{}' has no dimensions: format version {} cannot hold it", name, version));
    }
    version = 3;
  }
  if (version == 0 && std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d > int64_t(UINT32_MAX); })) {
    throw ValueError(fmt::format("[save] array '{}' of shape {} is too large for format version 0", name, shape.str()));
  }
  const std::vector<char> bytes = bytes_of(array);
  if (version > 0) put(sink, version == 1 ? v1_mark : version == 2 ? v2_mark : v3_mark);
  if (version >= 2) put(sink, int32_t(0));  // dense
  write_shape(sink, shape, version);
  put(sink, cpu_type);
  put(sink, int32_t(0));
  put(sink, int32_t(array.dtype()));
  sink(bytes.data(), bytes.size());
}

void write_list(Sink sink, const NamedStoredArrays& arrays, SaveOptions options) {
  put(sink, list_mark);
  put(sink, uint64_t(0));
  put(sink, uint64_t(arrays.size()));
  bool named = false;
  for (const auto& [name, array] : arrays) {
    write_array(sink, array, name, options.version);
    named |= !name.empty();
  }
  put(sink, uint64_t(named ? arrays.size() : 0));
  if (!named) return;
  for (const auto& [name, array] : arrays) {
    put(sink, uint64_t(name.size()));
    sink(name.data(), name.size());
  }
}

void check(SaveOptions options) {
  if (options.version < 0 || options.version > 3) {
    throw ValueError(fmt::format("[save] version must be 0, 1, 2 or 3, got {}", options.version));
  }
}

NamedStoredArrays as_stored(const NamedArrays& arrays) {
  NamedStoredArrays stored;
  for (const auto& [name, array] : arrays)
    stored.emplace_back(name, StoredArray{.shape = {}, .data = array, .aux = {}});
  return stored;
}

NamedArrays as_dense(NamedStoredArrays stored) {
  NamedArrays arrays;
  for (auto& [name, array] : stored) arrays.emplace_back(std::move(name), std::move(array.data));
  return arrays;
}

NamedStoredArrays load_file(const std::filesystem::path& file, bool takes_sparse) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw IoError(fmt::format("{}: {}", file.string(), error ? error.message() : "expected a regular file"));
  }
  const uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream stream(file, std::ios::binary);
  if (error || !stream) throw IoError(fmt::format("{}: cannot open: {}", file.string(), std::strerror(errno)));
  FileInput in(std::move(stream), file.string(), size);
  return read_list(in, takes_sparse);
}

void save_file(const std::filesystem::path& file, const NamedStoredArrays& arrays, SaveOptions options) {
  check(options);
  AtomicFile out(file);
  // small pieces are gathered: a file of many small arrays must not cost a system call per number
  std::string buffer;
  auto flush = [&] {
    out.write(buffer.data(), buffer.size());
    buffer.clear();
  };
  auto sink = [&](const void* data, size_t bytes) {
    if (buffer.size() + bytes > (size_t(1) << 16)) flush();
    if (bytes > (size_t(1) << 16)) {
      out.write(data, bytes);
    } else {
      buffer.append(static_cast<const char*>(data), bytes);
    }
  };
  write_list(sink, arrays, options);
  flush();
  out.commit();
}

}  // namespace

void save(const std::filesystem::path& file, const NamedArrays& arrays, SaveOptions options) {
  save_file(file, as_stored(arrays), options);
}

std::string save_to_bytes(const NamedArrays& arrays, SaveOptions options) {
  check(options);
  std::string bytes;
  auto sink = [&](const void* data, size_t n) { bytes.append(static_cast<const char*>(data), n); };
  write_list(sink, as_stored(arrays), options);
  return bytes;
}

NamedArrays load(const std::filesystem::path& file) { return as_dense(load_file(file, false)); }

NamedArrays load_from_bytes(std::string_view bytes, const std::string& source) {
  ByteInput in(bytes, source);
  return as_dense(read_list(in, false));
}

}  // namespace kaon::nd_file

namespace kaon::ops {

NamedStoredArrays load_stored(const std::filesystem::path& file) { return nd_file::load_file(file, true); }
NamedStoredArrays load_stored_from_bytes(std::string_view bytes, const std::string& source) {
  nd_file::ByteInput in(bytes, source);
  return nd_file::read_list(in, true);
}
void save_stored(const std::filesystem::path& file, const NamedStoredArrays& arrays, int version) {
  nd_file::save_file(file, arrays, {.version = version});
}

std::string array_to_bytes(const StoredArray& array, int version) {
  nd_file::check({.version = version});
  std::string bytes;
  nd_file::write_array([&](const void* data, size_t n) { bytes.append(static_cast<const char*>(data), n); }, array, "",
                       version);
  return bytes;
}
StoredArray array_from_bytes(std::string_view bytes, const std::string& source) {
  nd_file::ByteInput in(bytes, source);
  StoredArray array = nd_file::read_array(in, true);
  if (in.remaining() > 0) in.fail(in.offset(), "the end", fmt::format("{} more bytes", in.remaining()));
  return array;
}

}  // namespace kaon::ops
