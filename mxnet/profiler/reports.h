// What a profile says: as a trace for chrome://tracing, and as statistics.
#pragma once

#include <filesystem>
#include <string>

#include "kaon/mxnet/profiler/profile.h"

namespace kaon::mxnet {

// A Chrome trace: spans, counters and markers with their categories. Blocks. Throws IoError.
void write_trace(const ProfileRecord& record, const std::filesystem::path& file);

// MXNet's numbers.
enum class ProfileSort : int { total, average, least, most, count };
struct ReportOptions {
  bool json = false;
  ProfileSort sort = ProfileSort::total;
  bool ascending = false;
};
// By category and name: how often, and milliseconds; of counters their values; of memory kilobytes.
std::string statistics(const ProfileRecord& record, const ReportOptions& options);

}  // namespace kaon::mxnet
