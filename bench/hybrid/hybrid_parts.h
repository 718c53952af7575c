// What the files of bench/hybrid share: how a net is timed, and the figures, each a function of the engine's threads.
#pragma once

#include <string>
#include <vector>

#include "kaon/bench/common.h"
#include "kaon/examples/networks.h"

namespace kaon::bench {

inline std::string on_threads(int threads) { return "_threads" + std::to_string(threads); }

inline constexpr double per_us = 1e6, per_ms = 1e3;

// Seconds of each of so many calls. The results are waited for at the end, or each before the next call.
enum class Wait { at_end, each };
template <class Net>
double seconds_per_call(const Net& net, const NDArray& x, int calls, Wait wait = Wait::at_end) {
  net(x);  // not measured: what ran before has filled the caches; bare.run() and the peers' programs do the same
  nd.waitall();
  return seconds([&] {
           for (int i = 0; i < calls; ++i) {
             const NDArray y = net(x);
             if (wait == Wait::each) y.wait_to_read();
           }
           nd.waitall();
         }) /
         calls;
}

// Seconds of each of so many runs of a loop that the compiler must not leave out.
template <class F>
double seconds_per_loop(int loops, const F& body) {
  body();  // not measured, as above
  return seconds([&] {
           for (int i = 0; i < loops; ++i) {
             body();
             asm volatile("" ::: "memory");
           }
         }) /
         loops;
}

template <class Net>
void hybridize(Net net) {
  net.hybridize({.static_alloc = true, .static_shape = true});
}

// The engine of the calling thread has so many threads.
void mlp(int threads);        // the seeds' MLP against one read of its weights and bare inner products
void pointwise(int threads);  // chains of 20 operations against a loop by hand and one read and write of memory
void lenet(int threads);      // the seeds' LeNet at batch 1 against its bare primitives
void training(int threads);   // LeNet and an MLP at batch 64 against their bare primitives
void resnet(int threads);     // ResNet-18 against its bare convolutions
void layouts(int threads);    // a net with the channels last against its twin with the channels second
void branches(int threads);   // a net of four branches, run side by side, against one after the other
void embedding(int threads);  // a step of a large table by a row_sparse gradient against a dense one
void loops(int threads);      // a recurrent net by foreach against its loop written out
void memory(int threads);     // bytes of five nets
void start(int threads);      // a process until its first result; runs bench_start, which lies beside this program

}  // namespace kaon::bench
