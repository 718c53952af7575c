// Single operators on a GPU: products, elementwise, copies, launches.
#include <dlfcn.h>

#include <filesystem>

#include "kaon/bench/gpu/gpu_bare.h"
#include "kaon/bench/gpu/gpu_parts.h"
#include "kaon/engine/device/gpu.h"

namespace kaon::bench {

using namespace ops;
namespace {

// gpu_bare.so, which lies beside this program where it was built with the toolkit; null without it, or when it does not
// see the GPU that Kaon uses.
const GpuBare* bare_cublas() {
  static const GpuBare* const found = []() -> const GpuBare* {
    const auto without = [](const std::string& why) {
      fmt::print(stderr, "bench_gpu: products without cuBLASLt's beside them: {}\n", why);
      return nullptr;
    };
    const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / gpu_bare_file;
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return without(dlerror());
    auto* bare = static_cast<const GpuBare*>(dlsym(library, gpu_bare_symbol));
    if (!bare) return without(file.string() + " does not export " + gpu_bare_symbol);
    const char* device = bare->device();
    if (!device) return without(bare->problem());
    const std::string ours = gpu_driver(0).name();
    if (ours != device) return without(fmt::format("it runs on {}, Kaon on {}", device, ours));
    return bare;
  }();
  return found;
}

// cuBLASLt's product, while this lives.
class BareProduct {
 public:
  BareProduct(BareType type, int64_t n) {
    if (const GpuBare* bare = bare_cublas()) {
      product_ = bare->open(type, n);
      if (!product_) throw DeviceError(fmt::format("[bench_gpu] cuBLASLt called bare: {}", bare->problem()));
    }
  }
  ~BareProduct() {
    if (product_) bare_cublas()->close(product_);
  }
  BareProduct(const BareProduct&) = delete;
  BareProduct& operator=(const BareProduct&) = delete;
  explicit operator bool() const { return product_ != nullptr; }
  double seconds_per_product(int calls) const {
    const double s = bare_cublas()->seconds_per_product(product_, calls);
    if (s < 0) throw DeviceError(fmt::format("[bench_gpu] cuBLASLt called bare: {}", bare_cublas()->problem()));
    return s;
  }

