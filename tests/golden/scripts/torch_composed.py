"""PyTorch: normalisations, attention and sequence operators that Kaon composes of others."""
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
