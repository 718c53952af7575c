# Writes indexing.txt: random index expressions with what NumPy makes of them. x is arange(size). A line has, between
# semicolons: the shape of x; the indices; the shape of x[...]; its values; the shape of `values`, which are 1000, 1001,
# ...; x after x[...] = values. An index is p<position>, r<begin>,<end>,<step> with _ for none, e (ellipsis), n
# (newaxis), a<shape>:<positions> or m<shape>:<mask>.
import random
import sys

import numpy as np

random.seed(20)


def numbers(values):
    return ",".join(str(int(v)) for v in values)


def draw_range(n):
    pick = lambda: random.choice([None, random.randint(-n - 1, n + 1)])
    step = random.choice([None, None, 1, 2, 3, -1, -2])
    return slice(pick(), pick(), step)


def draw_array(shape, n):
    return np.random.default_rng(random.randrange(1 << 30)).integers(-n, n, shape)


def draw(shape):
    indices, text, axis = [], [], 0
    style = random.choice(["basic", "basic", "arrays", "arrays", "mask"])
    common = random.choice([(2,), (3,), (2, 3), (1,)])
    used = False
    while axis < len(shape):
        n = shape[axis]
        kind = random.choice(["p", "r", "r", "n", "e", "stop"] + {"arrays": ["a", "a"], "mask": ["m", "m"]}.get(style, []))
        if kind == "stop" and indices:
            break
        if kind == "p" and n:
            p = random.randint(-n, n - 1)
            indices.append(p), text.append(f"p{p}")
            axis += 1
        elif kind == "r":
            s = draw_range(n)
            indices.append(s)
            text.append("r" + ",".join("_" if v is None else str(v) for v in (s.start, s.stop, s.step)))
            axis += 1
        elif kind == "n" and len(indices) < 6:
            indices.append(None), text.append("n")
        elif kind == "e" and "e" not in text and len(indices) < 6:
            indices.append(Ellipsis), text.append("e")
            axis += random.randint(0, len(shape) - axis)
        elif kind == "a" and n:
            s = random.choice([common, common[-1:], (1,) * len(common)])
            a = draw_array(s, n)
            indices.append(a), text.append(f"a{numbers(s)}:{numbers(a.ravel())}")
            axis += 1
        elif kind == "m" and not used:
            k = random.randint(1, len(shape) - axis)
            m = np.random.default_rng(random.randrange(1 << 30)).random(shape[axis:axis + k]) < 0.5
            indices.append(m), text.append(f"m{numbers(m.shape)}:{numbers(m.ravel())}")
            axis += k
            used = True
        if len(indices) >= 8:
            break
    return indices, text


def main():
    lines = set()
    while len(lines) < 600:
        shape = tuple(random.choice([1, 2, 3, 4, 5]) for _ in range(random.randint(1, 4)))
        if random.random() < 0.05:
            shape = shape[:-1] + (0,)
        indices, text = draw(shape)
        if not indices:
            continue
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        try:
            part = x[tuple(indices)]
        except IndexError:
            continue
        if part.ndim > 8 or part.size > 200:
            continue
        if part.ndim == 0:
            part = part.reshape(1)
        cut = random.randint(0, part.ndim - 1)
        of_values = tuple(1 if random.random() < 0.2 else d for d in part.shape[cut:])
        values = 1000 + np.arange(np.prod(of_values, dtype=int)).reshape(of_values)
        after = x.copy()
        after[tuple(indices)] = np.broadcast_to(values, part.shape).reshape(x[tuple(indices)].shape)
        lines.add("; ".join([numbers(shape), " ".join(text), numbers(part.shape), numbers(part.ravel()),
                             numbers(of_values), numbers(after.ravel())]))
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(sorted(lines)) + "\n")


main()
