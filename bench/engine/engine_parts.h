// What the files of bench/engine share: task graphs, what is measured beside the engine, how a comparison is printed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation/var.h"

namespace kaon::bench {

using namespace engine;

inline constexpr int ops = 200000;  // per timed run

inline double ns_per_op(double seconds, int n = ops) { return seconds * 1e9 / n; }
inline double mops(double seconds) { return ops / seconds / 1e6; }

// What the empty operations write, a cache line each.
struct alignas(64) Cell {
  long value = 0;
};
inline constexpr int graph_size = 1000;
inline Cell cells[graph_size];

// Tasks that do next to nothing and their order: every task comes after its predecessors, which have lower numbers.
struct TaskGraph {
  std::vector<std::vector<int>> predecessors = std::vector<std::vector<int>>(graph_size);
  std::vector<std::vector<int>> successors() const;
};
struct Accesses {
  int reads[2];
  int write;
};
inline constexpr int access_vars = 256;

TaskGraph independent_graph();
TaskGraph chain_graph();
TaskGraph random_graph();                 // each after 1 to 3 among the 50 before it, no two after the same ones
std::vector<Accesses> random_accesses();  // `ops` of them
TaskGraph graph_of(const std::vector<Accesses>& accesses);  // the order that the first graph_size of them demand

struct Candidate {
  std::string name;
  std::function<double()> measure;
  bool is_ours = false;
  std::optional<double> goal = {};
};

struct Settings {
  int rounds = 7;
  int threads = 1;  // of the engine and of its baselines
};

// Measures all in turn and prints them: ours as <name>_threads<n>, with goals and the ratios to all others, these as
// <name>_<what>_threads<n>. A goal in Mops/s is the least it should reach, in other units the most it should take.
std::vector<Result> compare(const std::string& what, const Settings& settings, const std::vector<Candidate>& candidates,
                            const std::string& unit = "ns/op");

// --- engine_baselines.cpp: the serial loop and Asio's thread pool. What gives a number gives ns per op.
double serial_loop();                                                      // the bodies, inlined
double serial_calls();                                                     // indirect calls in the order of a graph
Candidate asio_post(const Settings& settings);                             // one post per op, in no order
Candidate asio_strand(const Settings& settings);                           // one post per op to one strand
Candidate asio_counted(const TaskGraph& graph, const Settings& settings);  // tasks count down and post their successors
double asio_one_and_wait(const Settings& settings);
double asio_pushers(const Settings& settings, int pushers);  // seconds

// --- engine_tbb.cpp: oneTBB with so many threads, the calling one included; nothing in a build without it. The graphs
// are built once and run again and again.
bool has_tbb();
std::vector<Candidate> tbb_candidates(const TaskGraph& graph, const Settings& settings);
std::vector<Candidate> tbb_one_and_wait(const Settings& settings);
std::vector<Candidate> tbb_pushers(const Settings& settings, int pushers);

// --- engine.cpp
// Runs `push(pusher)` on so many threads at once; seconds from the start of all to the end of all and of `finish`.
double seconds_of_threads(int pushers, const std::function<void(int)>& push, const std::function<void()>& finish);

// --- engine_operators.cpp: arrays of one element, recorded or not, and plans
void measure_operators(Engine& engine, const Settings& settings);

// --- engine_allocations.cpp
// Prints how often operator new is called per op while `work` runs, which has run before and makes `n` ops.
void print_allocations(const std::string& name, int n, const std::function<void()>& work);

}  // namespace kaon::bench
