// PNG by libpng. Its errors leave by longjmp: between setjmp and what may jump live no objects with a destructor.
#include "kaon/ops/image_file/decoder.h"

#ifdef KAON_IMAGES

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "kaon/engine/error.h"

namespace kaon::ops {
namespace {

struct Png {
  png_structp reader = nullptr;
  png_infop info = nullptr;
  const char* bytes;
  size_t size, at = 0;
  char what[256] = "";
};

Png& of(png_structp reader) { return *static_cast<Png*>(png_get_error_ptr(reader)); }

[[noreturn]] void on_error(png_structp reader, png_const_charp what) {
  Png& p = of(reader);
  std::snprintf(p.what, sizeof p.what, "%s", what);
  png_longjmp(reader, 1);
}

void on_warning(png_structp, png_const_charp) {}

void take(png_structp reader, png_bytep to, size_t n) {
  Png& p = of(reader);
  if (n > p.size - p.at) {
    p.at = p.size;
    png_error(reader, "the file ends here");
  }
  std::memcpy(to, p.bytes + p.at, n);
  p.at += n;
}

constexpr char no_memory[] = "Out of memory";  // as libpng says it

[[noreturn]] void fail(const Png& p, const ImageBytes& image) {
  if (std::strcmp(p.what, no_memory) == 0) throw MemoryError(fmt::format("{}: {}", image.name, no_memory));
  fail_image(image, "PNG", p.at, p.what);
}

// Frees what libpng holds, at the end of a scope that no longjmp crosses.
struct Reading : Png {
  explicit Reading(const ImageBytes& image) {
    bytes = image.bytes.data(), size = image.bytes.size();
    reader = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Png*>(this), on_error, on_warning);
    if (reader) info = png_create_info_struct(reader);
    if (info) return;
    png_destroy_read_struct(&reader, nullptr, nullptr);
    throw MemoryError(fmt::format("{}: {}", image.name, no_memory));
  }
  ~Reading() { png_destroy_read_struct(&reader, &info, nullptr); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

constexpr png_uint_32 most = 1 << 20;

void start(Png& p) {
  png_set_user_limits(p.reader, most, most);
  png_set_read_fn(p.reader, nullptr, take);
  png_read_info(p.reader, p.info);
}

bool read_size(Png& p) {
  if (setjmp(png_jmpbuf(p.reader))) return false;
  start(p);
  return true;
}

bool decode(Png& p, PixelOrder order, uint8_t* out) {
  if (setjmp(png_jmpbuf(p.reader))) return false;
  start(p);
  const int type = png_get_color_type(p.reader, p.info), depth = png_get_bit_depth(p.reader, p.info);
  if (depth == 16) png_set_strip_16(p.reader);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(p.reader);
  if (!(type & PNG_COLOR_MASK_COLOR) && depth < 8) png_set_expand_gray_1_2_4_to_8(p.reader);
  png_set_strip_alpha(p.reader);
  if (!order.is_color) {
    if (type & PNG_COLOR_MASK_COLOR) png_set_rgb_to_gray(p.reader, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  } else {
    if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(p.reader);
    if (!order.is_rgb) png_set_bgr(p.reader);
  }
  const int passes = png_set_interlace_handling(p.reader);
  png_read_update_info(p.reader, p.info);
  const size_t stride = png_get_image_width(p.reader, p.info) * size_t(order.channels());
  if (png_get_rowbytes(p.reader, p.info) != stride) png_error(p.reader, "its pixels have an unknown form");
  const png_uint_32 height = png_get_image_height(p.reader, p.info);
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(p.reader, out + stride * y, nullptr);
  }
  png_read_end(p.reader, nullptr);
  return true;
}

}  // namespace

ImageHeader read_png_header(const ImageBytes& image) {
  Reading p(image);
  if (!read_size(p)) fail(p, image);
  const ImageHeader header{ImageHeader::Format::png, png_get_image_width(p.reader, p.info),
                           png_get_image_height(p.reader, p.info)};
  // deflate makes at most 1032 bytes of one
  const double row = double(png_get_rowbytes(p.reader, p.info));
  check_image_size(image, header.width, header.height, double(header.height) * row / 1032);
  return header;
}

void decode_png(const ImageBytes& image, const ImageHeader&, PixelOrder order, uint8_t* out) {
  Reading p(image);
  if (!decode(p, order, out)) fail(p, image);
}

}  // namespace kaon::ops

#endif
