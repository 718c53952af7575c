# Writes dtypes.txt: calls on arrays of every dtype but bfloat16 and what NumPy makes of them. A line has, between
# semicolons: the function; the dtype of the inputs; a dtype (cast) or a number, else nothing; the inputs, separated by
# commas; the result. Arrays are one-dimensional, as hexadecimal bytes. Functions follow NumPy, but division truncates,
# and comparisons give 0 and 1 in the dtype of the inputs.
import random
import sys

import numpy as np

random.seed(5)
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float32, np.float64, np.float16]
SIZE = 7


def draw_integers(dtype, n=SIZE):
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, info.max // 2]
    values = []
    for _ in range(n):
        bits = random.randrange(1, info.bits + 1)
        v = random.getrandbits(bits) * random.choice([1, -1] if info.min else [1])
        values.append(random.choice(ends) if random.random() < 0.4 else min(max(v, info.min), info.max))
    return np.array(values, dtype)


# Numbers that both dtypes hold after truncation, and none between those of a float and the integers' end.
def draw_floats(dtype, to):
    most = 2.0 ** 15 if dtype == np.float16 else 2.0 ** 70
    low, high = -most, most
    if np.issubdtype(to, np.integer):
        info = np.iinfo(to)
        low, high = max(low, float(info.min) - (info.min > -2**60)), min(high, float(info.max) + 1)
    values = []
    while len(values) < SIZE:
        v = dtype(random.choice([-1, 1]) * random.random() * 2.0 ** random.randrange(-2, 66))
        if low < float(v) < high:
            values.append(v)
    return np.array(values, dtype)


def truncated(a, b):
    q, r = np.floor_divide(a, b), np.remainder(a, b)
    return (q + ((r != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": truncated,
    "modulo": np.remainder,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "lesser": np.less,
    "lesser_equal": np.less_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
UNARY = {
    "negative": np.negative,
    "abs": np.abs,
    "square": np.square,
    "sign": np.sign,
    "bitwise_not": np.invert,
    "sum": lambda a: np.sum(a, dtype=a.dtype, keepdims=True),
    "prod": lambda a: np.prod(a, dtype=a.dtype, keepdims=True),
    "max": lambda a: np.max(a, keepdims=True),
    "min": lambda a: np.min(a, keepdims=True),
    "argmax": lambda a: np.argmax(a, keepdims=True).astype(a.dtype),
    "argmin": lambda a: np.argmin(a, keepdims=True).astype(a.dtype),
    "sort": np.sort,
    "argsort": lambda a: np.argsort(a, kind="stable").astype(a.dtype),
    "cumsum": lambda a: np.cumsum(a, dtype=a.dtype),
    "cumprod": lambda a: np.cumprod(a, dtype=a.dtype),
    "diff": np.diff,
}
# Beside a number, which Python compares exactly.
COMPARISONS = {
    "greater": lambda v, s: v > s,
    "lesser_equal": lambda v, s: v <= s,
    "equal": lambda v, s: v == s,
}


def main():
    lines = []

    def add(function, dtype, other, inputs, result):
        lines.append(";".join([function, np.dtype(dtype).name, other, ",".join(x.tobytes().hex() for x in inputs),
                               result.tobytes().hex()]))

    for source in INTEGERS + FLOATS + [np.bool_]:
        for to in INTEGERS + FLOATS + [np.bool_]:
            if source == np.bool_:
                x = np.array([True, False, True])
            else:
                x = draw_integers(source) if source in INTEGERS else draw_floats(source, to)
            add("cast", source, np.dtype(to).name, [x], x.astype(to))
    for dtype in INTEGERS:
        bits = np.iinfo(dtype).bits
        for name, function in BINARY.items():
            a, b = draw_integers(dtype), draw_integers(dtype)
            if name in ("divide", "modulo"):
                b[b == 0] = 3
            if "shift" in name:
                b = np.array([random.randrange(bits + 1) for _ in range(SIZE)], dtype)
            if "equal" in name:
                b[:3] = a[:3]
            add(name, dtype, "", [a, b], function(a, b).astype(dtype))
        a, b = draw_integers(dtype), np.array([0, 1, 2, 3, 5, 9, 20], dtype)
        add("power", dtype, "", [a, b], np.power(a, b))
        for name, function in UNARY.items():
            a = draw_integers(dtype)
            add(name, dtype, "", [a], function(a))
        a = draw_integers(dtype)
        low, high = random.choice([(2, 100), (0, 1), (5, 120)])
        add("clip", dtype, f"{low},{high}", [a], np.clip(a, low, high))
        for s in [0, -1, 2.5, 100, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64, -2**63, -2**64, 1e30,
                  2**53 + 2, 2**63 - 1024, 2**64 - 2048]:
            for name, compare in COMPARISONS.items():
                a = draw_integers(dtype)
                info = np.iinfo(dtype)
                if info.min <= s <= info.max:
                    a[0] = s
                add(name + "_number", dtype, repr(float(s)), [a], np.array([compare(int(v), s) for v in a], dtype))
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")


with np.errstate(all="ignore"):
    main()
