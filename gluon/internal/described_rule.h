// DescribedRule: an update rule that says what it computes with.
#pragma once

#include <string>
#include <vector>

#include "kaon/gluon/optimizer.h"

namespace kaon::optimizer::detail {

// All rules of the library are such.
class DescribedRule : public Rule {
 public:
  // What update() and numbers() depend on, a line for each: "momentum 0.9". Ranks that train together compare them.
  virtual std::vector<std::string> settings() const = 0;
};

}  // namespace kaon::optimizer::detail
