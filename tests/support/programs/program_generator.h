// Random hybridizable programs: one for each seed.
#pragma once

#include "kaon/tests/support/programs/program_builder.h"

namespace kaon::test {

// The same program on every machine. Computes on an engine of its own.
Program random_program(uint64_t seed, const Facts& facts);

}  // namespace kaon::test
