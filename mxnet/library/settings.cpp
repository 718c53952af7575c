// Settings and facts of the process.
#include <cstdlib>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/storage.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/shutdown.h"
#include "kaon/ops/random_state.h"

using namespace kaon;
using namespace kaon::mxnet;

int MXLibInfoFeatures(const struct LibFeature** libFeature, size_t* size) {
  // MXNet's names in its order. What Kaon has instead of a library counts where programs ask whether it works here.
  static const LibFeature features[] = {
      {"CUDA", gpu_count() > 0},
      {"CUDNN", false},
      {"NCCL", false},
      {"CUDA_RTC", false},
      {"TENSORRT", false},
      {"CPU_SSE", true},
      {"CPU_SSE2", true},
      {"CPU_SSE3", true},
      {"CPU_SSE4_1", true},
      {"CPU_SSE4_2", true},
      {"CPU_SSE4A", false},
      {"CPU_AVX", true},
      {"CPU_AVX2", true},
      {"OPENMP", false},
      {"SSE", false},
      {"F16C", true},
      {"JEMALLOC", false},
      {"BLAS_OPEN", false},
      {"BLAS_ATLAS", false},
      {"BLAS_MKL", false},
      {"BLAS_APPLE", false},
      {"LAPACK", true},
      {"MKLDNN", false},
      {"OPENCV", true},
      {"CAFFE", false},
      {"PROFILER", false},
      {"DIST_KVSTORE", false},
      {"CXX14", true},
      {"INT64_TENSOR_SIZE", false},
      {"SIGNAL_HANDLER", false},
      {"DEBUG", false},
      {"TVM_OP", false},
  };
  return guard([&] {
    *libFeature = features;
    *size = sizeof(features) / sizeof(features[0]);
  });
}

int MXGetGPUCount(int* out) {
  return guard([&] { *out = gpu_count(); });
}

int MXRandomSeed(int seed) {
  return guard([&] { random::seed(uint32_t(seed)); });
}
// There is one stream of numbers for all devices.
int MXRandomSeedContext(int seed, int dev_type, int dev_id) {
  return guard([&] {
    Context::numbered(dev_type, dev_id);
    random::seed(uint32_t(seed));
  });
}

int MXGetEnv(const char* name, const char** value) {
  return guard([&] { *value = std::getenv(name); });
}
int MXSetEnv(const char* name, const char* value) {
  return guard([&] {
    if (value ? setenv(name, value, 1) : unsetenv(name)) refuse("MXSetEnv", "the name of a variable is not valid");
  });
}

int MXIsNumpyShape(int* curr) {
  return guard([&] { *curr = int(numpy_shape()); });
}
int MXSetIsNumpyShape(int is_np_shape, int* prev) {
  return guard([&] {
    *prev = int(numpy_shape());
    set_numpy_shape(is_np_shape);
  });
}

// MXNet's number of operations that are pushed together. Kaon has no such thing: the number is kept and given back.
int MXEngineSetBulkSize(int bulk_size, int* prev_bulk_size) {
  static thread_local int size = 15;
  return guard([&] {
    *prev_bulk_size = size;
    size = bulk_size;
  });
}

int MXStorageEmptyCache(int dev_type, int dev_id) {
  return guard([&] {
    if (Context::numbered(dev_type, dev_id).kind != ContextKind::gpu) Storage::cpu().trim();
  });
}

// At the end of the interpreter: what is pending ends, and failures that nobody waited for are nobody's. From then on
// no function of the program is called.
int MXNotifyShutdown() {
  return guard([&] {
    try {
      Engine::current().wait_all();
    } catch (const std::exception&) {
    }
    note_shutdown();
  });
}

int MXGetGPUMemoryInformation64(int dev, uint64_t* free_mem, uint64_t* total_mem) {
  return guard([&] {
    *free_mem = *total_mem = 0;
    engine::check_device(gpu(dev), "MXGetGPUMemoryInformation64");
    refuse("MXGetGPUMemoryInformation64", "Kaon does not count the memory of a GPU that other programs use");
  });
}
