// Dimensions of any size in models that are written. Writers of operators say numbers, since every shape is known
// then. The program is written for several sizes, and what differs between these graphs is computed by the model from
// its inputs' shapes, or refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kaon/interchange/onnx/export/emit.h"

namespace kaon::onnx::exporting {

// A dimension of inputs that has any size: at all its places the same one.
struct NamedSize {
  std::string name;
  struct Place {
    size_t input;  // of the graph
    int axis;
  };
  std::vector<Place> places;
  int64_t size;  // of the shapes that are known
};

class AnySizes {
 public:
  // Throws ValueError for more than three names.
  explicit AnySizes(std::vector<NamedSize> names);

  // How many graphs are written, and the names' sizes in each.
  size_t graphs() const { return sizes_.size(); }
  const std::vector<int64_t>& sizes(size_t graph) const { return sizes_[graph]; }
  const std::vector<NamedSize>& names() const { return names_; }
  std::string describe(size_t graph) const;  // "n = 3"
  std::string describe_known() const;        // the same of the known shapes

  // The graphs, whose constants are apart, as one that holds for all sizes: with numbers computed by polynomials that
  // are linear in each size, ranges, and arrays of one value. Throws ValueError, naming the node or the constant, where
  // they differ otherwise.
  Builder joined(std::vector<Builder> graphs) const;

 private:
  std::vector<NamedSize> names_;
  std::vector<std::vector<int64_t>> sizes_;
};

}  // namespace kaon::onnx::exporting
