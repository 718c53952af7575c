// Python's pickles, read as data: no code runs. A class or function that is not on a list of names is refused, or what
// it would make is kept as an opaque value.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/interchange/file/file_bytes.h"

namespace kaon::interchange {

// A value of a pickle. Values may contain each other, and one may contain itself.
struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    large,  // an integer of more than 64 bits
    text,   // UTF-8, as it is in the file
    bytes,
    list,
    tuple,
    set,
    dict,        // items: key, value, key, value ...
    global,      // a class or function: text is "module.name"
    object,      // items: the function or class that was to be called, or an opaque object; then the tuple of arguments
    persistent,  // items: its id
  };
  Kind kind = Kind::none;
  bool is_opaque = false;  // a global that is not on the list, or an object that a call of one would make
  uint64_t offset = 0;     // of the operation that made it, in the file
  union {
    int64_t integer = 0;  // of a boolean 0 or 1
    double real;
  };
  std::string_view text;  // of the pickle's bytes, or of a name
  std::vector<const PickleValue*> items;
  std::vector<const PickleValue*> members;  // of an object: what was put into it, as into a dict or a list
  const PickleValue* state = nullptr;       // of an object: what was to be its state

  bool is(Kind k) const { return kind == k; }
  bool is_call_of(std::string_view name) const {
    return kind == Kind::object && items[0]->kind == Kind::global && items[0]->text == name;
  }
  std::string describe() const;  // for messages: "a tuple", "the integer 3"
};

// The value in [at, end), and those that it contains.
class Pickle {
 public:
  enum class Others : uint8_t { refused, opaque };
  // Protocols 2 to 5. `allowed`: full names, or "module.*". Memory grows with the bytes that are read. Throws IoError,
  // with file and byte, for other names where they are refused, for operations that no such file has, and for what is
  // cut off.
  Pickle(const FileBytes& file, uint64_t at, uint64_t end, std::span<const std::string_view> allowed,
         Others others = Others::refused);

  const PickleValue& root() const { return *root_; }
  const FileBytes& file() const { return file_; }
  uint64_t size() const { return size_; }
  [[noreturn]] void fail(const PickleValue& at, std::string_view expected) const {
    file_.fail(at.offset, expected, at.describe());
  }
  // What fail() names as expected of an opaque value.
  static constexpr std::string_view data_alone = "data alone: tensors, numbers, texts, lists and dicts of them";
  // Key and value, alternately, of a dict, an OrderedDict or a defaultdict. False: it is none.
  static bool entries_of(const PickleValue& value, std::vector<const PickleValue*>& entries);

 private:
  class Machine;
  FileBytes file_;
  uint64_t size_;
  std::deque<PickleValue> values_;  // owns them: a value inside of itself leaks nothing, deep ones need no stack
  std::deque<std::string> names_;
  const PickleValue* root_ = nullptr;
};

}  // namespace kaon::interchange
