// Strings, which no array has: what is made of them is computed while the model is converted, and the program holds for
// these strings.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <unordered_map>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

const Value& text(const Call& c, int i) {
  const Value& v = c.input(i);
  if (v.kind != Value::Kind::strings) c.fail(fmt::format("input {} must be a tensor of strings", i));
  return v;
}

// The element of an array of shape `s` that is at `place` of what it is broadcast to.
size_t broadcast_place(int64_t place, const Shape& s, const Shape& to) {
  int64_t at = 0, step = 1;
  for (int i = to.ndim() - 1, k = s.ndim() - 1; k >= 0; --i, --k) {
    if (s[k] != 1) at += place % to[i] * step;
    step *= s[k];
    place /= to[i];
  }
  return size_t(at);
}

template <class F>
auto combined(const Value& a, const Value& b, F&& fn) {
  const Shape s = ops::broadcast_shapes(a.strings_shape, b.strings_shape, "strings");
  std::vector<decltype(fn(std::string(), std::string()))> all;
  for (int64_t i = 0; i < s.size(); ++i) {
    all.push_back(
        fn(a.strings[broadcast_place(i, a.strings_shape, s)], b.strings[broadcast_place(i, b.strings_shape, s)]));
  }
  return std::pair(std::move(all), s);
}

void concat(Call& c) {
  auto [strings, shape] =
      combined(text(c, 0), text(c, 1), [](const std::string& a, const std::string& b) { return a + b; });
  c.set(Value::text(std::move(strings), shape));
}

// Parts between delimiters, or between runs of white space; at most maxsplit cuts, 0 being any number.
std::vector<std::string> parts_of(const std::string& s, const std::string& delimiter, int64_t most) {
  std::vector<std::string> parts;
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  if (delimiter.empty()) {
    size_t at = s.find_first_not_of(kSpace);
    while (at != std::string::npos) {
      if (int64_t(parts.size()) == most) {
        parts.push_back(s.substr(at, s.find_last_not_of(kSpace) + 1 - at));
        break;
      }
      const size_t end = s.find_first_of(kSpace, at);
      parts.push_back(s.substr(at, end - at));
      at = s.find_first_not_of(kSpace, end);
    }
    return parts;
  }
  size_t at = 0;
  while (int64_t(parts.size()) < most) {
    const size_t end = s.find(delimiter, at);
    if (end == std::string::npos) break;
    parts.push_back(s.substr(at, end - at));
    at = end + delimiter.size();
  }
  parts.push_back(s.substr(at));
  return parts;
}

void split(Call& c) {
  const Value& x = text(c, 0);
  const std::string delimiter = c.text("delimiter", "");
  const int64_t most = c.integer("maxsplit", std::numeric_limits<int64_t>::max());
  std::vector<std::vector<std::string>> all;
  size_t width = 0;
  std::vector<int64_t> counts;
  for (const std::string& s : x.strings) {
    all.push_back(s.empty() && delimiter.empty() ? std::vector<std::string>() : parts_of(s, delimiter, most));
    counts.push_back(int64_t(all.back().size()));
    width = std::max(width, all.back().size());
  }
  std::vector<std::string> strings;
  for (auto& parts : all) {
    parts.resize(width);
    strings.insert(strings.end(), parts.begin(), parts.end());
  }
  Shape shape = x.strings_shape;
  shape.push_back(int64_t(width));
  c.set(0, Value::text(std::move(strings), shape));
  c.set(1, Value::constant(NDArray::from(counts.data(), counts.size(), x.strings_shape, DType::int64)));
}

void regex_full_match(Call& c) {
  const Value& x = text(c, 0);
  std::vector<uint8_t> matches;
  try {
    const std::regex pattern(c.text("pattern", ""), std::regex::ECMAScript);
    for (const std::string& s : x.strings) matches.push_back(std::regex_match(s, pattern));
  } catch (const std::regex_error& e) {
    c.fail(fmt::format("pattern '{}': {}", c.text("pattern", ""), e.what()));
  }
  c.set(Value::constant(NDArray::from(matches.data(), matches.size(), x.strings_shape, DType::boolean)));
}

