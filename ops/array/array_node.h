// The functions of ArrayNode, which ops/ndarray.h declares: for who makes arrays or reads their memory.
#pragma once

#include <utility>

#include "kaon/engine/block_pool.h"
#include "kaon/engine/buffer/buffer.h"
#include "kaon/ops/ndarray.h"

namespace kaon::ops {

// Data that a higher layer attaches to an array: gradient history, or its place in a trace.
struct Annotation : RefCounted<Annotation> {
  enum class Kind : uint8_t { history, trace };
  explicit Annotation(Kind kind) : kind(kind) {}
  virtual ~Annotation() = default;
  const Kind kind;
  virtual bool is_recorded() const { return false; }  // part of a recorded computation: must not be written in place
};

// The block that with_memory() makes; the Buffer frees it. The reference counts and the var, which several threads
// write, share a cache line.
struct alignas(64) ArrayBlock {
  alignas(16) std::byte data[24];
  alignas(ArrayNode) std::byte node[sizeof(ArrayNode)];
  alignas(Buffer) std::byte buffer[sizeof(Buffer)];
};
static_assert(sizeof(ArrayBlock) == 256);
static_assert(offsetof(ArrayBlock, buffer) % 64 == 8);

inline ArrayView::ArrayView(const TensorMeta& meta, IntrusivePtr<Buffer> c, size_t offset)
    : TensorMeta(meta), buffer(std::move(c)), offset(offset) {}
inline ArrayNode::ArrayNode(IntrusivePtr<Buffer> c, const Shape& s, DType t, size_t offset)
    : ArrayView({s, t}, std::move(c), offset) {}
inline ArrayNode::ArrayNode(IntrusivePtr<Buffer> c, const TensorMeta& meta)
    : ArrayView(meta, std::move(c), 0), RefCounted(1) {}

inline bool ArrayNode::covers_buffer() const { return offset == 0 && bytes() == buffer->bytes; }
inline void* ArrayNode::data() const { return static_cast<char*>(buffer->ensure()) + offset; }
inline void* ArrayNode::operator new(size_t bytes) { return pool_allocate(bytes); }
inline void ArrayNode::operator delete(void* block, size_t bytes) noexcept { pool_free(block, bytes); }

inline IntrusivePtr<ArrayNode> ArrayNode::with_memory(const TensorMeta& meta, Device device, Engine& engine) {
  auto* block = static_cast<ArrayBlock*>(pool_allocate_fixed<sizeof(ArrayBlock)>());
  auto* buffer = new (block->buffer) Buffer(size_t(meta.shape.size()) * size_of(meta.dtype), device, engine,
                                            {block, sizeof(*block), block->data, sizeof(block->data)});
  return IntrusivePtr<ArrayNode>::adopt(new (block->node) ArrayNode(IntrusivePtr<Buffer>::adopt(buffer), meta));
}

}  // namespace kaon::ops
