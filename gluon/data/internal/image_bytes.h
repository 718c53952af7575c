// Files of images: which are, by their names; decoded to plain memory, and encoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "kaon/gluon/data/host_tensor.h"

namespace kaon::gluon::data {

namespace detail {

// Whether it ends in .jpg, .jpeg or .png, in any case: what MXNet's tools take.
bool has_image_name(const std::filesystem::path& file);

// uint8 (height, width, channels), as image::imdecode. `name` begins messages; min_side as in vision::ImageOptions.
// Throws IoError.
HostTensor decoded(std::string_view bytes, const std::string& name, int flag, int64_t min_side = 0);

// A JPEG or PNG file of uint8 (height, width, 1 or 3). Throws ShapeError, TypeError.
std::string encoded(const HostTensor& image, bool is_png, int quality);

}  // namespace detail
}  // namespace kaon::gluon::data
