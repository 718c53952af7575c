#include "kaon/ops/quant/kernels/int8_amx.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kaon/ops/kernels/onednn.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kaon::ops {

#if defined(__x86_64__) && defined(__linux__)
namespace {

constexpr int tile_rows = 16, tile_bytes = 64;

// Intel's documentation of LDTILECFG.
struct TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// The compilers' intrinsics do not say that loads read memory.
template <int tile>
void load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
void store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
void clear() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int sum, int data, int weights>
void add_products() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(data), "i"(weights));
}
void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
void release() { asm volatile("tilerelease"); }

// Sums are in tiles 0 to 3: 2 * (group of results) + (vector of filters); data in 4 and 5, weights in 6 and 7.
constexpr int data_tile = 4, weights_tile = 6;

bool may_use_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tiles = 1u << 24, int8_products = 1u << 25;  // CPUID.(7,0):EDX
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles) == 0 || (d & int8_products) == 0) return false;
  constexpr long ask_for_state = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
}

// A template, since not every version of oneDNN has every name.
template <class Isa>
bool is_allowed(Isa isa) {
  if constexpr (requires { Isa::avx512_core_amx_fp16; }) {
    if (isa == Isa::avx512_core_amx_fp16) return true;
  }
  return isa == Isa::avx512_core_amx;
}

// Tiles that the quads of a run are divided into, all of one size; 0: none that is worth it.
int64_t tiles_of_run(const Int8Patch& patch) {
  constexpr int64_t most = tile_bytes / 4, worth = 4;
  const int64_t quads = patch.quads();
  for (int64_t n = (quads + most - 1) / most; n > 0 && quads / n >= worth; ++n) {
    if (quads % n == 0) return n;
  }
  return 0;
}

// Results beside each other in a row: what the first reads begins at x; its sums are at[0], at[stride] ...
struct Group {
  const uint8_t* x = nullptr;
  int32_t* at = nullptr;
  int64_t size = 0;
};

