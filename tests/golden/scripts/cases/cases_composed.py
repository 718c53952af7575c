"""Cases of normalisations, attention and sequence operators that Kaon composes of others."""
import numpy as np

from cases_elementwise import describe
from draw import NUMBERS, REALS, case
from tensors import Tensor


def images(d, least=3):
    dims = d.dims(least, 5, zero=False)
    return dims if np.prod(dims[2:]) > 3 else dims[:2] + tuple(k + 2 for k in dims[2:])


@describe("InstanceNorm", "composed", 36)
def instance_norm(name, d):
    dims, dtype = images(d), d.dtype(REALS)
    c = (dims[1],)
    attrs = {"eps": d.pick(2.0**-10, 0.125)} if d.chance(0.6) else {}
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, dtype, "normal"), d.values(c, dtype, "normal")], attrs)


@describe("GroupNorm", "composed", 36)
def group_norm(name, d):
    dims, dtype, groups = list(images(d)), d.dtype(REALS), d.pick(1, 2, 3)
    dims[1] = groups * d.pick(1, 2)
    attrs = {"num_groups": groups} if groups > 1 or d.chance(0.4) else {}
    if d.chance(0.6):
        attrs["eps"] = d.pick(2.0**-10, 0.125)
    c = (groups,)
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, dtype, "normal"), d.values(c, dtype, "normal")], attrs)


@describe("L2Normalization", "composed", 45)
def l2_normalization(name, d):
    mode = d.pick("instance", "channel", "spatial")
    attrs = {"mode": mode} if mode != "instance" or d.chance(0.4) else {}
    if d.chance(0.5):
        attrs["eps"] = d.pick(0.125, 1e-6)
    dims = d.dims(1 if mode == "instance" else 3, 4, zero=d.chance(0.5))
    return case(name, [d.values(dims, d.dtype(REALS), "nonzero")], attrs)


@describe("LRN", "composed", 36)
def lrn(name, d):
    attrs = {"nsize": d.pick(1, 3, 5, 7)}
    for key, values in (("alpha", (0.01, 0.5)), ("beta", (0.5, 1.0, 0.75)), ("knorm", (1.0, 0.5))):
        if d.chance(0.5):
            attrs[key] = d.pick(*values)
    dims = (d.pick(1, 2, 3), d.pick(1, 2, 3, 5, 8), d.pick(1, 2, 3), d.pick(1, 2, 5))
    return case(name, [d.values(dims, d.dtype(REALS), "normal")], attrs)


@describe("RMSNorm", "composed", 36)
def rms_norm(name, d):
    dims, attrs = d.dims(1, 4, zero=d.chance(0.5)), {}
    axis, dtype = d.axis(len(dims)), d.dtype(REALS)
    if axis != -1 or d.chance(0.4):
        attrs["axis"] = axis
    if d.chance(0.6):
        attrs["eps"] = d.pick(2.0**-10, 0.125)
    return case(name, [d.values(dims, dtype, "nonzero"), d.values((dims[axis],), dtype, "normal")], attrs)


@describe("moments", "composed", 36)
def moments(name, d):
    dims = d.dims(1, 5, zero=False)
    attrs = {"axes": d.axes(len(dims))}
    if d.chance(0.4):
        attrs["keepdims"] = True
    return case(name, [d.values(dims, d.dtype(REALS), "normal")], attrs)


@describe("_contrib_SyncBatchNorm", "composed", 30)
def sync_batch_norm(name, d):
    dims, attrs = d.dims(2, 4, zero=False), {"key": "bn%d" % d.number}
    c, dtype = (dims[1],), d.dtype(("float32", "float64", "float16"))
    for key, chance, values in (("fix_gamma", 0.7, (True, False, False)), ("use_global_stats", 0.3, (True, False)),
                                ("eps", 1.0, (2.0**-10, 0.125)), ("momentum", 0.6, (0.875, 0.5)), ("ndev", 0.3, (1,))):
        if d.chance(chance):
            attrs[key] = d.pick(*values)
    if np.prod(dims) // c[0] < 4:
        attrs["eps"] = 0.125
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, dtype, "positive"), d.values(c, dtype, "normal"),
                       d.values(c, dtype, "normal"), d.values(c, dtype, "positive")], attrs, wants=[1, 1, 1, 0, 0],
                train=d.chance(0.65), updates=[3, 4])


