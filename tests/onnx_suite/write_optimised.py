#!/usr/bin/env python3
"""write_optimised.py FOLDER [NET...]: exported nets that ONNX Runtime has optimised and quantised, as cases for onnx_suite.

FOLDER/optimised/NAME/model.onnx has ONNX Runtime's own results beside it, as write_cases.py lays them out: nets of
write_exports.py after its graph optimiser (extended), after its tool for transformers, with weights of int8 that are
found at run time, with levels throughout, as operators and as pairs, and with weights and embeddings of 4 and 8 bits. FOLDER/tolerances.txt has their lines: 1e-4 of
the largest result, and more where a level more or less goes on to the next layer. Needs what write_exports.py needs, and
onnxruntime.
"""
import collections
import os
import sys

import onnx
import onnxruntime
import torch
from onnxruntime import quantization as q
from onnxruntime.quantization.shape_inference import quant_pre_process

import write_exports
from write_control_flow import write

NETS = {"bert": "bert", "roberta": "bert", "gpt2_masked": "gpt2", "vit": "vit", "resnet18": None, "mobilenet_v2": None,
        "llama": None, "qwen2": None, "gemma2": None, "phi": None, "mobilenet_v3_small": None, "squeezenet1_1": None, "densenet121": None, "lstm": None}
LANGUAGE = ("llama", "qwen2", "gemma2", "phi")
LEVELS = onnxruntime.GraphOptimizationLevel


def session(path, level=LEVELS.ORT_DISABLE_ALL, to=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if to:
        options.optimized_model_filepath = to
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def extended(source, path):
    session(source, LEVELS.ORT_ENABLE_EXTENDED, path)


def for_transformers(kind):
    def change(source, path):
        from onnxruntime.transformers import optimizer

        optimizer.optimize_model(source, model_type=kind, num_heads=4, hidden_size=32, opt_level=1).save_model_to_file(path)

    return change


def dynamic(source, path):
    q.quantize_dynamic(source, path, weight_type=q.QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])


def few_bits(bits, is_symmetric, kinds):
    """Weights of MatMul as MatMulNBits, embeddings as GatherBlockQuantized."""

    def change(source, path):
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        quantizer = MatMulNBitsQuantizer(source, bits=bits, block_size=32, is_symmetric=is_symmetric, op_types_to_quantize=kinds)
        quantizer.process()
        quantizer.model.save_model_to_file(path)

    return change


def static(form, inputs):
    def change(source, path):
        class Data(q.CalibrationDataReader):
            left = iter([inputs] * 3)

            def get_next(self):
                return next(self.left, None)

        quant_pre_process(source, path + ".pre")
        q.quantize_static(path + ".pre", path, Data(), quant_format=form, per_channel=True, activation_type=q.QuantType.QUInt8,
                          weight_type=q.QuantType.QInt8)
        os.remove(path + ".pre")

    return change


def main():
    root = sys.argv[1]
    torch.backends.mha.set_fastpath_enabled(False)
    with open(os.path.join(root, "tolerances.txt"), "w") as tolerances:
        for name in sys.argv[2:] or NETS:
            kind = NETS[name]
            torch.manual_seed(0)
            net, arrays = write_exports.net_of(name)
            inputs = {f"in{i}": v.numpy() for i, v in enumerate(arrays)}
            source = os.path.join(root, "float.onnx")
            torch.onnx.export(net.eval(), arrays, source, input_names=list(inputs), dynamo=False,
                              opset_version=20 if name in LANGUAGE else 17)  # whose embeddings can have few bits
            ways = {"extended": ([extended], 1e-4), "int8": ([dynamic], 0.02), "int8_extended": ([dynamic, extended], 0.02)}
            if kind or name in LANGUAGE:
                kinds = ("MatMul", "Gather") if name in LANGUAGE else ("MatMul",)
                for bits, is_symmetric in ((4, False), (4, True), (8, False)):
                    ways[f"bits{bits}{'_symmetric' if is_symmetric else ''}"] = ([few_bits(bits, is_symmetric, kinds)], 1e-4)
            if kind:
                ways["transformers"] = ([for_transformers(kind)], 1e-4)
            elif name not in LANGUAGE:
                for form in (q.QuantFormat.QOperator, q.QuantFormat.QDQ):
                    ways[f"static_{form}"] = ([static(form, inputs)], 0.05)
                    ways[f"static_{form}_extended"] = ([static(form, inputs), extended], 0.05)
            for way, (changes, bound) in ways.items():
                folder = os.path.join(root, "optimised", f"{name}_{way}")
                data = os.path.join(folder, "test_data_set_0")
                os.makedirs(data, exist_ok=True)
                path = os.path.join(folder, "model.onnx")
                at = source
                for i, change in enumerate(changes):
                    to = path if i == len(changes) - 1 else os.path.join(folder, "between.onnx")
                    change(at, to)
                    at = to
                results = session(path).run(None, inputs)
                write(inputs.values(), data, "input")
                write(results, data, "output")
                tolerances.write(f"optimised/{name}_{way} 0 {bound * max(float(abs(r).max()) for r in results)}\n")
                tolerances.flush()
                print(f"{name}_{way}", dict(collections.Counter(n.op_type for n in onnx.load(path).graph.node if n.domain)), flush=True)


if __name__ == "__main__":
    main()