// One call of int8_amx.
class Call {
 public:
  Call(const Int8Patch& patch, const int8_t* weights, int64_t filters, const int32_t* start, int64_t stride)
      : patch_(patch),
        weights_(weights),
        start_(start),
        filters_(filters),
        stride_(stride),
        vectors_((filters + int8_lanes - 1) / int8_lanes),
        tiles_(tiles_of_run(patch)),
        quads_(patch.quads() / tiles_) {}
  ~Call() { release(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Of one group or, where the second has results, two.
  void compute(const Group& first, const Group& second) {
    set_sizes(first.size, second.size);
    for (int64_t v = 0; v < vectors_; v += 2) {
      const bool two = v + 1 < vectors_;
      if (second.size > 0) {
        two ? sum<2, 2>(first, second, v) : sum<2, 1>(first, second, v);
      } else {
        two ? sum<1, 2>(first, second, v) : sum<1, 1>(first, second, v);
      }
    }
  }

 private:
  void set_sizes(int64_t first, int64_t second) {
    if (first == sizes_[0] && second == sizes_[1]) return;
    sizes_ = {first, second};
    TileConfig config;
    const auto set = [&](int tile, int64_t rows, int64_t bytes) {
      if (rows == 0) return;
      config.rows[tile] = uint8_t(rows), config.bytes[tile] = uint16_t(bytes);
    };
    for (int group = 0; group < 2; ++group) {
      for (int v = 0; v < 2; ++v) set(2 * group + v, sizes_[size_t(group)], tile_bytes);
      set(data_tile + group, sizes_[size_t(group)], quads_ * 4);
      set(weights_tile + group, quads_, tile_bytes);
    }
    configure(config);
  }

  int64_t lanes(int64_t v) const { return std::min(int8_lanes, filters_ - v * int8_lanes); }

  template <int tile>
  void begin(int64_t v) const {
    if (!start_) return clear<tile>();
    std::array<int32_t, int8_lanes> row{};
    std::copy_n(start_ + v * int8_lanes, lanes(v), row.data());
    load<tile>(row.data(), 0);
  }

  template <int tile>
  void end(const Group& group, int64_t v) const {
    int32_t* const to = group.at + v * int8_lanes;
    if (lanes(v) == int8_lanes) return store<tile>(to, stride_ * 4);
    std::array<int32_t, size_t(tile_rows * int8_lanes)> all;
    store<tile>(all.data(), tile_bytes);
    for (int64_t i = 0; i < group.size; ++i) std::copy_n(all.data() + i * int8_lanes, lanes(v), to + i * stride_);
  }

  template <int groups, int vectors>
  void sum(const Group& first, const Group& second, int64_t v) const {
    begin<0>(v);
    if constexpr (vectors == 2) begin<1>(v + 1);
    if constexpr (groups == 2) begin<2>(v);
    if constexpr (groups == 2 && vectors == 2) begin<3>(v + 1);
    const int64_t quad = vectors_ * tile_bytes;  // bytes of weights
    const int8_t* w = weights_ + v * tile_bytes;
    for (int64_t r = 0; r < patch_.rows; ++r) {
      for (int64_t c = 0; c < patch_.columns; ++c) {
        int64_t at = r * patch_.row_stride + c * patch_.column_stride;
        for (int64_t t = 0; t < tiles_; ++t, at += quads_ * 4, w += quads_ * quad) {
          load<data_tile>(first.x + at, patch_.step_x);
          load<weights_tile>(w, quad);
          add_products<0, data_tile, weights_tile>();
          if constexpr (vectors == 2) {
            load<weights_tile + 1>(w + tile_bytes, quad);
            add_products<1, data_tile, weights_tile + 1>();
          }
          if constexpr (groups == 2) {
            load<data_tile + 1>(second.x + at, patch_.step_x);
            add_products<2, data_tile + 1, weights_tile>();
          }
          if constexpr (groups == 2 && vectors == 2) add_products<3, data_tile + 1, weights_tile + 1>();
        }
      }
    }
    end<0>(first, v);
    if constexpr (vectors == 2) end<1>(first, v + 1);
    if constexpr (groups == 2) end<2>(second, v);
    if constexpr (groups == 2 && vectors == 2) end<3>(second, v + 1);
  }

  const Int8Patch& patch_;
  const int8_t* weights_;
  const int32_t* start_;
  int64_t filters_, stride_, vectors_, tiles_, quads_;
  std::array<int64_t, 2> sizes_{-1, -1};
};

}  // namespace

bool has_int8_amx(const Int8Patch& patch) {
  static const bool may = is_allowed(dnnl::get_effective_cpu_isa()) && may_use_tiles();
  return may && tiles_of_run(patch) > 0;
}

void int8_amx(const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width, int64_t first,
              int64_t count, int64_t filter, int64_t filters, const int32_t* start, int32_t* sums, int64_t stride) {
  const auto* const w = reinterpret_cast<const int8_t*>(packed) + filter * patch.runs() * patch.quads() * 4;
  Call call(patch, w, filters, start ? start + filter : nullptr, stride);
  if (patch.step_y == width * patch.step_x) width = first + count;  // rows without borders are one row
  Group waiting;
  for (int64_t at = 0; at < count;) {
    const int64_t y = (first + at) / width, x = (first + at) % width;
    const int64_t length = std::min(width - x, count - at), groups = (length + tile_rows - 1) / tile_rows;
    for (int64_t i = 0; i < groups; ++i) {  // of about one size
      const int64_t begin = length * i / groups, end = length * (i + 1) / groups;
      const Group group{image + y * patch.step_y + (x + begin) * patch.step_x, sums + (at + begin) * stride,
                        end - begin};
      if (waiting.size == 0) {
        waiting = group;
      } else {
        call.compute(waiting, group);
        waiting = {};
      }
    }
    at += length;
  }
  if (waiting.size > 0) call.compute(waiting, {});
}
#else
bool has_int8_amx(const Int8Patch&) { return false; }

void int8_amx(const Int8Patch&, const uint8_t*, const std::byte*, int64_t, int64_t, int64_t, int64_t, int64_t,
              const int32_t*, int32_t*, int64_t) {}
#endif

}  // namespace kaon::ops
