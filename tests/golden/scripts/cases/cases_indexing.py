"""Cases of operators that cut, rearrange and scatter arrays, of positions, of sums up to each element, and more."""
import numpy as np

from cases_elementwise import describe
from draw import ANY, NUMBERS, REALS, case
from tensors import Tensor


@describe("_split_v2", "indexing", 45)
def split(name, d):
    dims, attrs = list(d.dims(1, 4)), {}
    axis = d.axis(len(dims), 0.3)
    n = dims[axis]
    if d.chance(0.5):
        attrs["sections"] = d.integer(1, max(2, min(n, 5) + 1))
        attrs["indices"] = ()
        parts = n // attrs["sections"] if n % attrs["sections"] == 0 else 0
    else:
        cuts = sorted(int(i) for i in d.random.randint(0, n + 1, d.integer(0, 4)))
        attrs["indices"] = (0,) + tuple(cuts)
        parts = 0
    if parts == 1 and d.chance(0.7):
        attrs["squeeze_axis"] = True
    if axis != 1 or d.chance(0.3):
        attrs["axis"] = axis
    elif len(dims) == 1:
        attrs["axis"] = 0
    return case(name, [d.values(tuple(dims), d.dtype(NUMBERS))], attrs)


@describe("depth_to_space space_to_depth", "indexing", 36)
def blocks(name, d):
    b = d.pick(1, 2, 2, 3)
    dims = [d.pick(1, 1, 2, 3), d.pick(1, 2, 3), d.pick(1, 2, 3), d.pick(1, 2, 5)]
    if d.number % 11 == 4:
        dims[0] = 0
    dims = dims[:1] + ([dims[1] * b * b] + dims[2:] if name == "depth_to_space" else [dims[1], dims[2] * b, dims[3] * b])
    return case(name, [d.values(tuple(dims), d.dtype(NUMBERS))], {"block_size": b})


@describe("diag", "indexing", 50)
def diag(name, d):
    attrs = {}
    if d.chance(0.3):
        if d.chance(0.7):
            attrs["k"] = d.integer(-3, 4)
        return case(name, [d.values((d.integer(1, 7),), d.dtype(NUMBERS))], attrs)
    dims = d.dims(2, 4)
    a, b = (int(i) for i in d.random.permutation(len(dims))[:2])
    if len(dims) > 2 or d.chance(0.3):
        attrs.update(axis1=a - len(dims) if d.chance(0.3) else a, axis2=b - len(dims) if d.chance(0.3) else b)
    else:
        a, b = 0, 1
    if d.chance(0.6):
        attrs["k"] = d.integer(-dims[a] + (dims[a] > 0), dims[b] + (dims[b] == 0))
    return case(name, [d.values(dims, d.dtype(NUMBERS))], attrs)


def tuples(d, dims, m, count):
    """m rows of indices, no two columns equal."""
    rows = int(np.prod(dims[:m]))
    count = min(count, rows)
    flat = d.random.permutation(rows)[:count] if rows else np.zeros(0, np.int64)
    dtype = d.pick("float32", "int32", "int64", "float64", "uint8")
    return Tensor(dtype, np.array(np.unravel_index(flat.astype(np.int64), dims[:m])).reshape(m, count)), count


@describe("scatter_nd", "indexing", 40)
def scatter(name, d):
    dims = d.dims(1, 4, zero=False)
    m = d.integer(1, len(dims) + 1)
    indices, count = tuples(d, dims, m, d.pick(1, 2, 4, 7))
    data = d.values((count,) + dims[m:], d.dtype(NUMBERS))
    return case(name, [data, indices], {"shape": dims}, wants=[1, 0])


@describe("_contrib_index_copy", "indexing", 36)
def index_copy(name, d):
    dims = d.dims(1, 4, zero=False)
    indices, count = tuples(d, dims, 1, d.pick(1, 2, 4))
    dtype = d.dtype(REALS)
    index = Tensor(d.pick("int32", "int64", "float32"), indices.values.reshape(count))
    return case(name, [d.values(dims, dtype), index, d.values((count,) + dims[1:], dtype)], wants=[1, 0, 1])


@describe("_contrib_index_array", "indexing", 30)
def index_array(name, d):
    dims, attrs = d.dims(1, 4), {}
    if d.chance(0.6):
        attrs["axes"] = d.axes(len(dims))
    dtype = d.dtype(tuple(t for t in NUMBERS if t != "bfloat16"))  # its result is int64, for others too
    return case(name, [d.values(dims, dtype)], attrs, wants=[0])


