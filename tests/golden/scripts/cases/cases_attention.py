"""Cases of attention, its cache of keys and values, and rotary positions. MXNet has none of them."""
import numpy as np

from cases_elementwise import describe
from draw import ANY, REALS, case
from tensors import Tensor


@describe("scaled_dot_product_attention", "attention", 56)
def attention(name, d):
    dtype, attrs = d.dtype(REALS), {}
    batch, kv_heads, group = d.pick(1, 2, 3), d.pick(1, 2), d.pick(1, 1, 2, 3)
    heads, n, m, dim, value_dim = kv_heads * group, d.pick(1, 2, 5, 7), d.pick(1, 3, 6, 8), d.pick(1, 2, 4, 7), d.pick(1, 3, 8)
    turn = d.number % 11
    if turn == 4:
        batch, n, m = d.pick((0, 3, 2), (2, 0, 2), (2, 3, 0))
    if turn == 6:
        batch, n, m, dim, value_dim = 1, d.pick(13, 29), d.pick(15, 31), 5, 4
    if d.chance(0.4):
        attrs["scale"] = d.pick(0.5, 1.0, -0.25, 2.0)
    if d.chance(0.5):
        attrs["causal"] = d.pick("upper_left", "lower_right")
    special = d.number % 8 == 7
    arrays = [d.values((batch, heads, n, dim), dtype, "special" if special else d.pick("normal", "ties", "tiny")),
              d.values((batch, kv_heads, m, dim), dtype, d.pick("normal", "ties")),
              d.values((batch, kv_heads, m, value_dim), dtype, "normal")]
    wants = [not special] * 3
    if d.number % 3 == 1 and not special:
        attrs["use_mask"] = True
        shape = [d.pick(1, size) for size in (batch, heads, n, m)][d.pick(0, 0, 1, 2, 3):]
        if d.chance(0.5):
            arrays.append(Tensor("bool", d.random.rand(*shape) < 0.7))
        else:
            values = d.values(tuple(shape), dtype, "normal").values
            arrays.append(Tensor(dtype, np.where(d.random.rand(*shape) < 0.2, -np.inf, values)))
        wants.append(arrays[-1].is_float)
    if d.number % 4 == 2:
        attrs["use_valid_length"] = True
        arrays.append(Tensor(d.pick("int32", "int64", "float32", "uint8"), d.random.randint(0, m + 2, batch)))
        wants.append(False)
    return case(name, arrays, attrs, wants=wants)


@describe("cache_append", "attention", 12)
def cache_append(name, d):
    dtype = d.dtype(ANY)
    batch, heads, capacity, dim = d.pick(1, 2, 3), d.pick(1, 2), d.pick(1, 3, 6), d.pick(1, 4, 5)
    if d.number % 11 == 4:
        batch = 0
    n = d.integer(0, capacity + 1)
    positions = d.random.randint(0, capacity - n + 1, batch if batch and d.chance(0.6) else 1)
    arrays = [d.values((batch, heads, capacity, dim), dtype, "normal"), d.values((batch, heads, n, dim), dtype, "normal"),
              Tensor(d.pick("int32", "int64", "float32"), positions)]
    return case(name, arrays, wants=[False] * 3, updates=(0,))


@describe("rotary_embedding", "attention", 24)
def rotary_embedding(name, d):
    dtype, attrs = d.dtype(REALS), {}
    dims = list(d.dims(2, 4))
    dims[-1] = d.pick(2, 4, 6, 8)
    if d.number % 11 == 6:
        dims = [1, 2, 37, 10]
    if d.chance(0.4):
        attrs["base"] = d.pick(100.0, 500000.0)
    if d.chance(0.4):
        attrs["offset"] = d.pick(1.0, 17.0, 2.5)
    if d.chance(0.4) and dims[-1] > 2:
        attrs["dims"] = dims[-1] - 2
    for key in ("interleaved", "inverse"):
        if d.chance(0.5):
            attrs[key] = True
    arrays = [d.values(tuple(dims), dtype, d.pick("normal", "ties", "tiny"))]
    if d.chance(0.5):
        attrs["use_positions"] = True
        shape = (dims[0], dims[-2]) if len(dims) > 2 and d.chance(0.5) else (dims[-2],)
        arrays.append(Tensor(d.pick("int32", "int64", "float32"), d.random.randint(0, 60, shape)))
    return case(name, arrays, attrs, wants=[True] + [False] * (len(arrays) - 1))
