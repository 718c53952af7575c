#include "kaon/ops/quant/kernels/int8_amx.h"

#include <algorithm>
#include <array>
#include <utility>

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

// Sums are in tiles 0 to 3; data in 4 and 5, weights in 6 and 7.
constexpr int data_tile = 4, weights_tile = 6;
constexpr int most_groups = 4;

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

int64_t groups_of(int64_t places) { return (places + tile_rows - 1) / tile_rows; }

// One call of int8_amx. The rows of a tile are consecutive places: the results of a row of the image and, where rows
// share tiles, what is between the end of a row and the begin of the next, whose sums nobody wants. Groups of places,
// all of one size, are summed together.
class Call {
 public:
  Call(Int8Tiles& tiles, const Int8Patch& patch, const std::byte* weights, int64_t filters, const int32_t* start,
       int32_t* sums, int64_t stride, int64_t width)
      : tiles_(tiles),
        patch_(patch),
        weights_(reinterpret_cast<const int8_t*>(weights)),
        filters_(filters),
        start_(start),
        sums_(sums),
        stride_(stride),
        width_(width),
        run_tiles_(tiles_of_run(patch)),
        quads_(patch.quads() / run_tiles_),
        vector_bytes_(patch.runs() * patch.quads() * tile_bytes),
        vectors_(filters > int8_lanes ? 2 : 1),
        by_two_(vectors_ * vector_bytes_ <= near_bytes) {}

  void compute(const uint8_t* image, int64_t first, int64_t count, bool fetch) {
    row_ = places_of_rows(first, count);
    const int64_t places = row_ > 0 ? (count / width_ - 1) * row_ + width_ : count;
    if (fetch) fetch_in(groups_of(places));
    if (row_ > 0) {
      add(image + first / width_ * patch_.step_y, 0, places);
    } else {
      for (int64_t at = 0; at < count;) {
        const int64_t y = (first + at) / width_, x = (first + at) % width_, length = std::min(width_ - x, count - at);
        add(image + y * patch_.step_y + x * patch_.step_x, at, length);
        at += length;
      }
    }
    run();
  }

 private:
  // Weights that the first cache holds beside data are read for every two groups, by two vectors of filters; larger
  // ones, which come from the second, for every four, by one.
  static constexpr int64_t near_bytes = 24576;
  int64_t most() const { return by_two_ ? 2 : most_groups; }

  // Where so many fewer groups suffice that dropping sums costs less: the places from one row to the next; else 0.
  int64_t places_of_rows(int64_t first, int64_t count) const {
    if (first % width_ != 0 || count % width_ != 0 || patch_.step_y % patch_.step_x != 0) return 0;
    const int64_t places = patch_.step_y / patch_.step_x, rows = count / width_;
    return groups_of((rows - 1) * places + width_) * 4 <= rows * groups_of(width_) * 3 ? places : 0;
  }

  // Each pass over these weights fetches its share of the next ones.
  void fetch_in(int64_t groups) {
    const int64_t passes = (groups + most() - 1) / most(), lines = (by_two_ ? vectors_ : 1) * quads_;
    next_ = weights_ + vectors_ * vector_bytes_;
    lines_ = (lines + passes - 1) / passes;
  }

