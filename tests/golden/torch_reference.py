"""The same operators by PyTorch in float64, from their formulae, with gradients by its autograd.

compute(case) gives what mxnet_worker.py gives, or None where there is no formula here.
"""
import ast
import math

import numpy as np
import torch
import torch.nn.functional as nn

from tensors import Tensor, head

FORMULAE = {}


def formula(names):
    def add(function):
        for name in names.split():
            FORMULAE[name] = function
        return function

    return add


class Unknown(Exception):
    """This formula does not say what comes out here."""


class Attrs:
    """Attribute texts as values."""

    def __init__(self, texts):
        self.texts = texts

    def get(self, key, default=None):
        if key not in self.texts:
            return default
        try:
            return ast.literal_eval(self.texts[key])
        except ValueError:
            return self.texts[key]

    def tuple(self, key, default=()):
        value = self.get(key)
        if value is None:
            return tuple(default)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def at_least_1d(y):
    return y.reshape(1) if y.ndim == 0 else y


class CubeRoot(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        y = torch.tensor(np.cbrt(x.numpy()))
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context, head):
        return head / (3 * context.saved_tensors[0] ** 2)


def sign(x):
    """NaN of NaN, as NumPy."""
    return torch.where(torch.isnan(x), x, torch.sign(x)).detach() + 0 * torch.where(torch.isfinite(x), x, 0)


def gelu(x):
    """With its limits."""
    return torch.where(torch.isinf(x), torch.relu(x), nn.gelu(torch.where(torch.isinf(x), 0, x)))


class Gamma(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        def value(v):
            try:
                return math.gamma(v)
            except (ValueError, OverflowError):  # a pole, or beyond 171
                return math.inf if v > 1 else math.copysign(math.inf, v) if v == 0 else math.nan

        y = torch.tensor([value(v) for v in x.reshape(-1).tolist()], dtype=torch.float64).reshape(x.shape)
        context.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(context, head):
        x, y = context.saved_tensors
        return head * y * torch.digamma(x)


def add_unary():
    def halves_away(x):
        return torch.sign(x) * torch.floor(x.abs() + 0.5)

    def halves_down(x):
        return torch.where(torch.isfinite(x), torch.ceil(x - 0.5), x.detach())

    def softsign(x):  # with its limits
        return torch.where(torch.isinf(x), torch.sign(x), x / (1 + torch.where(torch.isinf(x), 0, x).abs()))

    table = dict(
        relu=torch.relu, sigmoid=torch.sigmoid, tanh=torch.tanh, exp=torch.exp, log=torch.log, sqrt=torch.sqrt,
        rsqrt=torch.rsqrt, square=torch.square, abs=lambda x: x * sign(x.detach()),
        sign=sign, negative=torch.neg,
        reciprocal=torch.reciprocal, erf=torch.erf, log1p=torch.log1p, expm1=torch.expm1, log2=torch.log2,
        log10=torch.log10, sin=torch.sin, cos=torch.cos, tan=torch.tan, arcsin=torch.asin, arccos=torch.acos,
        arctan=torch.atan, sinh=torch.sinh, cosh=torch.cosh, arcsinh=torch.asinh, arccosh=torch.acosh,
        arctanh=torch.atanh, floor=torch.floor, ceil=torch.ceil, round=halves_away, rint=halves_down,
        trunc=torch.trunc, fix=torch.trunc, cbrt=CubeRoot.apply, rcbrt=lambda x: 1 / CubeRoot.apply(x), softsign=softsign,
        softrelu=lambda x: torch.logaddexp(x, torch.zeros_like(x)), gelu=gelu, degrees=torch.rad2deg,
        radians=torch.deg2rad, gammaln=torch.lgamma, digamma=torch.digamma,
        gamma=Gamma.apply, _copy=torch.clone, identity=torch.clone,
        BlockGrad=torch.detach, stop_gradient=torch.detach, zeros_like=torch.zeros_like, ones_like=torch.ones_like,
        logical_not=torch.logical_not)

    def make(function, name):
        def run(a, x):
            if not x[0].is_floating_point() and name in ("floor", "ceil", "round", "rint", "trunc", "fix"):
                return x[0]
            return function(x[0])

        return run

    for name, function in table.items():
        FORMULAE[name] = make(function, name)


add_unary()


class Modulo(torch.autograd.Function):
    """With the sign of the divisor; 0 for a divisor of 0."""

    @staticmethod
    def forward(context, x, y):
        context.save_for_backward(x, y)
        zero = y == 0
        return torch.where(zero, torch.zeros_like(x * y), torch.remainder(x, torch.where(zero, torch.ones_like(y), y)))

    @staticmethod
    def backward(context, head):
        x, y = context.saved_tensors
        return (head * torch.ones_like(x)).sum_to_size(x.shape), (-head * torch.floor(x / y)).sum_to_size(y.shape)


def modulo(x, y):
    return Modulo.apply(x, y)


def quotient(x, y):
    if x.is_floating_point():
        return x / y
    return torch.div(x, y, rounding_mode="trunc")


BINARY = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=quotient, mod=modulo, power=torch.pow,
              maximum=torch.maximum, minimum=torch.minimum, hypot=torch.hypot, equal=torch.eq, not_equal=torch.ne,
              greater=torch.gt, greater_equal=torch.ge, lesser=torch.lt, lesser_equal=torch.le,
              logical_and=torch.logical_and, logical_or=torch.logical_or, logical_xor=torch.logical_xor)
