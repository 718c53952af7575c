"""Cases of elementwise operators, reductions, optimizer updates and operators that create arrays."""
import numpy as np

from draw import ANY, NUMBERS, REALS, case

DESCRIPTIONS = {}  # operator: (function of name and Draw, number of cases, file)


def describe(names, file, count=22):
    def add(function):
        for name in names.split():
            DESCRIPTIONS[name] = (function, count, file)
        return function

    return add


DOMAINS = {
    "log": "positive", "sqrt": "positive", "rsqrt": "positive", "log1p": "positive", "log2": "positive",
    "log10": "positive", "arccosh": "above_one", "arcsin": "unit", "arccos": "unit", "arctanh": "unit",
    "reciprocal": "nonzero", "rcbrt": "nonzero", "gamma": "positive", "gammaln": "positive", "digamma": "positive",
    "tan": "unit",
}
WITH_INTEGERS = "relu square abs sign negative floor ceil round rint trunc fix".split()


@describe("""relu sigmoid tanh exp log sqrt rsqrt square abs sign negative reciprocal erf log1p expm1 log2 log10 sin cos
          tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh floor ceil round rint trunc fix cbrt rcbrt softsign
          softrelu gelu degrees radians gamma gammaln digamma""", "unary")
def unary(name, d):
    dtype = d.dtype(NUMBERS if name in WITH_INTEGERS else REALS)
    kind = None
    if name in DOMAINS and d.number % 4 != 1:
        kind = DOMAINS[name]
    elif d.number % 8 == 1:
        kind = "extreme"
    return case(name, [d.values(d.dims(nothing=True), dtype, kind)])


@describe("polygamma", "unary", 20)
def polygamma(name, d):
    return case(name, [d.values(d.dims(nothing=True), d.dtype(), "above_one")], {"n": d.integer(1, 5)})


@describe("logical_not _copy identity BlockGrad stop_gradient zeros_like ones_like", "unary")
def unary_any(name, d):
    return case(name, [d.values(d.dims(nothing=True), d.dtype(ANY))])


def broadcast_dims(d):
    dims = d.dims(1, 5)
    a = [1 if d.chance(0.2) else n for n in dims]
    b = [1 if x == n and d.chance(0.25) else n for x, n in zip(a, dims)]
    return tuple(a), tuple(b)


BINARY = """add sub mul div mod power maximum minimum hypot equal not_equal greater greater_equal lesser lesser_equal
         logical_and logical_or logical_xor"""


def two(name, d, a, b):
    dtype = d.dtype(REALS if "hypot" in name or "power" in name else NUMBERS)
    kind = "ties" if d.number % 5 == 2 else None
    x = d.values(a, dtype, "positive" if "power" in name and d.chance(0.6) else kind)
    y = d.values(b, dtype, "nonzero" if ("div" in name or "mod" in name) and not x.is_float else kind)
    return case(name, [x, y])


@describe(" ".join("broadcast_" + b for b in BINARY.split()), "binary")
def broadcasting(name, d):
    a, b = broadcast_dims(d)
    if d.number % 7 == 6:  # fewer dimensions
        b = b[d.integer(0, len(b)):]
    return two(name, d, a, b)


@describe("logaddexp", "binary")
def logaddexp(name, d):
    a, b = broadcast_dims(d)
    dtype, kind = d.dtype(), "extreme" if d.number % 8 == 1 else None
    return case(name, [d.values(a, dtype, kind), d.values(b, dtype, kind)])


@describe("elemwise_add elemwise_sub elemwise_mul elemwise_div _grad_add", "binary", 12)
@describe("_mod _power _maximum _minimum _hypot _equal _greater _lesser_equal _logical_xor", "binary", 6)
def same_shape(name, d):
    dims = d.dims()
    c = two(name, d, dims, dims)
    if name == "_grad_add":  # part of gradients itself
        c["wants"] = [False, False]
    return c


SCALARS = """plus minus rminus mul div rdiv mod rmod power rpower maximum minimum hypot equal not_equal greater
          greater_equal lesser lesser_equal logical_and logical_or logical_xor"""


