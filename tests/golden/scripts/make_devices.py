"""Writes ../data/devices.json: a net trained on cpu(0) and cpu(1) by MXNet 1.9.1, and what its KVStore gives.

    MXNET_SUBGRAPH_BACKEND=NONE python make_devices.py
"""
import json
import os

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

DEVICES = [mx.cpu(0), mx.cpu(1)]
STEPS, BATCH = 6, 5  # 3 samples on the first device, 2 on the second


def flat(a):
    return [float(v) for v in a.asnumpy().flatten()]


def train(optimizer, options, apart):
    rng = np.random.RandomState(3)
    net = gluon.nn.HybridSequential(prefix="")
    net.add(gluon.nn.Dense(4, activation="tanh", in_units=3), gluon.nn.Dense(2, in_units=4))
    net.initialize(ctx=DEVICES)
    start = [rng.uniform(-1, 1, p.shape).astype("float32") for p in net.collect_params().values()]
    for p, v in zip(net.collect_params().values(), start):
        p.set_data(nd.array(v))
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options), kvstore="device",
                            update_on_kvstore=False if apart else None)
    loss = gluon.loss.L2Loss()
    steps = []
    for _ in range(STEPS):
        x, y = rng.randn(BATCH, 3).astype("float32"), rng.randn(BATCH, 2).astype("float32")
        xs = gluon.utils.split_and_load(nd.array(x), DEVICES, even_split=False)
        ys = gluon.utils.split_and_load(nd.array(y), DEVICES, even_split=False)
        with autograd.record():
            losses = [loss(net(a), b) for a, b in zip(xs, ys)]
        for part in losses:
            part.backward()
        if apart:
            trainer.allreduce_grads()
            sums = [flat(p.grad(mx.cpu(1))) for p in net.collect_params().values()]
            trainer.update(BATCH)
        else:
            sums = []
            trainer.step(BATCH)
        steps.append({"x": flat(nd.array(x)), "y": flat(nd.array(y)), "sums": sums,
                      "sizes": [a.shape[0] for a in xs],
                      "weights": [[flat(p.data(d)) for d in DEVICES] for p in net.collect_params().values()]})
    return {"optimizer": optimizer, "apart": apart, "start": [[float(v) for v in s.flatten()] for s in start],
            "steps": steps}


def store():
    """Values after each call of a store with and without an optimizer."""
    log = []
    kv = mx.kv.create("local")
    out = [nd.zeros((2, 3), ctx=d) for d in DEVICES]

    def pulled():
        kv.pull("w", out=out)
        log.append([flat(o) for o in out])

    ones = [nd.ones((2, 3), ctx=d) * (i + 1) for i, d in enumerate(DEVICES)]
    kv.init("w", nd.ones((2, 3)) * 10)
    pulled()
    kv.push("w", ones)
    pulled()
    kv.pushpull("w", ones, out=out)
    log.append([flat(o) for o in out])
    # a new store: a value that a push has replaced has the memory of the sums of later pushes, a fault of MXNet
    kv = mx.kv.create("device")
    kv.init("w", nd.ones((2, 3)) * 10)
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
    for _ in range(2):
        kv.push("w", ones)
        pulled()
    return log


def main():
    cases = [train("sgd", {"learning_rate": 0.2, "momentum": 0.9}, False),
             train("sgd", {"learning_rate": 0.2, "momentum": 0.9}, True),
             train("adam", {"learning_rate": 0.05}, False)]
    path = os.path.join(os.path.dirname(__file__), "..", "data", "devices.json")
    with open(path, "w") as file:
        json.dump({"mxnet": mx.__version__, "cases": cases, "store": store()}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