for _name, _function in BINARY.items():
    for _prefix in ("broadcast_", "elemwise_", "_"):
        FORMULAE[_prefix + _name] = lambda a, x, f=_function: f(x[0], x[1])

    def _scalar(a, x, f=_function, reverse=False):
        s = a.get("scalar", 1.0)
        s = torch.full_like(x[0], s).detach()
        return f(s, x[0]) if reverse else f(x[0], s)

    FORMULAE[f"_{_name}_scalar".replace("add", "plus").replace("sub", "minus")] = _scalar
    FORMULAE[f"_r{_name}_scalar".replace("sub", "minus")] = lambda a, x, f=_scalar: f(a, x, reverse=True)
FORMULAE["_grad_add"] = FORMULAE["broadcast_add"]


@formula("smooth_l1")
def smooth_l1(a, x):
    s, x = a.get("scalar", 1.0), x[0]
    near = x.abs() < 1 / s**2
    return torch.where(near, 0.5 * (s * torch.where(near, x, 0)) ** 2, x.abs() - 0.5 / s**2)


@formula("hard_sigmoid")
def hard_sigmoid(a, x):
    return torch.clamp(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5), 0, 1)


@formula("clip")
def clip(a, x):
    return torch.clamp(x[0], a.get("a_min"), a.get("a_max"))


@formula("Cast cast")
def cast(a, x):
    if a.get("dtype") == "bool":
        return x[0] != 0
    return x[0] * 1 if a.get("dtype") in ("float32", "float64", "float16", "bfloat16") else torch.trunc(x[0].double())


@formula("add_n ElementWiseSum")
def add_n(a, x):
    total = x[0] * 1
    for other in x[1:]:
        total = total + other
    return total


@formula("where")
def where(a, x):
    condition = x[0] != 0
    if condition.ndim < x[1].ndim:
        condition = condition.reshape((-1,) + (1,) * (x[1].ndim - 1))
    return torch.where(condition, x[1], x[2])


def reduced(a, n):
    axes = [i % n for i in a.tuple("axis")] or list(range(n))
    if a.get("exclude") and a.tuple("axis"):
        axes = [i for i in range(n) if i not in axes]
    return axes


