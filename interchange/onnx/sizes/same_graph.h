// Whether graphs are the same.
#pragma once

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::exporting {

// But for the values of attributes.
bool same_structure(const format::Node& a, const format::Node& b);
// Of nodes of the same structure the first attribute whose value differs, as `a` has it; null: none.
const format::Attribute* differing_attribute(const format::Node& a, const format::Node& b);

}  // namespace kaon::onnx::exporting
