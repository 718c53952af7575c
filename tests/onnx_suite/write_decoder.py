#!/usr/bin/env python3
"""write_decoder.py FOLDER: a small language model as ONNX Runtime's tools export them, as a case for onnx_suite.

FOLDER/decoder/NAME/model.onnx takes words, a mask and a cache of keys and values, and gives the scores of the next words
and the cache with the new steps; each of its data sets is a call, the first one a prompt with an empty cache, the next ones
steps, with what ONNX Runtime makes of them. FOLDER/tolerances.txt gets its lines; those of other groups stay. Needs onnx
and onnxruntime.
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper, parser

from write_control_flow import write
from write_quantised import record_tolerances
from write_runtime import session

WORDS, HIDDEN, HEADS, OWN, SIZE, MIDDLE, LAYERS, BLOCK = 40, 64, 4, 2, 16, 96, 2, 32
rng = np.random.default_rng(5)


def packed(name, k, n, bits, to):
    """The weight of a product, with a scale and a zero point for each block."""
    blocks = -(-k // BLOCK)
    to[name] = rng.integers(0, 256, (n, blocks, BLOCK * bits // 8)).astype(np.uint8)
    to[name + "_scale"] = (rng.random((n, blocks)) / (2**bits * np.sqrt(k))).astype(np.float32)
    to[name + "_zero"] = np.full((n, -(-blocks * bits // 8)), 0x88 if bits == 4 else 0x80, np.uint8)
    return f"com.microsoft.MatMulNBits <K = {k}, N = {n}, bits = {bits}, block_size = {BLOCK}>", f"{name}, {name}_scale, {name}_zero"


def model_of(bits):
    data = {"cos": None, "sin": None, "one": np.array([1], np.int64), "first": np.array(1, np.int64)}
    angles = np.outer(np.arange(32), 1 / 100.0 ** (np.arange(SIZE // 2) / (SIZE // 2)))
    data["cos"], data["sin"] = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    for norm in ["norm", *[f"norm{i}{s}" for i in range(LAYERS) for s in "ab"]]:
        data[norm] = (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)
    data["words"] = rng.integers(0, 256, (WORDS, HIDDEN // 2)).astype(np.uint8)
    data["words_scale"] = (rng.random((WORDS, HIDDEN // BLOCK)) * 0.2).astype(np.float32)
    lines = [
        "seen = ReduceSum <keepdims = 0> (mask, one)", "last = Sub (seen, one)", "lengths = Cast <to = 6> (last)",
        "sizes = Shape (mask)", "size = Gather <axis = 0> (sizes, first)", "total = Cast <to = 6> (size)",
        f"x0 = com.microsoft.GatherBlockQuantized <bits = 4, block_size = {BLOCK}> (words, ids, words_scale)",
        "n0 = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (x0, norm0a)",
    ]
    for i in range(LAYERS):
        after = "norm" if i == LAYERS - 1 else f"norm{i + 1}a"
        op, w = packed(f"qkv{i}", HIDDEN, (HEADS + 2 * OWN) * SIZE, bits, data)
        lines += [f"qkv_{i} = {op} (n{i}, {w})",
                  f"a{i}, present_k{i}, present_v{i} = com.microsoft.GroupQueryAttention <num_heads = {HEADS}, kv_num_heads = {OWN}, do_rotary = 1,"
                  f" local_window_size = {-1 if i == 0 else 4}> (qkv_{i}, , , past_k{i}, past_v{i}, lengths, total, cos, sin)"]
        op, w = packed(f"o{i}", HEADS * SIZE, HIDDEN, bits, data)
        lines += [f"o_{i} = {op} (a{i}, {w})",
                  f"m{i}, , , s{i} = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.00001> (x{i}, o_{i}, norm{i}b)"]
        op, w = packed(f"gate{i}", HIDDEN, MIDDLE, bits, data)
        lines += [f"g{i} = {op} (m{i}, {w})", f"gs{i} = com.microsoft.QuickGelu <alpha = 1.0> (g{i})"]
        op, w = packed(f"up{i}", HIDDEN, MIDDLE, bits, data)
        lines += [f"u{i} = {op} (m{i}, {w})", f"h{i} = Mul (gs{i}, u{i})"]
        op, w = packed(f"down{i}", MIDDLE, HIDDEN, bits, data)
        lines += [f"d{i} = {op} (h{i}, {w})",
                  f"n{i + 1}, , , x{i + 1} = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.00001> (s{i}, d{i}, {after})"]
    op, w = packed("head", HIDDEN, WORDS, 8, data)
    lines.append(f"scores = {op} (n{LAYERS}, {w})")
    cache = lambda kind: [f"{kind}_{s}{i}" for i in range(LAYERS) for s in "kv"]
    inputs = ["int64[b,n] ids", "int64[b,t] mask", *[f"float[b,{OWN},p,{SIZE}] {c}" for c in cache("past")]]
    outputs = [f"float[b,n,{WORDS}] scores", *[f"float[b,{OWN},t,{SIZE}] {c}" for c in cache("present")]]
    text = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n' + f"decoder ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {chr(10).join(lines)} }}"
    model = parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in data.items())
    return model


def main():
    root = sys.argv[1]
    shutil.rmtree(os.path.join(root, "decoder"), ignore_errors=True)
    lines = []
    for bits in (4, 8):
        name = f"decoder/bits{bits}"
        folder = os.path.join(root, name)
        os.makedirs(folder)
        model = model_of(bits)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        run, batch = session(model), 3 - bits // 4
        caches = [np.zeros((batch, OWN, 0, SIZE), np.float32)] * (2 * LAYERS)
        for i, steps in enumerate([5, 1, 1]):
            ids = rng.integers(0, WORDS, (batch, steps))
            inputs = [ids, np.ones((batch, caches[0].shape[2] + steps), np.int64), *caches]
            results = run.run(None, dict(zip([v.name for v in run.get_inputs()], inputs)))
            data = os.path.join(folder, f"test_data_set_{i}")
            os.makedirs(data)
            write(inputs, data, "input")
            write(results, data, "output")
            caches = results[1:]
        lines.append(f"{name} 0 0 1e-5\n")
    record_tolerances(root, "decoder", lines)


if __name__ == "__main__":
    main()
