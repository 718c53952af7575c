"""Random inputs for one case of an operator. What a case must have comes in turn, the rest at random."""
import numpy as np

from tensors import FLOATS, Tensor

NUMBERS = ("float32", "int32", "float64", "uint8", "float16", "int64", "float32", "int8", "bfloat16")
ANY = NUMBERS + ("bool",)
REALS = ("float32", "float64", "float32", "float16", "float32", "bfloat16", "float64")
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, -1e-7, 1e9, -1e9, 1.0, -1.0, 0.5, -0.5, 88.0,
           -88.0, 20.0, -20.0, 1.5, -1.5, 2.5, -2.5, 3.0]
EXTREME = SPECIAL + [1e-40, -1e-40, 3e38, -3e38, 65504.0]


class Draw:
    def __init__(self, seed, number):
        self.random = np.random.RandomState(seed)
        self.number = number  # of the case, from 0

    def chance(self, p):
        return self.random.rand() < p

    def pick(self, *choices):
        return choices[self.random.randint(len(choices))]

    def integer(self, low, high):
        """low <= result < high"""
        return int(self.random.randint(low, high))

    def dtype(self, choices=REALS):
        return choices[self.number % len(choices)]

    def dims(self, low=1, high=4, zero=True, nothing=False):
        """low to high dimensions. Every 11th case has a 0, others begin with 1, some have 129 elements and more."""
        turn = self.number % 11
        if nothing and turn == 9:
            return ()
        n = self.integer(low, high + 1)
        dims = [self.pick(1, 2, 3, 4, 5, 7) for _ in range(n)]
        while np.prod(dims) > 200:
            dims[self.integer(0, n)] = self.pick(1, 2)
        if turn == 4 and zero:
            dims[self.integer(0, n)] = 0
        elif turn == 2:
            dims[0] = 1
        elif turn == 6:  # past one vector and past what a small call computes
            dims = dims[: n - 1] + [self.pick(129, 150, 257)]
            while np.prod(dims) > 600:
                dims[int(np.argmax(dims[:-1]))] = 1
        return tuple(int(d) for d in dims)

    def values(self, shape, dtype, kind=None):
        """kind: normal, positive, unit, above_one, nonzero, ties, special, extreme, large, tiny, nan; None: in turn."""
        size = int(np.prod(shape))
        r = self.random
        if dtype == "bool":
            return Tensor(dtype, (r.rand(size) < 0.5).reshape(shape))
        if dtype not in FLOATS:
            low, high = (-6, 7) if kind or self.number % 3 else (-120, 120)
            x = r.randint(0 if dtype == "uint8" else low, high, size)
            if kind in ("nonzero", "positive", "above_one"):
                x = np.where(x == 0, 3, np.abs(x) if kind != "nonzero" else x)
            return Tensor(dtype, x.reshape(shape))
        kind = kind or ("normal", "special", "ties", "normal", "large", "normal", "special", "tiny")[self.number % 8]
        q = r.randint(-192, 193, size) / 64.0  # few bits, so that the files pack well
        if kind == "positive":
            q = np.abs(q) + 1 / 16
        elif kind == "unit":
            q = q / 3.25
        elif kind == "above_one":
            q = np.abs(q) + 1 + 1 / 16
        elif kind == "nonzero":
            q = np.where(np.abs(q) < 1 / 4, 1.25, q)
        elif kind == "ties":
            q = r.randint(-4, 5, size) / 2.0
        elif kind == "special":
            q = np.where(r.rand(size) < 0.4, q, np.array(SPECIAL)[r.randint(len(SPECIAL), size=size)])
        elif kind == "extreme":
            q = np.where(r.rand(size) < 0.4, q, np.array(EXTREME)[r.randint(len(EXTREME), size=size)])
        elif kind == "large":
            q = np.rint(q * 10.0 ** r.randint(0, 4 if dtype == "float16" else 6, size))
        elif kind == "tiny":
            q = q * 2.0 ** r.randint(-13 if dtype == "float16" else -30, 0, size)
        elif kind == "nan":
            q = np.where(r.rand(size) < 0.25, np.nan, q)
        if dtype == "float16":  # numbers below its normal ones have too few bits to compare
            with np.errstate(all="ignore"):
                q = np.where((q != 0) & (np.abs(q) < 1e-4), np.copysign(1e-4, q), q)
        return Tensor(dtype, q.reshape(shape))

    def axis(self, n, negative=0.4):
        a = self.integer(0, n)
        return a - n if self.chance(negative) else a

    def axes(self, n):
        """A random choice of axes in order, some negative."""
        chosen = sorted(self.random.choice(n, self.integer(1, n + 1), replace=False))
        return tuple(int(a) - n if self.chance(0.3) else int(a) for a in chosen)


def case(op, inputs, attrs=None, wants=None, train=False, updates=(), **more):
    """wants: which inputs a gradient is asked of; updates: which the operator changes."""
    return dict(op=op, inputs=list(inputs), attrs={k: str(v) for k, v in (attrs or {}).items()},
                wants=[True] * len(inputs) if wants is None else [bool(w) for w in wants], train=train,
                updates=list(updates), **more)
