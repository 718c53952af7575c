#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/linalg/kernels/contraction.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Einsum::def = make_op_def<op::Einsum>();

namespace {

// The labels of an array's axes. Those of an ellipsis are the characters 1 to 8, the last axis 8, so that they are
// aligned from the right, and below all letters.
using Labels = std::string;
constexpr char last_of_ellipsis = 8;

// Labels to numbers.
using Sizes = std::array<int64_t, 128>;

struct Subscripts {
  std::vector<Labels> inputs;
  Labels output;
  Sizes sizes{};  // of each label: that which is not 1, where there is one
};

// Reads subscripts for arrays of these shapes; fail(text) throws.
class Parser {
 public:
  Parser(std::string_view text, std::vector<Shape> shapes, engine::FunctionRef<void(const std::string&)> fail)
      : text_(text), shapes_(std::move(shapes)), fail_(fail) {}

  Subscripts parse() {
    std::string compact;
    for (char c : text_) {
      if (c != ' ') compact += c;
    }
    const size_t arrow = compact.find("->");
    const std::string_view left = std::string_view(compact).substr(0, arrow);
    for (size_t begin = 0; begin <= left.size();) {
      const size_t end = std::min(left.find(',', begin), left.size());
      read_input(left.substr(begin, end - begin));
      begin = end + 1;
    }
    if (s_.inputs.size() != shapes_.size()) wrong(fmt::format("they are for {} arrays", s_.inputs.size()));
    s_.output = arrow == compact.npos ? implicit_output() : read_labels(compact.substr(arrow + 2), ellipsis_, true);
    check_output();
    return std::move(s_);
  }

 private:
  void wrong(const std::string& why) const {
    std::string shapes;
    for (const Shape& s : shapes_) shapes += (shapes.empty() ? "" : ", ") + s.str();
    fail_(fmt::format("subscripts \"{}\": {}; arrays of shapes {}", text_, why, shapes));
  }

  // The labels of a part of the text, with `ellipsis` labels for "...".
  Labels read_labels(std::string_view part, int ellipsis, bool is_output) const {
    Labels labels;
    bool has_ellipsis = false;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.substr(i, 3) == "..." && !has_ellipsis) {
        for (int k = ellipsis; k-- > 0;) labels += char(last_of_ellipsis - k);
        has_ellipsis = true;
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        labels += part[i];
      } else {
        wrong(fmt::format("'{}' is neither a letter nor part of one ellipsis", part[i]));
      }
    }
    if (is_output && !has_ellipsis && ellipsis > 0) wrong("the result lacks the ellipsis of an array");
    return labels;
  }

  void read_input(std::string_view part) {
    const size_t i = s_.inputs.size();
    if (i >= shapes_.size()) return s_.inputs.emplace_back(), void();
    const Shape& shape = shapes_[i];
    const bool has_ellipsis = part.find('.') != part.npos;
    const int letters = int(std::count_if(part.begin(), part.end(), [](char c) { return c != '.'; }));
    const int ellipsis = has_ellipsis ? shape.ndim() - letters : 0;
    if (ellipsis < 0 || (!has_ellipsis && letters != shape.ndim())) {
      wrong(fmt::format("\"{}\" does not name the {} axes of array {}", part, shape.ndim(), i));
    }
    ellipsis_ = std::max(ellipsis_, ellipsis);
    const Labels labels = read_labels(part, ellipsis, false);
    for (int axis = 0; axis < shape.ndim(); ++axis) note_size(labels, axis, shape[axis], i);
    s_.inputs.push_back(labels);
  }

  void note_size(const Labels& labels, int axis, int64_t size, size_t i) {
    const char label = labels[size_t(axis)];
    int64_t& known = s_.sizes[size_t(label)];
    const bool is_new = known == 0 && !seen(label);
    if (labels.find(label) != size_t(axis) && shapes_[i][int(labels.find(label))] != size) {
      wrong(fmt::format("the diagonal of array {} needs axes of equal sizes", i));
    }
    seen_ += label;
    if (is_new || known == 1) {
      known = size;
    } else if (size != 1 && size != known) {
      wrong(fmt::format("{} has sizes {} and {}", describe(label), known, size));
    }
  }
  bool seen(char label) const { return seen_.find(label) != seen_.npos; }
  static std::string describe(char label) {
    return label <= last_of_ellipsis ? "an axis of the ellipsis" : fmt::format("'{}'", label);
  }

  Labels implicit_output() const {
    Labels all, once;
    for (const Labels& l : s_.inputs) all += l;
    std::sort(all.begin(), all.end());
    for (char c : all) {
      const bool is_ellipsis = c <= last_of_ellipsis;
      if (is_ellipsis ? once.find(c) == once.npos : std::count(all.begin(), all.end(), c) == 1) once += c;
    }
    return once;
  }

  void check_output() const {
    for (char c : s_.output) {
      if (!seen(c)) wrong(fmt::format("{} of the result is in no array", describe(c)));
      if (std::count(s_.output.begin(), s_.output.end(), c) > 1) {
        wrong(fmt::format("{} is twice in the result", describe(c)));
      }
    }
    if (s_.output.size() > size_t(Shape::max_ndim)) wrong(fmt::format("more than {} axes", Shape::max_ndim));
  }

  std::string_view text_;
  std::vector<Shape> shapes_;
  engine::FunctionRef<void(const std::string&)> fail_;
  Subscripts s_;
  Labels seen_;
  int ellipsis_ = 0;
};

