"""Cases of NumPy's front end: arrays stacked, split, padded, edited and made; diagonals; arithmetic of several dtypes;
rounding, averages, norms, inverses, eigenvalues."""
import numpy as np

from cases_elementwise import broadcast_dims, describe
from cases_linalg import regular
from cases_numpy import axes_attrs, small
from draw import NUMBERS, REALS, case
from tensors import Tensor

FACTORABLE = ("float32", "float64")
MADE = ("float32", "float64", "float16", "int32", "int64")
PAIRS = (("float32", "float32"), ("int32", "float32"), ("float64", "float64"), ("float32", "float16"), ("float16", "float16"),
         ("float64", "int64"), ("int64", "int64"), ("uint8", "float16"), ("int8", "int8"), ("float32", "float64"),
         ("bool", "float32"), ("int32", "int64"), ("uint8", "int32"))


def dtype_of(d, choices=NUMBERS):
    return d.dtype(tuple(t for t in choices if t != "bfloat16"))


@describe("_npi_add _npi_subtract _npi_multiply _npi_mod _npi_power", "numpy_arrays", 16)
def promoting(name, d):
    a, b = broadcast_dims(d)
    left, right = PAIRS[d.number % len(PAIRS)]
    kind = "above_one" if name in ("_npi_mod", "_npi_power") else "normal"
    wants = [left == right, left == right] if name in ("_npi_add", "_npi_subtract", "_npi_multiply") else [0, 0]
    x, y = d.values(a, left, kind), d.values(b, right, kind)
    if name == "_npi_power":
        y = Tensor(right, np.minimum(y.values, 2))
    return case(name, [x, y], wants=wants)


@describe("_npi_column_stack _npi_hstack _npi_vstack _npi_dstack", "numpy_arrays", 11)
def stack(name, d):
    n, dtype = d.pick(1, 2, 3), dtype_of(d)
    axis = {"_npi_column_stack": 1, "_npi_hstack": 1, "_npi_vstack": 0, "_npi_dstack": 2}[name]
    dims = list(small(d, 3 if axis == 2 else 2, 3))
    arrays = []
    for _ in range(n):
        arrays.append(d.values(tuple(dims[:axis] + [d.pick(1, 2, 3)] + dims[axis + 1:]), dtype, "normal"))
    if d.number % 5 == 3:
        arrays = [d.values((dims[0],), dtype, "normal") for _ in range(n)]
    attrs = {"num_args": n}
    if name in ("_npi_hstack", "_npi_dstack") and d.chance(0.3):
        attrs["dim"] = 0
    return case(name, arrays, attrs)


@describe("_np_atleast_1d _np_atleast_2d _np_atleast_3d", "numpy_arrays", 10)
def at_least(name, d):
    n, dtype = d.pick(1, 2, 3), dtype_of(d)
    return case(name, [d.values(small(d, 1, 4) if d.chance(0.7) else (), dtype, "normal") for _ in range(n)], {"num_args": n}, wants=[0] * n)


@describe("_npi_hsplit _npi_dsplit", "numpy_arrays", 11)
def split(name, d):
    axis, dims = (2 if name == "_npi_dsplit" else 1), list(small(d, 3, 4) if name == "_npi_dsplit" else small(d, 2, 4))
    attrs = {"axis": axis}
    if d.chance(0.5):
        parts = d.pick(1, 2, 3)
        dims[axis] = parts * (1 if d.number % 7 == 3 else d.pick(1, 2))
        attrs.update(indices=(), sections=parts)
        if dims[axis] == parts and d.chance(0.7):
            attrs["squeeze_axis"] = True
    else:
        dims[axis] = d.pick(3, 4, 5)
        attrs["indices"] = (0,) + tuple(sorted(set(d.random.randint(1, dims[axis] + 1, 2).tolist())))
    return case(name, [d.values(tuple(dims), dtype_of(d), "normal")], attrs)


