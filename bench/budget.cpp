// Does a budget cost speed? 20,000 forwards of a net whose results nobody waits for, under a budget of 256 MiB, against
// the same loop synchronised by hand: after each forward, or after every hundredth. Prints the highest memory that
// arrays took in all of it as well.
#include "kaon/bench/common.h"
#include "kaon/engine/storage.h"
#include "kaon/gluon/nn/nn.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {

constexpr int forwards = 20000;
constexpr size_t budget = size_t(256) << 20;

// 256 KiB between the layers: the budget holds a thousand forwards, fewer than the limit of operations used here.
struct Workload {
  nn::HybridSequential net{nn::Dense(1024, {.activation = "relu"}), nn::Dense(16)};
  NDArray x = nd.random_normal({64, 16});

  Workload() {
    net.initialize();
    net(x);
    nd.waitall();
  }
  // sync_every 0: never
  double forwards_per_second(int sync_every) const {
    nd.waitall();
    return forwards / bench::seconds([&] {
             for (int i = 1; i <= forwards; ++i) {
               NDArray y = net(x);
               if (sync_every && i % sync_every == 0) y.wait_to_read();
             }
             nd.waitall();
           });
  }
};

void compare(int threads) {
  Engine engine({.threads = threads, .max_in_flight = 1 << 16});
  const EngineScope scope(engine);
  const Workload w;
  const auto results =
      bench::interleave(5, {[&] { return w.forwards_per_second(1); }, [&] { return w.forwards_per_second(100); },
                            [&] {
                              const EngineScope limited = scope.with_budget(budget);
                              return w.forwards_per_second(0);
                            }});
  const std::string t = "_threads" + std::to_string(threads);
  bench::print("forwards_each_waited_for" + t, results[0], "1/s");
  bench::print("forwards_every_100th_waited_for" + t, results[1], "1/s");
  const bench::Result& by_hand = results[results[0].median > results[1].median ? 0 : 1];
  bench::print("forwards_without_sync_in_256MiB" + t, results[2], "1/s", "the_faster_of_these", by_hand,
               0.95 * by_hand.median);
}

}  // namespace

int main() {
  bench::print_machine();
  bench::print_ping_pong();
  for (int threads : {1, 2}) compare(threads);
  fmt::print("{{\"name\": \"peak_of_arrays\", \"MiB\": {:.1f}, \"goal\": 256}}\n",
             double(Storage::cpu().stats().peak) / double(1 << 20));
}
