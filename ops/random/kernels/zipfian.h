// A row of distinct classes from a log-uniform distribution, for CPU and CUDA kernels. A light header.
#pragma once

#include <math.h>

#include "kaon/ops/math/philox.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Draw t of row r takes half t % 2 of block r + (t / 2 << 40). A table of open addresses knows the classes that the row
// has; it has a power of two of places, at least twice as many as there are classes to draw.
struct ZipfianRows {
  RandomKey key;
  int64_t range_max, classes;
  double log_range;
  int64_t places;  // in the table of a row
  int64_t* tables;
  int64_t *out, *tries;

  static int64_t places_for(int64_t classes) {
    int64_t places = 2;
    while (places < 2 * classes) places *= 2;
    return places;
  }

  KAON_HOST_DEVICE int64_t draw(int64_t row, uint64_t turn) const {
    const Philox4 w = random_block(key.seed, key.offset, uint64_t(row) | (turn / 2) << 40);
    const int at = int(turn % 2) * 2;
    const double x = ::exp(uniform_double(w.v[at], w.v[at + 1]) * log_range);
    const int64_t drawn = x < 0x1p62 ? int64_t(x) - 1 : range_max - 1;
    return drawn < range_max ? drawn : range_max - 1;
  }

  // Whether the class was not in the table, in which it is now.
  KAON_HOST_DEVICE bool add(int64_t* table, int64_t drawn) const {
    uint64_t at = (uint64_t(drawn) * 0x9e3779b97f4a7c15) >> 20;
    for (;; ++at) {
      int64_t& place = table[at & uint64_t(places - 1)];
      if (place == drawn) return false;
      if (place < 0) return place = drawn, true;
    }
  }

  KAON_HOST_DEVICE void operator()(int64_t row) const {
    int64_t* table = tables + row * places;
    for (int64_t i = 0; i < places; ++i) table[i] = -1;
    uint64_t turn = 0;
    for (int64_t found = 0; found < classes;) {
      const int64_t drawn = draw(row, turn++);
      if (add(table, drawn)) out[row * classes + found++] = drawn;
    }
    tries[row] = int64_t(turn);
  }
};

// Host code: for a call with these outputs.
inline ZipfianRows zipfian_rows(int64_t range_max, KernelContext& c) {
  const int64_t rows = c.out(0).shape[0], classes = c.out(0).shape[1], places = ZipfianRows::places_for(classes);
  int64_t* tables = static_cast<int64_t*>(c.run.workspace(sizeof(int64_t) * size_t(rows * places + 1)));
  return {c.random,
          range_max,
          classes,
          ::log(double(range_max) + 1),
          places,
          tables,
          c.out(0).as<int64_t>(),
          c.out(1).as<int64_t>()};
}

}  // namespace kaon::ops
