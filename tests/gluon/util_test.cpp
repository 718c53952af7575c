// The progress bar and the charts.
#include <cmath>

#include "kaon/gluon/util/progress_bar.h"
#include "kaon/gluon/util/svg_chart.h"
#include "kaon/graph/memory/svg.h"
#include "kaon/ops/array/file_io.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/support/files.h"

namespace util_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::gluon;
using namespace kaon::test;

namespace {

// A file that remembers what was printed.
struct Output {
  std::FILE* file = std::tmpfile();
  ~Output() { std::fclose(file); }
  std::string text() const {
    std::string s(size_t(std::ftell(file)), '\0');
    std::rewind(file);
    s.resize(std::fread(s.data(), 1, s.size(), file));
    std::fseek(file, 0, SEEK_END);
    return s;
  }
};
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("progress bar: pushed and done steps are told apart, and nothing is waited for") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  Gate gate;
  Cell cell(engine);
  Output out;
  ProgressBar bar("epoch 1/2", 8, {.out = out.file, .is_terminal = true, .width = 8});
  auto push = [&](bool blocked) {
    engine.push({write(cell.var())}, [&gate, blocked](RunContext&) {
      if (blocked) gate.wait();
    });
    bar.step();
  };
  push(false);
  engine.wait_all();
  for (int i = 0; i < 3; ++i) push(true);  // returns, though the engine stands still
  CHECK(bar.pushed() == 4);
  CHECK(bar.done() == 1);
  CHECK(contains(bar.line(), "epoch 1/2 [=---    ] 1/8 done (+3 pushed), "));
  gate.open();
  engine.wait_all();
  CHECK(bar.done() == 4);
  bar.set_text("loss 0.5");
  CHECK(contains(bar.line(), "epoch 1/2 [====    ] 4/8 done, "));
  CHECK(contains(bar.line(), ", loss 0.5"));
  bar.finish();
  bar.finish();
  bar.step();
  CHECK(count(out.text(), "\n") == 1);
  CHECK(contains(out.text(), "loss 0.5"));
}

TEST_CASE("progress bar: it is drawn ten times a second at most, and off a terminal once") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  Output terminal, file;
  const auto begin = Clock::now();
  {
    ProgressBar drawn("a", 1000, {.out = terminal.file, .is_terminal = true}), silent("b", 1000, {.out = file.file});
    for (int i = 0; i < 1000; ++i) {
      drawn.step();
      silent.step();
    }
    CHECK(file.text().empty());
  }
  const double tenths = std::chrono::duration<double>(Clock::now() - begin).count() * 10;
  CHECK(count(terminal.text(), "\r") <= size_t(tenths) + 3);
  CHECK(contains(file.text(), "b: 1000 steps in "));
  CHECK(count(file.text(), "\n") == 1);
  CHECK_FALSE(contains(file.text(), "\r"));
}

TEST_CASE("progress bar: options out of range") {
  CHECK_THROWS_AS(ProgressBar("a", 1, {.out = nullptr}), ValueError);
  CHECK_THROWS_AS(ProgressBar("a", 1, {.width = 0}), ValueError);
}

TEST_CASE("svg chart: ticks are round numbers inside the axis") {
  CHECK(axis_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(axis_ticks(1, 141, 5) == std::vector<double>{50, 100});
  CHECK(axis_ticks(0.91, 0.99, 4).size() == 4);
  CHECK(axis_ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(axis_ticks(3, 3, 4) == std::vector<double>{3});
  for (double high : {1e-7, 0.3, 7.0, 12345.0, 3e9}) {
    auto ticks = axis_ticks(0, high, 6);
    CHECK(ticks.size() >= 3);
    CHECK(ticks.size() <= 8);
    CHECK(ticks.back() <= high * 1.0001);
  }
}

TEST_CASE("svg chart: two panels with axes, legend and curves") {
  SvgChart chart("LeNet & <friends>");
  chart.add(
      ChartPanel("loss", "step", "cross entropy").add("train", {2.3, 1.1, 0.6, 0.4}).add("test", {1, 4}, {2.2, 0.5}));
  chart.add(ChartPanel("accuracy", "epoch", "accuracy").add("test", {0.9, 0.95, NAN, 0.97, 0.98}));
  const std::string svg = chart.str();
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(contains(svg, "LeNet &amp; &lt;friends&gt;"));
  CHECK(contains(svg, ">cross entropy</text>"));
  CHECK(count(svg, "class='legend'/>") == 2);
  CHECK(count(svg, "class='curve'") == 6);  // three curves, three entries of legends
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK_FALSE(contains(svg, "nan"));
  CHECK_THROWS_AS(ChartPanel("", "", "").add("x", {1, 2}, {1}), ValueError);
  CHECK(contains(SvgChart().add(ChartPanel("empty", "x", "y")).str(), "empty"));
  CHECK_FALSE(contains(SvgChart().add(ChartPanel("flat", "x", "y").add("c", {3, 3})).str(), "nan"));

  const ScratchFolder folder;
  const auto file = folder / "chart.svg";
  chart.save(file);
  CHECK(read_file(file) == svg);
}

}  // namespace util_test
