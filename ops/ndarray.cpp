#include "kaon/ops/ndarray.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/device/backend.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/checked_size.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/array/small_array.h"
#include "kaon/ops/elementwise/kernels/arithmetic.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/shapes.h"
#include "kaon/ops/movement/kernels/slice_range.h"
#include "kaon/ops/movement/movement.h"
#include "kaon/ops/operator/copy_to.h"
#include "kaon/ops/operator/interceptor.h"
#include "kaon/ops/operator/kernel_call.h"
#include "kaon/ops/promotion/promoted_call.h"

namespace kaon {

using namespace ops;

NDArray NDArray::empty(const Shape& shape, DType dtype, Device device) {
  check_new_array("empty", shape, dtype, device);
  return NDArray(ArrayNode::with_memory({shape, dtype}, device, Engine::current()));
}

ArrayNode& NDArray::node() const {
  if (!node_) throw StateError("[NDArray] this handle holds no array");
  return *node_;
}

}  // namespace kaon

namespace kaon::ops {

int num_visible_outputs(const OpDef& def, const void* attrs) { return std::max(def.visible_outputs(attrs), 0); }

void check_new_array(const char* op, const Shape& shape, DType dtype, Device device) {
  if (!shape.is_known()) throw ShapeError(fmt::format("[{}] an array needs a known shape, got {}", op, shape.str()));
  check_device(device, op);
  if (!is_valid(dtype)) throw TypeError(fmt::format("[{}] unknown dtype", op));
  if (!has_countable_bytes(shape, dtype)) {
    throw ShapeError(
        fmt::format("[{}] an array of shape {} and dtype {} is too large", op, shape.str(), name_of(dtype)));
  }
}

void ArrayNode::destroy() noexcept {
  IntrusivePtr<Buffer> own = std::move(buffer);  // its block may contain this node
  const bool in_block = own && own->block_bytes() == sizeof(ArrayBlock) &&
                        static_cast<void*>(this) == static_cast<ArrayBlock*>(own->block())->node;
  this->~ArrayNode();
  if (!in_block) pool_free(this, sizeof(ArrayNode));
}

}  // namespace kaon::ops

