// Dimensions of any size in models that are written. Writers of operators say numbers, since every shape is known
// then. The program is written for several sizes, and what differs between these graphs is computed by the model from
// its inputs' shapes, or refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/interchange/onnx/sizes/formula.h"

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

// A graph for certain sizes, whose constants are apart.
struct SizedGraph {
  Sizes sizes;
  Builder graph;
};

class AnySizes {
 public:
  // Sizes are `step` and its multiples apart. Throws ValueError for more than three names.
  AnySizes(std::vector<NamedSize> names, int64_t step);

  const std::vector<NamedSize>& names() const { return names_; }
  std::string describe(const Sizes& sizes) const;  // "n = 3"
  Sizes known() const;                             // of the shapes that are known

  int64_t step() const { return step_; }
  // The sizes for which graphs are written: those that joined() needs, in this order, and further ones that show what
  // the first do not, as far as the program takes them: large sizes, where a program may have limits, and 8, 48 and
  // 128, which a program may treat apart.
  const std::vector<Sizes>& needed() const { return needed_; }
  std::vector<Sizes> further() const;
  // The graphs as one that holds for all sizes: with what differs computed by formulas (formula.h, computing.h). Throws
  // ValueError, naming the node or the constant, where they differ otherwise.
  Builder joined(std::vector<SizedGraph> graphs) const;

  // With one name's size 1, which operators may leave out.
  Sizes with_one(size_t name) const;
  // The first output of `joined` that has other dimensions than that of the graph, as "the output y, of node a (Add),
  // has ..."; a dimension that follows from no size may have any. "": all have the same.
  std::string difference(const Builder& joined, const SizedGraph& graph) const;

 private:
  std::vector<NamedSize> names_;
  int64_t step_;
  std::vector<Sizes> needed_;
};

}  // namespace kaon::onnx::exporting
