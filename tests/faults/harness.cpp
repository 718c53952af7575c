#include "harness.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "kaon/engine/engine.h"
#include "kaon/engine/storage.h"

namespace kaon::test {
namespace {

bool is_lack(const std::exception_ptr& why);

bool is_lack(const std::exception& e) {
  if (dynamic_cast<const MemoryError*>(&e) || dynamic_cast<const std::bad_alloc*>(&e)) return true;
  const auto* all = dynamic_cast<const AggregateError*>(&e);
  if (!all) return false;
  for (const auto& part : all->errors()) {
    if (!is_lack(part->exception)) return false;
  }
  return true;
}
bool is_lack(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    return is_lack(e);
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of another type";
  }
}

bool are_equal(const Results& a, const Results& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

struct Attempt {
  bool has_failed = false;  // an allocation
  std::exception_ptr error{};
  Results results{};
};

Attempt attempt(const std::function<Results()>& program, long n, Lack lack) {
  Attempt a;
  {
    FailingAllocations failing(n, lack);
    try {
      a.results = program();
    } catch (...) {
      failing.stop();  // before anything else: the handler itself may need memory
      a.error = std::current_exception();
    }
  }
  a.has_failed = FailingAllocations::has_failed();
  return a;
}

// Of operations that nobody has waited for.
std::exception_ptr left_over() {
  try {
    Engine::current().wait_all();
    return {};
  } catch (...) {
    return std::current_exception();
  }
}

// Ends the program with a message when an attempt takes a minute: a program that hangs fails by name.
class HangReport {
 public:
  explicit HangReport(std::string program)
      : program_(std::move(program)), thread_([this] {
          std::unique_lock lock(mutex_);
          for (long seen = -1; !is_over_; seen = attempts_) {
            if (changed_.wait_for(lock, std::chrono::minutes(1), [&] { return is_over_ || attempts_ != seen; }))
              continue;
            std::fprintf(stderr, "%s hangs: allocation %ld fails%s\n", program_.c_str(), n_,
                         lack_ == Lack::one ? "" : " and all after it");
            std::_Exit(1);
          }
        }) {}
  ~HangReport() {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void begin(long n, Lack lack) {
    {
      std::lock_guard lock(mutex_);
      ++attempts_;
      n_ = n;
      lack_ = lack;
    }
    changed_.notify_one();
  }

 private:
  const std::string program_;
  std::mutex mutex_;
  std::condition_variable changed_;
  long attempts_ = 0, n_ = 0;
  Lack lack_ = Lack::one;
  bool is_over_ = false;
  std::thread thread_;
};

struct Alive {
  long allocations;
  size_t storage;
};
Alive alive() { return {allocations_alive(), Storage::cpu().stats().live}; }

}  // namespace

void survives(const std::string& name, const std::function<Results()>& program, const FaultOptions& options) {
  INFO(name);
  HangReport hangs(name);
  const Results expected = program();
  for (int i = 0; i < 3; ++i) REQUIRE(are_equal(program(), expected));  // caches are full now
  REQUIRE_FALSE(left_over());
  // so many allocations does it make
  long total = 0;
  for (long step = 1 << 14; step > 0; step /= 2) {
    hangs.begin(total + step, Lack::one);
    if (attempt(program, total + step, Lack::one).has_failed) total += step;
    left_over();
  }
  REQUIRE(are_equal(program(), expected));
  const long stride = options.most ? std::max<long>(1, total / options.most) : 1;
  int thrown = 0;
  for (Lack lack : options.lacks) {
    INFO((lack == Lack::one ? "one allocation fails" : "all allocations fail from one on"));
    for (long n = 1; n <= total; n += stride) {
      INFO("number " << n << " of " << total);
      // Caches may grow at first, as far as this attempt needs; what leaks grows every time.
      std::optional<Alive> before;
      bool has_grown = true;
      for (int round = 0; round < 8 && has_grown; ++round) {
        hangs.begin(n, lack);
        const Attempt a = attempt(program, n, lack);
        if (a.error) {
          ++thrown;
          if (!is_lack(a.error)) FAIL("threw " << text_of(a.error));
        } else if (!are_equal(a.results, expected)) {
          FAIL("wrong results");
        }
        if (const auto more = left_over(); more && !is_lack(more)) FAIL("was left with " << text_of(more));
        if (a.error && options.check_unchanged) REQUIRE_NOTHROW(options.check_unchanged());
        const auto again = [&] {
          try {
            return program();
          } catch (...) {
            FAIL("does not work afterwards: " << text_of(std::current_exception()));
            throw;
          }
        }();
        if (!are_equal(again, expected)) FAIL("wrong results afterwards");
        REQUIRE_FALSE(left_over());
        const Alive after = alive();
        has_grown = !before || after.allocations > before->allocations || after.storage > before->storage;
        before = after;
      }
      CHECK_FALSE(has_grown);
    }
  }
  CHECK(thrown > 0);
}

}  // namespace kaon::test
