"""PyTorch: operators that move elements."""
import math

import numpy as np
import torch
import torch.nn.functional as nn

from formulae import at_least_1d, formula


def reshaped(dims, codes):
    out, i, k = [], 0, 0
    while k < len(codes):
        c = codes[k]
        if c == -2:
            out += dims[i:]
            i = len(dims)
        elif c == -3:
            out.append(dims[i] * dims[i + 1])
            i += 2
        elif c == -4:
            first, second = codes[k + 1], codes[k + 2]
            first = dims[i] // second if first == -1 else first
            second = dims[i] // first if second == -1 else second
            out += [first, second]
            i, k = i + 1, k + 2
        else:
            out.append(dims[i] if c == 0 else c)
            i += 1
        k += 1
    return out


@formula("Reshape reshape")
def reshape(a, x):
    dims, codes = list(x[0].shape), list(a.tuple("shape"))
    if a.get("reverse"):
        return x[0].reshape(reshaped(dims[::-1], codes[::-1])[::-1])
    return x[0].reshape(reshaped(dims, codes))


@formula("reshape_like")
def reshape_like(a, x):
    def span(key, n):
        begin, end = a.get(key + "_begin"), a.get(key + "_end")
        begin, end = 0 if begin is None else begin, n if end is None else end
        return begin % n if begin < 0 else begin, end % n if end < 0 else end

    (i, j), (k, m) = span("lhs", x[0].ndim), span("rhs", x[1].ndim)
    return x[0].reshape(x[0].shape[:i] + x[1].shape[k:m] + x[0].shape[j:])


@formula("Flatten flatten")
def flatten(a, x):
    return x[0].reshape(x[0].shape[0], math.prod(x[0].shape[1:]))


@formula("expand_dims")
def expand_dims(a, x):
    return x[0].unsqueeze(a.get("axis"))


@formula("squeeze")
def squeeze(a, x):
    axes = a.tuple("axis") or [i for i, n in enumerate(x[0].shape) if n == 1]
    return at_least_1d(x[0].squeeze(tuple(axes)))


@formula("transpose")
def transpose(a, x):
    return x[0].permute(a.tuple("axes") or tuple(reversed(range(x[0].ndim))))


@formula("SwapAxis swapaxes")
def swap_axis(a, x):
    return x[0].transpose(a.get("dim1", 0), a.get("dim2", 0))


def numbered(x, key):
    """x[key] by NumPy's rules, which steps below 0 need."""
    places = np.arange(x.numel()).reshape(x.shape)[key]
    return x.reshape(-1)[torch.tensor(places.copy(), dtype=torch.long)]


def slice_key(a):
    begin, end = a.tuple("begin"), a.tuple("end")
    return tuple(slice(*part) for part in zip(begin, end, a.tuple("step") or (None,) * len(begin)))


@formula("slice")
def slice_(a, x):
    return numbered(x[0], slice_key(a))


@formula("slice_axis")
def slice_axis(a, x):
    return numbered(x[0], (slice(None),) * (a.get("axis") % x[0].ndim) + (slice(a.get("begin"), a.get("end")),))


@formula("slice_like")
def slice_like(a, x):
    for i in a.tuple("axes") or range(x[0].ndim):
        x = (x[0].narrow(i, 0, x[1].shape[i]), x[1])
    return x[0]


@formula("_slice_assign")
def slice_assign(a, x):
    y = x[0].clone()
    y[slice_key(a)] = x[1]
    return y


@formula("_slice_assign_scalar")
def slice_assign_scalar(a, x):
    y = x[0].clone()
    y[slice_key(a)] = a.get("scalar")
    return y


@formula("Concat concat")
def concat(a, x):
    return torch.cat(x, a.get("dim", 1))


@formula("stack")
def stack(a, x):
    return torch.stack(x, a.get("axis", 0))


@formula("SliceChannel split")
def slice_channel(a, x):
    axis = a.get("axis", 1)
    parts = torch.chunk(x[0], a.get("num_outputs"), axis)
    return [p.squeeze(axis) if a.get("squeeze_axis") else p for p in parts]


@formula("repeat")
def repeat(a, x):
    return torch.repeat_interleave(x[0], a.get("repeats"), a.get("axis"))


@formula("tile")
def tile(a, x):
    return x[0].tile(a.tuple("reps"))


@formula("reverse flip")
def reverse(a, x):
    return x[0].flip(a.tuple("axis"))


@formula("Pad pad")
def pad(a, x):
    width = a.tuple("pad_width")
    sides = [width[6], width[7], width[4], width[5]]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[a.get("mode")]
    return nn.pad(x[0], sides, mode, a.get("constant_value", 0.0) if mode == "constant" else None)


@formula("broadcast_to")
def broadcast_to(a, x):
    return x[0].expand([n or m for n, m in zip(a.tuple("shape"), x[0].shape)])


@formula("broadcast_axis broadcast_axes")
def broadcast_axis(a, x):
    dims = list(x[0].shape)
    for i, n in zip(a.tuple("axis"), a.tuple("size")):
        dims[i] = n
    return x[0].expand(dims)


@formula("broadcast_like")
def broadcast_like(a, x):
    if not a.tuple("lhs_axes"):
        return x[0].expand(x[1].shape)
    dims = list(x[0].shape)
    for i, j in zip(a.tuple("lhs_axes"), a.tuple("rhs_axes")):
        dims[i] = x[1].shape[j]
    return x[0].expand(dims)


@formula("SequenceMask")
def sequence_mask(a, x):
    if len(x) == 1:
        return x[0] * 1
    axis = a.get("axis", 0)
    step = torch.arange(x[0].shape[axis]).reshape([-1 if i == axis else 1 for i in range(2)])
    length = torch.trunc(x[1]).reshape([1 if i == axis else -1 for i in range(2)])
    keep = (step < length).reshape(list(x[0].shape[:2]) + [1] * (x[0].ndim - 2))
    return torch.where(keep, x[0], torch.full_like(x[0], a.get("value", 0.0)))


def places(ids, n, mode):
    ids = torch.trunc(ids.detach().double()).long()
    return ids % n if mode == "wrap" else ids.clamp(0, n - 1)


@formula("take")
def take(a, x):
    axis = a.get("axis", 0) % x[0].ndim
    ids = places(x[1], x[0].shape[axis], a.get("mode", "clip"))
    y = x[0].index_select(axis, ids.reshape(-1))
    return y.reshape(x[0].shape[:axis] + ids.shape + x[0].shape[axis + 1:])


@formula("Embedding")
def embedding(a, x):
    return x[1][places(x[0], x[1].shape[0], "clip")]


@formula("pick choose_element_0index")
def pick(a, x):
    axis = a.get("axis", -1) % x[0].ndim
    dims = list(x[0].shape)
    dims[axis] = 1
    y = torch.gather(x[0], axis, places(x[1], x[0].shape[axis], a.get("mode", "clip")).reshape(dims))
    return y if a.get("keepdims") else at_least_1d(y.squeeze(axis))


@formula("batch_take")
def batch_take(a, x):
    return torch.gather(x[0], 1, places(x[1], x[0].shape[1], "clip").reshape(-1, 1)).reshape(-1)


@formula("one_hot")
def one_hot(a, x):
    hit = torch.trunc(x[0].double()).unsqueeze(-1) == torch.arange(a.get("depth"))
    on, off = (torch.tensor(float(a.get(k, v)), dtype=torch.float64) for k, v in (("on_value", 1), ("off_value", 0)))
    return torch.where(hit, on, off)


@formula("gather_nd")
def gather_nd(a, x):
    return x[0][tuple(torch.trunc(x[1].double()).long())]
