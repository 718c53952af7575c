// What can be asked of hybridize().
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"
#include "kaon/ops/shape.h"

namespace KAON_API kaon {

// What a call does whose inputs have shapes or dtypes that nothing is planned for yet.
//   retrace: it is planned as well.
//   error: it throws StateError, saying which argument changed. A plan for another mode (training, gradients wanted,
//     device) is made all the same.
//   bucket: the number of rows, which is the first dimension of the data, is rounded up to the next bucket; one plan
//     serves all calls of a bucket, with zeros for the rows that a call lacks, which costs one copy of the data and one
//     of the outputs. The first call proves that no row's result depends on another row, or throws ShapeError naming
//     the operator that mixes them, as it does for a trace that read a shape. Calls that train or are recorded are
//     planned for their very shapes: statistics of the batch and gradients of parameters would see the padding. Not
//     with `exact`: kernels may round otherwise for another number of rows.
enum class PlanPolicy : uint8_t { retrace, bucket, error };

struct HybridizeOptions {
  // Keep the arena between calls (Kaon always plans memory; without it arenas are given back). On a GPU, plans that
  // draw no random numbers are then launched as one CUDA graph, once the arrays of their calls come back to the same
  // addresses.
  bool static_alloc = false;
  bool static_shape = false;  // as MXNet's; requires static_alloc
  // Imperative kernels and layouts only: bit-equal to the imperative run, but for gradients of values that the body of
  // a loop shares with the rest (graph/control_flow.h). Else, on a GPU, chains of pointwise operators
  // become kernels of their own, where NVRTC is there to compile them. That takes a tenth of a second each, once: they
  // are kept in $KAON_CACHE_DIR, else in kaon below $XDG_CACHE_HOME, else in ~/.cache/kaon.
  bool exact = false;
  // Convolutions of 3 x 3 taps (32 and more channels in multiples of 16) and of 5 x 5 (16 and more), with step one, are
  // computed by Winograd's algorithm where it pays, gradients too: 1.2 to 2.8 times as fast. The error of a result is
  // at most 2^-18 max|x| sum|w|, over the images and its filter; of the images' gradient 2^-18 max|dy| sum|w|, over the
  // weights of its channel; of the weights' gradient 2^-18 max|x| sum|dy|, over the heads of its filter. ResNet-18's
  // predictions stay within 1e-5 of the largest one. Takes up to 4 times the memory of these weights; a NaN or infinity
  // reaches all results of its tile, up to 4 x 4. Not together with `exact` or `verify`.
  bool winograd = false;
  // Memory layouts and kernels of convolutions are chosen by timing all that there are on this machine, when a plan is
  // made; that takes some tenths of a second for each convolution of other sizes, once in a process. Otherwise by
  // rules, which were measured on machines with AVX-512. Results have the same bounds, but the last bits may differ
  // from process to process. Not together with `exact`. For the CPU only: a GPU's kernels are chosen as without.
  bool autotune = false;
  bool mirror = false;   // training computes cheap values twice instead of keeping them: less memory, same bits
  int max_plans = 8;     // least recently used goes
  bool branches = true;  // parts that do not depend on each other run on several threads; not with mirror
  PlanPolicy policy = PlanPolicy::retrace;
  Shape buckets{};                              // of rows, ascending, the last being the most; none: powers of two
  void (*on_miss)(std::string_view) = nullptr;  // gets one line for each plan that is made: why
  // The first so many calls of each plan, training steps too, with their backwards (unless those are recorded
  // themselves), are followed by the operators of the trace, called one by one on what their operation has read and the
  // random numbers that it has drawn. What both compute is compared: bit for bit under exact, else each operator within
  // the bounds of graph/plan/difference.h. The trace is compared with a new one, so that a C++ value which
  // hybrid_forward has captured and which has changed is found. What differs is a VerifyError that names the first
  // operator: thrown by the call for the trace, by a wait for the outputs for values; parameters stay as they were.
  // Such a call takes several times as long, keeps every value of the second run, and may wait for constants. For new
  // nets: verify the first call. KAON_VERIFY=n in the environment does so for every plan on the CPU whose options ask
  // for no verification and exclude none.
  int verify = 0;

  void check() const;  // throws ValueError saying which options exclude each other, or are out of range
};

// What {.verify} throws: a hybridized call differs from the imperative net. The plan is wrong (an error of Kaon), or
// the trace is out of date because hybrid_forward has changed.
class VerifyError : public Error {
 public:
  using Error::Error;
  std::exception_ptr with_context(const std::string& text) const override {
    return std::make_exception_ptr(VerifyError(what() + text));
  }
};

struct PlanStats {
  uint64_t hits = 0, misses = 0, evictions = 0;
};

}  // namespace kaon
