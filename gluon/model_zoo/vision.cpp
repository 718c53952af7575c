#include "kaon/gluon/model_zoo/vision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision {

Model::Model(std::string_view hint, const nn::HybridSequential& features, const nn::AnyBlock& output)
    : HybridBlock(hint), features(child("features", features)), output(child("output", output)) {
  if (!output.is_hybrid())
    throw ValueError(fmt::format("[{}] output must be a HybridBlock, got a {}", hint, output.class_name()));
}

namespace {

using Options = const ModelOptions&;

struct Entry {
  const char* name;
  Model (*make)(Options);
};

template <int num_layers>
Model resnet_v1(Options o) {
  return detail::resnet_v1(num_layers, o);
}
template <int num_layers>
Model resnet_v2(Options o) {
  return detail::resnet_v2(num_layers, o);
}
template <int num_layers, bool batch_norm>
Model vgg(Options o) {
  return detail::vgg(num_layers, batch_norm, o);
}
template <int num_layers>
Model densenet(Options o) {
  return detail::densenet(num_layers, o);
}
template <int minor_version>
Model squeezenet(Options o) {
  return detail::squeezenet(minor_version, o);
}
template <int quarters>
Model mobilenet(Options o) {
  return detail::mobilenet(quarters, o);
}
template <int quarters>
Model mobilenet_v2(Options o) {
  return detail::mobilenet_v2(quarters, o);
}

constexpr Entry models[] = {{"resnet18_v1", resnet_v1<18>},
                            {"resnet34_v1", resnet_v1<34>},
                            {"resnet50_v1", resnet_v1<50>},
                            {"resnet101_v1", resnet_v1<101>},
                            {"resnet152_v1", resnet_v1<152>},
                            {"resnet18_v2", resnet_v2<18>},
                            {"resnet34_v2", resnet_v2<34>},
                            {"resnet50_v2", resnet_v2<50>},
                            {"resnet101_v2", resnet_v2<101>},
                            {"resnet152_v2", resnet_v2<152>},
                            {"vgg11", vgg<11, false>},
                            {"vgg13", vgg<13, false>},
                            {"vgg16", vgg<16, false>},
                            {"vgg19", vgg<19, false>},
                            {"vgg11_bn", vgg<11, true>},
                            {"vgg13_bn", vgg<13, true>},
                            {"vgg16_bn", vgg<16, true>},
                            {"vgg19_bn", vgg<19, true>},
                            {"alexnet", detail::alexnet},
                            {"densenet121", densenet<121>},
                            {"densenet161", densenet<161>},
                            {"densenet169", densenet<169>},
                            {"densenet201", densenet<201>},
                            {"squeezenet1.0", squeezenet<0>},
                            {"squeezenet1.1", squeezenet<1>},
                            {"inceptionv3", detail::inception_v3},
                            {"mobilenet1.0", mobilenet<4>},
                            {"mobilenet0.75", mobilenet<3>},
                            {"mobilenet0.5", mobilenet<2>},
                            {"mobilenet0.25", mobilenet<1>},
                            {"mobilenetv2_1.0", mobilenet_v2<4>},
                            {"mobilenetv2_0.75", mobilenet_v2<3>},
                            {"mobilenetv2_0.5", mobilenet_v2<2>},
                            {"mobilenetv2_0.25", mobilenet_v2<1>}};

}  // namespace

Model get_model(std::string_view name, const ModelOptions& options) {
  std::string lower(name);
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find(models, lower, [](const Entry& e) { return std::string_view(e.name); });
  if (found == std::end(models)) {
    throw ValueError(
        fmt::format("[get_model] there is no model '{}'; there are: {}", name, fmt::join(model_names(), ", ")));
  }
  if (options.pretrained) {
    throw ValueError(fmt::format(
        "[get_model] {}: pretrained is not supported, since nothing is downloaded; call load_parameters with a file "
        "that MXNet's save_parameters or model store wrote",
        found->name));
  }
  if (options.thumbnail && !lower.starts_with("resnet"))
    throw ValueError(fmt::format("[get_model] {}: thumbnail is an option of resnets alone", found->name));
  if (options.dropout != 0 && !lower.starts_with("densenet"))
    throw ValueError(fmt::format("[get_model] {}: dropout is an option of densenets alone", found->name));
  return found->make(options);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : models) names.emplace_back(e.name);
  return names;
}

}  // namespace kaon::gluon::model_zoo::vision