 private:
  void* product_ = nullptr;
};

void compare_product(const GpuRun& run, const std::string& type, BareType bare_type, DType dtype) {
  const int64_t n = run.size(8192, 64);
  const int calls = run.calls(10);
  const auto matrix = [&] { return nd.random_normal({n, n}, {.ctx = the_gpu()}).astype(dtype); };
  const NDArray a = matrix(), b = matrix();
  const BareProduct bare(bare_type, n);
  const auto tflops = [&](double s) { return 2 * double(n) * double(n) * double(n) / s * tera; };
  std::vector<std::function<double()>> candidates{
      [&] { return tflops(seconds_per_call(calls, [&] { return nd.dot(a, b); })); }};
  if (bare) candidates.push_back([&] { return tflops(bare.seconds_per_product(calls)); });
  const auto r = interleave(run.rounds(), candidates);
  const std::string name = "matmul_" + std::to_string(n) + "_" + type;
  if (bare) {
    print(name + "_cublaslt", r[1], "TFLOP/s");
    print(name, r[0], "TFLOP/s", name + "_cublaslt", r[1], 0.95 * r[1].median);
  } else {
    print(name, r[0], "TFLOP/s");
  }
}

// Copies within the memory of the GPU, without Kaon's arrays and engine.
class DeviceCopy {
 public:
  explicit DeviceCopy(size_t bytes) : bytes_(bytes), from_(driver_.allocate(bytes)), to_(driver_.allocate(bytes)) {
    if (!from_ || !to_) throw MemoryError("[bench_gpu] no memory for a copy on the device");
  }
  ~DeviceCopy() { driver_.free(from_), driver_.free(to_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  double seconds_per_copy(int copies) {
    nd.waitall();
    return seconds([&] {
             for (int i = 0; i < copies; ++i) driver_.copy(to_, from_, bytes_, *stream_);
             stream_->record()->wait();
           }) /
           copies;
  }

 private:
  DeviceDriver& driver_ = gpu_driver(0);
  std::unique_ptr<Stream> stream_ = driver_.make_stream();
  size_t bytes_;
  void *from_, *to_;
};

// 20 operators: +, *, relu in turn.
struct Chain : gluon::HybridBlock<Chain> {
  auto hybrid_forward(auto F, auto x) {
    for (int k = 0; k < 20; ++k) x = k % 3 == 0 ? x + 0.125 : k % 3 == 1 ? x * 0.75 : F.relu(x);
    return x;
  }
};

}  // namespace

void matmul(const GpuRun& run) {
  compare_product(run, "float32", BareType::float32, DType::float32);
  gpu_allow_tf32(true);
  compare_product(run, "tf32", BareType::tf32, DType::float32);
  gpu_allow_tf32(false);
  compare_product(run, "bfloat16", BareType::bfloat16, DType::bfloat16);
}

void pointwise(const GpuRun& run) {
  const int64_t n = run.size(100'000'000, 10'000);
  const int calls = run.calls(20);
  const size_t bytes = size_t(n) * sizeof(float);
  const auto array = [&] { return nd.random_normal({n}, {.ctx = the_gpu()}); };
  const NDArray a = array(), b = array();
  const Chain imperative;
  Chain hybrid;
  hybrid.hybridize({.static_alloc = true, .static_shape = true});
  DeviceCopy copy(bytes);
  const auto gb = [&](int arrays, double s) { return double(arrays) * double(bytes) / s * giga; };
  const auto r =
      interleave(run.rounds(), {[&] { return gb(2, copy.seconds_per_copy(calls)); },
                                [&] { return gb(3, seconds_per_call(calls, [&] { return a + b; })); },
                                [&] { return gb(2, seconds_per_call(calls, [&] { return hybrid(a); })); },
                                [&] { return gb(2, seconds_per_call(calls, [&] { return imperative(a); })); }});
  const std::string floats = fmt::format("_{}", n);
  const Baseline copied{"device_copy" + floats, r[0]};
  print(copied.name, r[0], "GB/s");
  print("add" + floats, r[1], "GB/s", {copied}, 0.9 * r[0].median);
  print("chain20" + floats + "_hybridized", r[2], "GB/s", {copied, {"chain20" + floats + "_imperative", r[3]}},
        0.9 * r[0].median);
  print("chain20" + floats + "_imperative", r[3], "GB/s", {copied});
}

void overlap(const GpuRun& run) {
  const int64_t n = run.size(4096, 32);
  const int copies = run.calls(8);
  const Shape shape{run.size(64 << 20, 4096)};  // 256 MiB
  const NDArray a = nd.random_normal({n, n}, {.ctx = the_gpu()});
  const NDArray on_host = nd.random_normal(shape), on_gpu = on_host.as_in_context(the_gpu());
  for (bool to_gpu : {true, false}) {
    const NDArray& from = to_gpu ? on_host : on_gpu;
    const Device to = to_gpu ? the_gpu() : cpu();
    const auto copy = [&] {
      for (int i = 0; i < copies; ++i) from.as_in_context(to);
    };
    const double one_product = seconds_per_call(run.calls(20), [&] { return nd.dot(a, a); });
    copy();  // pinned memory is made
    const int products = std::clamp(int(seconds_per_call(1, copy) / one_product), 1, run.calls(10'000));
    const auto compute = [&] {
      for (int i = 0; i < products; ++i) nd.dot(a, a);
    };
    const auto ms = [](const auto& work) { return seconds_per_call(1, work) * per_ms; };
    const auto r = interleave(run.rounds(), {[&] { return ms(copy); }, [&] { return ms(compute); },
                                             [&] { return ms([&] { compute(), copy(); }); }});
    const std::string name = to_gpu ? "copies_to_gpu" : "copies_to_host";
    const Baseline copying{name, r[0]}, computing{name + "_products_alone", r[1]};
    const bool longer = r[0].median > r[1].median;
    print(copying.name, r[0], "ms");
    print(computing.name, r[1], "ms");
    const double shorter = std::min(r[0].median, r[1].median);
    // 80 % of the shorter one are hidden behind the longer one
    print(name + "_and_products", r[2], "ms", {longer ? copying : computing, longer ? computing : copying},
          std::max(r[0].median, r[1].median) + 0.2 * shorter);
  }
}

void launch(const GpuRun& run) {
  const int calls = run.small ? 200 : 20'000;
  const auto us_of_chain = [&](Device device) {
    const NDArray one = nd.ones({16}, {.device = device});
    NDArray x = one;
    return seconds_per_call(calls, [&] { x = x + one; }) * per_us;
  };
  const auto r = interleave(run.rounds(), {[&] { return us_of_chain(cpu()); }, [&] { return us_of_chain(the_gpu()); }});
  print("add_16_in_a_chain_cpu", r[0], "us");
  print("add_16_in_a_chain_gpu", r[1], "us", "add_16_in_a_chain_cpu", r[0], 3);
}

}  // namespace kaon::bench
