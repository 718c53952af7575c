// Prints 12: the sum of six twos, computed by an installed Kaon.
#include <kaon/kaon.h>

int main() {
  const kaon::NDArray x = kaon::nd.ones({2, 3});
  fmt::print("{}\n", (x + x).sum().asscalar<float>());
}
