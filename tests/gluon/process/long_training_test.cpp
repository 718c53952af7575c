// Training goes on through failures of operators, of arrays and of memory: the steps that were acknowledged are in the
// parameters, the others are not, and nothing stays behind.
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kaon/engine/storage.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/op_def.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace long_training_test {

using namespace kaon;
using namespace kaon::test;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

constexpr int longest_window = 16;  // steps between two waits
constexpr int batch_size = 8, features = 4, hidden = 16;

// Failures carry a number, from 1, by which they are known again; those of memory have none.
constexpr std::string_view mark = "planned failure ";
[[noreturn]] void fail(int number) {
  const std::string text = fmt::format("{}{}.", mark, number);
  if (number % 2) throw std::runtime_error(text);
  throw ValueError(text);
}
std::set<int> numbers_in(std::string_view text) {
  std::set<int> found;
  for (size_t at = 0; (at = text.find(mark, at)) != text.npos;) {
    found.insert(std::stoi(std::string(text.substr(at += mark.size(), 9))));
  }
  return found;
}

// Which of an operator's calls fail. Changed while nothing is pending.
struct FailingCalls {
  std::array<int, longest_window> numbers{};  // of the failures; 0: none
  std::atomic<size_t> calls{0};
  void count_call() {
    const size_t call = calls++;
    if (call < numbers.size() && numbers[call]) fail(numbers[call]);
  }
  void clear() {
    numbers.fill(0);
    calls = 0;
  }
};
FailingCalls forward_calls, backward_calls;

void copy(KernelContext& c) { std::copy_n(c.in(0).as<float>(), c.in(0).size(), c.out().as<float>()); }

struct IdentityBackward {
  static constexpr OpTraits traits{.name = "test_identity_backward", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const IdentityBackward&, KernelContext& c) {
  backward_calls.count_call();
  copy(c);
}
constinit const OpDef IdentityBackward::def = make_op_def<IdentityBackward>();

struct Identity {
  static constexpr OpTraits traits{.name = "test_identity", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const { g.set(0, nd.call(IdentityBackward{}, g.head())); }
};
void run_cpu(const Identity&, KernelContext& c) {
  forward_calls.count_call();
  copy(c);
}
constinit const OpDef Identity::def = make_op_def<Identity>();

struct Net : gluon::HybridBlock<Net> {
  nn::Dense fc1 = child("fc1", nn::Dense(hidden, {.activation = "tanh", .in_units = features}));
  nn::Dense fc2 = child("fc2", nn::Dense(2, {.in_units = hidden}));
  auto hybrid_forward(auto F, auto x) { return fc2(F.call(Identity{}, fc1(x))); }
};

struct Sample {
  std::vector<float> data, label;
};
// Exclusive or of the signs of two features, which a net without a hidden layer cannot learn.
std::vector<Sample> make_samples(int count) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    Sample s{numbers({batch_size, features}, uint32_t(i + 1)).asvector<float>(), {}};
    for (size_t b = 0; b < batch_size; ++b) {
      s.label.push_back(s.data[b * features] * s.data[b * features + 1] > 0 ? 1.0f : 0.0f);
    }
    samples.push_back(std::move(s));
  }
  return samples;
}

// A net in training.
struct Learner {
  Net net = ready(Net(), 5);
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  // with weight decay every step changes the weights
  gluon::Trainer trainer{net.collect_params(), optimizer::SGD({.momentum = 0.5, .wd = 1e-3})};
  gluon::ParameterDict parameters = net.collect_params();

  NDArray forward(const NDArray& data, const Sample& s) {
    NDArray label = nd.array(s.label, {batch_size});
    return autograd::record([&] { return loss_fn(net(data), label); });
  }
  void hybridize(const HybridizeOptions& options) {
    net.hybridize(options);
    loss_fn.hybridize(options);
  }
  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (const gluon::Parameter& p : parameters) all.push_back(p.data().asvector<float>());
    return all;
  }
  bool has_sound_gradients() const {
    for (const gluon::Parameter& p : parameters) {
      try {
        p.grad().wait_to_read();
      } catch (const Error&) {
        return false;
      }
    }
    return true;
  }
};

// Storage has so many more bytes to give until this ends.
struct MemoryLimit {
  explicit MemoryLimit(size_t bytes) { Storage::cpu().set_limit(Storage::cpu().stats().live + bytes); }
  ~MemoryLimit() { Storage::cpu().set_limit(0); }
};

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

enum class Fault { none, input, forward, backward, gradient };

// Trains in windows of steps without a wait between them. A second net takes the steps that were acknowledged, and
// only those, imperatively on a serial engine: after each window both are the same to the last bit.
class LongTraining {
 public:
  explicit LongTraining(Engine& engine) : engine_(engine), own_(make<Learner>(engine)), twin_(make<Learner>(serial_)) {}

