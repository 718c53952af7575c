"""The operators that update weights, from their formulae in float64."""
import math

import torch

from formulae import formula


def clipped(g, limit):
    return g if limit < 0 else torch.where(torch.isnan(g), g, g.clamp(-limit, limit))


def means(a, g, mean, var):
    b, c = a.get("beta1", 0.9), a.get("beta2", 0.999)
    return b * mean + (1 - b) * g, c * var + (1 - c) * g**2


def corrected(a, mean, var, t):
    if not a.get("bias_correction", True):
        return mean, var
    return mean / (1 - a.get("beta1", 0.9) ** t), var / (1 - a.get("beta2", 0.999) ** t)


def sgd(a, w, g, s, lr, wd, more):
    return w - lr * (g + wd * w), []


def sgd_mom(a, w, g, s, lr, wd, more):
    mom = a.get("momentum", 0.0) * s[0] - lr * (g + wd * w)
    return w + mom, [mom]


def nag_mom(a, w, g, s, lr, wd, more):
    m, step = a.get("momentum", 0.0), lr * (g + wd * w)
    mom = m * s[0] - step
    return w + m * mom - step, [mom]


def signsgd(a, w, g, s, lr, wd, more):
    raw = more["grad"]
    return w - lr * (torch.where(torch.isnan(raw), raw, torch.sign(raw)) + wd * w), []


def signum(a, w, g, s, lr, wd, more):
    m = a.get("momentum", 0.0)
    mom = m * s[0] - (1 - m) * (g + wd * w)
    return (1 - lr * a.get("wd_lh", 0.0)) * w + lr * torch.where(torch.isnan(mom), mom, torch.sign(mom)), [mom]


def rmsprop(a, w, g, s, lr, wd, more):
    b, g = a.get("gamma1", 0.95), more["decayed"]
    n = b * s[0] + (1 - b) * g**2
    return clipped(w - lr * g / torch.sqrt(n + a.get("epsilon", 1e-8)), a.get("clip_weights", -1.0)), [n]


def rmspropalex(a, w, g, s, lr, wd, more):
    b, g = a.get("gamma1", 0.95), more["decayed"]
    n, mean = b * s[0] + (1 - b) * g**2, b * s[1] + (1 - b) * g
    delta = a.get("gamma2", 0.9) * s[2] - lr * g / torch.sqrt(n - mean**2 + a.get("epsilon", 1e-8))
    return clipped(w + delta, a.get("clip_weights", -1.0)), [n, mean, delta]


def ftrl(a, w, g, s, lr, wd, more):
    n, l1 = s[1] + g**2, a.get("lamda1", 0.01)
    z = s[0] + g - (torch.sqrt(n) - torch.sqrt(s[1])) * w / lr
    new = (torch.sign(z) * l1 - z) / ((a.get("beta", 1.0) + torch.sqrt(n)) / lr + wd)
    return torch.where(z.abs() <= l1, torch.zeros_like(new), torch.where(torch.isnan(z), z, new)), [z, n]


def ftml(a, w, g, s, lr, wd, more):
    b, c, t, g = a.get("beta1", 0.6), a.get("beta2", 0.999), a.get("t"), more["decayed"]
    v = c * s[1] + (1 - c) * g**2
    d = (1 - b**t) / lr * (torch.sqrt(v / (1 - c**t)) + a.get("epsilon", 1e-8))
    z = b * s[2] + (1 - b) * g - (d - b * s[0]) * w
    return -z / d, [d, v, z]


def adamw(a, w, g, s, lr, wd, more):
    mean, var = means(a, g, *s)
    return w - more["eta"] * (lr * mean / (torch.sqrt(var) + a.get("epsilon", 1e-8)) + wd * w), [mean, var]


def lamb_direction(a, w, g, s, wd, t):
    mean, var = means(a, g, *s)
    m, v = corrected(a, mean, var, t)
    return m / (torch.sqrt(v) + a.get("epsilon", 1e-6)) + wd * w, mean, var


def lamb_ratio(a, weight, direction):
    if a.get("lower_bound", -1.0) >= 0:
        weight = max(weight, a.get("lower_bound"))
    if a.get("upper_bound", -1.0) >= 0:
        weight = min(weight, a.get("upper_bound"))
    return 1.0 if weight == 0 or direction == 0 else weight / direction


def lamb(a, w, g, s, lr, wd, more):
    u, mean, var = lamb_direction(a, w, g, s, wd, more["t"])
    ratio = lamb_ratio(a, float(torch.linalg.norm(w)), float(torch.linalg.norm(u)))
    return w - lr * ratio * u, [mean, var]


def sparse_adagrad(a, w, g, s, lr, wd, more):
    history = s[0] + g**2
    return w - lr * (g / torch.sqrt(history + a.get("epsilon", 1e-7)) + wd * w), [history]