@formula("sum mean prod max min nansum nanprod sum_axis max_axis min_axis")
def reduction(a, x, name):
    x, keep = x[0], bool(a.get("keepdims", False))
    axes = reduced(a, x.ndim)
    name = name.removesuffix("_axis")
    if name.startswith("nan"):
        x = torch.where(torch.isnan(x), torch.full_like(x, float(name == "nanprod")), x)
        name = name[3:]
    if not axes:
        return x * 1
    if name in ("sum", "mean"):
        return at_least_1d(getattr(x, name)(axes, keepdim=keep))
    if name == "prod":
        for i in sorted(axes, reverse=True):
            x = x.prod(i, keepdim=keep)
        return at_least_1d(x)
    best = getattr(torch, "amax" if name == "max" else "amin")(x.detach(), axes, keepdim=True)
    y = ToTies.apply(x, best) if x.is_floating_point() else best
    return at_least_1d(y if keep else y.reshape([n for i, n in enumerate(y.shape) if i not in axes]))


class ToTies(torch.autograd.Function):
    """The largest or smallest elements; the gradient goes whole to every tied one, as MXNet has it."""

    @staticmethod
    def forward(context, x, best):
        context.save_for_backward((x == best).to(x.dtype))
        return best.clone()

    @staticmethod
    def backward(context, head):
        return head * context.saved_tensors[0], None


@formula("norm")
def norm(a, x):
    axes, keep = reduced(a, x[0].ndim), bool(a.get("keepdims", False))
    if a.get("ord", 2) == 1:
        return at_least_1d((x[0] * sign(x[0].detach())).sum(axes, keepdim=keep))
    return at_least_1d(torch.linalg.vector_norm(x[0], 2, axes, keepdim=keep))


@formula("argmax argmin argmax_channel")
def argmax(a, x, name):
    axis = 1 if name == "argmax_channel" else a.get("axis")
    keep = bool(a.get("keepdims", False))
    values = x[0].detach().numpy()
    place = (np.argmin if name == "argmin" else np.argmax)(values, axis)
    if keep:
        place = np.expand_dims(place, axis) if axis is not None else np.reshape(place, (1,) * values.ndim)
    return at_least_1d(torch.tensor(np.asarray(place)).double())


# --- movement


def reshaped(dims, codes):
    out, i, k = [], 0, 0
    while k < len(codes):
        c = codes[k]
        if c == -2:
            out += dims[i:]
            i = len(dims)
        elif c == -3:
            out.append(dims[i] * dims[i + 1])
            i += 2
        elif c == -4:
            first, second = codes[k + 1], codes[k + 2]
            first = dims[i] // second if first == -1 else first
            second = dims[i] // first if second == -1 else second
            out += [first, second]
            i, k = i + 1, k + 2
        else:
            out.append(dims[i] if c == 0 else c)
            i += 1
        k += 1
    return out


@formula("Reshape reshape")
def reshape(a, x):
    dims, codes = list(x[0].shape), list(a.tuple("shape"))
    if a.get("reverse"):
        return x[0].reshape(reshaped(dims[::-1], codes[::-1])[::-1])
    return x[0].reshape(reshaped(dims, codes))


@formula("reshape_like")
def reshape_like(a, x):
    def span(key, n):
        begin, end = a.get(key + "_begin"), a.get(key + "_end")
        begin, end = 0 if begin is None else begin, n if end is None else end
        return begin % n if begin < 0 else begin, end % n if end < 0 else end

    (i, j), (k, m) = span("lhs", x[0].ndim), span("rhs", x[1].ndim)
    return x[0].reshape(x[0].shape[:i] + x[1].shape[k:m] + x[0].shape[j:])


@formula("Flatten flatten")
def flatten(a, x):
    return x[0].reshape(x[0].shape[0], math.prod(x[0].shape[1:]))


@formula("expand_dims")
def expand_dims(a, x):
    return x[0].unsqueeze(a.get("axis"))


