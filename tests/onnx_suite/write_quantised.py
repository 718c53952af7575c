#!/usr/bin/env python3
"""write_quantised.py FOLDER: nets quantised by ONNX Runtime, as cases for onnx_suite.

FOLDER/quantised/NAME/model.onnx has beside it what ONNX's reference evaluator makes of random inputs, as write_cases.py
lays them out (ONNX Runtime itself bounds sums of two products by int16 on processors without VNNI): a small net of convolutions, in groups, with strides, paddings and a sum of two branches, then a dense layer. With
QuantizeLinear and DequantizeLinear, with QLinearConv and QLinearMatMul, and with MatMulInteger of levels that are
found at run time; in several dtypes. FOLDER/tolerances.txt gets their lines; those of other groups stay. An error of
one level of the result is allowed: sums that lie between two levels are rounded by the last bit of a scale. Needs onnx
and onnxruntime.
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from onnxruntime import quantization as q

from write_control_flow import write

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'
rng = np.random.default_rng(1)


def f32(*shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


NET = (
    """net (float[2,3,9,8] x) => (float[2,10] y) {
      a = Conv <pads = [1,1,1,1], strides = [2,1]> (x, w1, b1)  ra = Relu (a)
      b = Conv <pads = [0,1,2,1], group = 4> (ra, w2)  s = Add (b, ra)  rs = Relu (s)
      m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (rs)
      d = Conv <dilations = [1,2], pads = [0,2,0,2]> (m, w3, b3)  f = Flatten (d)
      g = Gemm <transB = 1> (f, w4, b4)  h = Tanh (g)  y = MatMul (h, w5)
    }""",
    {"w1": f32(8, 3, 3, 3), "b1": f32(8), "w2": f32(8, 2, 3, 3), "w3": f32(6, 8, 1, 3), "b3": f32(6),
     "w4": f32(12, 48), "b4": f32(12), "w5": f32(12, 10)},
    lambda: {"x": rng.uniform(-1, 1, (2, 3, 9, 8)).astype(np.float32)},
)
DENSE = (
    """dense (float[2,5,16] x) => (float[2,5,7] y) {
      a = MatMul (x, w1)  c = Add (a, b1)  r = Relu (c)  y = MatMul (r, w2)
    }""",
    {"w1": f32(16, 24), "b1": f32(24), "w2": f32(24, 7)},
    lambda: {"x": rng.uniform(-1, 2, (2, 5, 16)).astype(np.float32)},
)


def static(net, **options):
    def quantise(source, path):
        class Data(q.CalibrationDataReader):
            samples = iter([net[2]() for _ in range(8)])

            def get_next(self):
                return next(self.samples, None)

        q.quantize_static(source, path, Data(), **options)

    return net, quantise


def dynamic(net, **options):
    return net, lambda source, path: q.quantize_dynamic(source, path, **options)


STANDARD = ["Conv", "MatMul"]  # others become operators of ONNX Runtime's own

CASES = {
    "pairs_uint8": static(NET, quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8, per_channel=True),
    "pairs_int8": static(NET, quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QInt8, weight_type=q.QuantType.QInt8),
    "operators_uint8": static(NET, quant_format=q.QuantFormat.QOperator, op_types_to_quantize=STANDARD, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QUInt8),
    "operators_int8": static(NET, quant_format=q.QuantFormat.QOperator, op_types_to_quantize=STANDARD, activation_type=q.QuantType.QInt8, weight_type=q.QuantType.QInt8, per_channel=True),
    "dense_pairs": static(DENSE, quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8),
    "dense_dynamic": dynamic(DENSE, weight_type=q.QuantType.QInt8),
}


def record_tolerances(root, group, lines):
    """Replaces the lines of the group's cases in tolerances.txt."""
    path = os.path.join(root, "tolerances.txt")
    others = [l for l in open(path) if not l.startswith(group + "/")] if os.path.exists(path) else []
    with open(path, "w") as f:
        f.writelines(others + lines)


def main():
    root = sys.argv[1]
    lines = []
    for name, (net, quantise) in CASES.items():
        model = parser.parse_model(HEAD + net[0])
        model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in net[1].items())
        folder = os.path.join(root, "quantised", name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "test_data_set_0"))
        source, path = os.path.join(folder, "float.onnx"), os.path.join(folder, "model.onnx")
        onnx.save(model, source)
        quantise(source, path)
        os.remove(source)
        inputs = net[2]()
        outputs = ReferenceEvaluator(onnx.load(path)).run(None, inputs)
        data = os.path.join(folder, "test_data_set_0")
        write(inputs.values(), data, "input")
        write(outputs, data, "output")
        known = {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
        steps = [float(v) for k, v in known.items() if k.endswith("_scale") and k.startswith(("y_", "y/"))]
        level = max(steps) if steps else 1e-3 * float(np.abs(outputs[0]).max())
        lines.append(f"quantised/{name} 0 {1.01 * level}\n")
        print(name, sorted({n.op_type for n in onnx.load(path).graph.node}), level)
    record_tolerances(root, "quantised", lines)


if __name__ == "__main__":
    main()
