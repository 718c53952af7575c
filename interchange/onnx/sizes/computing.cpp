#include "kaon/interchange/onnx/sizes/computing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/interchange/onnx/convert/program.h"
#include "kaon/interchange/onnx/format/element_type.h"
#include "kaon/ops/functions.h"

namespace kaon::onnx::exporting {

namespace {

constexpr int64_t kMaxNumbers = 64;  // of an array whose numbers may each depend on sizes

std::vector<double> numbers_of(const NDArray& array) {
  return array.astype(DType::float64).reshape({-1}).asvector<double>();
}

// a, a + b, a + 2 b ...
struct Range {
  double first = 0, step = 0;
};

// The array as a range, in any shape. Nothing: it is none.
std::optional<Range> as_range(const NDArray& array) {
  if (array.size() < 2 || array.dtype() == DType::boolean) return std::nullopt;
  const std::vector<double> values = numbers_of(array);
  const Range range{values[0], values[1] - values[0]};
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != range.first + double(i) * range.step) return std::nullopt;
  }
  return range;
}

NDArray one_of(const NDArray& array) { return array.reshape({-1}).slice(0, 1); }

bool is_uniform(const NDArray& array) {
  return array.size() > 0 &&
         convert::same_values(nd.broadcast_to(one_of(array), {Shape(array.size())}), array.reshape({-1}));
}

bool is_whole(double v) { return std::abs(v) < 9e15 && v == std::floor(v); }

}  // namespace

// A matrix whose element (i, j) is `before` where j - i is less than `at`, `mid` where it is that, and else `behind`.
struct Computing::Band {
  int64_t at = 0;
  double before = 0, mid = 0, behind = 0;
  bool has_same_values(const Band& other) const {
    return before == other.before && mid == other.mid && behind == other.behind;
  }

  // Of the last two dimensions, the others being 1.
  static std::optional<Band> of(const NDArray& array) {
    const int rank = array.ndim();
    if (rank < 2 || array.size() != array.shape()[rank - 2] * array.shape()[rank - 1]) return std::nullopt;
    const int64_t rows = array.shape()[rank - 2], columns = array.shape()[rank - 1];
    if (rows < 2 || columns < 2) return std::nullopt;
    const std::vector<double> values = numbers_of(array);
    const auto element = [&](int64_t i, int64_t j) { return values[size_t(i * columns + j)]; };
    for (int64_t i = 1; i < rows; ++i) {
      for (int64_t j = 1; j < columns; ++j) {
        if (element(i, j) != element(i - 1, j - 1)) return std::nullopt;
      }
    }
    const auto diagonal = [&](int64_t d) { return element(std::max<int64_t>(0, -d), std::max<int64_t>(0, d)); };
    Band band;
    band.before = diagonal(1 - rows), band.behind = diagonal(columns - 1);
    int64_t d = 1 - rows;
    while (d < columns && diagonal(d) == band.before) ++d;
    if (d == columns) return std::nullopt;  // of one value
    const bool is_step = diagonal(d) == band.behind;
    band.at = is_step ? d - 1 : d;
    band.mid = diagonal(band.at);
    for (++d; d < columns; ++d) {
      if (diagonal(d) != band.behind) return std::nullopt;
    }
    return band;
  }
};

std::optional<std::vector<Formula>> Computing::dims_of(size_t i) const {
  std::vector<Formula> dims;
  const int rank = at(0, i).ndim();
  for (size_t g = 0; g < graphs_.size(); ++g) {
    if (at(g, i).ndim() != rank) return std::nullopt;
  }
  for (int axis = 0; axis < rank; ++axis) {
    std::vector<int64_t> values;
    for (size_t g = 0; g < graphs_.size(); ++g) values.push_back(at(g, i).shape()[axis]);
    std::optional<Formula> f = fit_(values);
    if (!f) return std::nullopt;
    dims.push_back(std::move(*f));
  }
  return dims;
}

