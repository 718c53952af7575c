// Models by the field numbers of onnx.proto.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>

#include "kaon/engine/error.h"
#include "kaon/interchange/file/file_bytes.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/onnx/format/structure.h"

namespace kaon::onnx::format {

using interchange::FileBytes;

namespace {

Bytes as_bytes(const FileBytes& file) { return std::as_bytes(std::span(file.view())); }

template <class T>
void append(std::vector<std::byte>& to, T value) {
  const size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(to.data() + at, &value, sizeof(T));
}

// The numbers of int32_data, int64_data and uint64_data, as raw_data would have them.
std::vector<std::byte> as_raw(const std::vector<int64_t>& numbers, int bits) {
  std::vector<std::byte> raw;
  for (int64_t n : numbers) {
    switch (bits) {
      case 16: append(raw, uint16_t(n)); break;
      case 32: append(raw, uint32_t(n)); break;
      case 64: append(raw, n); break;
      default: append(raw, uint8_t(n));  // also packed ones: a byte of raw_data in each number
    }
  }
  return raw;
}

class Reader {
 public:
  Reader(std::filesystem::path path, std::shared_ptr<const void> keeper)
      : path_(std::move(path)), keeper_(std::move(keeper)) {}

  Tensor tensor(WireReader r) {
    Tensor t;
    t.keeper = keeper_;
    t.place = fmt::format("offset {}", r.offset());
    std::vector<int64_t> integers;
    std::vector<std::byte> numbers;  // float_data and double_data in several pieces
    Bytes fixed;
    std::map<std::string, std::string> external;
    bool is_external = false, has_raw = false;
    const auto take_fixed = [&](Bytes piece) {
      if (fixed.empty() && numbers.empty()) return void(fixed = piece);
      numbers.insert(numbers.end(), fixed.begin(), fixed.end());
      fixed = {};
      numbers.insert(numbers.end(), piece.begin(), piece.end());
    };
    while (r.next()) {
      switch (r.field()) {
        case 1: r.integers(t.dims); break;
        case 2: t.type = ElementType(r.integer()); break;
        case 4: take_fixed(r.fixed(4)); break;
        case 5:
        case 7:
        case 11: r.integers(integers); break;
        case 6: t.strings.emplace_back(r.text()); break;
        case 8: t.name = r.text(); break;
        case 9: t.bytes = r.bytes(), has_raw = true; break;
        case 10: take_fixed(r.fixed(8)); break;
        case 13: external.insert(entry(r.message())); break;
        case 14: is_external = r.integer() == 1; break;
        default: r.skip();
      }
    }
    if (is_external) {
      load_external(t, external, r);
    } else if (!has_raw) {
      if (!integers.empty()) numbers = as_raw(integers, bits_of(t.type));
      if (!numbers.empty()) {
        auto own = std::make_shared<const std::vector<std::byte>>(std::move(numbers));
        t.bytes = *own;
        t.keeper = own;
      } else {
        t.bytes = fixed;
      }
    }
    check(t, r);
    return t;
  }

  SparseTensor sparse(WireReader r) {
    SparseTensor s;
    while (r.next()) {
      switch (r.field()) {
        case 1: s.values = tensor(r.message()); break;
        case 2: s.indices = tensor(r.message()); break;
        case 3: r.integers(s.dims); break;
        default: r.skip();
      }
    }
    return s;
  }

