#include "kaon/gluon/util/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/gluon/internal/write_by_one_rank.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/host_read.h"
#include "kaon/ops/random_state.h"

namespace kaon::gluon {
namespace {

// What names begin with.
constexpr std::string_view of_net = "net:", of_trainer = "trainer:", of_program = "program:";
constexpr const char* random_name = "random";
constexpr const char* checksums_name = "checksums";  // the last: of each array before it

void add(NamedArrays& all, std::string_view kind, const NamedArrays& some) {
  for (const auto& [name, array] : some) all.emplace_back(std::string(kind) + name, array);
}

NamedArrays named(const NamedArrays& all, std::string_view kind) {
  NamedArrays some;
  for (const auto& [name, array] : all) {
    if (name.starts_with(kind)) some.emplace_back(name.substr(kind.size()), array);
  }
  return some;
}

// Each parameter of the trainer must be one of the net's, or its value an array of the program's by its name: else
// training would go on without it.
void check_trainer(const detail::NamedParameters& parameters, const Trainer& trainer, const NamedArrays& more,
                   const char* caller) {
  for (const Parameter& p : trainer.parameters()) {
    if (std::ranges::any_of(parameters, [&](const auto& own) { return own.second == p; })) continue;
    if (std::ranges::find(more, p.name(), &NamedArrays::value_type::first) != more.end()) continue;
    throw ValueError(
        fmt::format("[{}] the trainer changes {}, which is no parameter of the net: give the net that the trainer "
                    "trains, or an array of this name beside it",
                    caller, p.name()));
  }
}

uint32_t add_to(uint32_t crc, const void* data, size_t bytes) {
  const auto* p = static_cast<const Bytef*>(data);
  for (; bytes > 0;) {
    const size_t piece = std::min(bytes, size_t(1) << 30);
    crc = uint32_t(crc32(crc, p, uInt(piece)));
    p += piece;
    bytes -= piece;
  }
  return crc;
}

// The CRC-32 of an array's name, dtype, dimensions and elements. Blocks.
int64_t checksum(const std::string& name, const NDArray& given) {
  const NDArray array = ops::on_host(given, std::source_location::current());
  uint32_t crc = add_to(0, name.data(), name.size());
  const auto dtype = int64_t(array.dtype());
  crc = add_to(crc, &dtype, sizeof dtype);
  for (const int64_t d : array.shape()) crc = add_to(crc, &d, sizeof d);
  const auto read = [&](const ops::ArrayNode& node) {
    if (node.bytes()) crc = add_to(crc, node.data(), node.bytes());
  };
  ops::read_in_turn(array, read, {"save_checkpoint"});
  return crc;
}

// Of each rank, {seed, offset}.
NDArray random_states(const Trainer& trainer) {
  const ops::RandomKey random = random::get_state();
  const std::vector<int64_t> state{std::bit_cast<int64_t>(random.seed), std::bit_cast<int64_t>(random.offset)};
  const NDArray own = nd.array(state, {2}, {.dtype = DType::int64, .device = cpu()});
  return trainer.over_ranks() ? trainer.over_ranks()->ranks().all_gather(own) : own;
}

NamedArrays collect(const Block& net, const Trainer& trainer, const NamedArrays& more) {
  const detail::NamedParameters parameters = detail::structural_parameters(net);
  detail::check_unique(parameters, "save_checkpoint");
  check_trainer(parameters, trainer, more, "save_checkpoint");
  NamedArrays all;
  for (const auto& [name, p] : parameters) all.emplace_back(std::string(of_net) + name, p.reduced());
  add(all, of_trainer, trainer.states());
  for (size_t i = 0; i < more.size(); ++i) {
    if (std::any_of(more.begin(), more.begin() + ptrdiff_t(i), [&](const auto& m) { return m.first == more[i].first; }))
      throw ValueError(fmt::format("[save_checkpoint] two arrays are named '{}'", more[i].first));
  }
  add(all, of_program, more);
  all.emplace_back(random_name, random_states(trainer));
  return all;
}

void write(const std::filesystem::path& file, NamedArrays all) {
  std::vector<int64_t> sums;
  for (const auto& [name, array] : all) sums.push_back(array.defined() ? checksum(name, array) : 0);
  all.emplace_back(checksums_name, nd.array(sums, {int64_t(sums.size())}, {.dtype = DType::int64, .device = cpu()}));
  nd_file::save(file, all);
}

// Takes the checksums out of what a file holds. Blocks.
void verify(const std::filesystem::path& file, NamedArrays& all) {
  if (all.empty() || all.back().first != checksums_name) return;
  const NDArray given = all.back().second;
  all.pop_back();
  const bool fits = given.defined() && given.dtype() == DType::int64 && given.shape() == Shape(int64_t(all.size()));
  if (!fits) throw IoError(fmt::format("{}: expected a checksum of each of {} arrays", file.string(), all.size()));
  const std::vector<int64_t> sums = given.asvector<int64_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [name, array] = all[i];
    const int64_t found = array.defined() ? checksum(name, array) : 0;
    if (found == sums[i]) continue;
    throw IoError(fmt::format("{}: '{}' differs from its checksum: expected CRC-32 {:#010x}, found {:#010x}",
                              file.string(), name, sums[i], found));
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const Block& net, const Trainer& trainer,
                     const NamedArrays& more) {
  NamedArrays all = collect(net, trainer, more);
  detail::write_by_one_rank(trainer.over_ranks().get(), [&] { write(file, std::move(all)); });
}

struct CheckpointSave::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr failure;
  std::vector<std::pair<std::coroutine_handle<>, Executor*>> waiting;

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  void end(std::exception_ptr with) {
    std::vector<std::pair<std::coroutine_handle<>, Executor*>> resumed;
    {
      std::lock_guard lock(mutex);
      failure = std::move(with);
      done = true;
      resumed.swap(waiting);
    }
    changed.notify_all();
    for (const auto& [caller, executor] : resumed) engine::post_surely(*executor, caller);
  }
};

namespace {

// The checkpoint of each file that was begun last: the next one waits for it.
template <class State>
std::shared_ptr<State> exchange_last(const std::filesystem::path& file, const std::shared_ptr<State>& next) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<State>> last;
  std::error_code error;
  const std::string name = std::filesystem::weakly_canonical(file, error).string();
  std::lock_guard lock(mutex);
  std::erase_if(last, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<State>& entry = last[error ? file.string() : name];
  std::shared_ptr<State> before = entry.lock();
  entry = next;
  return before;
}

}  // namespace

bool CheckpointSave::is_done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

void CheckpointSave::wait() const {
  if (!state_) throw StateError("[CheckpointSave] this handle holds no checkpoint");
  state_->wait();
  if (state_->failure) std::rethrow_exception(state_->failure);
}

bool CheckpointSave::resume_later(std::coroutine_handle<> caller, Executor& executor) const {
  if (!state_) return false;
  std::lock_guard lock(state_->mutex);
  if (state_->done) return false;
  state_->waiting.emplace_back(caller, &executor);
  return true;
}

CheckpointSave save_checkpoint_async(const std::filesystem::path& file, const Block& net, const Trainer& trainer,
                                     const NamedArrays& more) {
  NamedArrays all = collect(net, trainer, more);
  if (trainer.over_ranks() && trainer.over_ranks()->ranks().rank() > 0) {
    auto done = std::make_shared<CheckpointSave::State>();
    done->done = true;
    return CheckpointSave(std::move(done));
  }
  {
    autograd::ModeScope mode(false, false);
    for (auto& [name, array] : all) {
      if (array.defined()) array = array.device() == cpu() ? array.copy() : array.as_in_context(cpu());
    }
  }
  auto state = std::make_shared<CheckpointSave::State>();
  const auto before = exchange_last(file, state);
  Engine::current().post_io([file, all = std::move(all), state, before]() mutable {
    std::exception_ptr failure;
    try {
      if (before) before->wait();  // posted earlier: it runs or has ended
      write(file, std::move(all));
    } catch (...) {
      failure = std::current_exception();
    }
    all.clear();
    state->end(failure);
  });
  return CheckpointSave(std::move(state));
}

NamedArrays load_checkpoint(const std::filesystem::path& file, Block& net, Trainer& trainer) {
  NamedArrays all = nd_file::load(file);
  verify(file, all);
  const auto random = std::ranges::find(all, random_name, &NamedArrays::value_type::first);
  const bool is_there = random != all.end() && random->second.dtype() == DType::int64;
  if (!is_there || random->second.ndim() != 1 || random->second.size() == 0 || random->second.size() % 2 != 0) {
    throw ValueError(fmt::format("[load_checkpoint] {} is no checkpoint: it has no '{}', int64 of shape (2,)",
                                 file.string(), random_name));
  }
  const detail::NamedParameters parameters = detail::structural_parameters(net);
  check_trainer(parameters, trainer, named(all, of_program), "load_checkpoint");
  const detail::ChosenValues values =
      detail::choose_values(parameters, named(all, of_net), file, "load_checkpoint", {});
  trainer.set_states(named(all, of_trainer), file.string());
  detail::set_values(values);
  const std::vector<int64_t> state = random->second.asvector<int64_t>();
  size_t mine = 0;
  if (const auto& ranks = trainer.over_ranks(); ranks && state.size() == 2 * size_t(ranks->ranks().size())) {
    mine = 2 * size_t(ranks->ranks().rank());
  }
  random::set_state({.seed = std::bit_cast<uint64_t>(state[mine]), .offset = std::bit_cast<uint64_t>(state[mine + 1])});
  return named(all, of_program);
}

}  // namespace kaon::gluon
