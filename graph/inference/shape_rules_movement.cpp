// Shapes of reshaped arrays, of parts of arrays, and of arrays side by side.
#include <algorithm>

#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

namespace {

std::vector<int> all_dims(const Shape& s) {
  std::vector<int> dims;
  for (int i = 0; i < s.ndim(); ++i) dims.push_back(i);
  return dims;
}

// a and b have the same dimensions but along the axis.
void same_but(ShapeFacts& f, Shape& a, Shape& b, int axis) {
  f.has_ndim(a, b.ndim());
  for (int i = 0; i < b.ndim(); ++i) {
    if (i != axis) f.same(a, i, b, i);
  }
}

// The codes of Reshape, matched with the dimensions of the input.
class ReshapeCodes {
 public:
  ReshapeCodes(const op::Reshape& o, ShapeFacts& f) : f_(f), in_(f.in()), reversed_(o.reverse) {
    read(o.shape);
    if (!fits_) return;
    if (reversed_) std::reverse(parts_.begin(), parts_.end());
    f.has_ndim(f.out(), int(parts_.size()));
    std::vector<int> rest, inferred;
    int64_t given = 1;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& p = parts_[i];
      const int at = int(i);
      f.is(f.out(), at, p.size);
      if (p.split) {
        if (i + 1 < parts_.size() && parts_[i + 1].split && parts_[i + 1].from == p.from) {
          f.is(f.out(), at + 1, parts_[i + 1].size);
          f.same_product(in_, p.from, f.out(), {at, at + 1});
        }
      } else if (p.from.size() == 1) {
        f.same(f.out(), at, in_, p.from[0]);
      } else if (p.from.size() == 2) {
        f.same_product(f.out(), {at}, in_, p.from);
      }
      if (p.inferred) inferred.push_back(at);
      if (p.from.empty() && !p.inferred) given *= p.size;
    }
    for (int d = 0; d < in_.ndim(); ++d) {
      if (!used_[d]) rest.push_back(d);
    }
    // what no code copies makes the given sizes and the inferred one
    if (given == 0) return;
    if (inferred.empty()) {
      Shape sizes(given);
      f.same_product(in_, rest, sizes, {0});
    } else {
      f.same_product(in_, rest, f.out(), inferred, given);
    }
  }

 private:
  struct Part {
    int64_t size = -1;
    std::vector<int> from{};
    bool inferred = false, split = false;
  };

  int dimension() { return reversed_ ? in_.ndim() - 1 - at_ : at_; }
  bool take(std::vector<int>& from) {
    if (at_ >= in_.ndim()) return fits_ = false;
    used_[dimension()] = true;
    from.push_back(dimension());
    ++at_;
    return true;
  }

  void read(Shape codes) {
    if (reversed_ && codes.ndim() > 1) std::reverse(&codes[0], &codes[0] + codes.ndim());
    // with -4, two entries belong to the code before them
    std::vector<Shape> tokens;
    for (int i = 0; i < codes.ndim(); ++i) {
      if (codes[i] != -4) {
        tokens.emplace_back(codes[i]);
        continue;
      }
      if (i + 2 >= codes.ndim()) return void(fits_ = false);
      tokens.emplace_back(codes[i], codes[i + 1], codes[i + 2]), i += 2;
    }
    for (const Shape& t : tokens) {
      Part p;
      if (t[0] > 0) {
        p.size = t[0], ++at_;
      } else if (t[0] == 0) {
        if (!take(p.from)) return;
      } else if (t[0] == -1) {
        p.inferred = true, ++at_;
      } else if (t[0] == -2) {
        for (; at_ < in_.ndim(); parts_.push_back(p)) p.from.clear(), take(p.from);
        continue;
      } else if (t[0] == -3) {
        if (!take(p.from) || !take(p.from)) return;
      } else {
        if (!take(p.from)) return;
        p.split = true;
        const int64_t a = t[1], b = t[2];
        if (a >= 0 && b >= 0) f_.is(in_, p.from[0], a * b);
        Part first = p, second = p;
        first.size = a, second.size = b;
        parts_.push_back(first), parts_.push_back(second);
        continue;
      }
      parts_.push_back(p);
    }
  }

  ShapeFacts& f_;
  Shape& in_;
  bool reversed_, fits_ = true;
  int at_ = 0;
  bool used_[2 * Shape::max_ndim] = {};
  std::vector<Part> parts_;
};

}  // namespace

namespace {
// The input has `fewer` dimensions less than the result, and each of the result's is one of its or constant.
void learn_copies(ShapeFacts& f, int fewer = 0) {
  if (f.in().ndim() < 0 && f.out().ndim() >= fewer) f.has_ndim(f.in(), f.out().ndim() - fewer);
  f.copies_dimensions();
}
}  // namespace

