#include "kaon/graph/inference/facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace kaon::graph {

bool merge(Shape& known, const Shape& more) {
  if (more.ndim() < 0) return true;
  if (known.ndim() < 0) return known = more, true;
  if (known.ndim() != more.ndim()) return false;
  for (int i = 0; i < known.ndim(); ++i) {
    if (known[i] < 0) {
      known[i] = more[i];
    } else if (more[i] >= 0 && more[i] != known[i]) {
      return false;
    }
  }
  return true;
}

bool merge(std::optional<DType>& known, const std::optional<DType>& more) {
  if (!known) known = more;
  return !more || *known == *more;
}

// --- shapes

std::string ShapeFacts::name_of(const Shape& a) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (&a != &inputs_[i].shape) continue;
    const ops::Names& names = node_.op->traits_of(node_.attrs.get()).inputs;
    return node_.op->traits.variadic || int(i) >= names.size() ? fmt::format("input {}", i)
                                                               : std::string(names[int(i)]);
  }
  return outputs_.size() == 1 ? "the result" : fmt::format("output {}", &a - outputs_.data());
}

void ShapeFacts::contradict(const Shape& a, const Shape& expected) const {
  fail(fmt::format("{} must have shape {}, got {}", name_of(a), expected.str(), a.str()));
}

void ShapeFacts::fail(const std::string& why) const { throw ShapeError(fmt::format("[{}] {}", node_.op_name, why)); }

void ShapeFacts::is(Shape& a, const Shape& size) {
  const Shape given = a;
  if (merge(a, size)) return;
  a = given;
  contradict(a, size);
}

void ShapeFacts::is(Shape& a, int d, int64_t size) {
  if (size < 0 || d >= a.ndim()) return;
  if (a[d] < 0) a[d] = size;
  if (a[d] == size) return;
  Shape expected = a;
  expected[d] = size;
  contradict(a, expected);
}

void ShapeFacts::has_ndim(Shape& a, int ndim) {
  if (ndim >= 0) is(a, Shape::filled(ndim, -1));
}

void ShapeFacts::same(Shape& a, Shape& b) {
  is(a, b);
  is(b, a);
}

void ShapeFacts::same(Shape& a, int i, Shape& b, int j) {
  if (i >= a.ndim() || j >= b.ndim()) return;  // one is not known
  is(a, i, b[j]);
  is(b, j, a[i]);
}

void ShapeFacts::all_same(int inputs, int outputs) {
  const int ins = inputs < 0 ? num_inputs() : std::min(inputs, num_inputs());
  const int outs = outputs < 0 ? num_outputs() : std::min(outputs, num_outputs());
  Shape all = Shape::unknown();
  const auto each = [&](auto&& visit) {
    for (int i = 0; i < ins; ++i) visit(in(i));
    for (int i = 0; i < outs; ++i) visit(out(i));
  };
  each([&](Shape& s) {
    const Shape given = all;
    if (!merge(all, s)) contradict(s, given);
  });
  each([&](Shape& s) { is(s, all); });
}

void ShapeFacts::same_product(Shape& a, const std::vector<int>& a_dims, Shape& b, const std::vector<int>& b_dims,
                              int64_t factor) {
  int64_t of_a = 1, of_b = factor;
  int64_t* open = nullptr;
  bool open_in_a = false;
  const auto take = [&](Shape& s, const std::vector<int>& dims, int64_t& product, bool is_a) {
    for (int d : dims) {
      if (s[d] >= 0) {
        if (__builtin_mul_overflow(product, s[d], &product)) return false;
      } else if (open) {
        return false;
      } else {
        open = &s[d], open_in_a = is_a;
      }
    }
    return true;
  };
  if (!take(a, a_dims, of_a, true) || !take(b, b_dims, of_b, false)) return;
  if (!open) {
    if (of_a != of_b) fail(fmt::format("the number of elements differs: {} and {}", a.str(), b.str()));
    return;
  }
  const int64_t whole = open_in_a ? of_b : of_a, part = open_in_a ? of_a : of_b;
  if (part == 0) return;  // any size fits
  if (whole % part != 0) fail(fmt::format("the number of elements differs: {} and {}", a.str(), b.str()));
  *open = whole / part;
}

std::optional<std::vector<Shape>> ShapeFacts::evaluate(std::vector<Shape> inputs) const {
  std::vector<TensorMeta> in, out(outputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) in.push_back({inputs[i], inputs_[i].dtype});
  std::vector<TensorMeta*> pointers;
  for (TensorMeta& m : in) pointers.push_back(&m);
  InferContext context(node_.op->name().data(), node_.op->traits, pointers, out);
  try {
    node_.op->infer(node_.attrs.get(), context);
  } catch (const Error&) {
    return std::nullopt;
  }
  inputs.clear();
  for (const TensorMeta& m : in) inputs.push_back(m.shape);
  for (const TensorMeta& m : out) inputs.push_back(m.shape);
  return inputs;
}

