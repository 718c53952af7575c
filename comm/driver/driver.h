// Driver: the calls of one communicator, run one after another: on a thread of its own, but short ones are begun where
// their arrays become ready, if the ranks share memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/driver/gpu_calls.h"
#include "kaon/comm/driver/world.h"
#include "kaon/comm/watch/watch.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/operation.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::comm {

// A call on arrays of the host runs on the driver's thread. One on arrays of GPUs is launched there, and the next one
// follows at once; it ends when its GPU has come to its end, not before: a call that is lost must leave what was to use
// its result undone. Thread safety: any thread, but the order of push() is that of the calls.
class Driver : public std::enable_shared_from_this<Driver> {
 public:
  static constexpr uint64_t all_ranks = 1;  // the id of the communicator of all
  // Starts the thread, which ends when the last copy of the result is gone and no call is left. `id`: the same on all
  // ranks of the communicator, and no other's.
  static std::shared_ptr<Driver> start(std::shared_ptr<World> world, std::unique_ptr<Group> group, uint64_t id);
  Driver(std::shared_ptr<World> world, std::unique_ptr<Group> group, uint64_t id);  // for start()
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  World& world() const { return *world_; }

  // Pushes the call as the next one. `in` may be undefined, or `out` itself. Throws CommError when the communicator has
  // failed; as Engine::push.
  void push(const Call& call, const NDArray& in, const NDArray& out, const OpLabel& label);
  // A call that all ranks make, on the driver's thread, when its turn has come. Blocks.
  std::shared_ptr<Driver> split(int color, int key, const OpLabel& label);

  void drain();                                 // blocks until all calls have ended
  void fail(const std::string& text) noexcept;  // every call that has not ended fails, and later ones
  Progress progress() const;
  std::string differs(int rank, const Progress& other) const;
  // Whether a call has been running for long that needs one of the ranks that have ended their program: `gone`, as they
  // are numbered among all.
  bool waits_for(const std::set<int>& gone) const;
  std::optional<Waiting> waiting(std::chrono::steady_clock::duration least) const;
  std::vector<LongCall> long_calls(std::chrono::steady_clock::duration least) const;
  bool has_begun(uint64_t communicator, uint64_t place) const;
  void look_at_gpu();  // reports what has gone wrong with calls that run on the GPU

 private:
  struct Collective;
  struct Entry {
    engine::OpNode* op;
    Collective* body;
    bool has_priority;
  };
  // A call that has begun. Copies: fail() may end the operation meanwhile.
  struct Running {
    engine::OpNode* op = nullptr;
    uint64_t place = 0;
    Call call;
    engine::IntrusivePtr<ops::ArrayNode> in, out;
    int color = 0, key = 0;
    std::shared_ptr<std::shared_ptr<Driver>> part;
    std::unique_ptr<Pending> pending{};
    bool is_launched = false;  // on a GPU, whose work ends there
    engine::StreamPoint end{};
    std::exception_ptr failure{};
    std::string why{};
    bool has_ended = false;  // of one beside others, as all of these
    std::chrono::steady_clock::time_point went_on{};
  };
  static void begin(engine::OpNode& op, RunContext&);
  static const engine::OpType type;
  void ready(uint64_t place, Entry entry);
  void lose(uint64_t place, const char* name);
  void close();
  void loop();
  void leave_gpu();
  bool is_due() const { return handed_ || (failure_.empty() && !running_ && ready_.count(next_) != 0); }
  Running take();  // the call whose turn it is
  Running begin_call(const Entry& entry);
  // Notes in the call what f() throws.
  template <class F>
  void attempt(Running& running, F&& f) {
    try {
      f();
    } catch (const std::exception&) {
      running.failure = std::current_exception();
      running.why = failure_text(running.place, running.call, running.failure);
    }
  }
  bool look(Running& running, std::chrono::microseconds patience, bool again);
  static constexpr int64_t most_bytes_here = 1 << 20;
  void begin_here(const Entry& entry, std::unique_lock<std::mutex>& lock);
  bool wait(Running& running, std::unique_lock<std::mutex>& lock);
  bool may_join() const;
  void run_beside(std::unique_lock<std::mutex>& lock);
  bool look_beside(std::chrono::microseconds patience);
  void end_beside(size_t which, std::unique_lock<std::mutex>& lock);
  void abandon_beside();
  void run(Running& running);
  void give_up(Running& running);
  static void abandon(Running& running);
  void report(const std::string& why);  // without the lock
  void leave(Running& running);
  void complete(const Running& running);                           // without the lock
  void end(Running& running, std::unique_lock<std::mutex>& lock);  // both
  void note_begin(const Call& call);
  void poll_sends(std::unique_lock<std::mutex>& lock);
  // On the driver's thread. False: there was nothing to do.
  bool launch(const Call& call, engine::Buffer& in, engine::Buffer& out, engine::StreamPoint& end);
  void end_launched(uint64_t place, const std::exception_ptr& failure);
  std::string failure_text(uint64_t place, const Call& call, const std::exception_ptr& failure) const;
  static void complete(engine::OpNode& op, std::exception_ptr failure);

  const std::shared_ptr<World> world_;
  std::unique_ptr<Group> group_;
  const uint64_t id_;
  const int rank_, size_, local_rank_, local_size_;
  const bool shares_memory_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, drained_;
  uint64_t issued_ = 0, next_ = 0;  // calls pushed, and the one whose turn is next
  // By place.
  std::map<uint64_t, Entry, std::less<>, engine::PoolAllocator<std::pair<const uint64_t, Entry>>> ready_;
  engine::OpNode* running_ = nullptr;
  bool is_pending_ = false;        // running_ is looked after, and never blocks a thread
  std::optional<Running> handed_;  // to the thread, by one that has begun it
  std::chrono::steady_clock::time_point running_since_{};
  struct Beside {
    engine::OpNode* op;
    Kind kind;
    uint64_t place;
    std::chrono::steady_clock::time_point since;
  };
  std::vector<Beside> beside_;     // calls with a priority that are under way, in their order; then no other one is
  std::vector<Running> together_;  // the same, the highest priority first: the thread's own
  Call running_call_;
  uint64_t running_place_ = 0;
  std::string failure_;
  bool ends_ = false;
  static constexpr size_t kept_hashes = 4096;
  std::vector<uint64_t> history_ = std::vector<uint64_t>(kept_hashes);  // of collective i at i % kept_hashes
  uint64_t begun_ = 0, hash_ = 0;  // collectives: sends and receives are not everyone's
  struct Send {
    engine::OpNode* op;
    int peer;
    std::chrono::steady_clock::time_point since;
    std::unique_ptr<Pending> sending;
  };
  std::vector<Send> sends_;
  struct Launched {
    engine::OpNode* op;
    Call call;
    std::chrono::steady_clock::time_point since;
    uint64_t begun;  // as it was then
  };
  std::map<uint64_t, Launched> launched_;  // by place: they run on the GPU
  std::shared_ptr<GpuCalls> gpu_;          // since the first of them
};

// "all_reduce (sum) of 6 elements of float32"
std::string describe(const Call& call);
// `before`, and what must be the same of the call on every rank.
uint64_t hash_of(uint64_t before, const Call& call);

}  // namespace kaon::comm
