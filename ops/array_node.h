// ArrayNode: what an NDArray handle points to: a shaped view of a Chunk.
#pragma once

#include "kaon/engine/chunk.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/shape.h"

namespace kaon {

// What a higher layer attaches to an array: gradient history, or its place in a trace.
struct Annotation : RefCounted<Annotation> {
  enum class Kind : uint8_t { history, trace };
  explicit Annotation(Kind kind) : kind(kind) {}
  virtual ~Annotation() = default;
  const Kind kind;
  virtual bool is_recorded() const { return false; }  // part of a recorded computation: must not be written in place
};

// Views of one memory share the Chunk, hence order, failures and lifetime. In a trace `chunk` is null.
struct ArrayNode : RefCounted<ArrayNode>, Pooled {
  ArrayNode(IntrusivePtr<Chunk> c, const Shape& s, DType t, size_t offset = 0)
      : chunk(std::move(c)), offset(offset), shape(s), dtype(t) {}

  size_t bytes() const { return size_t(shape.size()) * size_of(dtype); }
  bool covers_chunk() const { return offset == 0 && bytes() == chunk->bytes; }
  // For the operation that holds a grant.
  void* data() const { return static_cast<char*>(chunk->ensure()) + offset; }

  IntrusivePtr<Chunk> chunk;
  IntrusivePtr<Annotation> annotation;
  size_t offset;
  Shape shape;
  DType dtype;
};

}  // namespace kaon
