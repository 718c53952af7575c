"""Writes ../data/inference.json: what MXNet 1.9.1 infers for shapes and dtypes that are known in part.

    MXNET_SUBGRAPH_BACKEND=NONE python make_inference.py

Each program is one operator, or a random graph of two to six. Its true shapes are known; some of their dimensions are
hidden, and MXNet says what follows for the arguments, the outputs and the auxiliary states. In the file -1 is an
unknown dimension and null an unknown shape or dtype. Cases in which MXNet refuses what contradicts nothing, and those
in which it takes an unknown size for 0 and infers what is not true (Concat, Pad, RNN), are left out; cases in which a shape or a dtype is wrong are kept with the node that MXNet names.
"""
import json
import os
import re
import warnings

import mxnet as mx
import numpy as np

warnings.simplefilter("ignore")
sym = mx.sym
rng = np.random.RandomState(22)


def var(name, *shape):
    v = sym.var(name)
    truth[name] = tuple(shape)
    return v


truth = {}  # of the program that is being made


def families():
    """name -> functions that make a symbol and say the true shapes of its data."""
    V = var
    same = ["relu", "sigmoid", "exp", "negative", "zeros_like", "BlockGrad", "identity", "round", "cbrt", "erf"]
    yield from ((f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4), name="n")) for f in same)
    for f in ["elemwise_add", "elemwise_mul", "_maximum", "_equal", "_power", "_hypot"]:
        yield f, lambda f=f: getattr(sym, f, None)(V("x", 2, 3), V("y", 2, 3), name="n") if hasattr(sym, f) else \
            getattr(sym._internal, f)(V("x", 2, 3), V("y", 2, 3), name="n")
    for f in ["broadcast_add", "broadcast_mul", "broadcast_maximum", "broadcast_equal"]:
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3), V("y", 2, 3), name="n")
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 1, 4), V("y", 1, 3, 4), name="n")
    yield "scalar", lambda: V("x", 4, 5) * 2 + 1
    yield "clip", lambda: sym.clip(V("x", 4, 5), 0, 1)
    yield "Cast", lambda: sym.cast(V("x", 4, 5), "float16")
    yield "add_n", lambda: sym.add_n(V("x", 2, 3), V("y", 2, 3), V("z", 2, 3), name="n")
    yield "where", lambda: sym.where(V("c", 2, 3), V("x", 2, 3), V("y", 2, 3), name="n")
    yield "where rows", lambda: sym.where(V("c", 2), V("x", 2, 3), V("y", 2, 3), name="n")
    for f in ["sum", "mean", "max", "prod", "norm"]:
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4), axis=1)
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4), axis=(0, 2), keepdims=True)
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4))
    yield "sum exclude", lambda: sym.sum(V("x", 2, 3, 4), axis=1, exclude=True)
    for f in ["argmax", "argmin"]:
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4), axis=1)
        yield f, lambda f=f: getattr(sym, f)(V("x", 2, 3, 4), axis=-1, keepdims=True)
    yield "sort", lambda: sym.sort(V("x", 2, 3), axis=0)
    yield "argsort", lambda: sym.argsort(V("x", 2, 3))
    yield "topk", lambda: sym.topk(V("x", 2, 5), k=3)
    yield "topk", lambda: sym.topk(V("x", 2, 5), k=3, axis=1, ret_typ="both")
    yield "topk mask", lambda: sym.topk(V("x", 2, 5), k=3, ret_typ="mask")
    for codes in [(0, -1), (-1, 0), (0, 0, -1), (-3, 0), (0, -4, -1, 3, 0), (0, -2), (6, 4), (-1,), (2, -1), (0, 12),
                  (0, -3)]:
        yield "Reshape", lambda c=codes: sym.reshape(V("x", 2, 3, 4), shape=c)
    yield "Reshape reverse", lambda: sym.reshape(V("x", 2, 3, 4), shape=(-1, 0), reverse=True)
    yield "reshape_like", lambda: sym.reshape_like(V("x", 6, 4), V("y", 2, 3, 4))
    yield "Flatten", lambda: sym.flatten(V("x", 2, 3, 4))
    yield "expand_dims", lambda: sym.expand_dims(V("x", 2, 3), axis=1)
    yield "expand_dims", lambda: sym.expand_dims(V("x", 2, 3), axis=-1)
    yield "squeeze", lambda: sym.squeeze(V("x", 2, 1, 3), axis=1)
    yield "squeeze", lambda: sym.squeeze(V("x", 2, 1, 3))
    yield "transpose", lambda: sym.transpose(V("x", 2, 3, 4))
    yield "transpose", lambda: sym.transpose(V("x", 2, 3, 4), axes=(1, 0, 2))
    yield "SwapAxis", lambda: sym.swapaxes(V("x", 2, 3, 4), dim1=0, dim2=2)
    yield "slice", lambda: sym.slice(V("x", 5, 6), begin=(1, None), end=(4, None))
    yield "slice", lambda: sym.slice(V("x", 5, 6), begin=(None, -4), end=(None, -1), step=(2, 1))
    yield "slice_axis", lambda: sym.slice_axis(V("x", 5, 6), axis=1, begin=1, end=4)
    yield "slice_axis", lambda: sym.slice_axis(V("x", 5, 6), axis=-1, begin=-3, end=None)
    yield "slice_like", lambda: sym.slice_like(V("x", 5, 6), V("y", 3, 4))
    yield "slice_like", lambda: sym.slice_like(V("x", 5, 6), V("y", 3, 4), axes=(1,))
    yield "Concat", lambda: sym.concat(V("x", 2, 3, 4), V("y", 2, 5, 4), dim=1, name="n")
    yield "Concat", lambda: sym.concat(V("x", 2, 3), V("y", 4, 3), V("z", 1, 3), dim=0, name="n")
    yield "stack", lambda: sym.stack(V("x", 2, 3), V("y", 2, 3), axis=1, name="n")
    yield "SliceChannel", lambda: sym.split(V("x", 2, 6, 4), num_outputs=3, axis=1)
    yield "SliceChannel", lambda: sym.split(V("x", 2, 3, 4), num_outputs=3, axis=1, squeeze_axis=True)
    yield "split_v2", lambda: sym.split_v2(V("x", 6, 4), (2, 3), axis=0)
    yield "split_v2", lambda: sym.split_v2(V("x", 6, 4), 3, axis=0)
    yield "repeat", lambda: sym.repeat(V("x", 2, 3), repeats=2, axis=1)
    yield "repeat", lambda: sym.repeat(V("x", 2, 3), repeats=2)
    yield "tile", lambda: sym.tile(V("x", 2, 3), reps=(2, 1, 3))
    yield "reverse", lambda: sym.reverse(V("x", 2, 3), axis=1)
    yield "Pad", lambda: sym.pad(V("x", 2, 3, 4, 5), mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4))
    yield "broadcast_to", lambda: sym.broadcast_to(V("x", 1, 3), shape=(4, 0))
    yield "broadcast_axis", lambda: sym.broadcast_axis(V("x", 1, 3, 1), axis=(0, 2), size=(4, 5))
    yield "broadcast_like", lambda: sym.broadcast_like(V("x", 1, 3), V("y", 4, 3))
    yield "broadcast_like", lambda: sym.broadcast_like(V("x", 1, 3), V("y", 4, 7), lhs_axes=(0,), rhs_axes=(1,))
    yield "take", lambda: sym.take(V("x", 5, 3), V("i", 2, 4))
    yield "take", lambda: sym.take(V("x", 5, 3), V("i", 2), axis=1)
    yield "pick", lambda: sym.pick(V("x", 2, 3, 4), V("i", 2, 4), axis=1)
    yield "pick", lambda: sym.pick(V("x", 2, 3), V("i", 2, 1), keepdims=True)
    yield "batch_take", lambda: sym.batch_take(V("x", 4, 3), V("i", 4))
    yield "one_hot", lambda: sym.one_hot(V("i", 2, 3), 5)
    yield "gather_nd", lambda: sym.gather_nd(V("x", 4, 5, 6), V("i", 2, 3))
    yield "scatter_nd", lambda: sym.scatter_nd(V("x", 3), V("i", 2, 3), shape=(4, 5))
    yield "Embedding", lambda: sym.Embedding(V("i", 2, 3), input_dim=10, output_dim=4, name="n")
    yield "SequenceMask", lambda: sym.SequenceMask(V("x", 5, 2, 3), V("l", 2), use_sequence_length=True)
    yield "SequenceLast", lambda: sym.SequenceLast(V("x", 5, 2, 3), V("l", 2), use_sequence_length=True)
    yield "SequenceLast", lambda: sym.SequenceLast(V("x", 5, 2, 3))
    yield "SequenceReverse", lambda: sym.SequenceReverse(V("x", 5, 2, 3), V("l", 2), use_sequence_length=True)
    for ta in (False, True):
        for tb in (False, True):
            yield "dot", lambda ta=ta, tb=tb: sym.dot(V("x", *((3, 2) if ta else (2, 3))),
                                                      V("y", *((4, 3) if tb else (3, 4))),
                                                      transpose_a=ta, transpose_b=tb)
            yield "batch_dot", lambda ta=ta, tb=tb: sym.batch_dot(V("x", *((5, 3, 2) if ta else (5, 2, 3))),
                                                                  V("y", *((5, 4, 3) if tb else (5, 3, 4))),
                                                                  transpose_a=ta, transpose_b=tb)
    yield "dot 3", lambda: sym.dot(V("x", 2, 3, 4), V("y", 4, 5))
    yield "linalg_gemm2", lambda: sym.linalg_gemm2(V("x", 2, 3, 4), V("y", 2, 4, 5))
    yield "FullyConnected", lambda: sym.FullyConnected(V("x", 4, 5), num_hidden=6, name="n")
    yield "FullyConnected", lambda: sym.FullyConnected(V("x", 4, 5, 2), num_hidden=6, no_bias=True, name="n")
    yield "FullyConnected", lambda: sym.FullyConnected(V("x", 4, 5, 2), num_hidden=6, flatten=False, name="n")
    yield "Convolution", lambda: sym.Convolution(V("x", 2, 3, 8, 9), num_filter=4, kernel=(3, 3), name="n")
    yield "Convolution", lambda: sym.Convolution(V("x", 2, 4, 9), num_filter=6, kernel=(3,), stride=(2,), num_group=2,
                                                 pad=(1,), no_bias=True, name="n")
    yield "Convolution", lambda: sym.Convolution(V("x", 2, 3, 5, 6, 7), num_filter=4, kernel=(3, 1, 2),
                                                 dilate=(2, 1, 1), name="n")
    yield "Deconvolution", lambda: sym.Deconvolution(V("x", 2, 3, 5, 6), num_filter=4, kernel=(3, 3), stride=(2, 2),
                                                     name="n")
    yield "Deconvolution", lambda: sym.Deconvolution(V("x", 2, 3, 5, 6), num_filter=4, kernel=(4, 4), stride=(2, 2),
                                                     pad=(1, 1), no_bias=False, name="n")
    yield "Pooling", lambda: sym.Pooling(V("x", 2, 3, 8, 9), kernel=(2, 2), stride=(2, 2), pool_type="max")
    yield "Pooling", lambda: sym.Pooling(V("x", 2, 3, 8, 9), global_pool=True, pool_type="avg", kernel=(1, 1))
    yield "Pooling", lambda: sym.Pooling(V("x", 2, 3, 8, 9), kernel=(3, 3), stride=(2, 2), pool_type="avg",
                                         pooling_convention="full")
    yield "UpSampling", lambda: sym.UpSampling(V("x", 2, 3, 4, 5), scale=2, sample_type="nearest")
    yield "BatchNorm", lambda: sym.BatchNorm(V("x", 2, 3, 4, 5), name="n")
    yield "BatchNorm", lambda: sym.BatchNorm(V("x", 2, 3, 4), axis=-1, name="n")
    yield "LayerNorm", lambda: sym.LayerNorm(V("x", 2, 3, 4), name="n")
    yield "InstanceNorm", lambda: sym.InstanceNorm(V("x", 2, 3, 4), name="n")
    yield "GroupNorm", lambda: sym.GroupNorm(V("x", 2, 4, 5), num_groups=2, name="n")
    yield "L2Normalization", lambda: sym.L2Normalization(V("x", 2, 3, 4))
    yield "LRN", lambda: sym.LRN(V("x", 2, 3, 4, 5), nsize=3)
    yield "Activation", lambda: sym.Activation(V("x", 2, 3), act_type="tanh")
    yield "LeakyReLU", lambda: sym.LeakyReLU(V("x", 2, 3, 4), act_type="prelu", name="n")
    yield "LeakyReLU", lambda: sym.LeakyReLU(V("x", 2, 3, 4), act_type="elu")
    yield "Dropout", lambda: sym.Dropout(V("x", 2, 3))
    yield "softmax", lambda: sym.softmax(V("x", 2, 3), axis=0)
    yield "log_softmax", lambda: sym.log_softmax(V("x", 2, 3))
    yield "SoftmaxOutput", lambda: sym.SoftmaxOutput(V("x", 4, 5), name="n")
    yield "SoftmaxOutput", lambda: sym.SoftmaxOutput(V("x", 4, 5, 6), multi_output=True, name="n")
    yield "SoftmaxOutput", lambda: sym.SoftmaxOutput(V("x", 4, 5, 6), preserve_shape=True, name="n")
    yield "LinearRegressionOutput", lambda: sym.LinearRegressionOutput(V("x", 4, 5), name="n")
    yield "MakeLoss", lambda: sym.MakeLoss(V("x", 4, 5))
    for mode in ["rnn_tanh", "gru", "lstm"]:
        yield "RNN", lambda m=mode: sym.RNN(V("x", 5, 2, 3), state_size=4, num_layers=2, mode=m, state_outputs=True,
                                            name="n")
    yield "RNN", lambda: sym.RNN(V("x", 5, 2, 3), state_size=4, num_layers=1, mode="lstm", bidirectional=True, name="n")
    yield "zeros", lambda: sym.zeros((0, 4)) + V("x", 2, 4)
    yield "ones", lambda: sym.elemwise_mul(sym.ones((0, 4)), V("x", 2, 4))
    yield "zeros", lambda: sym.FullyConnected(sym.zeros((0, 4)), num_hidden=3, name="f") + \
        sym.FullyConnected(V("x", 2, 5), num_hidden=3, name="g")
    yield "arange", lambda: sym.arange(0, 6)
    yield "depth_to_space", lambda: sym.depth_to_space(V("x", 2, 8, 3, 4), 2)
    yield "space_to_depth", lambda: sym.space_to_depth(V("x", 2, 2, 4, 6), 2)
    yield "diag", lambda: sym.diag(V("x", 4, 3))
    yield "shape_array", lambda: sym.shape_array(V("x", 4, 3))
    yield "smooth_l1", lambda: sym.smooth_l1(V("x", 4, 3))
    yield "ROIPooling", lambda: sym.ROIPooling(V("x", 2, 3, 8, 8), V("r", 5, 5), pooled_size=(2, 2), spatial_scale=1.0)
    yield "BilinearSampler", lambda: sym.BilinearSampler(V("x", 2, 3, 8, 8), V("g", 2, 2, 4, 5))
    yield "GridGenerator", lambda: sym.GridGenerator(V("x", 2, 6), transform_type="affine", target_shape=(4, 5))
    yield "CTCLoss", lambda: sym.CTCLoss(V("x", 6, 2, 5), V("l", 2, 3))
    yield "box_iou", lambda: sym.contrib.box_iou(V("x", 3, 4), V("y", 5, 4))


