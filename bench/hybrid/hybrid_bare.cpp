#include "kaon/bench/hybrid/hybrid_bare.h"

#include <time.h>

#include <thread>

#include "kaon/bench/common.h"
#include "kaon/ops/kernels/onednn_versions.h"

// Of the runtime that oneDNN loads; not every compiler has its header.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads(void);

namespace kaon::bench {

using namespace ops;
namespace {

// So many multiply-adds of floats in vectors as wide as the processor's, in chains enough to hide their latency.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_add_512(int64_t n) {
  using Vector = float __attribute__((vector_size(64)));
  Vector sums[16] = {}, a = {};
  for (int64_t i = 0; i < n; i += 16 * 16) {
#pragma GCC unroll 16
    for (Vector& s : sums) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(s) : "v"(a));
  }
}
__attribute__((target("fma"))) void multiply_add_256(int64_t n) {
  using Vector = float __attribute__((vector_size(32)));
  Vector sums[16] = {}, a = {};
  for (int64_t i = 0; i < n; i += 16 * 8) {
#pragma GCC unroll 16
    for (Vector& s : sums) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(s) : "v"(a));
  }
}
void multiply_add_registers(int64_t n) {
  if (__builtin_cpu_supports("avx512f")) return multiply_add_512(n);
  if (__builtin_cpu_supports("fma")) multiply_add_256(n);
}
#else
void multiply_add_registers(int64_t) {}
#endif

using namespace dnnl;
using tag = memory::format_tag;

memory::desc md(const memory::dims& d, tag t) { return memory::desc(d, memory::data_type::f32, t); }
memory::desc any(const memory::dims& d) { return md(d, tag::any); }

primitive_attr with_relu(bool relu) {
  primitive_attr attr;
  if (relu) {
    post_ops ops;
    onednn::append_relu(ops);
    attr.set_post_ops(ops);
  }
  return attr;
}

// oneDNN's own team while primitives are made and run bare. Its threads spin for a while after that and would take
// cores from the engine: they are given the time to fall asleep.
class Team {
 public:
  explicit Team(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Team() {
    const timespec rest{0, 20'000'000};
    if (omp_get_max_threads() > before_) nanosleep(&rest, nullptr);
    omp_set_num_threads(before_);
  }

 private:
  int before_;
};

struct ConvolutionShapes {
  memory::dims src, weights, bias, dst, stride, pad;
  explicit ConvolutionShapes(const BarePrimitives::Convolution& c)
      : src{c.batch, c.in, c.size, c.size},
        weights{c.out, c.in, c.kernel, c.kernel},
        bias{c.out},
        dst{c.batch, c.out, (c.size + 2 * c.pad - c.kernel) / c.stride + 1,
            (c.size + 2 * c.pad - c.kernel) / c.stride + 1},
        stride{c.stride, c.stride},
        pad{c.pad, c.pad} {}
  convolution_forward::primitive_desc forward(const dnnl::engine& e, prop_kind kind, tag images, tag w,
                                              const primitive_attr& attr = {},
                                              algorithm how = algorithm::convolution_direct) const {
    return onednn::describe<convolution_forward>(e, attr, kind, how, md(src, images), md(weights, w), md(bias, tag::x),
                                                 md(dst, images), stride, pad, pad);
  }
};

}  // namespace

template <class Primitive, class Desc>
BarePrimitives::Item BarePrimitives::item(const Primitive& primitive, const Desc& desc,
                                          const std::vector<std::pair<int, memory::desc>>& args) {
  Item made{primitive, {}, desc.impl_info_str()};
  for (const auto& [arg, m] : args) {
    memory memory(m, engine_);
    std::fill_n(static_cast<unsigned char*>(memory.get_data_handle()), m.get_size(), 0);
    made.args.emplace(arg, memory);
  }
  return made;
}

void BarePrimitives::add(const std::string& what, Item item, int times) {
  item.what = what + ": " + item.what;
  item.times = times;
  items_.push_back(std::move(item));
}

void BarePrimitives::add_fastest(const std::string& what, const Make& make, int times) {
  add_fastest_of(what,
                 {{"nchw", [&] { return make(tag::nchw, tag::any); }},
                  {"nhwc", [&] { return make(tag::nhwc, tag::any); }},
                  {"any", [&] { return make(tag::any, tag::any); }}},
                 times);
}

void BarePrimitives::add_fastest_of(const std::string& what, const std::vector<Candidate>& candidates, int times) {
  const Team team(threads_);
  double least = 1e9;
  Item fastest;
  for (const auto& [name, make] : candidates) {
    Item candidate = make();
    const double s = seconds_of(candidate);
    if (s >= least) continue;
    least = s;
    candidate.what += fmt::format(" ({})", name);
    fastest = std::move(candidate);
  }
  add(what, std::move(fastest), times);
}

double BarePrimitives::seconds_of(const Item& item) const {
  const auto once = [&] {
    item.primitive.execute(stream_, item.args);
    stream_.wait();
  };
  once();
  const int calls = std::max(1, int(100e-6 / std::max(1e-7, seconds(once))));
  std::vector<double> runs;
  for (int i = 0; i < 5; ++i) {
    runs.push_back(seconds([&] {
                     for (int k = 0; k < calls; ++k) once();
                   }) /
                   calls);
  }
  return summarize(runs).median;
}

