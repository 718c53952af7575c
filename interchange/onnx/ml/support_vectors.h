// Probabilities of classes from those of pairs.
#pragma once

#include <cstdint>
#include <vector>

namespace kaon::onnx::convert {

// Of k classes, given how likely i is where it is i or j, as wins[i k + j]: the second method of Wu, Lin and Weng
// (2004), with at least 100 rounds, as LIBSVM has it.
std::vector<double> coupled(const std::vector<double>& wins, int64_t k);

}  // namespace kaon::onnx::convert
