#include "kaon/gluon/util/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "kaon/engine/error.h"
#include "kaon/graph/memory/svg.h"
#include "kaon/ops/array/file_io.h"

namespace kaon::gluon {

using namespace graph;
namespace {

constexpr double panel_width = 460, panel_height = 320, title_height = 34;
constexpr double left = 62, right = 18, top = 34, bottom = 48;  // around the axes of a panel

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // Never empty: an axis needs a length.
  void complete() {
    if (low > high) *this = {0, 1};
    if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high)) || high == low) {
      const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
      low -= margin;
      high += margin;
    }
  }
};

std::string number(double v, double step) {
  if (v != 0 && (std::abs(v) >= 1e6 || step < 1e-5)) return fmt::format("{:.3g}", v);
  const int digits = std::clamp(int(std::ceil(-std::log10(step) - 1e-9)), 0, 8);
  return fmt::format("{:.{}f}", v + 0.0, digits);
}

// A panel at its place, with the scales of its axes.
class PanelWriter {
 public:
  PanelWriter(double x, double y)
      : x0_(x + left), x1_(x + panel_width - right), y0_(y + panel_height - bottom), y1_(y + top) {}

  void set_ranges(Range x, Range y) {
    x_ = x;
    y_ = y;
  }
  double px(double v) const { return x0_ + (v - x_.low) / (x_.high - x_.low) * (x1_ - x0_); }
  double py(double v) const { return y0_ - (v - y_.low) / (y_.high - y_.low) * (y0_ - y1_); }

  std::string axes(const std::string& title, const std::string& x_label, const std::string& y_label) const {
    std::string s;
    auto out = std::back_inserter(s);
    const double middle = (x0_ + x1_) / 2;
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' class='title'>{}</text>\n", middle, y1_ - 12, xml_text(title));
    const auto y_ticks = axis_ticks(y_.low, y_.high, 5), x_ticks = axis_ticks(x_.low, x_.high, 6);
    for (double t : y_ticks) {
      fmt::format_to(out, "<path d='M{:.1f} {:.1f}H{:.1f}' class='grid'/>", x0_, py(t), x1_);
      fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", x0_ - 7, py(t) + 4,
                     number(t, step_of(y_ticks)));
    }
    for (double t : x_ticks) {
      fmt::format_to(out, "<path d='M{:.1f} {:.1f}v5' class='axis'/>", px(t), y0_);
      fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", px(t), y0_ + 18,
                     number(t, step_of(x_ticks)));
    }
    fmt::format_to(out, "<path d='M{:.1f} {:.1f}V{:.1f}H{:.1f}' class='axis'/>\n", x0_, y1_, y0_, x1_);
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", middle, y0_ + 38,
                   xml_text(x_label));
    const double y_middle = (y0_ + y1_) / 2, y_text = x0_ - left + 14;
    fmt::format_to(out, "<text transform='translate({:.1f} {:.1f}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                   y_text, y_middle, xml_text(y_label));
    return s;
  }

  // A path per stretch of finite points; a point between two gaps becomes a dot.
  std::string curve(const std::vector<double>& x, const std::vector<double>& y, const char* colour) const {
    std::string path, dots;
    for (size_t i = 0; i < y.size();) {
      size_t end = i;
      while (end < y.size() && std::isfinite(x[end]) && std::isfinite(y[end])) ++end;
      if (end == i + 1) {
        fmt::format_to(std::back_inserter(dots), "<circle cx='{:.1f}' cy='{:.1f}' r='2.5' fill='{}'/>\n", px(x[i]),
                       py(y[i]), colour);
      } else {
        for (size_t k = i; k < end; ++k) {
          fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", k == i ? "M" : "L", px(x[k]), py(y[k]));
        }
      }
      i = std::max(end, i + 1);
    }
    if (!path.empty()) path = fmt::format("<path d='{}' class='curve' stroke='{}'/>\n", path, colour);
    return path + dots;
  }

  // The legend, in the corner where the curves leave most room.
  std::string legend(const std::vector<std::string>& names, bool at_top) const {
    size_t longest = 0;
    for (const auto& n : names) longest = std::max(longest, n.size());
    const double width = 34 + 6.6 * double(longest), height = 8 + 16 * double(names.size());
    const double x = x1_ - width - 4, y = at_top ? y1_ + 4 : y0_ - height - 8;
    std::string s = fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' class='legend'/>\n", x, y,
                                width, height);
    for (size_t i = 0; i < names.size(); ++i) {
      const double line = y + 12 + 16 * double(i);
      fmt::format_to(std::back_inserter(s), "<path d='M{:.1f} {:.1f}h18' class='curve' stroke='{}'/>", x + 6, line,
                     svg_colours[i % std::size(svg_colours)]);
      fmt::format_to(std::back_inserter(s), "<text x='{:.1f}' y='{:.1f}'>{}</text>\n", x + 29, line + 4,
                     xml_text(names[i]));
    }
    return s;
  }

 private:
  static double step_of(const std::vector<double>& ticks) { return ticks.size() > 1 ? ticks[1] - ticks[0] : 1; }
  double x0_, x1_, y0_, y1_;  // the axes' ends, in the picture's units
  Range x_, y_;
};

}  // namespace

