#!/usr/bin/env python3
"""What MXNet 1.9.1's amp.convert_symbol makes of programs: data/amp_dtypes.json.

For each program and each set of options the dtype of every node's outputs, casts left out, and of every variable. The
programs are those of data/networks/, and small ones that hold operators of every list.
"""
import json
import os
import pathlib
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet.contrib import amp  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
S = mx.sym
NAMES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool"}


def mixed():
    x = S.var("data")
    y = S.Convolution(x, name="conv", num_filter=4, kernel=(3, 3))
    y = S.Activation(S.BatchNorm(S.Activation(y, act_type="relu", name="relu"), name="norm"), act_type="softrelu", name="soft")
    z = S.FullyConnected(S.Flatten(S.Pooling(y, kernel=(2, 2), name="pool"), name="flat"), num_hidden=6, name="dense")
    left = S.LeakyReLU(z, act_type="leaky", name="leaky")
    right = S.LeakyReLU(z, act_type="elu", name="elu")
    both = S.elemwise_add(left, right, name="both")
    joined = S.Concat(both, left, dim=1, name="joined")
    chosen = S.where(S.broadcast_greater(left, right, name="greater"), S.exp(z, name="exp"), S.tanh(z, name="tanh"), name="chosen")
    low = S.broadcast_mul(left, S.sigmoid(z, name="sigmoid"), name="low")
    out = S.FullyConnected(S.Dropout(joined, name="dropped"), num_hidden=6, name="out")
    return S.Group([S.softmax(out, name="soft_max"), chosen, low, S.mean(low, axis=1, name="mean"), S.stack(out, z, name="stacked")])


def output_layer():
    x = S.FullyConnected(S.Embedding(S.var("data"), input_dim=7, output_dim=5, name="embed"), num_hidden=6, name="dense")
    y = S.LayerNorm(S.reshape(x, shape=(-1, 6), name="rows"), name="norm")
    return S.SoftmaxOutput(S.FullyConnected(S.slice_axis(y, axis=1, begin=0, end=4, name="cut"), num_hidden=3, name="last"),
                           S.var("softmax_label"), name="softmax")


def recurrent():
    x, state, cell = S.var("data"), S.var("state"), S.var("cell")
    y = S.RNN(x, S.var("weights"), state, cell, mode="lstm", state_size=3, num_layers=1, state_outputs=True, name="lstm")
    return S.Group([S.batch_dot(S.transpose(y[0], axes=(0, 2, 1), name="turned"), S.exp(y[0], name="exp"), name="product"), y[1] * 2.0, y[2]])


PROGRAMS = {"mixed": (mixed(), ["data"], {"data": (2, 3, 8, 8)}),
            "output_layer": (output_layer(), ["data", "softmax_label"], {"data": (4, 2), "softmax_label": (4,)}),
            "recurrent": (recurrent(), ["data", "state", "cell"], {"data": (5, 2, 4), "state": (1, 2, 3), "cell": (1, 2, 3)})}
INPUTS = {"bert": 4, "ssd": 1, "unet": 1, "lstm_model": 3, "lstm_model_tied": 3}
for network, n in INPUTS.items():
    shapes = {}
    results = mx.nd.load(str(DATA / "networks/results.params"))
    names = ["data"] if n == 1 else ["data%d" % i for i in range(n)]
    for i, name in enumerate(names):
        shapes[name] = tuple(results["%s/input/%d" % (network, i)].shape)
    for name, value in mx.nd.load(str(DATA / ("networks/%s-0000.params" % network))).items():
        shapes[name.split(":", 1)[1]] = value.shape
    PROGRAMS[network] = (S.load(str(DATA / ("networks/%s-symbol.json" % network))), names, shapes)

OPTIONS = {"default": {}, "optional": {"cast_optional_params": True},
           # fp32_ops: beside those of MXNet's list
           "dense_only": {"target_dtype_ops": ["FullyConnected"], "fp32_ops": ["tanh", "Convolution"],
                          "conditional_fp32_ops": [("Activation", "act_type", ["relu", "tanh"])]}}


def dtypes(symbol, names, shapes):
    internals = symbol.get_internals()
    arg, out, aux = internals.infer_type(**{name: "float32" for name in names})
    nodes = {n["name"]: n["op"] for n in json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]}
    found = {}
    for output, dtype in zip(internals.list_outputs(), out):
        name = output if output in nodes else output.rsplit("_", 1)[0]
        if nodes.get(name, "amp_cast") in ("amp_cast", "amp_multicast"):
            continue
        found.setdefault(name, []).append(np.dtype(dtype).name)
    return found


def main():
    cases = []
    for name, (symbol, data, shapes) in PROGRAMS.items():
        first = next(n["name"] for n in json.loads(symbol.tojson())["nodes"] if n["op"] in ("FullyConnected", "Convolution", "RNN"))
        for kind, options in {**OPTIONS, "excluded": {"excluded_sym_names": [first]}}.items():
            given = dict(options)
            if "fp32_ops" in given:
                given["fp32_ops"] = amp.list_fp32_ops("float16") + given["fp32_ops"]
            try:
                converted = amp.convert_symbol(symbol, "float16", data_names=data, **given)
            except mx.base.MXNetError as e:  # a weight that an Embedding reads too, as a parameter of 16 bits
                print(name, kind, "left out:", str(e).splitlines()[0][-120:])
                continue
            case = {"program": name, "data": data, "shapes": {k: list(v) for k, v in shapes.items()}, "options": options,
                    "dtypes": dtypes(converted, data, shapes)}
            if name not in INPUTS:
                case["symbol"] = symbol.tojson()
            cases.append(case)
            print(name, kind, sum("float16" in d for d in case["dtypes"].values()), "of", len(case["dtypes"]))
    (DATA / "amp_dtypes.json").write_text(json.dumps(cases, indent=None, separators=(",", ":"), sort_keys=True) + "\n")


main()
