// Ranks: mpirun -n 2 bench_comm. all_reduce of 1 KB to 100 MB beside bare MPI in turns, and the training of a LeNet, an
// MLP and a ResNet-18 beside the same without communication: samples a second of all ranks, and the share of a step's
// time that communication takes; from the trace of further steps, for how long collectives were in flight, and in which
// part of that time the rank computed. Rank 0 prints. KAON_BENCH_TRACE: a folder that gets these traces, of each rank.
// An argument runs one part: sizes, training (of the two small nets, also with compression, shards and the same bits),
// resnet, link (a net whose sums take longer than its backward; bench/comm/link runs it over a slow link). One engine
// thread a rank, since the cores are the ranks'; KAON_BENCH_THREADS gives another number.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kaon/bench/common.h"
#include "kaon/comm/communicator.h"
#include "kaon/examples/networks.h"

using namespace examples;

namespace {

const comm::Communicator& world() {
  static const comm::Communicator all = comm::mpi();
  return all;
}

int rounds() {
  const char* given = std::getenv("KAON_BENCH_ROUNDS");
  return given ? std::atoi(given) : 5;
}

// Of all ranks, that of the slowest.
double slowest(double seconds) {
  const NDArray all = nd.full({1}, seconds, {.dtype = DType::float64});
  return world().all_reduce(all, comm::Reduce::max).asscalar<double>();
}

void print_ratio(const std::string& name, const bench::Result& r, const std::string& unit, const std::string& baseline,
                 const bench::Result& other) {
  if (world().rank() == 0) bench::print(name, r, unit, baseline, other);
}

void measure_sizes() {
  MPI_Comm bare;
  MPI_Comm_dup(MPI_COMM_WORLD, &bare);
  for (const int64_t bytes : {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20, 100 << 20}) {
    const int64_t n = bytes / 4;
    const int calls = int(std::clamp<int64_t>((64 << 20) / bytes, 2, 5000));
    std::vector<float> own(static_cast<size_t>(n), 0);  // so that sums stay zero
    const NDArray x = nd.zeros({n});
    x.wait_to_read();
    const auto each = [&](auto&& call) {
      world().barrier().wait_to_read();
      return slowest(bench::seconds([&] {
               for (int i = 0; i < calls; ++i) call();
             })) /
             calls * 1e6;
    };
    const auto results = bench::interleave(
        7, {[&] { return each([&] { MPI_Allreduce(MPI_IN_PLACE, own.data(), int(n), MPI_FLOAT, MPI_SUM, bare); }); },
            [&] {
              return each([&] {
                world().all_reduce_in_place(x);
                x.wait_to_read();
              });
            }});
    print_ratio(fmt::format("all_reduce_{}KB_waited_for", bytes >> 10), results[1], "us", "bare MPI", results[0]);
  }
  MPI_Comm_free(&bare);
}

// Milliseconds in which collectives were in flight, and those of them in which an operator ran.
struct InFlight {
  double all = 0, hidden = 0;
};
InFlight in_flight(const std::vector<Profiler::Event>& events) {
  struct Change {
    uint64_t at;
    int collectives, operators;
  };
  std::vector<Change> changes;
  for (const auto& e : events) {
    const std::string_view category = e.category;
    const bool is_collective = category == "collective";
    if (!is_collective && category != "operator" && category != "piece") continue;
    changes.push_back({e.begin, is_collective, !is_collective});
    changes.push_back({e.end, -is_collective, -!is_collective});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  InFlight sum;
  int collectives = 0, operators = 0;
  uint64_t before = 0;
  for (const Change& c : changes) {
    const double ms = double(c.at - std::exchange(before, c.at)) / 1e6;
    if (collectives > 0) sum.all += ms;
    if (collectives > 0 && operators > 0) sum.hidden += ms;
    collectives += c.collectives;
    operators += c.operators;
  }
  return sum;
}

// Of one step, means over the ranks.
void measure_overlap(const std::string& name, int steps, const std::function<void()>& step) {
  Profiler& profiler = Engine::current().profiler();
  std::vector<double> times, parts;
  for (int round = 0; round < rounds(); ++round) {
    world().barrier().wait_to_read();
    profiler.start();
    for (int i = 0; i < steps; ++i) step();
    nd.waitall();
    profiler.stop();
    const InFlight mine = in_flight(profiler.events());
    const double values[] = {mine.all / steps, mine.hidden / steps};
    const auto mean =
        world().all_reduce(NDArray::from(values, 2, {2}, DType::float64), comm::Reduce::mean).asvector<double>();
    times.push_back(mean[0]);
    parts.push_back(mean[1] / mean[0]);
  }
  if (const char* folder = std::getenv("KAON_BENCH_TRACE")) {
    profiler.write(std::filesystem::path(folder) / fmt::format("{}.{}.json", name, world().rank()));
  }
  if (world().rank() != 0) return;
  bench::print(name + "_in_flight", bench::summarize(times), "ms a step");
  bench::print(name + "_hidden", bench::summarize(parts), "of the time in flight");
}

struct Way {
  gluon::TrainerOptions options;
  const char* name;
};
// In turns; first without communication.
template <class F>
std::vector<bench::Result> measure_training(const char* name, F&& make_net, const Shape& data, int steps,
                                            std::span<const Way> ways) {
  const auto make = [&] {
    auto net = make_net();
    net->initialize(init::Xavier());
    (*net)(nd.zeros(data));
    return net;
  };
  const optimizer::SGD rule({.learning_rate = 0.01, .momentum = 0.9});
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  std::deque<gluon::Trainer> trainers;
  std::deque<gluon::TrainingStep> all;
  for (size_t k = 0; k <= ways.size(); ++k) {
    const auto net = make();
    trainers.emplace_back(net->collect_params(), rule, k == 0 ? gluon::TrainerOptions() : ways[k - 1].options);
    all.emplace_back(*net, loss, trainers.back());
  }
  const NDArray x = nd.random_uniform(data), y = nd.zeros({data[0]});
  const auto rate = [&](gluon::TrainingStep& step) {
    world().barrier().wait_to_read();
    const double s = slowest(time_all([&] {
      for (int i = 0; i < steps; ++i) step(x, y);
    }));
    return double(steps * data[0] * world().size()) / s;
  };
  std::vector<std::function<double()>> rates;
  for (gluon::TrainingStep& step : all) rates.push_back([&] { return rate(step); });
  const auto results = bench::interleave(rounds(), rates);
  for (size_t k = 0; k < ways.size(); ++k) {
    const std::string what = fmt::format("{}_{}", name, ways[k].name);
    print_ratio(what, results[k + 1], "samples/s", "no communication", results[0]);
    if (world().rank() == 0) {
      fmt::print("# {} {}: communication takes {:.0f} % of a step\n", name, ways[k].name,
                 100 * (1 - results[k + 1].median / results[0].median));
    }
    measure_overlap(what, steps, [&] { all[k + 1](x, y); });
  }
  return results;
}

struct Mlp : gluon::HybridBlock<Mlp> {
  nn::Dense hidden = child("hidden", nn::Dense(128, {.activation = "relu"}));
  nn::Dense out = child("out", nn::Dense(10));
  auto hybrid_forward(auto, auto x) { return out(hidden(x)); }
};

void measure_trainings() {
  const auto all = [](const gluon::TrainerOptions& options, const char* how) {
    const Way ways[] = {{options, how}};
    measure_training(
        "lenet_b64", [] { return std::make_shared<LeNet>(); }, Shape{64, 1, 28, 28}, 60, ways);
    measure_training(
        "mlp784_b64", [] { return std::make_shared<Mlp>(); }, Shape{64, 784}, 60, ways);
  };
  all({.kvstore = "dist_sync"}, "all_reduce");
  all({.kvstore = "dist_sync", .compression_params = {.type = "bfloat16"}}, "bfloat16");
  all({.kvstore = "dist_sync", .compression_params = {.type = "2bit"}}, "2bit");
  all({.kvstore = "dist_sync", .shard_states = true}, "shard_states");
  all({.kvstore = "dist_sync", .deterministic = true, .shards = world().size()}, "deterministic");
}

// A net of 10 million parameters, whose sums take longer than its backward where the link is slow. KAON_BENCH_LINK: the
// link's bytes a second in each direction; then also the share of what the slower of the two, computing and sending,
// allows. An all-reduce of n bytes sends 2 n (ranks - 1) / ranks from each rank.
void measure_link() {
  const Shape data{128, 784};
  const auto make = [] {
    auto net = std::make_shared<nn::HybridSequential>();
    for (int i = 0; i < 3; ++i) net->add(nn::Dense(2048, {.activation = "relu"}));
    net->add(nn::Dense(10));
    return net;
  };
  const Way ways[] = {{{.kvstore = "dist_sync"}, "all_reduce"},
                      {{.kvstore = "dist_sync", .overlap_update = true}, "overlap_update"}};
  const auto rates = measure_training("mlp10m_b128", make, data, 10, ways);
  const char* link = std::getenv("KAON_BENCH_LINK");
  if (!link || world().rank() != 0) return;
  const double ranks = world().size(), samples = double(data[0]) * ranks;
  const double parameters = 785 * 2048 + 2 * 2049 * 2048 + 2049 * 10;
  const double sends = 4 * parameters * 2 * (ranks - 1) / ranks / std::atof(link), computes = samples / rates[0].median;
  for (size_t k = 0; k < std::size(ways); ++k) {
    fmt::print(
        "# mlp10m_b128 {}: a step takes {:.0f} ms, computes {:.0f} ms, sends {:.0f} ms at least: {:.2f} of what the "
        "slower allows\n",
        ways[k].name, 1e3 * samples / rates[k + 1].median, 1e3 * computes, 1e3 * sends,
        std::max(sends, computes) * rates[k + 1].median / samples);
  }
}

void measure_resnet() {
  namespace zoo = gluon::model_zoo::vision;
  const auto make = [] { return std::make_shared<zoo::ResNetV1>(zoo::resnet18_v1()); };
  const Way ways[] = {{{.kvstore = "dist_sync"}, "all_reduce"}};
  measure_training("resnet18_b8", make, {8, 3, 224, 224}, 4, ways);
}

}  // namespace

int main(int argc, char** argv) {
  const char* threads = std::getenv("KAON_BENCH_THREADS");
  Engine engine({.threads = threads ? std::atoi(threads) : 1});
  EngineScope scope(engine);
  const std::string_view part = argc > 1 ? argv[1] : "";
  if (world().rank() == 0) {
    bench::print_machine();
    fmt::print("# {} ranks\n", world().size());
  }
  if (part.empty() || part == "sizes") measure_sizes();
  if (part.empty() || part == "training") measure_trainings();
  if (part.empty() || part == "resnet") measure_resnet();
  if (part == "link") measure_link();
}
