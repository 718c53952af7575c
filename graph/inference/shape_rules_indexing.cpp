// Shapes of chosen elements, of sequences, of products of matrices and of recurrent layers.
#include <algorithm>

#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

namespace {

// The dimensions of `parts`, one after the other, are those of `whole`.
struct Part {
  Shape* shape;
  int begin, end;
};
void joined(ShapeFacts& f, Shape& whole, std::initializer_list<Part> parts) {
  int n = 0;
  for (const Part& p : parts) n += p.end - p.begin;
  f.has_ndim(whole, n);
  int at = 0;
  for (const Part& p : parts) {
    for (int i = p.begin; i < p.end; ++i) f.same(whole, at++, *p.shape, i);
  }
}

}  // namespace

void learn(const op::Take& o, ShapeFacts& f) {
  Shape &a = f.in(0), &indices = f.in(1), &out = f.out();
  if (a.ndim() < 1) return;
  const int at = ops::normalize_axis(o.axis, a.ndim(), "take");
  if (indices.ndim() < 0 && out.ndim() >= a.ndim() - 1) f.has_ndim(indices, out.ndim() - a.ndim() + 1);
  if (indices.ndim() < 0) return;
  joined(f, out, {{&a, 0, at}, {&indices, 0, indices.ndim()}, {&a, at + 1, a.ndim()}});
}

namespace {
void learn_embedding(int64_t input_dim, int64_t output_dim, ShapeFacts& f) {
  Shape &data = f.in(0), &out = f.out();
  f.is(f.in(1), Shape(input_dim, output_dim));
  if (data.ndim() < 0 && out.ndim() >= 1) f.has_ndim(data, out.ndim() - 1);
  if (data.ndim() < 0) return;
  Shape width(output_dim);
  joined(f, out, {{&data, 0, data.ndim()}, {&width, 0, 1}});
}
}  // namespace

void learn(const op::Embedding& o, ShapeFacts& f) { learn_embedding(o.input_dim, o.output_dim, f); }
void learn(const op::SparseEmbedding& o, ShapeFacts& f) { learn_embedding(o.input_dim, o.output_dim, f); }

void learn(const op::OneHot&, ShapeFacts& f) {
  if (f.in().ndim() < 0 && f.out().ndim() >= 1) f.has_ndim(f.in(), f.out().ndim() - 1);
  f.copies_dimensions();
}

void learn(const op::Pick& o, ShapeFacts& f) {
  Shape &data = f.in(0), &index = f.in(1), &out = f.out();
  if (data.ndim() < 1) return;
  const int n = data.ndim(), at = ops::normalize_axis(o.axis, n, "pick");
  if (n == 1) return f.is(out, Shape(1));
  Shape one(1);
  const auto without_axis = [&](Shape& s, bool keeps) {
    keeps ? joined(f, s, {{&data, 0, at}, {&one, 0, 1}, {&data, at + 1, n}})
          : joined(f, s, {{&data, 0, at}, {&data, at + 1, n}});
  };
  without_axis(out, o.keepdims);
  without_axis(index, index.ndim() < 0 ? o.keepdims : index.ndim() == n);
  without_axis(out, o.keepdims);
}

void learn(const op::BatchTake&, ShapeFacts& f) { f.same(f.in(1), f.out()); }

void learn(const op::GatherNd&, ShapeFacts& f) {
  Shape &data = f.in(0), &indices = f.in(1);
  if (data.ndim() < 0 || indices.ndim() < 1 || indices[0] < 0) return;
  const int m = int(std::min<int64_t>(indices[0], data.ndim()));
  if (indices.ndim() == 1 && m == data.ndim()) return;  // one element
  joined(f, f.out(), {{&indices, 1, indices.ndim()}, {&data, m, data.ndim()}});
}

void learn(const op::ScatterNd& o, ShapeFacts& f) {
  if (o.shape.is_known()) f.is(f.out(), o.shape);
}

namespace {
void learn_lengths(bool used, int batch_axis, ShapeFacts& f) {
  if (!used || f.num_inputs() < 2) return;
  f.has_ndim(f.in(1), 1);
  if (f.in().ndim() > batch_axis) f.same(f.in(), batch_axis, f.in(1), 0);
}
}  // namespace

void learn(const op::SequenceMask& o, ShapeFacts& f) {
  f.same(f.in(), f.out());
  learn_lengths(o.use_sequence_length, 1 - o.axis, f);
}

void learn(const op::SequenceReverse& o, ShapeFacts& f) {
  f.same(f.in(), f.out());
  learn_lengths(o.use_sequence_length, 1, f);
}

void learn(const op::SequenceLast& o, ShapeFacts& f) {
  Shape& in = f.in();
  if (in.ndim() < 0 && f.out().ndim() >= 1) f.has_ndim(in, f.out().ndim() + 1);
  if (in.ndim() >= 2) joined(f, f.out(), {{&in, 1 - o.axis, 2 - o.axis}, {&in, 2, in.ndim()}});
  learn_lengths(o.use_sequence_length, 1 - o.axis, f);
}

void learn(const op::Dot& o, ShapeFacts& f) {
  Shape &a = f.in(0), &b = f.in(1);
  if (a.ndim() < 1 || b.ndim() < 1) return;
  const int n = a.ndim(), m = b.ndim();
  const int in_a = o.transpose_a ? 0 : n - 1, in_b = o.transpose_b ? m - 1 : 0;
  f.same(a, in_a, b, in_b);
  if (n == 1 && m == 1) return f.is(f.out(), Shape(1));
  joined(f, f.out(), {{&a, 0, in_a}, {&a, in_a + 1, n}, {&b, 0, in_b}, {&b, in_b + 1, m}});
}

namespace {
// (..., n, k) times (..., k, m) = (..., n, m)
void learn_matrices(bool transpose_a, bool transpose_b, int ndim, ShapeFacts& f) {
  Shape &a = f.in(0), &b = f.in(1), &out = f.out();
  for (Shape* s : {&a, &b, &out}) f.has_ndim(*s, ndim);
  for (int i = 0; i < ndim - 2; ++i) {
    f.same(a, i, out, i), f.same(b, i, out, i), f.same(a, i, out, i);
  }
  const int row = ndim - 2, column = ndim - 1;
  f.same(a, transpose_a ? row : column, b, transpose_b ? column : row);
  f.same(a, transpose_a ? column : row, out, row);
  f.same(b, transpose_b ? row : column, out, column);
}
}  // namespace

void learn(const op::BatchDot& o, ShapeFacts& f) {
  if (f.in(0).ndim() < 0 && f.in(1).ndim() < 0) return;
  learn_matrices(o.transpose_a, o.transpose_b, 3, f);
}

void learn(const op::LinalgGemm2& o, ShapeFacts& f) {
  const int n = std::max(f.in(0).ndim(), f.in(1).ndim());
  if (n < 2 || o.axis != -2) return;
  learn_matrices(o.transpose_a, o.transpose_b, n, f);
}

void learn(const op::RNN& o, ShapeFacts& f) {
  Shape &data = f.in(0), &out = f.out();
  f.has_ndim(data, 3);
  f.has_ndim(out, 3);
  f.same(data, 0, out, 0);
  f.same(data, 1, out, 1);
  f.has_ndim(f.in(2), 3);
  f.same(data, 1, f.in(2), 1);
  f.probe();
  f.same(data, 1, out, 1);
  if (o.mode == RnnMode::lstm) f.same(data, 1, f.in(3), 1);
}

}  // namespace kaon::graph
