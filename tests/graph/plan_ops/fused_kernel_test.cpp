// Fused pointwise operators on a GPU: what their operators give one by one. On the emulator nothing is contracted, so
// there it is the same bits.
#include "kaon/graph/plan_ops/fused_kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "kaon/engine/device/backend.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/cuda/kernel_prelude.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/tests/graph/support.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace fused_kernel_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

bool has_compiler() {
  const std::string why = gpu_count() == 0 ? gpu_unavailable_reason() : gpu_driver(0).why_no_compiler();
  if (!why.empty()) test::skip("no GPU: " + why);
  return why.empty();
}
bool is_emulated() { return gpu_driver(0).name().find("mulat") != std::string::npos; }

size_t count(const Graph& g) {
  return size_t(
      std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op == &op::FusedKernel::def; }));
}
size_t operators(const Graph& g) {
  return size_t(std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op != nullptr; }));
}

Graph traced(const Symbol& program, const std::vector<std::string>& names, const std::vector<TensorMeta>& metas) {
  Graph g = Graph::from_symbol(program, names);
  infer_graph(g, metas);
  return passes::own_outputs(passes::dead_code(std::move(g), false));
}

// Small numbers, some of them special; 0 and 1 for bool.
NDArray values(const TensorMeta& meta, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> v(size_t(meta.shape.size()));
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double special[] = {0, -0.0, inf, -inf, NAN, 1, -1, 0.5};
  for (double& x : v) {
    x = double(int(random() % 4001) - 2000) / 1000;
    if (!is_floating(meta.dtype)) x = std::trunc(x * (meta.dtype == DType::boolean ? 1 : 20));
    if (is_floating(meta.dtype) && random() % 7 == 0) x = special[random() % std::size(special)];
    if (meta.dtype == DType::uint8 || meta.dtype == DType::boolean) x = std::fabs(x);
  }
  return nd.array(v, meta.shape, {.dtype = DType::float64}).astype(meta.dtype).as_in_context(gpu(0));
}

IntrusivePtr<ExecutionPlan> plan_of(const Graph& g) {
  IntrusivePtr<ExecutionPlan> plan(new ExecutionPlan(g, {.device = gpu(0)}));
  plan->memory().check(plan->graph());
  return plan;
}
std::vector<NDArray> run(ExecutionPlan& plan, const std::vector<NDArray>& inputs) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  std::vector<NDArray> outputs(plan.graph().outputs.size());
  plan.forward(pointers, outputs, {"test"}, false);
  return outputs;
}
std::vector<NDArray> run(const Graph& g, const std::vector<NDArray>& inputs) { return run(*plan_of(g), inputs); }

// NaN equals NaN. Where a GPU may contract: within what that rounds otherwise, relative to numbers of that size.
bool same_values(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto x = a.asvector<double>(), y = b.asvector<double>();
  const double bound = is_emulated() || !is_floating(a.dtype()) ? 0
                       : size_of(a.dtype()) == 2                ? 1e-2
                       : a.dtype() == DType::float32            ? 1e-5
                                                                : 1e-13;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i])) continue;
    if (std::fabs(x[i] - y[i]) <= bound * (1 + std::fabs(y[i]))) continue;
    UNSCOPED_INFO("element " << i << " of " << x.size() << ": " << x[i] << " and " << y[i]);
    return false;
  }
  return true;
}

// Both ways; the fused graph.
Graph check_fusion(const Graph& g, const std::vector<TensorMeta>& metas, uint32_t seed = 1) {
  const Graph fused = passes::fuse_kernels(g);
  fused.validate();
  std::vector<NDArray> inputs;
  for (const TensorMeta& m : metas) inputs.push_back(values(m, seed++));
  const auto expected = run(g, inputs), got = run(fused, inputs);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("output " << i << "\n" << g.str() << fused.str());
    for (const Node& n : fused.nodes) {
      if (n.op == &op::FusedKernel::def)
        UNSCOPED_INFO(static_cast<const op::FusedKernel*>(n.attrs.get())->source->text);
    }
    REQUIRE(same_values(got[i], expected[i]));
  }
  return fused;
}

