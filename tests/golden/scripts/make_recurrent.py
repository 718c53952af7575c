"""Makes data/recurrent.params: what MXNet's gluon.rnn and gluon.contrib.rnn compute, one case a class and form.

For each case NAME the file holds NAME/param/KEY (KEY as save_parameters writes it), NAME/x, NAME/state/I,
NAME/valid_length where they are given, the results NAME/out and NAME/new/I, and the gradients NAME/grad/x,
NAME/grad/state/I and NAME/grad/param/KEY of the sum of all results, each element times head(its index).

    python make_recurrent.py                  makes the file
    python make_recurrent.py --load FOLDER    loads FOLDER/NAME.params, which Kaon wrote, into each block and compares
                                              its outputs with those in the file; exit status 77: no MXNet
"""
import os
import sys

try:
    import mxnet as mx
except ImportError:
    sys.exit(77)
import numpy as np
from mxnet import nd
from mxnet.gluon import contrib, rnn

FILE = os.path.join(os.path.dirname(__file__), "..", "data", "recurrent.params")


def layer(block, shape, states=True, grad=True):
    return dict(block=block, shape=shape, states=states, kind="layer", grad=grad)


def cell(block, shape, layout="NTC", lengths=None, states=True):
    return dict(block=block, shape=shape, layout=layout, lengths=lengths, states=states, kind="cell",
                grad=True)


def stack(*cells):
    s = rnn.HybridSequentialRNNCell()
    for c in cells:
        s.add(c)
    return s


def conv(name, *args, **kwargs):
    return getattr(contrib.rnn, name)(*args, **kwargs)


# The same blocks are in golden_recurrent_test.cpp, by name.
def cases():
    c = {}
    c["rnn_relu"] = layer(rnn.RNN(3, 2), (4, 2, 5))
    c["rnn_tanh_bi_ntc"] = layer(rnn.RNN(3, activation="tanh", bidirectional=True, layout="NTC"), (2, 4, 5))
    c["lstm"] = layer(rnn.LSTM(3), (4, 2, 5))
    c["lstm_zero_states"] = layer(rnn.LSTM(3, 2, layout="NTC"), (2, 3, 4), states=False)
    c["lstm_bi"] = layer(rnn.LSTM(3, 2, bidirectional=True), (4, 2, 5))
    c["lstm_projected"] = layer(rnn.LSTM(5, 2, projection_size=3), (4, 2, 6),
                                grad=False)  # refused on CPUs
    c["lstm_one"] = layer(rnn.LSTM(2), (1, 1, 3))
    c["gru"] = layer(rnn.GRU(3, 2), (4, 2, 5))
    c["gru_bi_ntc"] = layer(rnn.GRU(3, 2, bidirectional=True, layout="NTC"), (2, 4, 5))
    c["rnn_cell"] = cell(rnn.RNNCell(3), (2, 4, 5))
    c["rnn_cell_relu_tnc"] = cell(rnn.RNNCell(3, activation="relu"), (4, 2, 5), "TNC")
    c["lstm_cell"] = cell(rnn.LSTMCell(3), (2, 4, 5))
    c["lstm_cell_activations"] = cell(
        rnn.LSTMCell(3, activation="relu", recurrent_activation="softsign"), (2, 3, 5))
    c["lstm_cell_lengths"] = cell(rnn.LSTMCell(3), (3, 4, 5), lengths=[4, 1, 2])
    c["lstm_cell_one"] = cell(rnn.LSTMCell(2), (1, 1, 3))
    c["gru_cell"] = cell(rnn.GRUCell(3), (4, 2, 5), "TNC")
    c["gru_cell_zero_states"] = cell(rnn.GRUCell(3), (2, 4, 5), states=False)
    c["lstmp_cell"] = cell(contrib.rnn.LSTMPCell(5, 3), (2, 4, 6))
    c["stack"] = cell(stack(rnn.LSTMCell(4), rnn.DropoutCell(0.3), rnn.GRUCell(3)), (2, 4, 5))
    c["stack_lengths"] = cell(stack(rnn.RNNCell(4), rnn.LSTMCell(3)), (4, 3, 5), "TNC", lengths=[3, 4, 1])
    c["bidirectional"] = cell(rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.GRUCell(2)), (2, 4, 5))
    c["bidirectional_lengths"] = cell(
        rnn.BidirectionalCell(rnn.GRUCell(3), rnn.GRUCell(3)), (4, 3, 5), "TNC", lengths=[2, 4, 3])
    c["bidirectional_stack"] = cell(
        stack(rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3)),
              rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.LSTMCell(2))), (2, 4, 5))
    c["residual"] = cell(rnn.ResidualCell(rnn.GRUCell(5)), (2, 4, 5))
    c["residual_lengths"] = cell(rnn.ResidualCell(rnn.LSTMCell(5)), (3, 4, 5), lengths=[2, 4, 1])
    c["zoneout"] = cell(rnn.ZoneoutCell(rnn.LSTMCell(3), 0.3, 0.2), (2, 4, 5))
    c["vardrop"] = cell(contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(3), 0.3, 0.2, 0.4), (2, 4, 5))
    c["vardrop_whole"] = cell(
        contrib.rnn.VariationalDropoutCell(rnn.GRUCell(3), 0.3, 0.0, 0.4), (3, 4, 5), lengths=[2, 4, 1])
    spaces = {1: (6,), 2: (4, 5), 3: (3, 4, 3)}
    for d in (1, 2, 3):
        for kind in ("RNN", "LSTM", "GRU"):
            block = conv("Conv%dD%sCell" % (d, kind), (2,) + spaces[d], 3, 3, 3, i2h_pad=1)
            c["conv%d_%s" % (d, kind.lower())] = cell(block, (2, 3, 2) + spaces[d])
    c["conv2_lstm_uneven"] = cell(
        conv("Conv2DLSTMCell", (2, 5, 4), 3, (3, 2), (1, 3), i2h_pad=(0, 1), h2h_dilate=(1, 2), activation="relu"),
        (2, 3, 2, 5, 4))
    return c


