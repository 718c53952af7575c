// ParameterValues: the arrays of a parameter on its devices, where Parameter::list_data() makes a copy of the list.
#pragma once

#include <span>

#include "kaon/gluon/parameter.h"

namespace kaon::gluon::detail {

// For one look at a parameter that has values: it must not get other arrays meanwhile. Nothing allocates. Thread
// safety: as reading the parameter.
class ParameterValues {
 public:
  explicit ParameterValues(const Parameter& parameter);  // throws as Parameter::array()

  size_t size() const { return 1 + others_.size(); }  // the number of devices
  const NDArray& operator[](size_t i) const { return i == 0 ? *first_ : others_[i - 1]; }
  NDArray grad(size_t i) const;  // throws as Parameter::grad()

 private:
  const Parameter& parameter_;
  const NDArray* first_;
  std::span<const NDArray> others_;
};

inline bool is_on_several_devices(const Parameter& p) { return p.is_initialized() && ParameterValues(p).size() > 1; }

}  // namespace kaon::gluon::detail