  Attribute attribute(WireReader r) {
    Attribute a;
    using T = Attribute::Type;
    T seen = T::undefined;
    while (r.next()) {
      switch (r.field()) {
        case 1: a.name = r.text(); break;
        case 2: a.f = r.float32(), seen = T::float32; break;
        case 3: a.i = r.integer(), seen = T::integer; break;
        case 4: a.s = r.text(), seen = T::string; break;
        case 5: a.tensors.push_back(tensor(r.message())), seen = T::tensor; break;
        case 6: a.graphs.push_back(std::make_shared<Graph>(graph(r.message()))), seen = T::graph; break;
        case 7: r.floats(a.floats), seen = T::floats; break;
        case 8: r.integers(a.integers), seen = T::integers; break;
        case 9: a.strings.emplace_back(r.text()), seen = T::strings; break;
        case 10: a.tensors.push_back(tensor(r.message())), seen = T::tensors; break;
        case 11: a.graphs.push_back(std::make_shared<Graph>(graph(r.message()))), seen = T::graphs; break;
        case 14: a.info = whole_type(r), seen = T::type_proto; break;
        case 20: a.type = T(r.integer()); break;
        case 21: a.reference = r.text(); break;
        case 22: {
          SparseTensor s = sparse(r.message());
          a.sparse = {s.values, s.indices};
          a.sparse_dims = s.dims;
          break;
        }
        default: r.skip();
      }
    }
    if (a.type == T::undefined) a.type = seen;  // files before IR version 2 do not say it
    const bool has_value = (a.type != T::tensor || !a.tensors.empty()) && (a.type != T::graph || !a.graphs.empty());
    if (!has_value && a.reference.empty()) {
      r.fail(fmt::format("attribute '{}' says that it has a {}, and has none", a.name,
                         a.type == T::tensor ? "tensor" : "graph"));
    }
    return a;
  }

  Node node(WireReader r) {
    Node n;
    while (r.next()) {
      switch (r.field()) {
        case 1: n.inputs.emplace_back(r.text()); break;
        case 2: n.outputs.emplace_back(r.text()); break;
        case 3: n.name = r.text(); break;
        case 4: n.op_type = r.text(); break;
        case 5: n.attributes.push_back(attribute(r.message())); break;
        case 7: n.domain = r.text(); break;
        case 8: n.overload = r.text(); break;
        default: r.skip();
      }
    }
    if (n.domain == "ai.onnx") n.domain.clear();
    return n;
  }

  ValueInfo type(WireReader r) {
    ValueInfo info;
    info.kind = ValueInfo::Kind::other;
    while (r.next()) {
      switch (r.field()) {
        case 1: {
          info.kind = ValueInfo::Kind::tensor;
          WireReader t = r.message();
          while (t.next()) {
            if (t.field() == 1) info.type = ElementType(t.integer());
            else if (t.field() == 2) info.has_shape = true, info.dims = dims(t.message());
            else t.skip();
          }
          break;
        }
        case 4:
        case 9: {
          const auto kind = r.field() == 4 ? ValueInfo::Kind::sequence : ValueInfo::Kind::optional;
          WireReader t = r.message();
          while (t.next()) {
            if (t.field() != 1) {
              t.skip();
              continue;
            }
            ValueInfo element = type(t.message());
            info.of_sequence = element.kind == ValueInfo::Kind::sequence;
            info.type = element.type;
          }
          info.kind = kind;
          break;
        }
        default: r.skip();
      }
    }
    return info;
  }

  // The field's message, which a later write gives as it is.
  ValueInfo whole_type(WireReader& r) {
    const WireReader message = r.message();
    ValueInfo info = type(message);
    info.as_read = message.rest();
    info.keeper = keeper_;
    return info;
  }

  ValueInfo value_info(WireReader r) {
    ValueInfo info;
    std::string name;
    while (r.next()) {
      if (r.field() == 1) name = r.text();
      else if (r.field() == 2) info = whole_type(r);
      else r.skip();
    }
    info.name = std::move(name);
    return info;
  }

  Graph graph(WireReader r) {
    Graph g;
    while (r.next()) {
      switch (r.field()) {
        case 1: g.nodes.push_back(node(r.message())); break;
        case 2: g.name = r.text(); break;
        case 5: g.initializers.push_back(tensor(r.message())); break;
        case 11: g.inputs.push_back(value_info(r.message())); break;
        case 12: g.outputs.push_back(value_info(r.message())); break;
        case 13: g.value_infos.push_back(value_info(r.message())); break;
        case 15: g.sparse_initializers.push_back(sparse(r.message())); break;
        default: r.skip();
      }
    }
    sort_nodes(g.nodes);
    return g;
  }

