// onnx_suite FOLDER [FILTER]: runs ONNX's backend test cases that write_cases.py has written, and prints a line for
// each: "pass GROUP/NAME error", the largest error of an output beside that output's largest number, or "FAIL
// GROUP/NAME reason". A case passes when every data set's outputs are the expected ones within the suite's tolerances,
// operator by operator and hybridized, twice, and those of the model that onnx::save writes again as well. Exit status:
// 0 when all pass.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/kaon.h"

namespace {

using namespace kaon;
namespace fs = std::filesystem;
using onnx::format::ElementType;

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
  double share = 0;  // of the output's largest number
};

double worst_error = 0;  // of a case

// As numpy.testing.assert_allclose: |a - b| <= atol + rtol |b|, NaN equal to NaN.
void compare(const NDArray& got, const onnx::format::Tensor& expected, Tolerance t, const std::string& what) {
  const NDArray want = expected.values();
  if (got.shape() != want.shape())
    throw ValueError(fmt::format("{}: shape {}, expected {}", what, got.shape().str(), want.shape().str()));
  if (got.dtype() != want.dtype()) {
    throw ValueError(fmt::format("{}: dtype {}, expected {}", what, name_of(got.dtype()), name_of(want.dtype())));
  }
  if (want.dtype() == DType::bfloat16) t.rtol = std::max(t.rtol, 1.0 / 64);
  if (got.dtype() == DType::int64 || got.dtype() == DType::uint64) {
    const auto a = got.asvector<int64_t>(), b = want.asvector<int64_t>();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) throw ValueError(fmt::format("{}: element {} is {}, expected {}", what, i, a[i], b[i]));
    }
    return;
  }
  auto a = got.asvector<double>(), b = want.asvector<double>();
  if (onnx::format::is_coded(expected.type)) {  // as numbers: zeros of both signs are equal
    for (double& v : a) v = onnx::format::decode(expected.type, uint8_t(v));
    for (double& v : b) v = onnx::format::decode(expected.type, uint8_t(v));
  }
  double largest = 0;
  for (double v : b) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (largest > 0) worst_error = std::max(worst_error, std::abs(a[i] - b[i]) / largest);
    const double allowed = t.atol + t.rtol * std::abs(b[i]) + t.share * largest;
    if (std::abs(a[i] - b[i]) <= allowed && std::isfinite(b[i])) continue;
    throw ValueError(fmt::format("{}: element {} is {}, expected {}", what, i, a[i], b[i]));
  }
}

onnx::Value as_value(const onnx::format::DataValue& data) {
  if (data.is_nothing) return {};
  if (!data.is_sequence) {
    const auto& t = data.tensors[0];
    if (t.type == ElementType::string) return {t.strings, t.shape()};
    return t.values();
  }
  std::vector<NDArray> items;
  for (const auto& t : data.tensors) items.push_back(t.values());
  return items;
}

void compare(const onnx::Value& got, const onnx::format::DataValue& want, Tolerance t, const std::string& what) {
  if (want.is_nothing) {
    if (!got.is_nothing()) throw ValueError(what + ": expected nothing");
    return;
  }
  if (!want.is_sequence) {
    if (want.tensors[0].type == ElementType::string) {
      if (!got.is_text || got.strings != want.tensors[0].strings || got.strings_shape != want.tensors[0].shape()) {
        throw ValueError(what + ": other strings");
      }
      return;
    }
    if (!got.array.defined()) throw ValueError(what + ": expected an array");
    return compare(got.array, want.tensors[0], t, what);
  }
  if (!got.is_sequence || got.sequence.size() != want.tensors.size()) {
    throw ValueError(fmt::format("{}: expected a sequence of {}", what, want.tensors.size()));
  }
  for (size_t i = 0; i < want.tensors.size(); ++i)
    compare(got.sequence[i], want.tensors[i], t, fmt::format("{}[{}]", what, i));
}

int count(const fs::path& folder, const std::string& prefix) {
  int n = 0;
  while (fs::exists(folder / fmt::format("{}_{}.pb", prefix, n))) ++n;
  return n;
}

// A file of this process, for the model that is written again.
struct Copy {
  fs::path path = fs::temp_directory_path() / fmt::format("onnx_suite_{}.onnx", getpid());
  ~Copy() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

void run_case(const fs::path& folder, Tolerance tolerance) {
  const onnx::format::Model model = onnx::format::read_model(folder / "model.onnx");
  const onnx::Block read(folder / "model.onnx");
  const Copy copy;
  onnx::save(read, copy.path);
  onnx::Block written(copy.path);
  for (int set = 0; fs::exists(folder / fmt::format("test_data_set_{}", set)); ++set) {
    const fs::path data = folder / fmt::format("test_data_set_{}", set);
    std::vector<onnx::Value> inputs;
    // what the files have beyond the inputs without values are initializers
    std::vector<const onnx::format::ValueInfo*> infos;
    for (const auto& public_info : read.inputs()) {
      for (const auto& info : model.graph.inputs) {
        if (info.name == public_info.name) infos.push_back(&info);
      }
    }
    for (int i = 0; i < count(data, "input") && i < int(infos.size()); ++i) {
      inputs.push_back(as_value(onnx::format::read_data(data / fmt::format("input_{}.pb", i), *infos[size_t(i)])));
    }
    for (int pass = 0; pass < 5; ++pass) {
      onnx::Block block = pass < 4 ? read : written;
      block.hybridize(pass >= 2);
      const auto outputs = block.run(inputs);
      if (int(outputs.size()) != count(data, "output"))
        throw ValueError(fmt::format("{} outputs, expected {}", outputs.size(), count(data, "output")));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto expected = onnx::format::read_data(data / fmt::format("output_{}.pb", i), model.graph.outputs[i]);
        const std::string how = pass < 2 ? "" : pass < 4 ? "hybridized, " : "written again, ";
        compare(outputs[i], expected, tolerance, how + model.graph.outputs[i].name);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: onnx_suite FOLDER [FILTER]\n");
    return 2;
  }
  const fs::path root = argv[1];
  const std::string filter = argc > 2 ? argv[2] : "";
  std::ifstream list(root / "tolerances.txt");
  if (!list) {
    fmt::print(stderr, "{} is not there\n", (root / "tolerances.txt").string());
    return 2;
  }
  bool all = true;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name;
    Tolerance t;
    words >> name >> t.rtol >> t.atol >> t.share;
    if (name.find(filter) == std::string::npos) continue;
    worst_error = 0;
    try {
      run_case(root / name, t);
      fmt::print("pass {} {:.2g}\n", name, worst_error);
    } catch (const std::exception& e) {
      std::string why = e.what();
      std::replace(why.begin(), why.end(), '\n', ' ');
      fmt::print("FAIL {} {}\n", name, why);
      all = false;
    }
    std::fflush(stdout);
  }
  return all ? 0 : 1;
}