@describe("_np_diag _np_diagflat", "numpy_arrays", 11)
def diag(name, d):
    dims = small(d, 1, 2) if name == "_np_diag" else small(d, 1, 3)
    if np.prod(dims) > 20:
        dims = dims[:1] if dims[0] < 20 else (7,)
    attrs = {"k": d.pick(1, -1, 2, -3, 6)} if d.chance(0.7) else {}
    return case(name, [d.values(dims, dtype_of(d), "normal")], attrs)


@describe("_np_diagonal _np_trace", "numpy_arrays", 12)
def diagonal(name, d):
    dims = small(d, 2, 4)
    attrs = {"offset": d.pick(1, -1, 2, 7)} if d.chance(0.6) else {}
    if d.chance(0.6):
        one, two = d.random.choice(len(dims), 2, replace=False)
        attrs.update(axis1=int(one), axis2=int(two) - (len(dims) if d.chance(0.4) else 0))
    return case(name, [d.values(dims, dtype_of(d), "normal")], attrs)


@describe("_npi_diag_indices_from", "numpy_arrays", 10)
def diag_indices(name, d):
    n = d.pick(0, 1, 2, 3, 5, 12)
    return case(name, [d.values((n,) * d.pick(2, 2, 3), dtype_of(d), "normal")], wants=[0])


@describe("_npi_blackman _npi_hamming _npi_hanning", "numpy_arrays", 10)
def window(name, d):
    attrs = {"M": d.pick(0, 1, 2, 5, 7, 12, 150)}
    if d.chance(0.6):
        attrs["dtype"] = d.pick("float64", "float16")
    if d.chance(0.3):
        attrs["ctx"] = "cpu(0)"
    return case(name, [], attrs)


@describe("_npi_eye _npi_identity _npi_indices _npi_logspace", "numpy_arrays", 11)
def made(name, d):
    attrs = {}
    if name == "_npi_eye":
        attrs["N"] = d.pick(0, 1, 3, 5)
        if d.chance(0.7):
            attrs["M"] = d.pick(1, 3, 7)
        if d.chance(0.6):
            attrs["k"] = d.pick(1, -1, 2)
    elif name == "_npi_identity":
        attrs["shape"] = (d.pick(0, 1, 3, 5),) * 2
    elif name == "_npi_indices":
        attrs["dimensions"] = small(d, 1, 3)
    else:
        attrs.update(start=d.pick(0.0, 1.0, -1.0), stop=d.pick(2.0, 0.5, 3.0), num=d.pick(0, 1, 3, 7, 50))
        if d.chance(0.4):
            attrs["endpoint"] = False
        if d.chance(0.5):
            attrs["base"] = d.pick(2.0, 3.0)
    if d.chance(0.6):
        attrs["dtype"] = d.pick(*(MADE[:2] if name == "_npi_logspace" else MADE))
    if d.chance(0.3):
        attrs["ctx"] = "cpu(0)"
    return case(name, [], attrs)


@describe("_npi_full_like", "numpy_arrays", 12)
def full_like(name, d):
    attrs = {"fill_value": d.pick(0.0, 1.0, 3.0)}
    if d.chance(0.5):
        attrs["dtype"] = d.pick("float64", "int32", "float16")
    if d.chance(0.3):
        attrs["ctx"] = "cpu(0)"
    return case(name, [d.values(small(d), dtype_of(d), "normal")], attrs, wants=[0])


@describe("_npi_boolean_mask_assign_scalar", "numpy_arrays", 13)
def mask_assign(name, d):
    dims = small(d, 1, 3, zero=False)
    first = d.integer(0, len(dims))
    mask = Tensor("bool", d.random.rand(*dims[first:d.integer(first, len(dims)) + 1]) < 0.5)
    return case(name, [d.values(dims, dtype_of(d), "normal"), mask], {"value": d.pick(0.0, 1.0, 3.0), "start_axis": first}, wants=[0, 0])


def placed(d, dims):
    """An axis, or none; and its length."""
    axis = d.integer(0, len(dims)) if d.chance(0.7) else None
    return axis, int(np.prod(dims)) if axis is None else dims[axis]


