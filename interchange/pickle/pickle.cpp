#include "kaon/interchange/pickle/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace kaon::interchange {

using Value = PickleValue;
using Kind = PickleValue::Kind;

namespace {

// The operations, by Python's names for them.
enum Op : uint8_t {
  MARK = '(',
  STOP = '.',
  POP = '0',
  POP_MARK = '1',
  DUP = '2',
  BININT = 'J',
  BININT1 = 'K',
  BININT2 = 'M',
  NONE = 'N',
  BINPERSID = 'Q',
  REDUCE = 'R',
  BINSTRING = 'T',
  SHORT_BINSTRING = 'U',
  BINUNICODE = 'X',
  APPEND = 'a',
  BUILD = 'b',
  GLOBAL = 'c',
  DICT = 'd',
  EMPTY_DICT = '}',
  APPENDS = 'e',
  BINGET = 'h',
  LONG_BINGET = 'j',
  LIST = 'l',
  EMPTY_LIST = ']',
  BINPUT = 'q',
  LONG_BINPUT = 'r',
  SETITEM = 's',
  TUPLE = 't',
  EMPTY_TUPLE = ')',
  SETITEMS = 'u',
  BINFLOAT = 'G',
  BINBYTES = 'B',
  SHORT_BINBYTES = 'C',
  PROTO = 0x80,
  NEWOBJ = 0x81,
  TUPLE1 = 0x85,
  TUPLE2 = 0x86,
  TUPLE3 = 0x87,
  NEWTRUE = 0x88,
  NEWFALSE = 0x89,
  LONG1 = 0x8a,
  LONG4 = 0x8b,
  SHORT_BINUNICODE = 0x8c,
  BINUNICODE8 = 0x8d,
  BINBYTES8 = 0x8e,
  EMPTY_SET = 0x8f,
  ADDITEMS = 0x90,
  FROZENSET = 0x91,
  NEWOBJ_EX = 0x92,
  STACK_GLOBAL = 0x93,
  MEMOIZE = 0x94,
  FRAME = 0x95,
  BYTEARRAY8 = 0x96,
};

bool is_allowed(std::string_view name, std::span<const std::string_view> allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](std::string_view a) {
    if (!a.ends_with(".*")) return a == name;
    a.remove_suffix(1);
    return name.starts_with(a) && name.find('.', a.size()) == std::string_view::npos;
  });
}

}  // namespace

class Pickle::Machine {
 public:
  Machine(Pickle& pickle, uint64_t at, uint64_t end, std::span<const std::string_view> allowed, Others others)
      : pickle_(pickle), in_(pickle.file_, at, end), allowed_(allowed), others_(others) {
    none_ = make(Kind::none, at);
    true_ = make(Kind::boolean, at);
    true_->integer = 1;
    false_ = make(Kind::boolean, at);
    nothing_ = make(Kind::tuple, at);
  }

