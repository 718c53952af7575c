"""Computes cases with MXNet 1.9.1: reads pickled cases from stdin, writes pickled results to stdout.

Runs in an environment of its own: CPython up to 3.11, numpy < 1.24, mxnet==1.9.1. Plain tuples cross the pipe, for
pickles of arrays differ between versions of numpy.
"""
import os
import pickle
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what MXNet prints goes elsewhere

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402

from tensors import Tensor, head  # noqa: E402


def to_wire(array):
    values = array.asnumpy()
    return Tensor(str(np.dtype(array.dtype)), values).wire()


def operator(name):
    if name.startswith("_contrib_"):
        return getattr(mx.nd.contrib, name[len("_contrib_"):])
    if name.startswith("_image_"):
        return getattr(mx.nd.image, name[len("_image_"):])
    if name.startswith("_linalg_"):
        return getattr(mx.nd.linalg, name[len("_linalg_"):])
    for prefix, module in (("_npi_", mx.nd.numpy._internal), ("_np_", mx.nd.numpy), ("_npx_", mx.nd.numpy_extension)):
        if name.startswith(prefix) and hasattr(module, name[len(prefix):]):
            return getattr(module, name[len(prefix):])
    for module in (mx.nd.op, mx.nd._internal, mx.nd):
        if hasattr(module, name):
            return getattr(module, name)
    raise NameError(name)


def by_symbol(op, inputs, attrs):
    """Of operators whose shapes MXNet does not infer in imperative calls."""
    variables = [mx.sym.var(f"x{i}") for i in range(len(inputs))]
    symbol = getattr(mx.sym.contrib, op[len("_contrib_"):])(*variables, **attrs)
    return symbol.bind(mx.cpu(), {f"x{i}": x for i, x in enumerate(inputs)}).forward()


def is_float(array):
    return np.dtype(array.dtype).kind == "f"


def answer(case):
    array = mx.np.array if case["op"].startswith("_np") else mx.nd.array
    inputs = [array(t.values, dtype=t.dtype) for t in map(Tensor.from_wire, case["inputs"])]
    wanted = [w and is_float(x) for w, x in zip(case["wants"], inputs)]
    for x, w in zip(inputs, wanted):
        if w:
            x.attach_grad()
    attrs = dict(case["attrs"])
    if case["op"] != "_contrib_quantized_concat":
        attrs.pop("num_args", None)  # set by the call
    function = operator(case["op"])

    def call():
        if case["op"] == "_contrib_quantized_elemwise_mul":
            return by_symbol(case["op"], inputs, attrs)
        if "outs" in case:  # what it changes takes the place of outputs
            out = [inputs[i] for i in case["outs"]]
            function(*inputs, **attrs, **({"out": out if len(out) > 1 else out[0]} if out else {}))
            return []
        outputs = function(*inputs, **attrs)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    if any(wanted):
        with mx.autograd.record(train_mode=case["train"]):
            outputs = call()
    elif case["train"]:
        with mx.autograd.train_mode():
            outputs = call()
    else:
        outputs = call()
    result = {"outputs": [to_wire(y) for y in outputs], "gradients": [None] * len(inputs)}
    if any(wanted):
        heads = [(y, array(head(case["seed"], k, y.shape), dtype=y.dtype))
                 for k, y in enumerate(outputs) if is_float(y)]
        if heads:
            mx.autograd.backward([y for y, _ in heads], [h for _, h in heads], train_mode=case["train"])
            result["gradients"] = [to_wire(x.grad) if w else None for x, w in zip(inputs, wanted)]
    result["updated"] = [to_wire(inputs[i]) for i in case["updates"]]
    return result


while True:
    try:
        case = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    previous = mx.util.set_np_shape(case["np_shape"])
    try:
        result = answer(case)
    except Exception as error:  # the message is the answer
        lines = str(error).strip().splitlines()
        result = {"error": f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]}
        try:
            mx.nd.waitall()
        except Exception:  # of the same case
            pass
    mx.util.set_np_shape(previous)
    pickle.dump(result, answers, protocol=4)
    answers.flush()
