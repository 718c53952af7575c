#include "kaon/interchange/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <unordered_map>

#include "kaon/engine/error.h"
#include "kaon/gluon/internal/adopt_values.h"
#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/interchange/weights/foreign_names.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon {
namespace {

// The standard library's matcher needs stack for each character.
constexpr size_t max_name = 2000;

std::regex compiled(const std::string& pattern, std::string_view rule) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& e) {
    throw ValueError(fmt::format("[load_weights] {}: '{}' is no regular expression: {}", rule, pattern, e.what()));
  }
}

// The rules of one call.
class Translation {
 public:
  explicit Translation(const WeightOptions& o) : options_(o) {
    for (const Rename& r : o.rename) rename_.push_back(compiled(r.pattern, "rename"));
    for (const AxesRule& r : o.transpose) transpose_.push_back(compiled(r.pattern, "transpose"));
    for (const GatesRule& r : o.gates) {
      gates_.push_back(compiled(r.pattern, "gates"));
      std::string a = r.from, b = r.to;
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      if (a.empty() || a != b || std::adjacent_find(a.begin(), a.end()) != a.end()) {
        throw ValueError(fmt::format(
            "[load_weights] gates: expected the same letters in 'from' and 'to', each once, got '{}' and '{}'", r.from,
            r.to));
      }
    }
  }

  std::string name(const std::string& tensor) const {
    std::string name = tensor;
    const bool has_rules = !rename_.empty() || !transpose_.empty() || !gates_.empty();
    if (has_rules && name.size() > max_name) {
      throw ValueError(fmt::format("[load_weights] a name of {} characters, more than the {} that rules take: '{}...'",
                                   name.size(), max_name, name.substr(0, 80)));
    }
    if (name.starts_with(options_.strip_prefix)) name.erase(0, options_.strip_prefix.size());
    for (size_t i = 0; i < rename_.size(); ++i) {
      name = std::regex_replace(name, rename_[i], options_.rename[i].replacement);
    }
    return options_.add_prefix + name;
  }

  // The tensor as the net has it.
  NDArray values(const std::string& name, const std::string& tensor, NDArray array) const {
    for (size_t i = 0; i < gates_.size(); ++i) {
      if (std::regex_match(name, gates_[i])) array = with_gates(options_.gates[i], tensor, array);
    }
    for (size_t i = 0; i < transpose_.size(); ++i) {
      if (std::regex_match(name, transpose_[i])) array = with_axes(options_.transpose[i], tensor, array);
    }
    return array;
  }

 private:
  static NDArray with_gates(const GatesRule& rule, const std::string& tensor, const NDArray& array) {
    const auto gates = int64_t(rule.from.size());
    if (array.ndim() < 1 || array.shape()[0] % gates != 0) {
      throw ValueError(fmt::format("[load_weights] gates '{}': expected '{}' with axis 0 of a multiple of {}, got {}",
                                   rule.from, tensor, gates, array.shape().str()));
    }
    const int64_t rows = array.shape()[0] / gates;
    std::vector<NDArray> parts;
    for (const char gate : rule.to) {
      const auto at = int64_t(rule.from.find(gate));
      parts.push_back(nd.slice_axis(array, 0, at * rows, (at + 1) * rows));
    }
    return nd.concat(parts, {.dim = 0});
  }

  static NDArray with_axes(const AxesRule& rule, const std::string& tensor, const NDArray& array) {
    std::vector<int64_t> sorted = rule.axes;
    std::sort(sorted.begin(), sorted.end());
    bool fits = rule.axes.size() == size_t(array.ndim());
    for (size_t i = 0; i < sorted.size() && fits; ++i) fits = sorted[i] == int64_t(i);
    if (!fits) {
      throw ValueError(fmt::format("[load_weights] transpose: expected each axis of '{}', of shape {}, once, got ({})",
                                   tensor, array.shape().str(), fmt::join(rule.axes, ", ")));
    }
    if (rule.axes.empty()) return array;
    return nd.transpose(array, Shape(std::span(rule.axes)));
  }

