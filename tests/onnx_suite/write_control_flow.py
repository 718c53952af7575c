#!/usr/bin/env python3
"""write_control_flow.py FOLDER: models with If, Loop and Scan, as cases for onnx_suite.

FOLDER/control_flow/NAME/model.onnx has ONNX Runtime's results for several sets of inputs beside it, as write_cases.py
lays them out: sets that take other branches and make other numbers of iterations. FOLDER/tolerances.txt gets their
lines; those of other groups stay. Needs onnx and onnxruntime.
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64) if len(values) != 1 else np.array(values[0], np.int64)


# name: (text, initializers, sets of inputs)
CASES = {
    # both branches read a value and weights from outside, one has a constant of its own
    "if_weights": (
        """if_weights (float[n,3] x, float t) => (float[n,2] y, float[n,2] z) {
          s = ReduceSum <keepdims = 0> (x)
          c = Greater (s, t)
          y, z = If (c) <
            then_branch = one () => (float[n,2] a, float[n,2] b) { p = MatMul (x, w1)  a = Relu (p)  b = Mul (a, a) },
            else_branch = two () => (float[n,2] d, float[n,2] e) {
              q = MatMul (x, w2)  k = Constant <value = float {0.5}> ()  d = Add (q, k)  e = Sub (q, d) }>
        }""",
        {"w1": f32(3, 2), "w2": f32(3, 2)},
        [{"x": np.ones((2, 3), np.float32), "t": np.float32(t)} for t in (1, 100, -3)],
    ),
    # branches in a branch; a branch gives what it found
    "if_nested": (
        """if_nested (float[4] x, bool p, bool q) => (float[4] y) {
          y = If (p) <
            then_branch = outer () => (float[4] a) {
              a = If (q) <
                then_branch = inner () => (float[4] b) { b = Exp (x) },
                else_branch = other () => (float[4] d) { d = Identity (x) }> },
            else_branch = last () => (float[4] e) { e = Neg (x) }>
        }""",
        {},
        [{"x": f32(4), "p": np.array(p), "q": np.array(q)} for p in (True, False) for q in (True, False)],
    ),
    # results of other shapes
    "if_shapes": (
        """if_shapes (float[2,3] x, bool p) => (float[m] y) {
          y = If (p) <
            then_branch = rows () => (float[m] a) { a = ReduceSum <keepdims = 0> (x, zero) },
            else_branch = columns () => (float[m] b) { b = ReduceSum <keepdims = 0> (x, one) }>
        }""",
        {"zero": np.array([0], np.int64), "one": np.array([1], np.int64)},
        [{"x": f32(2, 3), "p": np.array(p)} for p in (True, False)],
    ),
    # a known number of iterations, whose number the body reads; a carried value and two results, one of them a scalar
    "loop_known": (
        """loop_known (float[2,3] x) => (float[2,3] last, float[5,2,3] all, float[5] sums) {
          last, all, sums = Loop (five, , x) <
            body = step (int64 i, bool go, float[2,3] h) => (bool next, float[2,3] out, float[2,3] row, float sum) {
              next = Identity (go)  f = Cast <to = 1> (i)  p = MatMul (h, w)  t = Tanh (p)  out = Add (t, f)
              row = Mul (out, out)  sum = ReduceSum <keepdims = 0> (row) }>
        }""",
        {"five": i64(5), "w": f32(3, 3)},
        [{"x": f32(2, 3)}, {"x": f32(2, 3)}],
    ),
    # the number is an input
    "loop_count": (
        """loop_count (float[3] x, int64 n) => (float[3] y) {
          y = Loop (n, , x) <
            body = step (int64 i, bool go, float[3] h) => (bool go2, float[3] out) {
              go2 = Identity (go)  s = Sin (h)  out = Add (s, h) }>
        }""",
        {},
        [{"x": f32(3), "n": i64(n)} for n in (0, 1, 3, 20)],
    ),
    # the number is an input, and there are results
    "loop_count_results": (
        """loop_count_results (float[3] x, int64 n) => (float[3] y, float[k,3] all) {
          y, all = Loop (n, , x) <
            body = step (int64 i, bool go, float[3] h) => (bool go2, float[3] out, float[3] row) {
              go2 = Identity (go)  s = Sin (h)  out = Add (s, h)  row = Neg (out) }>
        }""",
        {},
        [{"x": f32(3), "n": i64(n)} for n in (1, 4, 2)],
    ),
    # until a sum is reached, without a limit
    "loop_while": (
        """loop_while (float[3] x, float most) => (float[3] y, int64 made) {
          y, made = Loop ( , yes, x, zero) <
            body = step (int64 i, bool go, float[3] h, int64 k) => (bool next, float[3] out, int64 k2) {
              out = Add (h, one)  s = ReduceSum <keepdims = 0> (out)  next = Less (s, most)  k2 = Add (k, unit) }>
        }""",
        {"yes": np.array(True), "zero": i64(0), "unit": i64(1), "one": np.array([1], np.float32)},
        [{"x": np.zeros(3, np.float32), "most": np.float32(m)} for m in (5, 100, -1)],
    ),
    # a condition that the input gives, a limit, and results
    "loop_while_results": (
        """loop_while_results (float[3] x, bool start, float most) => (float[3] y, float[k,3] all) {
          y, all = Loop (eight, start, x) <
            body = step (int64 i, bool go, float[3] h) => (bool next, float[3] out, float[3] row) {
              out = Add (h, one)  s = ReduceSum <keepdims = 0> (out)  next = Less (s, most)  row = Exp (out) }>
        }""",
        {"eight": i64(8), "one": np.array([0.25], np.float32)},
        [{"x": np.zeros(3, np.float32), "start": np.array(True), "most": np.float32(m)} for m in (2, 100, 0.5, 2)],
    ),
    # a carried value that grows
    "loop_growing": (
        """loop_growing (float[1,2] x, int64 n) => (float[k,2] y) {
          y = Loop (n, , x) <
            body = step (int64 i, bool go, float[j,2] h) => (bool go2, float[l,2] out) {
              go2 = Identity (go)  f = Cast <to = 1> (i)  r = Add (x, f)  out = Concat <axis = 0> (h, r) }>
        }""",
        {},
        [{"x": f32(1, 2), "n": i64(n)} for n in (3, 1)],
    ),
    # a loop and a branch in a loop
    "loop_nested": (
        """loop_nested (float[3] x, int64 n) => (float[3] y) {
          y = Loop (n, , x) <
            body = outer (int64 i, bool go, float[3] h) => (bool go2, float[3] out) {
              go2 = Identity (go)
              k = Loop (two, , h) <
                body = inner (int64 j, bool run, float[3] g) => (bool run2, float[3] g2) {
                  run2 = Identity (run)  t = Tanh (g)  g2 = Add (t, x) }>
              s = ReduceSum <keepdims = 0> (k)  c = Greater (s, limit)
              out = If (c) <
                then_branch = a () => (float[3] p) { p = Neg (k) },
                else_branch = b () => (float[3] q) { q = Mul (k, k) }> }>
        }""",
        {"two": i64(2), "limit": np.array(0.5, np.float32)},
        [{"x": f32(3), "n": i64(n)} for n in (1, 4)],
    ),
    # a recurrent layer
    "scan_recurrent": (
        """scan_recurrent (float[4,2,3] x, float[2,5] h0) => (float[2,5] last, float[4,2,5] all) {
          last, all = Scan <num_scan_inputs = 1,
            body = step (float[2,5] h, float[2,3] row) => (float[2,5] out, float[2,5] result) {
              a = MatMul (row, w)  b = MatMul (h, r)  s = Add (a, b)  out = Tanh (s)  result = Identity (out) }>
            (h0, x)
        }""",
        {"w": f32(3, 5), "r": f32(5, 5)},
        [{"x": f32(4, 2, 3), "h0": f32(2, 5)}],
    ),
    # other axes and directions, scalars as rows and results
    "scan_axes": (
        """scan_axes (float[2,4] x, float[4] v, float[2] s) => (float[2] last, float[2,4] all, float[4] sums) {
          last, all, sums = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
            scan_output_axes = [1, 0], scan_output_directions = [0, 1],
            body = step (float[2] h, float[2] row, float k) => (float[2] out, float[2] result, float sum) {
              a = Mul (row, k)  out = Add (h, a)  result = Identity (out)  sum = ReduceSum <keepdims = 0> (a) }>
            (s, x, v)
        }""",
        {},
        [{"x": f32(2, 4), "v": f32(4), "s": f32(2)}],
    ),
}


def write(values, folder, kind):
    for i, v in enumerate(values):
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(v)).SerializeToString())


def main():
    root = sys.argv[1]
    lines = []
    for name, (text, initializers, sets) in CASES.items():
        model = parser.parse_model(HEAD + text)
        model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in initializers.items())
        onnx.checker.check_model(model)
        folder = os.path.join(root, "control_flow", name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"))
        for i, inputs in enumerate(sets):
            data = os.path.join(folder, f"test_data_set_{i}")
            os.makedirs(data)
            write([inputs[v.name] for v in model.graph.input], data, "input")
            write(session.run(None, {k: np.asarray(v) for k, v in inputs.items()}), data, "output")
        lines.append(f"control_flow/{name} 1e-5 1e-6\n")
    path = os.path.join(root, "tolerances.txt")
    others = [l for l in open(path) if not l.startswith("control_flow/")] if os.path.exists(path) else []
    with open(path, "w") as f:
        f.writelines(others + lines)
    print(len(lines), "cases")


if __name__ == "__main__":
    main()
