"""Cases of recurrent layers and of CTC."""
import numpy as np

from cases_elementwise import describe
from draw import REALS, case
from tensors import Tensor

MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def parameters(mode, inputs, hidden, layers, directions, projection):
    """How many numbers the flat parameters are."""
    rows, result, total = GATES[mode] * hidden, projection or hidden, 0
    for layer in range(layers):
        width = result * directions if layer else inputs
        total += directions * (rows * (width + result + 2) + (projection or 0) * hidden)
    return total


@describe("RNN", "rnn", 85)
def rnn(name, d):
    dtype, mode = d.dtype(REALS), MODES[d.number % 4]
    steps, batch, inputs, hidden = d.integer(1, 6), d.pick(1, 2, 3), d.pick(1, 2, 3, 4), d.pick(1, 2, 3, 5)
    layers, directions = d.pick(1, 1, 2, 3), d.pick(1, 2)
    if d.number % 11 == 4:
        steps, batch = d.pick((0, 2), (3, 0))
    if d.number % 11 == 6:
        steps, batch, hidden = 4, 5, 9
    attrs = {"mode": mode, "state_size": hidden, "num_layers": layers}
    if directions == 2 or d.chance(0.2):
        attrs["bidirectional"] = directions == 2
    if d.chance(0.6):
        attrs["state_outputs"] = True
    wants, projection, lengths = True, None, []
    turn = d.number // 4 % 6
    if turn == 1:
        lengths = [Tensor("int32", d.random.randint(0, steps + 2, batch))]
        attrs["use_sequence_length"] = True
    elif turn == 2 and mode == "lstm":
        projection = attrs["projection_size"] = d.pick(1, 2, 3)
        wants = d.chance(0.5)
    elif turn == 3 and mode == "lstm":
        attrs.update(lstm_state_clip_min=-0.25, lstm_state_clip_max=d.pick(0.5, 0.125))
        if d.chance(0.5):
            attrs["lstm_state_clip_nan"] = True
    elif turn == 4:  # without training it drops nothing
        attrs["p"], wants = 0.5, False
    cells, result = layers * directions, projection or hidden
    count = parameters(mode, inputs, hidden, layers, directions, projection)
    arrays = [d.values((steps, batch, inputs), dtype, d.pick("normal", "ties", "tiny")), d.values((count,), dtype, "unit"),
              d.values((cells, batch, result), dtype, "unit")]
    if mode == "lstm":
        arrays.append(d.values((cells, batch, hidden), dtype, "normal"))
    return case(name, arrays + lengths, attrs, wants=[wants] * len(arrays) + [False] * len(lengths))


@describe("_rnn_param_concat", "rnn", 10)
def rnn_param_concat(name, d):
    dtype, dim = d.dtype(REALS), d.pick(0, 0, 1)
    count, shape = d.integer(1, 5), list(d.dims(dim + 1, 2, zero=False))
    inputs = []
    for _ in range(count):
        shape[dim] = d.pick(1, 2, 3, 7)
        inputs.append(d.values(tuple(shape), dtype))
    return case(name, inputs, {"dim": dim, "num_args": count})


@describe("CTCLoss", "rnn", 32)
def ctc_loss(name, d):
    dtype = d.dtype(REALS)
    steps, batch, classes = d.integer(2, 9), d.pick(1, 2, 3, 5), d.pick(2, 3, 4, 7)
    if d.number % 11 == 4:
        batch = 0
    if d.number % 11 == 6:
        steps, batch, classes = 12, 3, 9
    most = d.integer(1, max(2, steps // 2 + 1))
    attrs, first = {}, True
    if d.chance(0.5):
        first = d.chance(0.3)
        attrs["blank_label"] = "first" if first else "last"
    given = d.chance(0.4)
    labels = d.random.randint(1 if first else 0, classes if first else classes - 1, (batch, most))
    counts = d.random.randint(0, most + 1, batch)
    if batch:
        counts[d.integer(0, batch)] = most
    if not given:
        labels = np.where(np.arange(most) < counts[:, None], labels, 0 if first else -1)
    label_dtype = d.pick("float32", "int32", "int64", "float64")
    arrays = [d.values((steps, batch, classes), dtype, d.pick("normal", "ties", "large", "tiny")),
              Tensor(label_dtype, labels)]
    if d.chance(0.4):
        attrs["use_data_lengths"] = True
        arrays.append(Tensor(dtype, d.random.randint(0, steps + 1, batch)))
    if given:
        attrs["use_label_lengths"] = True
        arrays.append(Tensor(label_dtype, counts))
    return case(name, arrays, attrs, wants=[True] + [False] * (len(arrays) - 1))
