// Which files are images, by their names.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace kaon::gluon::data {

namespace detail {

// Whether it ends in .jpg, .jpeg or .png, in any case: what MXNet's tools take.
inline bool has_image_name(const std::filesystem::path& file) {
  std::string end = file.extension().string();
  std::ranges::transform(end, end.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

}  // namespace detail
}  // namespace kaon::gluon::data
