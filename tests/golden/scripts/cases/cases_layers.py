"""Cases of products, layers and losses."""
import numpy as np

from cases_elementwise import describe
from draw import case
from tensors import Tensor

SIZES = (1, 2, 3, 5, 8)


@describe("dot", "layers", 36)
def dot(name, d):
    dtype, k = d.dtype(), d.pick(1, 2, 3, 5, 8, 17)
    a, b = d.chance(0.4), d.chance(0.4)
    left = tuple(d.pick(*SIZES) for _ in range(d.pick(0, 1, 1, 1, 2)))
    right = tuple(d.pick(*SIZES) for _ in range(d.pick(0, 1, 1, 1, 2)))
    if d.number % 11 == 4:
        left = (0,)
    attrs = {"transpose_a": a, "transpose_b": b} if a or b or d.chance(0.3) else {}
    return case(name, [d.values((k,) + left if a else left + (k,), dtype, "normal"),
                       d.values(right + (k,) if b else (k,) + right, dtype, "normal")], attrs)


@describe("batch_dot", "layers", 30)
def batch_dot(name, d):
    dtype, (n, m, k, q) = d.dtype(), (d.pick(*SIZES) for _ in range(4))
    if d.number % 11 == 4:
        n = 0
    a, b = d.chance(0.4), d.chance(0.4)
    return case(name, [d.values((n, k, m) if a else (n, m, k), dtype, "normal"),
                       d.values((n, q, k) if b else (n, k, q), dtype, "normal")], {"transpose_a": a, "transpose_b": b})


def with_bias(d, inputs, attrs, count, dtype, default):
    """no_bias is left out where it is the operator's default."""
    none = d.chance(0.4)
    if none != default or d.chance(0.3):
        attrs["no_bias"] = none
    return inputs if none else inputs + [d.values((count,), dtype, "normal")]


@describe("FullyConnected", "layers", 40)
def fully_connected(name, d):
    dtype, flat = d.dtype(), d.chance(0.6)
    dims = d.dims(2 if flat else 1, 4)
    k, hidden = int(np.prod(dims[1:])) if flat else dims[-1], d.pick(1, 2, 5, 16, 33)
    if k == 0:
        dims, k = (0, 3), 3
    attrs = {"num_hidden": hidden}
    if not flat or d.chance(0.3):
        attrs["flatten"] = flat
    kind = "normal" if d.number % 8 else "special"
    inputs = with_bias(d, [d.values(dims, dtype, kind), d.values((hidden, k), dtype, "normal")], attrs, hidden, dtype, False)
    return case(name, inputs, attrs)


def window(d, attrs, key, values, default):
    if any(v != default for v in values) or d.chance(0.3):
        attrs[key] = tuple(values)


def in_some_layout(d, inputs, attrs):
    """The inputs, whose channels are second, in a layout that attrs then names: every third case has them last."""
    n = len(inputs[0].shape) - 2
    if d.number % 3 == 1:
        attrs["layout"] = ("NWC", "NHWC", "NDHWC")[n - 1]
        return [Tensor(x.dtype, np.moveaxis(x.values, 1, -1)) if len(x.shape) > 2 else x for x in inputs]
    if d.number % 3 == 2:
        attrs["layout"] = ("NCW", "NCHW", "NCDHW")[n - 1]
    return inputs