def graph(i):
    """A random graph of two to six operators on an image or a matrix."""
    V = var
    shape = [(2, 4, 6, 8), (3, 4), (2, 3, 4)][rng.randint(3)]
    values = [(V("x", *shape), shape)]

    def shape_of(s):
        return s.infer_shape(**{k: v for k, v in truth.items() if k in s.list_arguments()})[1][0]

    for k in range(rng.randint(2, 7)):
        s, shape = values[rng.randint(len(values))] if rng.rand() < 0.3 else values[-1]
        n, nd = "n%d" % k, len(shape)
        choices = [lambda: sym.Activation(s, act_type="relu", name=n), lambda: s * 2,
                   lambda: sym.FullyConnected(s, num_hidden=int(rng.randint(2, 7)), name=n, flatten=bool(rng.randint(2))),
                   lambda: sym.transpose(s, axes=tuple(int(a) for a in rng.permutation(nd)), name=n),
                   lambda: sym.Dropout(s, name=n), lambda: sym.LayerNorm(s, name=n),
                   lambda: sym.elemwise_add(s, V("v%d" % k, *shape), name=n),
                   lambda: sym.broadcast_mul(s, V("v%d" % k, *[1 if rng.rand() < .5 else d for d in shape]), name=n),
                   lambda: sym.concat(s, V("v%d" % k, *shape), dim=int(rng.randint(nd)), name=n),
                   lambda: sym.expand_dims(s, axis=int(rng.randint(nd + 1)), name=n) if nd < 5 else s,
                   lambda: sym.sum(s, axis=int(rng.randint(nd)), keepdims=bool(rng.randint(2)), name=n) if nd > 1 else s,
                   lambda: sym.reshape(s, shape=(0, -1), name=n), lambda: sym.flatten(s, name=n),
                   lambda: sym.cast(s, "float16", name=n),
                   lambda: sym.zeros((0,) + shape[1:], name=n) + s,
                   lambda: sym.slice(s, begin=(None, 0), end=(None, 1), name=n) if nd > 1 else s]
        if nd == 4:
            choices += [lambda: sym.Convolution(s, num_filter=4, kernel=(3, 3), pad=(1, 1), name=n),
                        lambda: sym.Convolution(s, num_filter=2, kernel=(1, 1), stride=(2, 2), name=n),
                        lambda: sym.Pooling(s, kernel=(2, 2), pool_type="max", name=n),
                        lambda: sym.BatchNorm(s, name=n)] * 2
        try:
            made = choices[rng.randint(len(choices))]()
            values.append((made, shape_of(made)))
        except mx.base.MXNetError:
            pass
    return values[-1][0]


