"""Cases of linear algebra: products, factorisations, triangles and diagonals."""
import numpy as np

from cases_elementwise import describe
from draw import ANY, NUMBERS, REALS, case
from tensors import Tensor

FACTORABLE = ("float32", "float64")
SUBSCRIPTS = ("ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bij,bkj->bki", "ij->ji", "ij->j", "ij->", "ii->i", "ii", "iji->j",
              "i,j->ij", "ij,ij->i", "ij,ij->", "ij,jk,kl->il", "ij,ik,il->jkl", "a,b,c->cab", "abc,bd,cde->ae", "ij,jk",
              "ba", "...ij,...jk->...ik", "...i->...", "i...->...i", "ij,j...->i...", " i j , j -> i ", "ii,ij->j")


def batch(d, low=0):
    """Leading axes; every 11th case has none of something."""
    lead = tuple(d.pick(1, 2, 3) for _ in range(d.pick(low, 1, 2)))
    return (0,) + lead if d.number % 11 == 4 else (1,) + lead[1:] if d.number % 11 == 2 else lead


def edge(d):
    return 12 if d.number % 11 == 6 else d.pick(1, 2, 3, 5)


def regular(d, shape, dtype, kind="plain"):
    """Matrices that are far from singular; kind: plain, symmetric, positive (definite)."""
    x = d.random.randint(-64, 65, shape) / 64.0
    rows, columns = shape[-2:]
    if kind != "plain":
        x = np.round((x + np.swapaxes(x, -1, -2)) * 32) / 64
    least = 1.5 + (max(rows, columns) if kind == "positive" else 0)
    x = x + np.eye(rows, columns) * (least + np.arange(rows)[:, None]) * (1 if kind == "positive" else d.pick(1, -1))
    return Tensor(dtype, x)


@describe("_linalg_gemm _linalg_gemm2", "linalg", 17)
def gemm(name, d):
    n, axis = d.pick(2, 2, 3, 4), -2
    rows, summed, columns = d.pick(1, 2, 3, 5), d.pick(1, 2, 4, 7), d.pick(1, 2, 3, 5)
    if d.number % 11 == 6:
        rows, columns = 12, 13
    lead = [d.pick(1, 2, 3) for _ in range(n - 2)]
    if d.number % 11 == 4:
        lead, n = [0] + lead, n + 1
    attrs = {}
    if d.chance(0.4):
        axis = d.integer(0, n - 1) - (n if d.chance(0.5) else 0)
        attrs["axis"] = axis
    ta, tb = d.chance(0.4), d.chance(0.4)
    for key, value in (("transpose_a", ta), ("transpose_b", tb)):
        if value or d.chance(0.3):
            attrs[key] = value
    if d.chance(0.5):
        attrs["alpha"] = d.pick(0.5, -2.0, 1.25)
    if name.endswith("gemm") and d.chance(0.5):
        attrs["beta"] = d.pick(0.5, -1.5, 2.0)

    def shape(r, c):
        s = lead + [c]
        s.insert(axis % n, r)
        return tuple(s)

    dtype, kind = d.dtype(REALS), d.pick("normal", "ties", "nan" if d.number % 8 == 2 else "normal")
    inputs = [d.values(shape(*((summed, rows) if ta else (rows, summed))), dtype, kind),
              d.values(shape(*((columns, summed) if tb else (summed, columns))), dtype, "normal")]
    if name.endswith("gemm"):
        inputs.append(d.values(shape(rows, columns), dtype, "normal"))
    return case(name, inputs, attrs)


@describe("_linalg_syrk", "linalg", 14)
def syrk(name, d):
    attrs = {"transpose": True} if d.chance(0.5) else {}
    if d.chance(0.5):
        attrs["alpha"] = d.pick(0.5, -2.0)
    return case(name, [d.values(batch(d) + (edge(d), edge(d)), d.dtype(REALS), "normal")], attrs)


@describe("_linalg_trmm _linalg_trsm", "linalg", 18)
def triangular(name, d):
    solves, lead, n, m = name.endswith("trsm"), batch(d), edge(d), d.pick(1, 2, 3, 5)
    attrs = {}
    for key in ("transpose", "rightside"):
        if d.chance(0.5):
            attrs[key] = True
    if d.chance(0.5):
        attrs["lower"] = False
    if d.chance(0.5):
        attrs["alpha"] = d.pick(0.5, -2.0, 1.25)
    dtype = d.dtype(FACTORABLE if solves else REALS)
    b = (m, n) if attrs.get("rightside") else (n, m)
    return case(name, [regular(d, lead + (n, n), dtype), d.values(lead + b, dtype, "normal")], attrs)


@describe("_linalg_potrf", "linalg", 13)
def potrf(name, d):
    n = edge(d)
    return case(name, [regular(d, batch(d) + (n, n), d.dtype(FACTORABLE), "positive")])


@describe("_linalg_potri _linalg_inverse _linalg_det _linalg_slogdet", "linalg", 13)
def square(name, d):
    n = d.pick(1, 2, 3, 5)
    return case(name, [regular(d, batch(d) + (n, n), d.dtype(FACTORABLE))])