double BarePrimitives::run() const {
  const Team team(threads_);
  const auto all = [&] {
    for (const Item& item : items_) {
      for (int k = 0; k < item.times; ++k) item.primitive.execute(stream_, item.args);
    }
    stream_.wait();
  };
  all();
  const int calls = std::max(1, int(2e-3 / std::max(1e-7, seconds(all))));
  return seconds([&] {
           for (int k = 0; k < calls; ++k) all();
         }) /
         calls;
}

void BarePrimitives::give_each_its_weights() {
  std::vector<Item> all;
  for (const Item& item : items_) {
    all.push_back(item);
    all.back().times = 1;
    const auto weights = item.args.find(DNNL_ARG_WEIGHTS);
    for (int k = 1; k < item.times; ++k) {
      all.push_back(all.back());
      memory own(weights->second.get_desc(), engine_);
      std::fill_n(static_cast<unsigned char*>(own.get_data_handle()), own.get_desc().get_size(), 0);
      all.back().args[DNNL_ARG_WEIGHTS] = own;
    }
  }
  items_ = std::move(all);
}

void BarePrimitives::print_choices() const {
  for (const Item& item : items_) fmt::print("# bare {}\n", item.what);
}

void BarePrimitives::convolution(const Convolution& c, bool relu, int times, bool winograd) {
  const ConvolutionShapes shapes(c);
  const int64_t out_size = (c.size + 2 * c.pad - c.kernel) / c.stride + 1;
  multiply_adds_ += double(times * c.batch * c.out * out_size * out_size * c.in * c.kernel * c.kernel);
  const auto make = [&](tag t, algorithm how = algorithm::convolution_direct) {
    const auto p = shapes.forward(engine_, prop_kind::forward_inference, t, tag::any, with_relu(relu), how);
    return item(convolution_forward(p), p,
                {{DNNL_ARG_SRC, p.src_desc()},
                 {DNNL_ARG_WEIGHTS, p.weights_desc()},
                 {DNNL_ARG_BIAS, p.bias_desc()},
                 {DNNL_ARG_DST, p.dst_desc()}});
  };
  std::vector<Candidate> candidates{{"nchw", [&] { return make(tag::nchw); }},
                                    {"nhwc", [&] { return make(tag::nhwc); }},
                                    {"any", [&] { return make(tag::any); }}};
  if (winograd && c.kernel == 3 && c.stride == 1) {
    candidates.emplace_back("Winograd", [&] { return make(tag::nChw16c, algorithm::convolution_winograd); });
  }
  add_fastest_of("convolution", candidates, times);
}

double BarePrimitives::run_multiply_adds() const {
  std::vector<std::thread> threads;
  return seconds([&] {
    for (int t = 0; t < threads_; ++t) {
      threads.emplace_back([this] { multiply_add_registers(int64_t(multiply_adds_ / threads_)); });
    }
    for (std::thread& t : threads) t.join();
  });
}

void BarePrimitives::max_pooling(int64_t batch, int64_t channels, int64_t size) {
  const memory::dims src{batch, channels, size, size}, dst{batch, channels, size / 2, size / 2}, two{2, 2};
  add_fastest("max pooling", [&](tag t, tag) {
    const tag images = t == tag::any ? tag::nChw16c : t;
    const auto p =
        onednn::describe_pooling(engine_, prop_kind::forward_inference, md(src, images), md(dst, images), two);
    return item(pooling_forward(p), p, {{DNNL_ARG_SRC, p.src_desc()}, {DNNL_ARG_DST, p.dst_desc()}});
  });
}

void BarePrimitives::dense(int64_t batch, int64_t in, int64_t out, bool relu) {
  const Team team(threads_);
  const memory::dims src{batch, in}, dst{batch, out};
  const auto p =
      onednn::describe<inner_product_forward>(engine_, with_relu(relu), prop_kind::forward_inference, md(src, tag::nc),
                                              any({out, in}), md({out}, tag::x), md(dst, tag::nc));
  add("inner product", item(inner_product_forward(p), p,
                            {{DNNL_ARG_SRC, p.src_desc()},
                             {DNNL_ARG_WEIGHTS, p.weights_desc()},
                             {DNNL_ARG_BIAS, p.bias_desc()},
                             {DNNL_ARG_DST, p.dst_desc()}}));
}

