"""PyTorch: normalisations, attention, sequences, densities and colours: operators that Kaon composes of others."""
import math

import torch
import torch.nn.functional as nn

from formulae import FORMULAE, formula


@formula("InstanceNorm")
def instance_norm(a, x):
    data, along = x[0].flatten(2), (1, -1, 1)
    mean, var = data.mean(2, keepdim=True), data.var(2, correction=0, keepdim=True)
    y = (data - mean) / torch.sqrt(var + a.get("eps", 1e-3)) * x[1].reshape(along) + x[2].reshape(along)
    return y.reshape(x[0].shape)


@formula("GroupNorm")
def group_norm(a, x):
    n, along = a.get("num_groups", 1), (1, -1, 1)
    data = x[0].reshape(x[0].shape[0], n, -1)
    mean, var = data.mean(2, keepdim=True), data.var(2, correction=0, keepdim=True)
    y = (data - mean) / torch.sqrt(var + a.get("eps", 1e-5)) * x[1].reshape(along) + x[2].reshape(along)
    return y.reshape(x[0].shape)


@formula("L2Normalization")
def l2_normalization(a, x):
    axes = {"instance": range(1, x[0].ndim), "channel": [1], "spatial": range(2, x[0].ndim)}[a.get("mode", "instance")]
    square = x[0] * x[0]
    return x[0] / torch.sqrt((square.sum(list(axes), keepdim=True) if len(axes) else square) + a.get("eps", 1e-10))


@formula("LRN")
def lrn(a, x):
    n = a.get("nsize")
    away = n // 2
    square = nn.pad((x[0] * x[0]).flatten(2).transpose(1, 2), (away, away)).unfold(2, 2 * away + 1, 1).sum(-1)
    square = square.transpose(1, 2).reshape(x[0].shape)
    return x[0] * (a.get("knorm", 2.0) + a.get("alpha", 1e-4) / n * square) ** -a.get("beta", 0.75)


@formula("RMSNorm")
def rms_norm(a, x):
    last = x[0].transpose(a.get("axis", -1), -1)
    return nn.rms_norm(last, last.shape[-1:], x[1], a.get("eps", 1e-5)).transpose(a.get("axis", -1), -1)


@formula("moments")
def moments(a, x):
    axes, keep = list(a.tuple("axes")), bool(a.get("keepdims", False))
    mean = x[0].mean(axes, keepdim=True)
    var = ((x[0] - mean) ** 2).mean(axes, keepdim=keep)
    mean = x[0].mean(axes, keepdim=keep)
    return [mean.reshape(1) if mean.ndim == 0 else mean, var.reshape(1) if var.ndim == 0 else var]


@formula("_contrib_SyncBatchNorm")
def sync_batch_norm(a, x, train):
    return FORMULAE["BatchNorm"](a, x, train)


@formula("_contrib_div_sqrt_dim")
def div_sqrt_dim(a, x):
    return x[0] / math.sqrt(x[0].shape[-1]) if x[0].shape[-1] else x[0] * 1


