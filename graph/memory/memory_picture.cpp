// MemoryPlan::svg: the plan as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/memory/svg.h"

namespace kaon::graph {
namespace {

constexpr double left = 82, right = 20, top = 74, strip = 12, bottom = 70;  // around the plot
constexpr double plot_width = 900, plot_height = 400;

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : bytes < 100 ? 2 : 1, units[unit]);
}

enum Kind : size_t { forward, kept, backward };
constexpr const char* kind_names[] = {"value of the forward", "kept for the backward", "value of the backward"};

// The name of a value: its node's, and the number of the output.
std::string name_of(const Graph& graph, ValueId v) {
  const Node& n = graph.nodes[v.node];
  return (v.output ? fmt::format("{}.{}", n.name, v.output) : n.name) + fmt::format(" ({})", n.op->name());
}

class Picture {
 public:
  Picture(const MemoryPlan& plan, const Graph& graph) : plan_(plan), graph_(graph) {
    for (uint32_t i = 0; i < plan_.slots.size(); ++i) {
      for (uint32_t k = 0; k < plan_.slots[i].size(); ++k) {
        const ValueSlot& s = plan_.slots[i][k];
        if (s.place != Place::arena) {
          outside_[size_t(s.place)] += s.root == ValueId{i, k} ? s.bytes : 0;
        } else if (!(s.root == ValueId{i, k})) {
          shares_[uint64_t(s.root.node) << 32 | s.root.output] += (", " + name_of(graph_, {i, k}));
        } else if (s.bytes) {
          values_.push_back({i, k});
        }
      }
    }
  }

