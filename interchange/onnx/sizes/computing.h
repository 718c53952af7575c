// What differs between the graphs for several sizes, computed by the model from the shapes of its inputs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kaon/interchange/onnx/sizes/any_size.h"
#include "kaon/interchange/onnx/sizes/formula.h"

namespace kaon::onnx::exporting {

// Writes nodes into the first graph.
class Computing {
 public:
  Computing(const std::vector<NamedSize>& names, const Fitting& fit, std::vector<SizedGraph>& graphs)
      : names_(names), fit_(fit), graphs_(graphs) {}

  // The formulas of the numbers of array i, int64 of no or one dimension; nothing where it is another, or some number
  // has none.
  std::optional<std::vector<Formula>> numbers(size_t i) const;
  std::string list(const std::vector<Formula>& numbers);  // (n,)
  std::string scalar(const Formula& number);              // of shape ()
  // Array i, of any dtype: of one value, a range, a band (as the identity, or a mask that looks back), points at equal
  // distances between two fixed ones, the second of which may be left out, or a few whole numbers, their square
  // roots or the reciprocals of either. "": it is none of these.
  std::string array(size_t i);

 private:
  struct Band;
  const NDArray& at(size_t graph, size_t i) const { return graphs_[graph].graph.arrays()[i]; }
  std::optional<std::vector<Formula>> dims_of(size_t i) const;
  // Of one number for each graph, a value (1,) of this dtype. "": none.
  std::string value(const std::vector<double>& numbers, DType dtype);
  std::string uniform(size_t i, const std::vector<Formula>& dims);
  std::string range(size_t i, const std::vector<Formula>& dims);
  std::string band(size_t i, const std::vector<Formula>& dims);
  std::string points(size_t i, const std::vector<Formula>& dims);
  std::string few(size_t i);
  std::optional<Formula> count_of(size_t i) const;
  std::string counted(const Formula& count);  // 0, 1, ... count - 1, int64
  std::string shaped(const std::string& value, const std::vector<Formula>& dims);

  const std::string& size(size_t name);
  const std::string& constant(int64_t value);
  const std::string& number(const Formula& formula);  // (1,)
  std::string node(std::string_view op_type, const std::vector<std::string>& inputs,
                   std::vector<Attribute> attributes = {});
  std::string cast(const std::string& value, DType dtype);
  Builder& builder() { return graphs_[0].graph; }

  const std::vector<NamedSize>& names_;
  const Fitting& fit_;
  std::vector<SizedGraph>& graphs_;
  std::map<size_t, std::string> sizes_;
  std::map<int64_t, std::string> constants_;
  std::map<Formula, std::string> numbers_;
};

}  // namespace kaon::onnx::exporting
