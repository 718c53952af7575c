#!/usr/bin/env python3
"""write_language.py FOLDER [COUNT [SEED [OPERATOR]]]: ONNX Runtime's operators of language models, as cases for onnx_suite.

FOLDER/language/OPERATOR_NUMBER/model.onnx has one operator with random attributes and inputs, and ONNX Runtime's results
beside it, as write_cases.py lays them out: COUNT cases of each operator (2, those of the repository), or several times as
many. What ONNX Runtime refuses is drawn again; what it has on GPUs alone, as packed queries, keys and values, it gets in
the form that it has on CPUs too. Where results are not defined, as behind the end of a prompt, the model has a Where that makes them
0. FOLDER/tolerances.txt gets their lines; those of other groups stay. Needs onnx and onnxruntime.
"""
import os
import shutil
import sys
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

from write_control_flow import write
from write_quantised import record_tolerances
from write_runtime import session

MICROSOFT = "com.microsoft"
VERSIONS = {"TreeEnsemble": 5}  # of the domain, where they are not 1 or 3


class Draw:
    """Random choices of one case."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.dtype = np.float16 if self.chance(0.12) else np.float32

    def chance(self, p):
        return self.rng.random() < p

    def of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def up_to(self, n, low=1):
        return int(self.rng.integers(low, n + 1))

    def real(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(self.dtype)

    def bytes(self, *shape):
        return self.rng.integers(0, 256, shape).astype(np.uint8)

    def integers(self, high, shape, dtype=np.int32, low=0):
        return self.rng.integers(low, high, shape).astype(dtype)


def rotary_tables(d, positions, half):
    angles = np.outer(np.arange(positions), 1.0 / 100.0 ** (np.arange(half) / half))
    return np.cos(angles).astype(d.dtype), np.sin(angles).astype(d.dtype)


# Each function gives: attributes; inputs in order, None for one that is left out; which of them are initializers; the
# outputs that are wanted, with an array of what is defined of each, or None for all; and the inputs that ONNX Runtime
# gets, where these are others.


def matmul_n_bits(d):
    bits, block = d.of(2, 4, 4, 4, 8, 8), d.of(16, 32, 64, 128)
    k, n = d.up_to(150), d.up_to(20)
    blocks = -(-k // block)
    zeros = d.of(None, d.bytes(n, -(-blocks * bits // 8)), d.real(n, blocks, scale=2) + 2 ** (bits - 1))
    bias = d.real(n) if d.chance(0.5) else None
    a = d.real(*d.of([d.up_to(4), k], [2, d.up_to(3), k], [1, 2, d.up_to(3), k]))
    weight = d.bytes(n, blocks, block * bits // 8)
    inputs = [a, weight, d.real(n, blocks, scale=0.05), zeros, None, bias]
    return dict(K=k, N=n, bits=bits, block_size=block), inputs, [1, 2, 3, 5], {0: None}


def gather_block_quantized(d):
    block, rank = d.of(16, 32, 64), d.of(2, 2, 3)
    kind = d.of("uint8", "uint8", "uint4", "int4")
    bits = d.of(4, 8) if kind == "uint8" else 4
    shape = [d.up_to(6, 2) for _ in range(rank)]
    along = rank - 1 if kind == "uint8" else d.up_to(rank - 1, 0)
    axis = 0 if kind == "uint8" else d.of(*[i for i in range(rank) if i != along])
    shape[along] = d.up_to(70)
    if kind == "uint8" and bits == 4:
        shape[along] += shape[along] % 2
    scales = list(shape)
    scales[along] = -(-shape[along] // block)
    attributes = dict(gather_axis=axis, quantize_axis=d.of(along, along - rank), block_size=block, bits=bits)
    if kind == "uint8":
        packed = lambda s: d.bytes(*s[:-1], -(-s[-1] * bits // 8))
    else:
        low = -8 if kind == "int4" else 0
        element = onnx.TensorProto.INT4 if kind == "int4" else onnx.TensorProto.UINT4
        packed = lambda s: helper.make_tensor("", element, s, d.integers(low + 16, s, np.int8, low).flatten())
    beyond = d.of(0, 0, 3)  # rows that are not there are zeros
    indices = d.integers(shape[axis] + beyond, d.of((3,), (2, 2), ()), d.of(np.int32, np.int64), -shape[axis] - beyond)
    zeros = packed(scales) if d.chance(0.5) else None
    return attributes, [packed(shape), indices, d.real(*scales), zeros], [0, 2, 3], {0: None}


def group_query_attention(d):
    own, group, size = d.of(1, 2), d.of(1, 2, 3), d.of(16, 32)
    heads, batch = own * group, d.of(1, 2, 3)
    kind = d.of("prompt", "step", "step", "chunk")
    if kind == "chunk":
        batch = 1
    steps = 1 if kind == "step" else d.up_to(7, 2)
    if kind == "prompt":
        lengths, total = np.array([steps] + [d.up_to(steps) for _ in range(batch - 1)]), steps
    else:
        before = [d.up_to(9) for _ in range(batch)]
        lengths = np.array(before) + steps
        total = int(lengths.max())
    spare = d.of(0, 0, 5)  # a cache of a fixed size has room behind the end
    past = total + spare if spare else total - steps
    attributes = dict(num_heads=heads, kv_num_heads=own)
    q, k, v = [d.real(batch, steps, n * size) for n in (heads, own, own)]
    norms = None
    inputs = [q, k, v, d.real(batch, own, past, size), d.real(batch, own, past, size),
              (lengths - 1).astype(np.int32), np.array(total, np.int32)] + [None] * 9
    if d.chance(0.3):
        inputs[:3] = np.concatenate([q, k, v], 2), None, None
    if past == 0 and d.chance(0.5):
        inputs[3:5] = None, None
    if d.chance(0.5):
        attributes["do_rotary"] = 1
        inputs[7], inputs[8] = rotary_tables(d, 40, d.of(8, size // 2))
        if d.chance(0.4):
            attributes["rotary_interleaved"] = 1
        if d.chance(0.3):
            inputs[9] = d.integers(20, (batch, steps), np.int64)
    if d.chance(0.3):
        attributes["local_window_size"] = d.up_to(5)
    elif d.chance(0.15):
        attributes["causal"] = 0
    if d.chance(0.2):
        attributes["softcap"] = 2.5
    if d.chance(0.2):
        attributes["scale"] = 0.7
    if d.chance(0.2):
        inputs[10] = d.real(d.of(1, batch), d.of(1, heads), steps, total)
    if d.chance(0.2):
        inputs[11] = d.real(heads)
    elif d.chance(0.15):
        attributes["smooth_softmax"] = 1
    if d.chance(0.15):
        norms = d.real(size), d.real(size)
        attributes["qk_norm_epsilon"] = 1e-5
    capacity = max(past, total)
    t = np.arange(capacity)
    first = np.zeros(batch, int) if kind == "prompt" else lengths - steps
    numbers = first[:, None] + np.arange(steps)
    is_step = numbers < lengths[:, None]
    kept = t < lengths[:, None]
    cache = np.broadcast_to(kept[:, None, :, None], (batch, own, capacity, size))
    outputs = {0: np.broadcast_to(is_step[:, :, None], (batch, steps, heads * size)), 1: cache, 2: cache}
    if d.chance(0.2):
        attributes["qk_output"] = which = d.of(1, 2)
        keys = np.arange(total)
        seen = keys < lengths[:, None, None, None]
        if attributes.get("causal", 1):
            seen = seen & (keys <= numbers[:, None, :, None])
        seen = seen & is_step[:, None, :, None]
        if attributes.get("local_window_size", -1) > 0:
            seen = seen & (keys > numbers[:, None, :, None] - attributes["local_window_size"])
        outputs[3] = np.broadcast_to(seen, (batch, heads, steps, total))
    if not norms or inputs[1] is None:
        return attributes, inputs, [7, 8, 11], outputs

    def normalised(x, weight):
        x4 = x.astype(np.float32).reshape(batch, steps, -1, size)
        y = x4 / np.sqrt((x4 * x4).mean(-1, keepdims=True) + 1e-5) * weight.astype(np.float32)
        return y.reshape(x.shape).astype(d.dtype)

    plain = [normalised(q, norms[0]), normalised(k, norms[1]), *inputs[2:]]
    return attributes, inputs[:14] + list(norms), [7, 8, 11, 14, 15], outputs, plain


def rotary_embedding(d):
    heads, size, batch, steps = d.up_to(3), d.of(8, 12, 16), d.of(1, 2), d.up_to(5)
    attributes, half = {}, size // 2
    if d.chance(0.3):
        half = size // 4
        attributes |= dict(num_heads=heads, rotary_embedding_dim=2 * half)
    elif d.chance(0.5):
        attributes["num_heads"] = heads
    if d.chance(0.5):
        attributes["interleaved"] = 1
    positions = d.of(d.integers(20, (1,), np.int64), d.integers(30, (batch, steps), np.int64))
    x = d.of(d.real(batch, steps, heads * size), d.real(batch, heads, steps, size))
    return attributes, [x, positions, *rotary_tables(d, 40, half)], [2, 3], {0: None}


def multi_head_attention(d):
    heads, size, batch, steps = d.up_to(3), d.of(4, 8), d.of(1, 2), d.up_to(5)
    kind = d.of("separate", "separate", "packed keys", "packed", "heads", "past")
    n, m, keys = heads * size, heads * d.of(size, size + 4), d.of(steps, d.up_to(6))
    attributes = dict(num_heads=heads)
    inputs = [d.real(batch, steps, n), d.real(batch, keys, n), d.real(batch, keys, m)] + [None] * 5
    outputs, total, plain = {0: None}, keys, None
    if kind == "packed":
        packed, m, total = d.real(batch, steps, heads, 3, size), n, steps
        inputs[:3], plain = [packed, None, None], [packed[:, :, :, i].reshape(batch, steps, n) for i in range(3)]
    if kind == "packed keys":
        packed, m = d.real(batch, keys, heads, 2, size), n
        inputs[1:3], plain = [packed, None], [inputs[0], *[packed[:, :, :, i].reshape(batch, keys, n) for i in range(2)]]
    if kind == "heads":
        inputs[1:3], m = [d.real(batch, heads, keys, size), d.real(batch, heads, keys, size)], n
    if kind == "past":
        before, m = d.up_to(4), n
        inputs[1:3] = [d.real(batch, steps, n), d.real(batch, steps, n)]
        inputs[6], inputs[7] = d.real(batch, heads, before, size), d.real(batch, heads, before, size)
        outputs, total = {0: None, 1: None, 2: None}, before + steps
    if d.chance(0.4):
        inputs[3] = d.real(2 * n + m)
    if d.chance(0.4):
        lengths = d.integers(total + 1, (batch,), np.int32, 1)
        inputs[4] = d.of((np.arange(total) < lengths[:, None]).astype(np.int32), lengths)
    if d.chance(0.3):
        inputs[5] = d.real(d.of(1, batch), d.of(1, heads), steps, total)
    if total == steps + (inputs[6].shape[2] if kind == "past" else 0) and d.chance(0.3):
        attributes["unidirectional"] = 1
    if d.chance(0.3):
        attributes["scale"] = 0.6
    if d.chance(0.3):
        attributes["mask_filter_value"] = -50.0
    if plain:
        plain += inputs[3:]
    return attributes, inputs, [3], outputs, plain


def attention(d):
    heads, size, batch, steps, width = d.up_to(3), d.of(4, 8), d.of(1, 2), d.up_to(5), d.up_to(10)
    n = heads * size
    attributes, m = dict(num_heads=heads), n
    if d.chance(0.3):
        m = heads * (size + 4)
        attributes["qkv_hidden_sizes"] = [n, n, m]
    inputs = [d.real(batch, steps, width), d.real(width, 2 * n + m, scale=0.4), d.real(2 * n + m), None, None, None]
    outputs, total = {0: None}, steps
    if m == n and d.chance(0.4):
        total += d.up_to(4)
        inputs[4] = d.real(2, batch, heads, total - steps, size)
    if m == n and (inputs[4] is not None or d.chance(0.3)):
        outputs[1] = None
    if d.chance(0.2):
        inputs[2] = None
    if d.chance(0.5):
        lengths = d.integers(total + 1, (batch,), np.int32, 1)
        inputs[3] = d.of(lengths, np.concatenate([lengths, lengths // 2]),
                         (np.arange(total) < lengths[:, None]).astype(np.int32),
                         np.broadcast_to((np.arange(total) < lengths[:, None, None]), (batch, steps, total)).astype(np.int32))
    if d.chance(0.3):
        inputs[5] = d.real(d.of(1, batch), d.of(1, heads), steps, total)
    if d.chance(0.4):
        attributes["unidirectional"] = 1
    if d.chance(0.3):
        attributes["scale"] = 0.6
    return attributes, inputs, [1, 2], outputs


def skip_layer_normalization(d):
    batch, steps, n = d.of(1, 2), d.up_to(4), d.up_to(20, 2)
    x, skip = d.real(batch, steps, n), d.real(*d.of([batch, steps, n], [1, steps, n], [steps, n]))
    if d.chance(0.2):
        x, skip = d.real(steps, n), d.real(steps, n)
    inputs = [x, skip, d.real(n), d.of(None, d.real(n)), d.of(None, d.real(n))]
    return dict(epsilon=d.of(1e-5, 1e-3)), inputs, [2, 3, 4], d.of({0: None}, {0: None, 3: None})


def skip_simplified_layer_normalization(d):
    attributes, inputs, _, outputs = skip_layer_normalization(d)
    inputs = (inputs + [None])[:3] + ([d.real(inputs[2].size)] if d.chance(0.5) else [])
    return attributes, inputs, [2, 3], outputs


def embed_layer_normalization(d):
    batch, steps, n, words = d.of(1, 2), d.up_to(5), d.up_to(12, 2), 9
    segments = d.chance(0.5)
    inputs = [d.integers(words, (batch, steps)), d.integers(2, (batch, steps)) if segments else None, d.real(words, n), d.real(7, n),
              d.real(2, n) if segments else None, d.real(n), d.real(n), None, None]
    if d.chance(0.5):
        inputs[7] = (np.arange(steps) < d.integers(steps + 1, (batch, 1), low=1)).astype(np.int32)
    if d.chance(0.5):
        inputs[8] = d.integers(7, d.of((batch, steps), (1, steps)))
    return dict(epsilon=d.of(1e-5, 1e-3)), inputs, [2, 3, 4, 5, 6], d.of({0: None}, {0: None, 1: None}, {0: None, 1: None, 2: None})


def gelu(d, bias):
    shape = [d.up_to(4) for _ in range(d.up_to(3, 2))]
    inputs = [d.real(*shape, scale=2)] + ([d.real(shape[-1])] if bias else [])
    return {}, inputs, [1], {0: None}


def quick_gelu(d):
    return dict(alpha=d.of(1.0, 1.702, 0.5)), [d.real(3, d.up_to(9), scale=2)], [], {0: None}


def experts(d, quantised):
    count, hidden, middle = d.of(2, 3, 4), d.of(16, 32), d.of(32, 64)
    a = dict(k=d.up_to(2), activation_type=d.of("relu", "gelu", "silu", "identity", "swiglu", "swiglu"), normalize_routing_weights=int(d.chance(0.5)))
    fusion = 1
    if a["activation_type"] == "swiglu":
        a |= dict(swiglu_fusion=1, activation_alpha=d.of(1.0, 1.702), activation_beta=d.of(0.0, 1.0))
        fusion = 2
        if d.chance(0.5):
            a["swiglu_limit"] = 0.7
    shape = d.of([d.up_to(5)], [2, d.up_to(3)])
    inputs = [d.real(*shape, hidden), d.real(int(np.prod(shape)), count)]
    zeros = []
    if quantised:
        bits, block = d.of(4, 8), d.of(0, 16, 32)
        if hidden % max(1, block):
            block = 16
        if bits == 8:  # in blocks ONNX Runtime makes levels of the inputs too
            block = 0
        a["expert_weight_bits"] = bits
        if block:
            a["block_size"] = block
        has_zeros = d.chance(0.4)
    for n, k in ((fusion * middle, hidden), (hidden, middle)):
        if quantised:
            blocks = k // block if block else 1
            inputs += [d.bytes(count, n, k * bits // 8), (d.rng.random((count, n, blocks) if block else (count, n)) * 0.2 / 2**bits).astype(d.dtype)]
            if has_zeros:
                zeros.append(d.bytes(count, n, -(-blocks * bits // 8)) if block else d.bytes(count, n * bits // 8))
        else:
            inputs.append(d.real(count, n, k, scale=0.2))
        inputs.append(d.real(count, n) if d.chance(0.5) else None)
    if zeros:
        inputs += [None] * (11 - len(inputs)) + zeros
    return a, inputs, list(range(2, len(inputs))), {0: None}


OPERATORS = {
    "MatMulNBits": matmul_n_bits,
    "GatherBlockQuantized": gather_block_quantized,
    "GroupQueryAttention": group_query_attention,
    "RotaryEmbedding": rotary_embedding,
    "MoE": lambda d: experts(d, False),
    "QMoE": lambda d: experts(d, True),
    "MultiHeadAttention": multi_head_attention,
    "Attention": attention,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": lambda d: gelu(d, d.chance(0.5)),
    "BiasGelu": lambda d: gelu(d, True),
    "QuickGelu": quick_gelu,
}
# More of what has more to choose.
SHARES = {"MatMulNBits": 3, "QMoE": 2, "GroupQueryAttention": 6, "MultiHeadAttention": 3, "GatherBlockQuantized": 2, "Attention": 2}


def model_of(op_type, attributes, inputs, known, outputs, domain):
    """The model, and the inputs that are no initializers."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    names = [f"i{i}" if v is not None else "" for i, v in enumerate(inputs)]
    made = [f"o{i}" if i in outputs else "" for i in range(max(outputs) + 1)]
    nodes = [helper.make_node(op_type, names, made, domain=domain, **attributes)]
    infos, initializers, given, finals = [], [], [], []
    for i, v in enumerate(inputs):
        if v is None:
            continue
        if i in known or isinstance(v, onnx.TensorProto):
            tensor = v if isinstance(v, onnx.TensorProto) else numpy_helper.from_array(v)
            tensor.name = names[i]
            initializers.append(tensor)
        else:
            infos.append(helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(v.dtype), v.shape))
            given.append(v)
    for i, defined in outputs.items():
        finals.append(made[i])
        if defined is not None and not defined.all():
            like = next(v for v in inputs if v is not None and v.dtype.kind == "f")
            initializers.append(numpy_helper.from_array(defined.copy(), f"defined{i}"))
            initializers.append(numpy_helper.from_array(np.zeros((), like.dtype), f"zero{i}"))
            nodes.append(helper.make_node("Where", [f"defined{i}", made[i], f"zero{i}"], [f"w{i}"]))
            finals[-1] = f"w{i}"
    graph = helper.make_graph(nodes, op_type, infos, [helper.make_empty_tensor_value_info(o) for o in finals], initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, VERSIONS.get(op_type, 1 if domain == MICROSOFT else 3))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given


