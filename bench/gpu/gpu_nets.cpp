// Nets on a GPU: imperative, hybridized, and with a static plan, which is one CUDA graph.
#include "kaon/bench/gpu/gpu_parts.h"
#include "kaon/engine/device/backend.h"
#include "kaon/examples/networks.h"

namespace kaon::bench {

using namespace engine;
namespace {

namespace nn = gluon::nn;
namespace vision = gluon::model_zoo::vision;

enum class How { imperative, hybridized, static_alloc, one_step };
constexpr const char* names[] = {"imperative", "hybridized", "static_alloc", "static_alloc_one_submission"};

template <class Block>
void prepare(Block block, How how) {
  if (how == How::hybridized) block.hybridize();
  if (how == How::static_alloc) block.hybridize({.static_alloc = true, .static_shape = true});
}

// ResNet-50 and its images, or the smallest net of the same layers.
struct Images {
  int64_t batch, size;
  NDArray data, label;
  Images(const GpuRun& run, DType dtype)
      : batch(run.size(64, 2)),
        size(run.size(224, 16)),
        data(nd.random_normal({batch, 3, size, size}, {.ctx = the_gpu()}).astype(dtype)),
        label((nd.arange(double(batch)) % 10).as_in_context(the_gpu())) {}
};
nn::HybridSequential make_net(const GpuRun& run, const Images& images, How how) {
  nn::HybridSequential net;
  if (run.small) {
    net.add(nn::Conv2D(8, {.kernel_size = 7, .strides = 2, .padding = 3, .use_bias = false}), nn::BatchNorm(),
            nn::Activation("relu"), nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}),
            vision::BottleneckV1(16, 1, true, 8), nn::GlobalAvgPool2D(), nn::Dense(10));
  } else {
    net.add(vision::resnet50_v1());
  }
  net.initialize(init::Xavier(), the_gpu());
  net.cast(images.data.dtype());
  net(images.data).wait_to_read();  // shapes
  prepare(net, how);
  return net;
}

class Learner {
 public:
  Learner(const GpuRun& run, const Images& images, How how) : images_(images), net_(make_net(run, images, how)) {
    prepare(loss_, how);
    if (how == How::one_step) step_.emplace(net_, loss_, trainer_);
  }
  void step() {
    if (step_) {
      (*step_)(images_.data, images_.label);
      return;
    }
    const NDArray loss = autograd::record([&] { return loss_(net_(images_.data), images_.label); });
    loss.backward();
    trainer_.step(images_.batch);
  }

 private:
  const Images& images_;
  nn::HybridSequential net_;
  gluon::loss::SoftmaxCrossEntropyLoss loss_;
  gluon::Trainer trainer_{net_.collect_params(), optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9})};
  std::optional<gluon::TrainingStep> step_;
};

// Each beside the imperative one.
void print_all(const std::string& name, const std::vector<Result>& r) {
  const Baseline imperative{name + names[0], r[0]};
  print(imperative.name, r[0], "images/s");
  for (size_t i = 1; i < r.size(); ++i) print(name + names[i], r[i], "images/s", {imperative});
}

void infer(const GpuRun& run, const Images& images, const std::string& name) {
  std::vector<nn::HybridSequential> nets;
  for (How how : {How::imperative, How::hybridized, How::static_alloc}) nets.push_back(make_net(run, images, how));
  std::vector<std::function<double()>> candidates;
  for (const nn::HybridSequential& net : nets) {
    candidates.push_back(
        [&] { return double(images.batch) / seconds_per_call(run.calls(20), [&] { return net(images.data); }); });
  }
  print_all(name + "_inference_", interleave(run.rounds(), candidates));
}

void train(const GpuRun& run, const Images& images, const std::string& name) {
  std::vector<std::unique_ptr<Learner>> learners;
  for (How how : {How::imperative, How::hybridized, How::static_alloc, How::one_step}) {
    learners.push_back(std::make_unique<Learner>(run, images, how));
  }
  std::vector<std::function<double()>> candidates;
  for (const auto& learner : learners) {
    candidates.push_back(
        [&] { return double(images.batch) / seconds_per_call(run.calls(10), [&] { learner->step(); }); });
  }
  print_all(name + "_training_", interleave(run.rounds(), candidates));
}

}  // namespace

void resnet(const GpuRun& run) {
  struct Type {
    const char* name;
    DType dtype;
    bool tf32;
  };
  for (const Type& t : {Type{"float32", DType::float32, false}, Type{"tf32", DType::float32, true},
                        Type{"bfloat16", DType::bfloat16, false}}) {
    const Images images(run, t.dtype);
    const std::string name = fmt::format("{}_b{}_{}", run.small ? "bottleneck" : "resnet50", images.batch, t.name);
    gpu_allow_tf32(t.tf32);
    infer(run, images, name);
    train(run, images, name);
    gpu_allow_tf32(false);
  }
}

void mlp(const GpuRun& run) {
  const int calls = run.calls(2000);
  const NDArray x = nd.random_normal({1, 512}, {.ctx = the_gpu()});
  auto imperative = examples::seed_mlp(), hybrid = examples::seed_mlp();
  for (auto& net : {imperative, hybrid}) {
    auto n = net;
    n.initialize(init::Xavier(), the_gpu());
    n(x).wait_to_read();
  }
  prepare(hybrid, How::static_alloc);
  const auto us = [&](const auto& net) { return seconds_per_call(calls, [&] { return net(x); }) * per_us; };
  const auto us_waited_for = [&](const auto& net) {
    return seconds_per_call(calls, [&] { net(x).wait_to_read(); }) * per_us;
  };
  const auto r =
      interleave(run.rounds(), {[&] { return us(imperative); }, [&] { return us(hybrid); },
                                [&] { return us_waited_for(imperative); }, [&] { return us_waited_for(hybrid); }});
  const std::string waited = "_each_waited_for";
  print("mlp_b1_imperative", r[0], "us");
  print("mlp_b1_static_alloc", r[1], "us", "mlp_b1_imperative", r[0], 12);
  print("mlp_b1_imperative" + waited, r[2], "us");
  print("mlp_b1_static_alloc" + waited, r[3], "us", "mlp_b1_imperative" + waited, r[2]);
}

}  // namespace kaon::bench