std::optional<Formula> Computing::count_of(size_t i) const {
  std::vector<int64_t> counts;
  for (size_t g = 0; g < graphs_.size(); ++g) counts.push_back(at(g, i).size());
  return fit_(counts);
}

std::optional<std::vector<Formula>> Computing::numbers(size_t i) const {
  const NDArray& first = at(0, i);
  if (first.dtype() != DType::int64 || first.ndim() > 1 || first.size() > kMaxNumbers) return std::nullopt;
  std::vector<Formula> numbers;
  for (size_t k = 0; k < size_t(first.size()); ++k) {
    std::vector<int64_t> values;
    for (size_t g = 0; g < graphs_.size(); ++g) {
      if (at(g, i).shape() != first.shape()) return std::nullopt;
      values.push_back(at(g, i).data<const int64_t>()[k]);
    }
    std::optional<Formula> f = fit_(values);
    if (!f) return std::nullopt;
    numbers.push_back(std::move(*f));
  }
  return numbers;
}

// One of the sizes, (1,).
const std::string& Computing::size(size_t name) {
  std::string& value = sizes_[name];
  if (value.empty()) {
    const NamedSize& n = names_[name];
    const auto& [input, axis] = n.places[0];
    value = builder().nodes("Shape", {builder().graph().inputs[input].name},
                            {integer("start", axis), integer("end", axis + 1)}, 1, n.name)[0];
  }
  return value;
}

const std::string& Computing::constant(int64_t value) {
  std::string& name = constants_[value];
  if (name.empty()) name = builder().constant({value});
  return name;
}

const std::string& Computing::number(const Formula& formula) {
  std::string& value = numbers_[formula];
  if (!value.empty()) return value;
  const std::vector<int64_t>& terms = formula.terms;
  std::string sum = terms[0] == 0 && !formula.is_constant() ? "" : constant(terms[0]);
  for (size_t at = 1; at < terms.size(); ++at) {
    if (terms[at] == 0) continue;
    std::string product = terms[at] == 1 ? "" : constant(terms[at]);
    for (size_t name = 0; name < names_.size(); ++name) {
      if ((at >> name & 1) == 0) continue;
      product = product.empty() ? size(name) : node("Mul", {product, size(name)});
    }
    sum = sum.empty() ? product : node("Add", {sum, product});
  }
  if (formula.divisor != 1) sum = node("Div", {sum, constant(formula.divisor)});
  if (formula.factor != 1) sum = node("Mul", {sum, constant(formula.factor)});
  if (formula.offset != 0) sum = node("Add", {sum, constant(formula.offset)});
  return value = sum;
}

std::string Computing::node(std::string_view op_type, const std::vector<std::string>& inputs,
                            std::vector<Attribute> attributes) {
  return builder().nodes(op_type, inputs, std::move(attributes), 1, "size")[0];
}

std::string Computing::cast(const std::string& value, DType dtype) {
  return node("Cast", {value}, {integer("to", int64_t(format::element_type_of(dtype)))});
}

std::string Computing::scalar(const Formula& f) { return node("Squeeze", {number(f), constant(0)}); }

std::string Computing::list(const std::vector<Formula>& numbers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    std::vector<int64_t> known;
    while (i < numbers.size() && numbers[i].is_constant()) known.push_back(numbers[i++].terms[0]);
    if (!known.empty()) parts.push_back(builder().constant(known));
    if (i < numbers.size()) parts.push_back(number(numbers[i++]));
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {integer("axis", 0)});
}

std::string Computing::counted(const Formula& count) {
  return node("Range", {builder().scalar(0, DType::int64), scalar(count), builder().scalar(1, DType::int64)});
}

std::string Computing::shaped(const std::string& value, const std::vector<Formula>& dims) {
  return dims.size() == 1 ? value : node("Reshape", {value, list(dims)}, {integer("allowzero", 1)});
}

