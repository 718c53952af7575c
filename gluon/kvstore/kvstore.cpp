#include "kaon/gluon/kvstore/kvstore.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "kaon/gluon/internal/gradient_wire.h"
#include "kaon/gluon/parameter.h"
#include "kaon/gluon/trainer.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon {
namespace {

struct Value {
  NDArray array;
  ParameterDict parameter{};         // of this array alone, where there is an optimizer
  std::optional<Trainer> trainer{};  // of that
};

// Whether an array can take another's place.
void check_like(const KVKey& key, const NDArray& value, const NDArray& other, const char* what) {
  if (other.shape() != value.shape()) {
    throw ShapeError(fmt::format("[KVStore] '{}' has shape {}, {} has {}", key.str(), value.shape().str(), what,
                                 other.shape().str()));
  }
  if (other.dtype() != value.dtype()) {
    throw TypeError(fmt::format("[KVStore] '{}' has dtype {}, {} has {}", key.str(), name_of(value.dtype()), what,
                                name_of(other.dtype())));
  }
}

// On the device of the first, in the order of the list.
NDArray sum_of(const KVKey& key, std::span<const NDArray> values) {
  if (values.empty()) throw ValueError(fmt::format("[KVStore] no values are pushed to '{}'", key.str()));
  const Device device = values[0].device();
  NDArray sum = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    check_like(key, values[0], values[i], "a further value");
    sum = sum + values[i].as_in_context(device);
  }
  return sum;
}

}  // namespace

struct KVStore::State {
  std::string type;
  std::map<std::string, Value> values;
  std::optional<optimizer::Optimizer> optimizer;
  Updater updater;
  comm::Communicator ranks;  // undefined: one process
  std::optional<detail::GradientWire> wire;
  std::map<std::string, NDArray> residuals;  // of a compression, by key

  // As sum_of, over the ranks too; never one of the values itself then.
  NDArray total_of(const KVKey& key, std::span<const NDArray> values) {
    const NDArray sum = sum_of(key, values);
    if (!ranks.defined()) return sum;
    if (!wire || !wire->compresses()) return ranks.all_reduce(sum);
    const NDArray total = sum.copy();
    NDArray& residual = residuals[key.str()];
    if (residual.defined() && residual.shape() != sum.shape()) residual = NDArray();
    wire->add_up(total, residual);
    return total;
  }

  Value& at(const KVKey& key) {
    const auto found = values.find(key.str());
    if (found == values.end()) {
      throw ValueError(fmt::format("[KVStore] '{}' has no value: call init() first", key.str()));
    }
    return found->second;
  }
  void give_trainer(const std::string& key, Value& value) const {
    if (!optimizer) return;
    if (!is_floating(value.array.dtype())) {
      throw TypeError(fmt::format("[KVStore] an optimizer updates floating values, '{}' has dtype {}", key,
                                  name_of(value.array.dtype())));
    }
    if (value.parameter.size() == 0) {
      const Parameter p(key, value.array.shape(), {.dtype = value.array.dtype()});
      p.set_data(value.array);
      value.array = p.list_data()[0];
      value.parameter.add(p);
    }
    value.trainer.emplace(value.parameter, *optimizer);
  }
};

KVStore KVStore::create(std::string_view type) {
  const bool is_dist = type == "dist_sync" || type == "dist_device_sync" || type == "dist_sync_device";
  if (type != "local" && type != "device" && !is_dist) {
    throw ValueError(fmt::format(
        "[KVStore] there is no type '{}'; there are: local, device, dist_sync, dist_device_sync, dist_sync_device",
        type));
  }
  auto state = std::make_shared<State>();
  state->type = type;
  if (is_dist) state->ranks = comm::mpi();
  return KVStore(state);
}

const std::string& KVStore::type() const { return state_->type; }
int KVStore::rank() const { return state_->ranks.defined() ? state_->ranks.rank() : 0; }
int KVStore::num_workers() const { return state_->ranks.defined() ? state_->ranks.size() : 1; }
comm::Communicator KVStore::ranks() const { return state_->ranks; }
void KVStore::barrier() const {
  if (state_->ranks.defined()) state_->ranks.barrier().wait_to_read();
}