  void run(int steps) {
    for (const int end = step_ + steps; step_ < end;) {
      const int size = std::min(end - step_, 1 + int(random_() % longest_window));
      if (windows_++ % 4 == 0) {
        short_of_memory();
      } else {
        planned_faults(size);
      }
      REQUIRE(own_->values() == twin_->values());
    }
  }
  // A step without a fault, which also throws what is left of earlier ones.
  void finish() {
    const EngineScope scope(engine_);
    REQUIRE(push_step(Fault::none, 0));
    engine_.wait_all();
    CHECK(to_be_thrown_.empty());
  }
  void hybridize(const HybridizeOptions& options) { own_->hybridize(options); }
  double loss() {
    const EngineScope scope(engine_);
    forward_calls.clear();
    double sum = 0;
    for (const Sample& s : samples_) {
      sum += own_->loss_fn(own_->net(nd.array(s.data, {batch_size, features})), nd.array(s.label, {batch_size}))
                 .mean()
                 .template asscalar<double>();
    }
    return sum / double(samples_.size());
  }

  int planned = 0, acknowledged = 0, out_of_memory = 0, enough_memory = 0;

 private:
  template <class T>
  static std::unique_ptr<T> make(Engine& engine) {
    const EngineScope scope(engine);
    auto made = std::make_unique<T>();
    engine.wait_all();
    return made;
  }

  void planned_faults(int size) {
    forward_calls.clear();
    backward_calls.clear();
    std::vector<int> good;
    size_t forwards = 0, backwards = 0;  // that will run
    const EngineScope scope(engine_);
    for (int i = 0; i < size; ++i, ++step_) {
      Fault fault = random_() % 8 ? Fault::none : Fault(1 + random_() % 4);
      const int number = fault == Fault::none ? 0 : ++planned;
      if (number) {
        unreported_.insert(number);
        to_be_thrown_.insert(number);
      } else {
        good.push_back(step_);
      }
      if (fault != Fault::input) forward_calls.numbers[forwards++] = fault == Fault::forward ? number : 0;
      if (fault != Fault::input && fault != Fault::forward) {
        backward_calls.numbers[backwards++] = fault == Fault::backward ? number : 0;
      }
      REQUIRE(push_step(fault, number));
    }
    CHECK_FALSE(wait_all());
    CHECK(forward_calls.calls == forwards);
    CHECK(backward_calls.calls == backwards);
    CHECK(unreported_.empty());
    acknowledge(good);
  }

  // One step under a limit that may be enough for all of it, for a part, or not even for its input. Where something
  // fails that the update does not need, it is there; else nothing of it is.
  void short_of_memory() {
    forward_calls.clear();
    backward_calls.clear();
    bool is_pushed = false, lacks = false;
    {
      const EngineScope scope(engine_);
      const MemoryLimit limit(random_() % 3000);
      try {
        is_pushed = push_step(Fault::none, 0);
      } catch (const MemoryError&) {
        lacks = true;
      }
      lacks |= wait_all();
    }
    ++(lacks ? out_of_memory : enough_memory);
    REQUIRE((is_pushed || lacks));
    if (!lacks || (is_pushed && own_->has_sound_gradients() && own_->values() != twin_->values())) {
      acknowledge({step_});
    }
    ++step_;
  }

  // False: the trainer has not taken the step, for want of memory.
  bool push_step(Fault fault, int number) {
    const Sample& s = samples_[size_t(step_) % samples_.size()];
    own_->trainer.set_learning_rate(rate(step_));
    NDArray data = nd.array(s.data, {batch_size, features});
    if (fault == Fault::input) {
      engine_.push({write(data.var())}, [data, number](RunContext&) { fail(number); });
    }
    own_->forward(data, s).backward();
    if (fault == Fault::gradient) {
      NDArray gradient = own_->parameters.begin()[number % 4].grad();
      engine_.push({update(gradient.var())}, [gradient, number](RunContext&) { fail(number); });
    }
    for (int tries = 0; tries <= longest_window; ++tries) {
      try {
        own_->trainer.step(batch_size);
        return true;
      } catch (const std::exception& e) {
        const std::set<int> found = note(e.what());
        for (int n : found) REQUIRE(to_be_thrown_.erase(n) == 1);
      }
    }
    return false;
  }

  // Was memory lacking?
  bool wait_all() {
    bool lacks = false;
    try {
      engine_.wait_all();
    } catch (const AggregateError& e) {
      for (const auto& error : e.errors()) lacks |= note(error->message).empty();
    }
    return lacks;
  }

  // A failure that was thrown: its numbers; without one it is the lack of memory.
  std::set<int> note(std::string_view text) {
    std::set<int> found = numbers_in(text);
    for (int n : found) unreported_.erase(n);
    if (found.empty()) REQUIRE_THAT(std::string(text), Catch::Contains("out of memory"));
    return found;
  }