@describe("_npi_delete", "numpy_arrays", 15)
def delete(name, d):
    dims = small(d, 1, 3, zero=False)
    axis, n = placed(d, dims)
    attrs = {} if axis is None else {"axis": axis}
    if d.chance(0.5):
        attrs["int_ind"] = d.integer(-n, n)
    else:
        attrs.update(start=d.integer(0, n), stop=d.integer(0, n + 1), step=d.pick(1, 1, 2, 3))
    return case(name, [d.values(dims, dtype_of(d), "normal")], attrs, wants=[0])


@describe("_npi_insert_scalar _npi_insert_slice _npi_insert_tensor", "numpy_arrays", 18)
def insert(name, d):
    dims = small(d, 1, 3, zero=False)
    axis, n = placed(d, dims)
    attrs, dtype, more = ({} if axis is None else {"axis": axis}), dtype_of(d, ("float32", "float64", "int32", "float16", "int64")), []
    if name == "_npi_insert_scalar":
        count, attrs["int_ind"] = 1, d.integer(0, n + 1)
    elif name == "_npi_insert_slice":
        step = d.pick(1, 1, 2)
        count = d.integer(2, 4)
        attrs.update(start=0, stop=min(n, (count - 1) * step + 1), step=step)
        count = len(range(0, attrs["stop"], step))
    else:
        count = d.integer(1, 4)
        more = [Tensor("int64", d.random.randint(0, n + 1, count))]
    if d.chance(0.4):
        attrs["val"] = d.pick(1.0, 3.0)
        return case(name, [d.values(dims, dtype, "normal")] + more, attrs, wants=[0] * (1 + len(more)))
    along = axis or 0
    flat = dims if axis is not None else (n,)
    shape = tuple((count if i == along else k) if d.chance(0.7) else 1 for i, k in enumerate(flat))
    if name == "_npi_insert_scalar":
        shape = (1,) + tuple(k for i, k in enumerate(shape) if i != along)
    return case(name, [d.values(dims, dtype, "normal"), d.values(shape, dtype, "normal")] + more, attrs, wants=[0] * (2 + len(more)))


@describe("_npi_pad", "numpy_arrays", 20)
def pad(name, d):
    dims = small(d, 1, 3, zero=False)
    attrs = {"mode": d.pick("constant", "edge", "reflect", "symmetric", "maximum", "minimum")}
    widths = []
    for n in dims:
        most = n - 1 if attrs["mode"] == "reflect" else n if attrs["mode"] == "symmetric" else 3
        widths.append((d.integer(0, most + 1), d.integer(0, most + 1)))
    attrs["pad_width"] = tuple(widths)
    if attrs["mode"] == "constant" and d.chance(0.7):
        attrs["constant_value"] = d.pick(1.0, 3.0)
    return case(name, [d.values(dims, dtype_of(d), "normal")], attrs, wants=[attrs["mode"] == "constant"])


@describe("_npi_around", "numpy_arrays", 12)
def around(name, d):
    attrs = {"decimals": d.pick(1, 2, -1)} if d.chance(0.5) else {}
    return case(name, [d.values(small(d), dtype_of(d), d.pick("normal", "ties"))], attrs, wants=[0])


@describe("_npi_polyval", "numpy_arrays", 12)
def polyval(name, d):
    dtype = dtype_of(d, ("float32", "float64", "int32", "float16", "int64", "float32"))
    return case(name, [d.values((d.integer(1, 5),), dtype, "unit"), d.values(small(d), dtype, "unit")], wants=[dtype in FACTORABLE] * 2)


@describe("_npi_ediff1d", "numpy_arrays", 15)
def ediff1d(name, d):
    dtype = dtype_of(d, ("float32", "float64", "int32", "float16", "int64", "float32"))
    inputs, attrs = [d.values(small(d, zero=False), dtype, "normal")], {}
    for end in ("begin", "end"):
        if d.chance(0.35):
            attrs[f"to_{end}_arr_given"] = True
            inputs.append(d.values((d.pick(1, 2, 3),), dtype, "normal"))
        elif d.chance(0.5):
            attrs[f"to_{end}_scalar"] = d.pick(1.0, 3.0)
    return case(name, inputs, attrs)


