"""How calls of the operators that update weights are drawn, and of those that trainers ask of many arrays."""
import math

from cases_elementwise import describe
from draw import case
from tensors import Tensor

WIDE = ("float32", "float16", "float64", "float32", "float16")

# By rule: the states, "p" for those that are sums of squares; attributes that may be set, with values.
STATES = {"sgd": "", "sgd_mom": "n", "nag_mom": "n", "signsgd": "", "signum": "n", "rmsprop": "p", "rmspropalex": "ann",
          "ftrl": "np", "ftml": "ppn", "adamw": "np", "lamb": "np", "sparse_adagrad": "p"}
BETAS = dict(beta1=(0.875, 0.5), beta2=(0.9375, 0.75), epsilon=(1e-8, 0.125))  # MXNet keeps them as float32
ATTRS = {"sgd_mom": dict(momentum=(0.9, 0.5)), "nag_mom": dict(momentum=(0.9, 0.5)),
         "signum": dict(momentum=(0.9, 0.5), wd_lh=(0.125, 0.01)),
         "rmsprop": dict(gamma1=(0.9, 0.5), epsilon=(0.125, 1e-3), clip_weights=(1.5, 0.5)),
         "rmspropalex": dict(gamma1=(0.9, 0.75), gamma2=(0.5, 0.75), epsilon=(0.125, 0.5), clip_weights=(1.5, 0.5)),
         "ftrl": dict(lamda1=(0.125, 1.5), beta=(0.5, 2.0)), "ftml": BETAS, "adamw": BETAS, "lamb": BETAS,
         "sparse_adagrad": dict(epsilon=(1e-7, 0.125))}
KINDS = {"n": "normal", "p": "positive", "a": "above_one"}


def rule_of(name):
    for word in ("preloaded_", "multi_", "mp_", "_update", "_phase1"):
        name = name.replace(word, "")
    return name.strip("_")


def dims_of(d, most):
    """One or two dimensions, in all up to `most` elements but for one in 20 cases."""
    dims = list(d.dims(1, 2, zero=False))
    while d.number != 6 and math.prod(dims) > most:
        dims[dims.index(max(dims))] = d.integer(1, 5)
    return tuple(dims)


def group(d, rule, dims, dtype, mp):
    """{weight, grad, states..., weight32} of one weight."""
    state = "float32" if mp else dtype
    special = d.number % 8 == 5 and dtype == "float32"
    arrays = [d.values(dims, dtype, "normal"), d.values(dims, dtype, "special" if special else "normal")]
    arrays += [d.values(dims, state, KINDS[k]) for k in STATES[rule]]
    if mp:
        arrays.append(d.values(dims, "float32", "normal"))
        if rule == "lamb":  # MXNet takes the norm of the weight of 16 bits
            arrays[0] = Tensor(dtype, arrays[-1].values)
    return arrays


def choose(d, attrs, more, chance=0.6):
    for key, values in more.items():
        if d.chance(chance):
            attrs[key] = d.pick(*values)


def common(d, rule, clip="clip_gradient"):
    attrs = {}
    choose(d, attrs, ATTRS.get(rule, {}), 0.75)
    if rule in ("ftml", "adamw", "lamb"):
        attrs["beta2"] = attrs.get("beta2", 0.9375)
    if rule != "adamw":
        choose(d, attrs, dict(rescale_grad=(1.0, 0.5, 0.125)))
    choose(d, attrs, {clip: (0.5, 1.0, 0.0625)}, 0.5)
    return attrs


def changed(rule, mp):
    """The places in a group that the operator changes."""
    return [0] + list(range(2, 2 + len(STATES[rule]) + mp))


ONE = ("mp_sgd_update mp_sgd_mom_update nag_mom_update mp_nag_mom_update signsgd_update signum_update rmsprop_update "
       "rmspropalex_update ftrl_update ftml_update _adamw_update _mp_adamw_update _sparse_adagrad_update")


@describe(ONE, "optim", 13)
def update(name, d):
    rule, mp = rule_of(name), "mp_" in name
    dtype = "float16" if mp else d.dtype(WIDE)
    attrs = dict(common(d, rule, "clip_grad" if rule == "ftml" else "clip_gradient"), lr=d.pick(0.125, 0.0625, 1.0, 0.5))
    if d.chance(0.6):
        attrs["wd"] = d.pick(0.125, 0.01)
    if rule == "ftml":
        attrs["t"] = d.integer(1, 9)
    if mp and "sgd" in rule and d.chance(0.3):
        attrs["lazy_update"] = False
    inputs = group(d, rule, dims_of(d, 14), dtype, mp)
    if rule == "adamw":
        attrs["eta"] = d.pick(1.0, 0.5)
        inputs.append(Tensor("float32", [d.pick(1.0, 0.5, 0.125, 0.0, float("inf"), float("nan"), 0.5)]))
    return case(name, inputs, attrs, wants=[0] * len(inputs), updates=changed(rule, mp), outs=[0])


MANY = ("multi_sgd_update multi_sgd_mom_update multi_mp_sgd_update multi_mp_sgd_mom_update preloaded_multi_sgd_update "
        "preloaded_multi_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_mp_sgd_mom_update "
        "_multi_adamw_update _multi_mp_adamw_update _multi_lamb_update _multi_mp_lamb_update")


