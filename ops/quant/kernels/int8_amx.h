// int8_direct by AMX: a tile instruction sums 64 products for each of 16 results and 16 filters.
#pragma once

#include "kaon/ops/quant/kernels/int8_direct.h"

namespace kaon::ops {

// Whether this processor has the instructions, this process may use them (which this asks the kernel for), and the runs
// of the patch are whole tiles. Not where oneDNN is told to leave them alone (ONEDNN_MAX_CPU_ISA).
bool has_int8_amx(const Int8Patch& patch);

// As int8_direct, with the same packed filters. Results of one row of the image share tiles, so whole rows are best.
void int8_amx(const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width, int64_t first,
              int64_t count, int64_t filter, int64_t filters, const int32_t* start, int32_t* sums, int64_t stride);

}  // namespace kaon::ops
