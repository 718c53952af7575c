#!/usr/bin/env python3
"""Writes model_zoo_models.json, what MXNet 1.9.1 says of the 34 nets of gluon.model_zoo.vision:
python3 make_model_zoo_models.py [folder]

Ran with CPython 3.11, mxnet==1.9.1 and numpy==1.23.5 from PyPI (newer numpy lacks what mxnet imports), and
MXNET_SUBGRAPH_BACKEND=NONE. For each net with 10 classes: the names and shapes that save_parameters writes (neighbours
of one layer and one shape share a line: "features.1: gamma beta 64"), and the outputs for two images at the smallest
size that suits, with parameters and images from the formula of make_model_zoo.py; gammas of residual nets are at most 1, since the sums
of 50 blocks would grow without bounds.
"""
import json
import pathlib
import sys

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

NAMES = ([f"resnet{n}_v{v}" for v in (1, 2) for n in (18, 34, 50, 101, 152)]
         + [f"vgg{n}{bn}" for bn in ("", "_bn") for n in (11, 13, 16, 19)] + ["alexnet"]
         + [f"densenet{n}" for n in (121, 161, 169, 201)] + ["squeezenet1.0", "squeezenet1.1", "inceptionv3"]
         + [f"mobilenet{v}{m}" for v in ("", "v2_") for m in ("1.0", "0.75", "0.5", "0.25")])


def size_of(name):
    sizes = {"vgg": 32, "densenet": 221, "squeezenet": 221, "inception": 299}  # where the last pooling window fits
    return next((s for begin, s in sizes.items() if name.startswith(begin)), 64)


def values(shape, k, low, high):
    """k: position of the parameter in the file; -1 for the images."""
    h = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32((k + 2) * 40503)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h = h ^ (h >> np.uint32(13))
    u = (h >> np.uint32(8)).astype(np.float64) / 2**24
    return (low + (high - low) * u).astype(np.float32).reshape(shape)


def bounds(model, name, shape):
    last = name.rsplit(".", 1)[1]
    if last == "weight":
        bound = float(np.sqrt(6.0 / np.prod(shape[1:])))  # keeps the size of the values from layer to layer
        return -bound, bound
    if last == "gamma" and model.startswith("resnet"):
        return 0.5, 1.0
    return {"gamma": (0.5, 1.5), "running_var": (0.5, 1.5)}.get(last, (-0.25, 0.25))


def lines(parameters):
    all_lines = []
    last = None
    for name, p in parameters.items():
        layer, own = name.rsplit(".", 1)
        shape = " ".join(map(str, p.shape))
        if last == (layer, shape):
            all_lines[-1][1].append(own)
        else:
            all_lines.append((layer, [own], shape))
        last = (layer, shape)
    return [f"{layer}: {' '.join(own)} {shape}" for layer, own, shape in all_lines]


def model(name):
    size = size_of(name)
    net = vision.get_model(name, classes=10)
    net.initialize()
    net(mx.nd.zeros((1, 3, size, size)))
    found = net._collect_params_with_prefix()
    for k, (path, p) in enumerate(found.items()):
        p.set_data(mx.nd.array(values(p.shape, k, *bounds(name, path, p.shape))))
    y = net(mx.nd.array(values((2, 3, size, size), -1, -1, 1))).asnumpy().astype(np.float64)
    apart = np.abs(y[0] - y[1]).max() / np.abs(y).max()
    print(name, size, np.abs(y).max(), apart, flush=True)
    assert np.isfinite(y).all() and apart > 1e-3, "the outputs must depend on the images"
    return {"size": size, "output": y.flatten().tolist(), "parameters": lines(found)}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    models = {name: model(name) for name in NAMES}
    text = ",\n".join(
        f'"{name}": {{"size": {m["size"]}, "output": {json.dumps(m["output"])},\n"parameters": [\n'
        + ",\n".join(map(json.dumps, m["parameters"])) + "\n]}" for name, m in models.items())
    (folder / "model_zoo_models.json").write_text("{\n" + text + "\n}\n")


main()