@formula("squeeze")
def squeeze(a, x):
    axes = a.tuple("axis") or [i for i, n in enumerate(x[0].shape) if n == 1]
    return at_least_1d(x[0].squeeze(tuple(axes)))


@formula("transpose")
def transpose(a, x):
    return x[0].permute(a.tuple("axes") or tuple(reversed(range(x[0].ndim))))


@formula("SwapAxis swapaxes")
def swap_axis(a, x):
    return x[0].transpose(a.get("dim1", 0), a.get("dim2", 0))


def numbered(x, key):
    """x[key] by NumPy's rules, which steps below 0 need."""
    places = np.arange(x.numel()).reshape(x.shape)[key]
    return x.reshape(-1)[torch.tensor(places.copy(), dtype=torch.long)]


def slice_key(a):
    begin, end = a.tuple("begin"), a.tuple("end")
    return tuple(slice(*part) for part in zip(begin, end, a.tuple("step") or (None,) * len(begin)))


@formula("slice")
def slice_(a, x):
    return numbered(x[0], slice_key(a))


@formula("slice_axis")
def slice_axis(a, x):
    return numbered(x[0], (slice(None),) * (a.get("axis") % x[0].ndim) + (slice(a.get("begin"), a.get("end")),))


@formula("slice_like")
def slice_like(a, x):
    for i in a.tuple("axes") or range(x[0].ndim):
        x = (x[0].narrow(i, 0, x[1].shape[i]), x[1])
    return x[0]


@formula("_slice_assign")
def slice_assign(a, x):
    y = x[0].clone()
    y[slice_key(a)] = x[1]
    return y


@formula("_slice_assign_scalar")
def slice_assign_scalar(a, x):
    y = x[0].clone()
    y[slice_key(a)] = a.get("scalar")
    return y


@formula("Concat concat")
def concat(a, x):
    return torch.cat(x, a.get("dim", 1))


@formula("stack")
def stack(a, x):
    return torch.stack(x, a.get("axis", 0))


@formula("SliceChannel split")
def slice_channel(a, x):
    axis = a.get("axis", 1)
    parts = torch.chunk(x[0], a.get("num_outputs"), axis)
    return [p.squeeze(axis) if a.get("squeeze_axis") else p for p in parts]


@formula("repeat")
def repeat(a, x):
    return torch.repeat_interleave(x[0], a.get("repeats"), a.get("axis"))


@formula("tile")
def tile(a, x):
    return x[0].tile(a.tuple("reps"))


@formula("reverse flip")
def reverse(a, x):
    return x[0].flip(a.tuple("axis"))


@formula("Pad pad")
def pad(a, x):
    width = a.tuple("pad_width")
    sides = [width[6], width[7], width[4], width[5]]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[a.get("mode")]
    return nn.pad(x[0], sides, mode, a.get("constant_value", 0.0) if mode == "constant" else None)


@formula("broadcast_to")
def broadcast_to(a, x):
    return x[0].expand([n or m for n, m in zip(a.tuple("shape"), x[0].shape)])


@formula("broadcast_axis broadcast_axes")
def broadcast_axis(a, x):
    dims = list(x[0].shape)
    for i, n in zip(a.tuple("axis"), a.tuple("size")):
        dims[i] = n
    return x[0].expand(dims)


@formula("broadcast_like")
def broadcast_like(a, x):
    if not a.tuple("lhs_axes"):
        return x[0].expand(x[1].shape)
    dims = list(x[0].shape)
    for i, j in zip(a.tuple("lhs_axes"), a.tuple("rhs_axes")):
        dims[i] = x[1].shape[j]
    return x[0].expand(dims)


