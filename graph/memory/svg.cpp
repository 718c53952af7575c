#include "kaon/graph/memory/svg.h"

#include <cmath>

namespace kaon::graph {

std::string xml_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;  // XML has no other control characters
    }
  }
  return out;
}

std::vector<double> axis_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double nice : {5.0, 2.0, 1.0}) {
    if (rough <= nice * power * 1.0001) step = nice * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  for (double i = first; i <= last && ticks.size() < 100; ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace kaon::graph
