#include "kaon/engine/await.h"

namespace kaon {

IdleAwaiter Engine::idle() { return IdleAwaiter(*this); }
AdmitAwaiter Engine::admit() { return AdmitAwaiter(*this); }

}  // namespace kaon