// Calls of every pointwise operator on x, y and z that takes this dtype, with several attributes.
std::vector<Symbol> calls(DType dtype, const Shape& shape) {
  const std::vector<std::string> names{"x", "y", "z"};
  const std::vector<Symbol> vars{sym.var("x"), sym.var("y"), sym.var("z")};
  std::vector<Symbol> all;
  for (const OpDef* def : all_op_defs()) {
    const bool leaky = def->name().find("LeakyReLU") != def->name().npos;
    const bool active = def->name().find("Activation") != def->name().npos;
    const bool is_scalar = def->name().find("_scalar") != def->name().npos;
    const std::vector<const char*> leaky_types{"leaky", "elu", "selu", "gelu"},
        types{"relu", "sigmoid", "tanh", "softrelu", "softsign"}, scalars{"2", "0.5", "-1.25"}, one{""};
    for (const char* choice : leaky ? leaky_types : active ? types : is_scalar ? scalars : one) {
      Attributes attrs(*def);
      if (leaky || active) def->read(attrs.edit(), "act_type", choice);
      def->read(attrs.edit(), "scalar", is_scalar ? choice : "1.5");
      def->read(attrs.edit(), "a_min", "-0.5");
      def->read(attrs.edit(), "a_max", "1.5");
      def->read(attrs.edit(), "slope", "0.1");
      def->read(attrs.edit(), "num_args", "3");
      def->read(attrs.edit(), "dtype", dtype == DType::float16 ? "int32" : "float16");
      const OpTraits& t = def->traits_of(attrs.get());
      if (!t.pointwise || t.random) continue;
      const int n = def->num_inputs(attrs.get());
      const Symbol call = apply(*def, attrs, std::vector(vars.begin(), vars.begin() + (n < 0 ? 3 : n)));
      try {
        Graph g = Graph::from_symbol(call, std::vector(names.begin(), names.begin() + (n < 0 ? 3 : n)));
        infer_graph(g, std::vector<TensorMeta>(size_t(n < 0 ? 3 : n), {shape, dtype}));
        all.push_back(call);
      } catch (const TypeError&) {  // not of this dtype
      }
    }
  }
  return all;
}

// Each of these as an output, as many together as one kernel takes: a value that reads them all makes them one group.
std::vector<Graph> graphs_of(const std::vector<Symbol>& all, const std::vector<TensorMeta>& metas) {
  constexpr size_t each = 10;
  std::vector<Graph> graphs;
  for (size_t i = 0; i < all.size(); i += each) {
    std::vector<Symbol> outputs(all.begin() + i, all.begin() + std::min(all.size(), i + each));
    std::vector<Symbol> read;
    for (const Symbol& s : outputs) read.push_back(sym.cast(s, DType::int32));
    for (const char* name : {"x", "y", "z"}) read.push_back(sym.cast(sym.var(name), DType::int32));
    Attributes attrs(op::AddN::def);
    op::AddN::def.read(attrs.edit(), "num_args", std::to_string(read.size()));
    outputs.push_back(apply(op::AddN::def, attrs, read));
    graphs.push_back(traced(Symbol::group(outputs), {"x", "y", "z"}, metas));
  }
  return graphs;
}

void check_operators(DType dtype) {
  const Shape shape{3, 37};
  const std::vector<TensorMeta> metas(3, {shape, dtype});
  const std::vector<Symbol> all = calls(dtype, shape);
  REQUIRE(all.size() > (is_floating(dtype) ? 100u : 10u));
  uint32_t seed = 1;
  for (const Graph& g : graphs_of(all, metas)) {
    const Graph fused = check_fusion(g, metas, seed++);
    INFO(g.str() << fused.str());
    CHECK(count(fused) == 1);
    CHECK(operators(fused) == 1);
  }
}

// The toolkit's compiler, which needs no GPU.
class Nvrtc {
 public:
  Nvrtc() {
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", KAON_CUDA_LIBRARY_DIR "/libnvrtc.so"}) {
      if (!library_) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
  }
  bool is_there() const { return library_; }

  // What it says about the kernels of a graph; nothing when it is content.
  std::string complaints(const Graph& g) const {
    std::string all;
    for (const Node& n : g.nodes) {
      if (n.op == &op::FusedKernel::def)
        all += compile(static_cast<const op::FusedKernel*>(n.attrs.get())->source->text);
    }
    return all;
  }

