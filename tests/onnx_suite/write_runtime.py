#!/usr/bin/env python3
"""write_runtime.py FOLDER: ONNX Runtime's own operators (com.microsoft), as cases for onnx_suite.

FOLDER/runtime/NAME/model.onnx has ONNX Runtime's results for random inputs beside it, as write_cases.py lays them out:
single operators, a net that its quantiser writes with all of them, and a net that its optimiser has joined. FOLDER/
tolerances.txt gets their lines; those of other groups stay. Where results are levels, an error of one is allowed: what
lies between two levels is rounded by the last bit of a scale. Needs onnx and onnxruntime.
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, parser

import write_quantised
from write_control_flow import write

rng = np.random.default_rng(2)
u8 = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)
i8 = lambda *shape: rng.integers(-128, 128, shape).astype(np.int8)
f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
scale = lambda v: np.array(v, np.float32)
zero = lambda v, dtype=np.uint8: np.array(v, dtype)

IDS = rng.integers(0, 12, (2, 5)).astype(np.int32)
SEGMENTS = rng.integers(0, 2, (2, 5)).astype(np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
FIVE = zero(5)

# name: (operator, inputs in order with None for one that is left out, how many of them are no initializers, attributes,
# number of outputs)
CASES = {
    "add_uint8": ("QLinearAdd", [u8(2, 3, 4), scale(0.03), FIVE, u8(3, 1), scale(0.05), zero(200), scale(0.09), zero(90)], 1, {}, 1),
    "add_int8": ("QLinearAdd", [i8(2, 7), scale(0.03), zero(-5, np.int8), i8(2, 7), scale(0.02), zero(3, np.int8), scale(0.04), zero(0, np.int8)], 1, {}, 1),
    "mul_uint8": ("QLinearMul", [u8(2, 3, 4), scale(0.03), FIVE, u8(4), scale(0.05), zero(120), scale(0.2), zero(128)], 1, {}, 1),
    "sigmoid_int8": ("QLinearSigmoid", [i8(3, 50), scale(0.06), zero(7, np.int8), scale(1 / 256), zero(-128, np.int8)], 1, {}, 1),
    "leaky_uint8": ("QLinearLeakyRelu", [u8(3, 50), scale(0.06), zero(99), scale(0.05), zero(20)], 1, {"alpha": 0.2}, 1),
    "softmax_uint8": ("QLinearSoftmax", [u8(2, 3, 9), scale(0.02), zero(9), scale(1 / 256), zero(0)], 1, {"axis": -1, "opset": 13}, 1),
    "softmax_old": ("QLinearSoftmax", [u8(2, 3, 4), scale(0.02), zero(9), scale(1 / 256), zero(0)], 1, {"axis": 1, "opset": 11}, 1),
    "average_uint8": ("QLinearAveragePool", [u8(2, 3, 7, 6), scale(0.02), zero(9), scale(0.015), zero(30)], 1, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, 1),
    "average_last": ("QLinearAveragePool", [u8(2, 7, 6, 3), scale(0.02), zero(9), scale(0.02), zero(9)], 1, {"kernel_shape": [2, 2], "channels_last": 1}, 1),
    "global_uint8": ("QLinearGlobalAveragePool", [u8(2, 3, 7, 6), scale(0.02), zero(9), scale(0.005), zero(30)], 1, {}, 1),
    "global_last": ("QLinearGlobalAveragePool", [i8(2, 7, 6, 3), scale(0.02), zero(9, np.int8), scale(0.005), zero(3, np.int8)], 1, {"channels_last": 1}, 1),
    "concat": ("QLinearConcat", [scale(0.05), FIVE, u8(2, 3), scale(0.03), zero(8), u8(2, 2), scale(0.07), zero(1)], None, {"axis": 1}, 1),
    "concat_same": ("QLinearConcat", [scale(0.05), FIVE, u8(2, 3), scale(0.05), FIVE, u8(2, 2), scale(0.05), FIVE], None, {"axis": -1}, 1),
    "where": ("QLinearWhere", [np.array([True, False, True]), u8(2, 3), scale(0.03), zero(8), u8(2, 3), scale(0.07), zero(1), scale(0.06), FIVE], 2, {}, 1),
    "gemm_uint8": ("QGemm", [u8(3, 8), scale(0.02), zero(100), i8(8, 5), scale(0.01), zero(0, np.int8), rng.integers(-900, 900, 5).astype(np.int32), scale(0.05), zero(128)], 1, {}, 1),
    "gemm_columns": ("QGemm", [u8(3, 8), scale(0.02), zero(100), i8(5, 8), f32(5) ** 2 * 0.01 + 0.001, np.zeros(5, np.int8), rng.integers(-900, 900, 5).astype(np.int32), scale(0.05), zero(128)], 1, {"transB": 1}, 1),
    "gemm_float": ("QGemm", [u8(3, 8), scale(0.02), zero(100), u8(8, 5), scale(0.01), zero(120)], 1, {"alpha": 0.5}, 1),
    "integer_to_float": ("MatMulIntegerToFloat", [u8(2, 4, 8), i8(8, 5), scale(0.02), f32(5) ** 2 * 0.01 + 0.001, zero(100), np.zeros(5, np.int8), f32(5)], 1, {}, 1),
    "integer_to_float_alone": ("MatMulIntegerToFloat", [u8(4, 8), u8(8, 5), scale(0.02), scale(0.01)], 1, {}, 1),
    "dynamic": ("DynamicQuantizeMatMul", [f32(2, 4, 8), i8(8, 5), scale(0.01), zero(0, np.int8), f32(5)], 1, {}, 1),
    "dynamic_alone": ("DynamicQuantizeMatMul", [f32(4, 8), u8(8, 5), scale(0.01), zero(120)], 1, {}, 1),
    "gelu": ("Gelu", [f32(3, 20)], 1, {}, 1),
    "bias_gelu": ("BiasGelu", [f32(2, 3, 8), f32(8)], 1, {}, 1),
    "fast_gelu": ("FastGelu", [f32(2, 3, 8), f32(8)], 1, {}, 1),
    "quick_gelu": ("QuickGelu", [f32(3, 20)], 1, {"alpha": 1.5}, 1),
    "fused_matmul": ("FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], 2, {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    "fused_matmul_weight": ("FusedMatMul", [f32(2, 3, 4), f32(4, 6)], 1, {"alpha": 2.0}, 1),
    "fused_matmul_batch": ("FusedMatMul", [f32(3, 2, 4), f32(2, 4, 5)], 2, {"transBatchA": 1}, 1),
    "fused_conv": ("FusedConv", [f32(2, 3, 6, 5), f32(4, 3, 3, 3), f32(4), f32(2, 4, 6, 5)], 1, {"pads": [1, 1, 1, 1], "activation": "Relu"}, 1),
    "fused_conv_leaky": ("FusedConv", [f32(2, 3, 6, 5), f32(4, 3, 3, 3)], 1, {"activation": "LeakyRelu", "activation_params": [0.3]}, 1),
    "fused_gemm": ("FusedGemm", [f32(3, 4), f32(5, 4), f32(5)], 1, {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.2}, 1),
    "skip": ("SkipLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)], 2, {"epsilon": 1e-5}, [0, 3]),
    "skip_broadcast": ("SkipLayerNormalization", [f32(2, 3, 8), f32(1, 3, 8), f32(8)], 2, {}, 1),
    "skip_simplified": ("SkipSimplifiedLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8)], 2, {"epsilon": 1e-5}, [0, 3]),
    "simplified": (".SimplifiedLayerNormalization", [f32(2, 3, 8), f32(8)], 1, {"axis": -1, "epsilon": 1e-5}, 1),
    "embed": ("EmbedLayerNormalization", [IDS, SEGMENTS, f32(12, 8), f32(7, 8), f32(2, 8), f32(8), f32(8), MASK], 2, {"epsilon": 1e-5}, 3),
    "embed_positions": ("EmbedLayerNormalization", [IDS, None, f32(12, 8), f32(7, 8), None, f32(8), f32(8), None, IDS % 7], 1, {"epsilon": 1e-5}, 2),
    "attention": ("Attention", [f32(2, 5, 8), f32(8, 24) * 0.3, f32(24)], 1, {"num_heads": 2}, 1),
    "attention_lengths": ("Attention", [f32(2, 5, 8), f32(8, 24) * 0.3, f32(24), np.array([5, 3], np.int32)], 1, {"num_heads": 2}, 1),
    "attention_bounds": ("Attention", [f32(2, 5, 8), f32(8, 24) * 0.3, f32(24), np.array([5, 4, 0, 1], np.int32)], 1, {"num_heads": 2}, 1),
    "attention_mask": ("Attention", [f32(2, 5, 8), f32(8, 24) * 0.3, f32(24), MASK, None, f32(2, 2, 5, 5)], 1, {"num_heads": 2, "scale": 0.4}, 1),
    "attention_past": ("Attention", [f32(2, 3, 8), f32(8, 24) * 0.3, f32(24), None, f32(2, 2, 2, 4, 4)], 1, {"num_heads": 2, "unidirectional": 1}, 2),
    "attention_sizes": ("Attention", [f32(2, 5, 8), f32(8, 28) * 0.3, f32(28)], 1, {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12], "unidirectional": 1}, 1),
    "qattention": ("QAttention", [u8(2, 5, 8), i8(8, 24), f32(24), scale(0.01), scale(0.01), MASK, zero(128), zero(0, np.int8)], 1, {"num_heads": 2}, 1),
    "multi_head": ("MultiHeadAttention", [f32(2, 5, 8), f32(2, 4, 8), f32(2, 4, 8), f32(24)], 3, {"num_heads": 2}, 1),
    "multi_head_mask": ("MultiHeadAttention", [f32(2, 5, 8), f32(2, 5, 8), f32(2, 5, 12), None, MASK, f32(1, 2, 5, 5)], 3, {"num_heads": 2, "mask_filter_value": -100.0}, 1),
    "lstm_lengths": ("DynamicQuantizeLSTM", [f32(6, 3, 5), i8(1, 5, 16), i8(1, 4, 16), f32(1, 32), np.array([6, 2, 4], np.int32), f32(1, 3, 4), f32(1, 3, 4), f32(1, 12), f32(1, 16) ** 2 * 0.003 + 0.001, np.zeros((1, 16), np.int8), scale([0.004]), zero([-9], np.int8)], 1, {"hidden_size": 4, "direction": "reverse", "clip": 3.0}, 3),
}


def model_of(name, op_type, inputs, free, attributes, outputs):
    names = [f"i{i}" if v is not None else "" for i, v in enumerate(inputs)]
    is_free = lambda i: inputs[i] is not None and (i < free if free is not None else i >= 2 and (i - 2) % 3 == 0)
    wanted = list(range(outputs)) if isinstance(outputs, int) else outputs
    made = [f"o{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    domain, op_type = ("", op_type[1:]) if op_type.startswith(".") else ("com.microsoft", op_type)
    node = helper.make_node(op_type, names, made, domain=domain, **attributes)
    kind = lambda v: helper.np_dtype_to_tensor_dtype(v.dtype)
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(names[i], kind(v), v.shape) for i, v in enumerate(inputs) if is_free(i)],
        [helper.make_empty_tensor_value_info(o) for o in made if o],
        [numpy_helper.from_array(v, names[i]) for i, v in enumerate(inputs) if v is not None and not is_free(i)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), [v for i, v in enumerate(inputs) if is_free(i)]


def with_types(model, results):
    """The outputs' types, which ONNX does not infer for other domains."""
    for info, value in zip(model.graph.output, results):
        info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))


