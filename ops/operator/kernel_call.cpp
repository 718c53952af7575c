#include "kaon/ops/operator/kernel_call.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/operation.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/array/small_array.h"
#include "kaon/ops/operator/checked_kernel.h"
#include "kaon/ops/operator/gpu_kernels.h"
#include "kaon/ops/random_state.h"

namespace kaon::ops {

namespace {

// One call in one block: {KernelCall, arrays..., attributes, random key}, the last only for operators that draw.
struct KernelCall {
  const OpDef* def;
  uint16_t num_inputs, num_outputs;
  bool training;
  bool is_random;

  ArrayNode** arrays() { return reinterpret_cast<ArrayNode**>(this + 1); }
  int num_arrays() const { return num_inputs + num_outputs; }
  void* attrs() { return arrays() + num_arrays(); }
  size_t key_offset() const {
    return (sizeof(KernelCall) + size_t(num_arrays()) * sizeof(ArrayNode*) + def->attrs_size + 7) & ~size_t(7);
  }
  RandomKey& key() { return *reinterpret_cast<RandomKey*>(reinterpret_cast<char*>(this) + key_offset()); }
  size_t bytes() const { return key_offset() + (is_random ? sizeof(RandomKey) : 0); }
};
static_assert(sizeof(KernelCall) == 16 && alignof(KernelCall) == 8 && alignof(RandomKey) == 8);

KernelCall& call_of(OpNode& op) { return **reinterpret_cast<KernelCall**>(op.payload); }
// The block is in the payload, after its pointer, when it fits: with up to four arrays and no attributes.
constexpr size_t inline_at = 8;

// `array(i)`: inputs, then outputs. kernel(attrs, context).
template <class K, class Array>
void call_kernel(const KernelCall& call, K&& kernel, const void* attrs, Array&& array, const RandomKey& random,
                 RunContext& run) {
  run.updates_are_whole = true;  // until the kernel begins
  SmallArray<TensorView> views(size_t(call.num_arrays()), [&](size_t i) {
    ArrayNode* a = array(i);
    return a ? TensorView{a->data(), a->shape, a->dtype, Layout::row_major} : TensorView{};
  });
  KernelContext context{.inputs = {views.data(), call.num_inputs},
                        .outputs = {views.data() + call.num_inputs, call.num_outputs},
                        .run = run,
                        .random = random,
                        .training = call.training};
  run.updates_are_whole = false;
  kernel(attrs, context);
}

// The kernel of the CPU.
auto on_cpu(const KernelCall& call) {
  return [&def = *call.def](const void* attrs, KernelContext& c) { run_on_cpu(def, attrs, c); };
}

// The exception that is being handled, with the shapes of the call if there is memory for the text.
template <class Array>
std::exception_ptr with_arrays(const KernelCall& call, Array&& array) noexcept {
  const std::exception_ptr failure = std::current_exception();
  try {
    std::vector<TensorMeta> metas[2];
    for (int i = 0; i < call.num_arrays(); ++i) {
      if (const ArrayNode* a = array(size_t(i))) metas[i >= call.num_inputs].push_back({a->shape, a->dtype});
    }
    return add_context(failure, describe_arrays(metas[0], metas[1]));
  } catch (const std::bad_alloc&) {
    return failure;
  }
}

const Buffer& first_buffer(KernelCall& call) {
  for (int i = 0;; ++i) {
    if (const ArrayNode* a = call.arrays()[i]) return *a->buffer;
  }
}

// Launches the kernel on the GPU of the arrays.
void launch_kernel(OpNode& op, RunContext& run) {
  KernelCall& call = call_of(op);
  DeviceLaunch launch(GpuMemory::of(first_buffer(call)).gpu, Lane::compute, op.label);
  for (int i = 0; i < call.num_arrays(); ++i) {
    ArrayNode* a = call.arrays()[i];
    if (a) launch.use(*a->buffer, i >= call.num_inputs || is_mutated(call.def->traits, i, call.num_inputs));
  }
  auto array = [&](size_t i) { return call.arrays()[i]; };
  launch.updates_are_whole = true;
  try {
    const Kernel kernel = gpu_kernel(*call.def).run;
    call_kernel(call, kernel, call.attrs(), array, call.is_random ? call.key() : RandomKey{}, launch);
  } catch (...) {
    run.updates_are_whole = launch.updates_are_whole;
    throw;
  }
}

void run_kernel(OpNode& op, RunContext& run) {
  KernelCall& call = call_of(op);
  auto array = [&](size_t i) { return call.arrays()[i]; };
  try {
    if (first_buffer(call).is_on_gpu()) [[unlikely]] {
      launch_kernel(op, run);
    } else {
      call_kernel(call, on_cpu(call), call.attrs(), array, call.is_random ? call.key() : RandomKey{}, run);
    }
  } catch (...) {
    std::rethrow_exception(with_arrays(call, array));
  }
}

// Runs an elementwise operator on a few elements here, if its inputs are ready: that takes less time than a push.
// False: it is another operator, or has to wait. No other thread may know the output yet.
bool run_small(const KernelCall& call, const void* attrs, std::span<ArrayNode* const> inputs,
               std::span<ArrayNode* const> outputs, const OpLabel& label) {
  constexpr size_t few_bytes = 1024;
  const OpTraits& traits = call.def->traits;
  if (!traits.pointwise || traits.mutates || call.is_random || outputs.size() != 1) return false;
  Buffer& made = *outputs[0]->buffer;
  if (made.bytes > few_bytes || made.device.type != DeviceType::cpu) return false;
  SmallArray<Var*> reads(inputs.size(), [&](size_t i) { return &inputs[i]->buffer->var; });
  std::exception_ptr failure;
  auto array = [&](size_t i) { return i < inputs.size() ? inputs[i] : outputs[0]; };
  auto body = [&](RunContext& run) {
    try {
      call_kernel(call, on_cpu(call), attrs, array, {}, run);
    } catch (...) {
      failure = with_arrays(call, array);
    }
  };
  if (!made.engine->run_now(reads.span(), body)) return false;
  if (failure) {  // becomes the failure of the array, as of an operation
    auto fail = [failure, kept = IntrusivePtr<ArrayNode>(outputs[0])](RunContext&) { std::rethrow_exception(failure); };
    made.engine->push({write(made.var)}, std::move(fail), {.label = label});
  }
  return true;
}

void destroy_call(OpNode& op) noexcept {
  KernelCall& call = call_of(op);
  for (int i = 0; i < call.num_arrays(); ++i) {
    if (ArrayNode* a = call.arrays()[i]) a->release();
  }
  size_t bytes = call.bytes();
  if (bytes + inline_at > OpNode::payload_bytes) pool_free(&call, bytes);
}

constexpr OpType kernel_call_type{.run = run_kernel, .destroy = destroy_call};
constexpr OpType gpu_call_type{
    .run = run_kernel, .destroy = destroy_call, .serial_queue = [](const OpNode& op) noexcept -> size_t {
      return first_buffer(**reinterpret_cast<KernelCall* const*>(op.payload)).device.index;
    }};

}  // namespace

void throw_other_engine(const Buffer& a, const Buffer& b, const char* op) {
  a.engine->check_not_gone(op);
  b.engine->check_not_gone(op);
  throw DeviceError(
      fmt::format("[{}] the arrays belong to different engines: each stays in that of the EngineScope in "
                  "which it was made; make both in one, or copy the values: nd.array(x.asvector<float>(), "
                  "x.shape())",
                  op));
}

std::string describe_arrays(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) {
  constexpr size_t most = 4;
  auto list = [](const char* first, std::span<const TensorMeta> metas) {
    std::string text;
    for (size_t i = 0; i < metas.size() && i < most; ++i) {
      text += fmt::format("{}{} {}", i ? ", " : first, metas[i].shape.str(), name_of(metas[i].dtype));
    }
    if (metas.size() > most) text += fmt::format(" and {} more", metas.size() - most);
    return text;
  };
  return list(", computing ", outputs) + list(outputs.empty() ? ", updating " : " from ", inputs);
}

uint64_t random_draws(const Shape& output) { return (uint64_t(output.size()) + 3) / 4 * 4; }

void push_kernel(const OpDef& def, const void* attrs, std::span<ArrayNode* const> inputs,
                 std::span<ArrayNode* const> outputs, Outputs known, const OpLabel& label, bool training) {
  size_t arrays = inputs.size() + outputs.size();
  if (arrays > UINT16_MAX) {
    throw ValueError(fmt::format("[{}] takes and gives at most {} arrays, got {}", def.name(), UINT16_MAX, arrays));
  }
  const bool draws = draws_numbers(def, attrs, training);
  const KernelCall head{&def, uint16_t(inputs.size()), uint16_t(outputs.size()), training, draws};
  if (known == Outputs::unknown_to_others && run_small(head, attrs, inputs, outputs, label)) return;
  size_t bytes = head.bytes();
  std::unique_ptr<OpNode> op(new OpNode);
  void* place = op->payload + inline_at;
  const bool is_beside = bytes + inline_at > OpNode::payload_bytes;
  if (is_beside) place = pool_allocate(bytes);
  try {
    op->reserve_deps(arrays);
  } catch (...) {
    if (is_beside) pool_free(place, bytes);
    throw;
  }
  auto* call = new (place) KernelCall(head);
  *reinterpret_cast<KernelCall**>(op->payload) = call;
  if (def.attrs_size) std::memcpy(call->attrs(), attrs, def.attrs_size);
  if (draws) call->key() = random::draw(random_draws(outputs[0]->shape));
  const ArrayNode* first = inputs.empty() ? outputs[0] : inputs[0];  // updates have no outputs
  op->type = first->buffer->is_on_gpu() ? &gpu_call_type : &kernel_call_type;
  op->label = label;
  op->transactional = def.traits.mutates != 0;
  size_t d = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ArrayNode* a = call->arrays()[i] = inputs[i];
    bool updates = def.traits.mutates != 0 && is_mutated(def.traits, int(i), int(inputs.size()));
    op->deps[d++].set(a->buffer->var, updates ? AccessMode::update : AccessMode::read);
    if (updates) a->buffer->note_write(label.site);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    ArrayNode* a = call->arrays()[inputs.size() + i] = outputs[i];
    if (!a) continue;
    if (known == Outputs::known) {
      a->retain();
      a->buffer->note_write(label.site);
      op->deps[d++].set(a->buffer->var, a->covers_buffer() ? AccessMode::write : AccessMode::update);
    } else {
      a->retain_unshared();
      op->deps[d++].set(a->buffer->var, AccessMode::write);
      ++op->num_fresh;
    }
  }
  op->num_deps = uint16_t(d);
  Engine& engine = *first->buffer->engine;
  for (ArrayNode* a : inputs) a->retain();  // last: submit uses the same cache lines
  engine.submit(*op.release());
}

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