RULES = {f.__name__: (f, n) for f, n in
         ((sgd, 0), (sgd_mom, 1), (nag_mom, 1), (signsgd, 0), (signum, 1), (rmsprop, 1), (rmspropalex, 3), (ftrl, 2),
          (ftml, 3), (adamw, 2), (lamb, 2), (sparse_adagrad, 1))}


def step(a, rule, mp, arrays, lr, wd, rescale, more):
    """The changed arrays of one group."""
    function, states = RULES[rule]
    w, raw = arrays[-1] if mp else arrays[0], arrays[1]
    limit = a.get("clip_grad", a.get("clip_gradient", -1.0))
    more = dict(more, grad=raw, decayed=clipped(raw * rescale + wd * w, limit))
    new, new_states = function(a, w, clipped(raw * rescale, limit), arrays[2:2 + states], lr, wd, more)
    return [new] + new_states + ([new] if mp else [])


@formula("mp_sgd_update mp_sgd_mom_update nag_mom_update mp_nag_mom_update signsgd_update signum_update rmsprop_update "
         "rmspropalex_update ftrl_update ftml_update _adamw_update _mp_adamw_update _sparse_adagrad_update "
         "multi_sgd_update multi_sgd_mom_update multi_mp_sgd_update multi_mp_sgd_mom_update preloaded_multi_sgd_update "
         "preloaded_multi_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_mp_sgd_mom_update "
         "_multi_adamw_update _multi_mp_adamw_update _multi_lamb_update _multi_mp_lamb_update")
def updates(a, x, name):
    mp, rule = "mp_" in name, name
    for word in ("preloaded_", "multi_", "mp_", "_update"):
        rule = rule.replace(word, "")
    rule = rule.strip("_")
    size, n = 2 + RULES[rule][1] + mp, a.get("num_weights", a.get("num_tensors", 1))
    lrs, wds = a.tuple("lrs", a.tuple("learning_rates")) or (a.get("lr"),), a.tuple("wds") or (a.get("wd", 0.0),)
    if name.startswith("preloaded"):
        lrs, wds = x[-2].tolist(), x[-1].tolist()
    rescale = float(x[-1]) if rule == "adamw" else a.get("rescale_grad", 1.0)
    etas, counts = a.tuple("etas") or (a.get("eta"),), a.tuple("step_count") or (a.get("t"),)
    out = []
    for i in range(n):
        arrays = x[i * size:(i + 1) * size]
        if rule == "adamw" and (not math.isfinite(rescale) or rescale == 0):
            out += [arrays[0]] + list(arrays[2:])
        else:
            more = dict(eta=etas[i % len(etas)], t=counts[i % len(counts)])
            out += step(a, rule, mp, arrays, lrs[i], wds[i], rescale, more)
    return [], out


@formula("lamb_update_phase1 mp_lamb_update_phase1")
def lamb_update_phase1(a, x, name):
    g = clipped(x[1] * a.get("rescale_grad", 1.0), a.get("clip_gradient", -1.0))
    w = x[4] if name.startswith("mp_") else x[0]
    u, mean, var = lamb_direction(a, w, g, x[2:4], a.get("wd"), a.get("t"))
    return [u], [mean, var]


@formula("lamb_update_phase2 mp_lamb_update_phase2")
def lamb_update_phase2(a, x, name):
    mp = name.startswith("mp_")
    new = x[4 if mp else 0] - a.get("lr") * lamb_ratio(a, float(x[2]), float(x[3])) * x[1]
    return [], [new, new] if mp else [new]


@formula("_contrib_group_adagrad_update")
def group_adagrad_update(a, x):
    g = clipped(x[1] * a.get("rescale_grad", 1.0), a.get("clip_gradient", -1.0))
    history = x[2] + (g**2).mean(1, keepdim=True)
    return [], [x[0] - a.get("lr") * g / torch.sqrt(history + a.get("epsilon", 1e-5)), history]


@formula("multi_sum_sq")
def multi_sum_sq(a, x):
    return torch.stack([(y**2).sum() for y in x])


@formula("multi_lars")
def multi_lars(a, x):
    w, g = torch.sqrt(x[1]), a.get("rescale_grad", 1.0) * torch.sqrt(x[2])
    rate = x[0] * a.get("eta") * w / (g + x[3] * w + a.get("eps"))
    return torch.where((x[1] > 0) & (x[2] > 0), rate, x[0])


@formula("all_finite multi_all_finite")
def all_finite(a, x):
    return torch.tensor([float(all(torch.isfinite(y).all() for y in x))], dtype=torch.float64)


@formula("reset_arrays")
def reset_arrays(a, x):
    return [], [torch.zeros_like(y) for y in x]
