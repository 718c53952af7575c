// Attributes: an operator's struct, copied once and shared.
#pragma once

#include <cstring>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

// Immutable; tapes, symbols and graphs share it. Thread safety: a shared pointer to constant data.
class Attributes {
 public:
  Attributes() = default;
  Attributes(const OpDef& def, const void* attrs) : block_(Block::make(def)) {
    std::memcpy(block_->data(), attrs, def.attrs_size);
  }
  // Default attributes, to be filled through edit() before they are shared.
  explicit Attributes(const OpDef& def) : block_(Block::make(def)) { def.construct(block_->data()); }

  const void* get() const { return block_ ? block_->data() : nullptr; }
  void* edit() { return block_->data(); }
  explicit operator bool() const { return bool(block_); }

 private:
  struct Block : RefCounted<Block> {
    explicit Block(uint32_t bytes) : bytes(bytes) {}
    static constexpr size_t head = 16;
    static IntrusivePtr<Block> make(const OpDef& def) {
      static constinit MadeOnce<Block> none;  // with a reference of its own
      if (def.attrs_size == 0) {
        return IntrusivePtr<Block>(
            &none.get([] { return IntrusivePtr<Block>(new (pool_allocate(head)) Block(0)).detach(); }));
      }
      return IntrusivePtr<Block>(new (pool_allocate(head + def.attrs_size)) Block(def.attrs_size));
    }
    void* data() { return reinterpret_cast<char*>(this) + head; }
    void destroy() {
      size_t n = head + bytes;
      this->~Block();
      pool_free(this, n);
    }
    uint32_t bytes;
  };
  static_assert(sizeof(Block) <= Block::head);
  IntrusivePtr<Block> block_;
};

}  // namespace kaon::ops