@formula("SequenceMask")
def sequence_mask(a, x):
    if len(x) == 1:
        return x[0] * 1
    axis = a.get("axis", 0)
    step = torch.arange(x[0].shape[axis]).reshape([-1 if i == axis else 1 for i in range(2)])
    length = torch.trunc(x[1]).reshape([1 if i == axis else -1 for i in range(2)])
    keep = (step < length).reshape(list(x[0].shape[:2]) + [1] * (x[0].ndim - 2))
    return torch.where(keep, x[0], torch.full_like(x[0], a.get("value", 0.0)))


def places(ids, n, mode):
    ids = torch.trunc(ids.detach().double()).long()
    return ids % n if mode == "wrap" else ids.clamp(0, n - 1)


@formula("take")
def take(a, x):
    axis = a.get("axis", 0) % x[0].ndim
    ids = places(x[1], x[0].shape[axis], a.get("mode", "clip"))
    y = x[0].index_select(axis, ids.reshape(-1))
    return y.reshape(x[0].shape[:axis] + ids.shape + x[0].shape[axis + 1:])


@formula("Embedding")
def embedding(a, x):
    return x[1][places(x[0], x[1].shape[0], "clip")]


@formula("pick choose_element_0index")
def pick(a, x):
    axis = a.get("axis", -1) % x[0].ndim
    dims = list(x[0].shape)
    dims[axis] = 1
    y = torch.gather(x[0], axis, places(x[1], x[0].shape[axis], a.get("mode", "clip")).reshape(dims))
    return y if a.get("keepdims") else at_least_1d(y.squeeze(axis))


@formula("batch_take")
def batch_take(a, x):
    return torch.gather(x[0], 1, places(x[1], x[0].shape[1], "clip").reshape(-1, 1)).reshape(-1)


@formula("one_hot")
def one_hot(a, x):
    hit = torch.trunc(x[0].double()).unsqueeze(-1) == torch.arange(a.get("depth"))
    on, off = (torch.tensor(float(a.get(k, v)), dtype=torch.float64) for k, v in (("on_value", 1), ("off_value", 0)))
    return torch.where(hit, on, off)


@formula("gather_nd")
def gather_nd(a, x):
    return x[0][tuple(torch.trunc(x[1].double()).long())]


# --- products and layers


@formula("dot")
def dot(a, x):
    left = x[0].movedim(0, -1) if a.get("transpose_a") else x[0]
    right = x[1].movedim(-1, 0) if a.get("transpose_b") else x[1]
    return at_least_1d(torch.tensordot(left, right, 1))


@formula("batch_dot")
def batch_dot(a, x):
    return (x[0].mT if a.get("transpose_a") else x[0]) @ (x[1].mT if a.get("transpose_b") else x[1])


@formula("FullyConnected")
def fully_connected(a, x):
    data = x[0].flatten(1) if a.get("flatten", True) else x[0]
    return nn.linear(data, *x[1:])


def of_axes(a, key, default, n):
    return a.tuple(key) or (default,) * n


@formula("Convolution")
def convolution(a, x):
    n = x[0].ndim - 2
    f = (nn.conv1d, nn.conv2d, nn.conv3d)[n - 1]
    return f(x[0], x[1], x[2] if len(x) > 2 else None, of_axes(a, "stride", 1, n), of_axes(a, "pad", 0, n),
             of_axes(a, "dilate", 1, n), a.get("num_group", 1))


@formula("Deconvolution")
def deconvolution(a, x):
    n = x[0].ndim - 2
    f = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[n - 1]
    y = f(x[0], x[1], None, of_axes(a, "stride", 1, n), 0, 0, a.get("num_group", 1), of_axes(a, "dilate", 1, n))
    target = a.tuple("target_shape")
    for i in range(n):
        full = y.shape[2 + i]
        if target:
            before, size = (full - target[i] + 1) // 2, target[i]
        else:
            before = of_axes(a, "pad", 0, n)[i]
            size = full - 2 * before + of_axes(a, "adj", 0, n)[i]
        if before + size > full:
            y = nn.pad(y, [0, 0] * (n - 1 - i) + [0, before + size - full])
        y = y.narrow(2 + i, before, size)
    return y + x[2].reshape([1, -1] + [1] * n) if len(x) > 2 else y


