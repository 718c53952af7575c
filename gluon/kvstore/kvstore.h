// KVStore: values by key, to which devices push gradients and from which they pull weights.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/comm/communicator.h"
#include "kaon/engine/api.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon {

// A number or a text; 3 and "3" are one key.
class KVKey {
 public:
  KVKey(std::integral auto number) : text_(std::to_string(number)) {}
  KVKey(const char* text) : text_(text) {}
  KVKey(std::string text) : text_(std::move(text)) {}
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// MXNet's KVStore: "local" and "device" are the same, values are added up on the device of the first. "dist_sync",
// "dist_device_sync" and "dist_sync_device" are the same too: values are then added up over the ranks of comm::mpi() as
// well, which all call the same functions for the same keys in one order, and every rank has the result. Sums are made
// in the order of the list, then of the ranks, so that they have the same bits in every run. A handle: a copy is the
// same store. All but the files is pushed and does not block. Thread safety: one thread.
class KVStore {
 public:
  // What becomes of a pushed sum: changes `stored`, which has the sum's device.
  using Updater = std::function<void(const KVKey& key, const NDArray& sum, const NDArray& stored)>;

  // Throws ValueError, listing the types that there are, for another one: "dist_async" and the like; CommError for
  // ranks without MPI, where it blocks at the first call as comm::mpi() does.
  static KVStore create(std::string_view type = "local");
  const std::string& type() const;
  int rank() const;
  int num_workers() const;
  comm::Communicator ranks() const;  // undefined where there is one process
  void barrier() const;              // blocks until every rank has come here

  // Gives a key its first value, a copy: rank 0's. Throws ValueError for a key that has one.
  void init(const KVKey& key, const NDArray& value) const;
  // Adds the values up and gives the sum to the optimizer or the updater; without either it becomes the value. Throws
  // ValueError for a key without a value and for no values, ShapeError and TypeError for values that differ.
  void push(const KVKey& key, std::span<const NDArray> values) const;
  void push(const KVKey& key, const NDArray& value) const { push(key, std::span(&value, 1)); }
  // Copies the value into each of the arrays, on whatever device. Throws ValueError for a key without a value,
  // ShapeError and TypeError.
  void pull(const KVKey& key, std::span<const NDArray> out) const;
  void pull(const KVKey& key, const NDArray& out) const { pull(key, std::span(&out, 1)); }
  NDArray value(const KVKey& key) const;  // itself, which pushes change; undefined where the key has none
  // push, then pull. Without optimizer and updater the key needs no value: the sum goes to `out` alone.
  void pushpull(const KVKey& key, std::span<const NDArray> values, std::span<const NDArray> out) const;
  // init, then pull.
  void broadcast(const KVKey& key, const NDArray& value, std::span<const NDArray> out) const;

  // From now on pushed sums are gradients, by which the optimizer changes the values. Its states are new.
  void set_optimizer(const optimizer::Optimizer& optimizer) const;
  void set_updater(Updater updater) const;  // in place of an optimizer; empty: none
  // From now on what is pushed travels between ranks so; each key has a rest of its own, which begins at zero. Throws
  // ValueError for a store of one process, another type than there are, and a threshold that is not above 0.
  void set_gradient_compression(const CompressionParams& params) const;
  // The optimizer's states as Trainer::save_states has them; both block, and throw as Trainer's do. StateError without
  // an optimizer.
  void save_optimizer_states(const std::filesystem::path& file) const;
  void load_optimizer_states(const std::filesystem::path& file) const;

 private:
  struct State;
  explicit KVStore(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace gluon
}  // namespace kaon
