"""Cases of operators that move elements: shapes, slices, indices."""
import numpy as np

from cases_elementwise import describe
from draw import ANY, NUMBERS, REALS, case
from tensors import Tensor


def split(d, n):
    """Two factors of n."""
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    a = d.pick(*divisors)
    return a, n // a


@describe("Reshape reshape", "movement", 34)
def reshape(name, d):
    dims = d.dims(1, 5, zero=False)
    reverse = d.chance(0.2)
    codes, used, i = [], False, 0
    source = dims[::-1] if reverse else dims
    if d.chance(0.15):
        total = int(np.prod(dims))
        a, b = split(d, total)
        return case(name, [d.values(dims, d.dtype(ANY))], {"shape": d.pick((a, b), (-1,), (a, -1), (total,), (b, a, 1))})
    while i < len(source):
        choice = d.integer(0, 8)
        if choice == 1 and not used:
            codes.append(-1)
            used, i = True, i + 1
        elif choice == 2 and not reverse:
            codes.append(-2)
            i = len(source)
        elif choice == 3 and i + 1 < len(source):
            codes.append(-3)
            i += 2
        elif choice == 4 and not reverse:
            a, b = split(d, source[i])
            codes += [-4, a, b] if d.chance(0.5) else d.pick([-4, -1, b], [-4, a, -1])
            i += 1
        else:
            codes.append(0 if choice < 6 else source[i])
            i += 1
    if len(codes) > 8:
        codes, reverse = [-1], False
    attrs = {"shape": tuple(codes[::-1] if reverse else codes)}
    if reverse:
        attrs["reverse"] = True
    return case(name, [d.values(dims, d.dtype(ANY))], attrs)


@describe("reshape_like", "movement", 24)
def reshape_like(name, d):
    dims, dtype = d.dims(1, 4, zero=False), d.dtype(NUMBERS)
    if len(dims) > 1 and d.chance(0.5):
        i = d.integer(0, len(dims))
        j = d.integer(i + 1, len(dims) + 1)
        a, b = split(d, int(np.prod(dims[i:j])))
        attrs = dict(lhs_begin=i if d.chance(0.6) else i - len(dims), lhs_end=j, rhs_begin=1, rhs_end=d.pick(3, -1))
        return case(name, [d.values(dims, dtype), d.values((2, a, b, 3), dtype)], attrs)
    a, b = split(d, int(np.prod(dims)))
    return case(name, [d.values(dims, dtype), d.values(d.pick((a, b), (a * b,), (b, 1, a)), dtype)])


@describe("Flatten flatten", "movement", 14)
def flatten(name, d):
    return case(name, [d.values(d.dims(), d.dtype(ANY))])


@describe("expand_dims", "movement")
def expand_dims(name, d):
    dims = d.dims(1, 5)
    return case(name, [d.values(dims, d.dtype(ANY))], {"axis": d.axis(len(dims) + 1)})


@describe("squeeze", "movement", 26)
def squeeze(name, d):
    dims = d.dims(1, 5)
    ones = [i for i, n in enumerate(dims) if n == 1]
    attrs = {}
    if ones and d.chance(0.7):
        chosen = [ones[k] for k in range(len(ones)) if d.chance(0.6)] or ones[:1]
        axes = tuple(i - len(dims) if d.chance(0.3) else i for i in chosen)
        attrs["axis"] = axes[0] if len(axes) == 1 else axes
    return case(name, [d.values(dims, d.dtype(ANY))], attrs)


@describe("transpose", "movement", 28)
def transpose(name, d):
    dims, attrs = d.dims(1, 6), {}
    if d.chance(0.8):
        attrs["axes"] = tuple(int(a) for a in d.random.permutation(len(dims)))
    return case(name, [d.values(dims, d.dtype(ANY))], attrs)


@describe("SwapAxis swapaxes", "movement", 14)
def swap_axis(name, d):
    dims = d.dims(2, 5)
    return case(name, [d.values(dims, d.dtype(ANY))], {"dim1": d.axis(len(dims)), "dim2": d.axis(len(dims))})


