// Fuzz target: states of MXNet's Trainer. Any bytes give arrays, an IoError or a ValueError of what does not fit the
// trainer.
#include <string_view>

#include "kaon/gluon/nn/nn.h"
#include "kaon/interchange/mxnet_states.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct Net {
    gluon::nn::Dense dense{2, {.in_units = 3}};
    gluon::Trainer trainer{dense.collect_params(), optimizer::Adam()};
    Net() { dense.initialize(init::One()); }
  };
  static Net net;
  try {
    net.trainer.set_states(gluon::read_mxnet_states(net.trainer, {reinterpret_cast<const char*>(data), size}), "bytes");
  } catch (const IoError&) {
  } catch (const ValueError&) {
  } catch (const ShapeError&) {
  } catch (const TypeError&) {
  }
  return 0;
}
