// A stable sort of positions by digits of eight bits, so that sums keep the order of the indices.
#include "kaon/ops/kernels/index_list.cuh"

#include <bit>
#include <utility>

namespace kaon::cuda {

namespace {

constexpr int digit_bits = 8, digits = 1 << digit_bits;
constexpr int threads = 256, warps = threads / int(warp), keys_each = 8;
constexpr int tile_keys = threads * keys_each;  // of one block
static_assert(threads == digits, "a thread has a digit of its own");

// Occurrences of each digit in each warp; the last column is for places after the last key.
using Counts = uint32_t[warps][digits + 1];

struct Pass {
  int64_t count, tiles;
  int shift;
  const int64_t* keys;
  const int64_t* order;  // null: 0, 1, 2, ...
};

// A warp has keys_each * 32 consecutive keys; in round r its thread t has key 32 r + t.
__device__ int64_t place_of(int64_t tile, int round) {
  return tile * tile_keys + int64_t(threadIdx.x / warp) * (warp * keys_each) + round * warp + threadIdx.x % warp;
}

// For each of this thread's keys its digit, and how many of the warp's keys before it have the same one. Then
// counts[w][d]: how many keys of the warps before w have digit d. Returns how many keys of the tile have this thread's.
__device__ uint32_t rank_keys(const Pass& p, int64_t tile, Counts& counts, int (&digit)[keys_each],
                              uint32_t (&rank)[keys_each]) {
  const int lane = int(threadIdx.x % warp), w = int(threadIdx.x / warp);
  for (int i = int(threadIdx.x); i < warps * (digits + 1); i += threads) counts[i / (digits + 1)][i % (digits + 1)] = 0;
  __syncthreads();
  for (int r = 0; r < keys_each; ++r) {
    const int64_t at = place_of(tile, r);
    digit[r] = at < p.count ? int(p.keys[at] >> p.shift & (digits - 1)) : digits;
    int before = 0, equal = 0;
    for (int l = 0; l < int(warp); ++l) {
      const bool same = __shfl_sync(0xffffffffu, digit[r], l) == digit[r];
      equal += same, before += same && l < lane;
    }
    rank[r] = counts[w][digit[r]] + uint32_t(before);
    __syncthreads();
    if (before == equal - 1) counts[w][digit[r]] = rank[r] + 1;
    __syncthreads();
  }
  uint32_t sum = 0;
  for (int k = 0; k < warps; ++k) {
    const uint32_t here = counts[k][threadIdx.x];
    counts[k][threadIdx.x] = sum;
    sum += here;
  }
  return sum;
}

// The sum of the values of the threads before this one; `total` gets that of all.
__device__ int64_t sum_before(int64_t value, int64_t& total) {
  __shared__ int64_t sums[2][threads];
  int from = 0;
  sums[from][threadIdx.x] = value;
  __syncthreads();
  for (int step = 1; step < threads; step *= 2, from ^= 1) {
    const int64_t other = int(threadIdx.x) >= step ? sums[from][threadIdx.x - unsigned(step)] : 0;
    sums[from ^ 1][threadIdx.x] = sums[from][threadIdx.x] + other;
    __syncthreads();
  }
  total = sums[from][threads - 1];
  const int64_t before = sums[from][threadIdx.x] - value;
  __syncthreads();
  return before;
}

// table[digit][tile]: how many keys of a tile have a digit.
__global__ void __launch_bounds__(threads) count_digits(Pass p, int64_t* table) {
  __shared__ Counts counts;
  int digit[keys_each];
  uint32_t rank[keys_each];
  for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    table[threadIdx.x * p.tiles + tile] = rank_keys(p, tile, counts, digit, rank);
    __syncthreads();
  }
}

// A block per digit: its counts become sums over the tiles before.
__global__ void __launch_bounds__(threads) sum_tiles(int64_t tiles, int64_t* table, int64_t* totals) {
  int64_t* row = table + blockIdx.x * tiles;
  int64_t before = 0, total = 0;
  for (int64_t first = 0; first < tiles; first += threads) {
    const int64_t tile = first + threadIdx.x;
    const int64_t sum = sum_before(tile < tiles ? row[tile] : 0, total);
    if (tile < tiles) row[tile] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// Moves the keys to their places. With one tile there is no table.
__global__ void __launch_bounds__(threads)
    move_keys(Pass p, const int64_t* table, const int64_t* totals, int64_t* keys, int64_t* order) {
  __shared__ Counts counts;
  __shared__ int64_t first[digits + 1];
  int digit[keys_each];
  uint32_t rank[keys_each];
  for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    const uint32_t here = rank_keys(p, tile, counts, digit, rank);
    int64_t total = 0;
    const int64_t smaller = sum_before(totals ? totals[threadIdx.x] : here, total);
    first[threadIdx.x] = smaller + (table ? table[threadIdx.x * p.tiles + tile] : 0);
    __syncthreads();
    for (int r = 0; r < keys_each; ++r) {
      const int64_t at = place_of(tile, r);
      if (at >= p.count) continue;
      const int64_t to = first[digit[r]] + counts[threadIdx.x / warp][digit[r]] + rank[r];
      keys[to] = p.keys[at];
      order[to] = p.order ? p.order[at] : at;
    }
    __syncthreads();
  }
}

// start[r]: the first of the sorted keys that is r or more.
struct FindStart {
  const int64_t* keys;
  int64_t count;
  int64_t* start;
  __device__ void operator()(int64_t r) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle] < r) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    start[r] = low;
  }
};