@describe("_npi_average", "numpy_arrays", 15)
def average(name, d):
    dims, dtype = small(d, zero=False), dtype_of(d, REALS)
    attrs = axes_attrs(d, len(dims))
    attrs.pop("keepdims", None)
    inputs = [d.values(dims, dtype, "normal")]
    if d.chance(0.4):
        attrs["returned"] = True
    if d.chance(0.3):
        attrs["weighted"] = False
    elif d.chance(0.5):
        axis = d.integer(0, len(dims))
        attrs["axis"] = (axis,)
        inputs.append(d.values((dims[axis],), dtype, "positive"))
    else:
        inputs.append(d.values(dims, dtype, "positive"))
    return case(name, inputs, attrs)


@describe("_np_dot", "numpy_arrays", 14)
def dot(name, d):
    dtype, n = dtype_of(d, REALS), d.pick(1, 2, 5)
    lead, last = small(d, 1, 2), d.pick(1, 3)
    a, b = d.pick(((n,), (n,)), (lead + (n,), (n,)), (lead[:1] + (n,), (n, last)), (lead[:1] + (n,), (2, n, last)), ((), lead), (lead, ()))
    return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "normal")])


@describe("_npi_norm", "numpy_arrays", 14)
def norm(name, d):
    attrs = {"flag": d.pick(-2, 1, -1, 0, 2)}
    if attrs["flag"] in (0, 2):
        a = regular(d, (2, d.pick(3, 5)), d.dtype(FACTORABLE))
        attrs.update(axis=(0, 1), ord=d.pick(2.0, -2.0) if attrs["flag"] == 0 else 2.0)
        return case(name, [a], attrs, wants=[0])
    dims = small(d, 2, 3, zero=attrs["flag"] != -1)
    if attrs["flag"] == -1:
        attrs.update(ord=d.pick(1.0, 2.0, 3.0), axis=(d.axis(len(dims)),))
    elif attrs["flag"] == 1:
        attrs["axis"] = (d.integer(0, len(dims)),)
    if d.chance(0.3):
        attrs["keepdims"] = True
    return case(name, [d.values(dims, dtype_of(d, REALS), "nonzero")], attrs, wants=[attrs["flag"] != -1])


@describe("_npi_lcm _npi_lcm_scalar", "numpy_arrays", 11)
def lcm(name, d):
    dtype = d.dtype(("int32", "int64", "uint8", "int8", "int32"))
    if name == "_npi_lcm_scalar":
        return case(name, [d.values(small(d), dtype, "normal")], {"scalar": d.pick(2, 4, 6)}, wants=[0])
    a, b = broadcast_dims(d)
    return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "normal")], wants=[0, 0])


@describe("_npi_pinv _npi_pinv_scalar_rcond", "numpy_arrays", 11)
def pinv(name, d):
    lead = tuple(d.pick(1, 2, 3) for _ in range(d.pick(0, 1)))
    a = regular(d, lead + (d.pick(1, 2, 3), d.pick(1, 2, 3)), d.dtype(FACTORABLE))
    if name == "_npi_pinv":
        return case(name, [a, Tensor(a.dtype, np.full(lead, 2.0**-12))], wants=[0, 0])
    return case(name, [a], {"rcond": 2.0**-12} if d.chance(0.5) else {}, wants=[0])


@describe("_npi_tensorinv _npi_tensorsolve", "numpy_arrays", 11)
def tensor_inverse(name, d):
    n, shape = d.pick((1, (1,)), (4, (2, 2)), (6, (2, 3)), (6, (6,)), (3, (1, 3)))
    matrix = regular(d, (n, n), d.dtype(FACTORABLE))
    if name == "_npi_tensorinv":
        first = d.chance(0.5)
        a = Tensor(matrix.dtype, matrix.values.reshape(shape + (n,) if first else (n,) + shape))
        return case(name, [a], {"ind": len(shape) if first else 1}, wants=[0])
    a = Tensor(matrix.dtype, matrix.values.reshape(shape + (n,)))
    b, attrs = d.values(shape, matrix.dtype, "normal"), {}
    if d.chance(0.4):
        a = Tensor(matrix.dtype, np.moveaxis(a.values, -1, 0))
        attrs["a_axes"] = (0,)
    return case(name, [a, b], attrs, wants=[0, 0])