  const Value* run() {
    while (true) {
      at_ = in_.offset();
      const auto op = in_.number<uint8_t>("an operation of a pickle");
      if (op == STOP) break;
      step(op);
    }
    Value* root = pop();
    if (!stack_.empty()) in_.fail(at_, "one value at the end", "several");
    return root;
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const { in_.fail(at_, expected, found); }

  Value* make(Kind kind, uint64_t at) {
    Value& value = pickle_.values_.emplace_back();
    value.kind = kind;
    value.offset = at;
    return &value;
  }
  Value* make(Kind kind) { return make(kind, at_); }
  void push(Value* value) { stack_.push_back(value); }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Value* pop() {
    if (stack_.size() <= floor()) fail("a value on the stack", "none");
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value* top() {
    if (stack_.size() <= floor()) fail("a value on the stack", "none");
    return stack_.back();
  }
  // What is above the last mark, which goes.
  std::vector<const Value*> take_marked() {
    if (marks_.empty()) fail("a mark on the stack", "none");
    std::vector<const Value*> taken(stack_.begin() + ptrdiff_t(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return taken;
  }

  void push_integer(int64_t number) {
    Value* v = make(Kind::integer);
    v->integer = number;
    push(v);
  }
  void push_text(Kind kind, uint64_t bytes) {
    const std::string_view text = in_.take(bytes, kind == Kind::text ? "a text" : "bytes");
    Value* v = make(kind);
    v->text = text;
    push(v);
  }
  void push_long(uint64_t bytes) {
    const std::string_view digits = in_.take(bytes, "an integer");
    if (bytes > 8) {
      Value* v = make(Kind::large);
      v->text = digits;
      return push(v);
    }
    uint64_t number = 0;
    for (size_t i = 0; i < digits.size(); ++i) number |= uint64_t(uint8_t(digits[i])) << (8 * i);
    if (bytes > 0 && bytes < 8 && (uint8_t(digits.back()) & 0x80)) number |= ~uint64_t(0) << (8 * bytes);
    push_integer(std::bit_cast<int64_t>(number));
  }
  void push_tuple(size_t count) {
    Value* v = make(Kind::tuple);
    v->items.resize(count);
    for (size_t i = count; i > 0; --i) v->items[i - 1] = pop();
    push(v);
  }
  void push_marked(Kind kind) {
    Value* v = make(kind);
    v->items = take_marked();
    if (kind == Kind::dict && v->items.size() % 2) fail("keys with values", "a key without one");
    push(v);
  }
  void push_global(std::string_view module, std::string_view name) {
    const auto is_plain = [](std::string_view s) {
      return !s.empty() && s.size() < 200 && std::all_of(s.begin(), s.end(), [](char c) {
        return c == '_' || c == '.' || uint8_t(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z');
      });
    };
    if (!is_plain(module) || !is_plain(name)) fail("the name of a class or function", "other text");
    const std::string full = fmt::format("{}.{}", module, name);
    Value* v = make(Kind::global);
    v->text = pickle_.names_.emplace_back(full);
    v->is_opaque = !is_allowed(full, allowed_);
    if (v->is_opaque && others_ == Others::refused) pickle_.fail(*v, data_alone);
    push(v);
  }
  void push_call(const Value* callable, const Value* arguments) {
    if (callable->kind != Kind::global && !callable->is_opaque) {
      pickle_.fail(*callable, "a class or function to call");
    }
    if (arguments->kind != Kind::tuple) pickle_.fail(*arguments, "a tuple of arguments");
    Value* v = make(Kind::object);
    v->items = {callable, arguments};
    v->is_opaque = callable->is_opaque;
    push(v);
  }
  // Where items go that are put into a value.
  std::vector<const Value*>& room(Value* value, Kind kind) {
    if (value->kind == Kind::object) return value->members;
    if (value->kind != kind)
      pickle_.fail(*value, kind == Kind::dict ? "a dict" : kind == Kind::set ? "a set" : "a list");
    return value->items;
  }
  void put(uint64_t index) {
    if (index > in_.file().size()) fail("an index below the size of the file", fmt::format("{}", index));
    memo_[index] = top();
  }
  void get(uint64_t index) {
    const auto it = memo_.find(index);
    if (it == memo_.end()) fail("a value that was kept", fmt::format("none with index {}", index));
    push(it->second);
  }

  void step(uint8_t op) {
    switch (op) {
      case PROTO:
        if (const auto p = in_.number<uint8_t>("the protocol"); p < 2 || p > 5) {
          fail("protocol 2 to 5", fmt::format("{}", p));
        }
        return;
      case FRAME:
        if (const auto bytes = in_.number<uint64_t>("the length of a frame"); bytes > in_.remaining()) {
          fail(fmt::format("a frame within the {} bytes that are left", in_.remaining()), fmt::format("{}", bytes));
        }
        return;
      case MARK: marks_.push_back(stack_.size()); return;
      case POP:
        if (stack_.size() == floor() && !marks_.empty()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return;
      case POP_MARK: take_marked(); return;
      case DUP: push(top()); return;
      case NONE: push(none_); return;
      case NEWTRUE: push(true_); return;
      case NEWFALSE: push(false_); return;
      case BININT: push_integer(in_.number<int32_t>("an integer")); return;
      case BININT1: push_integer(in_.number<uint8_t>("an integer")); return;
      case BININT2: push_integer(in_.number<uint16_t>("an integer")); return;
      case LONG1: push_long(in_.number<uint8_t>("a length")); return;
      case LONG4: push_long(in_.number<uint32_t>("a length")); return;
      case BINFLOAT: {
        Value* v = make(Kind::real);
        v->real = std::bit_cast<double>(__builtin_bswap64(in_.number<uint64_t>("a number")));
        push(v);
        return;
      }
      case SHORT_BINUNICODE:
      case SHORT_BINSTRING: push_text(Kind::text, in_.number<uint8_t>("a length")); return;
      case BINUNICODE:
      case BINSTRING: push_text(Kind::text, in_.number<uint32_t>("a length")); return;
      case BINUNICODE8: push_text(Kind::text, in_.number<uint64_t>("a length")); return;
      case SHORT_BINBYTES: push_text(Kind::bytes, in_.number<uint8_t>("a length")); return;
      case BINBYTES: push_text(Kind::bytes, in_.number<uint32_t>("a length")); return;
      case BINBYTES8:
      case BYTEARRAY8: push_text(Kind::bytes, in_.number<uint64_t>("a length")); return;
      case EMPTY_LIST: push(make(Kind::list)); return;
      case EMPTY_DICT: push(make(Kind::dict)); return;
      case EMPTY_SET: push(make(Kind::set)); return;
      case EMPTY_TUPLE: push(nothing_); return;
      case TUPLE1: push_tuple(1); return;
      case TUPLE2: push_tuple(2); return;
      case TUPLE3: push_tuple(3); return;
      case TUPLE: push_marked(Kind::tuple); return;
      case LIST: push_marked(Kind::list); return;
      case DICT: push_marked(Kind::dict); return;
      case FROZENSET: push_marked(Kind::set); return;
      case APPEND: {
        const Value* item = pop();
        room(top(), Kind::list).push_back(item);
        return;
      }
      case SETITEM: {
        const Value *item = pop(), *key = pop();
        auto& items = room(top(), Kind::dict);
        items.push_back(key);
        items.push_back(item);
        return;
      }
      case APPENDS:
      case ADDITEMS:
      case SETITEMS: {
        const std::vector<const Value*> taken = take_marked();
        if (op == SETITEMS && taken.size() % 2) fail("keys with values", "a key without one");
        auto& items = room(top(), op == APPENDS ? Kind::list : op == ADDITEMS ? Kind::set : Kind::dict);
        items.insert(items.end(), taken.begin(), taken.end());
        return;
      }
      case GLOBAL: {
        const std::string_view module = in_.line("the name of a module");
        push_global(module, in_.line("the name of a class"));
        return;
      }
      case STACK_GLOBAL: {
        const Value *name = pop(), *module = pop();
        if (name->kind != Kind::text) pickle_.fail(*name, "the name of a class");
        if (module->kind != Kind::text) pickle_.fail(*module, "the name of a module");
        push_global(module->text, name->text);
        return;
      }
      case REDUCE:
      case NEWOBJ: {
        const Value *arguments = pop(), *callable = pop();
        push_call(callable, arguments);
        return;
      }
      case NEWOBJ_EX: {
        const Value *named = pop(), *arguments = pop(), *callable = pop();
        if (named->kind != Kind::dict || (!named->items.empty() && !callable->is_opaque)) {
          pickle_.fail(*named, "no named arguments");
        }
        push_call(callable, arguments);
        return;
      }
      case BUILD: {
        const Value* state = pop();
        if (top()->kind != Kind::object) pickle_.fail(*top(), "an object for a state");
        top()->state = state;
        return;
      }
      case BINPERSID: {
        const Value* id = pop();
        Value* v = make(Kind::persistent);
        v->items = {id};
        push(v);
        return;
      }
      case BINPUT: put(in_.number<uint8_t>("an index")); return;
      case LONG_BINPUT: put(in_.number<uint32_t>("an index")); return;
      case MEMOIZE: put(memo_.size()); return;
      case BINGET: get(in_.number<uint8_t>("an index")); return;
      case LONG_BINGET: get(in_.number<uint32_t>("an index")); return;
      default: fail("an operation of a pickle of protocol 2 to 5 that is data alone", fmt::format("{:#04x}", op));
    }
  }

  Pickle& pickle_;
  ByteReader in_;
  std::span<const std::string_view> allowed_;
  Others others_;
  uint64_t at_ = 0;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Value*> memo_;
  Value *none_, *true_, *false_, *nothing_;
};

Pickle::Pickle(const FileBytes& file, uint64_t at, uint64_t end, std::span<const std::string_view> allowed,
               Others others)
    : file_(file), size_(end - at) {
  root_ = Machine(*this, at, end, allowed, others).run();
}

bool Pickle::entries_of(const Value& value, std::vector<const Value*>& entries) {
  entries.clear();
  if (value.kind == Kind::dict) {
    entries = value.items;
    return true;
  }
  const bool is_ordered = value.is_call_of("collections.OrderedDict");
  if (!is_ordered && !value.is_call_of("collections.defaultdict")) return false;
  const auto& arguments = value.items[1]->items;
  if (is_ordered && !arguments.empty()) {  // a list of pairs, as Python 2 writes
    for (const Value* pair : arguments[0]->items) {
      if (pair->items.size() != 2) return false;
      entries.insert(entries.end(), pair->items.begin(), pair->items.end());
    }
  }
  if (value.members.size() % 2) return false;
  entries.insert(entries.end(), value.members.begin(), value.members.end());
  return true;
}

std::string Value::describe() const {
  if (is_opaque) {
    const Value* called = this;
    while (called->kind == Kind::object) called = called->items[0];
    return fmt::format("{}'{}', which only running code could make", called == this ? "" : "an object of ",
                       called->text);
  }
  switch (kind) {
    case Kind::none: return "None";
    case Kind::boolean: return integer ? "True" : "False";
    case Kind::integer: return fmt::format("the integer {}", integer);
    case Kind::real: return fmt::format("the number {}", real);
    case Kind::large: return "an integer of more than 64 bits";
    case Kind::text: return fmt::format("the text '{}'", text.substr(0, 80));
    case Kind::bytes: return fmt::format("{} bytes", text.size());
    case Kind::list: return fmt::format("a list of {}", items.size());
    case Kind::tuple: return fmt::format("a tuple of {}", items.size());
    case Kind::set: return "a set";
    case Kind::dict: return "a dict";
    case Kind::global: return fmt::format("'{}'", text);
    case Kind::object: return fmt::format("an object of '{}'", items[0]->text);
    case Kind::persistent: return "a reference to a storage";
  }
  return {};
}

}  // namespace kaon::interchange