void learn(const op::ExpandDims&, ShapeFacts& f) { learn_copies(f, 1); }
void learn(const op::Transpose&, ShapeFacts& f) { learn_copies(f); }
void learn(const op::SwapAxis&, ShapeFacts& f) { learn_copies(f); }

void learn(const op::Reshape& o, ShapeFacts& f) {
  if (o.shape.empty()) return;
  if (f.in().ndim() < 0) {
    if (std::all_of(o.shape.begin(), o.shape.end(), [](int64_t d) { return d > 0; })) f.is(f.out(), o.shape);
    return;
  }
  ReshapeCodes(o, f);
}

void learn(const op::ReshapeLike& o, ShapeFacts& f) {
  if (f.node().op_name == "_identity_with_attr_like_rhs") return f.all_same();
  if (o.lhs_begin || o.lhs_end || o.rhs_begin || o.rhs_end) return;
  f.same(f.out(), f.in(1));
  if (f.in().ndim() >= 0 && f.out().ndim() >= 0) f.same_product(f.in(), all_dims(f.in()), f.out(), all_dims(f.out()));
}

void learn(const op::Flatten&, ShapeFacts& f) {
  Shape& in = f.in();
  if (in.ndim() < 1) return;
  f.has_ndim(f.out(), 2);
  f.same(in, 0, f.out(), 0);
  std::vector<int> rest = all_dims(in);
  rest.erase(rest.begin());
  f.same_product(f.out(), {1}, in, rest);
}

void learn(const op::Squeeze& o, ShapeFacts& f) {
  Shape& in = f.in();
  if (in.ndim() < 0 || !o.axis) return;
  uint32_t dropped = 0;
  for (const int64_t a : *o.axis) dropped |= ops::bit(ops::normalize_axis(a, in.ndim(), "squeeze"));
  std::vector<int> kept;
  for (int i = 0; i < in.ndim(); ++i) {
    (dropped >> i & 1) ? f.is(in, i, 1) : kept.push_back(i);
  }
  if (kept.empty()) return;  // one axis stays
  f.has_ndim(f.out(), int(kept.size()));
  for (size_t i = 0; i < kept.size(); ++i) f.same(in, kept[i], f.out(), int(i));
}

namespace {
// data[begin:end:step], whose shape is part: dimensions that are not known do not tell how many elements are chosen.
void learn_slice(const OptionalShape& begin, const OptionalShape& end, const OptionalShape& step, Shape& data,
                 Shape& part, ShapeFacts& f, int first_input) {
  if (data.ndim() < 0) return;
  f.has_ndim(part, data.ndim());
  std::vector<Shape> inputs;
  for (int i = 0; i < f.num_inputs(); ++i) inputs.push_back(i == first_input ? data : Shape::unknown());
  Shape& known = inputs[size_t(first_input)];
  for (int i = 0; i < known.ndim(); ++i) known[i] = known[i] < 0 ? 1 : known[i];
  const auto result = f.evaluate(inputs);
  for (int i = 0; i < data.ndim(); ++i) {
    const auto given = [&](const OptionalShape& s) { return i < s.ndim() ? s[i] : std::nullopt; };
    const bool whole = given(begin).value_or(0) == 0 && !given(end) && given(step).value_or(1) == 1;
    if (whole) {
      f.same(data, i, part, i);
    } else if (data[i] >= 0 && result) {
      // the part is the result of slice, and the second input of _slice_assign
      f.is(part, i, (*result)[size_t(f.num_inputs() > 1 ? 1 : 1)][i]);
    }
  }
}
}  // namespace

void learn(const op::Slice& o, ShapeFacts& f) { learn_slice(o.begin, o.end, o.step, f.in(), f.out(), f, 0); }

void learn(const op::SliceAssign& o, ShapeFacts& f) {
  f.same(f.in(), f.out());
  learn_slice(o.begin, o.end, o.step, f.in(), f.in(1), f, 0);
}

void learn(const op::SliceAxis& o, ShapeFacts& f) {
  Shape& in = f.in();
  if (in.ndim() < 0) return;
  const int at = ops::normalize_axis(o.axis, in.ndim(), "slice_axis");
  same_but(f, f.out(), in, at);
  if (o.begin == 0 && !o.end) return f.same(in, at, f.out(), at);
  if (in[at] < 0) return;
  Shape known = in;
  for (int i = 0; i < known.ndim(); ++i) known[i] = known[i] < 0 ? 1 : known[i];
  if (const auto result = f.evaluate({known})) f.is(f.out(), at, (*result)[1][at]);
}