namespace kaon {

Buffer& NDArray::buffer() const {
  Buffer* c = node().buffer.get();
  if (!c) throw TraceError("[NDArray] an array in a trace has no value: its operators have not run yet");
  return *c;
}

Device NDArray::device() const { return buffer().device; }
Var& NDArray::var() const { return buffer().var; }
Engine& NDArray::engine() const { return *buffer().engine; }

void NDArray::check_writable(const char* op, const Arg<NDArray>& value) const {
  if (!thread_context().recording) return;
  const char* instead = op == std::string_view("at") ? "x = x.at(...).replaced(y)" : "x = x + y instead of x += y";
  auto is_recorded = [](const NDArray& a) { return a.node().annotation && a.node().annotation->is_recorded(); };
  if (is_recorded(*this)) {
    throw StateError(
        fmt::format("[{}] writing in place to an array that is part of a recorded computation; "
                    "write {}, or leave autograd::record",
                    op, instead));
  }
  if (!value.is_number() && is_recorded(value.array())) {
    throw StateError(
        fmt::format("[{}] writing a recorded value into another array would lose its gradient; "
                    "write {}, or give y.detach()",
                    op, instead));
  }
}

namespace {

void check_arrays(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs) {
  const char* op = def.name().data();
  int expected = def.num_inputs(attrs);
  if (expected >= 0 && int(inputs.size()) != expected) {
    throw ValueError(fmt::format("[{}] takes {} inputs with these attributes, got {}", op, expected, inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->defined()) {
      throw StateError(fmt::format("[{}] input {} ({}) holds no array", op, i,
                                   def.traits.variadic ? "of the list" : def.traits.inputs[int(i)]));
    }
    const Buffer* first = inputs[0]->ptr()->buffer.get();
    const Buffer* buffer = inputs[i]->ptr()->buffer.get();
    if (i == 0 || !first || !buffer) continue;  // in a trace arrays have none
    if (buffer->device != first->device) {
      throw DeviceError(fmt::format("[{}] inputs must be on one device, got {} and {}; use as_in_context", op,
                                    first->device.str(), buffer->device.str()));
    }
    check_same_engine(*first, *buffer, op);
  }
}

OpLabel label_of(const char* name, const std::source_location& site) {
  const ThreadContext& context = thread_context();
  return context.composing ? *context.composing : OpLabel{name, site, context.block_path};
}
OpLabel label_of(const OpDef& def, const std::source_location& site) { return label_of(def.name().data(), site); }

// Runs the checks of a call: what they throw names its line. `op` is a name or an OpDef.
template <class Op, class Checks>
decltype(auto) check_call(const Op& op, const std::source_location& site, Checks&& checks) {
  try {
    return checks();
  } catch (...) {
    std::rethrow_exception(add_context(std::current_exception(), describe_call(label_of(op, site))));
  }
}

// Checks the inputs and infers shapes and dtypes of the outputs.
void infer(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs, std::span<TensorMeta> outputs) {
  check_arrays(def, attrs, inputs);
  SmallArray<TensorMeta*> metas(inputs.size(), [&](size_t i) { return inputs[i]->ptr().get(); });
  InferContext context(def.name().data(), def.traits, metas.span(), outputs);
  def.infer(attrs, context);
}

void check_fits(const TensorMeta& result, const NDArray& out, const OpDef& def) {
  if (result.shape != out.shape()) {
    throw ShapeError(fmt::format("[{}] the result has shape {}, which does not fit into an array of shape {}",
                                 def.name(), result.shape.str(), out.shape().str()));
  }
  if (result.dtype != out.dtype()) {
    throw TypeError(fmt::format("[{}] the result has dtype {}, the array written to has {}", def.name(),
                                name_of(result.dtype), name_of(out.dtype())));
  }
}

// Calls what the operator is made of. Their operations and errors bear its name, and the line where it was called. Not
// inline: a call of any other operator would pay for its stack.
[[gnu::noinline]] void compose(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs,
                               std::span<TensorMeta> metas, std::span<NDArray> outs, const std::source_location& site) {
  SmallArray<NDArray> results(metas.size());
  const OpLabel label = label_of(def, site);
  struct Composing {
    ~Composing() { thread_context() = outer; }
    ThreadContext outer = thread_context();
  } composing;
  ThreadContext& context = thread_context();
  context.composing = &label;
  if (const Buffer* first = inputs.empty() ? nullptr : inputs[0]->ptr()->buffer.get()) {
    context.device = first->device;  // of what it creates
    context.engine = first->engine;
  }
  ComposeContext call(inputs, metas, results.span().data());
  def.compose(attrs, call);
  for (size_t i = 0; i < metas.size(); ++i) {
    if (!results[i].defined() || results[i].shape() != metas[i].shape || results[i].dtype() != metas[i].dtype) {
      throw Error(fmt::format("[{}] output {} is not composed as inferred", def.name(), i));
    }
    // parts may return or view an input, or the same array twice; an operator's outputs are memory of their own
    const auto shares = [&](const NDArray& x) {
      return x.ptr()->buffer && x.ptr()->buffer == results[i].ptr()->buffer;
    };
    const std::span<const NDArray> before(results.span().data(), i);
    if (std::ranges::any_of(inputs, [&](const NDArray* x) { return shares(*x); }) ||
        std::ranges::any_of(before, shares)) {
      results[i] = nd.identity(results[i]);
    }
  }
  for (size_t i = 0; i < outs.size(); ++i) outs[i] = std::move(results[i]);
}

// The dtype to which a call casts the inputs in `mask` while promote_types() runs; none where there is nothing to do.
std::optional<DType> promoted_dtype(uint32_t mask, std::span<const NDArray* const> inputs) {
  for (const NDArray* x : inputs) {
    if (!x->defined()) return std::nullopt;  // refused by the call
  }
  return mask == 0 ? std::nullopt : common_dtype(mask, inputs.size(), [&](size_t i) { return inputs[i]->dtype(); });
}

// body(inputs) with those in `mask` cast.
template <class Body>
void with_casts(uint32_t mask, DType dtype, std::span<const NDArray* const> inputs, const std::source_location& site,
                Body&& body) {
  std::vector<NDArray> cast;
  cast.reserve(inputs.size());
  std::vector<const NDArray*> now(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if ((mask >> i & 1) == 0 || inputs[i]->dtype() == dtype) continue;
    now[i] = &cast.emplace_back(inputs[i]->astype(dtype, site));
  }
  body(now);
}

}  // namespace

void NDArray::apply(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs,
                    std::span<NDArray> outs, const std::source_location& site, std::string_view name) {
  for (const NDArray* a : inputs) {
    // the array's counts and its var, which were last written on another core
    if (a->node_) prefetch_for_write(static_cast<const RefCounted<ArrayNode>*>(a->node_.get()));
  }
  if (thread_context().promotes) [[unlikely]] {
    const uint32_t mask = promoted_inputs(def);
    if (const std::optional<DType> dtype = promoted_dtype(mask, inputs)) {
      return with_casts(mask, *dtype, inputs, site, [&](const auto& now) { apply(def, attrs, now, outs, site, name); });
    }
  }
  size_t n_in = inputs.size(), n_out = size_t(std::max(def.num_outputs(attrs), 0));  // infer refuses none
  SmallArray<ArrayNode*> nodes(n_in, [&](size_t i) { return inputs[i]->node_.get(); });
  SmallArray<TensorMeta> metas(n_out);
  check_call(def, site, [&] {
    infer(def, attrs, inputs, metas.span());
    if (outs.size() > n_out) {
      throw ValueError(fmt::format("[{}] has {} outputs, got {} arrays for them", def.name(), n_out, outs.size()));
    }
  });
  if (def.compose) [[unlikely]]
    return compose(def, attrs, inputs, metas.span(), outs, site);

  ThreadContext& context = thread_context();
  auto* interceptor = static_cast<Interceptor*>(context.interceptor);
  const bool runs = !interceptor || !interceptor->instead_of_running;
  // arrays stay on their device and in their engine, wherever they are used
  const Buffer* first = n_in ? nodes[0]->buffer.get() : nullptr;
  const Device device = first ? first->device : def.device(attrs).value_or(context.device);
  if (n_in == 0) check_device(device, def.name().data());
  SmallArray<NDArray> results(n_out, [&](size_t i) {
    const TensorMeta& m = metas[i];
    return NDArray(runs ? ArrayNode::with_memory(m, device, first ? *first->engine : Engine::current())
                        : IntrusivePtr<ArrayNode>(new ArrayNode(nullptr, m.shape, m.dtype)));
  });
  if (runs) {
    SmallArray<ArrayNode*> made(n_out, [&](size_t i) { return results[i].node_.get(); });
    push_kernel(def, attrs, nodes.span(), made.span(), Outputs::unknown_to_others, label_of(def, site),
                context.training);
  }
  if (interceptor) {
    OpCall call{def, attrs, inputs, results.span(), context.composing ? context.composing->site : site, name};
    interceptor->on_call(call);
  }
  for (size_t i = 0; i < outs.size(); ++i) outs[i] = std::move(results[i]);
}

void NDArray::apply_into(const OpDef& def, const void* attrs, std::span<const NDArray* const> inputs,
                         const NDArray& out, const std::source_location& site) {
  TensorMeta made;
  check_call(def, site, [&] {
    if (Interceptor* i = Interceptor::current(); i && (i->instead_of_running || !out.node().buffer)) {
      throw TraceError(fmt::format("[{}] writing in place inside a trace; write x = x + y", def.name()));
    }
    infer(def, attrs, inputs, std::span(&made, 1));
    if (!inputs.empty()) check_same_engine(*inputs[0]->node().buffer, *out.node().buffer, def.name().data());
    check_fits(made, out, def);
  });
  SmallArray<ArrayNode*> nodes(inputs.size(), [&](size_t i) { return inputs[i]->node_.get(); });
  ArrayNode* target = out.node_.get();
  std::vector<NDArray> copies;  // of inputs that overlap the output, which the kernel writes while it reads them
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayNode& a = *nodes[i];
    const bool is_target = a.offset == target->offset && a.shape == target->shape;
    const bool may_be = def.traits.pointwise || def.traits.inplace == int(i);
    if (a.buffer != target->buffer || (is_target && may_be)) continue;
    copies.push_back(inputs[i]->copy());
    nodes[i] = copies.back().node_.get();
  }
  push_kernel(def, attrs, nodes.span(), std::span(&target, 1), Outputs::known, label_of(def, site),
              thread_context().training);
}

NDArray NDArray::binary(BinaryKind kind, const Arg<NDArray>& a, const Arg<NDArray>& b, std::string_view name) {
  return apply_binary(kind, a, b, name);
}
NDArray NDArray::negate(const In<NDArray>& a) { return nd.negative(a); }

NDArray& NDArray::update(BinaryKind kind, const Arg<NDArray>& b) {
  check_writable("in-place arithmetic", b);
  const NDArray& self = *this;
  if (thread_context().promotes && !b.is_number() && b.array().defined() && b.array().dtype() != dtype()) {
    return update_promoted(kind, b);
  }
  with_binary_op(kind, Arg<NDArray>(self, b.site()), b, [&](const OpDef& def, const void* attrs, auto inputs) {
    apply_into(def, attrs, inputs, self, b.site());
  });
  return *this;
}

// As x = x + y with the result cast to x's dtype.
NDArray& NDArray::update_promoted(BinaryKind kind, const Arg<NDArray>& b) {
  const auto rank = [](DType t) { return is_floating(t) ? 2 : t == DType::boolean ? 0 : 1; };
  const DType result = result_type(dtype(), b.array().dtype());
  if (rank(result) > rank(dtype())) {
    throw TypeError(
        fmt::format("[in-place arithmetic] the result has dtype {}, which an array of {} does not hold; "
                    "write x = x + y instead of x += y",
                    name_of(result), name_of(dtype())));
  }
  const NDArray y = binary(kind, Arg<NDArray>(*this, b.site()), b);
  if (y.shape() != shape()) {
    throw ShapeError(
        fmt::format("[in-place arithmetic] the result has shape {}, which does not fit into an array of "
                    "shape {}",
                    y.shape().str(), shape().str()));
  }
  return assign(Arg<NDArray>(y, b.site()));
}

namespace {
void check_broadcasts(const Shape& from, const Shape& to, const char* op, const std::source_location& site) {
  check_call(op, site, [&] {
    if (broadcast_shapes(from, to, op) == to) return;
    throw ShapeError(fmt::format("[{}] an array of shape {} cannot be broadcast to {}", op, from.str(), to.str()));
  });
}
}  // namespace

NDArray& NDArray::assign(const Arg<NDArray>& value) {
  check_writable("assign", value);
  if (value.is_number()) {
    op::Full op{.shape = shape(), .value = value.number(), .dtype = dtype(), .ctx = device()};
    apply_into(op::Full::def, &op, {}, *this, value.site());
    return *this;
  }
  NDArray source = value.array();
  if (source.dtype() != dtype()) source = source.astype(dtype(), value.site());
  if (source.device() != device()) {
    if (source.shape() == shape()) {
      push_copy_between(source.node(), node(), label_of("assign", value.site()));
      return *this;
    }
    source = copy_to(source, device(), value.site());
  }
  check_broadcasts(source.shape(), shape(), "assign", value.site());
  if (size() == 0) return *this;  // nothing to write
  op::BroadcastTo op{.shape = shape()};
  const NDArray* inputs[] = {&source};
  if (source.ndim() < ndim()) {
    Shape padded = Shape::filled(ndim(), 1);
    for (int i = 0; i < source.ndim(); ++i) padded[ndim() - source.ndim() + i] = source.shape()[i];
    source = NDArray(
        IntrusivePtr<ArrayNode>(new ArrayNode(source.node().buffer, padded, source.dtype(), source.node().offset)));
  }
  apply_into(op::BroadcastTo::def, &op, inputs, *this, value.site());
  return *this;
}

void assign_all(std::span<const NDArray> targets, std::span<const NDArray> values, std::source_location site) {
  constexpr const char* name = "assign_all";
  if (targets.size() != values.size()) {
    throw ValueError(fmt::format("[{}] expected a value for each of {} arrays, got {}; called at {}", name,
                                 targets.size(), values.size(), describe(site)));
  }
  std::vector<NDArray> sources;
  for (size_t i = 0; i < targets.size(); ++i) {
    const NDArray &to = targets[i], &from = values[i];
    to.check_writable(name, from);
    const auto where = [&] { return fmt::format("array {} of {}; called at {}", i, targets.size(), describe(site)); };
    if (from.shape() != to.shape()) {
      throw ShapeError(
          fmt::format("[{}] expected shape {}, got {}: {}", name, to.shape().str(), from.shape().str(), where()));
    }
    if (from.dtype() != to.dtype()) {
      throw TypeError(
          fmt::format("[{}] expected {}, got {}: {}", name, name_of(to.dtype()), name_of(from.dtype()), where()));
    }
    if (to.device() != targets[0].device()) {
      throw DeviceError(fmt::format("[{}] the arrays are on several devices, {} and {}: {}", name,
                                    targets[0].device().str(), to.device().str(), where()));
    }
    sources.push_back(from.as_in_context(to.device(), site));
  }
  push_copies(sources, targets, label_of(name, site));
}

namespace {
NDArray view(const NDArray& base, const Shape& shape, size_t offset) {
  const ArrayNode& n = base.node();
  return NDArray(IntrusivePtr<ArrayNode>(new ArrayNode(n.buffer, shape, n.dtype, n.offset + offset)));
}
}  // namespace

NDArray NDArray::operator[](int64_t index) const {
  if (ndim() == 0) throw IndexError("[NDArray] an array without dimensions cannot be indexed");
  int64_t n = shape()[0], i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) {
    throw IndexError(fmt::format("[NDArray] index {} is out of range for an array of shape {}", index, shape().str()));
  }
  Shape rest;
  for (int d = 1; d < ndim(); ++d) rest.push_back(shape()[d]);
  if (rest.empty()) rest = Shape(1);
  const NDArray row = slice(i, i + 1);
  return can_view(row) ? view(row, rest, 0) : nd._reshape_to(row, {.shape = rest});
}

