// Helpers for pictures in SVG: text, colours, ticks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kaon::graph {

// Distinguishable also by people with colour blindness (Okabe and Ito).
inline constexpr const char* svg_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// The text for XML content or attributes: special characters escaped, control characters left out.
std::string xml_text(std::string_view text);

// The ticks of an axis from `low` to `high`: about `count` multiples of 1, 2 or 5 times a power of ten.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace kaon::graph
