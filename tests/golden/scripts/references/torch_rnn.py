"""PyTorch: recurrent layers, step by step, and CTC."""
import torch
import torch.nn.functional as nn

from formulae import formula

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def step(mode, x, sums, bias, h, c, bounds):
    """The state after one step, from W x and U h."""
    if mode == "lstm":
        i, f, g, o = (x + sums + bias).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        if bounds:
            c = c.clamp(*bounds)
        return torch.sigmoid(o) * torch.tanh(c), c
    if mode == "gru":
        (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), (sums + bias).chunk(3, 1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h, c
    return (torch.tanh if mode == "rnn_tanh" else torch.relu)(x + sums + bias), c


@formula("RNN")
def rnn(a, x):
    mode, hidden, layers = a.get("mode"), a.get("state_size"), a.get("num_layers")
    directions, projection = 2 if a.get("bidirectional") else 1, a.get("projection_size")
    bounds = None if a.get("lstm_state_clip_min") is None else (a.get("lstm_state_clip_min"), a.get("lstm_state_clip_max"))
    data, flat, state = x[:3]
    steps, batch, rows, result = data.shape[0], data.shape[1], GATES[mode] * hidden, projection or hidden
    length = x[-1].clamp(0, steps) if a.get("use_sequence_length") else torch.full((batch,), steps)
    at = 0

    def take(*shape):
        nonlocal at
        n = torch.Size(shape).numel()
        at += n
        return flat[at - n:at].reshape(shape)

    weights = []
    for layer in range(layers):
        for _ in range(directions):
            weights.append([take(rows, result * directions if layer else data.shape[2]), take(rows, result)])
            weights[-1].append(take(projection, hidden) if projection else None)
    biases = [(take(rows), take(rows)) for _ in weights]
    last_h, last_c = [], []
    for layer in range(layers):
        sides = []
        for direction in range(directions):
            i = layer * directions + direction
            (w, u, v), (b, b2) = weights[i], biases[i]
            h, c = state[i], x[3][i] if mode == "lstm" else None
            y = [None] * steps
            for t in range(steps) if direction == 0 else reversed(range(steps)):
                runs = (t < length)[:, None]
                new_h, new_c = step(mode, data[t] @ w.T + b, h @ u.T, b2, h, c, bounds)
                if projection:
                    new_h = new_h @ v.T
                y[t] = torch.where(runs, new_h, torch.zeros_like(new_h))
                h = torch.where(runs, new_h, h)
                c = torch.where(runs, new_c, c) if mode == "lstm" else None
            sides.append(torch.stack(y) if steps else data.new_zeros((0, batch, result)))
            last_h.append(h)
            last_c.append(c)
        data = torch.cat(sides, 2)
    outputs = [data]
    if a.get("state_outputs"):
        outputs.append(torch.stack(last_h))
        if mode == "lstm":
            outputs.append(torch.stack(last_c))
    return outputs


@formula("_rnn_param_concat")
def rnn_param_concat(a, x):
    return torch.cat(x, a.get("dim", 1))


@formula("CTCLoss")
def ctc_loss(a, x):
    data, label = x[0], x[1].to(torch.int64)
    steps, batch, classes = data.shape
    first = a.get("blank_label", "first") == "first"
    steps_of, count = torch.full((batch,), steps), None
    more = list(x[2:])
    if a.get("use_data_lengths"):
        steps_of = more.pop(0).to(torch.int64)
    if a.get("use_label_lengths"):
        count = more.pop(0).to(torch.int64)
    else:
        count = (label != (0 if first else -1)).to(torch.int64).cumprod(1).sum(1)
    if batch == 0:
        return data.sum((0, 2))
    used = torch.arange(label.shape[1]) < count[:, None]
    label = torch.where(used, label, torch.full_like(label, 1 if first else 0))
    return nn.ctc_loss(nn.log_softmax(data, 2), label, steps_of, count, 0 if first else classes - 1, "none", True)
