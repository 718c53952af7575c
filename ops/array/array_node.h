// ArrayNode: the object behind an NDArray handle: a shaped view of a Buffer.
#pragma once

#include "kaon/engine/buffer/buffer.h"
#include "kaon/ops/view.h"

namespace kaon {

// Data that a higher layer attaches to an array: gradient history, or its place in a trace.
struct Annotation : RefCounted<Annotation> {
  enum class Kind : uint8_t { history, trace };
  explicit Annotation(Kind kind) : kind(kind) {}
  virtual ~Annotation() = default;
  const Kind kind;
  virtual bool is_recorded() const { return false; }  // part of a recorded computation: must not be written in place
};

// The part of an ArrayNode that does not change once it is made, apart from the annotation.
struct ArrayView : TensorMeta {
  ArrayView(const TensorMeta& meta, IntrusivePtr<Buffer> c, size_t offset)
      : TensorMeta(meta), buffer(std::move(c)), offset(offset) {}
  IntrusivePtr<Buffer> buffer;
  IntrusivePtr<Annotation> annotation;
  size_t offset;
};

// Views of one memory share the Buffer, hence order, failures and lifetime. In a trace `buffer` is null.
struct ArrayNode : ArrayView, RefCounted<ArrayNode> {
  ArrayNode(IntrusivePtr<Buffer> c, const Shape& s, DType t, size_t offset = 0)
      : ArrayView({s, t}, std::move(c), offset) {}

  // An array with memory of its own that no other thread knows yet: {Buffer, ArrayNode, a few bytes of data} in one
  // block.
  static IntrusivePtr<ArrayNode> with_memory(const TensorMeta& meta, Device device, Engine& engine);

  size_t bytes() const { return size_t(shape.size()) * size_of(dtype); }
  bool covers_buffer() const { return offset == 0 && bytes() == buffer->bytes; }
  // For the operation that holds a grant.
  void* data() const { return static_cast<char*>(buffer->ensure()) + offset; }

  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void* block, size_t bytes) noexcept { pool_free(block, bytes); }
  void destroy() noexcept;

 private:
  ArrayNode(IntrusivePtr<Buffer> c, const TensorMeta& meta) : ArrayView(meta, std::move(c), 0), RefCounted(1) {}
};

namespace detail {
// The block that with_memory() makes; the Buffer frees it. The reference counts and the var, which several threads
// write, share a cache line.
struct alignas(64) ArrayBlock {
  alignas(16) std::byte data[24];
  alignas(ArrayNode) std::byte node[sizeof(ArrayNode)];
  alignas(Buffer) std::byte buffer[sizeof(Buffer)];
};
static_assert(sizeof(ArrayBlock) == 256);
static_assert(offsetof(ArrayBlock, buffer) % 64 == 8);
}  // namespace detail

inline IntrusivePtr<ArrayNode> ArrayNode::with_memory(const TensorMeta& meta, Device device, Engine& engine) {
  auto* block = static_cast<detail::ArrayBlock*>(pool_allocate(sizeof(detail::ArrayBlock)));
  auto* buffer = new (block->buffer) Buffer(size_t(meta.shape.size()) * size_of(meta.dtype), device, engine,
                                            {block, sizeof(*block), block->data, sizeof(block->data)});
  return IntrusivePtr<ArrayNode>::adopt(new (block->node) ArrayNode(IntrusivePtr<Buffer>::adopt(buffer), meta));
}

inline void ArrayNode::destroy() noexcept {
  IntrusivePtr<Buffer> own = std::move(buffer);  // its block may contain this node
  const bool in_block = own && own->block_bytes() == sizeof(detail::ArrayBlock) &&
                        static_cast<void*>(this) == static_cast<detail::ArrayBlock*>(own->block())->node;
  this->~ArrayNode();
  if (!in_block) pool_free(this, sizeof(ArrayNode));
}

}  // namespace kaon
