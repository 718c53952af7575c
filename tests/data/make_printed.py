# Writes printed.txt: arrays and what NumPy prints for them. A line has, between tabs: dtype, shape, options, values (as
# hexadecimal bytes), and the text with newlines as |.
import random
import sys

import numpy as np

random.seed(7)
rng = np.random.default_rng(7)
later = [np.int16, np.uint16, np.uint32, np.uint64]


def draw(dtype, shape):
    n = int(np.prod(shape, dtype=int))
    kind = random.choice(["normal", "few", "whole", "large", "small", "wide", "special"])
    if dtype == np.bool_:
        return rng.random(n) < 0.5
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        if kind == "large" and dtype in later:
            return rng.integers(info.min, info.max, n, dtype)
        return rng.integers(max(info.min, -1000), min(info.max, 1000), n).astype(dtype)
    x = rng.normal(size=n)
    if kind == "few":
        x = np.round(x, random.choice([1, 2, 3]))
    elif kind == "whole":
        x = np.round(x * 10)
    elif kind == "large":
        x = x * 10.0 ** random.choice([3, 5, 9])
    elif kind == "small":
        x = x * 1e-4
    elif kind == "wide":
        x = x * 10.0 ** rng.integers(-6, 6, n)
    elif kind == "special":
        x[rng.random(n) < 0.4] = random.choice([np.inf, -np.inf, np.nan])
    with np.errstate(over="ignore"):
        return x.astype(dtype)


lines = []
first = [np.float32, np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.bool_]
for k in range(440):
    dtype = random.choice(first if k < 400 else later)
    shape = random.choice([(1,), (3,), (2, 3), (20,), (2, 2, 3), (1, 1), (5, 5, 2, 2), (1001,), (40, 30), (3, 500), (0, 2),
                           (2, 30), (12, 12, 12)])
    x = draw(dtype, shape).reshape(shape)
    options = {}
    if random.random() < 0.3:
        options["precision"] = random.choice([0, 2, 4])
    if random.random() < 0.2:
        options["threshold"] = random.choice([5, 2000])
    if random.random() < 0.2:
        options["edgeitems"] = random.choice([1, 2])
    if random.random() < 0.2:
        options["linewidth"] = random.choice([20, 40, 120])
    if random.random() < 0.2:
        options["suppress"] = True
    if x.nbytes > 1500 and (dtype in later or random.random() < 0.9):
        continue
    with np.printoptions(**options):
        text = str(x)
    lines.append("\t".join([x.dtype.name, ",".join(map(str, shape)), " ".join(f"{k}={int(v)}" for k, v in options.items()),
                            x.tobytes().hex(), text.replace("\n", "|")]))
with open(sys.argv[1], "w") as out:
    out.write("\n".join(lines) + "\n")
