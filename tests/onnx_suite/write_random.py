#!/usr/bin/env python3
"""write_random.py FOLDER [COUNT [SEED]]: single operators with random attributes and small shapes, as cases for
onnx_suite.

FOLDER/random/NUMBER_OPERATOR/model.onnx has ONNX Runtime's results beside it, as write_cases.py lays them out; what
ONNX Runtime refuses is left out. FOLDER/tolerances.txt gets their lines; those of other groups stay. Sizes of 1 are as
likely as larger ones, since operators have paths of their own there. Needs onnx and onnxruntime.
"""
import os
import random
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)
pick = random.choice


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i64(values):
    return np.asarray(values, np.int64)


def size():
    return pick([1, 1, 2, 3, 4, 5, 7, 8])


def shape(rank):
    return [size() for _ in range(rank)]


def maybe(**options):
    """Some of these attributes."""
    return {k: v for k, v in options.items() if v is not None and pick([True, False])}


def resize():
    rank = pick([3, 4, 4, 4, 5])
    x = f32(*[pick([1, 2]), pick([1, 3]), *shape(rank - 2)])
    mode = pick(["nearest", "linear", "linear", "cubic"]) if rank == 4 else pick(["nearest", "linear"])
    how = pick(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
    a = dict(mode=mode, coordinate_transformation_mode=how)
    if mode == "nearest":
        a["nearest_mode"] = pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode == "cubic":
        a["cubic_coeff_a"] = pick([-0.5, -0.75])
    if pick([True, False]):
        return "Resize", [x, None, None, i64([*x.shape[:2], *shape(rank - 2)])], a, (2, 3)
    return "Resize", [x, None, np.array([1, 1, *[pick([0.5, 0.6, 1, 1.5, 2, 2.3, 3]) for _ in range(rank - 2)]], np.float32)], a, (2,)


def windows(axes, x, transposed=False):
    kernel = [pick([1, 2, 3]) for _ in range(axes)]
    a = maybe(strides=[pick([1, 2, 3]) for _ in range(axes)], dilations=[pick([1, 2]) for _ in range(axes)])
    auto = pick([None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto:
        a["auto_pad"] = auto
        a.pop("dilations", None)
    else:
        a["pads"] = [pick([0, 0, 1, min(2, k - 1)]) if k > 1 else 0 for k in kernel * 2]
    return kernel, a


def conv():
    axes, groups = pick([1, 2, 2, 3]), pick([1, 1, 2, 4])
    x = f32(pick([1, 2]), 4, *[pick([3, 5, 6, 8]) for _ in range(axes)])
    kernel, a = windows(axes, x)
    out = pick([4, 8])
    return "Conv", [x, f32(out, 4 // groups, *kernel), *([f32(out)] if pick([True, False]) else [])], dict(a, group=groups), ()


def conv_transpose():
    axes, groups = pick([1, 2, 2, 3]), pick([1, 1, 2, 4])
    x = f32(pick([1, 2]), 4, *shape(axes))
    kernel, a = windows(axes, x)
    a.pop("auto_pad", None)
    strides = a.get("strides", [1] * axes)
    a |= maybe(output_padding=[pick(range(s)) for s in strides])
    return "ConvTranspose", [x, f32(4, pick([1, 3]), *kernel), ], dict(a, group=groups), ()


def pool():
    axes, op = pick([1, 2, 2, 3]), pick(["MaxPool", "AveragePool", "LpPool"])
    x = f32(pick([1, 2]), pick([1, 3]), *[pick([3, 4, 5, 8]) for _ in range(axes)])
    kernel, a = windows(axes, x)
    a |= maybe(ceil_mode=1, **({"count_include_pad": 1} if op == "AveragePool" else {}))
    if op == "LpPool":
        a["p"] = pick([1, 2, 3])
    return op, [x], dict(a, kernel_shape=kernel), ()


def pad():
    rank = pick([1, 2, 3, 4])
    x = f32(*[pick([2, 3, 4, 5]) for _ in range(rank)])
    mode = pick(["constant", "constant", "reflect", "edge", "wrap"])
    most = {"constant": 3, "reflect": 1, "edge": 3, "wrap": 2}[mode]
    pads = [pick([-1, 0, 0, 1, most]) if mode == "constant" else pick([0, 0, 1, most]) for _ in range(2 * rank)]
    return "Pad", [x, i64(pads), *([np.float32(1.5)] if mode == "constant" and pick([True, False]) else [])], dict(mode=mode), (1,)


def slices():
    rank = pick([1, 2, 3, 4])
    x = f32(*shape(rank))
    axes = random.sample(range(rank), pick(range(1, rank + 1)))
    begin, end, step = [], [], []
    for _ in axes:
        s = pick([1, 1, 2, -1, -2])
        b, e = pick([0, 1, -1, -3, 2]), pick([1, 3, -1, 100, 2])
        if s < 0:
            b, e = pick([-1, 3, 100, 1]), pick([0, -100, -3, -2**62])
        begin.append(b), end.append(e), step.append(s)
    return "Slice", [x, i64(begin), i64(end), i64([a - pick([0, rank]) for a in axes]), i64(step)], {}, (1, 2, 3, 4)


def reduction():
    rank = pick([1, 2, 3, 4])
    op = pick(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"])
    axes = random.sample(range(-rank, 0), pick(range(0, rank + 1)))
    return op, [f32(*shape(rank)), *([i64(axes)] if axes else [])], maybe(keepdims=0, noop_with_empty_axes=1), (1,)


def softmax():
    rank = pick([1, 2, 3, 4])
    return pick(["Softmax", "LogSoftmax", "Hardmax"]), [f32(*shape(rank))], dict(axis=pick(range(-rank, rank))), ()


def arg():
    rank = pick([1, 2, 3])
    return pick(["ArgMax", "ArgMin"]), [rng.integers(0, 4, shape(rank)).astype(np.float32)], dict(axis=pick(range(-rank, rank)), **maybe(keepdims=0, select_last_index=1)), ()


def top():
    rank = pick([1, 2, 3])
    x, axis = f32(*shape(rank)), pick(range(-rank, rank))
    return "TopK", [x, i64([pick(range(1, x.shape[axis] + 1))])], dict(axis=axis, **maybe(largest=0)), (1,)


def gather():
    rank = pick([1, 2, 3])
    x, axis = f32(*shape(rank)), pick(range(-rank, rank))
    n = x.shape[axis]
    return "Gather", [x, rng.integers(-n, n, shape(pick([0, 1, 2])))], dict(axis=axis), pick([(), (1,)])


def gather_elements():
    rank = pick([1, 2, 3])
    x, axis = f32(*shape(rank)), pick(range(rank))
    n = x.shape[axis]
    s = [pick(range(1, d + 1)) for d in x.shape]
    if pick([True, False]):
        return "GatherElements", [x, rng.integers(-n, n, s)], dict(axis=axis), pick([(), (1,)])
    at = np.argsort(rng.random(x.shape), axis)[tuple(slice(0, d) for d in s)]
    return "ScatterElements", [x, i64(at), f32(*s)], dict(axis=axis, **maybe(reduction=pick(["add", "mul", "max", "min"]))), pick([(), (1,)])


def tuples():
    rank = pick([1, 2, 3, 4])
    x = f32(*[pick([2, 3, 4]) for _ in range(rank)])
    k = pick(range(1, rank + 1))
    grids = [np.arange(pick([0, 1]), d, pick([1, 1, 2])) for d in x.shape[:k]]
    at = np.stack(np.meshgrid(*grids, indexing="ij"), -1)
    if pick([True, False, False]):
        at = at - np.array(x.shape[:k])
    if pick([True, False]):
        return "GatherND", [x, i64(at)], {}, pick([(), (1,)])
    return "ScatterND", [x, i64(at), f32(*at.shape[:-1], *x.shape[k:])], maybe(reduction=pick(["add", "mul", "max", "min"])), pick([(), (1,)])


def movement():
    rank = pick([1, 2, 3, 4])
    x = f32(*shape(rank))
    op = pick(["Tile", "Expand", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "CumSum", "Trilu", "Reshape", "Concat"])
    if op == "Tile":
        return op, [x, i64([pick([1, 2, 3]) for _ in range(rank)])], {}, (1,)
    if op == "Expand":
        return op, [x, i64([*shape(pick([0, 1])), *[d if d > 1 else size() for d in x.shape]])], {}, (1,)
    if op == "Transpose":
        return op, [x], dict(perm=random.sample(range(rank), rank)), ()
    if op == "Flatten":
        return op, [x], dict(axis=pick(range(-rank, rank + 1))), ()
    if op == "Squeeze":
        return op, [x, *([i64([i for i, d in enumerate(x.shape) if d == 1])] if 1 in x.shape else [])], {}, (1,)
    if op == "Unsqueeze":
        return op, [x, i64([pick(range(-rank - 1, rank + 1))])], {}, (1,)
    if op == "CumSum":
        return op, [x, np.int64(pick(range(-rank, rank)))], maybe(exclusive=1, reverse=1), (1,)
    if op == "Trilu":
        return op, [f32(*shape(pick([2, 3]))), np.int64(pick([-2, -1, 0, 1, 3]))], maybe(upper=0), (1,)
    if op == "Reshape":
        return op, [x, i64(pick([[-1], [0, -1] if rank > 1 else [-1], [1, -1, 1], [x.size]]))], {}, (1,)
    return op, [x, f32(*x.shape)], dict(axis=pick(range(-rank, rank))), ()


def product():
    op = pick(["MatMul", "Gemm", "Einsum"])
    m, k, n = size(), size(), size()
    if op == "MatMul":
        a, b = pick([[k], [m, k], [2, m, k], [1, 3, m, k]]), pick([[k], [k, n], [2, k, n], [2, 1, k, n], [1, k, n]])
        return op, [f32(*a), f32(*b)], {}, pick([(), (1,)])
    if op == "Gemm":
        ta, tb = pick([0, 1]), pick([0, 1])
        c = pick([None, [n], [m, n], [1, n], [m, 1], [1], []])
        x = [f32(*([k, m] if ta else [m, k])), f32(*([n, k] if tb else [k, n])), *([] if c is None else [f32(*c)])]
        return op, x, dict(transA=ta, transB=tb, **maybe(alpha=0.5, beta=2.0)), pick([(), (1,), (1, 2)] if c is not None else [(), (1,)])
    text, *s = pick([("ij,jk->ik", [m, k], [k, n]), ("bij,bjk", [2, m, k], [2, k, n]), ("ij->ji", [m, n]), ("ii->i", [m, m]), ("...ij,...kj->...ik", [2, m, k], [1, n, k]), ("i,j->ij", [m], [n]), ("ij->", [m, n]), ("ijk->kj", [m, k, n]), ("bhwc,hkc->bhwk", [2, m, 3, k], [m, n, k]), ("ij,ij->i", [m, k], [m, k])])
    return op, [f32(*d) for d in s], dict(equation=text), ()


def recurrent():
    op, gates = pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    both, t, n, i, h = pick([1, 2]), size(), pick([1, 2, 3]), pick([1, 3]), pick([1, 4])
    x = [f32(t, n, i), f32(both, gates * h, i), f32(both, gates * h, h), pick([None, f32(both, 2 * gates * h)])]
    x += [pick([None, np.asarray(sorted(rng.integers(1, t + 1, n), reverse=True), np.int32)]), pick([None, f32(both, n, h)])]
    if op == "LSTM":
        x += [pick([None, f32(both, n, h)]), pick([None, f32(both, 3 * h)])]
    a = dict(hidden_size=h, direction="bidirectional" if both == 2 else pick(["forward", "reverse"]))
    if op == "GRU":
        a["linear_before_reset"] = pick([0, 1])
    return op, x, a, (1, 2, 3)


def norm():
    op = pick(["LayerNormalization", "InstanceNormalization", "BatchNormalization", "LpNormalization", "GroupNormalization", "MeanVarianceNormalization"])
    x = f32(pick([1, 2]), 4, *shape(pick([1, 2, 3])))
    if op == "LayerNormalization":
        axis = pick(range(-x.ndim, 0))
        s = x.shape[axis:]
        return op, [x, f32(*s), *([f32(*s)] if pick([True, False]) else [])], dict(axis=axis, **maybe(epsilon=0.01)), ()
    if op == "InstanceNormalization":
        return op, [x, f32(4), f32(4)], {}, ()
    if op == "BatchNormalization":
        return op, [x, f32(4), f32(4), f32(4), np.abs(f32(4)) + 0.1], maybe(epsilon=0.01), ()
    if op == "LpNormalization":
        return op, [x], dict(axis=pick(range(-x.ndim, x.ndim)), p=pick([1, 2])), ()
    if op == "GroupNormalization":
        return op, [x, f32(4), f32(4)], dict(num_groups=pick([1, 2, 4])), ()
    return "MeanVarianceNormalization", [f32(2, 3, *shape(2))], {}, ()


def images():
    op = pick(["GridSample", "DepthToSpace", "SpaceToDepth", "RoiAlign", "MaxRoiPool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "Col2Im"])
    n, c, h, w = pick([1, 2]), 4, size(), size()
    x = f32(n, c, h, w)
    if op == "GridSample":
        grid = (rng.random((n, size(), size(), 2)) * 2.6 - 1.3).astype(np.float32)
        return op, [x, grid], dict(mode=pick(["linear", "nearest", "cubic"]), padding_mode=pick(["zeros", "border", "reflection"]), align_corners=pick([0, 1])), ()
    if op == "DepthToSpace":
        return op, [x], dict(blocksize=2, mode=pick(["DCR", "CRD"])), ()
    if op == "SpaceToDepth":
        return op, [f32(n, c, 2 * h, 2 * w)], dict(blocksize=2), ()
    if op in ("RoiAlign", "MaxRoiPool"):
        m = pick([1, 3])
        corner = rng.random((m, 2)) * 4
        boxes = np.concatenate([corner, corner + rng.random((m, 2)) * 5], 1).astype(np.float32)
        image = rng.integers(0, n, m)
        scale = pick([0.5, 1.0])
        if op == "MaxRoiPool":
            return op, [x, np.concatenate([image[:, None], boxes], 1).astype(np.float32)], dict(pooled_shape=[pick([1, 2]), pick([1, 3])], spatial_scale=scale), ()
        return op, [x, boxes, image], dict(output_height=pick([1, 3]), output_width=pick([1, 2]), sampling_ratio=pick([0, 1, 2]), spatial_scale=scale, coordinate_transformation_mode=pick(["half_pixel", "output_half_pixel"])), ()
    if op == "LRN":
        return op, [x], dict(size=pick([1, 3, 5]), **maybe(alpha=0.01, beta=0.5, bias=2.0)), ()
    if op == "Col2Im":
        return op, [f32(1, 2 * 4, 9), i64([4, 4]), i64([2, 2])], {}, (1, 2)
    return op, [x], {}, ()


KINDS = [resize, resize, resize, conv, conv, conv_transpose, conv_transpose, pool, pool, pool, pad, slices, reduction, softmax, arg, top, gather, gather_elements, tuples, tuples, movement, movement, product, product, recurrent, recurrent, norm, norm, images, images]
OUTPUTS = {"TopK": 2, "LSTM": 3, "GRU": 2, "RNN": 2}
DTYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32}


def case(opset):
    op, values, attributes, known = pick(KINDS)()
    names = ["" if v is None else f"x{i}" for i, v in enumerate(values)]
    outputs = [f"y{i}" for i in range(OUTPUTS.get(op, 1))]
    given = {n: v for i, (n, v) in enumerate(zip(names, values)) if n and i not in known}
    inputs = [helper.make_tensor_value_info(n, DTYPES[np.asarray(v).dtype], np.shape(v)) for n, v in given.items()]
    constants = [numpy_helper.from_array(np.asarray(v), n) for i, (n, v) in enumerate(zip(names, values)) if n and i in known]
    node = helper.make_node(op, names, outputs, **attributes)
    results = [helper.make_tensor_value_info(y, TensorProto.INT64 if op in ("ArgMax", "ArgMin") or (op, y) == ("TopK", "y1") else TensorProto.FLOAT, None) for y in outputs]
    graph = helper.make_graph([node], "random", inputs, results, constants)
    return op, helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), given


def main():
    global rng
    folder, count, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500, int(sys.argv[3]) if len(sys.argv) > 3 else 0
    random.seed(seed)
    rng = np.random.default_rng(seed)
    onnxruntime.set_default_logger_severity(4)
    shutil.rmtree(os.path.join(folder, "random"), ignore_errors=True)
    lines, refused = [], 0
    for number in range(count):
        op, model, given = case(pick([18, 20]))
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            found = session.run(None, given)
        except Exception:
            refused += 1
            continue
        name = f"random/{number}_{op}"
        data = os.path.join(folder, name, "test_data_set_0")
        os.makedirs(data)
        onnx.save(model, os.path.join(folder, name, "model.onnx"))
        for kind, values in (("input", given.values()), ("output", found)):
            for i, v in enumerate(values):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(np.asarray(v)).SerializeToString())
        lines.append(f"{name} 0 1e-6 1e-5\n")
    tolerances = os.path.join(folder, "tolerances.txt")
    others = [l for l in open(tolerances) if not l.startswith("random/")] if os.path.exists(tolerances) else []
    with open(tolerances, "w") as f:
        f.writelines([*others, *lines])
    print(len(lines), "cases;", refused, "refused by ONNX Runtime")


if __name__ == "__main__":
    main()
