// int8_direct by AMX: a tile instruction sums 64 products for each of 16 results and 16 filters.
#pragma once

#include "kaon/ops/quant/kernels/int8_direct.h"

namespace kaon::ops {

// Whether this processor has the instructions, this process may use them (which this asks the kernel for), and the runs
// of the patch are whole tiles. Not where oneDNN is told to leave them alone (ONEDNN_MAX_CPU_ISA).
bool has_int8_amx(const Int8Patch& patch);

constexpr int64_t int8_amx_filters = 2 * int8_lanes;  // at most, of a call

// The thread's tiles while it calls int8_amx for one patch: setting their size takes as long as some of the sums.
class Int8Tiles {
 public:
  Int8Tiles() = default;
  ~Int8Tiles();
  Int8Tiles(const Int8Tiles&) = delete;
  Int8Tiles& operator=(const Int8Tiles&) = delete;

  void set_size(int64_t rows, int64_t quads);

 private:
  int64_t rows_ = 0;
};

// As int8_direct, with filters packed by blocks of int8_lanes, of which `filter` begins one. Results of one row of the
// image share tiles, so whole rows are best. `fetch`: the weights of as many filters behind these are wanted
// afterwards, and come into the second cache meanwhile.
void int8_amx(Int8Tiles& tiles, const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width,
              int64_t first, int64_t count, int64_t filter, int64_t filters, bool fetch, const int32_t* start,
              int32_t* sums, int64_t stride);

}  // namespace kaon::ops