def head(shape):
    i = np.arange(int(np.prod(shape)))
    return nd.array((i * 7919 % 1000 / 1000.0 - 0.5).astype(np.float32).reshape(shape))


def run(case, x, states, lengths):
    block = case["block"]
    if case["kind"] == "layer":
        if not case["states"]:
            return block(x), []
        return block(x, states)
    time = case["layout"].find("T")
    return block.unroll(x.shape[time], x, states if case["states"] else None, case["layout"], True, lengths)


def state_infos(case):
    batch_axis = 0
    if case["kind"] == "layer":
        batch_axis = case["block"]._layout.find("N")
    else:
        batch_axis = case["layout"].find("N")
    return case["block"].state_info(case["shape"][batch_axis])


def lengths_of(case):
    return nd.array(case["lengths"]) if case.get("lengths") else None


def structural(block):
    return block._collect_params_with_prefix()


def make():
    rng = np.random.RandomState(21)
    draw = lambda shape: nd.array(rng.uniform(-1, 1, shape).astype(np.float32))
    data = {}
    for name, case in cases().items():
        block = case["block"]
        block.initialize()
        x = draw(case["shape"])
        states = [draw(s["shape"]) for s in state_infos(case)] if case["states"] else []
        lengths = lengths_of(case)
        run(case, x, states, lengths)  # completes shapes
        for key, p in structural(block).items():
            p.set_data(draw(p.shape) * 0.5)
            data["%s/param/%s" % (name, key)] = p.data()
        for a in [x] + states:
            a.attach_grad()
        if case["grad"]:
            with mx.autograd.record(train_mode=False):
                out, new = run(case, x, states, lengths)
                loss = (out * head(out.shape)).sum()
                for s in new:
                    loss = loss + (s * head(s.shape)).sum()
            loss.backward()
            data[name + "/grad/x"] = x.grad
            for i, s in enumerate(states):
                data["%s/grad/state/%d" % (name, i)] = s.grad
            for key, p in structural(block).items():
                data["%s/grad/param/%s" % (name, key)] = p.grad()
        else:
            out, new = run(case, x, states, lengths)
        data[name + "/x"], data[name + "/out"] = x, out
        for i, s in enumerate(states):
            data["%s/state/%d" % (name, i)] = s
        for i, s in enumerate(new):
            data["%s/new/%d" % (name, i)] = s
        if lengths is not None:
            data[name + "/valid_length"] = lengths
    nd.save(FILE, data)


def load(folder):
    data = nd.load(FILE)
    for name, case in cases().items():
        case["block"].load_parameters(os.path.join(folder, name + ".params"))
        states = [data["%s/state/%d" % (name, i)] for i in range(len(state_infos(case)))] if case["states"] else []
        out, _ = run(case, data[name + "/x"], states, data.get(name + "/valid_length"))
        expected = data[name + "/out"].asnumpy()
        if not np.allclose(out.asnumpy(), expected, rtol=1e-5, atol=1e-6):
            sys.exit("%s differs" % name)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--load":
        load(sys.argv[2])
    else:
        make()
