// Kaon: Gluon in C++, asynchronous to the core. The one header that programs include.
// Asio's completion tokens (x.async_wait(token)) are in kaon/asio.h.
#pragma once

#include "kaon/engine/engine.h"
#include "kaon/engine/generator.h"
#include "kaon/engine/task.h"
#include "kaon/engine/trace.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/mnist.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/lr_scheduler.h"
#include "kaon/gluon/metric.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/summary.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/trainer.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/ops/random_state.h"
