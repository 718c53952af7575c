// A rank that goes wrong: mpirun -n 3 comm_fault KIND. The others must get a CommError in time, which they print; the
// program then ends with 0 on them.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "incident.h"
#include "kaon/comm/communicator.h"
#include "kaon/engine/engine.h"
#include "kaon/gluon/util/checkpoint.h"
#include "kaon/kaon.h"

using namespace kaon;

int main(int, char** argv) {
  std::string_view kind = argv[1];
  if (kind == "gpu_order") {  // on one core a rank's threads interleave in more ways
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  const auto world = comm::mpi({.timeout = std::chrono::seconds(2)});
  const int rank = world.rank();
  Device device = cpu();
  if (kind.starts_with("gpu_")) {
    kind.remove_prefix(4);
    if (kind == "open_hang" && rank == 1) setenv("KAON_NCCL_EMULATOR_HANG", "0", 1);
    if (kind == "open_fail" && rank == 1) setenv("KAON_NCCL_EMULATOR_FAIL", "0", 1);
    // of NCCL's calls, from 1: the one after the five that go well
    if (kind == "hang" && rank == 1) setenv("KAON_NCCL_EMULATOR_HANG", "6", 1);
    if (kind == "fail" && rank == 1) setenv("KAON_NCCL_EMULATOR_FAIL", "6", 1);
    try {
      device = comm::nccl().device();
    } catch (const CommError& e) {  // of kind none: there is no NCCL
      fmt::print("{}\n", e.what());
      return kind == "none" ? 0 : 1;
    }
  }
  const auto ones = [device](int64_t n) { return nd.ones({n}, {.device = device}); };
  for (int i = 0; i < 5 && !kind.starts_with("open"); ++i) world.all_reduce(ones(100)).wait_to_read();
  if (rank == 1) usleep(100'000);  // till these have ended on the other ranks
  if (rank == 1) {
    if (kind == "kill") kill(getpid(), SIGKILL);
    if (kind == "stop") kill(getpid(), SIGSTOP);
    if (kind == "exit") return 0;
    if (kind == "end") kill(getpid(), SIGSTOP);
  }
  if (kind == "end") return 0;
  if (kind == "unsent") {  // nobody receives it
    if (rank == 0) world.send(ones(100'000), 1);
    return 0;
  }
  gluon::nn::Dense net(4, {.in_units = 3});
  net.initialize();
  std::optional<gluon::Trainer> trainer;
  const auto file = std::filesystem::temp_directory_path() / fmt::format("kaon_fault_{}.params", getpid());
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  NDArray other = ones(4);
  try {
    if (kind == "checkpoint") {
      trainer.emplace(net.collect_params(), optimizer::Adam(), gluon::TrainerOptions{.kvstore = "dist_sync"});
      autograd::record([&] { return net(nd.ones({2, 3})); }).backward();
      trainer->step(2);
      nd.waitall();
      if (rank == 1) kill(getpid(), SIGKILL);
    }
    if (kind == "overlap") {
      trainer.emplace(net.collect_params(), optimizer::Adam(),
                      gluon::TrainerOptions{.kvstore = "dist_sync", .overlap_update = true});
      for (int i = 0;; ++i, usleep(1000)) {
        if (rank == 1 && i == 3) kill(getpid(), SIGKILL);
        autograd::record([&] { return net(nd.ones({2, 3})); }).backward();
        trainer->step(6);
      }
    }
    if (kind == "several") {  // what one death fails is one failure, also of a sum of two of them
      if (rank == 1) kill(getpid(), SIGKILL);
      const NDArray a = world.all_reduce(ones(100)), b = world.all_reduce(ones(100));
      (a + b).wait_to_read();
    }
    // Calls that differ in what is computed alone: no rank may get a result.
    const DType dtype = rank == 1 ? DType::int32 : DType::float32;
    const auto expect_none = [&text](const NDArray& result) {
      text = fmt::format(" (a wrong result was given: {})", result.asvector<double>()[0]);
    };
    if (kind == "dtype") expect_none(world.all_reduce(nd.ones({100}, {.dtype = dtype})));
    // of so many ranks a sum of MPI's own
    if (kind == "middle_dtype") expect_none(world.all_reduce(nd.ones({10'000}, {.dtype = dtype})));
    if (kind == "long_dtype") expect_none(world.all_reduce(nd.ones({1'000'000}, {.dtype = dtype})));
    if (kind == "gather_dtype") expect_none(world.all_gather(nd.ones({100}, {.dtype = dtype})));
    if (kind == "reduction") {
      expect_none(world.all_reduce(ones(100), rank == 1 ? comm::Reduce::max : comm::Reduce::sum));
    }
    if (kind == "root") {
      const NDArray x = ones(100);
      world.broadcast(x, rank == 1 ? 1 : 0);
      expect_none(x);
    }
    if (kind == "priority") {  // the same sums in another order
      const NDArray a = ones(100), b = a * 2;
      world.all_reduce_by_priority(rank == 1 ? b : a, rank == 1 ? 2 : 1);
      world.all_reduce_by_priority(rank == 1 ? a : b, rank == 1 ? 1 : 2);
      expect_none(a);
    }
    if (kind == "peer_dtype") {
      if (rank == 0) world.send(ones(100), 1);
      if (rank == 1) expect_none(world.recv({100}, DType::int32, 0));
    }
    if (kind == "peer_size" && rank < 2) expect_none(world.exchange(ones(rank == 1 ? 100 : 90), 1 - rank));
    if (kind == "recv") {  // the others wait for this rank, and it for one of them
      if (rank == 1) world.recv({100}, DType::float32, 0).wait_to_read();
      world.barrier().wait_to_read();
    }
    if (kind == "input" && rank == 1) {
      NDArray bad = ones(100);
      Engine::current().push({update(bad.var())}, [](RunContext&) { throw std::runtime_error("no data"); });
      NDArray sum = world.all_reduce(bad);
      sum.wait_to_read();
    } else if (kind == "reset" && rank == 1) {  // right before a call, on the thread that would begin it
      NDArray x = ones(100);
      Engine::current().push({update(x.var())}, [](RunContext&) { ranks_test::Incident::break_connections(false); });
      world.all_reduce(x).wait_to_read();
    } else if (kind == "shape" && rank == 1) {
      world.all_reduce(ones(101)).wait_to_read();
    } else if (kind == "long_shape") {
      world.all_reduce(ones(rank == 1 ? 1'000'000 : 1'100'000)).wait_to_read();
    } else if (kind == "order" && rank == 1) {
      world.broadcast(ones(100), 0);
      world.barrier().wait_to_read();
    } else if (kind == "device" && rank == 1) {  // the same call, on the host
      world.all_reduce(nd.ones({100})).wait_to_read();
    }
    if (trainer) gluon::save_checkpoint(file, net, *trainer);
    for (int i = 0; i < 50; ++i) world.all_reduce(ones(100)).wait_to_read();
    for (int i = 0; i < 30; ++i) {
      usleep(100000);
      world.all_reduce(ones(100)).wait_to_read();
    }
  } catch (const CommError& e) {
    text = e.what() + text;
  } catch (const std::exception& e) {
    text = std::string("no CommError: ") + e.what();
  }
  std::replace(text.begin(), text.end(), '\n', ' ');  // run_fault reads lines
  if (kind == "overlap") {  // the trainer remembers that some parameters may be those of a failed step
    std::string later;
    for (int i = 0; i < 200 && later.find("overlap_update some parameters may be") == std::string::npos; ++i) {
      try {
        trainer->step(6);
      } catch (const std::exception& e) {
        later = e.what();
      }
      usleep(10'000);
    }
    if (later.find("load the last checkpoint. What failed: ") == std::string::npos)
      text += " (a later call did not fail)";
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  try {
    if (std::filesystem::exists(file)) gluon::load_checkpoint(file, net, *trainer);  // whole, or not there
    std::filesystem::remove(file);
  } catch (const std::exception& e) {
    text += fmt::format(" (the checkpoint is not usable: {})", e.what());
  }
  try {
    world.all_reduce(ones(100)).wait_to_read();
    text += " (a later call did not fail)";
  } catch (const CommError&) {
  }
  const bool other_is_usable = (other * 2).asvector<float>() == std::vector<float>(4, 2);
  fmt::print("rank {} after {:.1f} s: {}{}\n", rank, seconds, text.empty() ? "nothing failed" : text,
             other_is_usable ? "" : " (another array is not usable)");
  std::fflush(stdout);
  usleep(300'000);  // mpirun ends the other ranks when one has ended without a word to MPI
  _exit(text.empty() || !other_is_usable || seconds > 8 ? 1 : 0);
}
