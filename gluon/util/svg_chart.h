// SvgChart: line charts side by side in one SVG file: loss and accuracy over a training run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace gluon {

// One set of axes with its curves. A NaN or an infinity leaves a gap.
class ChartPanel {
 public:
  ChartPanel(std::string title, std::string x_label, std::string y_label)
      : title_(std::move(title)), x_label_(std::move(x_label)), y_label_(std::move(y_label)) {}

  // Curves get a colour each, in this order. Throws ValueError when the lengths differ.
  ChartPanel& add(std::string name, std::vector<double> x, std::vector<double> y);
  ChartPanel& add(std::string name, std::vector<double> y);  // over 1, 2, 3, ...

 private:
  friend class SvgChart;
  struct Curve {
    std::string name;
    std::vector<double> x, y;
  };
  std::string title_, x_label_, y_label_;
  std::vector<Curve> curves_;
};

// SvgChart chart("LeNet on MNIST");
// chart.add(ChartPanel("loss", "step", "cross entropy").add("train", losses));
// chart.save("training.svg");
// Thread safety: unsafe.
class SvgChart {
 public:
  explicit SvgChart(std::string title = "") : title_(std::move(title)) {}
  SvgChart& add(ChartPanel panel);  // to the right of the others
  std::string str() const;
  void save(const std::filesystem::path& file) const;  // blocks. Throws IoError

 private:
  std::string title_;
  std::vector<ChartPanel> panels_;
};

}  // namespace gluon
}  // namespace kaon
