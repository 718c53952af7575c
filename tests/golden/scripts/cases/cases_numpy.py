"""Cases of NumPy's statistics, searches and element functions, and of activations that are made of others."""
import numpy as np

from cases_elementwise import broadcast_dims, describe
from draw import ANY, NUMBERS, REALS, case
from tensors import Tensor

INTEGERS = ("int32", "int64", "uint8", "int8", "bool", "int32")


def axes_attrs(d, n, chance=0.7):
    attrs = {}
    if n and d.chance(chance):
        attrs["axis"] = d.axes(n)
    if d.chance(0.3):
        attrs["keepdims"] = True
    return attrs


def two_small(d):
    """Dimensions that broadcast."""
    a, b = broadcast_dims(d)
    while np.prod(np.maximum(a, b)) > 64:
        i = int(np.argmax(np.maximum(a, b)))
        n = max(a[i], b[i]) // 2
        a, b = (tuple(min(k, n) if j == i and k > 1 else k for j, k in enumerate(s)) for s in (a, b))
    return a, b


def small(d, low=1, high=4, zero=True):
    dims = list(d.dims(low, high, zero))
    while np.prod(dims) > 32:
        dims[int(np.argmax(dims))] //= 2
    return tuple(dims)


@describe("_np_any _np_all", "numpy", 13)
def truth(name, d):
    dims = small(d)
    x = d.values(dims, d.dtype(ANY), "ties")
    if d.chance(0.5):
        x = Tensor(x.dtype, x.values * (d.random.rand(*dims) < (0.2 if name == "_np_any" else 0.9)))
    return case(name, [x], axes_attrs(d, len(dims)), wants=[0])


@describe("_np_sum _npi_mean _np_prod _np_max _np_min", "numpy", 13)
def numpy_reduce(name, d):
    extreme = name in ("_np_max", "_np_min")
    dims = small(d, zero=not extreme and name != "_npi_mean")
    attrs = axes_attrs(d, len(dims))
    dtype = d.dtype(("float32", "int32", "float64", "bool", "float16", "int64", "bfloat16", "int8"))
    if extreme and dtype in ("bool", "bfloat16"):
        dtype = "float32"
    if name == "_np_prod":
        x = d.values(dims, dtype, "unit" if dtype.startswith(("f", "bf")) else "ties")
    else:
        x = d.values(dims, dtype, "normal")
    if not extreme and d.chance(0.35) and dtype not in ("bool", "int8", "bfloat16"):
        attrs["dtype"] = "float64" if name == "_npi_mean" or x.is_float else "int64"
    if name != "_npi_mean" and d.chance(0.35):
        attrs["initial"] = d.pick(2.0, -3.0, 1.0)
    return case(name, [x], attrs)


@describe("_npi_argmax _npi_argmin", "numpy", 10)
def numpy_arg(name, d):
    dims, attrs = small(d, zero=False), {}
    if d.chance(0.7):
        attrs["axis"] = d.axis(len(dims))
    if d.chance(0.3):
        attrs["keepdims"] = True
    return case(name, [d.values(dims, d.dtype(NUMBERS), d.pick("normal", "ties"))], attrs, wants=[0])


@describe("_npi_var _npi_std", "numpy", 13)
def deviation(name, d):
    dims = small(d, zero=False)
    attrs = axes_attrs(d, len(dims))
    axes = attrs.get("axis", range(len(dims)))
    n = int(np.prod([dims[a] for a in axes]))
    dtype = d.dtype(REALS + ("int32",))
    if n > 2 and d.chance(0.4):
        attrs["ddof"] = d.pick(1, 2)
    if d.chance(0.3):
        attrs["dtype"] = "float64"
    x = d.values(dims, dtype, "normal")
    if n == 1:  # a root of nothing has no derivative
        return case(name, [x], attrs, wants=[0])
    return case(name, [Tensor(dtype, x.values + np.arange(x.values.size).reshape(dims) % 7)], attrs)


@describe("logsumexp", "numpy", 13)
def logsumexp(name, d):
    dims = small(d, zero=False)
    return case(name, [d.values(dims, d.dtype(), d.pick("normal", "ties"))], axes_attrs(d, len(dims)))


