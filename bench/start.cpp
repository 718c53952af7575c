// A process that does one thing: the seeds' MLP, hybridized, on one sample. Prints the clock's seconds at the first
// result and the most memory that the process had, in MB. bench_hybrid runs it.
#include <chrono>
#include <fstream>

#include "kaon/examples/networks.h"

int main() {
  using namespace kaon;
  auto net = examples::seed_mlp();
  net.initialize();
  net.hybridize({.static_alloc = true, .static_shape = true});
  const NDArray x = nd.ones({1, 512});
  net(x).wait_to_read();
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (int i = 0; i < 100; ++i) net(x).wait_to_read();
  std::ifstream status("/proc/self/status");
  std::string word;
  double kilobytes = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  fmt::print("{:.6f} {:.3f}\n", now, kilobytes / 1024);
}