@describe(" ".join(f"_{s}_scalar" for s in SCALARS.split()), "scalar")
def scalar(name, d):
    dtype = d.dtype(REALS if "hypot" in name else NUMBERS)
    is_float = d.values((1,), dtype).is_float
    number = d.pick(0.0, 1.0, -1.0, 2.0, 3.0, -2.0, 0.5, -0.5, 1.5, 2.5, 0.0009765625, 100.0, 7.0) if is_float else d.pick(1, 2, 3, 7)
    if "rpower" in name:
        number = abs(number)
    kind = None
    if "power" in name and is_float and d.chance(0.7):
        kind = "positive"
    if not is_float and name in ("_rdiv_scalar", "_rmod_scalar"):
        kind = "nonzero"
    if not is_float and "power" in name:
        kind = "positive"
    attrs = {"scalar": number}
    if d.chance(0.5):
        attrs["is_int"] = float(number).is_integer()
    return case(name, [d.values(d.dims(nothing=True), dtype, kind)], attrs)


@describe("smooth_l1", "scalar")
def smooth_l1(name, d):
    return case(name, [d.values(d.dims(), d.dtype())], {"scalar": d.pick(1.0, 2.0, 0.5, 3.0)})


@describe("hard_sigmoid", "scalar")
def hard_sigmoid(name, d):
    attrs = {"alpha": d.pick(0.25, 0.5, 1.0, -0.375), "beta": d.pick(0.5, 0.0, 0.25)} if d.chance(0.8) else {}
    return case(name, [d.values(d.dims(), d.dtype())], attrs)


@describe("clip", "scalar", 28)
def clip(name, d):
    low = d.pick(-1.0, 0.0, 1.0, 0.5) if d.dtype(NUMBERS) in REALS else d.pick(0.0, 1.0)
    return case(name, [d.values(d.dims(), d.dtype(NUMBERS))], {"a_min": low, "a_max": low + d.pick(0.0, 1.0, 3.0, 10.0)})


