// Cost of an operation that does nothing: what the engine itself takes.
// Prints one JSON line per result; baselines in the same run: a serial loop of the same bodies and asio::post per op.
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <random>

#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"

using namespace kaon;

namespace {

constexpr int ops = 200000;
long cells[4096];

struct Work {
  int reads[2];
  int write;
};

std::vector<Work> random_work(int vars) {
  std::mt19937 g(7);
  std::vector<Work> w(ops);
  for (Work& x : w) {
    x.write = int(g() % unsigned(vars));
    x.reads[0] = int(g() % unsigned(vars));
    x.reads[1] = int(g() % unsigned(vars));
  }
  return w;
}

double ns_per_op(double seconds) { return seconds * 1e9 / ops; }

}  // namespace

int main() {
  bench::print_machine();
  bench::print_ping_pong();
  auto work = random_work(256);
  for (int threads : {1, 2}) {
    Engine engine({.threads = threads});
    std::vector<Var> vars(512);
    auto serial = [&] {
      for (auto& w : work) {
        ++cells[w.write];
        asm volatile("" ::: "memory");
      }
    };
    auto push_2r1w = [&] {
      for (auto& w : work) {
        long* cell = &cells[w.write];
        engine.push({read(vars[size_t(w.reads[0])]), read(vars[size_t(w.reads[1])]), write(vars[size_t(w.write)])},
                    [cell](RunContext&) { ++*cell; });
      }
      engine.wait_all();
    };
    auto push_independent = [&] {
      for (int i = 0; i < ops; ++i) {
        long* cell = &cells[i % 512 * 8];
        engine.push({write(vars[size_t(i % 512)])}, [cell](RunContext&) { ++*cell; });
      }
      engine.wait_all();
    };
    auto push_chain = [&] {
      for (int i = 0; i < ops; ++i) engine.push({write(vars[0])}, [](RunContext&) { ++cells[0]; });
      engine.wait_all();
    };
    auto push_and_wait = [&] {
      for (int i = 0; i < ops / 10; ++i) {
        engine.push({write(vars[0])}, [](RunContext&) { ++cells[0]; });
        engine.wait(vars[0]);
      }
    };
    boost::asio::thread_pool pool{size_t(threads)};
    auto asio_post = [&] {
      std::atomic<int> left{ops};
      for (int i = 0; i < ops; ++i) boost::asio::post(pool, [&] { left.fetch_sub(1, std::memory_order_release); });
      while (left.load(std::memory_order_acquire)) std::this_thread::yield();
    };
    auto results = bench::interleave(7, {[&] { return ns_per_op(bench::seconds(serial)); },
                                         [&] { return ns_per_op(bench::seconds(asio_post)); },
                                         [&] { return ns_per_op(bench::seconds(push_2r1w)); },
                                         [&] { return ns_per_op(bench::seconds(push_independent)); },
                                         [&] { return ns_per_op(bench::seconds(push_chain)); },
                                         [&] { return ns_per_op(bench::seconds(push_and_wait)) * 10; }});
    std::string t = "_threads" + std::to_string(threads);
    const char* unit = "ns/op";
    bench::print("serial_loop" + t, results[0], unit);
    bench::print("asio_post" + t, results[1], unit);
    bench::print("engine_2r1w_256vars" + t, results[2], unit, "asio_post", results[1]);
    bench::print("engine_independent" + t, results[3], unit, "asio_post", results[1]);
    bench::print("engine_chain" + t, results[4], unit, "asio_post", results[1]);
    bench::print("engine_push_one_and_wait" + t, results[5], unit, "asio_post", results[1]);
  }
}