 private:
  std::string compile(const std::string& text) const {
    const std::string source = cuda::kernel_prelude() + text;
    void* program = nullptr;
    call("nvrtcCreateProgram", &program, source.c_str(), "fused", 0, static_cast<const char* const*>(nullptr),
         static_cast<const char* const*>(nullptr));
    const char* const options[] = {"--gpu-architecture=sm_90", "--std=c++20", "--device-as-default-execution-space",
                                   "--diag-suppress=186"};
    const int failed = call("nvrtcCompileProgram", program, 4, static_cast<const char* const*>(options));
    size_t bytes = 0;
    call("nvrtcGetProgramLogSize", program, &bytes);
    std::string log(bytes, '\0');
    call("nvrtcGetProgramLog", program, log.data());
    call("nvrtcDestroyProgram", &program);
    return failed || bytes > 1 ? log + text : std::string();
  }
  template <class... A>
  int call(const char* name, A... arguments) const {
    return reinterpret_cast<int (*)(A...)>(dlsym(library_, name))(arguments...);
  }

  void* library_ = nullptr;
};

}  // namespace

TEST_CASE("fused kernel: every pointwise operator gives what it gives alone", "[graph][cuda]") {
  if (!has_compiler()) return;
  for (DType dtype : {DType::float32, DType::int32}) {
    INFO(name_of(dtype));
    check_operators(dtype);
  }
}

TEST_CASE("fused kernel: every pointwise operator, all dtypes", "[graph][cuda][slow]") {
  if (!has_compiler()) return;
  for (DType dtype :
       {DType::float64, DType::float16, DType::bfloat16, DType::uint8, DType::int8, DType::int64, DType::boolean}) {
    INFO(name_of(dtype));
    check_operators(dtype);
  }
}

TEST_CASE("fused kernel: NVRTC takes every pointwise operator of every dtype", "[graph][slow]") {
  const Nvrtc nvrtc;
  if (!nvrtc.is_there()) return test::skip("no NVRTC");
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8, DType::int8,
                      DType::int32, DType::int64, DType::boolean}) {
    INFO(name_of(dtype));
    const std::vector<TensorMeta> metas(3, {{3, 37}, dtype});
    for (const Graph& g : graphs_of(calls(dtype, {3, 37}), metas)) {
      const Graph fused = passes::fuse_kernels(g);
      REQUIRE(count(fused) == 1);
      CHECK(nvrtc.complaints(fused) == "");
    }
  }
}

TEST_CASE("fused kernel: NVRTC takes casts, inputs that repeat and numbers that are special", "[graph]") {
  const Nvrtc nvrtc;
  if (!nvrtc.is_there()) return test::skip("no NVRTC");
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<TensorMeta> metas{
      {{4, 6, 5}, DType::float16}, {{6, 1}, DType::int64}, {{5}, DType::float32}, {{1}, DType::float64}};
  const Symbol wide = sym.cast(sym.var("a"), DType::float64) * -inf + NAN;
  const Symbol y = sym.clip(wide - sym.var("d"), -inf, 1e300) +
                   sym.cast(sym.broadcast_to(sym.var("b") + -9e18, {4, 6, 5}), DType::float64);
  const Symbol z = sym.cast(sym.cast(y, DType::boolean), DType::int8) * 1 +
                   sym.cast(sym.broadcast_to(sym.var("c"), {4, 6, 5}), DType::int8);
  const Graph fused = passes::fuse_kernels(traced(Symbol::group({y, z}), {"a", "b", "c", "d"}, metas));
  CHECK(count(fused) >= 1);
  CHECK(nvrtc.complaints(fused) == "");
}

TEST_CASE("fused kernel: inputs that repeat, along any dimensions, whole rows or not", "[graph][cuda]") {
  if (!has_compiler()) return;
  for (const Shape& whole : {Shape(4, 6, 8), Shape(4, 3, 5), Shape(2, 3, 4, 1)}) {
    std::vector<std::string> names{"x"};
    std::vector<TensorMeta> metas{{whole, DType::float32}};
    Symbol y = sym.tanh(sym.var("x"));
    for (int mask = 0; mask < 1 << whole.ndim(); ++mask) {  // dimensions that are kept
      Shape part;
      for (int d = 0; d < whole.ndim(); ++d) part.push_back(mask >> d & 1 ? whole[d] : 1);
      names.push_back("p" + std::to_string(mask));
      metas.push_back({part, DType::float32});
      const Symbol p = sym.var(names.back());
      y = mask % 3 == 0 ? p - y : mask % 3 == 1 ? sym.broadcast_maximum(y, p) : y * sym.broadcast_to(p, whole);
    }
    const Graph fused = check_fusion(traced(y, names, metas), metas);
    CHECK(operators(fused) == 1);
  }
  // fewer dimensions, and more elements than a grid of one element a thread
  const std::vector<TensorMeta> metas{{{1000, 33}, DType::float32}, {{33}, DType::float32}, {{1}, DType::float32}};
  const Symbol x = sym.var("x"), b = sym.var("b"), s = sym.var("s");
  check_fusion(traced(sym.relu(x * s + b), {"x", "b", "s"}, metas), metas);
}