def shown(shape):
    """None where nothing is known; 0 is MXNet's unknown dimension."""
    return None if not shape else [d if d > 0 else -1 for d in shape]


def failure(error):
    text = str(error)
    found = re.search(r"Error in operator ([^:]*):", text)
    contradicts = re.search(r"Incompatible attr|inconsistent|uniform|mismatch|does not match", text, re.I)
    return found.group(1) if found and contradicts else None


def contradicts(known, true):
    return len(known) > 0 and (len(known) != len(true) or any(k > 0 and k != t for k, t in zip(known, true)))


def hide(shapes, weights):
    known = {}
    for name, shape in shapes.items():
        if rng.rand() < (0.8 if name in weights else 0.1):
            continue
        known[name] = tuple(0 if rng.rand() < 0.3 else d for d in shape)
    return known


def shape_cases(s, data, count):
    full = s.infer_shape(**data)
    if full[0] is None:
        return None, []
    names = s.list_arguments()
    all_shapes = dict(zip(names, full[0]))
    cases, seen = [], set()
    for k in range(count):
        known = hide(all_shapes, set(names) - set(data))
        if k == 0:
            known = dict(data)
        key = str(sorted(known.items()))
        if key in seen:
            continue
        seen.add(key)
        try:
            args, outs, aux = s.infer_shape_partial(**known)
        except mx.base.MXNetError:
            continue  # it refuses what contradicts nothing
        if any(contradicts(a, b) for a, b in zip(args + outs + aux, full[0] + full[1] + full[2])):
            continue
        cases.append({"known": {n: shown(v) for n, v in known.items()}, "arguments": [shown(v) for v in args],
                      "outputs": [shown(v) for v in outs], "aux": [shown(v) for v in aux]})
    # one dimension is wrong
    name = names[rng.randint(len(names))] if names else None
    if name and all_shapes[name]:
        wrong = dict(all_shapes)
        d = rng.randint(len(wrong[name]))
        wrong[name] = wrong[name][:d] + (wrong[name][d] + 1,) + wrong[name][d + 1:]
        try:
            s.infer_shape(**wrong)
        except mx.base.MXNetError as e:
            if failure(e):
                cases.append({"known": {n: shown(v) for n, v in wrong.items()}, "fails": failure(e)})
    return full, cases


