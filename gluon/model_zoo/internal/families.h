// The families of nets that get_model chooses from. For the sources of gluon/model_zoo/.
#pragma once

#include "kaon/gluon/model_zoo/vision.h"

namespace kaon::gluon::model_zoo::vision::detail {

Model resnet_v1(int num_layers, const ModelOptions& options);
Model resnet_v2(int num_layers, const ModelOptions& options);
Model vgg(int num_layers, bool batch_norm, const ModelOptions& options);
Model alexnet(const ModelOptions& options);
Model densenet(int num_layers, const ModelOptions& options);
Model squeezenet(int minor_version, const ModelOptions& options);  // 1.0 or 1.1
Model inception_v3(const ModelOptions& options);
// `quarters` of the full numbers of channels, 1 to 4.
Model mobilenet(int quarters, const ModelOptions& options);
Model mobilenet_v2(int quarters, const ModelOptions& options);

}  // namespace kaon::gluon::model_zoo::vision::detail