void learn(const op::SliceLike& o, ShapeFacts& f) {
  Shape &in = f.in(), &like = f.in(1);
  if (o.axes.empty()) f.same(f.out(), like);
  if (in.ndim() < 0) return;
  f.has_ndim(f.out(), in.ndim());
  uint32_t cut = 0;
  for (const int64_t axis : o.axes) {
    const int at = ops::normalize_axis(axis, in.ndim(), "slice_like");
    cut |= ops::bit(at);
    if (like.ndim() > at) f.same(f.out(), at, like, at);
  }
  for (int i = 0; i < in.ndim() && !o.axes.empty(); ++i) {
    if (!(cut >> i & 1)) f.same(in, i, f.out(), i);
  }
}

namespace {
// `shares`: several inputs of unknown lengths are equally long, as the first weights of a recurrent layer's directions.
void learn_concat(int dim, bool shares, ShapeFacts& f) {
  Shape all = f.out();
  for (int i = 0; i < f.num_inputs() && all.ndim() < 0; ++i) all = f.in(i);
  if (all.ndim() < 0) return;
  const int n = all.ndim(), at = ops::normalize_axis(dim, n, f.node().op_name.c_str());
  f.has_ndim(f.out(), n);
  for (int round = 0; round < 2; ++round) {  // what the last input knows is for the first one too
    for (int i = 0; i < f.num_inputs(); ++i) same_but(f, f.in(i), f.out(), at);
  }
  int64_t sum = 0;
  std::vector<int> open;
  for (int i = 0; i < f.num_inputs(); ++i) {
    if (f.in(i)[at] >= 0) {
      sum += f.in(i)[at];
    } else {
      open.push_back(i);
    }
  }
  if (open.empty()) return f.is(f.out(), at, sum);
  if (f.out()[at] < 0 || (open.size() > 1 && !shares)) return;
  const int64_t rest = f.out()[at] - sum, count = int64_t(open.size());
  if (rest < 0) f.fail("the inputs are longer than the result " + f.out().str());
  if (rest % count != 0) return;
  for (const int i : open) f.is(f.in(i), at, rest / count);
}
}  // namespace

void learn(const op::Concat& o, ShapeFacts& f) { learn_concat(o.dim, false, f); }
void learn(const op::RnnParamConcat& o, ShapeFacts& f) { learn_concat(o.dim, true, f); }

void learn(const op::Stack& o, ShapeFacts& f) {
  f.all_same(-1, 0);
  Shape &in = f.in(), &out = f.out();
  if (in.ndim() < 0 && out.ndim() < 1) return;
  const int n = in.ndim() < 0 ? out.ndim() - 1 : in.ndim();
  const int at = ops::normalize_axis(o.axis, n + 1, "stack");
  f.has_ndim(in, n);
  f.has_ndim(out, n + 1);
  f.is(out, at, f.num_inputs());
  for (int i = 0; i < n; ++i) f.same(in, i, out, i < at ? i : i + 1);
  f.all_same(-1, 0);
}

void learn(const op::SliceChannel& o, ShapeFacts& f) {
  f.all_same(0, -1);
  Shape &in = f.in(), &out = f.out();
  const int dropped = int(o.squeeze_axis);
  if (in.ndim() < 0 && (out.ndim() < 0 || (o.squeeze_axis && out.ndim() == 1 && out[0] <= 1))) {
    return;  // (1,) may be all that is left, or a row of an array of two dimensions
  }
  const int n = in.ndim() < 0 ? out.ndim() + dropped : in.ndim();
  if (n == dropped) return;  // one axis stays
  const int at = ops::normalize_axis(o.axis, n, "SliceChannel");
  f.has_ndim(in, n);
  f.has_ndim(out, n - dropped);
  for (int i = 0; i < n; ++i) {
    if (i != at) f.same(in, i, out, i < at ? i : i - dropped);
  }
  if (o.squeeze_axis) {
    f.is(in, at, o.num_outputs);
  } else {
    f.same_product(in, {at}, out, {at}, o.num_outputs);
  }
  f.all_same(0, -1);
}

