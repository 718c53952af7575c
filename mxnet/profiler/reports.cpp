#include "kaon/mxnet/profiler/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <map>
#include <utility>

#include "kaon/engine/engine.h"
#include "kaon/engine/error.h"
#include "kaon/engine/storage.h"

namespace kaon::mxnet {

namespace {

std::string json_text(std::string_view text) { return boost::json::serialize(boost::json::string(text)); }

struct Row {
  int64_t count = 0;
  double total = 0, least = 0, most = 0;

  void add(double value) {
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    total += value;
    ++count;
  }
  double average() const { return count == 0 ? 0 : total / double(count); }
  double key(ProfileSort sort) const {
    switch (sort) {
      case ProfileSort::average: return average();
      case ProfileSort::least: return least;
      case ProfileSort::most: return most;
      case ProfileSort::count: return double(count);
      default: return total;
    }
  }
};
using Rows = std::map<std::string, Row>;
using Groups = std::map<std::string, Rows>;

Groups grouped(const ProfileRecord& record) {
  Groups groups;
  for (const Profiler::Event& e : record.events) {
    const std::string_view category = e.category;
    if (e.begin < record.reset) continue;
    if (category == "push" || category == "piece") continue;  // parts of what counts already
    groups[e.category][e.name].add(double(e.end - e.begin) / 1e6);
  }
  for (const ProfileSample& s : record.samples) {
    if (!s.is_marker && s.time >= record.reset) groups[s.domain][s.name].add(double(s.value));
  }
  return groups;
}

std::vector<std::pair<std::string, Row>> sorted(const Rows& rows, const ReportOptions& options) {
  std::vector<std::pair<std::string, Row>> list(rows.begin(), rows.end());
  std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) {
    const double x = a.second.key(options.sort), y = b.second.key(options.sort);
    return options.ascending ? x < y : y < x;
  });
  return list;
}

Rows memory() {
  const StorageStats stats = Storage::cpu().stats();
  Row row{.count = 1,
          .total = double(stats.live) / 1e3,
          .least = double(stats.live) / 1e3,
          .most = double(stats.peak) / 1e3};
  return {{"Memory: cpu/0", row}};
}

std::string as_json(const Groups& groups, const Rows& bytes, const ReportOptions& options) {
  std::string text = "{\n    \"Time\": {";
  const char* between = "\n";
  for (const auto& [group, rows] : groups) {
    text += fmt::format("{}        {}: {{", std::exchange(between, ",\n"), json_text(group));
    const char* comma = "\n";
    for (const auto& [name, row] : sorted(rows, options)) {
      text += fmt::format(
          "{}            {}: {{\"Count\": {}, \"Total\": {:.6g}, \"Min\": {:.6g}, \"Max\": {:.6g}, \"Avg\": {:.6g}}}",
          std::exchange(comma, ",\n"), json_text(name), row.count, row.total, row.least, row.most, row.average());
    }
    text += "\n        }";
  }
  text += "\n    },\n    \"Memory\": {\n        \"Device Storage\": {";
  const char* comma = "\n";
  for (const auto& [name, row] : sorted(bytes, options)) {
    text += fmt::format("{}            {}: {{\"Count\": {}, \"Min\": {:.6g}, \"Max\": {:.6g}, \"Avg\": {:.6g}}}",
                        std::exchange(comma, ",\n"), json_text(name), row.count, row.least, row.most, row.average());
  }
  return text + "\n        }\n    },\n    \"Unit\": {\"Time\": \"ms\", \"Memory\": \"kB\"}\n}\n";
}

std::string as_table(const Groups& groups, const Rows& bytes, const ReportOptions& options, uint64_t dropped) {
  std::string text = "\nProfile Statistics:\n\tNote the difference in units for different entries.\n";
  if (dropped) text += fmt::format("\t{} events found no room and are not counted.\n", dropped);
  const auto head = [&](std::string_view group, const char* unit) {
    text += fmt::format("{}\n=================\n{:<28}{:>12}{:>15}{:>17}{:>17}{:>17}\n", group, "Name", "Total Count",
                        fmt::format("Total ({})", unit), fmt::format("Min ({})", unit), fmt::format("Max ({})", unit),
                        fmt::format("Avg ({})", unit));
    text += fmt::format("{:<28}{:>12}{:>15}{:>17}{:>17}{:>17}\n", "----", "-----------", "----------", "--------",
                        "--------", "--------");
  };
  const auto list = [&](const Rows& rows) {
    for (const auto& [name, row] : sorted(rows, options)) {
      text += fmt::format("{:<28}{:>12}{:>15.4f}{:>17.4f}{:>17.4f}{:>17.4f}\n", name, row.count, row.total, row.least,
                          row.most, row.average());
    }
    text += "\n";
  };
  head("Device Storage", "kB");
  list(bytes);
  for (const auto& [group, rows] : groups) {
    head(group, "ms");
    list(rows);
  }
  return text;
}

}  // namespace

std::string statistics(const ProfileRecord& record, const ReportOptions& options) {
  const Groups groups = grouped(record);
  return options.json ? as_json(groups, memory(), options) : as_table(groups, memory(), options, record.dropped);
}

void write_trace(const ProfileRecord& record, const std::filesystem::path& file) {
  std::ofstream out(file);
  if (!out) throw IoError(fmt::format("[profiler] cannot write {}", file.string()));
  uint64_t origin = UINT64_MAX;
  for (const Profiler::Event& e : record.events) origin = std::min(origin, e.begin);
  for (const ProfileSample& s : record.samples) origin = std::min(origin, s.time);
  const auto us = [&](uint64_t ns) { return double(ns - origin) / 1e3; };
  out << "{\"traceEvents\": [\n";
  out << R"j({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cpu/0"}})j";
  for (const Profiler::Event& e : record.events) {
    out << fmt::format(
        ",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": {}, \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}}}",
        json_text(e.name), json_text(e.category), e.thread, us(e.begin), double(e.end - e.begin) / 1e3);
  }
  for (const ProfileSample& s : record.samples) {
    const std::string begin = fmt::format(",\n{{\"name\": {}, \"cat\": {}, \"pid\": 0, \"tid\": 0, \"ts\": {:.3f}, ",
                                          json_text(s.name), json_text(s.domain), us(s.time));
    out << begin
        << (s.is_marker ? std::string("\"ph\": \"i\", \"s\": \"p\"}")
                        : fmt::format("\"ph\": \"C\", \"args\": {{{}: {}}}}}", json_text(s.name), s.value));
  }
  out << fmt::format("\n], \"displayTimeUnit\": \"ms\", \"otherData\": {{\"dropped\": {}}}}}\n", record.dropped);
  out.flush();
  if (!out) throw IoError(fmt::format("[profiler] writing {} failed", file.string()));
}

}  // namespace kaon::mxnet
