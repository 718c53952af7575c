// OpDef: an operator as plain function pointers, made once per operator struct.
#pragma once

#include <cstring>
#include <functional>

#include "kaon/engine/api.h"
#include "kaon/ops/attributes.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// Everything the engine, the tracer and the file readers need to know about an operator. `attrs` is
// always a pointer to the operator's struct. Thread safety: immutable.
struct OpDef {
  OpTraits traits;
  uint32_t attrs_size;
  void (*construct)(void* attrs);  // default attributes into raw memory
  void (*infer)(const void* attrs, InferContext&);
  void (*cpu)(const void* attrs, KernelContext&);       // nullptr: it is composed of others
  void (*compose)(const void* attrs, ComposeContext&);  // nullptr: it has a kernel
  void (*grad)(const void* attrs, GradContext&);        // nullptr: zero if traits.flat, else not differentiable
  int (*num_inputs)(const void* attrs);                 // -1: any number
  int (*num_outputs)(const void* attrs);
  // Traits of this very attribute set: `traits` unless the operator's traits_of() is more exact
  // (LeakyReLU is random as rrelu only).
  const OpTraits& (*traits_of)(const void* attrs);
  // The device of the outputs of an operator without inputs, if its field `ctx` is set.
  std::optional<Device> (*device)(const void* attrs);
  // The other implementations that the CPU kernel can be told to use. nullptr: none.
  ops::Variants (*variants)(const void* attrs, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                            bool winograd);
  // Facts for passes, as ops/op.h describes them; nullptr: the operator has no such member.
  bool (*keeps_rows)(const void* attrs, const ops::RowQuery&);
  ops::FusedForms (*fused_forms)(const void* attrs, const ops::RegisterKernels&);
  std::optional<ops::CudaExpression> (*cuda_expression)(const void* attrs, const ops::ExpressionArgs&);
  ops::FusedActivation (*as_epilogue)(const void* attrs);
  ops::ImageUse (*image_use)(const void* attrs);
  ops::IndexUse (*index_use)(const void* attrs, std::span<const TensorView> inputs);
  double (*flops)(const void* attrs, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs);
  // By output: is it computed from an input with from[i]? nullptr: each is computed from every input.
  std::vector<bool> (*computed_from)(const void* attrs, std::span<const TensorMeta> inputs, std::vector<bool> from);
  bool (*equal)(const void* a, const void* b);
  // Calls visit(name, text, is_default) for each attribute in order.
  void (*write)(const void* attrs, engine::FunctionRef<void(std::string_view, const std::string&, bool)> visit);
  // Sets one attribute. Returns 0 done, 1 unknown name, 2 malformed text.
  int (*read)(void* attrs, std::string_view name, std::string_view text);

  std::string_view name() const { return traits.name; }
  int visible_outputs(const void* attrs) const {
    const int visible = traits_of(attrs).visible_outputs;
    return visible >= 0 ? visible : num_outputs(attrs);
  }
};