@describe("_npi_eigh _npi_eigvalsh _npi_eig _npi_eigvals", "numpy_arrays", 11)
def eigen(name, d):
    lead = tuple(d.pick(1, 2, 3) for _ in range(d.pick(0, 1)))
    n = d.pick(1, 2, 3, 5)
    if name in ("_npi_eig", "_npi_eigvals"):  # the order of more is LAPACK's in either dtype
        n = min(n, 2)
    a = regular(d, lead + (n, n), d.dtype(FACTORABLE), "symmetric")
    return case(name, [a], {"UPLO": "U"} if name in ("_npi_eigh", "_npi_eigvalsh") and d.chance(0.5) else {}, wants=[0])


@describe("nanmean nanmax nanmin", "numpy_arrays", 11)
def nan_reduce(name, d):
    dims = small(d, zero=False)
    x = d.values(dims, d.dtype(REALS), "nan")
    return case(name, [x], axes_attrs(d, len(dims)), wants=[0])


@describe("isin", "numpy_arrays", 11)
def isin(name, d):
    dtype = d.dtype(NUMBERS)
    x, others = d.values(small(d), dtype, "ties"), d.values((d.integer(0, 6),), dtype, "ties")
    return case(name, [x, others], {"invert": True} if d.chance(0.4) else {}, wants=[0, 0])


@describe("interp", "numpy_arrays", 11)
def interp(name, d):
    dtype, n = d.dtype(("float32", "float64", "float32", "float16")), d.integer(1, 6)
    points = Tensor(dtype, np.cumsum(d.random.randint(1, 9, n)) / 8 - 1)
    attrs = {end: d.pick(-2.0, 3.0) for end in ("left", "right") if d.chance(0.3)}
    return case(name, [d.values(small(d), dtype, "normal"), points, d.values((n,), dtype, "normal")], attrs, wants=[0, 0, 0])


@describe("cov", "numpy_arrays", 11)
def cov(name, d):
    dims = (d.pick(3, 5, 7),) if d.chance(0.2) else (d.pick(3, 4, 12), d.pick(3, 5, 13))
    attrs = {}
    if d.chance(0.4):
        attrs["rowvar"] = False
    if d.chance(0.4):
        attrs["bias"] = True
    if d.chance(0.3):
        attrs["ddof"] = d.pick(0, 2)
    return case(name, [d.values(dims, d.dtype(REALS), "normal")], attrs)


@describe("cross", "numpy_arrays", 11)
def cross(name, d):
    dims = list(small(d, 1, 3))
    axis = d.axis(len(dims))
    dims[axis] = 3
    dtype = d.dtype(NUMBERS)
    return case(name, [d.values(tuple(dims), dtype, "normal") for _ in range(2)], {"axis": axis})


@describe("linalg_norm", "numpy_arrays", 16)
def linalg_norm(name, d):
    attrs, dtype = {}, d.dtype(("float32", "float64", "float32", "float16"))
    if d.chance(0.3):
        attrs["keepdims"] = True
    if d.chance(0.4):
        attrs.update(axis=(0, 1), ord=d.pick(1.0, -1.0, float("inf"), float("-inf"), 2.0, -2.0))
        if abs(attrs["ord"]) == 2 and dtype == "float16":
            dtype = "float32"
        return case(name, [regular(d, (d.pick(2, 3, 5), d.pick(2, 3, 4)), dtype)], attrs, wants=[0])
    dims = small(d, 1, 3, zero=False)
    if d.chance(0.8):
        attrs.update(axis=(d.axis(len(dims)),), ord=d.pick(1.0, 2.0, 3.0, 0.0, float("inf"), float("-inf"), -1.0))
    return case(name, [d.values(dims, dtype, "nonzero")], attrs, wants=[0])