def dtype_names(types):
    return [None if t is None else np.dtype(t).name for t in types]


def type_cases(name, s, count):
    names = s.list_inputs()
    cases, seen = [], set()
    takes_any = name in ("batch_take",)  # Kaon takes indices of every dtype
    norms = [n["name"] for n in json.loads(s.tojson())["nodes"] if n["op"] == "BatchNorm"]  # and parameters of 16 bits
    for _ in range(count):
        base = ["float32", "float16", "float64"][rng.randint(3)]
        known = {n: base for n in names if rng.rand() < 0.5}
        if rng.rand() < 0.15 and known:
            known[list(known)[rng.randint(len(known))]] = "int32"
        key = str(sorted(known.items()))
        if key in seen:
            continue
        seen.add(key)
        try:
            args, outs, aux = s.infer_type_partial(**known)
        except mx.base.MXNetError as e:
            if failure(e) and not takes_any and failure(e) not in norms:
                cases.append({"known": known, "fails": failure(e)})
            continue
        if len(set(known.values())) > 1 and None in args + outs + aux:
            continue  # it has not looked at what contradicts itself
        cases.append({"known": known, "arguments": dtype_names(args), "outputs": dtype_names(outs),
                      "aux": dtype_names(aux)})
    return cases


def program_of(s):
    """The symbol's file without what nobody reads."""
    j = json.loads(s.tojson())
    for n in j["nodes"]:
        n["inputs"] = [i[:2] + [0] for i in n["inputs"]]
    return {k: j[k] for k in ("nodes", "arg_nodes", "heads", "attrs")}


