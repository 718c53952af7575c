// Prints 12: the sum of six twos, computed by an installed Kaon.
#include <kaon/asio.h>
#include <kaon/engine/gpu_stream.h>
#include <kaon/kaon.h>
#include <kaon/ops/op_def.h>

#include <boost/asio/use_future.hpp>

int main() {
  const kaon::NDArray x = kaon::nd.ones({2, 3});
  const kaon::NDArray sum = (x + x).sum();
  sum.async_wait(boost::asio::use_future).get();
  fmt::print("{}\n", sum.asscalar<float>());
}
