// BlockNode: what a block's handles share. For the sources of gluon/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kaon/gluon/block.h"

namespace kaon::gluon {

struct BlockNode {
  struct Child {
    std::string key;   // in save_parameters: attribute name or index
    std::string name;  // in parameter and node names
    std::shared_ptr<BlockNode> node;
  };
  struct OwnParameter {
    std::string key;
    Parameter parameter;
  };
  // A trace for one number of inputs and one training mode; with `shapes` when it depended on them.
  struct Trace {
    size_t num_inputs;
    bool training;
    std::vector<Shape> shapes;  // empty: any
    std::shared_ptr<CachedGraph> graph;
    std::vector<Parameter> parameters;  // after the data, in this order
  };

  std::string hint;
  std::string name;            // last part of the path
  std::string prefix;          // path, each part followed by "_"
  const char* path = nullptr;  // interned, parts joined by "."
  bool has_parent = false;
  std::vector<Child> children;
  std::vector<OwnParameter> parameters;
  bool active = false;
  HybridizeOptions options;
  std::vector<Trace> traces;
  SpinLock lock;               // guards traces

  void set_prefix(const std::string& new_prefix, const std::string& new_path);
  void clear_traces();
};

}  // namespace kaon::gluon