@formula("Pooling")
def pooling(a, x):
    x, n, kind = x[0], x[0].ndim - 2, a.get("pool_type", "max")
    if a.get("global_pool"):
        kernel, stride, pads, full = tuple(x.shape[2:]), (1,) * n, (0,) * n, False
    else:
        kernel, stride, pads = a.tuple("kernel"), of_axes(a, "stride", 1, n), of_axes(a, "pad", 0, n)
        full = a.get("pooling_convention") == "full"
    y = nn.pad(x, [p for q in reversed(pads) for p in (q, q)], value=-math.inf if kind == "max" else 0.0)
    counted = a.get("count_include_pad", True)
    weight = torch.ones_like(x) if not counted else torch.ones_like(y)
    if not counted:
        weight = nn.pad(weight, [p for q in reversed(pads) for p in (q, q)])
    more = []
    for i in reversed(range(n)):
        size = y.shape[2 + i]
        steps = (math.ceil if full else math.floor)((size - kernel[i]) / stride[i])
        more += [0, max(0, steps * stride[i] + kernel[i] - size)]
    y, weight = nn.pad(y, more, value=-math.inf if kind == "max" else 0.0), nn.pad(weight, more)
    for i in range(n):
        y, weight = y.unfold(2 + i, kernel[i], stride[i]), weight.unfold(2 + i, kernel[i], stride[i])
    y, weight = y.flatten(2 + n), weight.flatten(2 + n)
    if kind == "max":
        first = torch.tensor(np.argmax(y.detach().numpy(), -1, keepdims=True))  # of equal ones; NaN before all
        return y.gather(-1, first).squeeze(-1)
    if kind == "sum":
        return y.sum(-1)
    if kind == "avg":
        return y.sum(-1) / weight.sum(-1)
    p = a.get("p_value")
    return (y.abs() ** p).sum(-1) ** (1 / p)


@formula("BatchNorm")
def batch_norm(a, x, train):
    data, gamma, beta, mean, var = x
    axis, eps = a.get("axis", 1) % data.ndim, a.get("eps", 1e-3)
    others = [i for i in range(data.ndim) if i != axis]
    of_batch = train and not a.get("use_global_stats", False)
    m, v = (data.mean(others), data.var(others, correction=0)) if of_batch else (mean, var)
    along = [-1 if i == axis else 1 for i in range(data.ndim)]
    y = (data - m.reshape(along)) / torch.sqrt(v.reshape(along) + eps)
    if not a.get("fix_gamma", True):
        y = y * gamma.reshape(along)
    k = a.get("momentum", 0.9) if of_batch else 1
    updated = [(k * mean + (1 - k) * m).detach(), (k * var + (1 - k) * v).detach()]
    return [y + beta.reshape(along)], updated


@formula("LayerNorm")
def layer_norm(a, x):
    axis = a.get("axis", -1) % x[0].ndim
    along = [-1 if i == axis else 1 for i in range(x[0].ndim)]
    mean, var = x[0].mean(axis, keepdim=True), x[0].var(axis, correction=0, keepdim=True)
    return (x[0] - mean) / torch.sqrt(var + a.get("eps", 1e-5)) * x[1].reshape(along) + x[2].reshape(along)


@formula("Activation")
def activation(a, x):
    return FORMULAE[a.get("act_type")](a, x)


@formula("LeakyReLU")
def leaky_relu(a, x):
    kind, slope, data = a.get("act_type", "leaky"), a.get("slope", 0.25), x[0]
    if kind == "gelu":
        return gelu(data)
    if kind == "selu":
        return nn.selu(data)
    if kind == "prelu":
        below = data * x[1].reshape([1, -1] + [1] * (data.ndim - 2))
    elif kind == "elu":
        below = slope * torch.expm1(torch.where(data > 0, torch.zeros_like(data), data))
    else:
        below = data * (slope if kind == "leaky" else (a.get("lower_bound", 0.125) + a.get("upper_bound", 0.334)) / 2)
    return torch.where(data > 0, data, below)


