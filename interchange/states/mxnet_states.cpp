// What Updater.get_states(dump_optimizer=True) of MXNet wrote: ({index: state}, optimizer), or the dict alone.
#include "kaon/interchange/mxnet_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "kaon/engine/error.h"
#include "kaon/interchange/pickle/pickle.h"
#include "kaon/ops/functions.h"

namespace kaon::gluon {

using namespace interchange;
using Value = PickleValue;
using Kind = PickleValue::Kind;

namespace {

constexpr std::string_view allowed[] = {"mxnet.ndarray.ndarray.NDArray",
                                        "mxnet.numpy.multiarray.ndarray",
                                        "builtins.bytearray",
                                        "__builtin__.bytearray",
                                        "_codecs.encode",
                                        "mxnet.optimizer.optimizer.*",
                                        "mxnet.optimizer.contrib.*",
                                        "mxnet.lr_scheduler.*",
                                        "mxnet.context.Context",
                                        "mxnet.device.Device",
                                        "collections.OrderedDict"};

class StatesReader {
 public:
  StatesReader(const FileBytes& file, const Trainer& trainer, const MxnetStatesOptions& options)
      : pickle_(file, 0, file.size(), allowed), trainer_(trainer), options_(options) {
    const Value& root = pickle_.root();
    const bool is_pair = root.is(Kind::tuple) && root.items.size() == 2;
    states_ = is_pair ? root.items[0] : &root;
    if (is_pair) optimizer_ = root.items[1];
    if (!states_->is(Kind::dict)) pickle_.fail(*states_, "the states by their numbers: a dict");
    if (optimizer_) {
      if (!optimizer_->is(Kind::object)) pickle_.fail(*optimizer_, "an optimizer");
      check_optimizer();
      if (optimizer_->state) Pickle::entries_of(*optimizer_->state, attributes_);
    }
  }

  NamedArrays run() {
    const std::vector<Parameter> parameters = in_order();
    NamedArrays arrays;
    const auto number = [&](const std::string& name, double value) {
      arrays.emplace_back(name, nd.full({1}, value, {.dtype = DType::float64, .device = cpu()}));
    };
    std::map<int64_t, const Value*> states;
    for (size_t i = 0; i < states_->items.size(); i += 2) {
      const Value& index = *states_->items[i];
      if (!index.is(Kind::integer) || index.integer < 0 || index.integer >= int64_t(parameters.size())) {
        pickle_.fail(index, fmt::format("the number of one of {} parameters", parameters.size()));
      }
      states[index.integer] = states_->items[i + 1];
    }
    const auto updates = counts();
    int64_t most = 0;
    std::map<std::string, NamedArrays> by_name;
    for (int64_t i = 0; i < int64_t(parameters.size()); ++i) {
      const std::string& name = parameters[size_t(i)].name();
      const auto state = states.find(i);
      const auto counted = updates.find(i);
      // without the optimizer the file does not say how often: at least once
      const int64_t t = counted != updates.end() ? counted->second : state != states.end() && !optimizer_ ? 1 : 0;
      number("updates:" + name, double(t));
      most = std::max(most, t);
      if (t == 0) continue;
      if (state == states.end()) pickle_.fail(*states_, fmt::format("a state with number {}, of '{}'", i, name));
      int k = 0;
      for (const NDArray& array : arrays_of(*state->second, parameters[size_t(i)])) {
        arrays.emplace_back(fmt::format("state{}:{}", k++, name), array);
      }
    }
    number("steps", double(integer("num_update").value_or(most)));
    if (!trainer_.optimizer().has_scheduler()) {
      if (const auto lr = real("lr")) number("learning_rate", *lr);
    }
    if (trainer_.scales_losses()) arrays.emplace_back("loss_scale", loss_scale());
    return arrays;
  }