@describe("_contrib_div_sqrt_dim", "composed", 24)
def div_sqrt_dim(name, d):
    return case(name, [d.values(d.dims(1, 4), d.dtype(REALS))])


@describe("_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt "
          "_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt", "composed", 30)
def interleaved(name, d):
    heads, size, batch, steps, others = d.pick(1, 2, 3), d.pick(1, 2, 4, 5), d.pick(1, 2), d.pick(1, 3, 5), d.pick(1, 2, 4)
    dtype, attrs = d.dtype(REALS), {"heads": heads}
    if "selfatt" in name:
        inputs = [d.values((steps, batch, heads * 3 * size), dtype, "normal")]
        others = steps
    elif name.endswith("qk"):
        inputs = [d.values((steps, batch, heads * size), dtype, "normal"),
                  d.values((others, batch, heads * 2 * size), dtype, "normal")]
    else:
        inputs = [d.values((others, batch, heads * 2 * size), dtype, "normal")]
    if name.endswith("valatt"):
        inputs.append(d.values((batch * heads, steps, others), dtype, "normal"))
    return case(name, inputs, attrs)


@describe("_contrib_arange_like", "composed", 30)
def arange_like(name, d):
    dims, attrs = d.dims(1, 4), {}
    if d.chance(0.5):
        attrs["axis"] = d.axis(len(dims))
    for key, values in (("start", (-2.0, 3.0)), ("step", (2.0, -1.0)), ("repeat", (2, 3))):
        if d.chance(0.5):
            attrs[key] = d.pick(*values)
    return case(name, [d.values(dims, d.dtype(NUMBERS))], attrs, wants=[0])


@describe("shape_array size_array", "composed", 20)
def shape_array(name, d):
    dtype = d.dtype(("float32", "float64", "float16", "int32", "int64", "uint8", "int8"))
    return case(name, [d.values(d.dims(1, 5), dtype)], wants=[0])


@describe("SequenceLast SequenceReverse", "composed", 40)
def sequence(name, d):
    dims, axis, dtype = d.dims(2, 4, zero=False), d.integer(0, 2), d.dtype(REALS)
    if name == "SequenceReverse":
        axis = 0
    attrs = {"axis": axis} if axis or d.chance(0.5) else {}
    data = d.values(dims, dtype)
    if not d.chance(0.8):
        return case(name, [data], attrs)
    attrs["use_sequence_length"] = True
    lengths = d.random.randint(1, dims[axis] + 1, dims[1 - axis])
    return case(name, [data, Tensor(dtype if dtype != "bfloat16" else "float32", lengths)], attrs, wants=[1, 0])


def distinct(d, dims, dtype):
    """No two equal, for nothing says which of them is first."""
    size = int(np.prod(dims))
    low = 0 if dtype == "uint8" else size // 2
    x = (d.random.permutation(size) - low).reshape(dims)
    return Tensor(dtype, x / 4 if dtype in REALS else x)


@describe("topk", "composed", 60)
def topk(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    while np.prod(dims) > 200:
        dims = dims[:-1] + (dims[-1] // 2,)
    axis = d.axis(len(dims))
    if d.chance(0.2):
        attrs["axis"] = None
    elif axis != -1 or d.chance(0.3):
        attrs["axis"] = axis
    n = int(np.prod(dims)) if "axis" in attrs and attrs["axis"] is None else dims[attrs.get("axis", -1)]
    if d.chance(0.8):
        attrs["k"] = d.integer(0, n + 1)
    attrs["ret_typ"] = d.pick("value", "indices", "mask", "both")
    if d.chance(0.5):
        attrs["is_ascend"] = d.chance(0.7)
    if d.chance(0.4):
        attrs["dtype"] = d.pick("int32", "int64", "float64")
    return case(name, [distinct(d, dims, d.dtype(("float32", "int32", "float64", "float16", "int64", "uint8")))], attrs)


@describe("sort argsort", "composed", 40)
def sort(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    while np.prod(dims) > 200:
        dims = dims[:-1] + (dims[-1] // 2,)
    if d.chance(0.2):
        attrs["axis"] = None
    elif d.chance(0.6):
        attrs["axis"] = d.axis(len(dims))
    if d.chance(0.6):
        attrs["is_ascend"] = d.chance(0.4)
    if name == "argsort" and d.chance(0.4):
        attrs["dtype"] = d.pick("int32", "int64", "float64")
    return case(name, [distinct(d, dims, d.dtype(("float32", "int32", "float64", "float16", "int64", "uint8")))], attrs)
