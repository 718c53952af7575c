// Batch: the arrays of several samples. batchify: how samples become one.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/host_tensor.h"

namespace KAON_API kaon {
namespace gluon::data {

namespace batchify {

// One array of each sample of a batch, in order, at least one. `name` is for messages and for the batch.
struct Column {
  std::vector<HostTensor> items;
  std::string name;
};

// What a batch has in one place: an array, or a list of them.
struct Field {
  NDArray array{};
  std::vector<NDArray> list{};
  bool is_list = false;
  std::string name{};
};
using Fields = std::vector<Field>;

}  // namespace batchify

// A sample that was left out of its batch (LoaderOptions::skip_corrupt), and what its loading threw.
struct SkippedSample {
  int64_t index;
  std::string reason;
};

// Samples stacked along a new first axis, or what a batchify function made of them. The arrays are ready: nothing is
// pending on them, except copies to a GPU and what such a function has pushed. `label` is undefined when the dataset
// has no labels. Thread safety: as NDArray.
class Batch : public ArrayList<NDArray> {
 public:
  Batch(NDArray data, NDArray label, int64_t size) : ArrayList(std::move(data), std::move(label)), size_(size) {}
  Batch(std::vector<NDArray> arrays, int64_t size, Names names = nullptr)
      : ArrayList(std::move(arrays), std::move(names)), size_(size) {}
  Batch(batchify::Fields fields, int64_t size, bool has_names = true);

  int64_t size() const { return size_; }  // samples; of the last batch of an epoch perhaps fewer than batch_size
  size_t num_arrays() const { return lists_.empty() ? ArrayList::num_arrays() : lists_.size(); }  // lists count as one
  // What batchify::List made of array i of the samples, in whose place there is no array. Throws IndexError for another
  // i.
  const std::vector<NDArray>& list(size_t i) const;
  Batch as_in_context(Device device) const;  // lists too

  std::vector<SkippedSample> skipped;  // samples left out of this batch, and of whole batches left out before it

 private:
  int64_t size_;
  std::vector<std::vector<NDArray>> lists_;  // none, or one for each array, empty for arrays that are no list
};

// Functions from the samples of a batch to the batch, for DataLoader. As the loader's function, Stack, Pad and List
// treat all arrays of a sample alike; Tuple has a function for each. Thread safety: immutable; any thread.
namespace batchify {

// Any callable Column -> NDArray, or -> Fields. Several threads call it at once.
class ColumnFunction {
 public:
  template <class F>
    requires(!std::same_as<std::decay_t<F>, ColumnFunction> &&
             (std::is_invocable_r_v<NDArray, F&, const Column&> || std::is_invocable_r_v<Fields, F&, const Column&>))
  ColumnFunction(F fn) {
    if constexpr (std::is_invocable_r_v<Fields, F&, const Column&>) {
      fn_ = std::move(fn);
    } else {
      fn_ = [fn = std::move(fn)](const Column& c) mutable { return Fields{{.array = fn(c), .name = c.name}}; };
    }
  }
  Fields operator()(const Column& column) const { return fn_(column); }

 private:
  std::function<Fields(const Column&)> fn_;
};

// (n, ...) of n tensors of one shape and dtype. Throws ShapeError that names two shapes that differ, TypeError.
struct Stack {
  Fields operator()(const Column& column) const;
};

struct PadOptions {
  int axis = 0;                  // along which lengths differ; negative: from the end
  double pad_val = 0;            // behind what is shorter
  bool ret_length = false;       // a second array, int32 (n,): the lengths before
  std::optional<DType> dtype{};  // of the result; nothing: that of the tensors
  int64_t round_to = 0;          // the common length is made a multiple of it, where it is not 0
};
// (n, ...) of n tensors that may differ in size along one axis. With ret_length the batch has the lengths behind the
// array, named <name>_length. Throws ShapeError for tensors that differ otherwise, ValueError for options that do not
// fit.
class Pad {
 public:
  explicit Pad(const PadOptions& options = {});
  Fields operator()(const Column& column) const;

 private:
  PadOptions options_;
};

// The tensors as they are, an array for each: batch.list(i).
struct List {
  Fields operator()(const Column& column) const;
};
using AsList = List;

// Function i makes array i of the samples; what makes two arrays moves those behind. Throws ValueError for samples of
// another number of arrays.
class Tuple {
 public:
  explicit Tuple(std::vector<ColumnFunction> functions);
  template <std::convertible_to<ColumnFunction>... F>
  explicit Tuple(ColumnFunction first, F... more)
      : Tuple(std::vector<ColumnFunction>{std::move(first), std::move(more)...}) {}
  Batch operator()(std::vector<Sample> samples) const;

 private:
  std::vector<ColumnFunction> functions_;
};
using Group = Tuple;

// The functions of this namespace for each array of the samples.
KAON_API Batch each_array(const ColumnFunction& function, std::vector<Sample> samples);

}  // namespace batchify

// What a DataLoader does with the samples of a batch: nothing given stacks them while they are loaded. Any callable
// std::vector<Sample> -> Batch or -> std::vector<NDArray>, or a function of one array of the samples, as those of
// `batchify`. It runs on the loader's threads, on several at once.
class BatchifyFunction {
 public:
  BatchifyFunction() = default;
  template <class F>
    requires(std::is_invocable_r_v<Batch, F&, std::vector<Sample>>)
  BatchifyFunction(F fn) : fn_(std::move(fn)) {}
  template <class F>
    requires(std::is_invocable_r_v<std::vector<NDArray>, F&, std::vector<Sample>>)
  BatchifyFunction(F fn)
      : fn_([fn = std::move(fn)](std::vector<Sample> samples) mutable {
          const auto size = int64_t(samples.size());
          return Batch(std::vector<NDArray>(fn(std::move(samples))), size);
        }) {}
  template <class F>
    requires(!std::same_as<F, BatchifyFunction> && std::convertible_to<F, batchify::ColumnFunction>)
  BatchifyFunction(F fn)
      : fn_([column = batchify::ColumnFunction(std::move(fn))](std::vector<Sample> samples) {
          return batchify::each_array(column, std::move(samples));
        }) {}

  explicit operator bool() const { return bool(fn_); }
  Batch operator()(std::vector<Sample> samples) const { return fn_(std::move(samples)); }

 private:
  std::function<Batch(std::vector<Sample>)> fn_;
};

}  // namespace gluon::data
}  // namespace kaon