def program(name, make, count):
    truth.clear()
    s = make()
    out = s[0] if len(s.list_outputs()) > 1 else s
    data = {n: v for n, v in truth.items() if n in s.list_inputs()}  # a graph may have left some behind
    programs = [(s, data)]
    shape = s.infer_shape(**data)[1]
    if shape and len(shape[0]) > 0 and name not in ("Cast", "graph"):  # the result is known as well, in part
        tied = sym.elemwise_add(out, sym.var("t"), name="tie")
        programs.append((tied, dict(data, t=shape[0])))
    made = []
    for s, data in programs:
        full, cases = shape_cases(s, data, count)
        if full is None:
            continue
        made.append({"name": name, "symbol": program_of(s), "truth": {
            "arguments": [list(v) for v in full[0]], "outputs": [list(v) for v in full[1]],
            "aux": [list(v) for v in full[2]]}, "shapes": cases,
            "types": type_cases(name, s, count) if s is programs[0][0] else []})
    return made


def main():
    programs = []
    for name, make in families():
        programs += program(name, make, 4)
    for i in range(80):
        programs += program("graph", lambda: graph(i), 5)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "inference.json")
    with open(path, "w") as f:
        f.write("[" + ",\n".join(json.dumps(p, separators=(",", ":")) for p in programs) + "]\n")
    print(len(programs), "programs,", sum(len(p["shapes"]) for p in programs), "of shapes,",
          sum(len(p["types"]) for p in programs), "of dtypes,",
          sum("fails" in c for p in programs for c in p["shapes"] + p["types"]), "that fail")


if __name__ == "__main__":
    with mx.name.NameManager():
        main()
