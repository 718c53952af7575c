// mx.image's functions. No operators: the shape of a decoded image depends on the bytes.
#include "kaon/ops/image_file/image_file.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "kaon/engine/error.h"
#include "kaon/engine/thread_context.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/array/file_io.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/image_file/decoder.h"

namespace kaon::image {

using namespace ops;
using engine::IntrusivePtr;
namespace {

// Reads the header, and pushes the decoding. `function`: its name, which lives as long as the process.
NDArray decode(const char* function, std::string bytes, const std::string& source, const DecodeOptions& options,
               const std::source_location& site) {
  if (options.flag < 0) throw ValueError(fmt::format("[{}] flag must be 0 or more, got {}", function, options.flag));
  struct Job {
    std::string bytes, name;
    ImageHeader header;
    PixelOrder order;
    ImageBytes image() const { return {bytes, name}; }
  };
  auto job = std::make_shared<Job>();
  job->bytes = std::move(bytes), job->name = fmt::format("[{}] {}", function, source);
  job->order = {.is_color = options.flag != 0, .is_rgb = options.to_rgb};
  job->header = read_image_header(job->image());
  const Shape shape(job->header.height, job->header.width, job->order.channels());
  NDArray result = NDArray::empty(shape, DType::uint8);
  const IntrusivePtr<ArrayNode> node(&result.node());
  node->buffer->note_write(site);
  node->buffer->engine->push({write(node->buffer->var)},
                             [job, node](RunContext&) {
                               decode_image(job->image(), job->header, job->order, static_cast<uint8_t*>(node->data()));
                             },
                             {.label = {function, site, engine::thread_context().block_path}});
  return result;
}

// The element of an axis of `size` that position i beyond its ends shows.
int64_t shown(int64_t i, int64_t size, Border type) {
  if (type == Border::replicate) return i < 0 ? 0 : i >= size ? size - 1 : i;
  if (type == Border::wrap) return (i % size + size) % size;
  if (size == 1) return 0;
  const int64_t once = type == Border::reflect ? size : size - 1;  // from end to end
  const int64_t at = (i % (2 * once) + 2 * once) % (2 * once);
  return at < size ? at : 2 * once - at - (type == Border::reflect ? 1 : 0);
}

// `color` (1, 1, channels) before and after x, along the axis.
NDArray framed(const NDArray& x, int axis, int64_t before, int64_t after, const NDArray& color,
               const std::source_location& site) {
  std::vector<NDArray> parts;
  const auto add = [&](int64_t count) {
    Shape shape = x.shape();
    shape[axis] = count;
    if (count == 0) return;
    // 0 in the shape of broadcast_to means as it was
    parts.push_back(shape.size() == 0 ? nd.zeros(shape, {.dtype = x.dtype(), .device = x.device()})
                                      : nd.broadcast_to(In<NDArray>(color, site), shape));
  };
  add(before);
  parts.push_back(x);
  add(after);
  return nd.concat(parts, {.dim = axis}, site);
}

NDArray extended(const NDArray& x, int axis, int64_t before, int64_t after, Border type,
                 const std::source_location& site) {
  const int64_t size = x.shape()[axis];
  std::vector<int64_t> from;
  for (int64_t i = -before; i < size + after; ++i) from.push_back(shown(i, size, type));
  const Shape count(int64_t(from.size()));
  const NDArray indices = nd.array(from, count, {.dtype = DType::int64, .device = x.device()});
  return nd.take(In<NDArray>(x, site), indices, {.axis = axis});
}

}  // namespace

NDArray imdecode(std::string_view bytes, const DecodeOptions& options, const std::source_location& site) {
  return decode("imdecode", std::string(bytes), "bytes", options, site);
}

NDArray imdecode(std::span<const uint8_t> bytes, const DecodeOptions& options, const std::source_location& site) {
  return imdecode(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), options, site);
}

NDArray imdecode(const NDArray& bytes, const DecodeOptions& options, const std::source_location& site) {
  if (bytes.dtype() != DType::uint8) {
    throw TypeError(fmt::format("[imdecode] bytes must be uint8, got {}", name_of(bytes.dtype())));
  }
  if (bytes.ndim() != 1) {
    throw ShapeError(fmt::format("[imdecode] bytes must have 1 dimension, got {}", bytes.shape().str()));
  }
  return imdecode(std::span<const uint8_t>(bytes.asvector<uint8_t>()), options, site);
}

NDArray imread(const std::filesystem::path& file, const DecodeOptions& options, const std::source_location& site) {
  std::string bytes;
  try {
    bytes = read_file(file);
  } catch (const IoError& e) {
    throw IoError(fmt::format("[imread] {}", e.what()));
  }
  return decode("imread", std::move(bytes), file.string(), options, site);
}

NDArray imresize(const NDArray& src, int w, int h, int interp, const std::source_location& site) {
  return nd.image_resize(In<NDArray>(src, site), Shape(w, h), {.interp = interp});
}

NDArray copyMakeBorder(const NDArray& src, int top, int bot, int left, int right, const BorderOptions& options,
                       const std::source_location& site) {
  const Shape& shape = src.shape();
  if (shape.ndim() != 3) {
    throw ShapeError(fmt::format("[copyMakeBorder] src must be (height, width, channels), got {}", shape.str()));
  }
  if (top < 0 || bot < 0 || left < 0 || right < 0) {
    throw ValueError(
        fmt::format("[copyMakeBorder] margins must be at least 0, got {}, {}, {} and {}", top, bot, left, right));
  }
  if (options.type != Border::constant) {
    if (shape[0] == 0 || shape[1] == 0) {
      throw ValueError(
          fmt::format("[copyMakeBorder] an image without pixels has no edge to repeat, got {}", shape.str()));
    }
    return extended(extended(src, 0, top, bot, options.type, site), 1, left, right, options.type, site);
  }
  if (!options.values.empty() && int64_t(options.values.size()) != shape[2]) {
    throw ValueError(fmt::format("[copyMakeBorder] values must have {} numbers, one for each channel, got {}", shape[2],
                                 options.values.size()));
  }
  std::vector<double> colors(options.values.begin(), options.values.end());
  if (colors.empty()) colors.assign(size_t(shape[2]), options.value);
  const NDArray color = nd.array(colors, Shape(1, 1, shape[2]), {.dtype = src.dtype(), .device = src.device()});
  return framed(framed(src, 1, left, right, color, site), 0, top, bot, color, site);
}

}  // namespace kaon::image