@describe("_linalg_syevd", "linalg", 13)
def syevd(name, d):
    n = d.pick(1, 2, 3, 5, 6)
    return case(name, [regular(d, batch(d) + (n, n), d.dtype(FACTORABLE), "symmetric")])


@describe("_linalg_gelqf _npi_svd", "linalg", 13)
def orthogonal(name, d):
    m, n = sorted((d.pick(1, 2, 3, 4), d.pick(1, 3, 5)))
    if name == "_npi_svd" and d.chance(0.4):
        m, n = n, m
    return case(name, [regular(d, batch(d) + (m, n), d.dtype(FACTORABLE))])


@describe("_npi_solve", "linalg", 14)
def solve(name, d):
    lead, n, dtype = batch(d), edge(d), d.dtype(FACTORABLE)
    b = lead + ((n,) if d.chance(0.4) else (n, d.pick(1, 2, 3)))
    return case(name, [regular(d, lead + (n, n), dtype), d.values(b, dtype, "normal")])


@describe("_linalg_sumlogdiag", "linalg", 13)
def sumlogdiag(name, d):
    n = edge(d)
    return case(name, [d.values(batch(d) + (n, n), d.dtype(REALS), "positive")])


@describe("_linalg_extractdiag _linalg_makediag _linalg_extracttrian _linalg_maketrian", "linalg", 13)
def packed(name, d):
    m, attrs, offset = d.pick(1, 2, 3, 5), {}, d.pick(0, 0, 1, -1, 2, -3)
    if offset or d.chance(0.3):
        attrs["offset"] = offset
    if name.endswith("trian") and d.chance(0.5):
        attrs["lower"] = d.chance(0.4)
    n = m + abs(offset)
    size = m if name.endswith("diag") else m * (m + 1) // 2
    shape = batch(d) + ((n, n) if "extract" in name else (size,))
    return case(name, [d.values(shape, d.dtype(ANY), "nan" if d.number % 8 == 3 else None)], attrs)


@describe("_npi_matmul", "linalg", 18)
def matmul(name, d):
    k, dtype = d.pick(1, 2, 3, 5), d.dtype(NUMBERS)
    lead = batch(d)
    a, b = lead + (edge(d), k), lead + (k, d.pick(1, 2, 4))
    form = d.number % 6
    if form == 1:
        a = (k,)
    elif form == 2:
        b = (k,)
    elif form == 3:
        b = b[-2:]
    elif form == 4:
        a = tuple(d.pick(1, n) for n in lead) + a[-2:]
    elif form == 5:
        a = a[-2:]
    return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "normal")])


@describe("_npi_tensordot _npi_tensordot_int_axes", "linalg", 14)
def tensordot(name, d):
    count, dtype = d.pick(0, 1, 1, 2), d.dtype(NUMBERS)
    summed = [d.pick(1, 2, 3, 0 if d.number % 11 == 4 else 4) for _ in range(count)]
    left = [d.pick(1, 2, 3) for _ in range(d.pick(1, 2))]
    right = [d.pick(1, 2, 5, 13 if d.number % 11 == 6 else 2) for _ in range(d.pick(1, 2))]
    if name.endswith("int_axes"):
        return case(name, [d.values(tuple(left + summed), dtype, "normal"), d.values(tuple(summed + right), dtype, "normal")],
                    {"axes": count})

    def mixed(others):
        """A shape with `summed` somewhere among the others, and where."""
        places = [int(i) for i in d.random.permutation(len(others) + count)[:count]]
        shape, rest = [0] * (len(others) + count), list(others)
        for place, n in zip(places, summed):
            shape[place] = n
        for i in range(len(shape)):
            if i not in places:
                shape[i] = rest.pop(0)
        return tuple(shape), tuple(p - len(shape) if d.chance(0.3) else p for p in places)

    (a, a_axes), (b, b_axes) = mixed(left), mixed(right)
    return case(name, [d.values(a, dtype, "normal"), d.values(b, dtype, "normal")],
                {"a_axes_summed": a_axes, "b_axes_summed": b_axes})


@describe("_npi_einsum", "linalg", 27)
def einsum(name, d):
    subscripts, dtype = SUBSCRIPTS[d.number % len(SUBSCRIPTS)], d.dtype(NUMBERS)
    sizes = {c: d.pick(1, 2, 3, 5) for c in "abcdeijkl"}
    if d.number % 11 == 4:
        sizes[d.pick(*"ijab")] = 0
    more = tuple(d.pick(1, 2, 3) for _ in range(d.pick(0, 1, 2)))
    inputs = []
    for part in subscripts.split("->")[0].replace(" ", "").split(","):
        shape = ()
        for piece in part.replace("...", "."):
            shape += more if piece == "." else (sizes[piece],)
        inputs.append(d.values(shape, dtype, "ties"))
    attrs = {"num_args": len(inputs), "subscripts": subscripts}
    if d.chance(0.3):
        attrs["optimize"] = 1
    return case(name, inputs, attrs)


@describe("outer kron", "linalg", 13)
def outer(name, d):
    dtype = d.dtype(NUMBERS)
    shapes = [d.dims(1, 3, zero=i == 0) for i in range(2)]
    shapes = [s if np.prod(s) < 30 else s[-1:] if s[-1] < 30 else (17,) for s in shapes]
    return case(name, [d.values(s, dtype, "normal") for s in shapes])
