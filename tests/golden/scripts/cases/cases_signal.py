"""Cases of Fourier transforms, sketches, sequences of events, and of what the front ends name besides."""
import numpy as np

from cases_elementwise import broadcast_dims, describe
from draw import NUMBERS, REALS, case
from tensors import Tensor


@describe("_contrib_fft _contrib_ifft", "signal", 16)
def fourier(name, d):
    length = d.pick(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 31, 60, 64)
    rows = tuple(d.pick(1, 2, 3) for _ in range(d.integer(0, 3)))
    if d.number % 11 == 4 and rows:
        rows = (0,) + rows[1:]
    attrs = {"compute_size": d.pick(1, 2, 64)} if d.chance(0.3) else {}
    return case(name, [d.values(rows + (length * (2 if name == "_contrib_ifft" else 1),), d.dtype(REALS), "normal")], attrs)


@describe("_contrib_count_sketch", "signal", 14)
def count_sketch(name, d):
    columns, out, dtype = d.integer(1, 9), d.integer(1, 7), d.dtype(("float32", "float64", "float16"))
    rows = 0 if d.number % 11 == 4 else d.integer(1, 5)
    flat = (columns,) if d.chance(0.3) else (1, columns)
    attrs = {"out_dim": out}
    if d.chance(0.3):
        attrs["processing_batch_size"] = 16
    return case(name, [d.values((rows, columns), dtype, "normal"), Tensor(dtype, d.random.randint(0, out, flat)),
                       Tensor(dtype, 2 * d.random.randint(0, 2, flat) - 1)], attrs, wants=[1, 0, 0])


@describe("_contrib_hawkesll", "signal", 14)
def hawkesll(name, d):
    n, k, t, dtype = d.integer(1, 5), d.integer(1, 4), d.integer(1, 8), d.dtype(("float32", "float64"))
    lags = d.values((n, t), dtype, "positive")
    lengths = d.random.randint(0, t + 1, n)
    end = lags.values.sum(1) + d.random.randint(1, 5, n)
    return case(name, [d.values((n, k), dtype, "positive"), Tensor(dtype, d.random.randint(1, 16, k) / 16),
                       Tensor(dtype, d.random.randint(1, 32, k) / 16), Tensor(dtype, d.random.randint(0, 16, (n, k)) / 8),
                       lags, Tensor("int32", d.random.randint(0, k, (n, t))), Tensor(dtype, lengths), Tensor(dtype, end)],
                wants=[1, 1, 1, 0, 0, 0, 0, 0])


@describe("SVMOutput", "signal", 14)
def svm_output(name, d):
    n, classes, dtype = d.integer(1, 8), d.integer(1, 9), d.dtype(("float32", "float64", "float16"))
    attrs = {}
    if d.chance(0.6):
        attrs["margin"] = d.pick(0.5, 1.5)
    if d.chance(0.6):
        attrs["regularization_coefficient"] = d.pick(0.25, 2.0)
    if d.chance(0.5):
        attrs["use_linear"] = True
    return case(name, [d.values((n, classes), dtype, "normal"), Tensor(dtype, d.random.randint(0, classes, n))], attrs,
                wants=[1, 0])


@describe("IdentityAttachKLSparseReg", "signal", 14)
def sparse_reg(name, d):
    n, columns, dtype = d.integer(1, 8), d.integer(1, 9), d.dtype(("float32", "float64", "float16"))
    attrs = {}
    for key, values in (("sparseness_target", (0.25, 0.5)), ("penalty", (0.5, 2.0)), ("momentum", (0.5, 0.75))):
        if d.chance(0.6):
            attrs[key] = d.pick(*values)
    inside = Tensor(dtype, d.random.randint(1, 16, (n, columns)) / 16)
    return case(name, [inside, Tensor(dtype, d.random.randint(1, 16, columns) / 16)], attrs, wants=[1, 0], train=True,
                updates=[1])


