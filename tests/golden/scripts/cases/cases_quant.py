"""Cases of quantised arrays. MXNet keeps primitives by shapes alone, with the scales of the first call: no two cases of
an operator have one shape."""
import numpy as np

from cases_elementwise import describe
from draw import case
from tensors import Tensor


def shape_of(d, low=1, high=4):
    """Its last dimension is that of no other case."""
    dims = tuple(d.pick(1, 2, 3, 5) for _ in range(d.integer(low, high) - 1))
    while np.prod(dims) > 12:
        dims = dims[1:]
    return ((1,) + dims if d.number % 7 == 3 and dims else dims) + (d.number + 1,)


def image_of(d, channels=(1, 2, 3, 8)):
    return (d.pick(1, 1, 2, 3), d.pick(*channels), d.pick(3, 5, 6), d.number % 34 + 3)


def levels(d, shape, dtype):
    low, high = {"int8": (-128, 128), "uint8": (0, 256)}[dtype]
    return Tensor(dtype, d.random.randint(low, high, shape))


def one(x):
    return Tensor("float32", np.array([x]))


def limits(d, dtype="int8"):
    """A minimum and a maximum."""
    a, b = (float(np.float32(d.random.uniform(0.1, 4))) for _ in range(2))
    return (0.0 if dtype == "uint8" and d.chance(0.7) else -a), b


def arrays_of(pair):
    return [one(x) for x in pair]


def calibration(d, chance=0.6):
    if not d.chance(chance):
        return {}
    low, high = limits(d)
    return {"min_calib_range": d.pick(low, 0.0, low), "max_calib_range": high}


def numbers(d, shape):
    x = d.random.uniform(-3, 3, shape)
    if d.number % 5 == 1:  # ties of levels
        x = d.random.randint(-300, 300, shape) / 128.0
    return Tensor("float32", x)


def plain(name, inputs, attrs=None):
    return case(name, inputs, attrs, wants=[False] * len(inputs))


@describe("_contrib_quantize", "quant", 14)
def quantize(name, d):
    return plain(name, [numbers(d, shape_of(d)), *arrays_of(limits(d))],
                 {"out_type": d.pick("int8", "uint8")} if d.chance(0.8) else {})


@describe("_contrib_quantize_v2", "quant", 14)
def quantize_v2(name, d):
    attrs = calibration(d)
    if d.chance(0.8):
        attrs["out_type"] = d.pick("int8", "uint8", "auto")
    x = numbers(d, shape_of(d))
    if d.number % 9 == 4:
        dtype = attrs["out_type"] = d.pick("int8", "uint8")
        x = levels(d, x.shape, dtype)
    return plain(name, [x], attrs)


@describe("_contrib_dequantize", "quant", 14)
def dequantize(name, d):
    dtype = d.pick("int8", "uint8")
    return plain(name, [levels(d, shape_of(d), dtype), *arrays_of(limits(d))])


@describe("_contrib_requantize", "quant", 14)
def requantize(name, d):
    high = 10 ** d.integer(2, 8)
    attrs = calibration(d)
    if attrs:
        attrs["max_calib_range"] = float(np.float32(attrs["max_calib_range"]))
    if d.chance(0.8):
        attrs["out_type"] = d.pick("int8", "uint8", "auto")
    low, top = limits(d)
    scale = 2.0**31 / high
    return plain(name, [Tensor("int32", d.random.randint(-high, high, shape_of(d))), one(low * scale), one(top * scale)],
                 attrs)