def distinct(d, dims, dtype):
    size = int(np.prod(dims))
    x = (d.random.permutation(size) - (0 if dtype == "uint8" else size // 2)).reshape(dims)
    return Tensor(dtype, x / 4 if dtype in REALS else x)


@describe("quantile _npi_percentile median", "numpy", 20)
def quantile(name, d):
    dims = small(d, zero=False)
    attrs = axes_attrs(d, len(dims))
    inputs = [distinct(d, dims, d.dtype(("float32", "int32", "float64", "float16", "uint8", "int64", "bfloat16")))]
    if name == "median":
        return case(name, inputs, attrs)
    if d.chance(0.8):
        attrs["interpolation"] = d.pick("linear", "lower", "higher", "midpoint", "nearest")
    scale = 1 if name == "quantile" else 100
    if d.chance(0.6):
        attrs["q" if name == "quantile" else "q_scalar"] = scale * d.pick(0.0, 0.25, 0.5, 0.75, 1.0, 0.375, 0.125)
        return case(name, inputs, attrs, wants=[1])
    q = scale * d.random.randint(0, 9, d.integer(1, 4)) / 8
    return case(name, inputs + [Tensor("float64", q)], attrs, wants=[1, 0])


@describe("_histogram", "numpy", 15)
def histogram(name, d):
    dims = small(d)
    dtype = d.dtype(("float32", "int32", "float64", "float16", "uint8", "int64", "float32"))
    x = d.values(dims, dtype, None if dtype == "float32" else "ties")
    if d.chance(0.5):
        edges = np.unique(d.random.randint(0 if dtype == "uint8" else -4, 7, d.integer(2, 7)))
        if len(edges) > 1:
            return case(name, [x, Tensor(dtype, edges)], wants=[0, 0])
    bins = d.pick(1, 2, 4, 8)
    low = 0 if dtype == "uint8" else -4
    return case(name, [x], {"bin_cnt": bins, "range": (float(low), float(low + 8))}, wants=[0])


@describe("isclose _contrib_allclose", "numpy", 10)
def close(name, d):
    dims = small(d, zero=False)
    dtype = d.dtype(("float32", "float64", "float16", "float32", "int32", "bfloat16"))
    a = d.values(dims, dtype, d.pick("normal", "special"))
    b = Tensor(dtype, a.values * d.pick(1, 1, 1.25) + d.pick(0, 0, 0.5))
    attrs = {}
    if d.chance(0.6):
        attrs["rtol"] = d.pick(0.125, 0.5)
    if d.chance(0.6):
        attrs["atol"] = d.pick(0.25, 1.0)
    if d.chance(0.5):
        attrs["equal_nan"] = d.chance(0.5)
    return case(name, [a, b], attrs, wants=[0, 0])


@describe("cumprod", "numpy", 13)
def cumprod(name, d):
    dims, attrs = small(d), {}
    if d.chance(0.7):
        attrs["axis"] = d.axis(len(dims))
    dtype = d.dtype(("float32", "float64", "int32", "float16", "int64", "bfloat16", "bool"))
    if dtype in ("int32", "float16") and d.chance(0.5):
        attrs["dtype"] = "float64"
    return case(name, [d.values(dims, dtype, "unit" if dtype in REALS else "ties")], attrs)


@describe("cummax cummin", "numpy", 10)
def cummax(name, d):
    dims, attrs = small(d, zero=False), {}
    if d.chance(0.7):
        attrs["axis"] = d.axis(len(dims))
    dtype = d.dtype(("float32", "float64", "int32", "float16", "int64", "bfloat16", "uint8"))
    return case(name, [d.values(dims, dtype, d.pick("normal", "ties", "nan"))], attrs)


@describe("searchsorted", "numpy", 13)
def searchsorted(name, d):
    dims = small(d)
    n = d.integer(0, 8)
    dtype = d.dtype(("float32", "int32", "float64", "float16", "uint8", "int64", "bfloat16"))
    rows = dims[:-1] + (n,) if d.chance(0.5) else (n,)
    ordered = d.values(rows, dtype, "ties")
    attrs = {"right": True} if d.chance(0.5) else {}
    return case(name, [Tensor(dtype, np.sort(ordered.values, -1)), d.values(dims, dtype, "ties")], attrs, wants=[0, 0])


def along(d, dims, duplicates=True):
    axis = d.axis(len(dims))
    n = dims[axis]
    at = axis % len(dims)
    m = d.integer(0, n + 3) if duplicates else d.integer(0, n + 1)
    if n == 0:
        m = 0
    shape = dims[:at] + (m,) + dims[at + 1:]
    if duplicates:
        return axis, shape, d.random.randint(-n, n, shape) if n else np.zeros(shape, int)
    order = np.argsort(d.random.rand(*dims), at)
    return axis, shape, np.take(order, range(m), at)


@describe("take_along_axis", "numpy", 13)
def take_along(name, d):
    dims = small(d)
    axis, shape, indices = along(d, dims)
    attrs = {"axis": axis} if axis != -1 or d.chance(0.5) else {}
    if d.chance(0.4):
        attrs["mode"] = d.pick("wrap", "clip")
        indices = indices * 2
    return case(name, [d.values(dims, d.dtype(NUMBERS)), Tensor(d.pick("int32", "int64", "float32"), indices)], attrs,
                wants=[1, 0])


@describe("put_along_axis", "numpy", 26)
def put_along(name, d):
    dims = small(d)
    kind = d.pick("none", "add", "mul", "max", "min")
    axis, shape, indices = along(d, dims, kind != "none")
    attrs = {"axis": axis} if axis != -1 or d.chance(0.5) else {}
    if kind != "none" or d.chance(0.4):
        attrs["reduce"] = kind
    if d.chance(0.3):
        attrs["mode"] = "wrap"
    dtype = d.dtype(("float32", "int32", "float64", "float16", "int64", "float32", "bfloat16"))
    fill = "nonzero" if kind == "mul" else "ties"
    return case(name, [d.values(dims, dtype, fill), Tensor("int64", indices), d.values(shape, dtype, fill)], attrs,
                wants=[1, 0, 1])


@describe("index_add", "numpy", 13)
def index_add(name, d):
    dims = small(d)
    axis = d.axis(len(dims))
    n, at = dims[axis], axis % len(dims)
    m = d.integer(0, 5) if n else 0
    index = d.random.randint(-n, n, m) if n else np.zeros(0, int)
    attrs = {"axis": axis} if axis != 0 or d.chance(0.5) else {}
    if d.chance(0.3):
        attrs["mode"] = "wrap"
    dtype = d.dtype(NUMBERS)
    return case(name, [d.values(dims, dtype, "normal"), Tensor("int64", index),
                       d.values(dims[:at] + (m,) + dims[at + 1:], dtype, "normal")], attrs, wants=[1, 0, 1])


@describe("_npi_tril triu", "numpy", 10)
def part(name, d):
    attrs = {"k": d.integer(-3, 5)} if d.chance(0.8) else {}
    return case(name, [d.values(small(d), d.dtype(NUMBERS), "normal")], attrs)


@describe("_np_roll", "numpy", 13)
def roll(name, d):
    dims, attrs = small(d), {}
    if d.chance(0.75):
        attrs["axis"] = d.axes(len(dims))
        attrs["shift"] = tuple(d.integer(-9, 10) for _ in attrs["axis"])
    else:
        attrs["shift"] = (d.integer(-9, 10),)
    return case(name, [d.values(dims, d.dtype(NUMBERS), "normal")], attrs)


@describe("_npi_rot90", "numpy", 10)
def rot90(name, d):
    dims, attrs = small(d, 2), {}
    if d.chance(0.8):
        attrs["k"] = d.integer(-5, 6)
    if d.chance(0.6):
        a, b = (int(i) for i in d.random.permutation(len(dims))[:2])
        attrs["axes"] = (a, b - len(dims) if d.chance(0.3) else b)
    return case(name, [d.values(dims, d.dtype(NUMBERS), "normal")], attrs)


@describe("_npi_diff", "numpy", 10)
def diff(name, d):
    dims, attrs = small(d), {}
    if d.chance(0.6):
        attrs["axis"] = d.axis(len(dims))
    if d.chance(0.5):
        attrs["n"] = d.integer(0, 4)
    return case(name, [d.values(dims, d.dtype(NUMBERS), "normal")], attrs)


@describe("_np_moveaxis", "numpy", 10)
def moveaxis(name, d):
    dims = small(d)
    n = d.integer(1, len(dims) + 1)
    attrs = {key: tuple(int(i) - (len(dims) if d.chance(0.3) else 0) for i in d.random.permutation(len(dims))[:n])
             for key in ("source", "destination")}
    return case(name, [d.values(dims, d.dtype(NUMBERS), "normal")], attrs)


@describe("meshgrid", "numpy", 10)
def meshgrid(name, d):
    dtype = d.dtype(NUMBERS)
    shapes = [() if d.chance(0.1) else (d.pick(1, 2, 3, 4, 0 if d.number % 5 == 4 else 2),) for _ in range(d.integer(1, 4))]
    attrs = {"num_args": len(shapes)}
    if d.chance(0.6):
        attrs["indexing"] = d.pick("ij", "xy")
    return case(name, [d.values(s, dtype, "normal") for s in shapes], attrs)


@describe("_npi_isnan _npi_isinf _npi_isfinite _npi_isposinf _npi_isneginf", "numpy", 9)
def number_kind(name, d):
    return case(name, [d.values(small(d), d.dtype(("float32", "float64", "float16", "int32", "float32", "bfloat16")), d.pick("special", "extreme", "nan"))],
                wants=[0])


@describe("_npi_nan_to_num", "numpy", 13)
def nan_to_num(name, d):
    attrs = {}
    for key, values in (("nan", (1.5, -2.0)), ("posinf", (100.0, 7.0)), ("neginf", (-100.0, -7.0))):
        if d.chance(0.5):
            attrs[key] = d.pick(*values)
    if d.chance(0.5):
        attrs["copy"] = d.chance(0.5)
    return case(name, [d.values(small(d), d.dtype(("float32", "float64", "float16", "int32", "float32")), d.pick("special", "nan", "normal"))], attrs)


@describe("_npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor left_shift right_shift", "numpy", 11)
def bits(name, d):
    a, b = two_small(d)
    dtype = d.dtype(INTEGERS)
    if "shift" not in name:
        return case(name, [d.values(a, dtype), d.values(b, dtype)], wants=[0, 0])
    dtype = "int32" if dtype == "bool" else dtype
    return case(name, [d.values(a, dtype), Tensor(dtype, d.random.randint(0, 7, b))], wants=[0, 0])


@describe("_npi_bitwise_and_scalar _npi_bitwise_or_scalar _npi_bitwise_xor_scalar _npi_bitwise_not", "numpy", 9)
def bits_scalar(name, d):
    dtype = d.dtype(INTEGERS)
    attrs = {}
    if name.endswith("scalar"):
        dtype = "int32" if dtype == "bool" else dtype
        attrs["scalar"] = float(d.integer(0, 100))
        if d.chance(0.5):
            attrs["is_int"] = d.chance(0.5)
    return case(name, [d.values(small(d), dtype)], attrs, wants=[0])


@describe("_npi_where _npi_where_lscalar _npi_where_rscalar _npi_where_scalar2", "numpy", 10)
def where(name, d):
    a, b = two_small(d)
    condition = d.values(a, d.pick("float32", "int32", "bool", "float64", "float16"), "ties")
    if name.endswith("scalar2"):
        return case(name, [d.values(a, d.dtype(("float32", "float64", "float16", "int32")), "ties")],
                    {"x": d.pick(1.0, 2.5), "y": d.pick(0.0, -4.0)}, wants=[0])
    dtype = d.dtype(("float32", "int32", "float64", "float16", "int64", "float32", "bfloat16"))
    if name == "_npi_where":
        c = tuple(n if d.chance(0.8) else 1 for n in b)
        return case(name, [condition, d.values(b, dtype, "normal"), d.values(c, dtype, "normal")], wants=[0, 1, 1])
    return case(name, [condition, d.values(b, dtype, "normal")], {"scalar": d.pick(0.0, 3.0, -2.0)}, wants=[0, 1])


@describe("_npi_arctan2 _npi_copysign fmod fmax fmin _npi_ldexp", "numpy", 13)
def real(name, d):
    a, b = two_small(d)
    dtype = d.dtype()
    kind = "normal" if "ldexp" in name else d.pick("normal", "special", "nonzero")
    return case(name, [d.values(a, dtype, kind), d.values(b, dtype, kind)])


@describe("_npi_arctan2_scalar _npi_rarctan2_scalar _npi_copysign_scalar _npi_rcopysign_scalar _npi_ldexp_scalar "
          "_npi_rldexp_scalar", "numpy", 9)
def real_scalar(name, d):
    attrs = {"scalar": d.pick(1.5, -2.0, 3.0)}
    if d.chance(0.4):
        attrs["is_int"] = d.chance(0.5)
    return case(name, [d.values(small(d), d.dtype(), "normal")], attrs)


@describe("floor_divide", "numpy", 10)
def floor_divide(name, d):
    a, b = two_small(d)
    dtype = d.dtype(NUMBERS)
    return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "nonzero")], wants=[0, 0])


