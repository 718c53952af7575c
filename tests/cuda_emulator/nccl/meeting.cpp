#include "meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>
#include <random>
#include <stdexcept>

namespace kaon_emulator {

// Zero at first: the memory is fresh.
struct Meeting::Shared {
  std::atomic<uint32_t> arrived, at_barrier, barriers;
  Post posts[most_ranks];
  std::byte pieces[most_ranks][piece_bytes];
  Box boxes[most_ranks][most_ranks];
};

namespace {
constexpr timespec look_again{.tv_sec = 0, .tv_nsec = 5'000'000};

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &look_again, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }
}  // namespace

std::string Meeting::make_name() {
  std::random_device random;
  return fmt::format("/kaon_nccl_{:08x}{:08x}", random(), random());
}

Meeting::Meeting(const std::string& name, int rank, int ranks, std::function<bool()> is_stopped)
    : rank_(rank), ranks_(ranks), is_stopped_(std::move(is_stopped)), name_(name) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) throw std::runtime_error("no shared memory");
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  shared_ = static_cast<Shared*>(memory);
  shared_->arrived.fetch_add(1);
  wake_all(shared_->arrived);
  try {
    for (uint32_t n; (n = shared_->arrived.load()) < uint32_t(ranks_);) {
      check();
      sleep_while(shared_->arrived, n);
    }
  } catch (const Stopped&) {
    shm_unlink(name.c_str());
    munmap(shared_, sizeof(Shared));
    throw;
  }
  if (rank_ == 0) shm_unlink(name.c_str());  // all have it open
}

Meeting::~Meeting() { munmap(shared_, sizeof(Shared)); }

void Meeting::check() const {
  if (is_stopped_()) throw Stopped();
}

void Meeting::wait_for_all() {
  check();
  const uint32_t before = shared_->barriers.load();
  if (shared_->at_barrier.fetch_add(1) + 1 == uint32_t(ranks_)) {
    shared_->at_barrier = 0;
    shared_->barriers.fetch_add(1);
    wake_all(shared_->barriers);
    return;
  }
  while (shared_->barriers.load() == before) {
    check();
    sleep_while(shared_->barriers, before);
  }
}

void Meeting::pause() {
  check();
  usleep(50);
}

Post& Meeting::post(int rank) { return shared_->posts[rank]; }
std::byte* Meeting::piece(int rank) { return shared_->pieces[rank]; }
Meeting::Box& Meeting::box(int from, int to) { return shared_->boxes[from][to]; }

}  // namespace kaon_emulator
