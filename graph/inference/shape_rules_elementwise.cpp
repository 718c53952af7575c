// Shapes of elementwise operators, reductions and orders.
#include <algorithm>

#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

void learn_broadcast(ShapeFacts& f) {
  if (wants_equal_shapes(f.node())) return f.all_same();
  Shape &a = f.in(0), &b = f.in(1), &out = f.out();
  if (a.ndim() < 0 || b.ndim() < 0) {
    Shape& known = a.ndim() < 0 ? b : a;
    Shape& other = a.ndim() < 0 ? a : b;
    if (known.ndim() < 0 || out.ndim() < 0) return;
    if (known.ndim() > out.ndim()) f.contradict(known, out);
    if (known.ndim() == out.ndim()) return;  // the other may have fewer dimensions
    f.has_ndim(other, out.ndim());
  }
  const int n = std::max(a.ndim(), b.ndim());
  f.has_ndim(out, n);
  for (int i = 1; i <= n; ++i) {  // from the right
    const int at = n - i, in_a = a.ndim() - i, in_b = b.ndim() - i;
    if (in_a < 0 || in_b < 0) {
      in_a < 0 ? f.same(b, in_b, out, at) : f.same(a, in_a, out, at);
      continue;
    }
    if (out[at] == 1) f.is(a, in_a, 1), f.is(b, in_b, 1);
    if (a[in_a] >= 0 && a[in_a] != 1) f.is(out, at, a[in_a]);
    if (b[in_b] >= 0 && b[in_b] != 1) f.is(out, at, b[in_b]);
    if (a[in_a] == 1) f.same(b, in_b, out, at);
    if (b[in_b] == 1) f.same(a, in_a, out, at);
  }
}

void learn(const op::Where&, ShapeFacts& f) {
  Shape &condition = f.in(0), &x = f.in(1);
  if (!condition.is_known()) return;  // as in MXNet: nothing follows without it
  f.same(x, f.in(2));
  f.same(x, f.out());
  f.same(x, f.in(2));
  if (x.ndim() < 0) return;
  if (condition.ndim() == x.ndim()) {
    f.same(condition, x);
  } else if (condition.ndim() == 1) {  // it chooses rows
    f.same(condition, 0, x, 0);
  }
  f.same(x, f.in(2));
  f.same(x, f.out());
}

void learn(const op::AmpMulticast&, ShapeFacts& f) {
  for (int i = 0; i < std::min(f.num_inputs(), f.num_outputs()); ++i) f.same(f.in(i), f.out(i));
}

namespace {
void learn_triangle(ShapeFacts& f) {
  if (f.in().ndim() < 0) return;
  if (f.in().ndim() > 1) return f.all_same();
  f.has_ndim(f.out(), 2);  // a row for each element
  for (int i = 0; i < 2 && f.in().ndim() == 1; ++i) f.same(f.in(), 0, f.out(), i);
}
}  // namespace

void learn(const op::Tril&, ShapeFacts& f) { learn_triangle(f); }
void learn(const op::Triu&, ShapeFacts& f) { learn_triangle(f); }

namespace {
// Along an axis of the array, or of all its elements in a row.
void learn_along(const std::optional<int>& axis, ShapeFacts& f) {
  if (axis) return f.all_same();
  f.has_ndim(f.out(), 1);
  std::vector<int> dims;
  for (int i = 0; i < f.in().ndim(); ++i) dims.push_back(i);
  if (f.in().ndim() >= 0) f.same_product(f.out(), {0}, f.in(), dims);
}
}  // namespace

void learn(const op::Sort& o, ShapeFacts& f) { learn_along(o.axis, f); }
void learn(const op::ArgSort& o, ShapeFacts& f) { learn_along(o.axis, f); }
void learn(const op::CumSum& o, ShapeFacts& f) { learn_along(o.axis, f); }

void learn(const op::TopK& o, ShapeFacts& f) {
  if (o.ret_typ == TopKReturn::mask) return f.all_same();
  if (!o.axis || f.in().ndim() < 1) return;
  const int n = f.in().ndim(), at = ops::normalize_axis(*o.axis, n, "topk");
  for (int k = 0; k < f.num_outputs(); ++k) {
    f.has_ndim(f.out(k), n);
    for (int i = 0; i < n; ++i) {
      if (i != at || o.k < 1) {
        f.same(f.out(k), i, f.in(), i);
      } else {
        f.is(f.out(k), i, o.k);
      }
    }
  }
}

}  // namespace kaon::graph