def slices(d, dims):
    """begin, end, step for some leading axes; ends beyond the axis now and then."""
    begin, end, step = [], [], []
    for n in dims[: d.integer(1, len(dims) + 1)]:
        low = d.integer(0, max(1, n))
        high = d.integer(low + 1, n + 1) if low < n else low + 1
        s = d.pick(None, 1, 2, 3, -1, -2)
        if s is not None and s < 0:
            begin.append(d.pick(None, high - 1 if n else 0, -1))
            end.append(d.pick(None, None, low - 1 if low else None))
        else:
            begin.append(d.pick(None, low, low, low - n if n else low))
            end.append(d.pick(None, high, high, n + 2 if d.chance(0.3) else high))
        step.append(s)
    return tuple(begin), tuple(end), tuple(step)


@describe("slice", "movement", 44)
def slice_(name, d):
    dims = d.dims(1, 5)
    begin, end, step = slices(d, dims)
    attrs = {"begin": begin, "end": end}
    if any(s is not None and s < 0 for s in step) or d.chance(0.6):
        attrs["step"] = step
    return case(name, [d.values(dims, d.dtype(ANY))], attrs)


@describe("slice_axis", "movement", 28)
def slice_axis(name, d):
    dims = d.dims(1, 5, zero=False)
    axis = d.integer(0, len(dims))
    n = dims[axis]
    low = d.integer(0, n)
    high = d.integer(low + 1, n + 1)
    end = d.pick(None, high, high - n if high < n else n)
    return case(name, [d.values(dims, d.dtype(ANY))], {"axis": axis if d.chance(0.6) else axis - len(dims),
                                                        "begin": low if d.chance(0.6) else low - n, "end": end})


@describe("slice_like", "movement", 24)
def slice_like(name, d):
    dims, dtype, attrs = d.dims(1, 4, zero=False), d.dtype(NUMBERS), {}
    like = tuple(d.integer(1, n + 1) for n in dims)
    if d.chance(0.6):
        attrs["axes"] = d.axes(len(dims))
    return case(name, [d.values(dims, dtype), d.values(like, dtype)], attrs)


