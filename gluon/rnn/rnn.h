// All recurrent layers and cells.
#pragma once

#include "kaon/gluon/rnn/cell_stack.h"
#include "kaon/gluon/rnn/conv_rnn_cell.h"
#include "kaon/gluon/rnn/dynamic_unroll.h"
#include "kaon/gluon/rnn/modifier_cell.h"
#include "kaon/gluon/rnn/rnn_cell.h"
#include "kaon/gluon/rnn/rnn_layer.h"
