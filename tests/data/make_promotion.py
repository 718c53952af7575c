# Writes promotion.txt: calls on arrays of every pair of dtypes, and the dtype and values that NumPy gives them among
# integers and bool, PyTorch beside floating dtypes. A line has, between semicolons: the function; the dtypes of the two
# inputs; these, separated by a comma; the dtype of the result; the result. Arrays are one-dimensional, as hexadecimal
# bytes. Comparisons give 0 and 1 in the common dtype; `where` has a condition of 1, 0, 1, 0.
import random
import sys

import numpy as np
import torch

random.seed(3)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = INTEGERS + FLOATS + ["bool"]


def common(a, b):
    if a in FLOATS or b in FLOATS:
        return str(torch.promote_types(getattr(torch, a), getattr(torch, b))).removeprefix("torch.")
    return np.promote_types(a, b).name


def values(dtype):
    if dtype == "bool":
        return torch.tensor([1, 0, 1, 1], dtype=torch.bool)
    low = 0 if dtype.startswith("u") else -5
    whole = [random.randrange(low, 12) for _ in range(4)]
    part = [random.choice([0, 0.25, 0.5]) if dtype in FLOATS else 0 for _ in range(4)]
    numbers = torch.tensor([w + p for w, p in zip(whole, part)], dtype=torch.float64)
    return numbers.to(getattr(torch, dtype))


def as_dtype(x, dtype):
    """By NumPy, which casts all but bfloat16."""
    if dtype == "bfloat16" or x.dtype == torch.bfloat16:
        return x.to(torch.float64).to(getattr(torch, dtype))
    return torch.from_numpy(x.numpy().astype(dtype))


def computed(function, a, b):
    """In the dtype that both have."""
    if a.dtype == torch.bfloat16:
        x, y = a, b
        y = {"add": x + y, "multiply": x * y, "maximum": torch.maximum(x, y), "greater": (x > y).to(x.dtype),
             "where": torch.where(torch.tensor([True, False, True, False]), x, y)}[function]
        return y
    x, y = a.numpy(), b.numpy()
    with np.errstate(all="ignore"):
        return torch.from_numpy({"add": lambda: x + y, "multiply": lambda: x * y, "maximum": lambda: np.maximum(x, y),
                                 "greater": lambda: (x > y).astype(x.dtype),
                                 "where": lambda: np.where([True, False, True, False], x, y)}[function]())


def text(x):
    return x.contiguous().view(torch.uint8).numpy().tobytes().hex()


with open(sys.argv[1], "w") as out:
    for a in DTYPES:
        for b in DTYPES:
            dtype = common(a, b)
            for function in ("add", "multiply", "maximum", "greater", "where"):
                if dtype == "bool" and function not in ("greater", "where"):
                    continue  # arithmetic is not for bool
                x, y = values(a), values(b)
                result = computed(function, as_dtype(x, dtype), as_dtype(y, dtype))
                out.write(";".join([function, a, b, text(x) + "," + text(y), dtype, text(result)]) + "\n")
