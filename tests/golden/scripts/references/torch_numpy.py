"""PyTorch: NumPy's statistics, searches and element functions, and activations that Kaon composes of others."""
import numpy as np
import torch
import torch.nn.functional as nn

from formulae import FORMULAE, at_least_1d, formula


def axes_of(a, x):
    axes = a.get("axis")
    if axes is None:
        return list(range(x.ndim))
    return [int(i) % x.ndim for i in (axes if isinstance(axes, tuple) else (axes,))]


def in_rows(x, axes):
    """The axes as one, the last."""
    kept = [i for i in range(x.ndim) if i not in axes]
    n = int(np.prod([x.shape[i] for i in axes]))
    return x.permute(kept + sorted(axes)).reshape([x.shape[i] for i in kept] + [n])


def kept_shape(x, axes, keep):
    return [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]


def over(a, x, function):
    """function of the last axis of the rows, in the result's shape."""
    axes = axes_of(a, x)
    return at_least_1d(function(in_rows(x, axes)).reshape(kept_shape(x, axes, a.get("keepdims", False))))


@formula("_np_any _np_all")
def truth(a, x, name):
    return over(a, x[0].detach() != 0, lambda r: (r.any(-1) if name == "_np_any" else r.all(-1)))


def truncated(x, a):
    """As the dtype holds it."""
    if a.get("dtype") in ("int64", "int32") and x.is_floating_point():
        return torch.trunc(x).long()
    return x.double() if a.get("dtype") in ("float32", "float64") and not x.is_floating_point() else x


@formula("_np_sum _npi_mean _np_prod")
def reduction(a, x, name):
    y = truncated(x[0], a)
    if name == "_npi_mean":
        return over(a, y.double(), lambda r: r.mean(-1))
    y = over(a, y, lambda r: r.sum(-1) if name == "_np_sum" else r.prod(-1))
    initial = a.get("initial")
    if initial is None:
        return y
    initial = initial if y.is_floating_point() else int(initial)
    return y + initial if name == "_np_sum" else y * initial


class Extreme(torch.autograd.Function):
    """The gradient goes whole to every tied element, as MXNet has it."""

    @staticmethod
    def forward(context, rows, largest):
        y = rows.amax(-1) if largest else rows.amin(-1)
        context.save_for_backward(rows == y[..., None])
        return y

    @staticmethod
    def backward(context, head):
        return head[..., None] * context.saved_tensors[0], None


@formula("_np_max _np_min")
def extreme(a, x, name):
    largest = name == "_np_max"
    y = over(a, x[0], lambda r: Extreme.apply(r, largest) if r.is_floating_point() else r.amax(-1) if largest else r.amin(-1))
    if a.get("initial") is None:
        return y
    start = torch.tensor(a.get("initial")).to(y.dtype)
    return torch.where(y >= start if largest else y <= start, y, start)


@formula("_npi_argmax _npi_argmin")
def arg(a, x, name):
    values = x[0].detach().numpy()
    axis = a.get("axis")
    place = (np.argmax if name == "_npi_argmax" else np.argmin)(values, axis)
    if a.get("keepdims"):
        place = np.expand_dims(place, axis) if axis is not None else np.reshape(place, (1,) * values.ndim)
    return at_least_1d(torch.tensor(np.asarray(place)))


@formula("_npi_var _npi_std")
def deviation(a, x, name):
    def of(r):
        d = r - r.mean(-1, keepdim=True)
        y = (d * d).sum(-1) / max(r.shape[-1] - a.get("ddof", 0), 0)
        return y if name == "_npi_var" else torch.sqrt(y)

    return over(a, x[0].double(), of)


@formula("logsumexp")
def logsumexp(a, x):
    return over(a, x[0], lambda r: torch.logsumexp(r, -1))


def quantile(rows, q, kind):
    """Of the last axis, q in [0, 1]; halves go upwards."""
    ordered = torch.sort(rows, -1).values
    at = q * (rows.shape[-1] - 1)
    low = torch.floor(at)
    part = at - low
    element = lambda i: ordered[..., i.long().clamp(max=rows.shape[-1] - 1)]
    if kind == "lower":
        return element(low)
    if kind == "higher":
        return element(torch.ceil(at))
    if kind == "nearest":
        return element(torch.floor(at + 0.5))
    share = 0.5 * (part > 0) if kind == "midpoint" else part
    return element(low) + (element(low + 1) - element(low)) * share


