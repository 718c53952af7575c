#!/usr/bin/env python3
"""Small nets that MXNet 1.9.1 quantises and runs: data/quantized.params.

Arrays: "<net>/symbol": the symbol file, as bytes; "<net>/arg/<name>", "<net>/aux/<name>": parameters; "<net>/data",
"<net>/output". Names say how the net was quantised: the data of calibration ("naive") or none, and the dtype asked for.
With MXNet's pass for oneDNN, but for those that end in "plain". Without calibration MXNet's bounded activations have no
bound and tanh is of sums as they are: these are left out, as uint8 with quantized_act, which calls its result int8. Every
number is in float32 or a level, and all results are exact: the products are integers.
"""
import json
import os
import pathlib
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet.contrib.quantization import quantize_model  # noqa: E402

S = mx.sym


def conv(x, name, filters, kernel=3, bias=True, **more):
    pad = kernel // 2
    return S.Convolution(x, name=name, num_filter=filters, kernel=(kernel, kernel), pad=(pad, pad), no_bias=not bias, **more)


def relu(x):
    return S.Activation(x, act_type="relu")


def norm(x, name, **more):
    return S.BatchNorm(x, name=name, fix_gamma=False, eps=1e-5, **more)


def residual(x):
    """As in a ResNet: both ways to the sum, and a dense layer."""
    x = S.Pooling(relu(norm(conv(x, "c0", 16, 3, stride=(2, 1)), "n0")), kernel=(2, 2), stride=(2, 2), pool_type="max")
    for i in range(2):
        way = norm(conv(x, f"w{i}", 16, 1, False), f"m{i}") if i == 0 else x
        y = relu(norm(conv(x, f"a{i}", 8, 1), f"p{i}"))
        x = relu(norm(conv(y, f"b{i}", 16, 3, False), f"q{i}") + way)
    x = S.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")
    return S.FullyConnected(x, name="fc", num_hidden=5)


def mobile(x):
    """Depthwise filters and bounded activations."""
    x = S.clip(norm(conv(x, "c0", 8), "n0"), 0, 6)
    x = S.clip(norm(conv(x, "d", 8, 3, False, num_group=8), "n1"), 0, 6)
    y = norm(conv(x, "e", 8, 1, False), "n2")
    z = norm(conv(S.clip(norm(conv(y, "f", 16, 1, False), "n3"), 0, 6), "g", 8, 1, False), "n4")
    return S.FullyConnected(S.Flatten(y + z), name="fc", num_hidden=3)


def dense(x, last="tanh"):
    x = relu(S.FullyConnected(x, name="f1", num_hidden=20))
    x = S.FullyConnected(x, name="f2", num_hidden=17, no_bias=True, flatten=False)
    x = S.Activation(S.FullyConnected(relu(x), name="f3", num_hidden=6), act_type=last)
    return S.FullyConnected(x, name="f4", num_hidden=4)


def mixed(x):
    """Operators of levels between layers."""
    a, b = relu(conv(x, "c0", 6)), conv(x, "c1", 5, 1)
    x = S.Concat(S.Pooling(a, kernel=(3, 3), stride=(2, 2), pool_type="avg"),
                 S.Pooling(b, kernel=(3, 3), stride=(2, 2), pool_type="max"), dim=1)
    return S.FullyConnected(S.Flatten(x), name="fc", num_hidden=3)


def plain_dense(x):
    x = relu(S.FullyConnected(x, name="f1", num_hidden=12))
    return S.FullyConnected(x, name="f2", num_hidden=3)


IMAGES, ROWS = (2, 3, 9, 8), (4, 11)
NETS = {"residual": (residual, IMAGES), "mobile": (mobile, IMAGES), "dense": (dense, ROWS), "mixed": (mixed, IMAGES),
        "dense_plain": (plain_dense, ROWS)}


def make(name, function, shape, mode, dtype, granularity, arrays):
    label = f"{name}-{mode}-{dtype}-{granularity}"
    seed = sum(map(ord, label))
    r = np.random.RandomState(seed)
    symbol = function(S.var("data"))
    shapes, _, aux_shapes = symbol.infer_shape(data=shape)

    def draw(names, sizes, low):
        return {n: mx.nd.array(r.uniform(low, 1, s)) for n, s in zip(names, sizes) if n != "data"}

    args, aux = draw(symbol.list_arguments(), shapes, -1), draw(symbol.list_auxiliary_states(), aux_shapes, 0.25)
    is_fused = not name.endswith("plain")
    if is_fused:
        symbol = symbol.get_backend_symbol("MKLDNN")
    data = r.uniform(-1 if dtype != "uint8" else 0, 1, shape).astype(np.float32)
    calibrated = {} if mode == "none" else {
        "calib_data": mx.io.NDArrayIter(data, None, batch_size=shape[0]), "num_calib_examples": shape[0]}
    quantised, qargs, qaux = quantize_model(symbol, args, aux, ctx=mx.cpu(), calib_mode=mode, quantized_dtype=dtype,
                                            quantize_granularity=granularity, label_names=None, **calibrated)
    if is_fused:
        quantised = quantised.get_backend_symbol("MKLDNN_QUANTIZE")
    output = quantised.bind(mx.cpu(), dict(qargs, data=mx.nd.array(data)), aux_states=qaux).forward()[0]
    text = np.frombuffer(json.dumps(json.loads(quantised.tojson()), separators=(",", ":")).encode(), np.uint8)
    arrays[f"{label}/symbol"] = mx.nd.array(text, dtype="uint8")
    for kind, values in (("arg", qargs), ("aux", qaux)):
        for key, value in values.items():
            arrays[f"{label}/{kind}/{key}"] = value
    arrays[f"{label}/data"], arrays[f"{label}/output"] = mx.nd.array(data), output.as_in_context(mx.cpu())
    print(label, output.shape, float(abs(output).max().asscalar()))


def main():
    arrays = {}
    for name, (function, shape) in NETS.items():
        for mode in ("naive", "none"):
            for dtype in ("auto", "int8", "uint8") if name == "dense" else ("auto", "int8"):
                for granularity in ("tensor-wise", "channel-wise"):
                    channel_wise = granularity == "channel-wise"
                    if channel_wise and (name != "dense" or mode == "none"):
                        continue  # one for all, or MXNet cannot run it
                    if mode == "none" and name == "mobile":
                        continue
                    if mode == "none" and name == "dense":
                        function = lambda x: dense(x, "relu")  # noqa: E731
                    try:
                        make(name, function, shape, mode, dtype, granularity, arrays)
                    except mx.MXNetError as error:
                        print(name, mode, dtype, granularity, "refused:", str(error).strip().splitlines()[-1][:150])
    file = pathlib.Path(__file__).resolve().parent.parent / "data" / "quantized.params"
    mx.nd.save(str(file), arrays)
    print(file.name, file.stat().st_size, "bytes")


main()