// Of ASCII letters, whatever the locale.
std::string in_case(std::string s, bool upper) {
  for (char& ch : s) {
    if (upper && ch >= 'a' && ch <= 'z') ch = char(ch - 'a' + 'A');
    if (!upper && ch >= 'A' && ch <= 'Z') ch = char(ch - 'A' + 'a');
  }
  return s;
}

// (n) or (1, n) words, without those of a list, in another case.
void normalizer(Call& c) {
  const Value& x = text(c, 0);
  const std::string action = c.text("case_change_action", "NONE");
  const bool sensitive = c.integer("is_case_sensitive", 0) != 0;
  std::vector<std::string> stop = c.texts("stopwords");
  if (!sensitive)
    for (std::string& s : stop) s = in_case(s, false);
  std::vector<std::string> kept;
  for (const std::string& s : x.strings) {
    const std::string key = sensitive ? s : in_case(s, false);
    if (std::find(stop.begin(), stop.end(), key) != stop.end()) continue;
    kept.push_back(action == "NONE" ? s : in_case(s, action == "UPPER"));
  }
  if (kept.empty()) kept.emplace_back();
  const int64_t n = int64_t(kept.size());
  c.set(Value::text(std::move(kept), x.strings_shape.ndim() == 2 ? Shape(1, n) : Shape(n)));
}

// Keys to values, from lists of attributes or tensors.
void label_encoder(Call& c) {
  const auto list = [&](const std::string& of) -> Value {
    if (const auto* a = c.node().find(of + "_tensor"); a && !a->tensors.empty()) {
      const format::Tensor& t = a->tensors[0];
      return t.type == ElementType::string ? Value::text(t.strings, t.shape()) : Value::constant(t.values(), t.type);
    }
    if (c.has(std::string_view(of + "_strings"))) {
      std::vector<std::string> s = c.texts(of + "_strings");
      const int64_t n = int64_t(s.size());
      return Value::text(std::move(s), Shape(n));
    }
    if (c.has(std::string_view(of + "_int64s"))) {
      const std::vector<int64_t> v = c.integers(of + "_int64s");
      return Value::constant(NDArray::from(v.data(), v.size(), Shape(int64_t(v.size())), DType::int64));
    }
    const std::vector<double> v = c.reals(of + "_floats");
    return Value::constant(NDArray::from(v.data(), v.size(), Shape(int64_t(v.size()))));
  };
  const Value keys = list("keys"), values = list("values");
  const auto words = [&](const Value& v) {
    if (v.kind == Value::Kind::strings) return v.strings;
    std::vector<std::string> all;
    for (double d : c.conversion().read(v).asvector<double>()) all.push_back(fmt::format("{}", d));
    return all;
  };
  const std::vector<std::string> from = words(keys), wanted = words(c.input(0));
  const Shape shape = c.input(0).shape();
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < from.size(); ++i) places.emplace(from[i], i);
  const auto chosen = [&](const auto& of, const auto& otherwise) {
    std::decay_t<decltype(of)> all;
    for (const std::string& w : wanted) {
      const auto at = places.find(w);
      all.push_back(at == places.end() ? otherwise : of[at->second]);
    }
    return all;
  };
  const auto* given = c.node().find("default_tensor");
  if (values.kind == Value::Kind::strings) {
    const std::string otherwise = given && !given->tensors.empty() && !given->tensors[0].strings.empty()
                                      ? given->tensors[0].strings[0]
                                      : c.text("default_string", "_Unused");
    return c.set(Value::text(chosen(values.strings, otherwise), shape));
  }
  double otherwise =
      values.dtype() == DType::int64 ? double(c.integer("default_int64", -1)) : c.real("default_float", -0.0);
  if (given && !given->tensors.empty()) otherwise = given->tensors[0].values().asvector<double>()[0];
  const std::vector<double> all = chosen(values.known.asvector<double>(), otherwise);
  c.set(Value::constant(NDArray::from(all.data(), all.size(), shape, values.dtype()), values.type));
}