TEST_CASE("fused kernel: dtypes change on the way", "[graph][cuda]") {
  if (!has_compiler()) return;
  const std::vector<TensorMeta> metas{{{5, 7}, DType::float16}, {{5, 7}, DType::int8}, {{5, 7}, DType::bfloat16}};
  const Symbol x = sym.var("x"), k = sym.var("k"), b = sym.var("b");
  const Symbol wide = sym.exp(sym.cast(x, DType::float64)) * 0.1;
  const Symbol whole = sym.cast(wide, DType::int8) + k;
  const Symbol real = sym.cast(b, DType::float32) * 3 + sym.cast(whole, DType::float32);
  const Symbol chosen = sym.where(sym.cast(whole, DType::boolean), sym.cast(real, DType::float16), x * x);
  const Graph fused = check_fusion(traced(Symbol::group({chosen, whole, wide}), {"x", "k", "b"}, metas), metas);
  CHECK(operators(fused) == 1);
  CHECK(fused.outputs.size() == 3);
}

TEST_CASE("fused kernel: a value's memory is taken over only where every thread reads what it overwrites",
          "[graph][cuda]") {
  if (!has_compiler()) return;
  // the transposed value dies in the chain, and has the bytes of what the chain computes; the repeated one as well, but
  // others read it
  const std::vector<TensorMeta> metas{{{64, 32}, DType::float32}, {{32, 1}, DType::float64}};
  const Symbol t = sym.transpose(sym.var("x"));
  const Symbol y = sym.tanh(t * 2 + 1) - t;
  const Graph fused = check_fusion(traced(y, {"x"}, {metas[0]}), {metas[0]});
  CHECK(count(fused) == 1);
  CHECK(plan_memory(fused).arena_bytes <= plan_memory(traced(y, {"x"}, {metas[0]})).arena_bytes);
  const Symbol d = sym.reshape(sym.transpose(sym.var("d")), {32, 1});
  const Symbol z = sym.cast(sym.broadcast_to(d, {32, 2}), DType::float32) * 2;
  check_fusion(traced(sym.transpose(z), {"d"}, {metas[1]}), {metas[1]});
}

TEST_CASE("fused kernel: nets, their gradients and dumps; exact and empty ones stay as they are", "[graph][cuda]") {
  if (!has_compiler()) return;
  const auto program = [](const auto& F, const auto& x, const auto& b) {
    return F.sigmoid(F.tanh(x * 2 + b) * F.relu(x) + F.exp(-x * x));
  };
  const Symbol net = program(sym, sym.var("x"), sym.var("b"));
  const auto check = [&](const Shape& shape, const HybridizeOptions& options) {
    NDArray x = numbers(shape).as_in_context(gpu(0)), b = numbers({shape[shape.ndim() - 1]}, 2).as_in_context(gpu(0));
    x.attach_grad();
    auto graph = std::make_unique<CachedGraph>(net, std::vector<std::string>{"x", "b"}, options, "net");
    for (bool planned : {false, true}) {
      const NDArray y = autograd::record([&] { return planned ? call(*graph, {x, b})[0] : program(nd, x, b); });
      y.backward();
      static NDArray value, gradient;
      if (planned) {
        require_near(y, value.asvector<double>(), 1e-5);
        require_near(x.grad(), gradient.asvector<double>(), 1e-5);
      } else {
        value = y, gradient = x.grad().copy();
      }
    }
    return graph;
  };
  const auto graph = check({6, 10}, {});
  CHECK_THAT(graph->report()->dump(), Contains("--- fuse_kernels: ") && Contains("_fused_kernel(") &&
                                          Contains("(_fused_kernel): compiled by NVRTC"));
  CHECK_THAT(check({6, 10}, {.exact = true})->report()->dump(), !Contains("_fused_kernel"));
  CHECK_THAT(check({0, 10}, {})->report()->dump(), !Contains("_fused_kernel"));
}

