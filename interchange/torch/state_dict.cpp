// PyTorch's archives: a pickle of the tree, and a file for each storage.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/pickle/pickle.h"
#include "kaon/interchange/torch_files.h"
#include "kaon/interchange/zip/zip_file.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::interchange {
namespace {

using Value = PickleValue;
using Kind = PickleValue::Kind;

using torch_files::Contents;
using torch_files::LeftOut;

// What a state dict is made of, and Python's own values, which older protocols write as calls.
constexpr std::string_view allowed[] = {"_codecs.encode",
                                        "builtins.bytearray",
                                        "__builtin__.bytearray",
                                        "builtins.complex",
                                        "__builtin__.complex",
                                        "builtins.frozenset",
                                        "__builtin__.frozenset",
                                        "collections.OrderedDict",
                                        "collections.defaultdict",
                                        "builtins.dict",
                                        "builtins.set",
                                        "__builtin__.set",
                                        "torch._utils._rebuild_tensor",
                                        "torch._utils._rebuild_tensor_v2",
                                        "torch._utils._rebuild_tensor_v3",
                                        "torch._utils._rebuild_parameter",
                                        "torch._utils._rebuild_parameter_with_state",
                                        "torch._tensor._rebuild_from_type_v2",
                                        "torch.nn.parameter.Parameter",
                                        "torch.nn.parameter.Buffer",
                                        "torch.Tensor",
                                        "torch.Size",
                                        "torch.device",
                                        "torch.storage.TypedStorage",
                                        "torch.storage.UntypedStorage",
                                        "torch.FloatStorage",
                                        "torch.DoubleStorage",
                                        "torch.HalfStorage",
                                        "torch.BFloat16Storage",
                                        "torch.ByteStorage",
                                        "torch.CharStorage",
                                        "torch.ShortStorage",
                                        "torch.IntStorage",
                                        "torch.LongStorage",
                                        "torch.BoolStorage",
                                        "torch.ComplexFloatStorage",
                                        "torch.ComplexDoubleStorage",
                                        "torch.float32",
                                        "torch.float64",
                                        "torch.float16",
                                        "torch.bfloat16",
                                        "torch.uint8",
                                        "torch.int8",
                                        "torch.int16",
                                        "torch.int32",
                                        "torch.int64",
                                        "torch.uint16",
                                        "torch.uint32",
                                        "torch.uint64",
                                        "torch.bool",
                                        "torch.float8_e4m3fn",
                                        "torch.float8_e5m2",
                                        "torch.float8_e4m3fnuz",
                                        "torch.float8_e5m2fnuz",
                                        "torch.complex64",
                                        "torch.complex128"};

constexpr std::pair<std::string_view, DType> storages[] = {
    {"torch.FloatStorage", DType::float32}, {"torch.DoubleStorage", DType::float64},
    {"torch.HalfStorage", DType::float16},  {"torch.BFloat16Storage", DType::bfloat16},
    {"torch.ByteStorage", DType::uint8},    {"torch.CharStorage", DType::int8},
    {"torch.ShortStorage", DType::int16},   {"torch.IntStorage", DType::int32},
    {"torch.LongStorage", DType::int64},    {"torch.BoolStorage", DType::boolean}};
constexpr std::pair<std::string_view, DType> torch_dtypes[] = {
    {"torch.float32", DType::float32},   {"torch.float64", DType::float64}, {"torch.float16", DType::float16},
    {"torch.bfloat16", DType::bfloat16}, {"torch.uint8", DType::uint8},     {"torch.int8", DType::int8},
    {"torch.int16", DType::int16},       {"torch.int32", DType::int32},     {"torch.int64", DType::int64},
    {"torch.uint16", DType::uint16},     {"torch.uint32", DType::uint32},   {"torch.uint64", DType::uint64},
    {"torch.bool", DType::boolean}};

template <class Table>
std::optional<DType> find(const Table& table, std::string_view name) {
  for (const auto& [text, dtype] : table) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

class StateDictReader {
 public:
  StateDictReader(const FileBytes& file, std::vector<ZipEntry> entries)
      : file_(file), entries_(std::move(entries)), copies_left_(8 * file.size() + (1 << 20)) {
    for (const ZipEntry& e : entries_) {
      by_name_.emplace(e.name, &e);
      if (e.name.ends_with("/data.pkl") && std::count(e.name.begin(), e.name.end(), '/') == 1) {
        prefix_ = e.name.substr(0, e.name.size() - std::string_view("data.pkl").size());
      }
    }
    if (prefix_.empty()) {
      file.fail(0, "an archive of torch.save, with an entry '<name>/data.pkl'", describe_entries());
    }
    if (by_name_.contains(prefix_ + "constants.pkl")) {
      file.fail(by_name_.at(prefix_ + "constants.pkl")->offset, "a state dict",
                "TorchScript: save the state_dict() of the module by torch.save");
    }
    if (const auto order = by_name_.find(prefix_ + "byteorder"); order != by_name_.end()) {
      const std::string text = beginning_of(file, *order->second, 16);
      is_swapped_ = text == "big";
      if (!is_swapped_ && text != "little")
        file.fail(order->second->offset, "'little' or 'big'", fmt::format("'{}'", text));
    }
  }

  Contents run() {
    const ZipEntry& entry = *by_name_.at(prefix_ + "data.pkl");
    const auto [bytes, offset] = contents_of(file_, entry, false);
    const Pickle pickle(bytes, offset, offset + entry.bytes, allowed, Pickle::Others::opaque);
    pickle_ = &pickle;
    visits_left_ = 16 * pickle.size() + 1000;
    visit(pickle.root(), "", nullptr, 0);
    read_.source = pickle.file().name();
    return std::move(read_);
  }

 private:
  std::string describe_entries() const {
    if (entries_.empty()) return "an empty archive";
    return fmt::format("{} entries, the first '{}'", entries_.size(), entries_[0].name.substr(0, 200));
  }

  // --- the tree

  // `odd_key`: one above the value that cannot be part of a name.
  void visit(const Value& value, const std::string& name, const Value* odd_key, int depth) {
    if (visits_left_-- == 0 || depth > 64) {
      pickle_->fail(value, "a tree of at most 64 levels, no part of it in very many places");
    }
    if (value.is_opaque) return leave_out(name, value, Pickle::data_alone, is_other_tensor(value));
    std::vector<const Value*> entries;
    const std::string own = name.empty() ? "tensor" : name;
    if (const Reading reading = tensor_of(value); reading.wrong) {
      leave_out(own, *reading.wrong, reading.expected, true);
    } else if (reading.tensor.defined() && odd_key) {
      leave_out(own, *odd_key, "a text or an integer as a key", true);
    } else if (reading.tensor.defined()) {
      add(value, own, reading.tensor);
    } else if (Pickle::entries_of(value, entries)) {
      for (size_t i = 0; i < entries.size(); i += 2) {
        const Value& key = *entries[i];
        const bool is_name = key.is(Kind::text) || key.is(Kind::integer);
        visit(*entries[i + 1], joined(name, text_of(key)), is_name ? odd_key : &key, depth + 1);
      }
    } else if (value.is(Kind::list) || value.is(Kind::tuple)) {
      for (size_t i = 0; i < value.items.size(); ++i)
        visit(*value.items[i], joined(name, fmt::format("{}", i)), odd_key, depth + 1);
    }
  }

  void take_name(const Value& value, const std::string& name) {
    if (!names_.insert(name).second) file_at(value, "each name once", fmt::format("'{}' again", name));
  }

  void add(const Value& value, const std::string& name, const NDArray& tensor) {
    take_name(value, name);
    read_.arrays.emplace_back(name, tensor);
  }

  // Sparse, quantized and nested tensors, and those of other devices, are calls of these functions.
  static bool is_other_tensor(const Value& value) {
    return value.is(Kind::object) && value.items[0]->text.starts_with("torch._utils._rebuild_");
  }

  void leave_out(const std::string& name, const Value& at, std::string_view expected, bool is_tensor) {
    if (is_tensor) take_name(at, name);
    read_.left_out.push_back({name, at.offset, std::string(expected), at.describe(), is_tensor});
  }

  static std::string joined(const std::string& name, const std::string& key) {
    return name.empty() ? key : name + '.' + key;
  }
  static std::string text_of(const Value& key) {
    if (key.is(Kind::text)) return std::string(key.text);
    return key.is(Kind::integer) ? fmt::format("{}", key.integer) : fmt::format("({})", key.describe());
  }

  // --- tensors

  [[noreturn]] void file_at(const Value& value, std::string_view expected, std::string_view found) const {
    pickle_->file().fail(value.offset, expected, found);
  }

  // Nothing of a value that is no tensor.
  struct Reading {
    NDArray tensor;
    const Value* wrong = nullptr;  // else, of a tensor that Kaon does not have, why
    std::string_view expected = {};
  };

  Reading tensor_of(const Value& value) {
    if (!value.is(Kind::object)) return {};
    if (value.is_opaque) return {{}, &value, Pickle::data_alone};
    if (const auto known = tensors_.find(&value); known != tensors_.end()) return known->second;
    const std::string_view function = value.items[0]->text;
    const auto& arguments = value.items[1]->items;
    Reading reading;
    if (function == "torch._utils._rebuild_parameter" || function == "torch._utils._rebuild_parameter_with_state") {
      if (arguments.empty() || ++nesting_ > 8) pickle_->fail(value, "a parameter of a tensor");
      reading = tensor_of(*arguments[0]);
      --nesting_;
      if (!reading.wrong && !reading.tensor.defined()) pickle_->fail(*arguments[0], "the tensor of a parameter");
    } else if (function == "torch._tensor._rebuild_from_type_v2") {
      if (arguments.size() < 3 || !arguments[0]->is(Kind::global) || !arguments[2]->is(Kind::tuple)) {
        pickle_->fail(value, "a tensor of a type");
      }
      for (const Value* made_by : {arguments[0], arguments[1]}) {
        if (made_by->is_opaque) return {{}, made_by, Pickle::data_alone};
      }
      reading = rebuild(value, arguments[0]->text, arguments[2]->items);
    } else {
      reading = rebuild(value, function, arguments);
    }
    if (reading.tensor.defined() || reading.wrong) tensors_.emplace(&value, reading);
    return reading;
  }

  Reading rebuild(const Value& value, std::string_view function, const std::vector<const Value*>& arguments) {
    if (!function.starts_with("torch._utils._rebuild_tensor")) return {};
    const bool has_dtype = function.ends_with("_v3");
    if (arguments.size() < (has_dtype ? 7u : 4u))
      pickle_->fail(value, "a tensor with storage, offset, size and stride");
    const Value& storage = *arguments[0];
    if (!storage.is(Kind::persistent) || !storage.items[0]->is(Kind::tuple) || storage.items[0]->items.size() != 5) {
      pickle_->fail(storage, "a reference to a storage: ('storage', type, key, location, size)");
    }
    const auto& id = storage.items[0]->items;
    if (!id[0]->is(Kind::text) || id[0]->text != "storage") pickle_->fail(*id[0], "the text 'storage'");
    if (!id[1]->is(Kind::global)) pickle_->fail(*id[1], "the type of a storage");
    if (!id[2]->is(Kind::text)) pickle_->fail(*id[2], "the key of a storage");
    if (!id[4]->is(Kind::integer) || id[4]->integer < 0) pickle_->fail(*id[4], "the size of a storage");
    const Value& type = has_dtype ? *arguments[6] : *id[1];
    const auto dtype =
        has_dtype ? find(torch_dtypes, type.is(Kind::global) ? type.text : "") : find(storages, type.text);
    if (!dtype && type.is(Kind::global)) return {{}, &type, "a dtype that Kaon has"};
    if (!dtype) pickle_->fail(type, "the dtype of a tensor");

    if (!arguments[1]->is(Kind::integer) || arguments[1]->integer < 0) pickle_->fail(*arguments[1], "an offset");
    const Shape shape = numbers(*arguments[2], "a size"), strides = numbers(*arguments[3], "a stride");
    if (shape.ndim() != strides.ndim()) pickle_->fail(*arguments[3], fmt::format("{} strides", shape.ndim()));
    const uint64_t bytes = bytes_of(pickle_->file(), arguments[2]->offset, shape, *dtype);

    const NDArray base = base_of(*id[2]);
    const size_t element = size_of(*dtype);
    const int64_t offset = arguments[1]->integer, there = base.size() / int64_t(element);
    if (shape.size() == 0) return {NDArray::empty(shape, *dtype, cpu())};
    int64_t last = offset;
    for (int i = 0; i < shape.ndim(); ++i) {
      int64_t way;
      if (__builtin_mul_overflow(shape[i] - 1, strides[i], &way) || __builtin_add_overflow(last, way, &last))
        last = there;
      if (last >= there) break;
    }
    if (last >= there) {
      file_at(value, fmt::format("a tensor within the {} elements of storage '{}'", there, id[2]->text),
              fmt::format("size {}, stride {}, offset {}", shape.str(), strides.str(), offset));
    }
    const NDArray array = array_of(value, base, offset, shape, strides, *dtype, bytes);
    const size_t place = has_dtype ? 7 : 6;
    return {arguments.size() > place && is_negated(*arguments[place]) ? nd.negative(array) : array};
  }

  // What a tensor's metadata say: PyTorch may keep the negative of its elements (`neg`), as in x.conj().imag.
  bool is_negated(const Value& metadata) const {
    if (metadata.is(Kind::none)) return false;
    std::vector<const Value*> entries;
    if (!Pickle::entries_of(metadata, entries)) pickle_->fail(metadata, "a tensor's metadata as a dict");
    bool negated = false;
    for (size_t i = 0; i < entries.size(); i += 2) {
      const Value &key = *entries[i], &value = *entries[i + 1];
      if (!key.is(Kind::text) || (key.text != "neg" && key.text != "conj") || !value.is(Kind::boolean)) {
        pickle_->fail(key, "the metadata 'neg' or 'conj' of a tensor, as booleans");
      }
      if (key.text == "neg" && value.integer != 0)
        negated = true;  // only complex tensors, which are refused, have conj
    }
    return negated;
  }

  Shape numbers(const Value& tuple, std::string_view what) const {
    const Value& v =
        tuple.is_call_of("torch.Size") && !tuple.items[1]->items.empty() ? *tuple.items[1]->items[0] : tuple;
    if (!v.is(Kind::tuple) && !v.is(Kind::list)) pickle_->fail(v, fmt::format("{} as a tuple", what));
    if (v.items.size() > size_t(Shape::max_ndim))
      pickle_->fail(v, fmt::format("at most {} dimensions", Shape::max_ndim));
    Shape shape;
    for (const Value* d : v.items) {
      if (!d->is(Kind::integer) || d->integer < 0) pickle_->fail(*d, fmt::format("{} of 0 or more", what));
      shape.push_back(d->integer);
    }
    return shape;
  }

  // The bytes of a storage, aligned for any dtype.
  NDArray base_of(const Value& key) {
    const std::string name = prefix_ + "data/" + std::string(key.text);
    if (const auto known = bases_.find(name); known != bases_.end()) return known->second;
    const auto entry = by_name_.find(name);
    if (entry == by_name_.end()) {
      file_at(key, "a storage of the archive", fmt::format("no entry '{}'", name.substr(0, 200)));
    }
    const auto [bytes, offset] = contents_of(file_, *entry->second, false);
    const Shape shape(int64_t(entry->second->bytes));
    NDArray base = bytes.array(offset, shape, DType::uint8, name);
    if (base.size() > 0 && reinterpret_cast<uintptr_t>(base.node().data()) % 8 != 0) {
      take_copy(key, base.size());
      const NDArray copy = NDArray::empty(shape, DType::uint8, cpu());
      std::copy_n(static_cast<const char*>(base.node().data()), base.size(), static_cast<char*>(copy.node().data()));
      base = copy;
    }
    return bases_.emplace(name, base).first->second;
  }

  // What is copied has at most a few times the bytes of the file: a tensor may repeat its elements (stride 0).
  void take_copy(const Value& value, int64_t bytes) {
    if (uint64_t(bytes) > copies_left_) {
      file_at(value, "tensors that take not much more memory than the file",
              fmt::format("one of {} bytes that are not one after another", bytes));
    }
    copies_left_ -= uint64_t(bytes);
  }

  NDArray array_of(const Value& value, const NDArray& base, int64_t offset, const Shape& shape, const Shape& strides,
                   DType dtype, uint64_t bytes) {
    bool is_row_major = !is_swapped_ || size_of(dtype) == 1;
    int64_t stride = 1;
    for (int i = shape.ndim() - 1; i >= 0; --i) {
      is_row_major &= shape[i] == 1 || strides[i] == stride;
      stride *= shape[i];
    }
    const size_t element = size_of(dtype);
    char* first = static_cast<char*>(base.node().data()) + size_t(offset) * element;
    NDArray array;
    if (is_row_major) {
      array = view_of(base, uint64_t(offset) * element, shape, dtype);
    } else {
      take_copy(value, int64_t(bytes));
      array = NDArray::empty(shape, dtype, cpu());
      first = static_cast<char*>(array.node().data());  // nobody else knows it yet
      gather(static_cast<const char*>(base.node().data()) + size_t(offset) * element, shape, strides.begin(), element,
             first);
      if (is_swapped_) swap_bytes(first, size_t(shape.size()), element);
    }
    if (dtype == DType::boolean) {  // any other byte is no bool in C++
      for (uint64_t i = 0; i < bytes; ++i) {
        if (uint8_t(first[i]) > 1) first[i] = 1;
      }
    }
    return array;
  }

  FileBytes file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, const ZipEntry*> by_name_;
  std::string prefix_;  // "archive/"
  bool is_swapped_ = false;
  const Pickle* pickle_ = nullptr;
  std::map<std::string, NDArray> bases_;
  std::unordered_map<const Value*, Reading> tensors_;
  std::unordered_set<std::string> names_;
  Contents read_;
  uint64_t copies_left_, visits_left_ = 0;
  int nesting_ = 0;
};

Contents read_torch(const FileBytes& file) {
  const std::string_view bytes = file.view();
  // the number that files before 1.6 begin with, as a pickle
  if (bytes.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {
    file.fail(0, "a zip archive of torch.save",
              "PyTorch's format before 1.6: load it there and save it again by torch.save");
  }
  return StateDictReader(file, read_zip(file)).run();
}

[[noreturn]] void fail(const std::string& source, const LeftOut& l) {
  throw IoError(fmt::format("{}: at byte {}: {}expected {}, found {}", source, l.offset,
                            l.name.empty() ? "" : fmt::format("'{}': ", l.name), l.expected, l.found));
}

NamedArrays some_of(Contents contents) {
  if (contents.arrays.empty() && !contents.left_out.empty()) fail(contents.source, contents.left_out[0]);
  return std::move(contents.arrays);
}

}  // namespace
}  // namespace kaon::interchange

namespace kaon::torch_files {

using namespace interchange;

NamedArrays load(const std::filesystem::path& file) { return some_of(contents(file)); }
NamedArrays load_from_bytes(std::string_view bytes, const std::string& source) {
  return some_of(contents_from_bytes(bytes, source));
}
Contents contents(const std::filesystem::path& file) { return read_torch(FileBytes::map(file)); }
Contents contents_from_bytes(std::string_view bytes, const std::string& source) {
  return read_torch(FileBytes::copy_of(bytes, source));
}

NDArray Contents::at(std::string_view name) const {
  for (const auto& [own, array] : arrays) {
    if (own == name) return array;
  }
  for (const LeftOut& l : left_out) {
    if (l.name == name) fail(source, l);
  }
  throw ValueError(fmt::format("[torch_files] {} has no tensor '{}'", source, name));
}

}  // namespace kaon::torch_files
