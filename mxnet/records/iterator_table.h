// MXNet's data iterators: their names and arguments as programs know them, and the attributes of one that is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/ops/dtype.h"
#include "kaon/ops/shape.h"

namespace kaon::mxnet {

class DataIterator;
class IteratorAttributes;

// Immutable, and kept as long as the process: its address is what programs make iterators with.
struct IteratorInfo {
  struct Argument {
    std::string name, type;  // "batch_size", "int (non-negative), required"
    bool is_required() const;
    std::string default_text() const;  // "4", without quotes; "" where there is none
  };
  std::string name;
  std::vector<Argument> arguments;
  std::unique_ptr<DataIterator> (*make)(const IteratorAttributes&) = nullptr;

  const Argument* argument(std::string_view argument_name) const;
  // For MXDataIterGetIterInfo: `arguments` as C has them.
  std::vector<const char*> c_names, c_types, c_descriptions;
};

// In alphabetical order. Thread safety: any thread.
const std::vector<IteratorInfo>& all_iterators();

// What a program gives to an iterator. An argument that is not given has its default; those that MXNet does not know
// are passed over, as MXNet does: the Python package gives data_name and label_name along with them. All functions
// throw ValueError that names iterator and argument for a text of another form, and for an argument that is required
// and not given.
class IteratorAttributes {
 public:
  IteratorAttributes(const IteratorInfo& info, std::map<std::string, std::string> given);

  const std::string& iterator() const { return info_.name; }
  std::string text(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  bool flag(const std::string& name) const;
  Shape shape(const std::string& name) const;
  // Nothing for "None".
  std::optional<double> maybe_number(const std::string& name) const;
  std::optional<DType> dtype() const;       // of the argument "dtype"
  bool has(const std::string& name) const;  // whether the iterator has an argument of that name
  // Throws ValueError that says that Kaon does not provide it, unless the argument has its default.
  void refuse_unless_default(std::initializer_list<const char*> names) const;
  [[noreturn]] void fail(const std::string& name, const std::string& why) const;

 private:
  const IteratorInfo::Argument& argument(const std::string& name) const;
  template <class T>
  T read(const std::string& name) const;

  const IteratorInfo& info_;
  std::map<std::string, std::string> given_;
};

}  // namespace kaon::mxnet
