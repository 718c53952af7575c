// Meeting: memory that the processes of one communicator share, and in which they wait for each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace kaon_emulator {

// The wait was ended from outside.
struct Stopped {};

// What a rank calls, for the others to compare.
struct Post {
  int64_t kind, count, type, op, root;
  friend bool operator==(const Post&, const Post&) = default;
};

// Thread safety: one thread of each process. Waits throw Stopped when is_stopped() says so; nothing else ends them, as
// with NCCL: not the death of another rank.
class Meeting {
 public:
  static constexpr int most_ranks = 8;
  static constexpr size_t piece_bytes = size_t(1) << 16;
  struct Box {  // from one rank to another
    std::atomic<uint32_t> is_full;
    uint32_t bytes;
    std::byte data[piece_bytes];
  };

  static std::string make_name();
  // Blocks until all ranks have come.
  Meeting(const std::string& name, int rank, int ranks, std::function<bool()> is_stopped);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  void wait_for_all();
  void pause();  // for who polls a box
  Post& post(int rank);
  std::byte* piece(int rank);
  Box& box(int from, int to);

 private:
  struct Shared;
  void check() const;
  const int rank_, ranks_;
  const std::function<bool()> is_stopped_;
  const std::string name_;
  Shared* shared_ = nullptr;
};

}  // namespace kaon_emulator