  Function function(WireReader r) {
    Function f;
    while (r.next()) {
      switch (r.field()) {
        case 1: f.name = r.text(); break;
        case 4: f.inputs.emplace_back(r.text()); break;
        case 5: f.outputs.emplace_back(r.text()); break;
        case 6: f.attributes.emplace_back(r.text()); break;
        case 7: f.nodes.push_back(node(r.message())); break;
        case 9: f.opsets.insert(opset(r.message())); break;
        case 10: f.domain = r.text(); break;
        case 11: f.defaults.push_back(attribute(r.message())); break;
        case 13: f.overload = r.text(); break;
        default: r.skip();
      }
    }
    if (f.domain == "ai.onnx") f.domain.clear();
    sort_nodes(f.nodes);
    return f;
  }

  Model model(WireReader r) {
    Model m;
    bool has_graph = false;
    while (r.next()) {
      switch (r.field()) {
        case 1: m.ir_version = r.integer(); break;
        case 2: m.producer = r.text(); break;
        case 3: m.producer_version = r.text(); break;
        case 7: m.graph = graph(r.message()), has_graph = true; break;
        case 8: m.opsets.insert(opset(r.message())); break;
        case 14: m.metadata.insert(entry(r.message())); break;
        case 25: m.functions.push_back(function(r.message())); break;
        default: r.skip();
      }
    }
    if (!has_graph) r.fail("the file has no graph: it is no ONNX model");
    if (m.opsets.empty()) m.opsets[""] = 1;  // IR versions before 3 had no opsets
    return m;
  }

  DataValue sequence(WireReader r) {
    DataValue v;
    v.is_sequence = true;
    while (r.next()) {
      if (r.field() == 3) v.tensors.push_back(tensor(r.message()));
      else r.skip();
    }
    return v;
  }

  DataValue optional(WireReader r) {
    DataValue v;
    v.is_nothing = true;
    while (r.next()) {
      if (r.field() == 3) {
        v.tensors = {tensor(r.message())};
        v.is_nothing = false;
      } else if (r.field() == 5) {
        v = sequence(r.message());
      } else {
        r.skip();
      }
    }
    return v;
  }

 private:
  static std::pair<std::string, std::string> entry(WireReader r) {
    std::pair<std::string, std::string> e;
    while (r.next()) {
      if (r.field() == 1) e.first = r.text();
      else if (r.field() == 2) e.second = r.text();
      else r.skip();
    }
    return e;
  }

  static std::pair<std::string, int64_t> opset(WireReader r) {
    std::pair<std::string, int64_t> e;
    while (r.next()) {
      if (r.field() == 1) e.first = r.text();
      else if (r.field() == 2) e.second = r.integer();
      else r.skip();
    }
    if (e.first == "ai.onnx") e.first.clear();
    return e;
  }

  static std::vector<Dimension> dims(WireReader r) {
    std::vector<Dimension> all;
    while (r.next()) {
      if (r.field() != 1) {
        r.skip();
        continue;
      }
      Dimension d;
      WireReader one = r.message();
      while (one.next()) {
        if (one.field() == 1) d.value = one.integer();
        else if (one.field() == 2) d.name = one.text();
        else one.skip();
      }
      if (d.value < 0) d.value = -1;
      all.push_back(std::move(d));
    }
    return all;
  }

  static uint64_t number(const std::map<std::string, std::string>& external, const char* key, const WireReader& r) {
    const auto at = external.find(key);
    if (at == external.end() || at->second.empty()) return 0;
    uint64_t n = 0;
    for (char c : at->second) {
      if (c < '0' || c > '9' || n > (UINT64_MAX - 9) / 10)
        r.fail(fmt::format("{} of external data is '{}'", key, at->second));
      n = n * 10 + uint64_t(c - '0');
    }
    return n;
  }