@describe("_contrib_BatchNormWithReLU", "signal", 14)
def batch_norm_relu(name, d):
    dims, attrs = d.dims(2, 4, zero=False), {}
    if d.chance(0.3):
        attrs["axis"] = d.integer(0, len(dims))
    c, dtype = (dims[attrs.get("axis", 1)],), d.dtype(("float32", "float64", "float16"))
    for key, chance, values in (("fix_gamma", 0.7, (True, False, False)), ("use_global_stats", 0.3, (True, False)),
                                ("eps", 1.0, (2.0**-10, 0.125)), ("momentum", 0.6, (0.875, 0.5))):
        if d.chance(chance):
            attrs[key] = d.pick(*values)
    if np.prod(dims) // c[0] < 4:
        attrs["eps"] = 0.125
    return case(name, [d.values(dims, dtype, "normal"), d.values(c, dtype, "positive"), d.values(c, dtype, "normal"),
                       d.values(c, dtype, "normal"), d.values(c, dtype, "positive")], attrs, wants=[1, 1, 1, 0, 0],
                train=d.chance(0.65), updates=[3, 4])


@describe("_contrib_SparseEmbedding", "signal", 14)
def sparse_embedding(name, d):
    rows, columns, dtype = d.integer(1, 8), d.integer(1, 6), d.dtype(("float32", "float64", "float16"))
    data = Tensor("float32", d.random.randint(0, rows, d.dims(1, 2, zero=False)))
    return case(name, [data, d.values((rows, columns), dtype, "normal")],
                {"input_dim": rows, "output_dim": columns, "dtype": dtype}, wants=[0, 0])


COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


@describe(" ".join(f"_npi_{name}" for name in COMPARISONS), "signal", 13)
def compare(name, d):
    a, b = broadcast_dims(d)
    dtype = d.dtype(NUMBERS)
    return case(name, [d.values(a, dtype, "ties"), d.values(b, dtype, "ties")], wants=[0, 0])


@describe(" ".join(f"_npi_{name}_scalar" for name in COMPARISONS) + " _npi_logical_not", "signal", 13)
def compare_scalar(name, d):
    x = d.values(d.dims(1, 3), d.dtype(NUMBERS), "ties")
    if name == "_npi_logical_not":
        return case(name, [x], wants=[0])
    is_int = d.chance(0.5)
    scalar = d.pick(0.0, 1.0, 2.0) if is_int or not x.is_float else d.pick(0.5, -0.5, 1.5)
    return case(name, [x], {"scalar": scalar, "is_int": is_int}, wants=[0])


@describe("_np_reshape", "signal", 14)
def numpy_reshape(name, d):
    dims = d.dims(1, 4, zero=False)
    size, parts = int(np.prod(dims)), []
    for n in (2, 3, 5):
        if size % n == 0 and d.chance(0.7):
            parts.append(n)
            size //= n
    parts.insert(d.integer(0, len(parts) + 1), d.pick(-1, size))
    return case(name, [d.values(dims, d.dtype(NUMBERS), "normal")], {"newshape": tuple(parts)})


@describe("_npx_reshape", "signal", 16)
def npx_reshape(name, d):
    dims, codes, reverse = [], [], d.chance(0.3)
    for _ in range(d.integer(1, 4)):
        code = d.pick(-2, -3, -5, -6, 0)
        if code == -2:
            dims += [d.integer(1, 5)]
            codes += [-2]
        elif code == -3:
            dims += [1]
            codes += [-3]
        elif code == -5:
            dims += [d.integer(1, 4), d.integer(1, 4)]
            codes += [-5]
        elif code == -6:
            first, second = d.integer(1, 4), d.integer(1, 4)
            dims += [first * second]
            sizes = d.pick([first, second], [-1, second], [first, -1])
            codes += sizes[::-1] + [-6] if reverse else [-6] + sizes
        else:
            n = d.integer(1, 5)
            dims += [n]
            codes += [n]
    if not reverse and d.chance(0.4):
        dims += [2, 3]
        codes += d.pick([-4], [-1])
    if codes == [-3] * len(codes):
        dims, codes = dims + [3], codes + [-2]
    return case(name, [d.values(tuple(dims), d.dtype(NUMBERS), "normal")],
                {"newshape": tuple(codes), **({"reverse": True} if reverse else {})})