// The contributions from k to end, added to a sum in their order. Loads that wait together, for rows with many.
template <class Acc, class Part>
__device__ Acc add_in_order(Acc sum, int64_t k, int64_t end, const Part& part) {
  constexpr int many = 8;
  for (; k + many <= end; k += many) {
    Acc parts[many];
    for (int m = 0; m < many; ++m) parts[m] = part(k + m);
    for (int m = 0; m < many; ++m) sum = Acc(sum + parts[m]);
  }
  for (; k < end; ++k) sum = Acc(sum + part(k));
  return sum;
}

// A row of two or more pieces has a thread for the sum of each piece; these sums are added in order, and the rest, less
// than a piece, last.
constexpr int64_t piece = 256;

template <class T>
struct Sums {
  using Acc = sum_t<T>;
  Contributions contributions;
  FastDivide inner;
  int64_t count;
  const T* src;
  __device__ Acc of(Acc sum, int64_t k, int64_t end, int64_t o, int64_t column) const {
    const T* from = src + o * count * inner.divisor() + column;
    return add_in_order(sum, k, end, [&](int64_t i) { return Acc(from[contributions.order[i] * inner.divisor()]); });
  }
};

// pieces[o, s, :] for s < slots: of the piece that begins among the sorted contributions from s * piece on; no two
// begin among the same.
template <class T>
struct AddPieces {
  using Acc = sum_t<T>;
  Sums<T> sums;
  FastDivide slots;
  Acc* pieces;
  __device__ void operator()(int64_t i) const {
    int64_t column = i;
    int64_t slot = sums.inner.split(column);
    const int64_t o = slots.split(slot), from = slot * piece;
    const int64_t row = sums.contributions.rows[from + piece - 1];
    const int64_t begin = sums.contributions.start[row], end = sums.contributions.start[row + 1];
    const int64_t first = begin < from ? begin + (from - begin + piece - 1) / piece * piece : begin;
    if (end - begin < 2 * piece || first + piece > end) return;
    pieces[i] = sums.of(Acc(0), first, first + piece, o, column);
  }
};

template <class T>
struct AddRows {
  using Acc = sum_t<T>;
  Sums<T> sums;
  FastDivide rows;
  int64_t slots;
  const Acc* pieces;
  const T* data;
  T* dst;
  __device__ void operator()(int64_t i) const {
    int64_t column = i;
    int64_t r = sums.inner.split(column);
    const int64_t o = rows.split(r);
    const int64_t begin = sums.contributions.start[r], end = sums.contributions.start[r + 1];
    int64_t whole = (end - begin) / piece;
    if (whole < 2) whole = 0;
    const int64_t first = o * slots + begin / piece;
    const Acc sum =
        add_in_order(Acc(0), 0, whole, [&](int64_t k) { return pieces[(first + k) * sums.inner.divisor() + column]; });
    const Acc all = sums.of(sum, begin + whole * piece, end, o, column);
    dst[i] = T(data ? Acc(Acc(data[i]) + all) : all);
  }
};

}  // namespace

Contributions sort_contributions(KernelContext& c, int64_t* keys, int64_t count, int64_t rows) {
  const int64_t tiles = (count + tile_keys - 1) / tile_keys;
  const auto scratch = [&](int64_t n) { return static_cast<int64_t*>(c.run.workspace(size_t(n) * sizeof(int64_t))); };
  int64_t* other_keys = scratch(count);
  int64_t* order = scratch(count);
  int64_t* other_order = scratch(count);
  int64_t* start = scratch(rows + 1);
  int64_t* table = tiles > 1 ? scratch(digits * tiles) : nullptr;
  int64_t* totals = tiles > 1 ? scratch(digits) : nullptr;
  const int bits = int(std::bit_width(uint64_t(rows)));
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const Pass pass{count, tiles, shift, keys, shift == 0 ? nullptr : order};
    if (tiles > 1) {
      launch(c, count_digits, blocks_for(tiles, 1), threads, pass, table);
      launch(c, sum_tiles, digits, threads, tiles, table, totals);
    }
    launch(c, move_keys, blocks_for(tiles, 1), threads, pass, table, totals, other_keys, other_order);
    std::swap(keys, other_keys);
    std::swap(order, other_order);
  }
  for_each(c, rows + 1, FindStart{keys, count, start});
  return {start, order, keys};
}

void add_contributions(KernelContext& c, const Contributions& contributions, int64_t count, int64_t rows, int64_t outer,
                       int64_t inner, const void* src, void* dst, DType dtype, const void* data) {
  dispatch_signed("scatter_add", dtype, [&]<class T>() {
    using Acc = sum_t<T>;
    const Sums<T> sums{contributions, FastDivide(inner), count, static_cast<const T*>(src)};
    const int64_t slots = count < 2 * piece ? 0 : count / piece, n = outer * slots * inner;
    Acc* pieces = n == 0 ? nullptr : static_cast<Acc*>(c.run.workspace(size_t(n) * sizeof(Acc)));
    for_each(c, n, AddPieces<T>{sums, FastDivide(slots), pieces});
    for_each(c, outer * rows * inner,
             AddRows<T>{sums, FastDivide(rows), slots, pieces, static_cast<const T*>(data), static_cast<T*>(dst)});
  });
}

}  // namespace kaon::cuda
