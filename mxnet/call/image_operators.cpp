// The operators behind mx.image that read, resize and frame images.
#include <fmt/format.h>

#include "kaon/mxnet/call/layer_operators.h"
#include "kaon/ops/image_file/image_file.h"

namespace kaon::mxnet {

namespace {

image::DecodeOptions decode_options(const OperatorInfo& info, Texts texts) {
  return {.flag = attribute(info, texts, "flag", 1), .to_rgb = attribute(info, texts, "to_rgb", true)};
}

Results decode(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  const NDArray bytes = dense_inputs(info, inputs, 1)[0];
  return one_result(image::imdecode(bytes, decode_options(info, texts), no_site), Context());
}

Results read(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  dense_inputs(info, inputs, 0);
  const std::string_view file = find_text(texts, "filename");
  if (file.empty()) throw ValueError(fmt::format("[{}] Required parameter filename is not presented", info.name));
  return one_result(image::imread(file, decode_options(info, texts), no_site), Context());
}

Results resize(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  const NDArray source = dense_inputs(info, inputs, 1)[0];
  const int w = attribute(info, texts, "w", 0), h = attribute(info, texts, "h", 0);
  return one_result(image::imresize(source, w, h, attribute(info, texts, "interp", 1), no_site), inputs[0]->context);
}

Results make_border(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  const NDArray source = dense_inputs(info, inputs, 1)[0];
  const int type = attribute(info, texts, "type", 0);
  if (type < 0 || type > int(image::Border::reflect_101)) refuse_text(info, "type", find_text(texts, "type"));
  const ops::FloatTuple given = attribute(info, texts, "values", ops::FloatTuple());
  const std::vector<double> values(given.data(), given.data() + given.size());
  const image::BorderOptions options{
      .type = image::Border(type), .value = attribute(info, texts, "value", 0.0), .values = values};
  const auto side = [&](const char* key) { return attribute(info, texts, key, 0); };
  return one_result(
      image::copyMakeBorder(source, side("top"), side("bot"), side("left"), side("right"), options, no_site),
      inputs[0]->context);
}

}  // namespace

void add_image_operators(AddLayerOperator add) {
  add("_cvimdecode", decode);
  add("_cvimread", read);
  add("_cvimresize", resize);
  add("_cvcopyMakeBorder", make_border);
}

}  // namespace kaon::mxnet