void KVStore::init(const KVKey& key, const NDArray& value) const {
  if (state_->values.contains(key.str())) throw ValueError(fmt::format("[KVStore] '{}' has a value", key.str()));
  autograd::ModeScope mode(false, false);
  Value own{.array = value.copy()};
  if (state_->ranks.defined()) state_->ranks.broadcast(own.array);
  state_->give_trainer(key.str(), own);
  state_->values.emplace(key.str(), std::move(own));
}

void KVStore::push(const KVKey& key, std::span<const NDArray> values) const {
  Value& value = state_->at(key);
  autograd::ModeScope mode(false, false);
  const NDArray sum = state_->total_of(key, values).as_in_context(value.array.device());
  check_like(key, value.array, sum, "what is pushed");
  if (value.trainer) {
    value.parameter[0].list_grad()[0].assign(sum);
    value.trainer->update_slots(value.trainer->all_slots(), 1, std::source_location::current());
  } else if (state_->updater) {
    state_->updater(key, sum, value.array);
  } else {
    value.array.assign(sum);
  }
}

void KVStore::pull(const KVKey& key, std::span<const NDArray> out) const {
  const Value& value = state_->at(key);
  autograd::ModeScope mode(false, false);
  for (const NDArray& array : out) check_like(key, value.array, array, "the array that is to have it");
  for (NDArray array : out) array.assign(value.array);
}

NDArray KVStore::value(const KVKey& key) const {
  const auto found = state_->values.find(key.str());
  return found == state_->values.end() ? NDArray() : found->second.array;
}

void KVStore::pushpull(const KVKey& key, std::span<const NDArray> values, std::span<const NDArray> out) const {
  if (state_->optimizer || state_->updater || state_->values.contains(key.str())) {
    push(key, values);
    return pull(key, out);
  }
  autograd::ModeScope mode(false, false);
  const NDArray sum = state_->total_of(key, values);
  for (NDArray array : out) {
    if (array.ptr() != sum.ptr()) array.assign(sum);
  }
}

void KVStore::broadcast(const KVKey& key, const NDArray& value, std::span<const NDArray> out) const {
  init(key, value);
  pull(key, out);
}

void KVStore::set_optimizer(const optimizer::Optimizer& optimizer) const {
  state_->optimizer = optimizer;
  state_->updater = nullptr;
  for (auto& [key, value] : state_->values) state_->give_trainer(key, value);
}

void KVStore::set_updater(Updater updater) const {
  state_->optimizer.reset();
  state_->updater = std::move(updater);
  for (auto& [key, value] : state_->values) value.trainer.reset();
}

void KVStore::set_gradient_compression(const CompressionParams& params) const {
  if (!state_->ranks.defined()) {
    throw ValueError(
        fmt::format("[KVStore] set_gradient_compression: what travels between ranks is compressed, and a "
                    "store of type '{}' is of one process",
                    state_->type));
  }
  state_->wire.emplace(state_->ranks, params);
  state_->residuals.clear();
}

void KVStore::save_optimizer_states(const std::filesystem::path& file) const {
  if (!state_->optimizer) throw StateError("[KVStore] there is no optimizer whose states could be saved");
  NamedArrays all;
  for (int i = 0; const auto& [key, value] : state_->values) {
    for (const auto& [name, array] : value.trainer->states()) all.emplace_back(fmt::format("{}/{}", i, name), array);
    ++i;
  }
  nd_file::save(file, all);
}

void KVStore::load_optimizer_states(const std::filesystem::path& file) const {
  if (!state_->optimizer) throw StateError("[KVStore] there is no optimizer whose states could be loaded");
  std::map<std::string, NamedArrays> by_number;
  for (const auto& [name, array] : nd_file::load(file)) {
    const size_t slash = std::min(name.find('/'), name.size());
    by_number[name.substr(0, slash)].emplace_back(name.substr(std::min(slash + 1, name.size())), array);
  }
  if (by_number.size() != state_->values.size()) {
    throw ValueError(fmt::format("[KVStore] {} has states of {} keys, there are {}", file.string(), by_number.size(),
                                 state_->values.size()));
  }
  std::vector<Trainer> loaded;  // all are read before one is changed
  for (const auto& [key, value] : state_->values) {
    loaded.emplace_back(value.parameter, *state_->optimizer);
    loaded.back().set_states(by_number[std::to_string(loaded.size() - 1)], file.string());
  }
  for (size_t i = 0; auto& [key, value] : state_->values) value.trainer = std::move(loaded[i++]);
}

}  // namespace kaon::gluon
