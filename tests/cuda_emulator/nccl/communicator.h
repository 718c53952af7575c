// The emulated NCCL's communicators: what ranks, which are processes of this machine, do to each other's device memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../device.h"
#include "meeting.h"
#include "nccl.h"

namespace kaon_emulator::nccl {

enum class Kind : uint8_t { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };

struct Operation {
  Kind kind;
  const std::byte* in;
  std::byte* out;
  size_t count;  // as NCCL's function has it
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;  // or the other rank
};

size_t size_of(ncclDataType_t type);

// What one group, or one call outside of groups, has asked for.
struct Job {
  std::vector<Operation> operations;
  std::shared_ptr<Moment> end;  // the stream waits for it
  bool hangs = false, fails = false;
};

// As a communicator that does not block: what is called is in progress until a thread of the communicator has put it on
// the stream; it is done, by the same thread, when the stream has come to it and all other ranks have as well.
// Thread safety: any thread.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(std::string name, int rank, int ranks, int device);
  ~Communicator();
  void begin();  // its thread, which meets the others
  void stop();   // ends what it does. Blocks.

  // Refused, with words, while something is in progress. The caller's device must be this one's.
  ncclResult_t submit(std::vector<Operation> operations, cudaStream_t stream);
  ncclResult_t finalize();
  ncclResult_t state() const { return state_.load(); }
  bool is_final() const { return is_final_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }

 private:
  void run();
  void put_on_stream(Job job, cudaStream_t stream);
  void start(const std::shared_ptr<Job>& job);  // the stream has come to it
  void execute(const Job& job);
  void reach(const std::shared_ptr<Moment>& end);
  bool agree(const Operation& o);
  void reduce(const std::byte* in, std::byte* out, size_t count, const Operation& o);  // out: null elsewhere
  void gather(const Operation& o);
  void broadcast(const std::byte* in, std::byte* out, size_t bytes, int root);
  void send_and_receive(const std::vector<Operation>& operations);

  const std::string name_;
  const int rank_, ranks_, device_;
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<bool> is_stopped_{false}, is_final_{false};
  std::unique_ptr<Meeting> meeting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> to_put_;
  std::deque<std::shared_ptr<Job>> started_;
  std::vector<std::shared_ptr<Moment>> open_ends_;
  std::thread thread_;
};

// Complains on stderr; returns `result`.
ncclResult_t refuse(const std::string& why, ncclResult_t result);

}  // namespace kaon_emulator::nccl