ChartPanel& ChartPanel::add(std::string name, std::vector<double> x, std::vector<double> y) {
  if (x.size() != y.size()) {
    throw ValueError(fmt::format("[ChartPanel] {}: expected as many x as y, got {} and {}", name, x.size(), y.size()));
  }
  curves_.push_back({std::move(name), std::move(x), std::move(y)});
  return *this;
}

ChartPanel& ChartPanel::add(std::string name, std::vector<double> y) {
  std::vector<double> x;
  for (size_t i = 1; i <= y.size(); ++i) x.push_back(double(i));
  return add(std::move(name), std::move(x), std::move(y));
}

SvgChart& SvgChart::add(ChartPanel panel) {
  panels_.push_back(std::move(panel));
  return *this;
}

std::string SvgChart::str() const {
  const double width = panel_width * double(std::max<size_t>(1, panels_.size()));
  const double above = title_.empty() ? 0 : title_height, height = panel_height + above;
  std::string s = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' font-family='sans-serif' "
      "font-size='12' fill='#333'>\n"
      "<style>.title{{font-size:14px;font-weight:bold;text-anchor:middle}}.axis{{stroke:#333;fill:none}}"
      ".grid{{stroke:#e4e4e4;fill:none}}.curve{{stroke-width:1.8;fill:none;stroke-linejoin:round}}"
      ".legend{{fill:#fff;fill-opacity:0.85;stroke:#ccc}}</style>\n"
      "<rect width='100%' height='100%' fill='#fff'/>\n",
      width, height);
  if (!title_.empty()) {
    s += fmt::format("<text x='{:.1f}' y='24' class='title' style='font-size:16px'>{}</text>\n", width / 2,
                     xml_text(title_));
  }
  for (size_t i = 0; i < panels_.size(); ++i) {
    const ChartPanel& panel = panels_[i];
    Range x, y;
    double end_sum = 0;
    size_t ends = 0;
    for (const auto& c : panel.curves_) {
      bool counted = false;
      for (size_t k = c.y.size(); k-- > 0;) {
        if (!std::isfinite(c.x[k]) || !std::isfinite(c.y[k])) continue;
        x.include(c.x[k]);
        y.include(c.y[k]);
        if (!counted) end_sum += c.y[k], ++ends, counted = true;
      }
    }
    x.complete();
    y.complete();
    const double margin = (y.high - y.low) * 0.04;
    y = {y.low - margin, y.high + margin};
    PanelWriter writer(panel_width * double(i), above);
    writer.set_ranges(x, y);
    s += writer.axes(panel.title_, panel.x_label_, panel.y_label_);
    std::vector<std::string> names;
    for (size_t k = 0; k < panel.curves_.size(); ++k) {
      s += writer.curve(panel.curves_[k].x, panel.curves_[k].y, svg_colours[k % std::size(svg_colours)]);
      names.push_back(panel.curves_[k].name);
    }
    // curves that end low, as a loss does, leave the upper right corner free
    if (!names.empty()) s += writer.legend(names, ends == 0 || end_sum / double(ends) < (y.low + y.high) / 2);
  }
  return s + "</svg>\n";
}

void SvgChart::save(const std::filesystem::path& file) const { engine::write_file(file, str()); }

}  // namespace kaon::gluon
