"""PyTorch: attention, its cache of keys and values, and rotary positions."""
import torch

from formulae import formula


@formula("scaled_dot_product_attention")
def attention(a, x):
    query, key, value = x[:3]
    batch, heads, n, dim = query.shape
    m, group = key.shape[2], heads // key.shape[1]
    length = torch.full((batch,), m)
    if a.get("use_valid_length"):
        length = x[-1].to(torch.int64).clamp(0, m)
    i, j, length = torch.arange(n)[:, None], torch.arange(m), length.reshape(-1, 1, 1, 1)
    seen = (j < length) & {"none": j == j, "upper_left": j <= i,
                           "lower_right": j <= i + length - n}[a.get("causal", "none")]
    scores = query @ key.repeat_interleave(group, 1).mT * a.get("scale", dim ** -0.5)
    if a.get("use_mask"):
        scores = scores + x[3] if x[3].is_floating_point() else scores.masked_fill(x[3] == 0, -torch.inf)
    scores = scores.masked_fill(~seen, -torch.inf)
    nothing = (scores == -torch.inf).all(-1, keepdim=True)  # where PyTorch gives 0 or NaN, by the algorithm that it takes
    weights = torch.softmax(scores.masked_fill(nothing, 0), -1).masked_fill(nothing, 0)
    return weights @ value.repeat_interleave(group, 1)


@formula("cache_append")
def cache_append(a, x):
    cache, data, position = x[0].clone(), x[1], x[2].to(torch.int64).expand(x[0].shape[0])
    for b, p in enumerate(position.tolist()):
        cache[b, :, p:p + data.shape[2]] = data[b]
    return [], [cache]


@formula("rotary_embedding")
def rotary_embedding(a, x):
    data = x[0]
    dims = a.get("dims", 0) or data.shape[-1]
    at = torch.arange(data.shape[-2], dtype=torch.float64)
    if a.get("use_positions"):
        at = x[1].to(torch.float64)
        if at.ndim == 2:
            at = at.reshape([at.shape[0]] + [1] * (data.ndim - 3) + [at.shape[1]])
    angle = (at + a.get("offset", 0.0))[..., None] * a.get("base", 10000.0) ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    cosine, sine = torch.cos(angle), torch.sin(-angle if a.get("inverse") else angle)
    pairs = (2, dims // 2) if not a.get("interleaved") else (dims // 2, 2)
    axis = -1 if a.get("interleaved") else -2
    first, second = data[..., :dims].unflatten(-1, pairs).unbind(axis)
    turned = torch.stack([first * cosine - second * sine, first * sine + second * cosine], axis)
    return torch.cat([turned.flatten(-2), data[..., dims:]], -1)
