// The encoders of image files: bytes of a JPEG or PNG file from pixels in memory.
#pragma once

#include <cstdint>
#include <string>

#include "kaon/ops/image_file/decoder.h"

namespace kaon::ops {

// Pixels in rows from the top: grey, or red, green and blue.
struct ImagePixels {
  const uint8_t* pixels;
  int64_t width, height, channels;
};

// `quality`: of JPEG 1 to 100, with colours at half the size (4:2:0) and the tables of the standard, as OpenCV writes
// it; of PNG 0 to 9, how hard zlib works. Throws MemoryError, ValueError for sides that the format cannot have (JPEG:
// 65500), Error in builds without KAON_IMAGES. No state: any thread.
std::string encode_image(const ImagePixels& image, ImageHeader::Format format, int quality);

}  // namespace kaon::ops
