// What train_mnist shows and keeps of a run: the progress bar, the losses, the chart.
#pragma once

#include <fmt/format.h>

#include "kaon/gluon/util/progress_bar.h"
#include "kaon/gluon/util/svg_chart.h"
#include "lenet.h"

namespace examples {

// Moves the progress bar, keeps the losses, and ends the trace when it is long enough.
class EpochWatch : public StepListener {
 public:
  EpochWatch(const std::string& title, int64_t steps, bool trace) : bar_(title, steps), trace_(trace) {
    if (trace_) Engine::current().profiler().start();
  }
  void pushed() override { bar_.step(); }
  void finished(double loss) override {
    losses_.push_back(loss);
    bar_.set_text(fmt::format("loss {:.3f}", loss));
    if (trace_ && losses_.size() == traced_steps) Engine::current().profiler().stop();
  }
  void end(const EpochResult& r) {
    Engine::current().profiler().stop();
    bar_.set_text(
        fmt::format("loss {:.4f}, accuracy {:.2f} %, {:.0f} images/s", r.loss, 100 * r.accuracy, r.images_per_second));
    bar_.finish();
  }
  const std::vector<double>& losses() const { return losses_; }

 private:
  static constexpr size_t traced_steps = 30;
  gluon::ProgressBar bar_;
  std::vector<double> losses_;
  bool trace_;
};

// The run as curves over epochs.
struct History {
  std::vector<double> step, step_loss;
  std::vector<double> loss, accuracy, held_out;
};

inline void draw(const History& h, const std::filesystem::path& file) {
  gluon::SvgChart chart("LeNet on MNIST");
  chart.add(
      gluon::ChartPanel("Loss", "epoch", "cross entropy").add("each step", h.step, h.step_loss).add("mean", h.loss));
  chart.add(gluon::ChartPanel("Accuracy", "epoch", "%").add("training", h.accuracy).add("held out", h.held_out));
  chart.save(file);
}

}  // namespace examples