def write_case(root, group, operators, domain, op_type, number, seed):
    """Draws until ONNX Runtime takes the case. The lines of tolerances.txt."""
    reasons = []
    for attempt in range(60):
        d = Draw([zlib.crc32(op_type.encode()), number, seed, attempt])
        attributes, inputs, known, outputs, *plain = operators[op_type](d)
        model, given = model_of(op_type, attributes, inputs, known, outputs, domain)
        if plain and plain[0]:
            attributes = {k: v for k, v in attributes.items() if k != "qk_norm_epsilon"}
            run, fed = model_of(op_type, attributes, plain[0], known, outputs, domain)
        else:
            run, fed = model, given
        try:
            run = session(run)
            results = run.run(None, dict(zip([i.name for i in run.get_inputs()], fed)))
            break
        except Exception as e:  # not on CPUs, or not in this version
            reasons.append(str(e).splitlines()[0][:400])
    else:
        raise RuntimeError(f"{op_type}: {set(reasons)}")
    for info, value in zip(model.graph.output, results):
        info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    name = f"{group}/{op_type}_{number}"
    folder = os.path.join(root, name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    write(given, data, "input")
    write(results, data, "output")
    return [f"{name} 0 1e-6 {'4e-3' if d.dtype == np.float16 else '1e-5'}\n"], reasons


def write_group(group, operators, shares, domain):
    root, count, seed = sys.argv[1], int((sys.argv + ["2"])[2]), int((sys.argv[3:] + ["0"])[0])
    shutil.rmtree(os.path.join(root, group), ignore_errors=True)
    lines = []
    for op_type in sys.argv[4:] or operators:
        refused = []
        for number in range(count * shares.get(op_type, 1)):
            more, reasons = write_case(root, group, operators, domain, op_type, number, seed)
            lines += more
            refused += reasons
        print(op_type, f"{len(refused)} refused", sorted(set(refused)), flush=True)
    record_tolerances(root, group, lines)


if __name__ == "__main__":
    write_group("language", OPERATORS, SHARES, MICROSOFT)
