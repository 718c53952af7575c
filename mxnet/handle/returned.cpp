#include "kaon/mxnet/handle/returned.h"

namespace kaon::mxnet {

Returned& returned() {
  static thread_local Returned lists;
  return lists;
}

}  // namespace kaon::mxnet