namespace random {
namespace {
// Offset and seed change together, seldom against the cost of a random operator.
struct Next : WithMutex {
  RandomKey key{.seed = 0, .offset = 0};
};
Next& next() { return ProcessWide<Next>::get(); }

thread_local RandomSubstream* t_stream = nullptr;

uint64_t mixed(uint64_t x) {  // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
}  // namespace

RandomKey stream_of(RandomKey key) {
  return {.seed = mixed(key.seed + mixed(key.offset + 0x9e3779b97f4a7c15)), .offset = 0};
}

RandomSubstream::RandomSubstream(RandomKey key)
    : next_(stream_of(key)), has_key_(true), outer_(std::exchange(t_stream, this)) {}
RandomSubstream::RandomSubstream() : has_key_(false), outer_(std::exchange(t_stream, this)) {}
RandomSubstream::~RandomSubstream() { t_stream = outer_; }

void seed(uint64_t value) { set_state({value, 0}); }

RandomKey get_state() {
  std::lock_guard lock(next());
  return next().key;
}

void set_state(RandomKey state) {
  std::lock_guard lock(next());
  next().key = state;
}

RandomKey draw(uint64_t count) {
  if (RandomSubstream* stream = t_stream) {
    if (!stream->has_key_) {
      t_stream = stream->outer_;
      stream->next_ = stream_of(draw(stream_draws));
      t_stream = stream;
      stream->has_key_ = true;
    }
    RandomKey key = stream->next_;
    stream->next_.offset += count;
    return key;
  }
  std::lock_guard lock(next());
  RandomKey key = next().key;
  next().key.offset += count;
  return key;
}
}  // namespace random

}  // namespace kaon
