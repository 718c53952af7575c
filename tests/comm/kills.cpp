// A training over ranks with checkpoints, of which one rank goes wrong at a moment of chance; run_kills starts it:
//     kills FOLDER MODE OWNERS OPTIMIZER SAVES KIND VICTIM STEP MICROSECONDS
// It goes on from the checkpoint in the folder, where there is one. Each rank writes to FOLDER/rank.<r> how its
// training has ended: done with a checksum of the weights, CommError, or otherwise.
#include <cstring>
#include <optional>

#include "incident.h"
#include "kaon/gluon/util/checkpoint.h"
#include "support.h"

using namespace kaon;
using namespace kaon::ranks_test;
namespace nn = gluon::nn;
namespace fs = std::filesystem;

namespace {

constexpr int all_steps = 40, steps_between_saves = 4;

struct Settings {
  fs::path folder;
  std::string mode, optimizer, saves;
  bool owners = false, overlaps = false;
};

// Random numbers too are gone on with.
nn::HybridSequential make_net(int hidden) {
  return nn::HybridSequential(nn::Dense(hidden, {.activation = "relu", .in_units = 10}), nn::Dropout(0.2),
                              nn::Dense(hidden, {.activation = "tanh", .in_units = hidden}),
                              nn::Dense(4, {.in_units = hidden}));
}

optimizer::Optimizer make_optimizer(const std::string& name) {
  if (name == "SGD") return optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9});
  return optimizer::Adam({.learning_rate = 0.01});
}

// FNV-1a of the weights' bits.
uint64_t checksum(const gluon::ParameterDict& parameters) {
  uint64_t h = 0xcbf29ce484222325;
  for (const gluon::Parameter& p : parameters) {
    for (const float v : p.data().asvector<float>()) {
      uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      h = (h ^ bits) * 0x100000001b3;
    }
  }
  return h;
}

uint64_t train(const Settings& s, Incident& incident) {
  random::seed(uint64_t(7 + rank()));
  nn::HybridSequential net = make_net(s.overlaps ? 600 : 64);  // of two buckets, or of one
  net.initialize(init::Xavier());
  if (s.mode == "hybridized") net.hybridize({.exact = true});
  gluon::Trainer trainer(net.collect_params(), make_optimizer(s.optimizer),
                         {.kvstore = "dist_sync", .shard_states = s.owners, .overlap_update = s.overlaps});
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::TrainingStep training_step(net, loss, trainer, {.exact = true});
  const fs::path file = s.folder / "checkpoint.params";
  int begin = 0;
  if (fs::exists(file)) begin = int(gluon::load_checkpoint(file, net, trainer)[0].second.asscalar<float>());
  write_line(s.folder / fmt::format("begin.{}", rank()), fmt::format("{}", begin));
  std::optional<gluon::CheckpointSave> save;
  for (int i = begin; i < all_steps; ++i) {
    incident.note_step(i);
    const int64_t all = 8 * ranks();
    const NDArray x = part(numbers({all, 10}, i + 1)).copy(), y = part(labels(all, i));
    incident.come_by();
    if (incident.is_operation_to_fail()) {
      Engine::current().push({update(x.var())}, [](RunContext&) { throw std::runtime_error("an operation fails"); });
    }
    if (s.mode == "step") {
      training_step(x, y);
    } else {
      const NDArray l = autograd::record([&] { return loss(net(x), y); });
      incident.come_by();
      l.backward();
      trainer.step(all);
    }
    incident.come_by();
    if ((i + 1) % steps_between_saves != 0) continue;
    const NamedArrays more{{"step", nd.full({1}, i + 1)}};
    if (s.saves == "later") {
      save = gluon::save_checkpoint_async(file, net, trainer, more);
    } else {
      gluon::save_checkpoint(file, net, trainer, more);
    }
  }
  if (save) save->wait();
  nd.waitall();  // an update that fails leaves the weights as they were: here the last one tells
  const uint64_t sum = checksum(net.collect_params());
  incident.note_step(all_steps);
  return sum;
}

// What has to stay usable after a failure.
std::string what_is_unusable(const comm::Communicator& world, const NDArray& other) {
  std::string text;
  try {
    world.all_reduce(nd.ones({100})).wait_to_read();
    text += " (a later call did not fail)";
  } catch (const CommError&) {
  }
  if ((other * 2).asvector<float>() != std::vector<float>(100, 2)) text += " (another array is not usable)";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) return 2;
  const std::string kind = argv[6];
  const Settings settings{.folder = argv[1],
                          .mode = argv[2],
                          .optimizer = argv[4],
                          .saves = argv[5],
                          .owners = std::string_view(argv[3]) == "owners",
                          .overlaps = std::string_view(argv[3]) == "overlap"};
  const auto world = comm::mpi({.timeout = std::chrono::seconds(3)});
  const NDArray other = nd.ones({100});
  // Its thread outlives main(), and whatever is destroyed after that.
  Incident& incident = *new Incident(kind, settings.folder / "incident");
  if (world.rank() == std::atoi(argv[7]))
    incident.begin_after(std::atoi(argv[8]), std::chrono::microseconds(std::atol(argv[9])));
  std::string outcome;
  bool is_done = false;
  try {
    outcome = fmt::format("done {:016x}", train(settings, incident));
    is_done = true;
  } catch (const CommError& e) {
    outcome = std::string("CommError ") + e.what();
  } catch (const std::exception& e) {
    outcome = std::string("exception ") + e.what();
  }
  const int64_t end = now_ns();
  try {
    if (outcome.starts_with("CommError")) outcome += what_is_unusable(world, other);
  } catch (const std::exception& e) {
    outcome += std::string(" (afterwards: ") + e.what() + ")";
  }
  for (char& c : outcome) c = c == '\n' ? ' ' : c;
  write_line(settings.folder / fmt::format("rank.{}", world.rank()), fmt::format("{} {}", end, outcome));
  return is_done ? 0 : 1;
}
