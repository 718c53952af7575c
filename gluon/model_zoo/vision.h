// The nets of MXNet's gluon.model_zoo.vision, by name: model_zoo::vision::get_model("mobilenet1.0").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::vision {

struct ModelOptions {
  int64_t classes = 1000;
  bool thumbnail = false;   // resnets alone: for small images, begins with one 3x3 convolution
  double dropout = 0;       // densenets alone: after each of their layers
  bool pretrained = false;  // refused: nothing is downloaded, call load_parameters with a file
};

// Images (batch, channels, height, width) to (batch, classes). A handle on a block; save_parameters has the names of
// MXNet's ("features.0.weight"), so that files of parameters go both ways. For another head:
// net.replace_child("output", net.output, nn::Dense(10)).
struct Model : HybridBlock<Model> {
  // y = output(features(x)). `hint` is the class name. Throws ValueError when `output` cannot be traced.
  Model(std::string_view hint, const nn::HybridSequential& features, const nn::AnyBlock& output);
  auto hybrid_forward(auto, auto x) { return output(features(x)); }

  nn::HybridSequential features;
  nn::AnyBlock output;
};

// A net that is not initialized yet. Upper and lower case are the same. Throws ValueError for a name that there is not,
// listing those that there are, and for options that the net does not have. Does not block. Calls throw ShapeError for
// images too small for the last pooling. Least sizes: densenets 221, squeezenet1.0 213, squeezenet1.1 209, inceptionv3
// 299, alexnet 63, vggs 32.
KAON_API Model get_model(std::string_view name, const ModelOptions& options = {});

// The names that get_model takes, all 34 of MXNet's.
KAON_API std::vector<std::string> model_names();

// The nets by MXNet's functions; resnet18_v1 to resnet152_v1 are in resnet.h.
inline Model resnet18_v2(const ModelOptions& options = {}) { return get_model("resnet18_v2", options); }
inline Model resnet34_v2(const ModelOptions& options = {}) { return get_model("resnet34_v2", options); }
inline Model resnet50_v2(const ModelOptions& options = {}) { return get_model("resnet50_v2", options); }
inline Model resnet101_v2(const ModelOptions& options = {}) { return get_model("resnet101_v2", options); }
inline Model resnet152_v2(const ModelOptions& options = {}) { return get_model("resnet152_v2", options); }
inline Model vgg11(const ModelOptions& options = {}) { return get_model("vgg11", options); }
inline Model vgg13(const ModelOptions& options = {}) { return get_model("vgg13", options); }
inline Model vgg16(const ModelOptions& options = {}) { return get_model("vgg16", options); }
inline Model vgg19(const ModelOptions& options = {}) { return get_model("vgg19", options); }
inline Model vgg11_bn(const ModelOptions& options = {}) { return get_model("vgg11_bn", options); }
inline Model vgg13_bn(const ModelOptions& options = {}) { return get_model("vgg13_bn", options); }
inline Model vgg16_bn(const ModelOptions& options = {}) { return get_model("vgg16_bn", options); }
inline Model vgg19_bn(const ModelOptions& options = {}) { return get_model("vgg19_bn", options); }
inline Model alexnet(const ModelOptions& options = {}) { return get_model("alexnet", options); }
inline Model densenet121(const ModelOptions& options = {}) { return get_model("densenet121", options); }
inline Model densenet161(const ModelOptions& options = {}) { return get_model("densenet161", options); }
inline Model densenet169(const ModelOptions& options = {}) { return get_model("densenet169", options); }
inline Model densenet201(const ModelOptions& options = {}) { return get_model("densenet201", options); }
inline Model squeezenet1_0(const ModelOptions& options = {}) { return get_model("squeezenet1.0", options); }
inline Model squeezenet1_1(const ModelOptions& options = {}) { return get_model("squeezenet1.1", options); }
inline Model inception_v3(const ModelOptions& options = {}) { return get_model("inceptionv3", options); }
inline Model mobilenet1_0(const ModelOptions& options = {}) { return get_model("mobilenet1.0", options); }
inline Model mobilenet0_75(const ModelOptions& options = {}) { return get_model("mobilenet0.75", options); }
inline Model mobilenet0_5(const ModelOptions& options = {}) { return get_model("mobilenet0.5", options); }
inline Model mobilenet0_25(const ModelOptions& options = {}) { return get_model("mobilenet0.25", options); }
inline Model mobilenet_v2_1_0(const ModelOptions& options = {}) { return get_model("mobilenetv2_1.0", options); }
inline Model mobilenet_v2_0_75(const ModelOptions& options = {}) { return get_model("mobilenetv2_0.75", options); }
inline Model mobilenet_v2_0_5(const ModelOptions& options = {}) { return get_model("mobilenetv2_0.5", options); }
inline Model mobilenet_v2_0_25(const ModelOptions& options = {}) { return get_model("mobilenetv2_0.25", options); }

}  // namespace gluon::model_zoo::vision
}  // namespace kaon
