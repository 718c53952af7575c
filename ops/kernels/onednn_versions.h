// Where the interfaces of oneDNN 2 and oneDNN 3 differ. What takes a primitive's parameters takes them in oneDNN 3's
// order; templates, so that a compiler sees only the version that it has.
#pragma once

#include <dnnl.hpp>

namespace kaon::ops::onednn {

// Up to oneDNN 2 a primitive's parameters made a description of their own, which knew no engine.
template <class P>
concept HasOpDesc = requires {
  typename P::desc;
};

// The description of P.
template <class P, class... Parameters>
typename P::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                    const Parameters&... parameters) {
  if constexpr (HasOpDesc<P>) {
    return {typename P::desc(parameters...), attr, engine};
  } else {
    return {engine, parameters..., attr};
  }
}

// The description of the gradient P of the primitive that `hint` describes.
template <class P, class Hint, class... Parameters>
typename P::primitive_desc describe_gradient(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                             const Hint& hint, const Parameters&... parameters) {
  if constexpr (HasOpDesc<P>) {
    return {typename P::desc(parameters...), attr, engine, hint};
  } else {
    return {engine, parameters..., hint, attr};
  }
}

// As what a C function takes a description of memory.
template <class Desc>
auto c_desc(Desc& desc) {
  if constexpr (requires { desc.data; }) {
    return &desc.data;
  } else {
    return desc.get();
  }
}

// What only the benchmarks use, as baselines.

template <class P = dnnl::pooling_forward>
typename P::primitive_desc describe_pooling(const dnnl::engine& engine, dnnl::prop_kind kind,
                                            const dnnl::memory::desc& src, const dnnl::memory::desc& dst,
                                            const dnnl::memory::dims& window) {
  const dnnl::memory::dims none(window.size(), 0);
  constexpr auto max = dnnl::algorithm::pooling_max;
  if constexpr (HasOpDesc<P>) {
    return describe<P>(engine, {}, kind, max, src, dst, window, window, none, none);
  } else {
    return describe<P>(engine, {}, kind, max, src, dst, window, window, none, none, none);
  }
}

template <class P = dnnl::pooling_backward>
typename P::primitive_desc describe_pooling_gradient(const dnnl::engine& engine,
                                                     const dnnl::pooling_forward::primitive_desc& hint,
                                                     const dnnl::memory::desc& src, const dnnl::memory::desc& dst,
                                                     const dnnl::memory::dims& window) {
  const dnnl::memory::dims none(window.size(), 0);
  constexpr auto max = dnnl::algorithm::pooling_max;
  if constexpr (HasOpDesc<P>) {
    return describe_gradient<P>(engine, {}, hint, max, src, dst, window, window, none, none);
  } else {
    return describe_gradient<P>(engine, {}, hint, max, src, dst, window, window, none, none, none);
  }
}

template <class P = dnnl::eltwise_forward>
typename P::primitive_desc describe_relu(const dnnl::engine& engine, const dnnl::memory::desc& data) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto relu = dnnl::algorithm::eltwise_relu;
  if constexpr (HasOpDesc<P>) {
    return describe<P>(engine, {}, kind, relu, data, 0.f);
  } else {
    return describe<P>(engine, {}, kind, relu, data, data, 0.f);
  }
}

template <class P = dnnl::eltwise_backward>
typename P::primitive_desc describe_relu_gradient(const dnnl::engine& engine,
                                                  const dnnl::eltwise_forward::primitive_desc& hint,
                                                  const dnnl::memory::desc& data) {
  constexpr auto relu = dnnl::algorithm::eltwise_relu;
  if constexpr (HasOpDesc<P>) {
    return describe_gradient<P>(engine, {}, hint, relu, data, data, 0.f);
  } else {
    return describe_gradient<P>(engine, {}, hint, relu, data, data, data, 0.f);
  }
}

template <class PostOps>
void append_relu(PostOps& ops) {
  constexpr auto relu = dnnl::algorithm::eltwise_relu;
  if constexpr (requires { ops.append_eltwise(1.f, relu, 0.f, 0.f); }) {
    ops.append_eltwise(1.f, relu, 0.f, 0.f);
  } else {
    ops.append_eltwise(relu, 0.f, 0.f);
  }
}

}  // namespace kaon::ops::onednn