@describe("Convolution", "conv", 60)
def convolution(name, d):
    n, dtype = d.pick(1, 2, 2, 2, 3), d.dtype()
    groups = d.pick(1, 1, 1, 2, 3)
    channels, filters = groups * d.pick(1, 1, 2, 3), groups * d.pick(1, 2, 4)
    if d.chance(0.15):
        groups = channels = filters = d.pick(2, 4)
    kernel = [d.pick(1, 2, 3, 3, 4) if n < 3 else d.pick(1, 2, 3) for _ in range(n)]
    stride, dilate, pad = ([d.pick(*c) for _ in range(n)] for c in ((1, 1, 2, 3), (1, 1, 1, 2), (0, 0, 1, 2)))
    dims = [max(1, f * (k - 1) + 1 - 2 * p) + d.pick(0, 1, 2, 5 if n < 3 else 2) for k, f, p in zip(kernel, dilate, pad)]
    attrs = {"kernel": tuple(kernel), "num_filter": filters}
    window(d, attrs, "stride", stride, 1), window(d, attrs, "dilate", dilate, 1), window(d, attrs, "pad", pad, 0)
    if groups > 1:
        attrs["num_group"] = groups
    batch = 0 if d.number % 29 == 4 else d.pick(1, 1, 2, 3)
    inputs = [d.values((batch, channels, *dims), dtype, "normal"), d.values((filters, channels // groups, *kernel), dtype, "normal")]
    inputs = in_some_layout(d, with_bias(d, inputs, attrs, filters, dtype, False), attrs)
    return case(name, inputs, attrs)


@describe("Deconvolution", "conv", 50)
def deconvolution(name, d):
    n, dtype = d.pick(1, 2, 2, 2, 3), d.dtype()
    groups = d.pick(1, 1, 1, 2, 3)
    channels, filters = groups * d.pick(1, 1, 2, 3), groups * d.pick(1, 2, 3)
    kernel = [d.pick(1, 2, 3, 3, 4) if n < 3 else d.pick(1, 2, 3) for _ in range(n)]
    stride, dilate, pad = ([d.pick(*c) for _ in range(n)] for c in ((1, 1, 2, 3), (1, 1, 1, 2), (0, 0, 1, 2)))
    adj = [d.integer(0, s) for s in stride]
    dims = []
    for s, f, k, p, a in zip(stride, dilate, kernel, pad, adj):
        size = d.pick(1, 2, 3, 5)
        while (size - 1) * s + f * (k - 1) + 1 - 2 * p + a < 1:
            size += 1
        dims.append(size)
    attrs = {"kernel": tuple(kernel), "num_filter": filters}
    window(d, attrs, "stride", stride, 1), window(d, attrs, "dilate", dilate, 1)
    if d.number % 6 == 5:
        attrs["target_shape"] = tuple(max(1, (m - 1) * s + f * (k - 1) + 1 - 2 * d.integer(0, 2))
                                      for m, s, f, k in zip(dims, stride, dilate, kernel))
    else:
        window(d, attrs, "pad", pad, 0), window(d, attrs, "adj", adj, 0)
    if groups > 1:
        attrs["num_group"] = groups
    inputs = [d.values((d.pick(1, 1, 2, 3), channels, *dims), dtype, "normal"),
              d.values((channels, filters // groups, *kernel), dtype, "normal")]
    inputs = in_some_layout(d, with_bias(d, inputs, attrs, filters, dtype, True), attrs)
    return case(name, inputs, attrs)


@describe("Pooling", "conv", 70)
def pooling(name, d):
    n, dtype, kind = d.pick(1, 2, 2, 2, 3), d.dtype(), d.pick("max", "avg", "sum", "lp")
    attrs = {"pool_type": kind}
    if kind == "lp":
        attrs["p_value"] = d.pick(1, 2, 3)
    if d.chance(0.2):
        attrs["global_pool"] = True
        dims = [d.integer(1, 6) for _ in range(n)]
        if d.chance(0.4):
            attrs["kernel"] = (2,) * n
    else:
        kernel = [d.pick(1, 2, 2, 3, 3, 4) if n < 3 else d.pick(1, 2, 3) for _ in range(n)]
        stride = [d.pick(1, 1, 2, 2, 3) for _ in range(n)]
        pad = [d.integer(0, k) if d.chance(0.5) else 0 for k in kernel]
        dims = [max(1, k - 2 * p) + d.pick(0, 1, 2, 4 if n < 3 else 2) for k, p in zip(kernel, pad)]
        attrs["kernel"] = tuple(kernel)
        window(d, attrs, "stride", stride, 1), window(d, attrs, "pad", pad, 0)
        if d.chance(0.4):
            attrs["pooling_convention"] = d.pick("full", "valid")
        if kind == "avg" and d.chance(0.6):
            attrs["count_include_pad"] = d.chance(0.5)
    values = {"lp": "positive", "max": d.pick("normal", "ties", "nan")}.get(kind, "normal")
    inputs = in_some_layout(d, [d.values((d.pick(1, 2, 3), d.pick(1, 2, 3), *dims), dtype, values)], attrs)
    return case(name, inputs, attrs)


@describe("BatchNorm", "norm", 60)
def batch_norm(name, d):
    dims, axis, attrs = d.dims(2, 5, zero=False), 1, {}
    if d.chance(0.4):
        axis = d.integer(0, len(dims))
        attrs["axis"] = axis if d.chance(0.6) else axis - len(dims)
    c = (dims[axis],)
    dtype = d.dtype(("float32", "float64", "float32", "float16"))
    kept = "float32" if dtype == "float16" else dtype
    for key, chance, values in (("fix_gamma", 0.7, (True, False, False)), ("use_global_stats", 0.3, (True, False)),
                                ("eps", 0.7, (2.0**-10, 2.0**-17, 0.125)), ("momentum", 0.6, (0.875, 0.5, 0.0))):
        if d.chance(chance):
            attrs[key] = d.pick(*values)
    if np.prod(dims) // c[0] < 4:  # variances near 0 and gradients that cancel
        attrs["eps"] = 0.125
    train = d.chance(0.65)
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, kept, "positive"), d.values(c, kept, "normal"),
                       d.values(c, kept, "normal"), d.values(c, kept, "positive")], attrs, wants=[1, 1, 1, 0, 0],
                train=train, updates=[3, 4])


@describe("LayerNorm", "norm", 40)
def layer_norm(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    axis = d.integer(0, len(dims))
    if axis != len(dims) - 1 or d.chance(0.4):
        attrs["axis"] = axis if d.chance(0.6) else axis - len(dims)
    if d.chance(0.6) or dims[axis] < 4:
        attrs["eps"] = d.pick(2.0**-10, 2.0**-17, 0.125) if dims[axis] > 3 else 0.125
    dtype, c = d.dtype(), (dims[axis],)
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, dtype, "normal"), d.values(c, dtype, "normal")], attrs)


@describe("Activation", "activation", 50)
def activation(name, d):
    kinds = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    return case(name, [d.values(d.dims(), d.dtype())], {"act_type": kinds[d.number % 5]})


@describe("LeakyReLU", "activation", 70)
def leaky_relu(name, d):
    kind = ("leaky", "prelu", "elu", "selu", "gelu", "rrelu")[d.number % 6]
    attrs, dtype = {"act_type": kind}, d.dtype()
    if kind in ("leaky", "elu") and d.chance(0.7):
        attrs["slope"] = d.pick(0.125, 0.25, 1.0, 2.0, 0.0)
    if kind == "rrelu" and d.chance(0.7):
        attrs.update(lower_bound=0.25, upper_bound=0.5)
    if kind == "prelu":
        dims = d.dims(2, 4)
        gamma = d.pick((1,), (dims[1],), (dims[1],), dims[:2], (dims[0], 1))
        return case(name, [d.values(dims, dtype), d.values(gamma, dtype, "normal")], attrs)
    return case(name, [d.values(d.dims(), dtype)], attrs, wants=[kind != "rrelu"])


@describe("softmax", "activation", 44)
@describe("softmin log_softmax", "activation", 30)
def softmax(name, d):
    dims, dtype, attrs = d.dims(1, 4), d.dtype(), {}
    axis = d.integer(0, len(dims))
    by_length = name == "softmax" and d.chance(0.3) and 0 not in dims
    if by_length and len(dims) == 1:
        axis = 0
    if axis != len(dims) - 1 or d.chance(0.4):
        attrs["axis"] = axis if d.chance(0.5) else axis - len(dims)
    if d.chance(0.4):
        attrs["temperature"] = d.pick(1.0, 2.0, 0.5, 8.0)
    if dtype in ("float16", "float32") and d.chance(0.4):
        attrs["dtype"] = "float32" if dtype == "float16" else "float64"
    x = d.values(dims, dtype, d.pick("normal", "normal", "ties", "large"))
    if by_length and len(dims) > 1:
        attrs["use_length"] = True
        lengths = Tensor(d.pick("int32", "int64"), d.random.randint(1, dims[axis] + 1, dims[:axis] + dims[axis + 1:]))
        return case(name, [x, lengths], attrs, wants=[1, 0])
    return case(name, [x], attrs)


@describe("SoftmaxActivation", "activation", 24)
def softmax_activation(name, d):
    attrs = {"mode": d.pick("instance", "channel")} if d.chance(0.8) else {}
    return case(name, [d.values(d.dims(2, 4, zero=False), d.dtype(), "normal")], attrs)


@describe("SoftmaxOutput", "losses", 60)
def softmax_output(name, d):
    dims, dtype, attrs = d.dims(2, 4, zero=False), d.dtype(("float32", "float64", "float32", "float16")), {}
    form = d.pick("plain", "plain", "multi_output", "preserve_shape")
    if form == "multi_output":
        attrs["multi_output"], labels, classes = True, dims[:1] + dims[2:], dims[1]
    elif form == "preserve_shape":
        attrs["preserve_shape"], labels, classes = True, dims[:-1], dims[-1]
    else:
        dims = dims[:2]
        labels, classes = dims[:1], dims[1]
    if d.chance(0.5):
        attrs["grad_scale"] = d.pick(1.0, 0.5, 2.0)
    if d.chance(0.5):
        attrs.update(use_ignore=True, ignore_label=d.pick(-1.0, 0.0, 1.0))
    if d.chance(0.5):
        attrs["normalization"] = d.pick("null", "batch", "valid")
    if d.chance(0.2):
        attrs["smooth_alpha"] = d.pick(0.125, 0.25)
    if d.chance(0.15):
        attrs["out_grad"] = True
    label = d.random.randint(0, classes, labels).astype("float64")
    if "use_ignore" in attrs:
        label[d.random.rand(*labels) < 0.3] = attrs["ignore_label"]
    return case(name, [d.values(dims, dtype, "normal"), Tensor(dtype, label)], attrs, wants=[1, 0])


@describe("softmax_cross_entropy", "losses", 24)
def softmax_cross_entropy(name, d):
    n, classes, dtype = d.integer(1, 8), d.integer(1, 9), d.dtype(("float32", "float64", "float16"))
    return case(name, [d.values((n, classes), dtype, "normal"), Tensor(dtype, d.random.randint(0, classes, n))], wants=[1, 0])


@describe("LinearRegressionOutput MAERegressionOutput LogisticRegressionOutput", "losses", 24)
def regression(name, d):
    dims, dtype = d.dims(1, 3, zero=False), d.dtype(("float32", "float64", "float16"))
    labels = dims[:1] if int(np.prod(dims[1:])) == 1 and d.chance(0.5) else dims
    attrs = {"grad_scale": d.pick(1.0, 0.5, 3.0)} if d.chance(0.6) else {}
    return case(name, [d.values(dims, dtype, "normal"), d.values(labels, dtype, "normal")], attrs, wants=[1, 0])


@describe("MakeLoss", "losses", 28)
def make_loss(name, d):
    attrs = {}
    if d.chance(0.6):
        attrs["grad_scale"] = d.pick(1.0, 0.5, 3.0)
    if d.chance(0.7):
        attrs.update(normalization=d.pick("null", "batch", "valid"), valid_thresh=d.pick(0.0, 0.5, -1.0))
    return case(name, [d.values(d.dims(1, 3, zero=False), d.dtype(("float32", "float64", "float16")), "normal")], attrs)


@describe("Dropout", "losses", 20)
def dropout(name, d):
    train = d.chance(0.5)
    attrs = {"p": 0.0 if train else d.pick(0.0, 0.5)}
    if d.chance(0.3):
        attrs["axes"] = (0,)
    return case(name, [d.values(d.dims(), d.dtype())], attrs, train=train)
