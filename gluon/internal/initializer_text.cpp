// Initializer::parse: the texts that MXNet's files have for initializers.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <vector>

#include "kaon/engine/error.h"
#include "kaon/gluon/initializer.h"

namespace kaon::init {
namespace {

namespace json = boost::json;

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw ValueError(fmt::format("[Initializer::parse] '{}': {}", text, why));
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return all;
}

// The arguments of one initializer, each of which must be taken.
class Arguments {
 public:
  Arguments(std::string_view text, json::object given) : text_(text), given_(std::move(given)) {}

  double number(const char* key, std::optional<double> other = {}) {
    const json::value* v = take(key);
    if (!v && !other) fail(text_, fmt::format("{} is missing", key));
    if (v && !v->is_number()) fail(text_, fmt::format("{} must be a number", key));
    return v ? v->to_number<double>() : *other;
  }
  // The position among the choices; the first one where there is none.
  size_t choice(const char* key, std::initializer_list<std::string_view> choices) {
    const json::value* v = take(key);
    if (!v) return 0;
    const auto* found =
        v->is_string() ? std::find(choices.begin(), choices.end(), std::string_view(v->get_string())) : choices.end();
    if (found == choices.end()) fail(text_, fmt::format("{} is none of its values", key));
    return size_t(found - choices.begin());
  }
  void check_all_taken() const {
    for (const auto& [key, value] : given_) {
      if (std::find(taken_.begin(), taken_.end(), std::string_view(key)) == taken_.end()) {
        fail(text_, fmt::format("unknown argument {}", std::string_view(key)));
      }
    }
  }

 private:
  const json::value* take(const char* key) {
    taken_.emplace_back(key);
    return given_.if_contains(key);
  }
  std::string_view text_;
  json::object given_;
  std::vector<std::string> taken_;
};

FactorType factor(Arguments& a) { return FactorType(a.choice("factor_type", {"avg", "in", "out"})); }

Initializer make(std::string_view text, const std::string& name, Arguments& a) {
  if (name == "zero" || name == "zeros") return Zero();
  if (name == "one" || name == "ones") return One();
  if (name == "constant") return Constant(a.number("value"));
  if (name == "uniform") return Uniform(a.number("scale", 0.07));
  if (name == "normal") return Normal(a.number("sigma", 0.01));
  if (name == "xavier") {
    const auto type = RndType(a.choice("rnd_type", {"uniform", "gaussian"}));
    const FactorType f = factor(a);
    return Xavier({.rnd_type = type, .factor_type = f, .magnitude = a.number("magnitude", 3)});
  }
  if (name == "msraprelu") {
    const FactorType f = factor(a);
    return MSRAPrelu({.factor_type = f, .slope = a.number("slope", 0.25)});
  }
  if (name == "orthogonal") {
    const double scale = a.number("scale", 1.414);
    return Orthogonal({.scale = scale, .rand_type = RndType(a.choice("rand_type", {"uniform", "normal"}))});
  }
  if (name == "bilinear") return Bilinear();
  if (name == "lstmbias") return LSTMBias(a.number("forget_bias", 1));
  if (name == "fusedrnn") {
    fail(text,
         "it fills the parameters of a whole layer, one vector; here each is a parameter of its own: "
         "init::LSTMBias for biases");
  }
  fail(text,
       "there is no such initializer; there are: zeros, ones, constant, uniform, normal, xavier, msraprelu, "
       "orthogonal, bilinear, lstmbias");
}

}  // namespace

Initializer Initializer::parse(std::string_view text) {
  std::string name = lower(text);
  json::object given;
  if (text.starts_with('[')) {
    boost::system::error_code error;
    const json::value v = json::parse(std::string(text), error);
    const json::array* list = error ? nullptr : v.if_array();
    if (!list || list->size() != 2 || !(*list)[0].is_string() || !(*list)[1].is_object()) {
      fail(text, R"(expected a name, or ["name", {"argument": value}])");
    }
    name = lower(std::string_view((*list)[0].get_string()));
    given = (*list)[1].get_object();
  }
  Arguments arguments(text, std::move(given));
  const Initializer made = make(text, name, arguments);
  arguments.check_all_taken();
  return made;
}

}  // namespace kaon::init
