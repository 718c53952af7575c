"""PyTorch: linear algebra. Signs and orders of factors are MXNet's, where it says what they are."""
import torch

from formulae import at_least_1d, formula


def transposed(a, x, key):
    return x.mT if a.get(key, False) else x


@formula("_linalg_gemm _linalg_gemm2")
def gemm(a, x):
    axis = a.get("axis", -2)
    left, right = (transposed(a, y.movedim(axis, -2), key) for y, key in zip(x, ("transpose_a", "transpose_b")))
    y = (a.get("alpha", 1.0) * (left @ right)).movedim(-2, axis)
    return y + a.get("beta", 1.0) * x[2] if len(x) == 3 else y


@formula("_linalg_syrk")
def syrk(a, x):
    y = transposed(a, x[0], "transpose")
    return a.get("alpha", 1.0) * (y @ y.mT)


def triangle(a, x):
    return x.tril() if a.get("lower", True) else x.triu()


@formula("_linalg_trmm")
def trmm(a, x):
    left = transposed(a, triangle(a, x[0]), "transpose")
    return a.get("alpha", 1.0) * (x[1] @ left if a.get("rightside", False) else left @ x[1])


@formula("_linalg_trsm")
def trsm(a, x):
    lower = bool(a.get("lower", True)) != bool(a.get("transpose", False))
    left = transposed(a, triangle(a, x[0]), "transpose")
    return torch.linalg.solve_triangular(left, a.get("alpha", 1.0) * x[1], upper=not lower,
                                         left=not a.get("rightside", False))


def symmetric(x):
    return (x + x.mT) / 2


@formula("_linalg_potrf")
def potrf(a, x):
    return torch.linalg.cholesky(symmetric(x[0]))


@formula("_linalg_potri")
def potri(a, x):
    lower = x[0].tril()
    return torch.linalg.inv(lower @ lower.mT)


@formula("_linalg_inverse")
def inverse(a, x):
    return torch.linalg.inv(x[0])


@formula("_linalg_det")
def det(a, x):
    return at_least_1d(torch.linalg.det(x[0]))


@formula("_linalg_slogdet")
def slogdet(a, x):
    return [at_least_1d(y) for y in torch.linalg.slogdet(x[0])]


@formula("_npi_solve")
def solve(a, x):
    return torch.linalg.solve(x[0], x[1].unsqueeze(-1)).squeeze(-1) if x[1].ndim < x[0].ndim else torch.linalg.solve(*x)


def signs(rows):
    """The sign of the element of largest magnitude of each row."""
    if rows.shape[-1] == 0 or rows.numel() == 0:
        return torch.ones(rows.shape[:-1], dtype=rows.dtype)
    return torch.gather(rows, -1, rows.abs().argmax(-1, keepdim=True)).sign().squeeze(-1).detach()


@formula("_linalg_syevd")
def syevd(a, x):
    values, vectors = torch.linalg.eigh(symmetric(x[0]))
    rows = vectors.mT
    return [rows * signs(rows).unsqueeze(-1), values]


@formula("_linalg_gelqf")
def gelqf(a, x):
    q, r = torch.linalg.qr(x[0].mT)
    return [q.mT, r.mT]


@formula("_npi_svd")
def svd(a, x):
    u, s, v = torch.linalg.svd(x[0], full_matrices=False)
    sign = signs(v)
    return [u * sign.unsqueeze(-2), s, v * sign.unsqueeze(-1)]


@formula("_linalg_sumlogdiag")
def sumlogdiag(a, x):
    return at_least_1d(x[0].diagonal(dim1=-2, dim2=-1).log().sum(-1))


@formula("_linalg_extractdiag")
def extractdiag(a, x):
    return x[0].diagonal(a.get("offset", 0), -2, -1)


@formula("_linalg_makediag")
def makediag(a, x):
    return torch.diag_embed(x[0], a.get("offset", 0))


def places(n, offset, lower):
    """The rows and columns of a lower triangle, row by row, or of an upper one, column by column."""
    if offset < 0 or (offset == 0 and lower):
        return torch.tril_indices(n, n, offset)
    columns, rows = torch.tril_indices(n, n, -offset)
    return rows, columns


@formula("_linalg_extracttrian")
def extracttrian(a, x):
    rows, columns = places(x[0].shape[-1], a.get("offset", 0), a.get("lower", True))
    return x[0][..., rows, columns]


@formula("_linalg_maketrian")
def maketrian(a, x):
    offset = a.get("offset", 0)
    n = int((8 * x[0].shape[-1] + 1) ** 0.5 - 1) // 2 + abs(offset)
    rows, columns = places(n, offset, a.get("lower", True))
    y = torch.zeros(x[0].shape[:-1] + (n, n), dtype=x[0].dtype)
    return y.index_put([torch.arange(k).reshape((-1,) + (1,) * (x[0].ndim - 1 - i)) for i, k in enumerate(x[0].shape[:-1])]
                       + [rows, columns], x[0])


@formula("_npi_matmul")
def matmul(a, x):
    return at_least_1d(torch.matmul(*x))


@formula("_npi_tensordot")
def tensordot(a, x):
    return at_least_1d(torch.tensordot(x[0], x[1], (a.tuple("a_axes_summed"), a.tuple("b_axes_summed"))))


@formula("_npi_tensordot_int_axes")
def tensordot_int_axes(a, x):
    return at_least_1d(torch.tensordot(x[0], x[1], a.get("axes")))


@formula("_npi_einsum")
def einsum(a, x):
    return at_least_1d(torch.einsum(a.texts["subscripts"], *x))


@formula("outer")
def outer(a, x):
    return torch.outer(x[0].flatten(), x[1].flatten())


@formula("kron")
def kron(a, x):
    return torch.kron(*x)
