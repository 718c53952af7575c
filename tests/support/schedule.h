// The order that a test program was started with: --schedule <seed>.
#pragma once

#include <cstdint>

namespace kaon::test {

uint64_t schedule_seed();  // 0: none given

}  // namespace kaon::test