  const WeightOptions& options_;
  std::vector<std::regex> rename_, transpose_, gates_;
};

// Of a matrix's transpose.
Shape turned(const Shape& shape) { return shape.ndim() == 2 ? Shape(shape[1], shape[0]) : shape; }

struct Chosen {
  WeightReport report;
  detail::ChosenValues values;  // of what fits
  std::exception_ptr misfit;    // the first, as Parameter says it
};

Chosen choose(const Block& net, const NamedArrays& tensors, const WeightOptions& options) {
  autograd::ModeScope mode(false, false);
  const detail::NamedParameters parameters = detail::structural_parameters(net);
  detail::check_unique(parameters, "load_weights");
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < parameters.size(); ++i) by_name.emplace(parameters[i].first, i);
  for (size_t i = 0; i < parameters.size(); ++i) by_name.emplace(parameters[i].second.name(), i);

  const Translation translation(options);
  Chosen chosen;
  std::vector<const std::string*> tensor_of(parameters.size());
  const auto same = [&](size_t i, size_t k) { return parameters[i].second == parameters[k].second; };
  for (const auto& [tensor, array] : tensors) {
    if (!array.defined()) continue;  // a "none" of MXNet's files
    std::string name = translation.name(tensor);
    auto found = by_name.find(name);
    if (found == by_name.end() && options.naming == Naming::pytorch) {
      for (const std::string& other : names_for_pytorch(name)) {
        if (found = by_name.find(other); found != by_name.end()) break;
      }
      if (found == by_name.end() && is_passed_over(name)) continue;
    }
    bool is_turned = false;
    if (found == by_name.end()) {
      found = by_name.find(name + std::string(transposed_suffix));
      is_turned = found != by_name.end();
    }
    if (found == by_name.end()) {
      chosen.report.extra.push_back(tensor);
      continue;
    }
    const auto& [path, p] = parameters[found->second];
    if (tensor_of[found->second]) {
      throw ValueError(fmt::format("[load_weights] both '{}' and '{}' are for the parameter '{}'",
                                   *tensor_of[found->second], tensor, path));
    }
    tensor_of[found->second] = &tensor;
    NDArray values = translation.values(name, tensor, array);
    if (is_turned && values.ndim() == 2) values = nd.transpose(values);
    const DType own = p.dtype();
    const bool casts = options.cast_dtype && values.dtype() != own;
    const bool keeps = casts && options.dtype_source == DTypeSource::saved;
    const NDArray own_values = casts ? values.astype(own) : values;
    try {
      p.check_data(own_values);
      if (keeps) p.check_cast(values.dtype());
    } catch (const Error& e) {
      const bool is_dtype = !casts && values.dtype() != own;
      const bool is_shape = values.shape() != p.shape();
      // in the layout of the tensor's own file
      const Shape expected = is_turned ? turned(p.shape()) : p.shape();
      const Shape found = is_turned ? turned(values.shape()) : values.shape();
      chosen.report.mismatched.push_back({path, tensor, is_dtype ? to_string(own) : expected.str(),
                                          is_dtype ? to_string(values.dtype()) : found.str()});
      if (!chosen.misfit && is_turned && is_shape) {
        chosen.misfit = std::make_exception_ptr(ShapeError(
            fmt::format("[load_weights] '{}' has the shape {}, got {} of the tensor '{}'; the parameter '{}' "
                        "is its transpose",
                        name, expected.str(), found.str(), tensor, path)));
      }
      if (!chosen.misfit) chosen.misfit = e.with_context(fmt::format(", of the tensor '{}'", tensor));
      continue;
    }
    const NDArray& given = keeps ? values : own_values;
    chosen.report.matched.push_back({path, tensor, given.shape(), given.dtype(), given.ptr() != array.ptr()});
    chosen.values.emplace_back(p, given);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    bool has = false;
    for (size_t k = 0; k < parameters.size() && !has; ++k) has = tensor_of[k] && same(i, k);
    if (!has) chosen.report.missing.push_back(parameters[i].first);
  }
  return chosen;
}