def by_head(x, heads, kinds):
    s = x.shape
    return x.reshape(s[0], s[1] * heads, kinds, s[2] // heads // kinds).permute(2, 1, 0, 3)


@formula("_contrib_interleaved_matmul_selfatt_qk")
def self_scores(a, x):
    q, k, _ = by_head(x[0], a.get("heads"), 3)
    return q @ k.transpose(1, 2) / math.sqrt(q.shape[2])


@formula("_contrib_interleaved_matmul_encdec_qk")
def scores(a, x):
    q, k = by_head(x[0], a.get("heads"), 1)[0], by_head(x[1], a.get("heads"), 2)[0]
    return q @ k.transpose(1, 2) / math.sqrt(q.shape[2])


def weighed(attention, values, batch):
    y = (attention @ values).permute(1, 0, 2)
    return y.reshape(y.shape[0], batch, -1)


@formula("_contrib_interleaved_matmul_selfatt_valatt")
def self_values(a, x):
    return weighed(x[1], by_head(x[0], a.get("heads"), 3)[2], x[0].shape[1])


@formula("_contrib_interleaved_matmul_encdec_valatt")
def values(a, x):
    return weighed(x[1], by_head(x[0], a.get("heads"), 2)[1], x[0].shape[1])


@formula("_contrib_arange_like")
def arange_like(a, x):
    axis = a.get("axis")
    shape = list(x[0].shape) if axis is None else [x[0].shape[axis]]
    n = math.prod(shape)
    y = a.get("start", 0.0) + (torch.arange(n) // a.get("repeat", 1)) * a.get("step", 1.0)
    return y.double().reshape(shape)


@formula("shape_array")
def shape_array(a, x):
    return torch.tensor(x[0].shape)


@formula("size_array")
def size_array(a, x):
    return torch.tensor([x[0].numel()])


@formula("SequenceLast")
def sequence_last(a, x):
    data = x[0].transpose(0, 1) if a.get("axis", 0) else x[0]
    if len(x) == 1:
        return data[-1] * 1
    return data[x[1].detach().long() - 1, torch.arange(data.shape[1])]


@formula("SequenceReverse")
def sequence_reverse(a, x):
    if len(x) == 1:
        return x[0].flip(0)
    step, length = torch.arange(x[0].shape[0])[:, None], x[1].detach().long()[None]
    return x[0][torch.where(step < length, length - 1 - step, step), torch.arange(x[0].shape[1])[None]]


def ordered(a, x, ascending):
    axis = a.get("axis", -1)
    data = x[0].flatten() if axis is None else x[0]
    return data, -1 if axis is None else axis, torch.sort(data, dim=-1 if axis is None else axis, stable=True,
                                                          descending=not a.get("is_ascend", ascending))


@formula("topk")
def topk(a, x):
    data, axis, (values, indices) = ordered(a, x, False)
    k, kind = a.get("k", 1), a.get("ret_typ", "indices")
    if k >= 1:
        values, indices = values.narrow(axis, 0, k), indices.narrow(axis, 0, k)
    if kind == "mask":
        return torch.zeros_like(data).scatter(axis, indices, 1).reshape(x[0].shape)
    return {"value": values, "indices": indices.double(), "both": [values, indices.double()]}[kind]


@formula("sort")
def sort(a, x):
    return ordered(a, x, True)[2].values


@formula("argsort")
def argsort(a, x):
    return ordered(a, x, True)[2].indices.double()


def log_pmf(x, k, p, q):
    return torch.lgamma(x + k) - torch.lgamma(x + 1) - torch.lgamma(k) + k * torch.log(p) + torch.xlogy(x, q)


def log_density(kind, x, a, b):
    if kind == "uniform":
        return 0 * x.detach() - torch.log(b - a)
    if kind == "normal":
        return torch.distributions.Normal(a, b).log_prob(x)
    if kind == "gamma":
        return torch.distributions.Gamma(a, b, validate_args=False).log_prob(x)
    if kind == "exponential":
        return torch.distributions.Exponential(a).log_prob(x)
    x = x.detach()  # counts
    if kind == "poisson":
        return torch.xlogy(x, a) - a - torch.lgamma(x + 1)
    if kind == "negative_binomial":
        return log_pmf(x, a, b, 1 - b)
    return log_pmf(x, 1 / b, 1 / (1 + a * b), a * b / (1 + a * b))


@formula("random_pdf_uniform random_pdf_normal random_pdf_gamma random_pdf_exponential random_pdf_poisson "
         "random_pdf_negative_binomial random_pdf_generalized_negative_binomial")
def density(a, x, name):
    p = [v.reshape(v.shape + (1,) * (x[0].dim() - v.dim())) for v in x[1:]] + [None]
    y = log_density(name[len("random_pdf_"):], x[0], p[0], p[1])
    return y if a.get("is_log") else torch.exp(y)


@formula("random_pdf_dirichlet")
def dirichlet(a, x):
    sample, alpha = x
    alpha = alpha.reshape(alpha.shape[:-1] + (1,) * (sample.dim() - alpha.dim()) + alpha.shape[-1:])
    y = torch.xlogy(alpha - 1, sample).sum(-1) + torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)
    return y if a.get("is_log") else torch.exp(y)


def grey(x):
    return x if x.shape[-1] == 1 else (x * torch.tensor([0.299, 0.587, 0.114], dtype=x.dtype)).sum(-1, keepdim=True)


@formula("_image_random_contrast _image_random_saturation")
def contrast(a, x, name):
    f, g = a.get("min_factor"), grey(x[0])
    return f * x[0] + (1 - f) * (g.mean() if name.endswith("contrast") else g)


@formula("_image_random_hue")
def hue(a, x):
    x = x[0]
    high, low = x.max(-1).values, x.min(-1).values
    chroma = torch.where(high == low, torch.ones_like(high), high - low)
    r, g, b = x.unbind(-1)
    h = torch.where(r == high, (g - b) / chroma, torch.where(g == high, (b - r) / chroma + 2, (r - g) / chroma + 4))
    h = (h + 6 * a.get("min_factor")).unsqueeze(-1)
    distance = torch.remainder(h - torch.tensor([0.0, 2.0, 4.0], dtype=x.dtype) + 3, 6) - 3
    return low.unsqueeze(-1) + (high - low).unsqueeze(-1) * torch.clamp(2 - distance.abs(), 0, 1)


@formula("_image_adjust_lighting")
def lighting(a, x):
    vectors = torch.tensor([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]],
                           dtype=x[0].dtype)
    deviations = torch.tensor([55.46, 4.794, 1.148], dtype=x[0].dtype)
    return x[0] + vectors @ (deviations * torch.tensor(a.tuple("alpha"), dtype=torch.float32).to(x[0].dtype))


@formula("_image_flip_left_right _image_flip_top_bottom")
def flip(a, x, name):
    return torch.flip(x[0], (-2,) if name.endswith("right") else (-3,))


@formula("_image_to_tensor")
def to_tensor(a, x):
    return torch.movedim(x[0], -1, -3) / 255.0
