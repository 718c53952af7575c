#include <catch2/catch.hpp>

#include <map>
#include <string>

#include "calls.h"

namespace library_test {

using namespace symbols;
using Catch::Matchers::Contains;

TEST_CASE("The library says what it has", "[mxnet]") {
  const LibFeature* features = nullptr;
  size_t n = 0;
  ok(MXLibInfoFeatures(&features, &n));
  std::map<std::string, bool> all;
  for (size_t i = 0; i < n; ++i) all[features[i].name] = features[i].enabled;
  REQUIRE(all.size() == 32);
  REQUIRE(!all.at("INT64_TENSOR_SIZE"));
  int gpus = -1;
  ok(MXGetGPUCount(&gpus));
  REQUIRE(all.at("CUDA") == (gpus > 0));
  int functions = -1;
  const char** names = nullptr;
  ok(MXNetFuncListGlobalNames(&functions, &names));
  REQUIRE(functions == 0);
  MXNetFunctionHandle function = &functions;
  ok(MXNetFuncGetGlobal("_npi.zeros", &function));
  REQUIRE(function == nullptr);
}

TEST_CASE("Settings are kept and given back", "[mxnet]") {
  int size = 0;
  ok(MXEngineSetBulkSize(7, &size));
  const int first = size;
  ok(MXEngineSetBulkSize(first, &size));
  REQUIRE(size == 7);
  const char* value = nullptr;
  ok(MXSetEnv("KAON_MXNET_TEST", "yes"));
  ok(MXGetEnv("KAON_MXNET_TEST", &value));
  REQUIRE(std::string(value) == "yes");
  ok(MXSetEnv("KAON_MXNET_TEST", nullptr));
  ok(MXGetEnv("KAON_MXNET_TEST", &value));
  REQUIRE(value == nullptr);
  ok(MXStorageEmptyCache(1, 0));
  ok(MXNotifyShutdown());
}

TEST_CASE("A seed gives the same numbers again", "[mxnet]") {
  const auto draw = [] { return one("_random_uniform", {}, {{"shape", "(4,)"}, {"ctx", "cpu(0)"}}).values(); };
  ok(MXRandomSeed(7));
  const auto first = draw();
  REQUIRE(draw() != first);
  ok(MXRandomSeedContext(7, 1, 0));
  REQUIRE(draw() == first);
  REQUIRE(MXRandomSeedContext(7, 9, 0) == -1);
}

TEST_CASE("The profiler counts operators while it runs and is not paused", "[mxnet]") {
  const char *keys[] = {"aggregate_stats"}, *values[] = {"True"};
  ok(MXSetProcessProfilerConfig(1, keys, values, nullptr));
  const Array x({1}, {4});
  const auto counted = [&](const char* op) {
    REQUIRE(one(op, {&x}).values().size() == 1);
    const char* text = nullptr;
    ok(MXAggregateProfileStatsPrintEx(&text, 1, 1, 0, 0));
    return std::string(text).find('"' + std::string(op) + '"') != std::string::npos;
  };
  CHECK_FALSE(counted("sqrt"));
  ok(MXSetProcessProfilerState(1, 0, nullptr));
  CHECK(counted("sqrt"));
  ok(MXProcessProfilePause(1, 0, nullptr));
  CHECK_FALSE(counted("sin"));
  ok(MXProcessProfilePause(0, 0, nullptr));
  CHECK(counted("cos"));
  ok(MXProcessProfilePause(1, 0, nullptr));
  ok(MXSetProcessProfilerState(1, 0, nullptr));  // begins again
  CHECK(counted("exp"));
  ok(MXSetProcessProfilerState(0, 0, nullptr));
  CHECK_FALSE(counted("tan"));
  values[0] = "False";
  ok(MXSetProcessProfilerConfig(1, keys, values, nullptr));
}

TEST_CASE("Functions that are not served refuse by their name", "[mxnet]") {
  REQUIRE(MXLoadLib("x.so", 0) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("MXLoadLib"));
  REQUIRE(MXRtcCudaModuleFree(nullptr) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("MXRtcCudaModuleFree"));
  REQUIRE(MXGenBackendSubgraph(nullptr, "TensorRT", nullptr) == -1);
}

}  // namespace library_test