std::string Computing::value(const std::vector<double>& numbers, DType dtype) {
  const auto whole = [&](auto of) -> std::optional<Formula> {
    std::vector<int64_t> all;
    for (const double v : numbers) {
      const double w = of(v);
      if (!is_whole(w)) return std::nullopt;
      all.push_back(int64_t(w));
    }
    return fit_(all);
  };
  if (dtype == DType::boolean) return "";
  if (const auto f = whole([](double v) { return v; })) {
    return dtype == DType::int64 ? number(*f) : cast(number(*f), dtype);
  }
  if (dtype != DType::float32 && dtype != DType::float64) return "";
  // 1 / n, as a mean has it
  const auto f = whole([&](double v) {
    const double n = std::round(1 / v);
    const double back = dtype == DType::float32 ? double(float(1 / n)) : 1 / n;
    return back == v ? n : 0.5;
  });
  if (f) return node("Div", {builder().scalar(1, dtype), cast(number(*f), dtype)});
  // sqrt(n) and 1 / sqrt(n), as attention is scaled: rounded once, from float64
  for (const bool is_reciprocal : {true, false}) {
    const auto of = [&](double n) { return is_reciprocal ? 1 / std::sqrt(n) : std::sqrt(n); };
    const auto square = whole([&](double v) {
      const double n = std::round(is_reciprocal ? 1 / (v * v) : v * v);
      const double back = dtype == DType::float32 ? double(float(of(n))) : of(n);
      return back == v ? n : 0.5;
    });
    if (!square) continue;
    std::string root = node("Sqrt", {cast(number(*square), DType::float64)});
    if (is_reciprocal) root = node("Div", {builder().scalar(1, DType::float64), root});
    return dtype == DType::float64 ? root : cast(root, dtype);
  }
  return "";
}

std::string Computing::uniform(size_t i, const std::vector<Formula>& dims) {
  const NDArray first = at(0, i);
  bool is_same = true;
  std::vector<double> numbers;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    if (!is_uniform(at(g, i))) return "";
    is_same &= convert::same_values(one_of(at(g, i)), one_of(first));
    numbers.push_back(numbers_of(one_of(at(g, i)))[0]);
  }
  const std::string one =
      is_same ? builder().initializer(one_of(first).copy(), "value") : value(numbers, first.dtype());
  if (one.empty()) return "";
  return dims.empty() ? node("Squeeze", {one, constant(0)}) : node("Expand", {one, list(dims)});
}

std::string Computing::range(size_t i, const std::vector<Formula>& dims) {
  const auto range = as_range(at(0, i));
  if (!range) return "";
  std::vector<double> firsts;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    const auto other = as_range(at(g, i));
    if (!other || other->step != range->step) return "";
    firsts.push_back(other->first);
  }
  const auto count = count_of(i);
  if (!count) return "";
  const DType dtype = at(0, i).dtype();
  const bool is_fixed = std::all_of(firsts.begin(), firsts.end(), [&](double f) { return f == firsts[0]; });
  const std::string first = is_fixed ? "" : value(firsts, dtype);
  if (!is_fixed && first.empty()) return "";
  std::string value = cast(counted(*count), dtype);
  if (range->step != 1) value = node("Mul", {value, builder().scalar(range->step, dtype)});
  if (!is_fixed) value = node("Add", {value, first});
  else if (range->first != 0) value = node("Add", {value, builder().scalar(range->first, dtype)});
  return shaped(value, dims);
}

std::string Computing::band(size_t i, const std::vector<Formula>& dims) {
  const auto first = Band::of(at(0, i));
  if (!first) return "";
  std::vector<int64_t> places;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    const auto other = Band::of(at(g, i));
    if (!other || !other->has_same_values(*first)) return "";
    places.push_back(other->at);
  }
  const auto place = fit_(places);
  if (!place) return "";
  const Formula &rows = dims[dims.size() - 2], &columns = dims.back();
  const std::string row_numbers = node("Reshape", {counted(rows), builder().constant({-1, 1})});
  const std::string apart = node("Sub", {counted(columns), row_numbers});
  // in a dtype that runtimes choose by
  const DType dtype = at(0, i).dtype();
  const DType wide = dtype == DType::float64 ? dtype : is_floating(dtype) ? DType::float32 : DType::int64;
  const auto scalar = [&](double v) { return builder().scalar(v, wide); };
  std::string value =
      node("Where", {node("Greater", {apart, number(*place)}), scalar(first->behind), scalar(first->before)});
  if (first->mid != first->before)
    value = node("Where", {node("Equal", {apart, number(*place)}), scalar(first->mid), value});
  if (wide != dtype) value = cast(value, dtype);
  return dims.size() == 2 ? value : shaped(value, dims);
}

