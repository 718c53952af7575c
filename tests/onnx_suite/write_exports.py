#!/usr/bin/env python3
"""write_exports.py FOLDER [NAME...]: nets with random weights, exported by PyTorch, as cases for onnx_suite.

FOLDER/exports/NAME/model.onnx has PyTorch's own results for random inputs beside it, as write_cases.py lays them out.
Names that end in _dynamo are exported by torch.export, others by tracing. `classifiers`, `layers`, `transformers` and
`vision` stand for all nets of their kind, in both ways. With `--run SUITE RESULTS` each case is run by that program
(kaon_onnx_suite), whose line is added to the file RESULTS, and removed: all nets together have 9 GB of weights.
Needs torch, torchvision, transformers, onnx and onnxscript. Inputs are small.
"""
import argparse
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from onnx import numpy_helper

import exported_layers
import exported_transformers
import exported_vision

KINDS = {"layers": exported_layers.NETS, "transformers": exported_transformers.NETS, "vision": exported_vision.NETS}


def net_of(name):
    for kind in KINDS.values():
        if name in kind:
            return kind[name]()
    return exported_vision.classifier(name)


def named(words):
    """The names that the command line's words stand for."""
    names = []
    for word in words:
        nets = exported_vision.all_classifiers() if word == "classifiers" else KINDS.get(word)
        names += [word] if nets is None else [n + s for n in nets for s in ("", "_dynamo")]
    return names


def export(name, folder):
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # has no form in ONNX
    dynamo = name.endswith("_dynamo")
    net, inputs = net_of(name.removesuffix("_dynamo"))
    net.eval()
    with torch.no_grad():
        for p in net.parameters():  # last layers that begin as zeros would hide all errors
            if p.dim() > 1 and not p.any():
                p.normal_(0, 0.05)
        outputs = net(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        os.makedirs(os.path.join(folder, "test_data_set_0"), exist_ok=True)
        path = os.path.join(folder, "model.onnx")
        names = [f"in{i}" for i in range(len(inputs))]
        if dynamo:
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=True, verbose=False)
        else:
            axes = {n: {0: "batch"} for n in names}
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=False, opset_version=20, dynamic_axes=axes)
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, v in enumerate(values):
            with open(os.path.join(folder, "test_data_set_0", f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.asarray(v.numpy(), order="C")).SerializeToString())
    # of each output's largest number: PyTorch's own results have such errors beside those in float64
    return 2e-2 if any(v.dtype == torch.float16 for v in outputs) else 1e-4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=["layers", "transformers", "vision", "classifiers"])
    parser.add_argument("--run", nargs=2, metavar=("SUITE", "RESULTS"))
    given = parser.parse_args()
    tolerances = os.path.join(given.folder, "tolerances.txt")
    lines = []
    for name in named(given.names):
        case = os.path.join(given.folder, "exports", name)
        try:
            lines.append(f"exports/{name} 0 0 {export(name, case)}\n")
        except Exception as e:  # what PyTorch itself cannot export
            why = next((l for l in str(e).splitlines() if l.strip()), type(e).__name__)
            line = f"none exports/{name} {type(e).__name__}: {why[:200]}\n"
            shutil.rmtree(case, ignore_errors=True)
        else:
            line = f"written exports/{name}\n"
            with open(tolerances, "w") as f:
                f.writelines(lines[-1:] if given.run else lines)
            if given.run:
                ran = subprocess.run([given.run[0], given.folder], capture_output=True, text=True)
                line = ran.stdout or f"FAIL exports/{name} ended with status {ran.returncode}: {ran.stderr[-300:]}\n"
                if line.startswith("pass"):
                    shutil.rmtree(case, ignore_errors=True)
        if given.run:
            with open(given.run[1], "a") as f:
                f.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