// How often each of the pool's n-grams is in rows of words or numbers, with up to max_skip_count others between.
void tf_idf(Call& c) {
  std::vector<std::string> x;
  if (c.input(0).kind == Value::Kind::strings) x = c.input(0).strings;
  else
    for (int64_t v : c.integers(0)) x.push_back(std::to_string(v));
  const Shape shape = c.input(0).shape();
  const int64_t rows = shape.ndim() == 2 ? shape[0] : 1, length = shape.ndim() == 2 ? shape[1] : shape.size();
  std::vector<std::string> pool = c.texts("pool_strings");
  if (pool.empty())
    for (int64_t v : c.integers("pool_int64s")) pool.push_back(std::to_string(v));
  const std::vector<int64_t> begins = c.integers("ngram_counts"), columns = c.integers("ngram_indexes");
  const std::vector<double> weights = c.reals("weights");
  const int64_t least = c.integer("min_gram_length", 1), most = c.integer("max_gram_length", 1),
                skips = c.integer("max_skip_count", 0);
  const int64_t width = columns.empty() ? 0 : *std::max_element(columns.begin(), columns.end()) + 1;
  std::vector<float> result(size_t(rows * width));
  size_t gram = 0;
  for (size_t level = 0; level < begins.size(); ++level) {
    const size_t n = level + 1, begin = size_t(begins[level]);
    const size_t end = level + 1 < begins.size() ? size_t(begins[level + 1]) : pool.size();
    if (begin > end || end > pool.size()) c.fail("ngram_counts do not fit the pool");
    for (size_t at = begin; at + n <= end; at += n, ++gram) {
      if (gram >= columns.size()) c.fail("ngram_indexes are too few");
      if (int64_t(n) < least || int64_t(n) > most) continue;
      const int64_t steps = n == 1 ? 1 : skips + 1;
      for (int64_t row = 0; row < rows; ++row) {
        float& count = result[size_t(row * width + columns[gram])];
        for (int64_t step = 1; step <= steps; ++step) {
          for (int64_t first = 0; first + int64_t(n - 1) * step < length; ++first) {
            bool equal = true;
            for (size_t k = 0; equal && k < n; ++k)
              equal = x[size_t(row * length + first + int64_t(k) * step)] == pool[at + k];
            count += equal;
          }
        }
      }
    }
  }
  const std::string mode = c.text("mode", "TF");
  for (size_t i = 0; mode != "TF" && i < columns.size(); ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      float& count = result[size_t(row * width + columns[i])];
      const float weight = i < weights.size() ? float(weights[i]) : 1;
      count = mode == "IDF" ? (count > 0 ? weight : 0) : count * weight;
    }
  }
  c.set(Value::constant(
      NDArray::from(result.data(), result.size(), shape.ndim() == 2 ? Shape(rows, width) : Shape(width))));
}

void binarizer(Call& c) { c.set(cast(c.x() > c.real("threshold", 0), c.dtype())); }

constexpr Row text_table[] = {
    {"StringConcat", concat},
    {"StringSplit", split},
    {"RegexFullMatch", regex_full_match},
    {"StringNormalizer", normalizer},
    {"TfIdfVectorizer", tf_idf},
    {"LabelEncoder", label_encoder, 1, "ai.onnx.ml"},
    {"Binarizer", binarizer, 1, "ai.onnx.ml"},
};

}  // namespace

std::vector<uint8_t> equal_strings(const Value& a, const Value& b, Shape& shape) {
  auto [equal, s] = combined(a, b, [](const std::string& x, const std::string& y) { return uint8_t(x == y); });
  shape = s;
  return equal;
}

std::span<const Row> text_rows() { return text_table; }

}  // namespace kaon::onnx::convert