def session(model, level="ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # else rows of states get levels apart
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def quantised_net(folder):
    """The net of write_quantised.py with every operator quantised that ONNX Runtime can."""
    q = write_quantised.q
    net, quantise = write_quantised.static(
        write_quantised.NET, quant_format=q.QuantFormat.QOperator, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    model = parser.parse_model(write_quantised.HEAD + net[0])
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in net[1].items())
    source, path = os.path.join(folder, "float.onnx"), os.path.join(folder, "model.onnx")
    onnx.save(model, source)
    quantise(source, path)
    os.remove(source)
    return onnx.load(path), list(net[2]().values())


def quantised_lstm(folder, **options):
    """Two layers of PyTorch's LSTM, whose weights quantize_dynamic has quantised."""
    import torch

    torch.manual_seed(3)
    net = torch.nn.LSTM(5, 6, num_layers=2, **options)
    source, path = os.path.join(folder, "float.onnx"), os.path.join(folder, "model.onnx")
    x = torch.randn(7, 3, 5)
    torch.onnx.export(net, (x,), source, input_names=["x"], opset_version=17, dynamo=False)
    q = write_quantised.q
    q.quantize_dynamic(source, path, per_channel=not options, weight_type=q.QuantType.QUInt8 if options else q.QuantType.QInt8)
    os.remove(source)
    return onnx.load(path), [x.numpy()]


NETS = {"net": quantised_net, "lstm_one": quantised_lstm, "lstm_both": lambda folder: quantised_lstm(folder, bidirectional=True)}


def main():
    root = sys.argv[1]
    lines = []
    shutil.rmtree(os.path.join(root, "runtime"), ignore_errors=True)
    for name in [*CASES, *NETS]:
        folder = os.path.join(root, "runtime", name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        model, inputs = NETS[name](folder) if name in NETS else model_of(name, *CASES[name])
        run = session(model)
        results = run.run(None, dict(zip([i.name for i in run.get_inputs()], inputs)))
        with_types(model, results)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        write(inputs, data, "input")
        write(results, data, "output")
        bounds = "0 1" if results[0].dtype in (np.uint8, np.int8) else f"0 {1e-5 * max(float(np.abs(r).max()) for r in results):.2g}"
        if name == "net":
            known = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
            bounds = f"0 {1.01 * next(float(v) for k, v in known.items() if k.startswith('y') and k.endswith('_scale')):.3g}"
        lines.append(f"runtime/{name} {bounds}\n")
        print(name, sorted({n.op_type for n in model.graph.node}), bounds)
    write_quantised.record_tolerances(root, "runtime", lines)


if __name__ == "__main__":
    main()
