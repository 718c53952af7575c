// All layers but those that MXNet keeps in contrib.cnn: nn/deformable_conv.h.
#pragma once

#include "kaon/gluon/nn/activation.h"
#include "kaon/gluon/nn/basic.h"
#include "kaon/gluon/nn/conv.h"
#include "kaon/gluon/nn/dense.h"
#include "kaon/gluon/nn/norm.h"
#include "kaon/gluon/nn/pooling.h"
#include "kaon/gluon/nn/resize.h"
#include "kaon/gluon/nn/sequential.h"
#include "kaon/gluon/nn/transformer.h"
