// Rows of the test table as ONNX models.
#pragma once

#include <filesystem>
#include <set>

#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/row_run.h"

namespace kaon::test {

inline constexpr int64_t first_onnx_opset = 17, last_onnx_opset = 24;

// An operator as a program of inputs, with what Kaon makes of them in prediction.
struct OnnxCase {
  std::string operator_name{}, title{};
  Symbol program{};
  std::vector<std::string> names{};
  std::vector<NDArray> inputs{}, outputs{};
  double tolerance = 1e-5;
  bool is_random = false;
};

// The cases of a row's operator in the first dtype of these that it takes.
std::vector<OnnxCase> onnx_cases(const Row& row, const std::vector<DType>& dtypes);
// Of loops and conditions, which have no rows.
std::vector<OnnxCase> control_flow_cases();
std::vector<OnnxCase> all_onnx_cases();

// Writes the model. Returns why it is refused, "" where it is not.
std::string write_case(const OnnxCase& c, int64_t opset, const std::filesystem::path& path);
// For check_rows.py: a folder for each case with the models of all opsets, inputs and results.
void write_files(const std::filesystem::path& folder, const std::vector<OnnxCase>& cases);
// ONNX's operators in it, in its functions and bodies too; empty where it is refused, and `why` says it.
std::set<std::string> operators_of(const OnnxCase& c, int64_t opset, std::string& why);

}  // namespace kaon::test