  void load_external(Tensor& t, const std::map<std::string, std::string>& external, const WireReader& r) {
    const auto location = external.find("location");
    if (location == external.end()) r.fail(fmt::format("tensor {} has external data without a location", t.name));
    const std::filesystem::path relative(location->second);
    const bool leaves = relative.is_absolute() ||
                        std::any_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
    if (leaves || relative.empty()) {
      r.fail(fmt::format("tensor {} has external data at '{}', which leaves the model's folder", t.name,
                         location->second));
    }
    std::optional<FileBytes>& file = files_[location->second];
    if (!file) {
      const std::filesystem::path folder =
          std::filesystem::weakly_canonical(path_.has_parent_path() ? path_.parent_path() : ".");
      const std::filesystem::path whole = std::filesystem::weakly_canonical(folder / relative);
      const auto [rest, _] = std::mismatch(folder.begin(), folder.end(), whole.begin(), whole.end());
      if (rest != folder.end()) {  // by a symbolic link
        r.fail(fmt::format("tensor {} has external data at '{}', which leaves the model's folder", t.name,
                           location->second));
      }
      try {
        file = FileBytes::map(whole);
      } catch (const IoError& e) {
        r.fail(fmt::format("tensor {} has external data at '{}': {}", t.name, location->second, e.what()));
      }
    }
    const uint64_t offset = number(external, "offset", r), size = file->size();
    uint64_t length = number(external, "length", r);
    if (offset > size) r.fail(fmt::format("tensor {}: external data begin at {} of {} bytes", t.name, offset, size));
    if (!external.contains("length")) length = size - offset;
    if (length > size - offset) {
      r.fail(fmt::format("tensor {}: external data from {} of length {} in a file of {} bytes", t.name, offset, length,
                         size));
    }
    t.bytes = as_bytes(*file).subspan(size_t(offset), size_t(length));
    t.keeper = std::make_shared<FileBytes>(*file);
    t.place = fmt::format("offset {} of {}", offset, location->second);
    t.location = location->second;
    t.external_offset = offset, t.external_length = length;
  }

  static void check(const Tensor& t, const WireReader& r) {
    uint64_t elements = 1;
    for (int64_t d : t.dims) {
      if (d < 0) r.fail(fmt::format("tensor {} has the dimension {}", t.name, d));
      if (d != 0 && elements > (uint64_t(1) << 60) / uint64_t(d))
        r.fail(fmt::format("tensor {} has too many elements", t.name));
      elements *= uint64_t(d);
    }
    if (t.type == ElementType::string) {
      if (t.strings.size() != elements) {
        r.fail(fmt::format("tensor {} has {} strings, expected {}", t.name, t.strings.size(), elements));
      }
      return;
    }
    const uint64_t bits = uint64_t(bits_of(t.type));
    if (bits == 0) {
      if (t.type == ElementType::undefined && elements == 0) return;
      r.fail(fmt::format("tensor {} has the unknown element type {}", t.name, int(t.type)));
    }
    const uint64_t expected = (elements * bits + 7) / 8;
    // bytes_of 6-bit numbers and of int32_data with one number in each byte
    if (t.bytes.size() != expected && !(bits < 8 && t.bytes.size() == elements)) {
      r.fail(fmt::format("tensor {} of {} {} elements has {} bytes, expected {}", t.name, elements, name_of(t.type),
                         t.bytes.size(), expected));
    }
  }

  std::filesystem::path path_;
  std::shared_ptr<const void> keeper_;
  std::unordered_map<std::string, std::optional<FileBytes>> files_;
};

}  // namespace

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

Model read_model(Bytes bytes, std::shared_ptr<const void> keeper, const std::filesystem::path& path) {
  const std::string name = path.string();
  return Reader(path, std::move(keeper)).model(WireReader(bytes, name));
}

Model read_model(const std::filesystem::path& path) {
  const FileBytes file = FileBytes::map(path);
  return read_model(as_bytes(file), std::make_shared<FileBytes>(file), path);
}

DataValue read_data(const std::filesystem::path& path, const ValueInfo& info) {
  const FileBytes file = FileBytes::map(path);
  const std::string name = path.string();
  const WireReader r(as_bytes(file), name);
  Reader reader(path, std::make_shared<FileBytes>(file));
  switch (info.kind) {
    case ValueInfo::Kind::sequence: return reader.sequence(r);
    case ValueInfo::Kind::optional: return reader.optional(r);
    default: return {false, false, {reader.tensor(r)}};
  }
}

}  // namespace kaon::onnx::format