@describe("_ravel_multi_index _unravel_index", "indexing", 36)
def ravel(name, d):
    sizes = tuple(d.integer(1, 6) for _ in range(d.integer(1, 5)))
    n, dtype = 0 if d.number % 11 == 4 else d.pick(1, 2, 5, 9), d.dtype(("float32", "int32", "float64", "int64", "float16"))
    flat = d.random.randint(0, int(np.prod(sizes)), n)
    if name == "_ravel_multi_index":
        data = np.array(np.unravel_index(flat, sizes)).reshape(len(sizes), n)
    else:
        data = flat if d.chance(0.5) or n % 2 else flat.reshape(2, n // 2)
    if d.chance(0.3):
        sizes = (d.pick(-1, 0),) + sizes[1:]
    return case(name, [Tensor(dtype, data)], {"shape": sizes}, wants=[0])


@describe("cumsum", "indexing", 50)
def cumsum(name, d):
    dims, attrs = d.dims(1, 4), {}
    if d.chance(0.7):
        attrs["axis"] = d.integer(0, len(dims))
    dtype = d.dtype(NUMBERS)
    if d.chance(0.3):
        attrs["dtype"] = d.pick("float64", "float32") if dtype in REALS else d.pick("int64", "float64")
    return case(name, [d.values(dims, dtype, "normal")], attrs)


@describe("khatri_rao", "indexing", 30)
def khatri_rao(name, d):
    columns, dtype = d.pick(1, 2, 3, 5), d.dtype(REALS)
    inputs = [d.values((d.integer(1, 5), columns), dtype, "normal") for _ in range(d.integer(1, 4))]
    if d.number % 11 == 4:
        inputs[0] = d.values((0, columns), dtype)
    # MXNet has no gradient
    return case(name, inputs, {"num_args": len(inputs)}, wants=[d.number % 3 == 1] * len(inputs))


@describe("erfinv", "indexing", 45)
def erfinv(name, d):
    x = d.values(d.dims(1, 4), d.dtype(REALS), "normal")
    values = np.clip(x.values.astype(np.float64) / 3.25, -1, 1)
    if d.number % 4 == 1:
        values = np.where(d.random.rand(*values.shape) < 0.4, np.array([1, -1, 0, np.nan, 0.999, -0.9999, 2e-4])[
            d.random.randint(7, size=values.shape)], values)
    return case(name, [Tensor(x.dtype, values)])


@describe("_contrib_quadratic", "indexing", 40)
def quadratic(name, d):
    attrs = {k: d.pick(0.5, -2.0, 1.25) for k in "abc" if d.chance(0.8)}
    return case(name, [d.values(d.dims(1, 4), d.dtype(REALS))], attrs)


@describe("_contrib_round_ste _contrib_sign_ste make_loss", "indexing", 36)
def own_gradient(name, d):
    return case(name, [d.values(d.dims(1, 4), d.dtype(NUMBERS))])


@describe("_contrib_gradientmultiplier", "indexing", 30)
def gradient_multiplier(name, d):
    attrs = {"scalar": d.pick(0.5, -2.0, 3.0)} if d.chance(0.8) else {}
    if d.chance(0.4):
        attrs["is_int"] = False
    return case(name, [d.values(d.dims(1, 4), d.dtype(NUMBERS))], attrs)


@describe("amp_cast", "amp", 50)
def amp_cast(name, d):
    source, target = d.dtype(ANY), d.pick("float16", "float32")
    return case(name, [d.values(d.dims(nothing=True), source, "normal" if source in REALS else None)], {"dtype": target})


@describe("amp_multicast", "indexing", 40)
def multicast(name, d):
    dtypes = d.pick(("float32", "float16"), ("float32", "float64"), ("float32", "float32"), ("float16", "float32", "float64"),
                    ("float32", "int32"))
    attrs = {"num_outputs": len(dtypes)}
    if d.chance(0.4):
        attrs["cast_narrow"] = True
    return case(name, [d.values(d.dims(1, 3), t, "normal") for t in dtypes], attrs)


def windows(d, least):
    """Attributes of im2col, and the images' sizes and the numbers of windows."""
    kernel, stride, dilate, pad = (tuple(d.integer(1, 4) for _ in "yx"), tuple(d.pick(1, 1, 2, 3) for _ in "yx"),
                                   tuple(d.pick(1, 1, 2) for _ in "yx"), tuple(d.pick(0, 0, 1, 2) for _ in "yx"))
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}
    for key, default in (("stride", (1, 1)), ("dilate", (1, 1)), ("pad", (0, 0))):
        if attrs[key] == default and d.chance(0.6):
            del attrs[key]
    size = [max(least, (k - 1) * w + 1 - 2 * p) + d.pick(0, 1, 3) for k, w, p in zip(kernel, dilate, pad)]
    count = [(n + 2 * p - (k - 1) * w - 1) // s + 1 for n, p, k, w, s in zip(size, pad, kernel, dilate, stride)]
    return attrs, size, count


@describe("im2col col2im", "indexing", 40)
def im2col(name, d):
    attrs, size, count = windows(d, 1)
    n, c = d.pick(1, 1, 2, 3), d.pick(1, 2)
    if name == "im2col":
        return case(name, [d.values((n, c, *size), d.dtype(REALS), "normal")], attrs)
    attrs["output_size"] = tuple(size)
    rows = c * attrs["kernel"][0] * attrs["kernel"][1]
    return case(name, [d.values((n, rows, count[0] * count[1]), d.dtype(REALS), "normal")], attrs)
