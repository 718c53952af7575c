// By libjpeg and libpng. Their errors leave by longjmp: between setjmp and what may jump live no objects with a
// destructor.
#include "kaon/ops/image_file/encoder.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"

#ifdef KAON_IMAGES

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>  // after cstdio, whose FILE it uses
#include <png.h>

#include <jerror.h>

namespace kaon::ops {
namespace {

// What an encoder has written: memory of malloc.
struct Written {
  unsigned char* bytes = nullptr;
  size_t size = 0, room = 0;
  char what[JMSG_LENGTH_MAX] = "";
};

// Room for n more bytes. False without memory; what was written stays.
bool make_room(Written& out, size_t n) {
  if (n <= out.room - out.size) return true;
  const size_t room = 2 * (out.size + n);
  auto* more = static_cast<unsigned char*>(std::realloc(out.bytes, room));
  if (!more) return false;
  out.bytes = more, out.room = room;
  return true;
}

// libjpeg writes into the room that there is; its own jpeg_mem_dest loses track of memory when an error comes.
struct Destination : jpeg_destination_mgr {
  Written* out;
};

void offer(j_compress_ptr info, size_t n) {
  auto& to = *static_cast<Destination*>(info->dest);
  if (!make_room(*to.out, n)) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  to.next_output_byte = to.out->bytes + to.out->size;
  to.free_in_buffer = to.out->room - to.out->size;
}
void begin_jpeg(j_compress_ptr info) { offer(info, 1 << 14); }
boolean continue_jpeg(j_compress_ptr info) {
  auto& to = *static_cast<Destination*>(info->dest);
  to.out->size = to.out->room;  // all of it is written
  offer(info, 1 << 14);
  return TRUE;
}
void end_jpeg(j_compress_ptr info) {
  auto& to = *static_cast<Destination*>(info->dest);
  to.out->size = to.out->room - to.free_in_buffer;
}

struct JpegWriter {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  Destination destination;
  jmp_buf failed;
};

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  JpegWriter& j = *static_cast<JpegWriter*>(info->client_data);
  std::longjmp(j.failed, 1);
}
void on_jpeg_output(j_common_ptr) {}

bool write_jpeg(JpegWriter& j, const ImagePixels& image, int quality, Written& out) {
  if (setjmp(j.failed)) {
    j.errors.format_message(reinterpret_cast<j_common_ptr>(&j.info), out.what);
    return false;
  }
  jpeg_create_compress(&j.info);
  j.info.client_data = &j;
  j.destination.init_destination = begin_jpeg;
  j.destination.empty_output_buffer = continue_jpeg;
  j.destination.term_destination = end_jpeg;
  j.destination.out = &out;
  j.info.dest = &j.destination;
  j.info.image_width = JDIMENSION(image.width);
  j.info.image_height = JDIMENSION(image.height);
  j.info.input_components = int(image.channels);
  j.info.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&j.info);
  jpeg_set_quality(&j.info, quality, TRUE);
  jpeg_start_compress(&j.info, TRUE);
  while (j.info.next_scanline < j.info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels + j.info.next_scanline * size_t(image.width * image.channels));
    jpeg_write_scanlines(&j.info, &row, 1);
  }
  jpeg_finish_compress(&j.info);
  return true;
}

bool encode_jpeg(const ImagePixels& image, int quality, Written& out) {
  JpegWriter j;
  std::memset(&j, 0, sizeof j);
  j.info.err = jpeg_std_error(&j.errors);
  j.errors.error_exit = on_jpeg_error;
  j.errors.output_message = on_jpeg_output;
  j.info.client_data = &j;
  const bool is_written = write_jpeg(j, image, quality, out);
  jpeg_destroy_compress(&j.info);
  return is_written;
}

[[noreturn]] void on_png_error(png_structp writer, png_const_charp what) {
  Written& out = *static_cast<Written*>(png_get_error_ptr(writer));
  std::snprintf(out.what, sizeof out.what, "%s", what);
  png_longjmp(writer, 1);
}
void on_png_warning(png_structp, png_const_charp) {}

void give(png_structp writer, png_bytep bytes, size_t n) {
  Written& out = *static_cast<Written*>(png_get_io_ptr(writer));
  if (!make_room(out, n)) png_error(writer, "Out of memory");
  std::memcpy(out.bytes + out.size, bytes, n);
  out.size += n;
}
void flush(png_structp) {}

bool write_png(png_structp writer, png_infop info, const ImagePixels& image, int quality, Written& out) {
  if (setjmp(png_jmpbuf(writer))) return false;
  png_set_write_fn(writer, &out, give, flush);
  png_set_compression_level(writer, quality);
  png_set_IHDR(writer, info, png_uint_32(image.width), png_uint_32(image.height), 8,
               image.channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer, info);
  for (int64_t y = 0; y < image.height; ++y) {
    png_write_row(writer, image.pixels + size_t(y) * size_t(image.width * image.channels));
  }
  png_write_end(writer, info);
  return true;
}

bool encode_png(const ImagePixels& image, int quality, Written& out) {
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, &out, on_png_error, on_png_warning);
  png_infop info = writer ? png_create_info_struct(writer) : nullptr;
  const bool is_written = info && write_png(writer, info, image, quality, out);
  if (writer) png_destroy_write_struct(&writer, &info);
  return is_written;
}

struct Freed : Written {
  ~Freed() { std::free(bytes); }
};

}  // namespace

std::string encode_image(const ImagePixels& image, ImageHeader::Format format, int quality) {
  const bool is_jpeg = format == ImageHeader::Format::jpeg;
  const int64_t most = is_jpeg ? JPEG_MAX_DIMENSION : 1 << 20;
  if (image.width < 1 || image.height < 1 || image.width > most || image.height > most) {
    throw ValueError(fmt::format("[encode_image] a {} file has sides of 1 to {}, got {} x {}", is_jpeg ? "JPEG" : "PNG",
                                 most, image.width, image.height));
  }
  Freed out;
  if (!(is_jpeg ? encode_jpeg(image, quality, out) : encode_png(image, quality, out))) {
    throw MemoryError(fmt::format("[encode_image] {}", out.what[0] ? out.what : "no memory"));
  }
  return std::string(reinterpret_cast<const char*>(out.bytes), out.size);
}

}  // namespace kaon::ops

#else

namespace kaon::ops {

std::string encode_image(const ImagePixels&, ImageHeader::Format, int) {
  throw Error("[encode_image] this build of Kaon writes no image files: it was configured with KAON_IMAGES=OFF");
}

}  // namespace kaon::ops

#endif