template <class T>
constexpr OpDef make_op_def() {
  static_assert(ops::Op<T>, "an operator needs traits, fields, infer, and run_cpu or compose");
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "attributes are plain values: they are copied into engine blocks and stand in co_await expressions");
  static_assert(alignof(T) <= 8, "attributes lie behind pointers in engine blocks");
  static_assert(!(ops::Differentiable<T> && T::traits.flat), "a flat operator has no gradient to compute");
  OpDef d{};
  d.traits = T::traits;
  d.attrs_size = std::is_empty_v<T> ? 0 : sizeof(T);  // nothing is stored for none
  d.construct = [](void* p) { new (p) T(); };
  d.infer = [](const void* p, InferContext& c) { static_cast<const T*>(p)->infer(c); };
  if constexpr (ops::Composite<T>) {
    static_assert(!ops::Differentiable<T>, "the gradient of a composition is that of its parts");
    d.compose = [](const void* p, ComposeContext& c) { static_cast<const T*>(p)->compose(c); };
  } else {
    d.cpu = [](const void* p, KernelContext& c) { run_cpu(*static_cast<const T*>(p), c); };
  }
  if constexpr (ops::Differentiable<T>) {
    d.grad = [](const void* p, GradContext& c) { static_cast<const T*>(p)->grad(c); };
  }
  d.num_inputs = [](const void* p) -> int {
    if constexpr (requires(const T& t) { t.num_inputs(); }) {
      return static_cast<const T*>(p)->num_inputs();
    } else {
      return T::traits.variadic ? -1 : T::traits.inputs.size();
    }
  };
  d.num_outputs = [](const void* p) -> int {
    if constexpr (requires(const T& t) { t.num_outputs(); }) {
      return static_cast<const T*>(p)->num_outputs();
    } else if constexpr (requires(const T& t) { int(t.num_outputs); }) {
      return static_cast<const T*>(p)->num_outputs;  // the attribute of that name (SliceChannel)
    } else {
      return T::traits.outputs;
    }
  };
  d.traits_of = [](const void* p) -> const OpTraits& {
    if constexpr (requires(const T& t) { t.traits_of(); }) {
      return static_cast<const T*>(p)->traits_of();
    } else {
      return T::traits;
    }
  };
  d.device = [](const void* p) -> std::optional<Device> {
    if constexpr (requires(const T& t) { t.ctx; }) {
      return static_cast<const T*>(p)->ctx;
    } else {
      return std::nullopt;
    }
  };
  if constexpr (requires(const T& t, std::span<const TensorMeta> m) { t.variants(m, m, false); }) {
    d.variants = [](const void* p, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                    bool winograd) { return static_cast<const T*>(p)->variants(inputs, outputs, winograd); };
  }
  if constexpr (requires(const T& t, std::span<const TensorMeta> m) { t.computed_from(m, {}); }) {
    d.computed_from = [](const void* p, std::span<const TensorMeta> inputs, std::vector<bool> from) {
      return static_cast<const T*>(p)->computed_from(inputs, std::move(from));
    };
  }
  if constexpr (requires(const T& t, const ops::RowQuery& q) { t.keeps_rows(q); }) {
    d.keeps_rows = [](const void* p, const ops::RowQuery& q) { return static_cast<const T*>(p)->keeps_rows(q); };
  }
  if constexpr (requires(const T& t, const ops::RegisterKernels& k) { t.fused_forms(k); }) {
    d.fused_forms = [](const void* p, const ops::RegisterKernels& k) {
      return static_cast<const T*>(p)->fused_forms(k);
    };
  }
  if constexpr (requires(const T& t, const ops::ExpressionArgs& a) { t.cuda_expression(a); }) {
    d.cuda_expression = [](const void* p, const ops::ExpressionArgs& a) {
      return static_cast<const T*>(p)->cuda_expression(a);
    };
  }
  if constexpr (requires(const T& t) { t.as_epilogue(); }) {
    d.as_epilogue = [](const void* p) { return static_cast<const T*>(p)->as_epilogue(); };
  }
  if constexpr (requires(const T& t) { t.image_use(); }) {
    static_assert(T::traits.any_layout, "image_use() is for operators that take images in any layout");
    d.image_use = [](const void* p) { return static_cast<const T*>(p)->image_use(); };
  }
  if constexpr (requires(const T& t, std::span<const TensorView> inputs) { t.index_use(inputs); }) {
    d.index_use = [](const void* p, std::span<const TensorView> inputs) {
      return static_cast<const T*>(p)->index_use(inputs);
    };
  }
  if constexpr (requires(const T& t, std::span<const TensorMeta> m) { t.flops(m, m); }) {
    d.flops = [](const void* p, std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) -> double {
      return static_cast<const T*>(p)->flops(inputs, outputs);
    };
  }
  d.equal = [](const void* a, const void* b) -> bool {
    bool equal = true;
    T::fields([&](std::string_view, auto member, bool = false) {
      equal = equal && ops::same_value(static_cast<const T*>(a)->*member, static_cast<const T*>(b)->*member);
    });
    return equal;
  };
  d.write = [](const void* p, engine::FunctionRef<void(std::string_view, const std::string&, bool)> visit) {
    const T& attributes = *static_cast<const T*>(p);
    const T defaults{};
    T::fields([&](std::string_view name, auto member, bool is_required = false) {
      using ops::to_text;  // and of types that are internal: by their namespace
      visit(name, to_text(attributes.*member), !is_required && ops::same_value(attributes.*member, defaults.*member));
    });
  };
  d.read = [](void* p, std::string_view name, std::string_view text) -> int {
    int result = 1;
    T::fields([&](std::string_view known, auto member, bool = false) {
      using ops::from_text;
      if (known == name) result = from_text(text, static_cast<T*>(p)->*member) ? 0 : 2;
    });
    return result;
  };
  return d;
}

}  // namespace kaon
