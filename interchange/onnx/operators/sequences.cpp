// Sequences and optionals: lists that the conversion holds, of which the program sees the tensors.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

const Value& sequence(const Call& c, int i) {
  const Value& v = c.input(i);
  if (v.kind != Value::Kind::sequence) c.fail(fmt::format("input {} must be a sequence", i));
  return v;
}

// A position of a list of `n`, counted from the end where it is negative.
size_t position(const Call& c, int i, size_t n, bool may_be_end) {
  const int64_t given = c.integers(i)[0], at = given < 0 ? given + int64_t(n) : given;
  if (at < 0 || at > int64_t(n) || (at == int64_t(n) && !may_be_end)) {
    c.fail(fmt::format("position {} in a sequence of {}", given, n));
  }
  return size_t(at);
}

void insert(Call& c) {
  Value v = sequence(c, 0);
  const size_t at = c.has(2) ? position(c, 2, v.items.size(), true) : v.items.size();
  if (v.type == ElementType::undefined) v.type = c.type(1);
  v.items.insert(v.items.begin() + ptrdiff_t(at), c.input(1));
  c.set(v);
}

void erase(Call& c) {
  Value v = sequence(c, 0);
  const size_t at = c.has(1) ? position(c, 1, v.items.size(), false) : v.items.size() - 1;
  if (v.items.empty()) c.fail("the sequence is empty");
  v.items.erase(v.items.begin() + ptrdiff_t(at));
  c.set(v);
}

void split_to_sequence(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  const int64_t length = c.shape()[axis];
  const bool keeps = c.integer("keepdims", 1) != 0 || c.has(1);
  std::vector<int64_t> sizes;
  if (c.has(1)) {
    const std::vector<int64_t> split = c.integers(1);
    if (c.rank(1) == 0) {
      if (split[0] < 1) c.fail(fmt::format("split is {}", split[0]));
      for (int64_t at = 0; at < length; at += split[0]) sizes.push_back(std::min(split[0], length - at));
    } else {
      sizes = split;
    }
  } else {
    sizes.assign(size_t(length), 1);
  }
  std::vector<Value> items;
  int64_t at = 0;
  for (int64_t size : sizes) {
    const Symbol part = slice_along(c.x(), axis, at, at + size);
    items.push_back(Value::of(keeps ? part : reshaped(part, without(c.shape(), axis)), c.type()));
    at += size;
  }
  if (at != length) c.fail("the parts do not make up the axis");
  c.set(Value::sequence(std::move(items), c.type()));
}

void concat_from_sequence(Call& c) {
  const Value& v = sequence(c, 0);
  if (v.items.empty()) c.fail("the sequence is empty");
  std::vector<Symbol> parts;
  for (const Value& item : v.items) parts.push_back(item.symbol);
  const int rank = rank_of(parts[0]);
  if (c.integer("new_axis", 0) != 0) {
    return c.set(sym.stack(std::span<const Symbol>(parts), {.axis = c.axis("axis", 0, rank + 1)}));
  }
  c.set(concatenated(parts, c.axis("axis", 0, rank)));
}

void sequence_map(Call& c) {
  const format::Graph& body = c.graph("body");
  const size_t n = sequence(c, 0).items.size();
  std::vector<Value> results(body.outputs.size(), Value::sequence({}, ElementType::undefined));
  for (size_t i = 0; i < n; ++i) {
    std::vector<Value> inputs;
    for (int k = 0; k < c.count(); ++k) {
      const Value& v = c.input(k);
      inputs.push_back(v.kind == Value::Kind::sequence ? v.items.at(i) : v);
    }
    const std::vector<Value> outputs = c.conversion().convert_graph(body, c.conversion().scope(), inputs);
    for (size_t k = 0; k < outputs.size(); ++k)
      results[k].items.push_back(outputs[k]), results[k].type = outputs[k].type;
  }
  for (size_t k = 0; k < results.size(); ++k) c.set(int(k), results[k]);
}

void optional_get(Call& c) {
  if (!c.has(0)) c.fail("the optional has no value");
  c.set(c.input(0));
}

constexpr Row sequence_table[] = {
    {"SequenceEmpty", [](Call& c) { c.set(Value::sequence({}, ElementType(c.integer("dtype", 1)))); }},
    {"SequenceConstruct", [](Call& c) { c.set(Value::sequence(c.all(), c.type())); }},
    {"SequenceAt", [](Call& c) { c.set(sequence(c, 0).items[position(c, 1, sequence(c, 0).items.size(), false)]); }},
    {"SequenceInsert", insert},
    {"SequenceErase", erase},
    {"SequenceLength", [](Call& c) { c.set(number(int64_t(sequence(c, 0).items.size()))); }},
    {"SequenceMap", sequence_map},
    {"SplitToSequence", split_to_sequence},
    {"ConcatFromSequence", concat_from_sequence},
    {"Optional", [](Call& c) { c.set(c.has(0) ? c.input(0) : Value()); }},
    {"OptionalHasElement", [](Call& c) { c.set(truth(c.has(0))); }},
    {"OptionalGetElement", optional_get},
};

}  // namespace

std::span<const Row> sequence_rows() { return sequence_table; }

}  // namespace kaon::onnx::convert