@describe("_contrib_calibrate_entropy", "quant", 9)
def calibrate_entropy(name, d):
    bins = 2 * d.integer(20, 100) + 1
    quantized = d.pick(15, 31, 20)
    hist = np.rint(np.abs(d.random.randn(bins)) * np.exp(-((np.arange(bins) - bins // 2) / (bins * d.pick(0.1, 0.3)))**2) * 500)
    return plain(name, [Tensor("float32", hist), Tensor("float32", np.linspace(-2, 2, bins + 1))],
                 {"num_quantized_bins": quantized})


@describe("_contrib_quantized_act", "quant", 9)
def act(name, d):
    return plain(name, [levels(d, image_of(d), "int8"), *arrays_of(limits(d))], {"act_type": "relu"})


@describe("_contrib_quantized_flatten", "quant", 9)
def flatten(name, d):
    return plain(name, [levels(d, shape_of(d, 2, 4), d.pick("int8", "uint8")), *arrays_of(limits(d))])


@describe("_contrib_quantized_embedding", "quant", 9)
def embedding(name, d):
    rows, width = d.pick(1, 3, 20), d.pick(1, 5, 32)
    indices = d.random.randint(0, rows, shape_of(d, 1, 3))
    return plain(name, [Tensor("float32", indices), levels(d, (rows, width), "int8"), *arrays_of(limits(d))],
                 {"input_dim": rows, "output_dim": width, "dtype": "int8", "sparse_grad": d.chance(0.3)})


@describe("_contrib_quantized_concat", "quant", 12)
def concat(name, d):
    n, shape, axis = d.pick(2, 3), list(shape_of(d, 2, 4)), 0
    axis = d.integer(0, len(shape))
    arrays, ranges = [], []
    for _ in range(n):
        own = list(shape)
        own[axis] = d.pick(1, 2, 5)
        dtype = d.pick("int8", "uint8")
        arrays.append(levels(d, tuple(own), dtype))
        ranges += arrays_of(limits(d, dtype))
    return plain(name, arrays + ranges, {"num_args": n, "dim": axis})


@describe("_contrib_quantized_elemwise_add", "quant", 14)
def add(name, d):
    shape, (a, b) = shape_of(d, 2, 4), (d.pick("int8", "uint8"), d.pick("int8", "uint8"))
    return plain(name, [levels(d, shape, a), levels(d, shape, b), *arrays_of(limits(d)), *arrays_of(limits(d))],
                 calibration(d))


@describe("_contrib_quantized_elemwise_mul", "quant", 12)
def mul(name, d):
    """Few levels: MXNet lets products beyond int8 wrap."""
    shape = shape_of(d, 2, 4)
    few = [Tensor("int8", d.random.randint(-100, 101, shape)) for _ in range(2)]
    (a, b), (e, f) = limits(d), limits(d)
    attrs = {}
    if d.chance(0.6):
        most = max(-a, b) * max(-e, f)
        attrs = {"min_calib_range": -float(np.float32(most * 1.1)), "max_calib_range": float(np.float32(most / 2))}
    elif d.chance(0.5):
        attrs = {"enable_float_output": True}
    return plain(name, few + [one(x) for x in (a, b, e, f)], attrs)


@describe("_contrib_quantized_batch_norm", "quant", 12)
def batch_norm(name, d):
    shape, dtype = image_of(d), d.pick("int8", "uint8")
    k = shape[1]
    statistics = [Tensor("float32", d.random.uniform(low, 1.5, k)) for low in (-1, -1, -1, 0.3)]
    low, high = limits(d)
    attrs = {"min_calib_range": low, "max_calib_range": high}
    if d.chance(0.7):
        attrs["eps"] = d.pick(1e-5, 0.02, 0.5)
    if d.chance(0.5):
        attrs.update(fix_gamma=False, momentum=0.5)
    if d.chance(0.3):
        attrs["use_global_stats"] = True
    if d.chance(0.3):
        attrs["cudnn_off"] = True
    return plain(name, [levels(d, shape, dtype), *statistics, *arrays_of(limits(d, dtype))], attrs)


@describe("_contrib_quantized_pooling", "quant", 14)
def pooling(name, d):
    dtype = d.pick("int8", "uint8")
    attrs = {"pool_type": d.pick("max", "avg")}
    if d.chance(0.2):
        attrs.update(global_pool=True, kernel=(1, 1))
    else:
        kernel = (d.pick(1, 2, 3), d.pick(1, 2, 3))
        attrs["kernel"] = kernel
        if d.chance(0.6):
            attrs["stride"] = (d.pick(1, 2), d.pick(1, 2, 3))
        if d.chance(0.5):
            attrs["pad"] = (kernel[0] // 2, kernel[1] // 2)
        if d.chance(0.4):
            attrs["pooling_convention"] = "full"
    if attrs["pool_type"] == "avg" and d.chance(0.4):
        attrs["count_include_pad"] = d.pick(True, False)
    if d.chance(0.2):
        attrs["cudnn_off"] = True
    if d.chance(0.2):
        attrs["p_value"] = 2
    if d.chance(0.3):
        attrs["layout"] = "NCHW"
    return plain(name, [levels(d, image_of(d), dtype), *arrays_of(limits(d))], attrs)


def layer(d, data, weight, no_bias):
    """Data, weight and bias with their ranges."""
    inputs = [data, levels(d, weight, "int8")] + ([] if no_bias else [levels(d, weight[:1], "int8")])
    ranges = [x for _ in inputs for x in arrays_of(limits(d))]
    return inputs + ranges


@describe("_contrib_quantized_fully_connected", "quant", 14)
def fully_connected(name, d):
    dtype, hidden, no_bias = d.pick("int8", "uint8"), d.pick(1, 3, 16, 33), d.chance(0.4)
    shape = (d.pick(1, 2, 5),) + ((3,) if d.chance(0.3) else ()) + (d.number + 1,)
    attrs = {"num_hidden": hidden, "no_bias": no_bias}
    if len(shape) == 2 and d.chance(0.4):
        attrs["flatten"] = False
    return plain(name, layer(d, levels(d, shape, dtype), (hidden, int(np.prod(shape[1:]))), no_bias), attrs)


@describe("_contrib_quantized_conv", "quant", 14)
def conv(name, d):
    shape, kernel, group, no_bias = image_of(d, (2, 4, 8)), (d.pick(1, 2, 3), d.pick(1, 3)), d.pick(1, 1, 2), d.chance(0.4)
    filters = group * d.pick(1, 3, 8)
    attrs = {"kernel": kernel, "num_filter": filters, "num_group": group, "no_bias": no_bias}
    if d.chance(0.5):
        attrs["stride"] = (d.pick(1, 2), d.pick(1, 2))
    if d.chance(0.5):
        attrs["pad"] = (1, 2)
    if d.chance(0.3):
        attrs["dilate"] = (1, 2) if shape[3] > 5 else (1, 1)
    if d.chance(0.3):
        attrs.update(workspace=512, cudnn_tune="off", cudnn_off=True, layout="NCHW")
    return plain(name, layer(d, levels(d, shape, d.pick("int8", "uint8", "uint8")), (filters, shape[1] // group, *kernel), no_bias), attrs)