 private:
  void check_optimizer() const {
    const std::string_view type = optimizer_->items[0]->text;
    std::string_view name = type.substr(type.rfind('.') + 1);
    if (name == "ccSGD") name = "SGD";
    const std::string& own = trainer_.optimizer().name();
    const auto same = [](char a, char b) { return std::tolower(uint8_t(a)) == std::tolower(uint8_t(b)); };
    if (!own.empty() && !std::ranges::equal(own, name, same)) {
      throw ValueError(
          fmt::format("[load_mxnet_states] {} has the states of {}, but the optimizer of this trainer is {}",
                      pickle_.file().name(), name, own));
    }
  }

  std::vector<Parameter> in_order() const {
    std::vector<Parameter> parameters = trainer_.parameters();
    if (options_.order.empty()) {
      std::ranges::sort(parameters, {}, [](const Parameter& p) { return p.name(); });
      return parameters;
    }
    std::vector<Parameter> sorted;
    for (const std::string& name : options_.order) {
      const auto it = std::ranges::find(parameters, name, [](const Parameter& p) { return p.name(); });
      if (it == parameters.end()) {
        throw ValueError(
            fmt::format("[load_mxnet_states] order: expected names of the trainer's parameters, got '{}'", name));
      }
      sorted.push_back(*it);
    }
    if (sorted.size() != parameters.size()) {
      throw ValueError(
          fmt::format("[load_mxnet_states] order: expected {} names, got {}", parameters.size(), sorted.size()));
    }
    return sorted;
  }

  const Value* attribute(std::string_view name) const {
    for (size_t i = 0; i + 1 < attributes_.size(); i += 2) {
      if (attributes_[i]->is(Kind::text) && attributes_[i]->text == name) return attributes_[i + 1];
    }
    return nullptr;
  }
  std::optional<int64_t> integer(std::string_view name) const {
    const Value* v = attribute(name);
    return v && v->is(Kind::integer) ? std::optional(v->integer) : std::nullopt;
  }
  std::optional<double> real(std::string_view name) const {
    const Value* v = attribute(name);
    if (v && v->is(Kind::real)) return v->real;
    return v && v->is(Kind::integer) ? std::optional(double(v->integer)) : std::nullopt;
  }

  std::map<int64_t, int64_t> counts() const {
    std::map<int64_t, int64_t> counts;
    const Value* v = attribute("_index_update_count");
    if (!v || !v->is(Kind::dict)) return counts;
    for (size_t i = 0; i < v->items.size(); i += 2) {
      const Value &index = *v->items[i], &count = *v->items[i + 1];
      if (!index.is(Kind::integer)) continue;
      if (!count.is(Kind::integer) || count.integer < 0) pickle_.fail(count, "a count of updates");
      counts[index.integer] = count.integer;
    }
    return counts;
  }

  // The leaves of a state in order, undefined for a None among others; a None alone is no state.
  void flatten(const Value& value, std::vector<NDArray>& arrays, int depth = 0) const {
    if (value.is(Kind::none)) {
      if (depth > 0) arrays.emplace_back();
      return;
    }
    if (value.is(Kind::tuple) || value.is(Kind::list)) {
      if (depth > 4) pickle_.fail(value, "arrays in tuples of at most 4 levels");
      for (const Value* item : value.items) flatten(*item, arrays, depth + 1);
      return;
    }
    arrays.push_back(array_of(value));
  }

