// Prints 12: the sum of six twos, computed by an installed Kaon. Its reader of images, which is linked too, refuses
// what is none. With an argument it prints the number of ranks that MPI has started.
#include <kaon/asio.h>
#include <kaon/comm/communicator.h>
#include <kaon/engine/gpu_stream.h>
#include <kaon/kaon.h>
#include <kaon/ops/op_def.h>

#include <boost/asio/use_future.hpp>

int main(int argc, char**) {
  if (argc > 1) {
    fmt::print("{}\n", kaon::comm::mpi().size());
    return 0;
  }
  const kaon::NDArray x = kaon::nd.ones({2, 3});
  const kaon::NDArray sum = (x + x).sum();
  sum.async_wait(boost::asio::use_future).get();
  try {
    kaon::image::imdecode("no image");
  } catch (const kaon::Error&) {
    fmt::print("{}\n", sum.asscalar<float>());
  }
}