TEST_CASE("fused kernel: threads that need the same kernel at once", "[graph][cuda]") {
  if (!has_compiler()) return;
  const std::vector<TensorMeta> metas{{{9, 9}, DType::float32}};
  const Graph g = passes::fuse_kernels(traced(sym.tanh(sym.var("x") * 1.5 + 0.375), {"x"}, metas));
  REQUIRE(count(g) == 1);
  const NDArray x = values(metas[0], 3);
  std::vector<NDArray> got(4);
  std::vector<std::thread> threads;
  for (NDArray& result : got) threads.emplace_back([&] { result = run(g, {x})[0]; });
  for (std::thread& t : threads) t.join();
  for (const NDArray& result : got) CHECK(same_values(result, nd.tanh(x * 1.5 + 0.375)));
}

TEST_CASE("fused kernel: it is compiled and loaded when the plan is made; a launch finds it ready", "[graph][cuda]") {
  if (!has_compiler()) return;
  const std::vector<TensorMeta> metas{{{9, 9}, DType::float32}};
  Graph g = passes::fuse_kernels(traced(sym.exp(sym.var("x") * -1.5 + 0.625), {"x"}, metas));
  REQUIRE(count(g) == 1);
  const NDArray x = values(metas[0], 3);
  if (is_emulated()) {
    const auto loads = reinterpret_cast<unsigned long long (*)()>(gpu_library_function("kaon_emulator_kernel_loads"));
    const unsigned long long before = loads();
    const auto plan = plan_of(g);
    CHECK(loads() == before + 1);
    for (int i = 0; i < 2; ++i) CHECK(same_values(run(*plan, {x})[0], nd.exp(x * -1.5 + 0.625)));
    CHECK(loads() == before + 1);
  }
  Node& node =
      *std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op == &op::FusedKernel::def; });
  op::FusedKernel op = *static_cast<const op::FusedKernel*>(node.attrs.get());
  KernelSource wrong = *op.source;
  wrong.text += "not C++";
  op.source = KernelSource::intern(wrong);
  node.attrs = Attributes(op::FusedKernel::def, &op);
  CHECK_THROWS_AS(plan_of(g), DeviceError);
  CHECK_THROWS_WITH(plan_of(g), Contains("NVRTC") && Contains("fused") && Contains("error"));
}

// A process of its own: what is compiled once is in this one's memory.
TEST_CASE("fused kernel: one run", "[graph][cuda][.]") {
  if (!has_compiler()) return;
  const std::vector<TensorMeta> metas{{{9, 9}, DType::float32}};
  const NDArray x = values(metas[0], 3);
  const Graph g = passes::fuse_kernels(traced(sym.square(sym.var("x") * 1.5 - 0.375), {"x"}, metas));
  CHECK(same_values(run(g, {x})[0], nd.square(x * 1.5 - 0.375)));
}

TEST_CASE("fused kernel: code is kept for other processes; a broken file is made again", "[graph][cuda]") {
  if (!has_compiler()) return;
  const ScratchFolder folder;
  const auto run_in = [&](const std::string& cache) {
    const std::string program = fs::read_symlink("/proc/self/exe").string();
    return std::system(("KAON_CACHE_DIR='" + cache + "' '" + program + "' 'fused kernel: one run' >/dev/null").c_str());
  };
  const std::string cache = (folder / "made" / "here").string();
  REQUIRE(run_in(cache) == 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(cache)) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  const std::string code = bytes_of(files[0]);
  const auto made = fs::last_write_time(files[0]);
  REQUIRE(run_in(cache) == 0);
  CHECK(fs::last_write_time(files[0]) == made);  // used, not made
  for (const std::string& broken : {std::string(), code.substr(0, code.size() / 2), code + "x",
                                    code.substr(0, code.size() - 1) + char(code.back() ^ 1), std::string(100, 'x')}) {
    std::ofstream(files[0], std::ios::binary) << broken;
    REQUIRE(run_in(cache) == 0);
    CHECK(bytes_of(files[0]).size() == code.size());
    CHECK(bytes_of(files[0]) != broken);
  }
  CHECK(run_in("/proc/nowhere") == 0);  // where nothing can be written
  std::ofstream(folder / "file") << "not a folder";
  CHECK(run_in((folder / "file").string()) == 0);
}

}  // namespace fused_kernel_test