@formula("softmax softmin log_softmax")
def softmax(a, x, name):
    z, axis = x[0] / (a.get("temperature") or 1.0), a.get("axis", -1)
    if name == "softmin":
        z = -z
    if name == "log_softmax":
        return torch.log_softmax(z, axis)
    if len(x) == 1:
        return torch.softmax(z, axis)
    keep = torch.arange(z.shape[-1]) < x[1].unsqueeze(-1)
    return torch.softmax(torch.where(keep, z, torch.full_like(z, -math.inf)), -1)


@formula("SoftmaxActivation")
def softmax_activation(a, x):
    if a.get("mode", "instance") == "channel":
        return torch.softmax(x[0], 1)
    return torch.softmax(x[0].flatten(1), -1).reshape(x[0].shape)


class GivenGradient(torch.autograd.Function):
    """A loss layer: its gradient is `gradient`, whatever comes from above, or times that with out_grad."""

    @staticmethod
    def forward(context, x, y, gradient, out_grad=False):
        context.save_for_backward(gradient)
        context.out_grad = out_grad
        return y.clone()

    @staticmethod
    def backward(context, head):
        gradient = context.saved_tensors[0]
        return gradient * head if context.out_grad else gradient, None, None, None


@formula("SoftmaxOutput")
def softmax_output(a, x):
    data, label = x[0].detach(), x[1]
    scale, normalization, ignored = a.get("grad_scale", 1.0), a.get("normalization", "null"), a.get("ignore_label", -1.0)
    if a.get("multi_output"):
        scores = data.flatten(2).movedim(1, 2) if data.ndim > 2 else data.unsqueeze(1)
        if normalization != "valid":
            scale /= scores.shape[1]
    else:
        scores = data if a.get("preserve_shape") else data.flatten(1)
    classes = scores.shape[-1]
    y = torch.softmax(scores, -1)
    label = label.reshape(y.shape[:-1])
    alpha = a.get("smooth_alpha", 0.0)
    hit = label.unsqueeze(-1) == torch.arange(classes)
    other = alpha / max(1, classes - 1)
    target = other + (1 - alpha - other) * hit.double()
    gradient = (y - target) * scale
    if a.get("use_ignore"):
        gradient = torch.where((label == ignored).unsqueeze(-1), 0, gradient)
    if normalization == "batch":
        gradient = gradient / (data.shape[0] if a.get("multi_output") else label.numel())
    elif normalization == "valid":
        gradient = gradient / max(1, int((label != ignored).sum()))
    if a.get("multi_output"):
        y, gradient = (t.movedim(2, 1).reshape(data.shape) for t in (y, gradient))
    return GivenGradient.apply(x[0], y.reshape(data.shape), gradient.reshape(data.shape), a.get("out_grad", False))