  void acknowledge(const std::vector<int>& steps) {
    forward_calls.clear();
    backward_calls.clear();
    const EngineScope scope(serial_);
    for (int step : steps) {
      const Sample& s = samples_[size_t(step) % samples_.size()];
      twin_->trainer.set_learning_rate(rate(step));
      twin_->forward(nd.array(s.data, {batch_size, features}), s).backward();
      twin_->trainer.step(batch_size);
    }
    acknowledged += int(steps.size());
  }

  static double rate(int step) { return step / 10 % 2 ? 0.2 : 0.1; }

  Engine serial_{{.threads = 0}};
  Engine& engine_;
  std::unique_ptr<Learner> own_, twin_;
  std::vector<Sample> samples_ = make_samples(16);
  std::mt19937 random_{7};
  int step_ = 0, windows_ = 0;
  std::set<int> unreported_;    // by anything
  std::set<int> to_be_thrown_;  // by a later step of the trainer
};

// Half imperatively, half hybridized. Within each part memory is the same after some steps and at the end.
void train(int steps, const EngineOptions& options) {
  const size_t live = Storage::cpu().stats().live;
  {
    Engine engine(options);
    LongTraining training(engine);
    auto part = [&](int n) {
      training.run(n / 5);
      const size_t resident = resident_bytes(), arrays = Storage::cpu().stats().live;
      training.run(n - n / 5);
      CHECK(Storage::cpu().stats().live <= arrays + 4096);
      if (!sanitized) CHECK(resident_bytes() <= resident + (size_t(2) << 20));
    };
    part(steps / 2);
    training.hybridize({.exact = true});
    part(steps / 4);
    training.hybridize({.static_alloc = true, .static_shape = true, .exact = true});
    part(steps / 4);
    training.finish();
    CHECK(training.planned > steps / 20);  // so much was tried
    CHECK(training.out_of_memory > steps / 200);
    CHECK(training.enough_memory > steps / 200);
    CHECK(training.acknowledged > steps * 3 / 4);
    CHECK(training.loss() < 0.2);
  }
  CHECK(Storage::cpu().stats().live == live);
}

}  // namespace

TEST_CASE("training through failures: 2,000 steps keep what was acknowledged", "[gluon][traces]") {
  for (size_t max_bytes : {0, 64 * 1024}) {
    for (int threads : {0, 1, 2, 4}) {
      INFO(threads << " threads, at most " << max_bytes << " bytes");
      train(2000, {.threads = threads, .max_in_flight = 256, .max_bytes = max_bytes});
    }
  }
  train(2000, {.schedule = Schedule::random(3)});
}

TEST_CASE("training through failures: 100,000 steps keep what was acknowledged, in memory that does not grow",
          "[gluon][slow]") {
  train(100000, {.threads = 2});
}

TEST_CASE("training through failures: a first step that gets no memory, or is dropped, does not stop those after it",
          "[gluon]") {
  for (int threads : {0, 1, 2, 4}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    const EngineScope scope(engine);
    Learner learner, other;
    const Sample sample = make_samples(1)[0];
    auto backward = [&](Learner& l) { l.forward(nd.array(sample.data, {batch_size, features}), sample).backward(); };
    backward(learner);
    backward(other);
    engine.wait_all();
    const auto before = learner.values();
    {
      const MemoryLimit limit(10);
      CHECK_THROWS_AS(learner.trainer.step(batch_size), MemoryError);
    }
    {
      std::stop_source stopped;
      stopped.request_stop();
      const EngineScope dropped = scope.with_budget(0, stopped.get_token());
      learner.trainer.step(batch_size);
    }
    engine.wait_all();
    CHECK(learner.values() == before);
    for (int i = 0; i < 3; ++i) {
      for (Learner* l : {&learner, &other}) {
        backward(*l);
        l->trainer.step(batch_size);
      }
    }
    engine.wait_all();
    CHECK(learner.values() == other.values());
    CHECK(learner.values() != before);
  }
}

TEST_CASE("training through failures: an update that gets no memory changes nothing", "[gluon]") {
  for (int threads : {0, 1, 2, 4}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    const EngineScope scope(engine);
    Learner learner;
    const Sample sample = make_samples(1)[0];
    auto backward = [&] { learner.forward(nd.array(sample.data, {batch_size, features}), sample).backward(); };
    backward();
    learner.trainer.step(batch_size);
    backward();
    engine.wait_all();
    const auto before = learner.values();
    {
      const MemoryLimit limit(10);
      learner.trainer.step(batch_size);
      CHECK_THROWS_WITH(engine.wait_all(), Catch::Contains("out of memory"));
    }
    CHECK(learner.values() == before);
    backward();
    CHECK_THROWS_AS(learner.trainer.step(batch_size), MemoryError);  // of the step before
    CHECK(learner.values() == before);
    learner.trainer.step(batch_size);
    engine.wait_all();
    CHECK(learner.values() != before);
  }
}

}  // namespace long_training_test