@formula("quantile _npi_percentile median")
def quantiles(a, x, name):
    data = x[0].double()
    axes, keep = axes_of(a, data), a.get("keepdims", False)
    q = 0.5 if name == "median" else a.get("q" if name == "quantile" else "q_scalar")
    scale = 100 if name == "_npi_percentile" else 1
    kind = a.get("interpolation", "linear")
    shape = kept_shape(data, axes, keep)
    if q is not None:
        y = quantile(in_rows(data, axes), torch.tensor([q / scale], dtype=torch.float64), kind)
        return at_least_1d(y.reshape(shape))
    y = quantile(in_rows(data, axes), x[1].detach() / scale, kind)
    return y.movedim(-1, 0).reshape([x[1].numel()] + shape)


@formula("_histogram")
def histogram(a, x):
    values = x[0].detach().numpy().reshape(-1)
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if len(x) == 2:
        counts, edges = np.histogram(values, x[1].detach().numpy())
    else:
        low, high = a.tuple("range")
        counts, edges = np.histogram(values[(values >= low) & (values <= high)], a.get("bin_cnt"), (low, high))
    return [torch.tensor(counts), torch.tensor(edges)]


@formula("isclose _contrib_allclose")
def close(a, x, name):
    both = [v.detach().double() for v in x]
    y = torch.isclose(both[0], both[1], a.get("rtol", 1e-5), a.get("atol", 1e-8), a.get("equal_nan", name != "isclose"))
    return y if name == "isclose" else y.all().reshape(1)


@formula("cumprod")
def cumprod(a, x):
    y = x[0].double() if a.get("dtype") == "float64" else x[0]
    return y.flatten().cumprod(0) if a.get("axis") is None else y.cumprod(a.get("axis"))


@formula("cummax cummin")
def cummax(a, x, name):
    values, indices = (torch.cummax if name == "cummax" else torch.cummin)(x[0], a.get("axis", 0))
    return [values, indices]


@formula("searchsorted")
def searchsorted(a, x):
    rows, values = (v.detach().contiguous() for v in x)
    return torch.searchsorted(rows, values, right=bool(a.get("right", False)))


def positions(a, x):
    i, n, mode = x[1].detach().long(), x[0].shape[a.get("axis", -1)], a.get("mode", "raise")
    return i.clamp(0, n - 1) if mode == "clip" else i % n if n else i


@formula("take_along_axis")
def take_along(a, x):
    return torch.take_along_dim(x[0], positions(a, x), a.get("axis", -1))


@formula("put_along_axis")
def put_along(a, x):
    axis, kind, i = a.get("axis", -1), a.get("reduce", "none"), positions(a, x)
    if kind == "none":
        return torch.scatter(x[0], axis, i, x[2])
    name = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[kind]
    return torch.scatter_reduce(x[0], axis, i, x[2], name, include_self=True)


@formula("index_add")
def index_add(a, x):
    axis = a.get("axis", 0)
    i = x[1].detach().long()
    return torch.index_add(x[0], axis, i % x[0].shape[axis] if x[0].shape[axis] else i, x[2])


@formula("_npi_tril triu")
def part(a, x, name):
    data = x[0].expand(x[0].shape[0], -1) if x[0].ndim == 1 else x[0]
    return (torch.tril if name == "_npi_tril" else torch.triu)(data, a.get("k", 0))


@formula("_np_roll")
def roll(a, x):
    if a.get("axis") is None:
        return torch.roll(x[0].flatten(), sum(a.tuple("shift"))).reshape(x[0].shape)
    return torch.roll(x[0], a.tuple("shift"), a.tuple("axis"))


@formula("_npi_rot90")
def rot90(a, x):
    return torch.rot90(x[0], a.get("k", 1), a.tuple("axes", (0, 1)))


@formula("_npi_diff")
def diff(a, x):
    return torch.diff(x[0], a.get("n", 1), a.get("axis", -1))


@formula("_np_moveaxis")
def moveaxis(a, x):
    return torch.movedim(x[0], a.tuple("source"), a.tuple("destination"))


@formula("meshgrid")
def meshgrid(a, x):
    return [y * 1 for y in torch.meshgrid(*(v.reshape(-1) for v in x), indexing=a.get("indexing", "xy"))]