// The first of a list.
template <class List, class Text>
std::string line(std::string_view what, const List& list, Text text) {
  constexpr size_t most = 8;
  if (list.empty()) return {};
  std::string s = fmt::format("\n  {} {}: ", list.size(), what);
  for (size_t i = 0; i < std::min(most, list.size()); ++i) s += (i ? ", " : "") + text(list[i]);
  return list.size() > most ? s + " ..." : s;
}

}  // namespace

std::string WeightReport::str() const {
  const auto quoted = [](const std::string& name) { return fmt::format("'{}'", name); };
  const size_t all = matched.size() + missing.size() + mismatched.size();
  const auto changed = std::count_if(matched.begin(), matched.end(), [](const Match& m) { return m.is_changed; });
  return fmt::format("{} of {} parameters have a tensor{}", matched.size(), all,
                     changed ? fmt::format(", {} of them changed by rules", changed) : "") +
         line("parameters without a tensor", missing, quoted) +
         line("tensors that are of no parameter", extra, quoted) +
         line("that do not fit", mismatched, [](const Mismatch& m) {
           return fmt::format("'{}' (expected {}, the tensor '{}' has {})", m.parameter, m.expected, m.tensor, m.found);
         });
}

WeightReport match_weights(const Block& net, const NamedArrays& tensors, const WeightOptions& options) {
  return choose(net, tensors, options).report;
}

namespace {

// Sets what was chosen, or throws. `owned`: nobody else uses the tensors.
WeightReport finish(Chosen chosen, const WeightOptions& options, bool owned) {
  const WeightReport& report = chosen.report;
  if (chosen.misfit) {
    try {
      std::rethrow_exception(chosen.misfit);
    } catch (const Error& e) {
      std::rethrow_exception(e.with_context("\n" + report.str()));
    }
  }
  if ((!report.missing.empty() && !options.allow_missing) || (!report.extra.empty() && !options.ignore_extra)) {
    throw ValueError("[load_weights] expected a tensor for each parameter and a parameter for each tensor: " +
                     report.str());
  }
  // Nobody calls a net without values meanwhile. Its tensors go one by one, so that they are not in memory beside it;
  // one that has memory of its own, as those in mapped files, becomes the parameter's value as it is.
  std::unordered_map<const engine::Buffer*, int> users;
  for (const auto& [p, array] : chosen.values) ++users[array.node().buffer.get()];
  detail::ChosenValues together;
  for (auto& [p, array] : chosen.values) {
    if (p.is_initialized()) {
      together.emplace_back(p, std::move(array));
      continue;
    }
    const ops::ArrayNode& node = array.node();
    std::optional<detail::AdoptValues> adopts;
    if (owned && node.covers_buffer() && users[node.buffer.get()] == 1) adopts.emplace();
    p.cast(array.dtype());
    p.set_data(array);
    array = NDArray();
  }
  detail::set_values(together);
  return std::move(chosen.report);
}

}  // namespace

WeightReport load_weights(const Block& net, const NamedArrays& tensors, const WeightOptions& options) {
  return finish(choose(net, tensors, options), options, false);
}

WeightReport load_weights(const Block& net, const std::filesystem::path& file, const WeightOptions& options) {
  Chosen chosen = choose(net, load_tensors(file), options);  // and the list of them goes
  const bool has_all = chosen.report.missing.empty() || options.allow_missing;
  try {
    return finish(std::move(chosen), options, true);
  } catch (const Error& e) {
    if (has_all) throw;
    // what the file has and load_tensors() leaves out may be what is missing
    const auto as_it_is = [](const std::string& text) { return text; };
    std::rethrow_exception(
        e.with_context(line("that the file has and that are not read", summarize_file(file).problems, as_it_is)));
  }
}

}  // namespace kaon::gluon