@describe("_slice_assign", "movement", 24)
@describe("_slice_assign_scalar", "movement", 24)
def slice_assign(name, d):
    dims, dtype = d.dims(1, 4, zero=False), d.dtype(NUMBERS)
    begin, end, step, region = [], [], [], []
    for n in dims:
        low = d.integer(0, n)
        high, s = d.integer(low + 1, n + 1), d.pick(1, 1, 2)
        begin.append(low), end.append(high), step.append(s), region.append((high - low + s - 1) // s)
    attrs = {"begin": tuple(begin), "end": tuple(end), "step": tuple(step)}
    if name.endswith("scalar"):
        return case(name, [d.values(dims, dtype)], dict(attrs, scalar=d.pick(0.0, 1.5, 7.0) if dtype in REALS else d.pick(0.0, 7.0)))
    return case(name, [d.values(dims, dtype), d.values(tuple(region), dtype)], attrs)


@describe("Concat concat", "movement", 16)
def concat(name, d):
    dims, n, dtype = d.dims(1, 5, zero=False), d.integer(1, 6), d.dtype(ANY)
    axis = d.integer(0, len(dims))
    inputs = []
    for _ in range(n):
        part = list(dims)
        part[axis] = d.integer(1, 5)
        inputs.append(d.values(tuple(part), dtype))
    return case(name, inputs, {"num_args": n, "dim": axis if d.chance(0.7) else axis - len(dims)})


@describe("stack", "movement", 24)
def stack(name, d):
    dims, n, dtype = d.dims(1, 4), d.integer(1, 5), d.dtype(NUMBERS)
    return case(name, [d.values(dims, dtype) for _ in range(n)], {"num_args": n, "axis": d.axis(len(dims) + 1)})


@describe("SliceChannel split", "movement", 16)
def slice_channel(name, d):
    dims, k, m = list(d.dims(1, 5, zero=False)), d.integer(1, 5), d.pick(1, 1, 2, 3)
    axis = d.integer(0, len(dims))
    dims[axis] = k * m
    return case(name, [d.values(tuple(dims), d.dtype(NUMBERS))],
                {"num_outputs": k, "axis": axis if d.chance(0.6) else axis - len(dims),
                 "squeeze_axis": m == 1 and len(dims) > 1 and d.chance(0.5)})


@describe("repeat", "movement", 24)
def repeat(name, d):
    dims, attrs = d.dims(1, 4), {"repeats": d.pick(1, 2, 3, 5)}
    if d.chance(0.75):
        attrs["axis"] = d.axis(len(dims))
    return case(name, [d.values(dims, d.dtype(ANY))], attrs)


@describe("tile", "movement", 24)
def tile(name, d):
    dims = d.dims(1, 4)
    return case(name, [d.values(dims, d.dtype(ANY))], {"reps": tuple(d.pick(1, 1, 2, 3) for _ in range(d.integer(1, 5)))})


@describe("reverse flip", "movement", 14)
def reverse(name, d):
    dims = d.dims(1, 5)
    axes = d.axes(len(dims))
    return case(name, [d.values(dims, d.dtype(ANY))], {"axis": axes[0] if len(axes) == 1 and d.chance(0.5) else axes})


@describe("Pad pad", "movement", 20)
def pad(name, d):
    dims = (d.integer(1, 4), d.integer(1, 4), d.integer(2, 8), d.integer(2, 6))
    mode, width = d.pick("constant", "edge", "reflect"), [0, 0, 0, 0]
    for n in dims[2:]:
        width += [d.integer(0, n), d.integer(0, n)]
    attrs = {"mode": mode, "pad_width": tuple(width)}
    if mode == "constant" and d.chance(0.7):
        attrs["constant_value"] = d.pick(0.0, 1.5, -2.0)
    return case(name, [d.values(dims, d.dtype())], attrs)


@describe("broadcast_to", "movement", 24)
def broadcast_to(name, d):
    dims = d.dims(1, 5, zero=False)
    target = tuple(n if n > 1 else d.pick(1, 2, 3, 5) for n in dims)
    return case(name, [d.values(dims, d.dtype(ANY))],
                {"shape": tuple(0 if n == t and d.chance(0.3) else t for n, t in zip(dims, target))})


@describe("broadcast_axis broadcast_axes", "movement", 14)
def broadcast_axis(name, d):
    dims = list(d.dims(1, 5, zero=False))
    if 1 not in dims:
        dims[0] = 1
    axes = [i for i, n in enumerate(dims) if n == 1 and d.chance(0.7)] or [dims.index(1)]
    sizes = tuple(d.integer(1, 5) for _ in axes)
    one = len(axes) == 1 and d.chance(0.5)
    return case(name, [d.values(tuple(dims), d.dtype(ANY))],
                {"axis": axes[0] if one else tuple(axes), "size": sizes[0] if one else sizes})


@describe("broadcast_like", "movement", 24)
def broadcast_like(name, d):
    dims, dtype, attrs = d.dims(1, 5, zero=False), d.dtype(NUMBERS), {}
    like = tuple(n if n > 1 else d.pick(1, 2, 3, 5) for n in dims)
    if 1 in dims and d.chance(0.4):
        like, k = (4, 5, 3), d.integer(0, 3)
        attrs = {"lhs_axes": (dims.index(1),), "rhs_axes": (k - 3 if d.chance(0.4) else k,)}
    return case(name, [d.values(dims, dtype), d.values(like, dtype)], attrs)


@describe("SequenceMask", "movement", 30)
def sequence_mask(name, d):
    dims, axis, dtype = d.dims(2, 4, zero=False), d.integer(0, 2), d.dtype()
    attrs = {"axis": axis} if axis or d.chance(0.5) else {}
    data = d.values(dims, dtype)
    if not d.chance(0.85):
        return case(name, [data], attrs)
    attrs["use_sequence_length"] = True
    if d.chance(0.6):
        attrs["value"] = d.pick(0.0, -1.5, 7.0)
    lengths = d.random.randint(0, dims[axis] + 1, dims[1 - axis])
    if d.number % 5 == 3:
        lengths = lengths * 0.75  # a fraction of a step is no step
    return case(name, [data, Tensor(dtype if dtype != "bfloat16" else "float32", lengths)], attrs, wants=[1, 0])


def indices(d, dims, n, dtype, outside=0.25):
    low, high = (-n - 2, n + 3) if d.chance(outside) and dtype != "uint8" else (0, max(n, 1))
    return Tensor(dtype, d.random.randint(low, high, dims))


@describe("take", "movement", 34)
def take(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    axis = d.integer(0, len(dims))
    mode = d.pick("clip", "wrap", None)
    if mode:
        attrs["mode"] = mode
    if axis or d.chance(0.3):
        attrs["axis"] = axis if d.chance(0.7) else axis - len(dims)
    ids = tuple(d.integer(1, 5) for _ in range(d.integer(1, 4)))
    return case(name, [d.values(dims, d.dtype(NUMBERS)), indices(d, ids, dims[axis], d.pick("int32", "int64", "float32", "uint8"))],
                attrs, wants=[1, 0])


@describe("Embedding", "movement", 24)
def embedding(name, d):
    n, m, dtype = d.integer(1, 12), d.integer(1, 9), d.dtype(("float32", "float64", "float16"))
    ids = tuple(d.integer(0 if d.number % 11 == 4 else 1, 5) for _ in range(d.integer(1, 4)))
    return case(name, [indices(d, ids, n, d.pick("float32", "int32", "int64")), d.values((n, m), dtype)],
                {"input_dim": n, "output_dim": m, "dtype": dtype}, wants=[0, 1])


@describe("pick choose_element_0index", "movement", 18)
def pick(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    axis = d.integer(0, len(dims))
    keep = d.chance(0.5)
    ids = tuple(1 if i == axis else n for i, n in enumerate(dims)) if keep else dims[:axis] + dims[axis + 1:] or (1,)
    if axis != len(dims) - 1 or d.chance(0.5):
        attrs["axis"] = axis if d.chance(0.6) else axis - len(dims)
    if d.chance(0.5):
        attrs["keepdims"] = d.chance(0.6)
    if d.chance(0.6):
        attrs["mode"] = d.pick("clip", "wrap")
    return case(name, [d.values(dims, d.dtype(NUMBERS)), indices(d, ids, dims[axis], d.pick("float32", "int32"))],
                attrs, wants=[1, 0])


@describe("batch_take", "movement", 20)
def batch_take(name, d):
    a, b = d.integer(1, 8), d.integer(1, 8)
    return case(name, [d.values((a, b), d.dtype(NUMBERS)), indices(d, (a,), b, "int32")], wants=[1, 0])


@describe("one_hot", "movement", 28)
def one_hot(name, d):
    depth = d.integer(1, 9)
    attrs = {"depth": depth}
    if d.chance(0.6):
        attrs["dtype"] = d.dtype(("float32", "float64", "int32", "float16", "uint8", "int64", "int8"))
    if d.chance(0.5):
        attrs.update(on_value=d.pick(2.0, 5.0), off_value=d.pick(0.0, 3.0))
    ids = d.dims(1, 3)
    return case(name, [indices(d, ids, depth, d.pick("float32", "int32", "int64", "uint8"))], attrs, wants=[0])


@describe("gather_nd", "movement", 26)
def gather_nd(name, d):
    dims = d.dims(1, 4, zero=False)
    m = d.integer(1, len(dims) + 1)
    points = tuple(d.integer(1, 5) for _ in range(d.integer(1, 3)))
    dtype = d.pick("int32", "int64", "float32")
    ids = np.stack([d.random.randint(-n if d.chance(0.2) else 0, n, points) for n in dims[:m]])
    return case(name, [d.values(dims, d.dtype(NUMBERS)), Tensor(dtype, ids)], wants=[1, 0])
