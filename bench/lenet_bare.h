// The oneDNN primitives of a LeNet training step, called bare: what the library's time is compared with.
#pragma once

#include <omp.h>

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kaon/bench/common.h"

namespace kaon::bench {

// One primitive in its fastest memory format among nchw, nhwc and the library's own choice; reorders are not counted.
class BarePrimitives {
 public:
  using tag = dnnl::memory::format_tag;
  using dims = dnnl::memory::dims;

  // Forward and, when wanted, backward by data and by weights; returns milliseconds.
  double convolution(int64_t n, int64_t in, int64_t size, int64_t out, int64_t kernel, bool backward_data) {
    int64_t to = size - kernel + 1;
    dims src{n, in, size, size}, weights{out, in, kernel, kernel}, bias{out}, dst{n, out, to, to}, one{1, 1},
        none{0, 0};
    double forward = best("conv forward", [&](tag t, tag w) {
      auto d =
          dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                                          md(src, t), md(weights, w), md(bias, tag::x), md(dst, t), one, none, none);
      dnnl::convolution_forward::primitive_desc p(d, engine_);
      return time(dnnl::convolution_forward(p), p,
                  {{DNNL_ARG_SRC, p.src_desc()},
                   {DNNL_ARG_WEIGHTS, p.weights_desc()},
                   {DNNL_ARG_BIAS, p.bias_desc()},
                   {DNNL_ARG_DST, p.dst_desc()}});
    });
    auto hint = [&](tag t, tag w) {
      auto d =
          dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                                          md(src, t), md(weights, w), md(bias, tag::x), md(dst, t), one, none, none);
      return dnnl::convolution_forward::primitive_desc(d, engine_);
    };
    double by_weights = best("conv backward weights", [&](tag t, tag w) {
      auto d = dnnl::convolution_backward_weights::desc(dnnl::algorithm::convolution_direct, md(src, t), md(weights, w),
                                                        md(bias, tag::x), md(dst, t), one, none, none);
      dnnl::convolution_backward_weights::primitive_desc p(d, engine_, hint(t, w));
      return time(dnnl::convolution_backward_weights(p), p,
                  {{DNNL_ARG_SRC, p.src_desc()},
                   {DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                   {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, p.diff_bias_desc()}});
    });
    double by_data = !backward_data ? 0 : best("conv backward data", [&](tag t, tag w) {
      auto d = dnnl::convolution_backward_data::desc(dnnl::algorithm::convolution_direct, md(src, t), md(weights, w),
                                                     md(dst, t), one, none, none);
      dnnl::convolution_backward_data::primitive_desc p(d, engine_, hint(t, w));
      return time(dnnl::convolution_backward_data(p), p,
                  {{DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                   {DNNL_ARG_WEIGHTS, p.weights_desc()},
                   {DNNL_ARG_DIFF_SRC, p.diff_src_desc()}});
    });
    return forward + by_weights + by_data;
  }

  double relu_and_pool(int64_t n, int64_t channels, int64_t size) {
    dims src{n, channels, size, size}, dst{n, channels, size / 2, size / 2}, two{2, 2}, none{0, 0};
    double relu = best("relu", [&](tag t, tag) { return relu_ms(md(src, t == tag::any ? tag::nChw16c : t)); });
    double pool = best("max pooling", [&](tag t, tag) {
      auto from = md(src, t == tag::any ? tag::nChw16c : t), to = md(dst, t == tag::any ? tag::nChw16c : t);
      auto d = dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_max, from, to,
                                           two, two, none, none);
      dnnl::pooling_forward::primitive_desc p(d, engine_);
      double ms =
          time(dnnl::pooling_forward(p), p,
               {{DNNL_ARG_SRC, p.src_desc()}, {DNNL_ARG_DST, p.dst_desc()}, {DNNL_ARG_WORKSPACE, p.workspace_desc()}});
      auto b = dnnl::pooling_backward::desc(dnnl::algorithm::pooling_max, from, to, two, two, none, none);
      dnnl::pooling_backward::primitive_desc q(b, engine_, p);
      return ms + time(dnnl::pooling_backward(q), q,
                       {{DNNL_ARG_DIFF_SRC, q.diff_src_desc()},
                        {DNNL_ARG_DIFF_DST, q.diff_dst_desc()},
                        {DNNL_ARG_WORKSPACE, q.workspace_desc()}});
    });
    return relu + pool;
  }

