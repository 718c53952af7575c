#!/usr/bin/env python3
"""Writes model_zoo.json, what MXNet 1.9.1 says of its residual networks: python3 make_model_zoo.py [folder]

Ran with CPython 3.11, mxnet==1.9.1 and numpy==1.23.5 from PyPI (newer numpy lacks what mxnet imports).
The names and shapes that save_parameters writes, how many parameters every depth has, and outputs (of one net
gradients too) with parameters and images from a formula, so that nothing large is stored: element i of array k is
low + (high - low) * u with u in [0, 1) from a hash of i and k.
"""
import json
import pathlib
import sys

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision


def values(shape, k, low, high):
    """k: position of the parameter in the file; -1 for the images."""
    h = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32((k + 2) * 40503)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h = h ^ (h >> np.uint32(13))
    u = (h >> np.uint32(8)).astype(np.float64) / 2**24
    return (low + (high - low) * u).astype(np.float32).reshape(shape)


def bounds(name, shape):
    last = name.rsplit(".", 1)[1]
    if last == "weight":
        bound = float(np.sqrt(6.0 / np.prod(shape[1:])))  # keeps the size of the values from layer to layer
        return -bound, bound
    return {"gamma": (0.5, 1.5), "running_var": (0.5, 1.5)}.get(last, (-0.25, 0.25))


def parameters(net, size):
    net.initialize()
    net(mx.nd.zeros((1, 3, size, size)))
    return net._collect_params_with_prefix()


def structure(name, thumbnail):
    net = getattr(vision, name)(thumbnail=thumbnail, classes=10 if thumbnail else 1000)
    return [[n, list(p.shape)] for n, p in parameters(net, 32).items()]


def sums(array):
    a = array.asnumpy().astype(np.float64)
    return [float(a.sum()), float(np.abs(a).sum())]


def predict(net, size):
    found = parameters(net, size)
    for k, (name, p) in enumerate(found.items()):
        p.set_data(mx.nd.array(values(p.shape, k, *bounds(name, p.shape))))
    x = mx.nd.array(values((2, 3, size, size), -1, -1, 1))
    return found, x, {"size": size, "predicted": net(x).asnumpy().astype(np.float64).flatten().tolist()}


def train(net, size):
    found, x, result = predict(net, size)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward(mx.nd.array(np.arange(y.size, dtype=np.float32).reshape(y.shape) / 10 - 1))
    result["trained"] = y.asnumpy().astype(np.float64).flatten().tolist()
    result["gradients"] = {n: sums(p.grad()) for n, p in found.items() if p.grad_req != "null"}
    result["gradients"]["data"] = sums(x.grad)
    result["statistics"] = {n: sums(p.data()) for n, p in found.items() if p.grad_req == "null"}
    return result


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    names = [f"resnet{n}_v1" for n in (18, 34, 50, 101, 152)]
    nets = {n: structure(n, False) for n in names[:3:2]}
    nets.update({f"{n} thumbnail": structure(n, True) for n in names[:3:2]})
    sizes = {}
    for n in names:
        shapes = [shape for _, shape in structure(n, False)]
        sizes[n] = [len(shapes), int(sum(np.prod(s) for s in shapes))]
    golden = {"18": predict(vision.resnet18_v1(classes=10), 45)[2],
              "50": predict(vision.resnet50_v1(classes=10), 45)[2],
              "50 thumbnail": predict(vision.resnet50_v1(classes=10, thumbnail=True), 15)[2],
              "18 thumbnail": train(vision.resnet18_v1(classes=10, thumbnail=True), 32)}
    # a line per parameter, net or value
    text = ",\n".join(f"{json.dumps(n)}: [\n" + ",\n".join(map(json.dumps, p)) + "\n]" for n, p in nets.items())
    text = f'{{\n"parameters": {{\n{text}\n}},\n"sizes": {json.dumps(sizes)},\n"outcomes": {{\n'
    for n, values_of in golden.items():
        lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in values_of.items())
        text += f'"{n}": {{\n{lines}\n}}' + (",\n" if n != list(golden)[-1] else "\n")
    (folder / "model_zoo.json").write_text(text + "}\n}\n")


main()