void learn(const op::SplitV2& o, ShapeFacts& f) {
  Shape& in = f.in();
  if (in.ndim() < 0) return;
  const int at = ops::normalize_axis(o.axis, in.ndim(), "split_v2");
  const bool is_even = o.sections > 0 && in[at] >= 0 && in[at] % o.sections == 0;
  for (int k = 0; k < f.num_outputs(); ++k) {
    Shape& out = f.out(k);
    if (o.squeeze_axis && in.ndim() < 2) return;
    f.has_ndim(out, in.ndim() - int(o.squeeze_axis));
    for (int i = 0; i < in.ndim(); ++i) {
      if (i != at) f.same(in, i, out, i < at ? i : i - int(o.squeeze_axis));
    }
    if (o.squeeze_axis) continue;
    if (o.sections > 0) {  // which may be of two lengths
      if (is_even) f.is(out, at, in[at] / o.sections);
    } else if (k + 1 < f.num_outputs()) {
      f.is(out, at, o.indices[k + 1] - o.indices[k]);
    } else if (in[at] >= 0) {
      f.is(out, at, in[at] - o.indices[k]);
    } else if (out[at] >= 0) {
      f.is(in, at, out[at] + o.indices[k]);
    }
  }
}

void learn(const op::Repeat& o, ShapeFacts& f) {
  Shape &in = f.in(), &out = f.out();
  if (in.ndim() < 0) return;
  if (!o.axis) {
    f.has_ndim(out, 1);
    return f.same_product(out, {0}, in, all_dims(in), o.repeats);
  }
  const int at = ops::normalize_axis(*o.axis, in.ndim(), "repeat");
  same_but(f, out, in, at);
  f.same_product(out, {at}, in, {at}, o.repeats);
}

void learn(const op::Tile& o, ShapeFacts& f) {
  Shape &in = f.in(), &out = f.out();
  if (in.ndim() < 0) return;
  const int n = std::max(in.ndim(), o.reps.ndim());
  f.has_ndim(out, n);
  for (int i = 1; i <= n; ++i) {  // from the right
    const int64_t times = i <= o.reps.ndim() ? o.reps[o.reps.ndim() - i] : 1;
    if (i <= in.ndim()) {
      f.same_product(out, {n - i}, in, {in.ndim() - i}, times);
    } else {
      f.is(out, n - i, times);
    }
  }
}

void learn(const op::Pad& o, ShapeFacts& f) {
  Shape &in = f.in(), &out = f.out();
  const int n = o.pad_width.size() / 2;
  f.has_ndim(in, n);
  f.has_ndim(out, n);
  for (int i = 0; i < n; ++i) {
    const int64_t added = o.pad_width[2 * i] + o.pad_width[2 * i + 1];
    if (in[i] >= 0) f.is(out, i, in[i] + added);
    if (out[i] >= added) f.is(in, i, out[i] - added);
  }
}

void learn(const op::BroadcastTo& o, ShapeFacts& f) {
  const int n = o.shape.ndim(), shift = n - f.in().ndim();
  f.has_ndim(f.out(), n);
  for (int i = 0; i < n; ++i) {
    const bool there = f.in().ndim() >= 0 && i >= shift;
    if (o.shape[i] != 0) {
      f.is(f.out(), i, o.shape[i]);
    } else if (there) {
      f.same(f.in(), i - shift, f.out(), i);
    }
  }
}

void learn(const op::BroadcastAxis& o, ShapeFacts& f) {
  Shape &in = f.in(), &out = f.out();
  if (in.ndim() < 0) f.has_ndim(in, out.ndim());
  if (in.ndim() < 0 || o.axis.ndim() != o.size.ndim()) return;
  f.has_ndim(out, in.ndim());
  uint32_t repeated = 0;
  for (int k = 0; k < o.axis.ndim(); ++k) {
    const int at = ops::normalize_axis(o.axis[k], in.ndim(), "broadcast_axis");
    repeated |= ops::bit(at);
    f.is(in, at, 1);
    f.is(out, at, o.size[k]);
  }
  for (int i = 0; i < in.ndim(); ++i) {
    if (!(repeated >> i & 1)) f.same(in, i, out, i);
  }
}

void learn(const op::BroadcastLike& o, ShapeFacts& f) {
  if (!o.lhs_axes) return f.same(f.out(), f.in(1));
  Shape &in = f.in(), &like = f.in(1), &out = f.out();
  if (in.ndim() < 0 || like.ndim() < 0 || !o.rhs_axes || o.rhs_axes->ndim() != o.lhs_axes->ndim()) return;
  f.has_ndim(out, in.ndim());
  uint32_t repeated = 0;
  for (int k = 0; k < o.lhs_axes->ndim(); ++k) {
    const int at = ops::normalize_axis((*o.lhs_axes)[k], in.ndim(), "broadcast_like");
    repeated |= ops::bit(at);
    f.same(out, at, like, ops::normalize_axis((*o.rhs_axes)[k], like.ndim(), "broadcast_like"));
  }
  for (int i = 0; i < in.ndim(); ++i) {
    if (!(repeated >> i & 1)) f.same(in, i, out, i);
  }
}

}  // namespace kaon::graph