void ShapeFacts::probe() {
  const auto with = [&](int64_t size, bool weights_are_given) -> std::optional<std::vector<Shape>> {
    std::vector<Shape> given;
    for (int i = 0; i < num_inputs(); ++i) {
      Shape s = in(i);
      const bool inferable = i < 32 && (node_.op->traits_of(node_.attrs.get()).infers >> i & 1);
      if (s.ndim() < 0 && !inferable) return std::nullopt;
      for (int d = 0; d < s.ndim() && !inferable; ++d) s[d] = s[d] < 0 ? size : s[d];
      if (inferable && !weights_are_given) s = Shape::unknown();
      given.push_back(s);
    }
    return evaluate(std::move(given));
  };
  // sizes with many divisors: of groups, blocks and parts
  for (const auto& [size, weights_are_given] : {std::pair(720, true), {720, false}, {5040, true}}) {
    const auto a = with(size, weights_are_given), b = with(2 * size, weights_are_given);
    if (!a || !b) continue;
    for (int i = 0; i < num_inputs() + num_outputs(); ++i) {
      Shape s = (*a)[size_t(i)];
      const Shape& other = (*b)[size_t(i)];
      if (s.ndim() != other.ndim()) continue;
      for (int d = 0; d < s.ndim(); ++d) s[d] = s[d] == other[d] ? s[d] : -1;
      Shape& known = i < num_inputs() ? in(i) : out(i - num_inputs());
      Shape more = known;
      if (weights_are_given || i >= num_inputs()) {
        is(known, s);
      } else if (merge(more, s)) {
        known = more;  // else it may be another of several weights that would do
      }
    }
    return;
  }
}

void ShapeFacts::copies_dimensions() {
  constexpr int64_t first = -1000;  // the dimension d of input i is called first - 8 i - d
  std::vector<Shape> labels;
  for (int i = 0; i < num_inputs(); ++i) {
    if (in(i).ndim() < 0) return;
    Shape s = in(i);
    for (int d = 0; d < s.ndim(); ++d) s[d] = first - i * Shape::max_ndim - d;
    labels.push_back(s);
  }
  const auto found = evaluate(std::move(labels));
  if (!found) return;
  for (int i = 0; i < num_outputs(); ++i) {
    const Shape& s = (*found)[size_t(num_inputs() + i)];
    has_ndim(out(i), s.ndim());
    for (int d = 0; d < s.ndim(); ++d) {
      if (s[d] > first) {
        is(out(i), d, s[d]);
        continue;
      }
      const int64_t label = first - s[d];
      same(out(i), d, in(int(label / Shape::max_ndim)), int(label % Shape::max_ndim));
    }
  }
}

// --- dtypes

void TypeFacts::is(Type& a, Type type) {
  if (merge(a, type)) return;
  const auto at = &a - inputs_.data();
  const bool is_input = at >= 0 && at < num_inputs();
  const ops::Names& names = node_.op->traits_of(node_.attrs.get()).inputs;
  const std::string name = !is_input                                              ? std::string("the result")
                           : node_.op->traits.variadic || int(at) >= names.size() ? fmt::format("input {}", at)
                                                                                  : std::string(names[int(at)]);
  throw TypeError(
      fmt::format("[{}] {} must be of {}, got {}", node_.op_name, name, kaon::name_of(*type), kaon::name_of(*a)));
}

void TypeFacts::same(Type& a, Type& b) {
  is(a, b);
  is(b, a);
}

void TypeFacts::all_same(int first, int count, int outputs) {
  const int end = count < 0 ? num_inputs() : std::min(first + count, num_inputs());
  const int outs = outputs < 0 ? num_outputs() : std::min(outputs, num_outputs());
  Type type;
  for (int i = first; i < end && !type; ++i) type = in(i);
  for (int i = 0; i < outs && !type; ++i) type = out(i);
  if (!type) return;
  for (int i = first; i < end; ++i) is(in(i), type);
  for (int i = 0; i < outs; ++i) is(out(i), type);
}

void TypeFacts::by_infer() {
  for (const Type& t : inputs_) {
    if (!t) return;
  }
  const auto with = [&](const Shape& first, const Shape& others) {
    std::vector<TensorMeta> in, out(outputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool inferable = i < 32 && (node_.op->traits.infers >> i & 1);
      in.push_back({inferable ? Shape::unknown() : i == 0 ? first : others, *inputs_[i]});
    }
    std::vector<TensorMeta*> pointers;
    for (TensorMeta& m : in) pointers.push_back(&m);
    InferContext context(node_.op->name().data(), node_.op->traits, pointers, out);
    try {
      node_.op->infer(node_.attrs.get(), context);
    } catch (const TypeError&) {
      throw;
    } catch (const Error&) {
      return false;
    }
    for (int i = 0; i < num_outputs(); ++i) is(this->out(i), out[size_t(i)].dtype);
    return true;
  };
  // one of these suits the operator
  for (const Shape& shape : {Shape(2, 2, 2, 2), Shape(2, 2, 2), Shape(2, 2), Shape(2), Shape(1), Shape()}) {
    if (with(shape, shape) || with(shape, Shape(1))) return;
  }
}

}  // namespace kaon::graph