  // The last group begins earlier where the others would leave too few places: some sums are computed twice.
  void add(const uint8_t* x, int64_t place, int64_t places) {
    const int64_t groups = groups_of(places), size = (places + groups - 1) / groups;
    if (size != size_) run(), size_ = size;
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t begin = std::min(i * size, places - size);
      groups_[size_t(waiting_++)] = {x + begin * patch_.step_x, place + begin};
      if (waiting_ == most()) run();
    }
  }

  void run() {
    if (waiting_ == 0) return;
    tiles_.set_size(size_, quads_);
    if (by_two_ && vectors_ == 2) {
      waiting_ == 2 ? sum<2, 2>(0) : sum<1, 2>(0);
    } else {
      for (int64_t v = 0; v < vectors_; ++v) {
        switch (waiting_) {
          case 1: sum<1, 1>(v); break;
          case 2: sum<2, 1>(v); break;
          case 3: sum<3, 1>(v); break;
          default: sum<4, 1>(v);
        }
      }
    }
    waiting_ = 0;
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
  void end(int64_t group, int64_t v) const {
    const int64_t first = groups_[size_t(group)].place;
    int32_t* const to = sums_ + v * int8_lanes;
    if (row_ == 0 && lanes(v) == int8_lanes) return store<tile>(to + first * stride_, stride_ * 4);
    alignas(64) std::array<int32_t, size_t(tile_rows * int8_lanes)> all;
    store<tile>(all.data(), tile_bytes);
    if (row_ == 0) return copy(all.data(), size_, v, to + first * stride_);
    for (int64_t i = 0; i < size_;) {
      const int64_t y = (first + i) / row_, x = (first + i) % row_, wanted = std::min(width_ - x, size_ - i);
      if (wanted > 0) copy(all.data() + i * int8_lanes, wanted, v, to + (y * width_ + x) * stride_);
      i += row_ - x;
    }
  }

  void copy(const int32_t* from, int64_t results, int64_t v, int32_t* to) const {
    for (int64_t i = 0; i < results; ++i, from += int8_lanes, to += stride_) std::copy_n(from, lanes(v), to);
  }

  // The sums of the first `groups` with `vectors` vectors from v on: group g by vector i is in tile g * vectors + i.
  template <int groups, int vectors>
  void sum(int64_t v) {
    static_assert(groups * vectors <= 4);
    const auto each = [&](auto f) {
      [&]<int... t>(std::integer_sequence<int, t...>) { (f.template operator()<t>(), ...); }
      (std::make_integer_sequence<int, groups * vectors>());
    };
    each([&]<int t> { begin<t>(v + t % vectors); });
    const int8_t* w = weights_ + v * vector_bytes_;
    const int8_t* next = next_;
    for (int64_t r = 0; r < patch_.rows; ++r) {
      for (int64_t c = 0; c < patch_.columns; ++c) {
        int64_t at = r * patch_.row_stride + c * patch_.column_stride;
        for (int64_t i = 0; i < run_tiles_; ++i, at += quads_ * 4, w += quads_ * tile_bytes) {
          each([&]<int t> {
            constexpr int group = t / vectors, vector = t % vectors;
            if constexpr (group == 0) load<weights_tile + vector>(w + vector * vector_bytes_, tile_bytes);
            if constexpr (vector == 0) load<data_tile + group % 2>(groups_[group].x + at, patch_.step_x);
            add_products<t, data_tile + group % 2, weights_tile + vector>();
          });
          for (int64_t line = 0; line < lines_; ++line, next += tile_bytes) __builtin_prefetch(next, 0, 2);
        }
      }
    }
    next_ = next;
    each([&]<int t> { end<t>(t / vectors, v + t % vectors); });
  }

  struct Group {
    const uint8_t* x;  // what the first place reads
    int64_t place;
  };

  Int8Tiles& tiles_;
  const Int8Patch& patch_;
  const int8_t* weights_;
  int64_t filters_;
  const int32_t* start_;
  int32_t* sums_;
  int64_t stride_, width_;
  int64_t run_tiles_, quads_;  // of a run; of a tile
  int64_t vector_bytes_, vectors_;
  bool by_two_;
  int64_t row_ = 0;  // places from one row to the next; 0: rows share no tiles
  const int8_t* next_ = nullptr;
  int64_t lines_ = 0;  // of the next weights, to fetch after each tile of these
  std::array<Group, most_groups> groups_{};
  int64_t waiting_ = 0, size_ = 0;  // groups, and places of each
};

}  // namespace

bool has_int8_amx(const Int8Patch& patch) {
  static const bool may = is_allowed(dnnl::get_effective_cpu_isa()) && may_use_tiles();
  return may && tiles_of_run(patch) > 0;
}

Int8Tiles::~Int8Tiles() {
  if (rows_ > 0) release();
}

void Int8Tiles::set_size(int64_t rows, int64_t quads) {
  if (rows == rows_) return;
  rows_ = rows;
  TileConfig config;
  for (size_t t = 0; t < 8; ++t) {
    config.rows[t] = uint8_t(t < weights_tile ? rows : quads);
    config.bytes[t] = uint16_t(t < data_tile || t >= weights_tile ? tile_bytes : quads * 4);
  }
  configure(config);
}

void int8_amx(Int8Tiles& tiles, const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width,
              int64_t first, int64_t count, int64_t filter, int64_t filters, bool fetch, const int32_t* start,
              int32_t* sums, int64_t stride) {
  if (patch.step_y == width * patch.step_x) width = first + count;  // rows without borders are one row
  Call call(tiles, patch, packed + filter * patch.runs() * patch.quads() * 4, filters, start ? start + filter : nullptr,
            sums, stride, width);
  call.compute(image, first, count, fetch);
}
#else
bool has_int8_amx(const Int8Patch&) { return false; }

Int8Tiles::~Int8Tiles() = default;
void Int8Tiles::set_size(int64_t, int64_t) {}

void int8_amx(Int8Tiles&, const Int8Patch&, const uint8_t*, const std::byte*, int64_t, int64_t, int64_t, int64_t,
              int64_t, bool, const int32_t*, int32_t*, int64_t) {}
#endif

}  // namespace kaon::ops