void BarePrimitives::train_convolution(const Convolution& c, bool backward_data) {
  const ConvolutionShapes s(c);
  add_fastest("convolution forward", [&](tag t, tag w) {
    const auto p = s.forward(engine_, prop_kind::forward_training, t, w);
    return item(convolution_forward(p), p,
                {{DNNL_ARG_SRC, p.src_desc()},
                 {DNNL_ARG_WEIGHTS, p.weights_desc()},
                 {DNNL_ARG_BIAS, p.bias_desc()},
                 {DNNL_ARG_DST, p.dst_desc()}});
  });
  add_fastest("convolution backward weights", [&](tag t, tag w) {
    const auto p = onednn::describe_gradient<convolution_backward_weights>(
        engine_, {}, s.forward(engine_, prop_kind::forward_training, t, w), algorithm::convolution_direct, md(s.src, t),
        md(s.weights, w), md(s.bias, tag::x), md(s.dst, t), s.stride, s.pad, s.pad);
    return item(convolution_backward_weights(p), p,
                {{DNNL_ARG_SRC, p.src_desc()},
                 {DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                 {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc()},
                 {DNNL_ARG_DIFF_BIAS, p.diff_bias_desc()}});
  });
  if (!backward_data) return;
  add_fastest("convolution backward data", [&](tag t, tag w) {
    const auto p = onednn::describe_gradient<convolution_backward_data>(
        engine_, {}, s.forward(engine_, prop_kind::forward_training, t, w), algorithm::convolution_direct, md(s.src, t),
        md(s.weights, w), md(s.dst, t), s.stride, s.pad, s.pad);
    return item(convolution_backward_data(p), p,
                {{DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                 {DNNL_ARG_WEIGHTS, p.weights_desc()},
                 {DNNL_ARG_DIFF_SRC, p.diff_src_desc()}});
  });
}

void BarePrimitives::add_relu(const memory::desc& m) {
  const Team team(threads_);
  const auto p = onednn::describe_relu(engine_, m);
  add("relu forward", item(eltwise_forward(p), p, {{DNNL_ARG_SRC, m}, {DNNL_ARG_DST, m}}));
  const auto q = onednn::describe_relu_gradient(engine_, p, m);
  add("relu backward",
      item(eltwise_backward(q), q, {{DNNL_ARG_SRC, m}, {DNNL_ARG_DIFF_DST, m}, {DNNL_ARG_DIFF_SRC, m}}));
}

void BarePrimitives::train_relu_and_pooling(int64_t batch, int64_t channels, int64_t size) {
  const memory::dims src{batch, channels, size, size}, dst{batch, channels, size / 2, size / 2}, two{2, 2};
  add_relu(md(src, tag::nhwc));
  const auto images = [](tag t) { return t == tag::any ? tag::nChw16c : t; };
  const auto forward = [&](tag t) {
    return onednn::describe_pooling(engine_, prop_kind::forward_training, md(src, images(t)), md(dst, images(t)), two);
  };
  add_fastest("max pooling forward", [&](tag t, tag) {
    const auto p = forward(t);
    return item(pooling_forward(p), p,
                {{DNNL_ARG_SRC, p.src_desc()}, {DNNL_ARG_DST, p.dst_desc()}, {DNNL_ARG_WORKSPACE, p.workspace_desc()}});
  });
  add_fastest("max pooling backward", [&](tag t, tag) {
    const auto p = onednn::describe_pooling_gradient(engine_, forward(t), md(src, images(t)), md(dst, images(t)), two);
    return item(pooling_backward(p), p,
                {{DNNL_ARG_DIFF_SRC, p.diff_src_desc()},
                 {DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                 {DNNL_ARG_WORKSPACE, p.workspace_desc()}});
  });
}

void BarePrimitives::train_dense(int64_t batch, int64_t in, int64_t out, bool relu, bool backward_data) {
  const Team team(threads_);
  const memory::dims src{batch, in}, weights{out, in}, bias{out}, dst{batch, out};
  const auto p = onednn::describe<inner_product_forward>(engine_, {}, prop_kind::forward_training, any(src),
                                                         any(weights), any(bias), any(dst));
  add("inner product forward", item(inner_product_forward(p), p,
                                    {{DNNL_ARG_SRC, p.src_desc()},
                                     {DNNL_ARG_WEIGHTS, p.weights_desc()},
                                     {DNNL_ARG_BIAS, p.bias_desc()},
                                     {DNNL_ARG_DST, p.dst_desc()}}));
  const auto q = onednn::describe_gradient<inner_product_backward_weights>(engine_, {}, p, any(src), any(weights),
                                                                           any(bias), any(dst));
  add("inner product backward weights", item(inner_product_backward_weights(q), q,
                                             {{DNNL_ARG_SRC, q.src_desc()},
                                              {DNNL_ARG_DIFF_DST, q.diff_dst_desc()},
                                              {DNNL_ARG_DIFF_WEIGHTS, q.diff_weights_desc()},
                                              {DNNL_ARG_DIFF_BIAS, q.diff_bias_desc()}}));
  if (backward_data) {
    const auto r =
        onednn::describe_gradient<inner_product_backward_data>(engine_, {}, p, any(src), any(weights), any(dst));
    add("inner product backward data", item(inner_product_backward_data(r), r,
                                            {{DNNL_ARG_DIFF_DST, r.diff_dst_desc()},
                                             {DNNL_ARG_WEIGHTS, r.weights_desc()},
                                             {DNNL_ARG_DIFF_SRC, r.diff_src_desc()}}));
  }
  if (relu) add_relu(md(dst, tag::nc));
}

}  // namespace kaon::bench
