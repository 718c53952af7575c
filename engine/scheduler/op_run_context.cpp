#include "kaon/engine/scheduler/op_run_context.h"

#include <string>

#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {

struct alignas(64) OpRunContext::Block {
  Block* next;
  size_t bytes;
};

void OpRunContext::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  engine_.parallel_for(n, grain, body);
}

void* OpRunContext::workspace(size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(Block)) throw MemoryError("[workspace] asked for " + std::to_string(bytes) + " bytes");
  auto* b = static_cast<Block*>(engine_.impl()->memory.allocate(bytes + sizeof(Block)));
  b->next = blocks_;
  b->bytes = bytes + sizeof(Block);
  blocks_ = b;
  return b + 1;
}

void OpRunContext::free_workspace() noexcept {
  while (Block* b = blocks_) {
    blocks_ = b->next;
    Storage::cpu().free(b, b->bytes);
  }
}

void run_piece(Engine& engine, FunctionRef<void(RunContext&)> body) {
  OpRunContext context(engine);
  body(context);
}

}  // namespace kaon::engine