for _name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"):
    FORMULAE["_npi_" + _name] = lambda a, x, f=getattr(torch, _name): f(x[0].detach())


@formula("_npi_bitwise_and _npi_bitwise_or _npi_bitwise_xor left_shift right_shift")
def bits(a, x, name):
    function = getattr(torch, name.removeprefix("_npi_") if name.startswith("_npi") else "bitwise_" + name)
    return function(x[0], x[1])


@formula("_npi_bitwise_and_scalar _npi_bitwise_or_scalar _npi_bitwise_xor_scalar")
def bits_scalar(a, x, name):
    return getattr(torch, name.removeprefix("_npi_").removesuffix("_scalar"))(x[0], int(a.get("scalar", 1)))


@formula("_npi_where")
def where(a, x):
    return torch.where(x[0].detach() != 0, x[1], x[2])


@formula("_npi_where_lscalar _npi_where_rscalar")
def where_scalar(a, x, name):
    s = torch.tensor(a.get("scalar", 0.0)).to(x[1].dtype)
    condition = x[0].detach() != 0
    return torch.where(condition, s, x[1]) if name.endswith("lscalar") else torch.where(condition, x[1], s)


@formula("_npi_where_scalar2")
def where_scalars(a, x):
    return torch.where(x[0].detach() != 0, a.get("x", 0.0), a.get("y", 0.0)).double()


class FirstOfEqual(torch.autograd.Function):
    """fmax and fmin: of equal numbers the first takes the whole gradient."""

    @staticmethod
    def forward(context, a, b, largest):
        first = torch.isnan(b) | (a >= b if largest else a <= b)
        context.save_for_backward(first)
        context.shapes = a.shape, b.shape
        return torch.where(first, a, b)

    @staticmethod
    def backward(context, head):
        first, = context.saved_tensors
        return (head * first).sum_to_size(context.shapes[0]), (head * ~first).sum_to_size(context.shapes[1]), None


def real(name, a, b):
    if name in ("fmax", "fmin"):
        return FirstOfEqual.apply(a, b, name == "fmax")
    return {"arctan2": torch.arctan2, "copysign": torch.copysign, "fmod": torch.fmod, "ldexp": lambda a, b: a * 2.0 ** b}[name](a, b)


for _name in ("arctan2", "copysign", "ldexp"):
    FORMULAE["_npi_" + _name] = lambda a, x, n=_name: real(n, x[0], x[1])
    FORMULAE[f"_npi_{_name}_scalar"] = lambda a, x, n=_name: real(n, x[0], torch.full_like(x[0], a.get("scalar", 1.0)).detach())
    FORMULAE[f"_npi_r{_name}_scalar"] = lambda a, x, n=_name: real(n, torch.full_like(x[0], a.get("scalar", 1.0)).detach(), x[0])
for _name in ("fmod", "fmax", "fmin"):
    FORMULAE[_name] = lambda a, x, n=_name: real(n, x[0], x[1])


@formula("_npi_true_divide _npi_true_divide_scalar _npi_rtrue_divide_scalar")
def true_divide(a, x, name):
    if name == "_npi_true_divide":
        return x[0] / x[1]
    return x[0] / a.get("scalar", 1.0) if name == "_npi_true_divide_scalar" else a.get("scalar", 1.0) / x[0]


@formula("floor_divide")
def floor_divide(a, x):
    return torch.div(x[0], x[1], rounding_mode="floor")


FORMULAE.update(
    silu=lambda a, x: nn.silu(x[0]), mish=lambda a, x: nn.mish(x[0]), log_sigmoid=lambda a, x: nn.logsigmoid(x[0]),
    hard_swish=lambda a, x: nn.hardswish(x[0]), tanh_shrink=lambda a, x: x[0] - torch.tanh(x[0]),
    hard_shrink=lambda a, x: nn.hardshrink(x[0], a.get("lambd", 0.5)),
    soft_shrink=lambda a, x: nn.softshrink(x[0], a.get("lambd", 0.5)), celu=lambda a, x: nn.celu(x[0], a.get("alpha", 1.0)),
    threshold=lambda a, x: nn.threshold(x[0], a.get("threshold"), a.get("value")), glu=lambda a, x: nn.glu(x[0], a.get("axis", -1)))