  std::vector<NDArray> arrays_of(const Value& value, const Parameter& p) const {
    const optimizer::Rule& rule = trainer_.optimizer().rule();
    const auto states = size_t(rule.num_states());
    std::vector<NDArray> arrays;
    flatten(value, arrays);
    // without momentum some optimizers have no array for it, others zeros
    if (arrays.size() > states) std::erase_if(arrays, [](const NDArray& a) { return !a.defined(); });
    for (size_t k = 0; k < std::min(states, arrays.size()); ++k) {
      const optimizer::RuleState zero = rule.state(int(k), p.shape(), p.dtype());
      if (!arrays[k].defined()) arrays[k] = nd.zeros(zero.shape, {.dtype = zero.dtype, .device = cpu()});
    }
    // the float32 copy of a 16-bit weight is an array beside the state: of most optimizers before it
    const bool has_copy = states > 0 && rule.state(int(states) - 1, p.shape(), p.dtype()).is_weight &&
                          ops::is_half(p.dtype()) && value.is(Kind::tuple) && value.items.size() == 2;
    if (has_copy && value.items[0]->is(Kind::object) && arrays.size() == states && !arrays.empty() &&
        !(value.items[1]->is(Kind::object) && copy_is_last())) {
      std::rotate(arrays.begin(), arrays.begin() + 1, arrays.end());
    }
    // a rule that keeps copies of 16-bit weights has an empty state for others
    while (arrays.size() < states && rule.state(int(arrays.size()), p.shape(), p.dtype()).shape == Shape(0)) {
      arrays.push_back(NDArray::empty({0}, DType::float32, cpu()));
    }
    if (arrays.size() != states) {
      pickle_.fail(value, fmt::format("the {} arrays that this optimizer keeps for '{}'", states, p.name()));
    }
    return arrays;
  }

  // Of those that update many weights at once.
  bool copy_is_last() const {
    const std::string& name = trainer_.optimizer().name();
    return name == "SGD" || name == "NAG" || name == "LARS" || name == "LBSGD" || name == "sgd" || name == "nag" ||
           name == "lars" || name == "lbsgd";
  }

  NDArray array_of(const Value& value) const {
    const bool is_array =
        value.is_call_of("mxnet.ndarray.ndarray.NDArray") || value.is_call_of("mxnet.numpy.multiarray.ndarray");
    if (!is_array || !value.state || !value.state->is(Kind::dict)) pickle_.fail(value, "an array of MXNet's");
    for (size_t i = 0; i < value.state->items.size(); i += 2) {
      const Value &key = *value.state->items[i], *handle = value.state->items[i + 1];
      if (!key.is(Kind::text) || key.text != "handle") continue;
      if (handle->is_call_of("builtins.bytearray") || handle->is_call_of("__builtin__.bytearray")) {
        if (handle->items[1]->items.empty()) pickle_.fail(*handle, "the bytes of an array");
        handle = handle->items[1]->items[0];
      }
      if (!handle->is(Kind::bytes)) pickle_.fail(*handle, "the bytes of an array");
      // a list of one array, without its name
      std::string list;
      const auto put = [&](uint64_t number) { list.append(reinterpret_cast<const char*>(&number), sizeof number); };
      put(0x112);
      put(0);
      put(1);
      list += handle->text;
      put(0);
      const NDArray array =
          nd_file::load_from_bytes(list, fmt::format("{}: the array at byte {}", pickle_.file().name(), value.offset))
              .at(0)
              .second;
      if (!array.defined()) pickle_.fail(value, "an array with values");
      return array;
    }
    pickle_.fail(*value.state, "the handle of an array");
  }

  NDArray loss_scale() const {
    for (const auto& [name, array] : trainer_.states()) {
      if (name == "loss_scale") return array;
    }
    return {};
  }

  Pickle pickle_;
  const Trainer& trainer_;
  const MxnetStatesOptions& options_;
  const Value *states_ = nullptr, *optimizer_ = nullptr;
  std::vector<const Value*> attributes_;
};

}  // namespace

NamedArrays read_mxnet_states(const Trainer& trainer, std::string_view bytes, const std::string& source,
                              const MxnetStatesOptions& options) {
  return StatesReader(FileBytes::copy_of(bytes, source), trainer, options).run();
}

void load_mxnet_states(Trainer& trainer, const std::filesystem::path& file, const MxnetStatesOptions& options) {
  trainer.set_states(StatesReader(FileBytes::map(file), trainer, options).run(), file.string());
}

}  // namespace kaon::gluon