@formula("LinearRegressionOutput MAERegressionOutput LogisticRegressionOutput")
def regression(a, x, name):
    data = x[0].detach()
    y = torch.sigmoid(data) if name.startswith("Logistic") else data
    error = y - x[1].reshape(y.shape)
    if name.startswith("MAE"):
        error = torch.sign(error)
    return GivenGradient.apply(x[0], y, error * a.get("grad_scale", 1.0) / max(1, x[1].numel() // x[1].shape[0]))


@formula("MakeLoss")
def make_loss(a, x):
    data, scale = x[0].detach(), a.get("grad_scale", 1.0)
    if a.get("normalization") == "batch":
        scale /= data.shape[0]
    elif a.get("normalization") == "valid":
        scale /= max(1, int((data > a.get("valid_thresh", 0.0)).sum()))
    return GivenGradient.apply(x[0], data, torch.full_like(data, scale))


@formula("softmax_cross_entropy")
def softmax_cross_entropy(a, x):
    return nn.cross_entropy(x[0], x[1].long(), reduction="sum").reshape(1)


@formula("Dropout")
def dropout(a, x):
    return x[0] * 1


# --- arrays from numbers, and updates


@formula("_zeros _ones _full")
def filled(a, x, name):
    value = {"_zeros": 0.0, "_ones": 1.0}.get(name, a.get("value"))
    return torch.full(a.tuple("shape"), float(value), dtype=torch.float64)


@formula("_arange")
def arange(a, x):
    start, stop, step = a.get("start"), a.get("stop"), a.get("step", 1.0)
    start, stop = (0.0, start) if stop is None else (start, stop)
    return torch.tensor(np.repeat(start + step * np.arange(max(0, math.ceil((stop - start) / step))), a.get("repeat", 1)))


@formula("_linspace")
def linspace(a, x):
    return torch.tensor(np.linspace(a.get("start"), a.get("stop"), a.get("num"), a.get("endpoint", True)))


@formula("_eye")
def eye(a, x):
    return torch.tensor(np.eye(a.get("N"), a.get("M") or None, a.get("k", 0)))


@formula("sgd_update sgd_mom_update adam_update")
def update(a, x, name):
    weight, grad = x[0], x[1] * a.get("rescale_grad", 1.0)
    limit, wd, lr = a.get("clip_gradient", -1.0), a.get("wd", 0.0), a.get("lr")
    if name == "adam_update":
        grad = grad + wd * weight
    if limit >= 0:
        grad = grad.clamp(-limit, limit)
    if name == "sgd_update":
        return [], [weight - lr * (grad + wd * weight)]
    if name == "sgd_mom_update":
        momentum = a.get("momentum", 0.0) * x[2] - lr * (grad + wd * weight)
        return [], [weight + momentum, momentum]
    b, c = a.get("beta1", 0.9), a.get("beta2", 0.999)
    mean, var = b * x[2] + (1 - b) * grad, c * x[3] + (1 - c) * grad**2
    return [], [weight - lr * mean / (torch.sqrt(var) + a.get("epsilon", 1e-8)), mean, var]


def compute(case):
    """The same keys as MXNet's answer, values float64 or int64; None: no formula."""
    function = FORMULAE.get(case["op"])
    if function is None:
        return None
    inputs, leaves = [], []
    for t, wants in zip(case["inputs"], case["wants"]):
        x = torch.tensor(t.values.astype(np.float64 if t.is_float else np.int64))
        if wants and t.is_float:
            x.requires_grad_()
        leaves.append(x)
        inputs.append(x)
    known = function.__code__.co_varnames[: function.__code__.co_argcount]
    more = {"name": case["op"]} if "name" in known else {"train": case["train"]} if "train" in known else {}
    try:
        outputs = function(Attrs(case["attrs"]), inputs, **more)
    except Unknown:
        return None
    updated = []
    if isinstance(outputs, tuple):
        outputs, updated = outputs
    outputs = list(outputs) if isinstance(outputs, list) else [outputs]
    gradients = [None] * len(leaves)
    wanted = [i for i, x in enumerate(leaves) if x.requires_grad]
    if wanted:
        for i in wanted:
            gradients[i] = np.zeros(leaves[i].shape)
        live = [(y, torch.tensor(head(case["seed"], k, tuple(y.shape)))) for k, y in enumerate(outputs) if y.requires_grad]
        if live:
            found = torch.autograd.grad([y for y, _ in live], [leaves[i] for i in wanted], [h for _, h in live],
                                        allow_unused=True)
            for i, g in zip(wanted, found):
                if g is not None:
                    gradients[i] = g.numpy()
    return {"outputs": [y.detach().numpy() for y in outputs], "gradients": gradients,
            "updated": [u.detach().numpy() for u in updated]}
