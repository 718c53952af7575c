// JPEG by libjpeg. Its errors leave by longjmp: between setjmp and what may jump live no objects with a destructor.
#include "kaon/ops/image_file/decoder.h"

#ifdef KAON_IMAGES

#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include <jpeglib.h>  // after cstdio, whose FILE it uses

#include <jerror.h>

#include "kaon/engine/error.h"

namespace kaon::ops {
namespace {

struct JpegReader {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jmp_buf failed;
  char what[JMSG_LENGTH_MAX];
  size_t at, size;
};

size_t position(const JpegReader& j) { return j.info.src ? j.size - j.info.src->bytes_in_buffer : 0; }

[[noreturn]] void on_error(j_common_ptr info) {
  JpegReader& j = *static_cast<JpegReader*>(info->client_data);
  info->err->format_message(info, j.what);
  j.at = position(j);
  std::longjmp(j.failed, 1);
}

// Warnings of lost pixels are errors; others, as of bytes between segments, are not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC: on_error(info);
    default: return;
  }
}

void on_output(j_common_ptr) {}

// Before jpeg_create_decompress, which may fail.
void set_up(JpegReader& j, const ImageBytes& image) {
  std::memset(&j, 0, sizeof j);
  j.info.err = jpeg_std_error(&j.errors);
  j.errors.error_exit = on_error;
  j.errors.emit_message = on_message;
  j.errors.output_message = on_output;
  j.info.client_data = &j;
  j.size = image.bytes.size();
}

void read_header(JpegReader& j, const ImageBytes& image) {
  jpeg_create_decompress(&j.info);
  j.info.client_data = &j;
  jpeg_mem_src(&j.info, reinterpret_cast<const unsigned char*>(image.bytes.data()), image.bytes.size());
  jpeg_read_header(&j.info, TRUE);
}

// Huffman codes take a bit at least for the DC coefficient of each 8 x 8 block of each component. Arithmetic codes have
// no such bound: they are trusted to be 64 times as short.
double least_bytes(const jpeg_decompress_struct& info) {
  double blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& c = info.comp_info[i];
    blocks += double(info.image_width) * c.h_samp_factor / info.max_h_samp_factor * double(info.image_height) *
              c.v_samp_factor / info.max_v_samp_factor / 64;
  }
  return blocks / 8 / (info.arith_code ? 64 : 1);
}

// CMYK as Adobe writes it, inverted, to red, green and blue, by OpenCV's integers; grey likewise.
void convert_cmyk(const uint8_t* from, int64_t pixels, PixelOrder order, uint8_t* to) {
  for (int64_t i = 0; i < pixels; ++i, from += 4, to += order.channels()) {
    int colors[3];
    const int k = from[3];
    for (int c = 0; c < 3; ++c) colors[c] = k - (((255 - from[c]) * k) >> 8);
    if (!order.is_color) {
      to[0] = uint8_t((colors[0] * 4899 + colors[1] * 9617 + colors[2] * 1868 + (1 << 13)) >> 14);
    } else {
      for (int c = 0; c < 3; ++c) to[order.is_rgb ? c : 2 - c] = uint8_t(colors[c]);
    }
  }
}

// Everything that may jump. `row` has room for a row of four channels.
bool decode(JpegReader& j, const ImageBytes& image, PixelOrder order, int shrink, uint8_t* row, uint8_t* out) {
  if (setjmp(j.failed)) return false;
  read_header(j, image);
  jpeg_decompress_struct& info = j.info;
  const bool has_four = info.num_components == 4;
  info.out_color_space = has_four ? JCS_CMYK : order.is_color ? JCS_RGB : JCS_GRAYSCALE;
  info.scale_num = 1, info.scale_denom = unsigned(shrink);
  jpeg_start_decompress(&info);
  const size_t stride = size_t(info.output_width) * size_t(order.channels());
  while (info.output_scanline < info.output_height) {
    uint8_t* const to = out + stride * info.output_scanline;
    JSAMPROW rows[] = {has_four ? row : to};
    jpeg_read_scanlines(&info, rows, 1);
    if (has_four) {
      convert_cmyk(row, info.output_width, order, to);
    } else if (order.is_color && !order.is_rgb) {
      for (size_t i = 0; i < stride; i += 3) {
        const uint8_t red = to[i];
        to[i] = to[i + 2], to[i + 2] = red;
      }
    }
  }
  jpeg_finish_decompress(&info);
  return true;
}

bool read_size(JpegReader& j, const ImageBytes& image) {
  if (setjmp(j.failed)) return false;
  read_header(j, image);
  return true;
}

// Frees what libjpeg holds, at the end of a scope that no longjmp crosses.
struct Destroy {
  JpegReader& j;
  ~Destroy() { jpeg_destroy_decompress(&j.info); }
};

[[noreturn]] void fail(const JpegReader& j, const ImageBytes& image) {
  if (j.errors.msg_code == JERR_OUT_OF_MEMORY) throw MemoryError(fmt::format("{}: {}", image.name, j.what));
  fail_image(image, "JPEG", j.at, j.what);
}

}  // namespace

ImageHeader read_jpeg_header(const ImageBytes& image) {
  JpegReader j;
  set_up(j, image);
  const Destroy at_the_end{j};
  if (!read_size(j, image)) fail(j, image);
  check_image_size(image, j.info.image_width, j.info.image_height, least_bytes(j.info));
  return {ImageHeader::Format::jpeg, j.info.image_width, j.info.image_height, 1};
}

void decode_jpeg(const ImageBytes& image, const ImageHeader& header, PixelOrder order, uint8_t* out) {
  std::vector<uint8_t> row(size_t(header.width) * 4);
  JpegReader j;
  set_up(j, image);
  const Destroy at_the_end{j};
  if (!decode(j, image, order, header.shrink, row.data(), out)) fail(j, image);
}

}  // namespace kaon::ops

#endif
