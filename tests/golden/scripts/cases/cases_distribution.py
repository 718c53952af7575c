"""Cases of probability densities."""
import numpy as np

from cases_elementwise import describe
from draw import REALS, case
from tensors import Tensor

PARAMETERS = {
    "uniform": ("unit", "above_one"), "normal": ("normal", "positive"), "gamma": ("positive", "positive"),
    "exponential": ("positive",), "poisson": ("positive",), "negative_binomial": ("positive", "probability"),
    "generalized_negative_binomial": ("positive", "above_one"),
}
COUNTS = ("poisson", "negative_binomial", "generalized_negative_binomial")


def sizes(d, most):
    """Few numbers, for their densities do not pack; with none, with a batch of one, and with 130 samples each in turn."""
    turn = d.number % 11
    if turn == 6:
        return (1, 130)
    dims = [d.pick(1, 2, 3) for _ in range(d.integer(1, most + 1))]
    dims[0] = 0 if turn == 4 else 1 if turn == 2 else dims[0]
    return tuple(dims)


def parameter(d, shape, dtype, kind):
    if kind == "probability":
        return Tensor(dtype, d.random.randint(1, 8, shape) / 8.0)
    return d.values(shape, dtype, kind)


@describe(" ".join("random_pdf_" + name for name in PARAMETERS), "distribution", 14)
def density(name, d):
    kind, dtype = name[len("random_pdf_"):], d.dtype(REALS)
    sample = sizes(d, 3)
    leading = sample[:d.integer(1, len(sample) + 1)]
    if kind in COUNTS:
        x = Tensor(dtype, d.random.randint(0, 9, sample))
    else:
        x = d.values(sample, dtype, "normal" if kind in ("normal", "uniform") else "positive")
    return case(name, [x] + [parameter(d, leading, dtype, k) for k in PARAMETERS[kind]],
                {"is_log": True} if d.chance(0.5) else {})


@describe("random_pdf_dirichlet", "distribution", 14)
def dirichlet(name, d):
    dtype, classes = d.dtype(REALS), d.integer(2, 6)
    shape = sizes(d, 2)
    leading = shape[:d.integer(0, len(shape) + 1)]
    x = d.random.rand(*shape, classes) + 0.1
    return case(name, [Tensor(dtype, np.round(64 * x / x.sum(-1, keepdims=True) + 0.5) / 64),
                       d.values(leading + (classes,), dtype, "positive")], {"is_log": True} if d.chance(0.5) else {})
