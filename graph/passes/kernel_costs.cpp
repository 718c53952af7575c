#include "kaon/graph/passes/kernel_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/engine.h"
#include "kaon/graph/ir/outside_budget.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::graph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_other_bytes = size_t(32) << 20;  // caches are smaller
constexpr double never = std::numeric_limits<double>::infinity();

// One variant of a node with the arrays on which it is run over and over.
class Trial {
 public:
  Trial(const Node& node, std::span<const KernelInput> inputs, uint8_t variant, bool training, bool winograd,
        std::span<const std::byte> other)
      : node_(node), inputs_(inputs), variant_(variant), training_(training), winograd_(winograd), other_(other) {
    const OutsideBudget outside;
    for (const KernelInput& i : inputs) {
      in_.push_back(view(i.meta, i.layout));
      sources_.push_back({arrays_.back().node().buffer.get(), arrays_.back().node().offset});
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Layout layout = k < node.layouts.size() ? node.layouts[k] : Layout::row_major;
      out_.push_back(view(node.outputs[k], layout));
    }
  }

  // The shortest of `runs` runs; infinity when the variant does not exist.
  double seconds(int runs) {
    double least = never;
    Var done;
    Engine& engine = Engine::current();
    engine.push({write(done)}, [&](RunContext& run) {
      KernelContext context{.inputs = in_,
                            .outputs = out_,
                            .run = run,
                            .training = training_,
                            .exact = false,
                            .winograd = winograd_,
                            .variant = variant_,
                            .state = &state_,
                            .sources = training_ ? nullptr : sources_.data()};
      const auto run_once = [&] {
        node_.op->cpu(node_.attrs.get(), context);
        run.free_workspace();
      };
      if (!std::exchange(is_ready_, true)) run_once();  // makes primitives, packs weights
      for (int i = 0; i < runs; ++i) {
        read_others(run);
        const auto begin = Clock::now();
        run_once();
        least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
      }
    });
    try {
      engine.wait(done);
    } catch (const Error&) {
      return never;
    }
    return least;
  }
  uint8_t variant() const { return variant_; }

 private:
  TensorView view(const TensorMeta& m, Layout layout) {
    const NDArray& a = arrays_.emplace_back(NDArray::empty(m.shape, m.dtype));
    const TensorView v{a.node().data(), m.shape, m.dtype, layout};
    if (m.dtype == DType::float32) {
      std::fill_n(v.as<float>(), v.size(), 0.5f);  // no denormal numbers, no zero variance
    } else {
      std::fill_n(v.as<char>(), v.bytes(), char(0));
    }
    return v;
  }

  // Evicts caches as the rest of the graph does. Mostly the node's images have just been written when it runs.
  void read_others(RunContext& run) {
    std::atomic<unsigned> sum = 0;
    const auto read = [&](const std::byte* data, size_t bytes) {
      run.parallel_for(int64_t(bytes), 1 << 16, [&](int64_t begin, int64_t end) {
        unsigned part = 0;
        for (int64_t i = begin; i < end; i += 64) part += unsigned(data[i]);
        sum += part;
      });
    };
    read(other_.data(), other_.size());
    for (size_t i = 0; i < in_.size(); ++i) {
      if (inputs_[i].is_image) read(in_[i].as<std::byte>(), in_[i].bytes());
    }
    read_ = sum;
  }

  const Node& node_;
  const std::span<const KernelInput> inputs_;
  const uint8_t variant_;
  const bool training_, winograd_;
  std::span<const std::byte> other_;
  std::vector<NDArray> arrays_;
  std::vector<TensorView> in_, out_;
  std::vector<Source> sources_;
  std::unique_ptr<KernelState> state_;
  bool is_ready_ = false;
  volatile unsigned read_ = 0;  // keeps the compiler from removing the reads
};

