#include "kaon/tests/golden/golden_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/support/files.h"

namespace kaon::test {

namespace {

uint64_t number_at(const std::string& bytes, size_t at) {
  uint64_t n = 0;
  if (bytes.size() < at + sizeof n) throw IoError("a golden file is cut off");
  std::memcpy(&n, bytes.data() + at, sizeof n);
  return n;
}

std::string unpacked(const fs::path& file) {
  const std::string packed = bytes_of(file);
  std::string bytes(number_at(packed, 0), '\0');
  uLongf size = bytes.size();
  const auto* from = reinterpret_cast<const Bytef*>(packed.data() + 8);
  if (uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size, from, packed.size() - 8) != Z_OK ||
      size != bytes.size()) {
    throw IoError(file.string() + " cannot be unpacked");
  }
  return bytes;
}

std::vector<Golden> goldens(const boost::json::value& list, const NamedArrays& arrays) {
  std::vector<Golden> out;
  for (const auto& v : list.as_array()) {
    out.emplace_back();
    if (v.is_null()) continue;
    const auto& entry = v.as_array();
    out.back() = {arrays.at(entry.at(0).to_number<size_t>()).second, entry.at(1).to_number<double>(),
                  entry.at(2).to_number<double>()};
    for (size_t i = 3; i < entry.size(); ++i) out.back().open.push_back(entry[i].to_number<size_t>());
  }
  return out;
}

}  // namespace

std::string GoldenCase::str() const {
  std::string s = op;
  for (const auto& [name, text] : attributes) s += fmt::format(" {}={}", name, text);
  for (size_t i = 0; i < inputs.size(); ++i) {
    s += fmt::format("{}{} {}", i == 0 ? " on " : ", ", inputs[i].shape().str(), name_of(inputs[i].dtype()));
  }
  return s + (training ? ", training" : "") + ", source " + source;
}

std::vector<GoldenCase> load_golden(const fs::path& file) {
  const std::string bytes = unpacked(file);
  const uint64_t text = number_at(bytes, 0);
  const auto index = boost::json::parse(std::string_view(bytes).substr(8, text)).as_array();
  const NamedArrays arrays = nd_file::load_from_bytes(std::string_view(bytes).substr(8 + text), file.string());
  std::vector<GoldenCase> cases;
  for (const auto& v : index) {
    const auto& entry = v.as_object();
    GoldenCase& c = cases.emplace_back();
    c.op = entry.at("op").as_string();
    for (const auto& [name, value] : entry.at("attrs").as_object()) c.attributes.emplace_back(name, value.as_string());
    for (const auto& i : entry.at("inputs").as_array()) c.inputs.push_back(arrays.at(i.to_number<size_t>()).second);
    if (entry.contains("wants")) {
      for (const auto& w : entry.at("wants").as_array()) c.wants.push_back(w.to_number<int>() != 0);
    }
    c.seed = entry.at("seed").to_number<uint32_t>();
    c.training = entry.contains("train");
    c.outputs = goldens(entry.at("outputs"), arrays);
    c.gradients = goldens(entry.at("gradients"), arrays);
    c.updated = goldens(entry.at("updated"), arrays);
    if (entry.contains("updates")) {
      for (const auto& i : entry.at("updates").as_array()) c.updates.push_back(i.to_number<size_t>());
    }
    c.source = entry.at("source").as_string();
  }
  return cases;
}

fs::path golden_dir() {
  const char* chosen = std::getenv("KAON_GOLDEN_DIR");
  return chosen ? chosen : KAON_GOLDEN_DIR;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(golden_dir())) {
    if (entry.path().extension() == ".golden") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

NDArray golden_head(uint32_t seed, uint32_t output, const NDArray& like) {
  std::vector<double> values(size_t(like.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t x = i + (uint64_t(seed) * 31 + output * 7919) % (uint64_t(1) << 32);
    x = x * 2654435761 & 0xffffffff;
    x ^= x >> 15;
    x = x * 2246822519 & 0xffffffff;
    x ^= x >> 13;
    values[i] = (double(x >> 26) - 32 + 0.5) / 16;
  }
  return nd.array(values, like.shape(), {.dtype = like.dtype()});
}

std::string compare_golden(const NDArray& got, const Golden& golden) {
  const NDArray& wanted = golden.wanted;
  if (got.shape() != wanted.shape() || got.dtype() != wanted.dtype()) {
    return fmt::format("{} {} for {} {}", got.shape().str(), name_of(got.dtype()), wanted.shape().str(),
                       name_of(wanted.dtype()));
  }
  const auto a = got.asvector<double>(), b = wanted.asvector<double>();
  for (size_t i = 0, next = 0; i < a.size(); ++i) {
    if (next < golden.open.size() && golden.open[next] == i) {
      ++next;
      continue;
    }
    const bool same =
        std::isnan(b[i])
            ? std::isnan(a[i])
            : a[i] == b[i] || (std::isfinite(a[i]) && std::isfinite(b[i]) &&
                               std::abs(a[i] - b[i]) <= golden.relative * std::abs(b[i]) + golden.absolute);
    if (!same) return fmt::format("at {}: {:.9g} for {:.9g}, of {}", i, a[i], b[i], a.size());
  }
  return "";
}

NDArray golden_head(const Shape& shape) {
  std::vector<float> v;
  for (int64_t i = 0; i < shape.size(); ++i) v.push_back(float(double(i * 7919 % 1000) / 1000.0 - 0.5));
  return nd.array(v, shape);
}

void check_close(const std::string& what, const NDArray& got, const NDArray& expected, double absolute,
                 double relative) {
  INFO(what);
  REQUIRE(got.shape() == expected.shape());
  const auto a = got.asvector<double>(), b = expected.asvector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("element " << i << ": got " << a[i] << ", expected " << b[i]);
    REQUIRE(std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i]));
  }
}

}  // namespace kaon::test
