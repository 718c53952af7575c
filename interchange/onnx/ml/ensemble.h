// Trees of decisions: all of an ensemble, for all rows at once.
#pragma once

#include <vector>

#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

// Numbers as TreeEnsemble has them.
enum class Decision : uint8_t { leq, lt, gte, gt, eq, neq, member, leaf };

// Nodes and leaves of all trees in one list. A leaf leads to itself.
struct Ensemble {
  struct Node {
    Decision decision = Decision::leaf;
    int64_t feature = 0;
    double split = 0;
    int64_t yes = 0, no = 0;  // the nodes behind it
    bool nan_is_yes = false;
    std::vector<double> members;
  };
  struct Weight {
    int64_t node = 0, target = 0;
    double value = 0;
  };
  std::vector<Node> nodes;
  std::vector<int64_t> roots;
  std::vector<Weight> weights;
  int64_t targets = 0;
};

enum class Aggregate : uint8_t { average, sum, min, max };

// For rows x (n, features) what the leaves that they come to say, over all trees: (n, targets). Refuses trees whose
// numbers do not fit.
Symbol aggregated(const Call& c, const Ensemble& trees, const Symbol& x, Aggregate how);

}  // namespace kaon::onnx::convert