  std::string str() const {
    const double width = left + plot_width + right, height = top + plot_height + strip + bottom;
    std::string s = fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
        "font-family='sans-serif' font-size='12' fill='#333'>\n"
        "<style>.axis{{stroke:#333;fill:none}}.grid{{stroke:#e4e4e4;fill:none}}.peak{{stroke:#333;stroke-width:1.5;"
        "stroke-dasharray:6 4;fill:none}}.value{{stroke:#fff;stroke-width:0.7;vector-effect:non-scaling-stroke}}"
        ".beside{{fill:#000;fill-opacity:0.06}}.node{{fill:#bbb;stroke:#fff;stroke-width:0.7;"
        "vector-effect:non-scaling-stroke}}</style>\n<rect width='100%' height='100%' fill='#fff'/>\n",
        width, height);
    s += caption() + axes() + blocks() + nodes() + legend();
    const double peak = y_of(double(plan_.arena_bytes));
    fmt::format_to(std::back_inserter(s), "<path d='M{:.1f} {:.1f}h{:.1f}' class='peak'/>\n", left, peak, plot_width);
    fmt::format_to(std::back_inserter(s), "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>peak {}</text>\n",
                   left + plot_width, peak - 5, bytes_text(double(plan_.arena_bytes)));
    return s + "</svg>\n";
  }

 private:
  double num_nodes() const { return std::max(1.0, double(graph_.nodes.size())); }
  double most() const { return std::max(1.0, double(plan_.arena_bytes)); }
  double x_of(double node) const { return left + node / num_nodes() * plot_width; }
  double y_of(double bytes) const { return top + plot_height * (1 - bytes / most()); }

  std::string caption() const {
    const double saved =
        plan_.unplanned_bytes ? 100 * (1 - double(plan_.arena_bytes) / double(plan_.unplanned_bytes)) : 0;
    return fmt::format(
        "<text x='{0}' y='22' font-size='15' font-weight='bold'>{1} values in an arena of {2} ({3} bytes)</text>\n"
        "<text x='{0}' y='40'>{4} side by side: {5:.0f} % saved. Outside: inputs {6}, outputs {7}, constants "
        "{8}.</text>\n",
        left, values_.size(), bytes_text(double(plan_.arena_bytes)), plan_.arena_bytes,
        bytes_text(double(plan_.unplanned_bytes)), saved, outside(Place::input), outside(Place::output),
        outside(Place::constant));
  }
  std::string outside(Place place) const { return bytes_text(double(outside_[size_t(place)])); }

  std::string axes() const {
    std::string s;
    auto out = std::back_inserter(s);
    double unit = 1;
    while (most() / unit >= 1024 && unit < 1 << 30) unit *= 1024;
    for (double t : axis_ticks(0, most() / unit, 6)) {
      fmt::format_to(out, "<path d='M{:.1f} {:.1f}h{:.1f}' class='grid'/>", left, y_of(t * unit), plot_width);
      fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", left - 7, y_of(t * unit) + 4,
                     bytes_text(t * unit));
    }
    const double below = top + plot_height + strip;
    for (double t : axis_ticks(0, num_nodes(), 10)) {
      fmt::format_to(out, "<path d='M{:.1f} {:.1f}v5' class='axis'/>", x_of(t), below);
      fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:g}</text>\n", x_of(t), below + 18, t);
    }
    fmt::format_to(out, "<path d='M{:.1f} {:.1f}V{:.1f}H{:.1f}' class='axis'/>\n", left, top, top + plot_height,
                   left + plot_width);
    fmt::format_to(out, "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>node</text>\n", left + plot_width / 2,
                   below + 34);
    return s;
  }

  Kind kind_of(const ValueSlot& s) const {
    if (graph_.nodes[s.first].phase == Phase::backward) return backward;
    return graph_.nodes[s.last].phase == Phase::backward ? kept : forward;
  }

  // The rectangles, in units of nodes and bytes, upside down.
  std::string blocks() const {
    std::string s = fmt::format(
        "<svg x='{}' y='{}' width='{}' height='{}' viewBox='0 0 {} {}' "
        "preserveAspectRatio='none'>\n",
        left, top, plot_width, plot_height, num_nodes(), most());
    auto out = std::back_inserter(s);
    for (const ParallelRegion& b : graph_.parallel_regions) {
      fmt::format_to(out,
                     "<rect class='beside' x='{}' y='0' width='{}' height='{}'><title>{} groups of nodes that may "
                     "run side by side</title></rect>\n",
                     b.groups.front(), b.groups.back() - b.groups.front(), most(), b.groups.size() - 1);
    }
    for (ValueId v : values_) {
      const ValueSlot& slot = plan_.slot(v);
      const auto shares = shares_.find(uint64_t(v.node) << 32 | v.output);
      fmt::format_to(out,
                     "<rect class='value' fill='{}' x='{}' y='{}' width='{}' height='{}'><title>{}{}: {} bytes at "
                     "{}, nodes {} to {}</title></rect>\n",
                     svg_colours[kind_of(slot)], slot.first, plan_.arena_bytes - slot.offset - slot.bytes,
                     slot.last - slot.first + 1, slot.bytes, xml_text(name_of(graph_, v)),
                     shares == shares_.end() ? "" : xml_text(shares->second), slot.bytes, slot.offset, slot.first,
                     slot.last);
    }
    return s + "</svg>\n";
  }

  // A strip with a cell for each node that computes something.
  std::string nodes() const {
    std::string s = fmt::format(
        "<svg x='{}' y='{}' width='{}' height='{}' viewBox='0 0 {} 1' "
        "preserveAspectRatio='none'>\n",
        left, top + plot_height, plot_width, strip, num_nodes());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      if (!n.op) continue;
      fmt::format_to(std::back_inserter(s),
                     "<rect class='node' x='{}' y='0' width='1' height='1'><title>node {}: {} ({})</title></rect>\n", i,
                     i, xml_text(n.name), xml_text(n.op->name()));
    }
    return s + "</svg>\n";
  }

  std::string legend() const {
    bool used[std::size(kind_names)] = {};
    for (ValueId v : values_) used[kind_of(plan_.slot(v))] = true;
    std::string s;
    auto out = std::back_inserter(s);
    double x = left;
    auto entry = [&](const std::string& mark, const char* text) {
      fmt::format_to(out, "{}<text x='{:.1f}' y='61'>{}</text>\n", mark, x + 18, text);
      x += 36 + 6.4 * double(std::string_view(text).size());
    };
    for (size_t k = 0; k < std::size(kind_names); ++k) {
      if (!used[k]) continue;
      entry(fmt::format("<rect x='{:.1f}' y='51' width='12' height='12' fill='{}'/>", x, svg_colours[k]),
            kind_names[k]);
    }
    if (!graph_.parallel_regions.empty()) {
      entry(fmt::format("<rect x='{:.1f}' y='51' width='12' height='12' class='beside'/>", x), "nodes side by side");
    }
    return s;
  }

  const MemoryPlan& plan_;
  const Graph& graph_;
  std::vector<ValueId> values_;                       // that own memory in the arena
  std::unordered_map<uint64_t, std::string> shares_;  // by owner: the other values in its memory
  size_t outside_[4] = {};                            // bytes, by place
};

}  // namespace

std::string MemoryPlan::svg(const Graph& graph) const { return Picture(*this, graph).str(); }

}  // namespace kaon::graph