@describe("Cast cast", "scalar", 50)
def cast(name, d):
    source, target = d.dtype(ANY), ANY[(d.number // 3 + d.integer(0, 10)) % 10]
    kind = None
    if source in REALS and target not in REALS:
        kind = "positive" if target == "uint8" else "normal"
    return case(name, [d.values(d.dims(nothing=True), source, kind)], {"dtype": target})


@describe("add_n ElementWiseSum", "scalar", 12)
def add_n(name, d):
    n, dims, dtype = d.integer(1, 7), d.dims(), d.dtype(NUMBERS)
    return case(name, [d.values(dims, dtype) for _ in range(n)], {"num_args": n})


@describe("where", "scalar", 28)
def where(name, d):
    dims, dtype = d.dims(), d.dtype(NUMBERS)
    condition = dims if d.chance(0.75) else dims[:1]
    kind = d.pick("float32", "int32", "uint8", dtype)
    return case(name, [d.values(condition, kind, "ties"), d.values(dims, dtype), d.values(dims, dtype)],
                wants=[0, 1, 1])


def reduction_attrs(d, n):
    attrs = {}
    if d.chance(0.8):
        axes = d.axes(n)
        attrs["axis"] = axes[0] if len(axes) == 1 and d.chance(0.7) else axes
    if d.chance(0.5):
        attrs["keepdims"] = d.chance(0.6)
    if "axis" in attrs and d.chance(0.25):
        attrs["exclude"] = d.chance(0.7)
    return attrs


@describe("sum mean prod max min nansum nanprod", "reduce", 34)
@describe("sum_axis max_axis min_axis", "reduce", 8)
def reduction(name, d):
    dims = d.dims(1, 5, zero="max" not in name and "min" not in name)
    kind = {"nansum": "nan", "nanprod": "nan"}.get(name) if d.chance(0.7) else None
    dtype = d.dtype(REALS if name in ("mean", "nanprod", "nansum") else NUMBERS)
    if "prod" in name and kind is None:
        kind = d.pick("unit", "ties", "nonzero")
    return case(name, [d.values(dims, dtype, kind)], reduction_attrs(d, len(dims)))


@describe("norm", "reduce", 36)
def norm(name, d):
    dims, attrs = d.dims(1, 4), {}
    if d.chance(0.75):
        axes = d.axes(len(dims))[:2]
        attrs["axis"] = axes[0] if len(axes) == 1 else axes
    if d.chance(0.6):
        attrs["ord"] = d.pick(1, 2)
    if d.chance(0.4):
        attrs["keepdims"] = d.chance(0.7)
    return case(name, [d.values(dims, d.dtype(), None if d.number % 8 != 7 else "normal")], attrs)


def indexed(name, d, dims, attrs):
    dtype = d.dtype(NUMBERS)
    if dtype.endswith("int8") and np.prod(dims) > 127:  # which does not hold every index
        dtype = "int32"
    return case(name, [d.values(dims, dtype, "ties" if d.chance(0.5) else "normal")], attrs, wants=[0])


@describe("argmax argmin", "reduce", 30)
def argmax(name, d):
    dims, attrs = d.dims(1, 4, zero=False), {}
    if d.chance(0.8):
        attrs["axis"] = d.axis(len(dims))
    if d.chance(0.5):
        attrs["keepdims"] = d.chance(0.7)
    return indexed(name, d, dims, attrs)


@describe("argmax_channel", "reduce", 20)
def argmax_channel(name, d):
    return indexed(name, d, d.dims(2, 2, zero=False), {})


def made(d, dtypes):
    return {"dtype": d.dtype(dtypes), "ctx": "cpu(0)"}


@describe("_zeros _ones _full", "create", 20)
def filled(name, d):
    attrs = dict(shape=d.dims(), **made(d, NUMBERS))
    if name == "_full":
        attrs["value"] = d.pick(0.0, 1.0, 3.0, 100.0) if attrs["dtype"] not in REALS else d.pick(2.5, -3.0, 0.1, 1e10)
        if attrs["dtype"] in ("float16",):
            attrs["value"] = d.pick(2.5, -3.0, 0.1)
    return case(name, [], attrs)


@describe("_arange", "create", 36)
def arange(name, d):
    attrs = made(d, ("float32", "float64", "int32", "float16", "int64"))
    whole = attrs["dtype"].startswith("int")
    start, step = (d.pick(0, 1, -2), d.pick(1, 2, 3)) if whole else (d.pick(0, 1, -2, 0.5), d.pick(1, 0.5, -1, -0.25, 2))
    if d.chance(0.85):
        n = d.integer(1, 12)
        attrs.update(start=start, step=step, stop=start + step * n - (step * 0.25 if d.chance(0.5) else 0))
    else:
        attrs.update(start=d.integer(1, 9))
    if d.chance(0.3):
        attrs["repeat"] = d.integer(1, 4)
    return case(name, [], attrs)


@describe("_linspace", "create", 20)
def linspace(name, d):
    return case(name, [], dict(start=d.pick(0, -1, 2.5), stop=d.pick(1, 10, -3.0), num=d.pick(1, 2, 5, 11),
                               endpoint=d.chance(0.6), **made(d, ("float32", "float64", "float16"))))


@describe("_eye", "create", 24)
def eye(name, d):
    return case(name, [], dict(N=d.integer(1, 7), M=d.integer(0, 7), k=d.integer(-4, 5), **made(d, NUMBERS)))


@describe("sgd_update sgd_mom_update adam_update", "create", 30)
def update(name, d):
    dims = d.dims(1, 3, zero=False)
    dtype = d.dtype(("float32", "float64", "float16", "float32"))
    attrs = {"lr": d.pick(0.125, 0.01, 1.0, 0.5)}
    for key, values in (("wd", (0.0, 0.125, 0.01)), ("rescale_grad", (1.0, 0.5, 0.1)),
                        ("clip_gradient", (-1.0, 0.5, 1.0, 0.05)), ("lazy_update", (True, False))):
        if d.chance(0.6):
            attrs[key] = d.pick(*values)
    inputs = [d.values(dims, dtype, "normal"), d.values(dims, dtype, "normal")]
    changed = [0]
    if name == "sgd_mom_update":
        inputs.append(d.values(dims, dtype, "normal"))
        changed.append(2)
        if d.chance(0.8):
            attrs["momentum"] = d.pick(0.9, 0.5, 0.0)
    if name == "adam_update":
        inputs += [d.values(dims, dtype, "normal"), d.values(dims, dtype, "positive")]
        changed += [2, 3]
        if d.chance(0.7):
            attrs.update(beta1=d.pick(0.9, 0.5), beta2=d.pick(0.999, 0.9), epsilon=d.pick(1e-8, 1e-3))
    return case(name, inputs, attrs, wants=[0] * len(inputs), updates=changed, outs=[0])