// The key of a cost.
std::string key_of(const Node& node, std::span<const KernelInput> inputs, bool training, bool winograd,
                   size_t other_bytes) {
  std::string key = fmt::format("{} {} {} {} {}", Engine::current().stats().threads, training, winograd, other_bytes,
                                node.op->name());
  node.op->write(node.attrs.get(), [&](std::string_view name, const std::string& value, bool is_default) {
    if (!is_default) key += fmt::format(" {}={}", name, value);
  });
  for (const KernelInput& i : inputs)
    key += fmt::format(" {}{}:{}", i.meta.shape.str(), int(i.meta.dtype), int(i.layout));
  for (Layout l : node.layouts) key += fmt::format(" {}", int(l));
  for (const TensorMeta& m : node.outputs) key += fmt::format(" {}{}", m.shape.str(), int(m.dtype));
  return key;
}

struct Known : WithMutex {
  std::unordered_map<std::string, KernelCost> costs;
};
Known& known() { return ProcessWide<Known>::get(); }

class MeasuredCosts final : public KernelCosts {
 public:
  MeasuredCosts(bool training, bool winograd, size_t graph_bytes)
      : training_(training),
        winograd_(winograd),
        // one answer for graphs of about one size
        other_(std::min(std::bit_ceil(graph_bytes), most_other_bytes), std::byte(1)) {}

  KernelCost of(const Node& node, std::span<const KernelInput> inputs) override {
    Known& k = known();
    const std::string key = key_of(node, inputs, training_, winograd_, other_.size());
    {
      std::lock_guard lock(k.mutex);
      if (const auto found = k.costs.find(key); found != k.costs.end()) return found->second;
    }
    const KernelCost measured = measure(node, inputs);
    if (measured.seconds == never) return measured;  // perhaps memory lacked
    std::lock_guard lock(k.mutex);
    return k.costs.try_emplace(key, measured).first->second;  // one of two threads' measurements is kept
  }

 private:
  // Times the rules' choice, each algorithm with the rules' partition, and every partition with the best algorithm,
  // once each; then the best of these in turns, several times. The rules' choice stays unless another is clearly
  // faster.
  KernelCost measure(const Node& node, std::span<const KernelInput> inputs) const {
    struct Found {
      double seconds;
      std::unique_ptr<Trial> trial;
    };
    std::vector<Found> best;  // fastest first
    const auto is_faster = [](const Found& a, const Found& b) { return a.seconds < b.seconds; };
    const auto try_variant = [&](uint8_t variant) {
      std::unique_ptr<Trial> trial;
      try {
        trial = std::make_unique<Trial>(node, inputs, variant, training_, winograd_, other_);
      } catch (const MemoryError&) {
        return;  // a variant without enough memory is not chosen
      }
      Found f{trial->seconds(1), std::move(trial)};
      if (f.seconds == never) return;
      best.insert(std::upper_bound(best.begin(), best.end(), f, is_faster), std::move(f));
      if (best.size() <= 3) return;
      const bool is_rule = best.back().trial->variant() == 0;
      best.erase(best.end() - (is_rule ? 2 : 1));
    };
    try_variant(0);
    std::vector<TensorMeta> metas;
    for (const KernelInput& i : inputs) metas.push_back(i.meta);
    const Variants variants =
        node.op->variants ? node.op->variants(node.attrs.get(), metas, node.outputs, winograd_) : Variants();
    for (int a = 0; a < variants.algorithms; ++a) try_variant(variants.number(a, 0));
    const auto named = std::find_if(best.begin(), best.end(), [](const Found& f) { return f.trial->variant() > 0; });
    if (named != best.end()) {
      const int algorithm = variants.algorithm(named->trial->variant());
      for (int c = 1; c < variants.partitions; ++c) try_variant(variants.number(algorithm, c));
    }
    for (int round = 0; round < 4; ++round) {
      for (Found& f : best) f.seconds = std::min(f.seconds, f.trial->seconds(1));
    }
    KernelCost chosen{never};
    for (const Found& f : best) {
      const double seconds = f.seconds * (f.trial->variant() == 0 ? 0.97 : 1);
      if (seconds < chosen.seconds) chosen = {seconds, f.trial->variant()};
    }
    return chosen;
  }

  const bool training_, winograd_;
  const std::vector<std::byte> other_;
};

}  // namespace

std::shared_ptr<KernelCosts> measured_costs(bool training, bool winograd, size_t graph_bytes) {
  return std::make_shared<MeasuredCosts>(training, winograd, graph_bytes);
}

}  // namespace kaon::graph
