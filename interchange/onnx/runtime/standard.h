// Operators of the standard inside those of ONNX Runtime.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

inline constexpr std::string_view kMicrosoft = "com.microsoft";  // the domain

format::Attribute attribute(std::string_view name, int64_t value);
format::Attribute attribute(std::string_view name, double value);
format::Attribute attribute(std::string_view name, std::string_view value);
format::Attribute attribute(std::string_view name, std::vector<int64_t> values);

// The outputs of an operator of ONNX's own, of version 19, for these inputs. Nothing among the inputs: left out.
std::vector<Value> standard_all(Call& c, std::string_view op_type, std::vector<Value> inputs,
                                std::vector<format::Attribute> attributes = {}, int outputs = 1);
Value standard(Call& c, std::string_view op_type, std::vector<Value> inputs,
               std::vector<format::Attribute> attributes = {});

// The call's input, nothing where it is left out.
Value optional_input(const Call& c, int i);
// The call's attributes of these names, as far as they are there.
std::vector<format::Attribute> same_attributes(const Call& c, std::initializer_list<std::string_view> names);

// (numbers - zero) scale, of the inputs i, i + 1 and i + 2.
Value dequantised(Call& c, int i, int64_t axis = 1);
// numbers / scale + zero, rounded, with scale and zero point at the inputs i and i + 1; of the type of input `like`
// where the zero point is left out.
Value quantised(Call& c, const Value& numbers, int i, int like = 0);

}  // namespace kaon::onnx::convert
