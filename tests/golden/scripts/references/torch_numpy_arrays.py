"""PyTorch and NumPy: NumPy's front end, of which Kaon composes the operators."""
import numpy as np
import torch

from formulae import at_least_1d, formula
from torch_numpy import axes_of


def values(x):
    return x.detach().numpy()


@formula("_npi_add _npi_subtract _npi_multiply _npi_mod _npi_power")
def promoting(a, x, name):
    function = {"add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "mod": torch.remainder,
                "power": torch.pow}[name.removeprefix("_npi_")]
    return function(x[0], x[1])


@formula("_npi_column_stack _npi_hstack _npi_vstack _npi_dstack")
def stack(a, x, name):
    return getattr(torch, name.removeprefix("_npi_"))(x)


@formula("_np_atleast_1d _np_atleast_2d _np_atleast_3d")
def at_least(a, x, name):
    return [torch.from_numpy(getattr(np, name.removeprefix("_np_"))(values(v))) for v in x]


@formula("_npi_hsplit _npi_dsplit")
def split(a, x, name):
    axis = 2 if name == "_npi_dsplit" else 1
    cuts = a.get("sections") or list(a.tuple("indices")[1:])
    parts = torch.tensor_split(x[0], cuts, axis)
    return [p.squeeze(axis) if a.get("squeeze_axis") else p * 1 for p in parts]


def diagonals(x, offset, axis1, axis2):
    rows, columns = x.shape[axis1], x.shape[axis2]
    if -rows <= offset <= columns:
        return torch.diagonal(x, offset, axis1, axis2)
    shape = [n for i, n in enumerate(x.shape) if i not in (axis1 % x.ndim, axis2 % x.ndim)]
    return x.flatten()[:0].reshape(shape + [0])


@formula("_np_diag _np_diagflat")
def diag(a, x, name):
    if name == "_np_diagflat" or x[0].ndim == 1:
        return torch.diag(x[0].flatten(), a.get("k", 0))
    return diagonals(x[0], a.get("k", 0), 0, 1) * 1


@formula("_np_diagonal _np_trace")
def diagonal(a, x, name):
    y = diagonals(x[0], a.get("offset", 0), a.get("axis1", 0), a.get("axis2", 1))
    return at_least_1d(y.sum(-1)) if name == "_np_trace" else y * 1


@formula("_npi_diag_indices_from")
def diag_indices(a, x):
    return torch.arange(x[0].shape[0]).expand(x[0].ndim, -1)


@formula("_npi_blackman _npi_hamming _npi_hanning")
def window(a, x, name):
    return torch.from_numpy(getattr(np, name.removeprefix("_npi_"))(a.get("M")))


@formula("_npi_eye")
def eye(a, x):
    return torch.from_numpy(np.eye(a.get("N"), a.get("M"), a.get("k", 0)))


@formula("_npi_identity")
def identity(a, x):
    return torch.eye(a.tuple("shape")[0], dtype=torch.float64)


@formula("_npi_indices")
def indices(a, x):
    return torch.from_numpy(np.indices(a.tuple("dimensions")))


@formula("_npi_logspace")
def logspace(a, x):
    return torch.from_numpy(np.logspace(a.get("start"), a.get("stop"), a.get("num"), bool(a.get("endpoint", True)), a.get("base", 10.0)))


@formula("_npi_full_like")
def full_like(a, x):
    return torch.full(x[0].shape, a.get("fill_value"), dtype=torch.float64)


@formula("_npi_boolean_mask_assign_scalar")
def mask_assign(a, x):
    y, first = values(x[0]).copy(), a.get("start_axis")
    y[(slice(None),) * first + (values(x[1]) != 0,)] = a.get("value")
    return torch.from_numpy(y)


def chosen(a):
    if "start" not in a.texts and "stop" not in a.texts:
        return a.get("int_ind")
    return slice(a.get("start"), a.get("stop"), a.get("step"))


@formula("_npi_delete")
def delete(a, x):
    return torch.from_numpy(np.delete(values(x[0]), chosen(a), a.get("axis")))


@formula("_npi_insert_scalar _npi_insert_slice _npi_insert_tensor")
def insert(a, x, name):
    where = values(x[-1]) if name == "_npi_insert_tensor" else chosen(a)
    what = a.get("val") if "val" in a.texts else values(x[1])
    return torch.from_numpy(np.insert(values(x[0]), where, what, a.get("axis")))


@formula("_npi_pad")
def pad(a, x):
    if a.get("mode") == "constant":
        widths = [n for pair in reversed(a.get("pad_width")) for n in pair]
        return torch.nn.functional.pad(x[0], widths, value=a.get("constant_value", 0.0))
    return torch.from_numpy(np.pad(values(x[0]), a.get("pad_width"), a.get("mode")))


@formula("_npi_around")
def around(a, x):
    return torch.from_numpy(np.around(values(x[0]), a.get("decimals", 0)))


@formula("_npi_polyval")
def polyval(a, x):
    y = torch.zeros_like(x[1])
    for c in x[0]:
        y = y * x[1] + c
    return y