Shape shape_of(const Labels& labels, const Sizes& sizes) {
  Shape shape;
  for (char c : labels) shape.push_back(sizes[size_t(c)]);
  return shape;
}

// An array whose axes have labels, each once.
struct Term {
  NDArray x;
  Labels labels;

  bool has(char c) const { return labels.find(c) != labels.npos; }
  int axis(char c) const { return int(labels.find(c)); }
  Shape axes(const Labels& of) const {
    Shape all;
    for (char c : of) all.push_back(axis(c));
    return all;
  }
};

// Without labels that occur twice, by taking diagonals, which become the last axis.
void take_diagonals(Term& t) {
  for (size_t i = 0; i < t.labels.size();) {
    const char label = t.labels[i];
    const size_t again = t.labels.find(label, i + 1);
    if (again == t.labels.npos) {
      ++i;
      continue;
    }
    t.x = nd.diag(t.x, {.axis1 = int(i), .axis2 = int(again)});
    t.labels.erase(again, 1), t.labels.erase(i, 1);
    t.labels += label;
  }
}

// Without axes of size 1 whose label has another size elsewhere.
void drop_repeated(Term& t, const Sizes& sizes) {
  Labels kept;
  Shape shape;
  for (int i = 0; i < t.x.shape().ndim(); ++i) {
    const char label = t.labels[size_t(i)];
    if (t.x.shape()[i] != sizes[size_t(label)]) continue;
    kept += label;
    shape.push_back(t.x.shape()[i]);
  }
  if (kept.size() == t.labels.size()) return;
  t.x = shaped(t.x, at_least_1d(shape));
  t.labels = kept;
}

// Sums over the labels that are not in `needed`.
void sum_others(Term& t, const Labels& needed) {
  Shape axes;
  Labels kept;
  for (char c : t.labels) {
    if (needed.find(c) == needed.npos) {
      axes.push_back(t.axis(c));
    } else {
      kept += c;
    }
  }
  if (axes.empty()) return;
  t.x = nd.sum(t.x, {.axis = axes});
  t.labels = kept;
}

// The labels of a product of two terms that are needed afterwards.
Labels labels_of_product(const Term& a, const Term& b, const Labels& needed) {
  Labels labels;
  const auto add = [&](const Term& t, bool shared, const Term& other) {
    for (char c : t.labels) {
      if (needed.find(c) != needed.npos && other.has(c) == shared) labels += c;
    }
  };
  add(a, true, b), add(a, false, b), add(b, false, a);
  return labels;
}

