#!/usr/bin/env python3
"""Lets MXNet 1.9.1 write the small files that the tests read: python3 make_with_mxnet.py [folder]

Ran with CPython 3.11, mxnet==1.9.1 and numpy==1.23.5 from PyPI (newer numpy lacks what mxnet imports).
Array k of a list holds k, k + 1, k + 2, ... in its element type.
"""
import pathlib
import sys

import mxnet as mx
import numpy as np


def ramp(shape, dtype, start):
    size = int(np.prod(shape))
    values = (np.arange(size) + start).reshape(shape)
    return mx.nd.array(values % 2 if dtype == "bool" else values, dtype=dtype)


def arrays(folder):
    types = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]
    mx.nd.save(str(folder / "dtypes.params"), {f"arg:{t}": ramp((2, 3), t, k) for k, t in enumerate(types)})
    mx.nd.save(str(folder / "list.nd"), [ramp((3,), "float32", 0), ramp((1, 2, 2), "float32", 1)])
    mx.nd.save(str(folder / "row_sparse.nd"), ramp((4, 2), "float32", 1).tostype("row_sparse"))
    mx.nd.save(str(folder / "csr.nd"), ramp((4, 2), "float32", 1).tostype("csr"))
    with mx.util.np_shape(True):
        scalar = mx.np.array(7.0, dtype="float32")
        mx.nd.save(str(folder / "numpy.params"),
                   {"scalar": scalar.as_nd_ndarray(), "empty": mx.nd.zeros((0, 3)), "matrix": ramp((2, 3), "float32", 2)})


def perceptron():
    data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
    x = mx.sym.FullyConnected(data, mx.sym.var("fc1_weight"), mx.sym.var("fc1_bias"), num_hidden=16, name="fc1")
    x = mx.sym.Activation(x, act_type="relu", name="relu1")
    x = mx.sym.FullyConnected(x, mx.sym.var("fc2_weight"), num_hidden=3, no_bias=True, flatten=False, name="fc2")
    return mx.sym.SoftmaxOutput(x, label, name="softmax")


def shared_statistics():
    """BatchNorm twice over the same running statistics, several outputs, several heads."""
    x = mx.sym.var("data")
    bn = [mx.sym.var(n) for n in ("gamma", "beta", "running_mean", "running_var")]
    a = mx.sym.BatchNorm(x, *bn, fix_gamma=False, eps=1e-05, name="bn_a")
    b = mx.sym.BatchNorm(a, *bn, fix_gamma=False, eps=1e-05, name="bn_b")
    parts = mx.sym.SliceChannel(b, num_outputs=2, name="split")
    joined = mx.sym.Concat(parts[1], parts[0], b, name="concat")
    pooled = mx.sym.Pooling(joined, kernel=(3, 3), stride=(2, 2), pool_type="avg", name="pool")
    return mx.sym.Group([mx.sym.Dropout(pooled, p=0.25, name="drop"), a])


def many_inputs():
    x = [mx.sym.var(f"x{i}") for i in range(11)]
    total = mx.sym.add_n(*x, name="total")
    return mx.sym.transpose(mx.sym.reshape(total, shape=(0, -1), name="flat"), axes=(1, 0), name="turn")


def recurrent():
    """A loop in a loop, the outer one with a variable and a value of the program around it."""
    x, w = mx.sym.var("x"), mx.sym.var("w")
    scaled = mx.sym.exp(w, name="scaled")

    def step(row, state):
        h = mx.sym.tanh(mx.sym.dot(row, scaled) + mx.sym.dot(state, w))
        products, _ = mx.sym.contrib.foreach(lambda a, b: (a * b, b + a), h, mx.sym.sum(h, axis=0), name="inner")
        return [products, h], h

    outputs, last = mx.sym.contrib.foreach(step, x, mx.sym.var("h"), name="loop")
    return mx.sym.Group(outputs + [last])


def counting():
    """A loop whose condition and body use other values, in another order, and which returns a loop variable."""
    i, s, w, limit = (mx.sym.var(n) for n in ("i", "s", "w", "limit"))
    outputs, last = mx.sym.contrib.while_loop(lambda i, s: i < limit, lambda i, s: ([mx.sym.dot(s, w), i], [i + 1, s * 2]),
                                              [i, s], max_iterations=4)
    return mx.sym.Group(outputs + last)


def choice():
    p, a, b = (mx.sym.var(n) for n in ("p", "a", "b"))
    return mx.sym.Group(mx.sym.contrib.cond(p, lambda: [a * b, a + 1], lambda: [b - p, a]))


def control_flow(folder):
    """The symbols, and what MXNet computes for ramps from -1 in steps of 1 / 8, but for these scalars."""
    scalars = {"i": 0, "limit": 3, "p": 1}
    shapes = {"x": (3, 1, 2), "h": (1, 2), "w": (2, 2), "s": (1, 2), "a": (2, 2), "b": (2, 2)}

    def value(name):
        if name in scalars:
            return mx.nd.array([scalars[name]])
        return mx.nd.array(np.arange(np.prod(shapes[name])).reshape(shapes[name]) / 8 - 1)

    results = {}
    for name, symbol in (("foreach", recurrent()), ("while_loop", counting()), ("cond", choice())):
        (folder / f"{name}-symbol.json").write_text(symbol.tojson())
        again = mx.sym.load(str(folder / f"{name}-symbol.json"))
        outputs = again.bind(mx.cpu(), {n: value(n) for n in again.list_arguments()}).forward()
        if name == "while_loop":
            outputs[:2] = [y[:3] for y in outputs[:2]]  # of iterations that were not made MXNet leaves noise
        results.update({f"{name}{k}": y for k, y in enumerate(outputs)})
    mx.nd.save(str(folder / "control_flow.nd"), results)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    arrays(folder)
    control_flow(folder)
    for symbol, name in ((perceptron(), "perceptron"), (shared_statistics(), "shared_statistics"),
                         (many_inputs(), "many_inputs")):
        (folder / f"{name}-symbol.json").write_text(symbol.tojson())


main()
