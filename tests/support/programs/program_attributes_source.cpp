// Attributes as C++.
#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/all_ops.h"
#include "kaon/tests/support/programs/program_source.h"

namespace kaon::test {

using namespace ops;
namespace {

// "kaon::op::Clip" for op::Clip.
template <class T>
std::string type_name() {
  const std::string_view text = __PRETTY_FUNCTION__, mark = "T = ";
  const size_t begin = text.find(mark) + mark.size();
  std::string name(text.substr(begin, text.find_first_of(";]", begin) - begin));
  // clang leaves the namespace of a template's arguments out
  const size_t argument = name.find('<');
  const std::string rest = argument == name.npos ? "" : name.substr(argument + 1);
  const bool is_bool = rest.starts_with("true") || rest.starts_with("false");
  if (!rest.empty() && !is_bool && !rest.starts_with("kaon::")) name.insert(argument + 1, "kaon::ops::");
  return name;
}

std::string source(bool value) { return value ? "true" : "false"; }
std::string source(ops::Flag value) { return source(bool(value)); }
std::string source(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;  // -0 would be 0
}
std::string source(int64_t value) {
  return value == INT64_MIN ? "INT64_MIN" : value == INT64_MAX ? "INT64_MAX" : fmt::format("{}", value);
}
std::string source(int value) { return source(int64_t(value)); }
std::string source(const ops::Word& value) { return fmt::format("kaon::ops::Word{{\"{}\"}}", value.text); }
std::string source(Device value) { return value.str(); }
std::string source(DType value) {
  return value == DType::boolean ? "DType::boolean" : fmt::format("DType::{}", kaon::name_of(value));
}
std::string source(const Shape& value) {
  std::string text;
  for (int64_t d : value) text += (text.empty() ? "" : ", ") + source(d);
  return fmt::format("Shape({})", text);
}
std::string source(const OptionalShape& value) {
  std::string text;
  for (int i = 0; i < value.ndim(); ++i) text += (i == 0 ? "" : ", ") + (value[i] ? source(*value[i]) : "std::nullopt");
  return fmt::format("OptionalShape({})", text);
}
std::string source(const FloatTuple& value) {
  std::string text;
  for (int i = 0; i < value.size(); ++i) text += (i == 0 ? "" : ", ") + source(double(value[i]));
  return fmt::format("FloatTuple({})", text);
}
std::string source(const IntTuple& value) {
  std::string text;
  for (int i = 0; i < value.size(); ++i) text += (i == 0 ? "" : ", ") + source(value[i]);
  return fmt::format("IntTuple({})", text);
}
std::string source(const ops::Interval& value) {
  return fmt::format("ops::Interval{{{}, {}}}", source(value.low), source(value.high));
}
std::string source(const ops::PadWidths& value) { return fmt::format("ops::PadWidths{{{}}}", source(value.numbers)); }
template <class E>
  requires std::is_enum_v<E> std::string source(E value) {
    return fmt::format("{}({} /* {} */)", type_name<E>(), int(value), to_text(value));
  }
template <class T>
std::string source(const std::optional<T>& value) {
  return value ? source(*value) : "std::nullopt";
}

}  // namespace

std::string attributes_source(const OpDef& def, const Attributes& attrs, const std::string& name) {
  std::string text;
  for_each_op([&]<class Op>() {
    if (&Op::def != &def) return;
    text = fmt::format("{} {};", type_name<Op>(), name);
    if constexpr (!std::is_empty_v<Op>) {
      const Op &op = *static_cast<const Op*>(attrs.get()), defaults{};
      Op::fields([&](std::string_view field, auto member, bool = false) {
        using Field = std::remove_cvref_t<decltype(op.*member)>;
        if constexpr (!std::same_as<Field, ops::PostOps>) {  // the mark that plans leave on their nodes
          if (!same_value(op.*member, defaults.*member)) {
            text += fmt::format(" {}.{} = {};", name, field, source(op.*member));
          }
        }
      });
    }
  });
  return text;
}

}  // namespace kaon::test
