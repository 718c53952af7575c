"""PyTorch: elementwise operators and reductions."""
import math

import numpy as np
import torch
import torch.nn.functional as nn

from formulae import FORMULAE, at_least_1d, formula


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


class Psi(torch.autograd.Function):
    """The n-th derivative of digamma, by Hurwitz's zeta function: PyTorch's own trigamma has 10 digits."""

    @staticmethod
    def forward(context, x, n):
        context.save_for_backward(x)
        context.n = n
        return psi(x, n)

    @staticmethod
    def backward(context, head):
        return head * psi(context.saved_tensors[0], context.n + 1), None


def psi(x, n):
    if n == 0:
        return torch.digamma(x)
    y = (-1) ** (n + 1) * math.factorial(n) * torch.special.zeta(torch.tensor(n + 1.0, dtype=x.dtype), x.clamp(min=0))
    y = torch.where(torch.isposinf(x), 0, y)
    if n > 1:
        return y
    mirrored = (math.pi / torch.sin(math.pi * x)) ** 2 - torch.special.zeta(torch.tensor(2.0, dtype=x.dtype), 1 - x)
    return torch.where(x < 0, mirrored, y)


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
        radians=torch.deg2rad, gammaln=torch.lgamma, digamma=lambda x: Psi.apply(x, 0),
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


@formula("logaddexp")
def logaddexp(a, x):
    """With the limit of its gradient where both are the same infinity: PyTorch's is NaN."""
    both = torch.isinf(x[0]) & (x[0] == x[1])
    rest = torch.logaddexp(torch.where(both, 0, x[0]), torch.where(both, 0, x[1]))
    return torch.where(both, (x[0] + x[1]) / 2, rest)


@formula("polygamma")
def polygamma(a, x):
    return Psi.apply(x[0], a.get("n", 1))


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
