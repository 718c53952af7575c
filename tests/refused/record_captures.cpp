// What g++ 12 must refuse: the captures of this lambda would be destroyed twice.
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

kaon::Task<void> train(kaon::NDArray x) {
  co_await kaon::autograd::record([x]() -> kaon::Task<kaon::NDArray> { co_return x * 2; });
}
