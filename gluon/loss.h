// Losses: how far predictions are from labels, one number per sample. The headers in gluon/loss/ have them.
//
// All losses are hybrid blocks. Unless their header says otherwise they are called as loss(pred, label) or loss(pred,
// label, sample_weight), and give (batch,): the mean over all axes but batch_axis. The label is reshaped like pred,
// except class numbers and KLDivLoss's. sample_weight is multiplied to the element losses and must broadcast to their
// shape, which is that of pred (for SoftmaxCrossEntropyLoss with 1 class): (batch, 1) for (batch, classes). `weight`
// scales everything. Labels and weights have pred's dtype, but for class numbers and lengths. Throw what the operators
// throw: ShapeError and TypeError for arrays that do not fit.
//
// A TrainingStep calls its loss as loss(net(data), label). For other arguments give it a function of two Symbols that
// takes them from the label, as [loss](const Symbol& y, const Symbol& pair) { auto p = sym.split(pair, 2); ... }.
#pragma once

#include "kaon/gluon/loss/binary.h"
#include "kaon/gluon/loss/ctc.h"
#include "kaon/gluon/loss/embedding.h"
#include "kaon/gluon/loss/regression.h"
#include "kaon/gluon/loss/softmax.h"