// first + i (last - first) / (count - 1), as linspace has it, or over the count where it has no end, but for rounding.
std::string Computing::points(size_t i, const std::vector<Formula>& dims) {
  const DType dtype = at(0, i).dtype();
  if (dtype != DType::float32 && dtype != DType::float64) return "";
  const double unit =
      dtype == DType::float32 ? double(std::numeric_limits<float>::epsilon()) : std::numeric_limits<double>::epsilon();
  const auto count = count_of(i);
  if (!count) return "";
  std::vector<std::vector<double>> all;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    all.push_back(numbers_of(at(g, i)));
    if (all[g].size() < 2 || all[g][0] != all[0][0]) return "";
  }
  const double first = all[0][0];
  const bool has_end = std::ranges::all_of(all, [&](const auto& v) { return v.back() == all[0].back(); });
  double last = all[0].back();
  if (!has_end) {  // one step behind the last point, which the most points say best
    const auto& most = *std::ranges::max_element(all, {}, [](const auto& v) { return v.size(); });
    last = first + (most.back() - first) / double(most.size() - 1) * double(most.size());
    if (dtype == DType::float32) last = double(float(last));
  }
  const double tolerance = 4 * unit * std::max(std::abs(first), std::abs(last));
  for (const std::vector<double>& values : all) {
    const double step = (last - first) / double(values.size() - size_t(has_end));
    for (size_t k = 0; k < values.size(); ++k) {
      if (!(std::abs(values[k] - (first + double(k) * step)) <= tolerance)) return "";
    }
  }
  const auto scalar = [&](double v) { return builder().scalar(v, DType::float64); };
  const std::string parts = has_end ? node("Sub", {number(*count), constant(1)}) : number(*count);
  const std::string steps = node("Max", {parts, constant(1)});  // one point is the first
  const std::string along = node("Div", {cast(counted(*count), DType::float64), cast(steps, DType::float64)});
  std::string value = node("Add", {node("Mul", {along, scalar(last - first)}), scalar(first)});
  if (dtype != DType::float64) value = cast(value, dtype);
  return shaped(value, dims);
}

// Numbers of an array of one shape, each by its own formula.
std::string Computing::few(size_t i) {
  const NDArray first = at(0, i);
  if (first.size() == 0 || first.size() > kMaxNumbers) return "";
  for (size_t g = 0; g < graphs_.size(); ++g) {
    if (at(g, i).shape() != first.shape()) return "";
  }
  std::vector<std::string> parts;
  for (size_t k = 0; k < size_t(first.size()); ++k) {
    std::vector<double> numbers;
    for (size_t g = 0; g < graphs_.size(); ++g) numbers.push_back(numbers_of(at(g, i))[k]);
    parts.push_back(value(numbers, first.dtype()));
    if (parts.back().empty()) return "";
  }
  const std::string all = parts.size() == 1 ? parts[0] : node("Concat", parts, {integer("axis", 0)});
  const std::vector<int64_t> dims(first.shape().begin(), first.shape().end());
  return node("Reshape", {all, builder().constant(dims)});
}

std::string Computing::array(size_t i) {
  const auto dims = dims_of(i);
  if (!dims) return "";
  std::string made = uniform(i, *dims);
  if (made.empty()) made = range(i, *dims);
  if (made.empty()) made = band(i, *dims);
  if (made.empty()) made = points(i, *dims);
  if (made.empty()) made = few(i);
  return made;
}

}  // namespace kaon::onnx::exporting