  double dense(int64_t n, int64_t in, int64_t out, bool relu) {
    auto any = [](const dims& d) { return md(d, tag::any); };
    dims src{n, in}, weights{out, in}, bias{out}, dst{n, out};
    auto d = dnnl::inner_product_forward::desc(dnnl::prop_kind::forward_training, any(src), any(weights), any(bias),
                                               any(dst));
    dnnl::inner_product_forward::primitive_desc p(d, engine_);
    double ms = time(dnnl::inner_product_forward(p), p,
                     {{DNNL_ARG_SRC, p.src_desc()},
                      {DNNL_ARG_WEIGHTS, p.weights_desc()},
                      {DNNL_ARG_BIAS, p.bias_desc()},
                      {DNNL_ARG_DST, p.dst_desc()}});
    auto w = dnnl::inner_product_backward_weights::desc(any(src), any(weights), any(bias), any(dst));
    dnnl::inner_product_backward_weights::primitive_desc q(w, engine_, p);
    ms += time(dnnl::inner_product_backward_weights(q), q,
               {{DNNL_ARG_SRC, q.src_desc()},
                {DNNL_ARG_DIFF_DST, q.diff_dst_desc()},
                {DNNL_ARG_DIFF_WEIGHTS, q.diff_weights_desc()},
                {DNNL_ARG_DIFF_BIAS, q.diff_bias_desc()}});
    auto b = dnnl::inner_product_backward_data::desc(any(src), any(weights), any(dst));
    dnnl::inner_product_backward_data::primitive_desc r(b, engine_, p);
    ms += time(dnnl::inner_product_backward_data(r), r,
               {{DNNL_ARG_DIFF_DST, r.diff_dst_desc()},
                {DNNL_ARG_WEIGHTS, r.weights_desc()},
                {DNNL_ARG_DIFF_SRC, r.diff_src_desc()}});
    return relu ? ms + relu_ms(md(dst, tag::nc)) : ms;
  }

  std::vector<std::string> chosen;  // "conv forward: jit:avx512_core (nhwc) 0.37 ms"

 private:
  static dnnl::memory::desc md(const dims& d, tag t) { return dnnl::memory::desc(d, dnnl::memory::data_type::f32, t); }

  double relu_ms(const dnnl::memory::desc& m) {
    auto d = dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, m, 0.f);
    dnnl::eltwise_forward::primitive_desc p(d, engine_);
    double ms = time(dnnl::eltwise_forward(p), p, {{DNNL_ARG_SRC, m}, {DNNL_ARG_DST, m}});
    auto b = dnnl::eltwise_backward::desc(dnnl::algorithm::eltwise_relu, m, m, 0.f);
    dnnl::eltwise_backward::primitive_desc q(b, engine_, p);
    return ms + time(dnnl::eltwise_backward(q), q, {{DNNL_ARG_SRC, m}, {DNNL_ARG_DIFF_DST, m}, {DNNL_ARG_DIFF_SRC, m}});
  }

  double best(const std::string& what, const std::function<double(tag, tag)>& run) {
    struct Format {
      tag images, weights;
      const char* name;
    };
    double fastest = 1e9;
    std::string line;
    for (Format f : {Format{tag::nchw, tag::oihw, "nchw"}, Format{tag::nhwc, tag::any, "nhwc"},
                     Format{tag::any, tag::any, "any"}}) {
      double ms = run(f.images, f.weights);
      if (ms < fastest) {
        fastest = ms;
        line = fmt::format("{}: {} ({}) {:.3f} ms", what, implementation_, f.name, ms);
      }
    }
    chosen.push_back(line);
    return fastest;
  }

  template <class Primitive, class Desc>
  double time(const Primitive& primitive, const Desc& desc,
              const std::vector<std::pair<int, dnnl::memory::desc>>& args) {
    implementation_ = desc.impl_info_str();
    std::unordered_map<int, dnnl::memory> memories;
    for (const auto& [arg, m] : args) {
      dnnl::memory memory(m, engine_);
      auto* values = static_cast<unsigned char*>(memory.get_data_handle());
      std::fill_n(values, m.get_size(), 0);
      memories.emplace(arg, memory);
    }
    auto once = [&] {
      primitive.execute(stream_, memories);
      stream_.wait();
    };
    once();
    std::vector<double> runs;
    for (int i = 0; i < 9; ++i) runs.push_back(seconds(once) * 1e3);
    return summarize(runs).median;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::string implementation_;
};

// Milliseconds of one step of LeNet (conv20@5, pool, conv50@5, pool, fc128, fc10; 28x28 digits) on `threads` threads.
inline double lenet_bare_ms(int64_t batch, int threads, bool print_choice = false) {
  omp_set_num_threads(threads);
  BarePrimitives bare;
  double ms = bare.convolution(batch, 1, 28, 20, 5, false) + bare.relu_and_pool(batch, 20, 24) +
              bare.convolution(batch, 20, 12, 50, 5, true) + bare.relu_and_pool(batch, 50, 8) +
              bare.dense(batch, 800, 128, true) + bare.dense(batch, 128, 10, false);
  omp_set_num_threads(1);
  if (print_choice) {
    for (const auto& line : bare.chosen) fmt::print("# bare {}\n", line);
  }
  return ms;
}

}  // namespace kaon::bench
