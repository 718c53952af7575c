#include "kaon/interchange/weights/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace kaon::gluon {
namespace {

// "weight_ih_l0_reverse": its parts; of a cell's "weight_ih" there is no layer.
struct RecurrentName {
  std::string name;  // "i2h_weight"
  std::string layer;
  bool is_reverse = false;
};

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool parse(std::string_view text, RecurrentName& parsed) {
  const std::string_view kind = text.starts_with("weight_") ? "weight" : text.starts_with("bias_") ? "bias" : "";
  if (kind.empty()) return false;
  text.remove_prefix(kind.size() + 1);
  const std::string_view from = take(text, "ih") ? "i2h" : take(text, "hh") ? "h2h" : take(text, "hr") ? "h2r" : "";
  if (from.empty()) return false;
  parsed.name = fmt::format("{}_{}", from, kind);
  if (text.empty()) return true;
  if (!take(text, "_l")) return false;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return false;
  parsed.layer = text.substr(0, digits);
  text.remove_prefix(digits);
  parsed.is_reverse = take(text, "_reverse");
  return text.empty();
}

}  // namespace

std::vector<std::string> names_for_pytorch(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string before(dot == std::string_view::npos ? "" : name.substr(0, dot + 1));
  const std::string_view last = name.substr(before.size());
  if (last == "weight") return {before + "gamma", before + "alpha"};
  if (last == "bias") return {before + "beta"};
  RecurrentName r;
  if (!parse(last, r)) return {};
  if (r.layer.empty()) return {before + r.name};
  // the names in files of MXNet's, of a layer of one direction and of two, and the parameters' own
  std::vector<std::string> names;
  if (!r.is_reverse) names.push_back(fmt::format("{}_unfused.{}.{}", before, r.layer, r.name));
  names.push_back(fmt::format("{}_unfused.{}.{}_cell.{}", before, r.layer, r.is_reverse ? 'r' : 'l', r.name));
  names.push_back(fmt::format("{}{}{}_{}", before, r.is_reverse ? 'r' : 'l', r.layer, r.name));
  return names;
}

bool is_passed_over(std::string_view name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

}  // namespace kaon::gluon