@describe(MANY, "optim", 13)
def updates(name, d):
    rule, mp = rule_of(name), "mp_" in name
    n = 45 if d.number == 0 else 1 if d.number == 6 else d.integer(1, 4)
    dtype = "float16" if mp else d.dtype(WIDE)
    attrs, inputs, changes, outs = common(d, rule), [], [], []
    for _ in range(n):
        first = len(inputs)
        inputs += group(d, rule, dims_of(d, 5) if n < 45 else (2,), dtype, mp)
        changes += [first + k for k in changed(rule, mp)]
        outs.append(first)
    lrs = [d.pick(0.125, 0.0625, 1.0, 0.5) for _ in range(n)]
    wds = [d.pick(0.0, 0.125, 0.0625) for _ in range(n)]
    if name.startswith("preloaded"):
        inputs += [Tensor("float32", lrs), Tensor("float32", wds)]
    else:
        attrs["learning_rates" if rule == "lamb" else "lrs"] = tuple(lrs)
        attrs["wds"] = tuple(wds)
    if rule == "adamw":
        attrs["etas"] = tuple(d.pick(1.0, 0.5) for _ in range(n))
        inputs.append(Tensor("float32" if mp else dtype, [d.pick(1.0, 0.5, 0.125, 0.0, float("inf"), 0.5)]))
    if rule == "lamb":
        attrs["step_count"] = tuple(d.integer(1, 9) for _ in range(n))
        choose(d, attrs, dict(bias_correction=(False,), lower_bound=(0.5, 2.0), upper_bound=(1.5, 2.5)), 0.4)
    attrs["num_tensors" if rule == "lamb" else "num_weights"] = n
    return case(name, inputs, attrs, wants=[0] * len(inputs), updates=changes, outs=outs)


@describe("lamb_update_phase1 mp_lamb_update_phase1", "optim", 13)
def lamb_update_phase1(name, d):
    mp = name.startswith("mp_")
    inputs = group(d, "lamb", dims_of(d, 14), "float16" if mp else d.dtype(WIDE), mp)
    attrs = dict(common(d, "lamb"), t=d.integer(1, 9), wd=d.pick(0.0, 0.125))
    choose(d, attrs, dict(bias_correction=(False,)), 0.4)
    return case(name, inputs, attrs, wants=[0] * len(inputs), updates=[2, 3])


@describe("lamb_update_phase2 mp_lamb_update_phase2", "optim", 13)
def lamb_update_phase2(name, d):
    mp = name.startswith("mp_")
    dims, dtype = dims_of(d, 14), "float16" if mp else d.dtype(WIDE)
    other = "float32" if mp else dtype
    norms = [Tensor(other, [d.pick(0.0, 0.75, 1.5, 3.0)]), Tensor(other, [d.pick(0.0, 0.5, 1.5, 2.0)])]
    inputs = [d.values(dims, dtype, "normal"), d.values(dims, other, "normal")] + norms
    if mp:
        inputs.append(d.values(dims, "float32", "normal"))
    attrs = {"lr": d.pick(0.125, 1.0, 0.5)}
    choose(d, attrs, dict(lower_bound=(1.0, 0.25), upper_bound=(1.25, 2.5)), 0.5)
    return case(name, inputs, attrs, wants=[0] * len(inputs), updates=[0, 4] if mp else [0], outs=[0])


@describe("_contrib_group_adagrad_update", "optim", 13)
def group_adagrad_update(name, d):
    dims, dtype = d.dims(2, 2, zero=False), d.dtype(WIDE)
    inputs = [d.values(dims, dtype, "normal"), d.values(dims, dtype, "normal"), d.values((dims[0], 1), dtype, "positive")]
    attrs = {"lr": d.pick(0.125, 1.0, 0.5)}
    choose(d, attrs, dict(epsilon=(1e-3, 0.125), rescale_grad=(0.5, 0.125), clip_gradient=(0.5, 1.0)), 0.5)
    return case(name, inputs, attrs, wants=[0] * 3, updates=[0, 2], outs=[0])


@describe("multi_sum_sq", "optim", 13)
def multi_sum_sq(name, d):
    n, dtype = d.integer(1, 5), d.dtype(WIDE)
    inputs = [d.values(dims_of(d, 14), dtype, "normal" if d.number % 5 else "special") for _ in range(n)]
    return case(name, inputs, dict(num_arrays=n), wants=[0] * n)


@describe("multi_lars", "optim", 13)
def multi_lars(name, d):
    shape = (d.integer(1, 9),) if d.number % 4 else (2, 3)
    inputs = [d.values(shape, "float32", "positive") for _ in range(4)]
    zeros = d.values(shape, "bool")
    inputs[1 + d.integer(0, 2)].values[zeros.values] = 0
    attrs = dict(eta=d.pick(0.001, 0.5), eps=d.pick(0.0, 0.25))
    choose(d, attrs, dict(rescale_grad=(0.5, 0.125)))
    return case(name, inputs, attrs, wants=[0] * 4)


@describe("all_finite multi_all_finite", "optim", 13)
def all_finite(name, d):
    n, dtype = 1 if name == "all_finite" else d.integer(1, 5), d.dtype(WIDE)
    inputs = [d.values(dims_of(d, 14), dtype, "special" if d.chance(0.2) else "normal") for _ in range(n)]
    return case(name, inputs, dict(num_arrays=n) if n > 1 else {}, wants=[0] * n)


@describe("reset_arrays", "optim", 13)
def reset_arrays(name, d):
    n, dtype = d.integer(1, 5), d.dtype(WIDE)
    inputs = [d.values(dims_of(d, 14), dtype) for _ in range(n)]
    return case(name, inputs, dict(num_arrays=n), wants=[0] * n, updates=list(range(n)), outs=[])
