// Metrics: figures over many batches, added up on the engine. The headers in gluon/metric/ have them.
#pragma once

#include "kaon/gluon/metric/classification.h"
#include "kaon/gluon/metric/composite.h"
#include "kaon/gluon/metric/custom.h"
#include "kaon/gluon/metric/eval_metric.h"
#include "kaon/gluon/metric/probability.h"
#include "kaon/gluon/metric/regression.h"