@describe("silu mish log_sigmoid hard_swish tanh_shrink hard_shrink soft_shrink celu threshold", "numpy", 9)
def activation(name, d):
    attrs = {}
    if name.endswith("_shrink") and name != "tanh_shrink" and d.chance(0.6):
        attrs["lambd"] = d.pick(0.125, 1.5)
    if name == "celu" and d.chance(0.6):
        attrs["alpha"] = d.pick(0.5, 2.0)
    if name == "threshold":
        attrs = {"threshold": d.pick(0.125, -1.0), "value": d.pick(-3.0, 7.0)}
    return case(name, [d.values(small(d), d.dtype(), d.pick("normal", "normal", "nonzero"))], attrs)


@describe("glu", "numpy", 10)
def glu(name, d):
    dims = list(small(d))
    axis = d.axis(len(dims))
    dims[axis] = dims[axis] // 2 * 2
    return case(name, [d.values(tuple(dims), d.dtype(), "normal")], {"axis": axis} if axis != -1 or d.chance(0.3) else {})


@describe("_npi_true_divide _npi_true_divide_scalar _npi_rtrue_divide_scalar", "numpy", 9)
def true_divide(name, d):
    a, b = two_small(d)
    dtype = d.dtype(("float32", "int32", "float64", "float16", "int64", "float32"))
    if name == "_npi_true_divide":
        return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "nonzero")])
    attrs = {"scalar": d.pick(1.5, -2.0, 3.0), "is_int": False}
    return case(name, [d.values(small(d), dtype, "nonzero")], attrs)