@formula("_npi_ediff1d")
def ediff1d(a, x):
    rest, parts = list(x[1:]), []
    for end in ("begin", "end"):
        if a.get(f"to_{end}_arr_given"):
            parts.append(rest.pop(0))
        elif a.get(f"to_{end}_scalar") is not None:
            parts.append(torch.tensor([a.get(f"to_{end}_scalar")]).to(x[0].dtype))
        else:
            parts.append(x[0].flatten()[:0])
    return torch.cat([parts[0], torch.diff(x[0].flatten()), parts[1]])


@formula("_npi_average")
def average(a, x):
    axes = axes_of(a, x[0])
    if not a.get("weighted", True):
        y, sums = x[0].mean(axes), torch.tensor(float(np.prod([x[0].shape[i] for i in axes])), dtype=torch.float64)
    elif x[1].shape == x[0].shape:
        sums = x[1].sum(axes)
        y = (x[0] * x[1]).sum(axes) / sums
    else:
        sums = x[1].sum()
        y = (x[0] * x[1].reshape([-1 if i == axes[0] else 1 for i in range(x[0].ndim)])).sum(axes) / sums
    return [at_least_1d(y), at_least_1d(sums)] if a.get("returned") else at_least_1d(y)


@formula("_np_dot")
def dot(a, x):
    if x[0].ndim == 0 or x[1].ndim == 0:
        return x[0] * x[1]
    return at_least_1d(torch.tensordot(x[0], x[1], ([x[0].ndim - 1], [max(x[1].ndim - 2, 0)])))


@formula("_npi_norm")
def norm(a, x):
    flag, axis, keep = a.get("flag"), a.get("axis"), bool(a.get("keepdims", False))
    if flag == 2:
        return at_least_1d(torch.linalg.svdvals(x[0]).sum())
    if flag in (-2, 1):
        axes = list(range(x[0].ndim)) if axis is None else list(axis)
        return at_least_1d(torch.sqrt((x[0] * x[0]).sum(axes, keepdim=keep)))
    return at_least_1d(torch.linalg.norm(x[0], a.get("ord"), axis if len(axis) == 2 else axis[0], keep))


@formula("_npi_lcm _npi_lcm_scalar")
def lcm(a, x, name):
    return torch.lcm(x[0], x[1] if name == "_npi_lcm" else torch.tensor(int(a.get("scalar"))))


@formula("_npi_pinv _npi_pinv_scalar_rcond")
def pinv(a, x, name):
    return torch.linalg.pinv(x[0], rcond=2.0**-12)


@formula("_npi_tensorinv _npi_tensorsolve")
def tensor_inverse(a, x, name):
    if name == "_npi_tensorinv":
        return torch.linalg.tensorinv(x[0], a.get("ind"))
    y = x[0].movedim(0, -1) if a.get("a_axes") else x[0]
    return torch.linalg.tensorsolve(y, x[1])


def with_signs(vectors):
    """Each column's element of largest magnitude is positive."""
    at = np.argmax(np.abs(vectors), -2)[..., None, :]
    return vectors * np.sign(np.take_along_axis(vectors, at, -2))


@formula("_npi_eigh _npi_eigvalsh _npi_eig _npi_eigvals")
def eigen(a, x, name):
    if name in ("_npi_eigh", "_npi_eigvalsh"):
        found, vectors = np.linalg.eigh(values(x[0]), a.get("UPLO", "L"))
    else:
        found, vectors = np.linalg.eig(values(x[0]))
    if name in ("_npi_eigvalsh", "_npi_eigvals"):
        return torch.from_numpy(found)
    return [torch.from_numpy(found), torch.from_numpy(with_signs(vectors))]


@formula("nanmean nanmax nanmin")
def nan_reduce(a, x, name):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows of NaN
        axis = a.get("axis")
        y = getattr(np, name)(values(x[0]), axis, keepdims=bool(a.get("keepdims", False)))
    return torch.from_numpy(np.atleast_1d(y))


@formula("isin")
def isin(a, x):
    return torch.isin(x[0], x[1], invert=bool(a.get("invert", False)))


@formula("interp")
def interp(a, x):
    return torch.from_numpy(np.asarray(np.interp(values(x[0]), values(x[1]), values(x[2]), a.get("left"), a.get("right"))))


@formula("cov")
def cov(a, x):
    m = x[0].reshape(1, -1) if x[0].ndim == 1 else x[0] if a.get("rowvar", True) else x[0].T
    away = m - m.mean(1, keepdim=True)
    y = away @ away.T / (m.shape[1] - a.get("ddof", 0 if a.get("bias") else 1))
    return y.reshape(1) if x[0].ndim == 1 else y


@formula("cross")
def cross(a, x):
    return torch.linalg.cross(x[0], x[1], dim=a.get("axis", -1))


@formula("linalg_norm")
def linalg_norm(a, x):
    texts = {"inf": np.inf, "-inf": -np.inf}
    order, axis = texts.get(a.get("ord"), a.get("ord")), a.get("axis")
    keep = bool(a.get("keepdims", False))
    if order is None:
        return torch.sqrt((x[0] * x[0]).sum(list(range(x[0].ndim)), keepdim=keep)).reshape([1] * x[0].ndim if keep else [1])
    y = torch.linalg.norm(x[0], order, tuple(axis) if len(axis) == 2 else axis[0], keep)
    return y.reshape(1) if y.ndim == 0 else y
