// The files that make_golden.py writes: cases of operators with the results that they must have.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kaon/ops/ndarray.h"
#include "kaon/ops/operator/op_attributes.h"

namespace kaon::test {

using namespace ops;

// An array that a case must give, and how far an element may be off: relative |wanted| + absolute.
struct Golden {
  NDArray wanted;  // undefined: nothing is expected here
  double relative = 0, absolute = 0;
  std::vector<size_t> open{};  // elements of which nothing is said
};

// One call of an operator. Inputs are shared: a run that changes them works on copies.
struct GoldenCase {
  std::string op;  // as the file has it: a name or an alias
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<NDArray> inputs;
  std::vector<bool> wants;  // of which inputs gradients are taken; empty: none
  uint32_t seed = 0;        // of the head gradients
  bool training = false;
  std::vector<Golden> outputs, gradients, updated;
  std::vector<size_t> updates;  // the inputs that `updated` speaks of
  std::string source;           // "both", "mxnet" or "torch"

  std::string str() const;  // "Convolution kernel=(3, 3) (2, 3, 5, 5) float32, ..."
};

// Throws IoError for a file that is not whole.
std::vector<GoldenCase> load_golden(const std::filesystem::path& file);
// Where the data are: tests/golden/data, or what the environment's KAON_GOLDEN_DIR says.
std::filesystem::path golden_dir();
// All files of cases there.
std::vector<std::filesystem::path> golden_files();

// The head gradient that make_golden.py has taken for this output.
NDArray golden_head(uint32_t seed, uint32_t output, const NDArray& like);

// What is wrong with `got`, "" when nothing is.
std::string compare_golden(const NDArray& got, const Golden& golden);

// The weights of the elements in the losses of make_recurrent.py and make_layers.py.
NDArray golden_head(const Shape& shape);

// Requires the shape, and every element within absolute + relative |expected|. `what` is for messages.
void check_close(const std::string& what, const NDArray& got, const NDArray& expected, double absolute,
                 double relative = 1e-5);

}  // namespace kaon::test