NDArray NDArray::slice(int64_t begin, int64_t end, std::source_location site) const {
  if (ndim() == 0) throw IndexError("[slice] an array without dimensions cannot be sliced");
  const int64_t n = shape()[0];
  const auto place = [n](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  const int64_t b = place(begin), e = std::max(b, place(end));
  if (!can_view(*this)) return nd.slice_axis(In<NDArray>(*this, site), 0, b, e);
  Shape s = shape();
  s[0] = e - b;
  return view(*this, s, size_t(b) * size_t(shape().product(1, ndim())) * size_of(dtype()));
}

NDArray NDArray::reshape(const Shape& codes, std::source_location site) const {
  if (!can_view(*this)) return nd.reshape(In<NDArray>(*this, site), codes);
  return check_call("reshape", site, [&] { return view(*this, infer_reshape(shape(), codes, false, "reshape"), 0); });
}

NDArray& NDArray::slice_assign(const Shape& begin, const Shape& end, const Arg<NDArray>& value) {
  check_writable("slice_assign", value);
  const EngineScope scope(engine());  // of the arrays made here
  NDArray source =
      value.is_number() ? nd.full(Shape(1), value.number(), {.dtype = dtype(), .device = device()}) : value.array();
  const Shape target = resolve_slice(shape(), begin, end, {}, "slice_assign").count;
  check_broadcasts(source.shape(), target, "slice_assign", value.site());
  NDArray values = NDArray::empty(target, dtype(), device());
  values.assign(Arg<NDArray>(source, value.site()));
  op::SliceAssign op{.begin = begin, .end = end};
  const NDArray* inputs[] = {this, &values};
  apply_into(op::SliceAssign::def, &op, inputs, *this, value.site());
  return *this;
}

NDArray NDArray::copy() const { return nd.identity(*this); }
NDArray NDArray::astype(DType t, std::source_location site) const { return nd.cast(In<NDArray>(*this, site), t); }
NDArray NDArray::sum(std::source_location site) const { return nd.sum(In<NDArray>(*this, site)); }
NDArray NDArray::mean(std::source_location site) const { return nd.mean(In<NDArray>(*this, site)); }
NDArray NDArray::transpose(std::source_location site) const { return nd.transpose(In<NDArray>(*this, site)); }

NDArray NDArray::as_in_context(Device target, std::source_location site) const {
  if (target == device()) return *this;
  check_device(target, "as_in_context");
  NDArray there = copy_to(*this, target, site);
  if (auto* interceptor = Interceptor::current()) {
    const op::CopyTo op{.ctx = target};
    const NDArray* inputs[] = {this};
    OpCall call{op::CopyTo::def, &op, inputs, std::span(&there, 1), site, {}};
    interceptor->on_call(call);
  }
  return there;
}

NDArray NDArray::detach() const { return view(*this, shape(), 0); }

namespace {
// The launched work after which an array of a GPU may be read, or written.
void wait_for_gpu(const Buffer& buffer, bool writes) {
  if (!buffer.is_on_gpu()) return;
  const GpuMemory& memory = GpuMemory::of(buffer);
  if (!writes) return memory.gpu.wait(memory.use.write());
  for (const StreamPoint& p : memory.use.points()) memory.gpu.wait(p);
}
}  // namespace

void NDArray::wait_to_read() const {
  engine().wait(var(), AccessMode::read);
  wait_for_gpu(buffer(), false);
}
void NDArray::wait_to_write() const {
  engine().wait(var(), AccessMode::update);
  wait_for_gpu(buffer(), true);
}

bool NDArray::when_run(const std::function<void(std::exception_ptr)>& work) const {
  const Buffer& c = buffer();
  if (!c.is_on_gpu()) return false;
  const GpuMemory& memory = GpuMemory::of(c);
  memory.gpu.when_done(memory.use.write(), work);
  return true;
}

}  // namespace kaon