// The sum of their products over what is not needed: batch axes first, then those of a alone, then those of b alone.
Term contract(const Term& a, const Term& b, const Labels& needed, const Sizes& sizes) {
  Labels batch, summed, rows, columns;
  for (char c : a.labels) (!b.has(c) ? rows : needed.find(c) != needed.npos ? batch : summed) += c;
  for (char c : b.labels) {
    if (!a.has(c)) columns += c;
  }
  const MatrixBatch left = as_matrices(a.x, a.axes(batch), a.axes(rows), a.axes(summed));
  const MatrixBatch right = as_matrices(b.x, b.axes(batch), b.axes(summed), b.axes(columns));
  const Labels labels = batch + rows + columns;
  if (rows.empty() && columns.empty() && !batch.empty() && !summed.empty() && is_floating(a.x.dtype()) &&
      !is_half(a.x.dtype())) {
    // a product of matrices for each number would cost more than it; 16-bit products would be rounded before their sum
    const NDArray left = reordered(a.x, a.axes(batch + summed)), right = reordered(b.x, b.axes(batch + summed));
    Shape axes;
    for (size_t i = 0; i < summed.size(); ++i) axes.push_back(int64_t(batch.size() + i));
    return {nd.sum(left * right, {.axis = axes}), labels};
  }
  return {shaped(batch_product(left, right), at_least_1d(shape_of(labels, sizes))), labels};
}

double elements_of(const Labels& labels, const Sizes& sizes) {
  double n = 1;
  for (char c : labels) n *= double(sizes[size_t(c)]);
  return n;
}

// The labels that the result or other terms than i and j have.
Labels needed_beside(const std::vector<Term>& terms, size_t i, size_t j, const Labels& output) {
  Labels needed = output;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (k != i && k != j) needed += terms[k].labels;
  }
  return needed;
}

// The two terms that make the smallest product, compared with what they replace.
std::pair<size_t, size_t> next_pair(const std::vector<Term>& terms, const Labels& output, const Sizes& sizes) {
  std::pair<size_t, size_t> best{0, 1};
  double least = std::numeric_limits<double>::infinity();
  for (size_t j = 1; j < terms.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      const Labels product = labels_of_product(terms[i], terms[j], needed_beside(terms, i, j, output));
      const double grown =
          elements_of(product, sizes) - elements_of(terms[i].labels, sizes) - elements_of(terms[j].labels, sizes);
      if (grown < least) least = grown, best = {i, j};
    }
  }
  return best;
}

}  // namespace

void op::Einsum::infer(InferContext& c) const {
  if (num_args < 1) c.fail_value(fmt::format("num_args must be at least 1, got {}", num_args));
  expect_numbers(c);
  std::vector<Shape> shapes;
  for (int i = 0; i < c.num_inputs(); ++i) shapes.push_back(c.shape(i));
  const Subscripts s = Parser(subscripts.text, shapes, [&](const std::string& why) { c.fail(why); }).parse();
  c.set_output(at_least_1d(shape_of(s.output, s.sizes)), c.dtype());
}

void op::Einsum::compose(ComposeContext& c) const {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.num_inputs(); ++i) shapes.push_back(c.input(i).shape());
  const Subscripts s = Parser(subscripts.text, shapes, [](const std::string& why) { throw ShapeError(why); }).parse();
  if (s.inputs.size() == 1 && s.inputs[0] == s.output) {
    return c.set(shaped(c.input(), c.output().shape));
  }
  std::vector<Term> terms;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    terms.push_back({c.input(int(i)), s.inputs[i]});
    take_diagonals(terms.back());
    drop_repeated(terms.back(), s.sizes);
  }
  for (size_t i = 0; i < terms.size(); ++i) sum_others(terms[i], needed_beside(terms, i, i, s.output));
  while (terms.size() > 1) {
    const auto [i, j] = next_pair(terms, s.output, s.sizes);
    terms[i] = contract(terms[i], terms[j], needed_beside(terms, i, j, s.output), s.sizes);
    terms.erase(terms.begin() + int64_t(j));
  }
  c.set(shaped(reordered(terms[0].x, terms[0].axes(s.output)), c.output().shape));
}

}  // namespace kaon
