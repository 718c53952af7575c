#include "kaon/engine/await.h"

#include <new>

#include "kaon/engine/operation/wait_node.h"
#include "kaon/engine/scheduler/backpressure.h"
#include "kaon/engine/threads/turn.h"

namespace kaon::engine {

void post_surely(FunctionRef<void()> post) noexcept { Backpressure::until_there_is_memory(post); }
void post_surely(Executor& executor, std::coroutine_handle<> work) noexcept {
  post_surely([&] { executor.post(work); });
}

void resume_coroutine(std::coroutine_handle<> work) {
  ThreadContext saved = thread_context();
  const TurnScope turn;
  work.resume();
  thread_context() = saved;
}

struct VarWait::Node : WaitNode {
  Node(VarWait& owner, Var& var, AccessMode mode);
  VarWait& owner;
  static void signal(OpBase& base) noexcept { static_cast<Node&>(static_cast<WaitNode&>(base)).owner.signalled(); }
};

namespace {
template <class Node>
constexpr OpType wait_type{.signal = Node::signal};
}  // namespace

VarWait::Node::Node(VarWait& owner, Var& var, AccessMode mode) : WaitNode(wait_type<Node>, var, mode), owner(owner) {}

VarWait::VarWait(Var& var, AccessMode mode) noexcept {
  static_assert(sizeof(Node) <= sizeof(node_) && alignof(Node) <= 16);
  new (node_) Node(*this, var, mode);
}
VarWait::~VarWait() { node().~Node(); }

VarWait::Node& VarWait::node() noexcept { return *std::launder(reinterpret_cast<Node*>(node_)); }
const VarWait::Node& VarWait::node() const noexcept { return *std::launder(reinterpret_cast<const Node*>(node_)); }

bool VarWait::enqueue(Engine& engine, const Executor* resumes_on) { return engine.enqueue_waiter(node(), resumes_on); }
bool VarWait::abandon(Engine& engine) { return engine.abandon_waiter(node()); }
bool VarWait::is_abandoned() const noexcept { return node().abandoned; }
bool VarWait::has_failed() const noexcept { return bool(node().error); }
void VarWait::throw_failure() const {
  if (node().error) throw_op_error(*node().error);
}

OwnVar::OwnVar() noexcept {
  static_assert(sizeof(Var) == sizeof(var_) && alignof(Var) <= 8);
  new (var_) Var;
}
OwnVar::~OwnVar() { get().~Var(); }
Var& OwnVar::get() noexcept { return *std::launder(reinterpret_cast<Var*>(var_)); }

}  // namespace kaon::engine
