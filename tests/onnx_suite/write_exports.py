#!/usr/bin/env python3
"""write_exports.py FOLDER [NAME...]: nets with random weights, exported by PyTorch, as cases for onnx_suite.

FOLDER/exports/NAME/model.onnx has PyTorch's own results for random inputs beside it, as write_cases.py lays them out,
also for inputs of other sizes where the net has such. Names that end in _dynamo are exported by torch.export, others by
tracing; _opset13 behind that says the opset. The kinds below and `classifiers` stand for all their nets, in both ways,
and also take an opset.
With `--run SUITE RESULTS` each case is run by that program (kaon_onnx_suite), whose line is added to the file RESULTS,
and removed: all nets together have 9 GB of weights.
Needs torch, torchvision, transformers, onnx and onnxscript. Inputs are small.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import onnx
import torch
from onnx import numpy_helper

import exported_caches
import exported_control
import exported_functions
import exported_layers
import exported_transformers
import exported_vision
from second_opinion import second_opinion

KINDS = {
    "layers": exported_layers.NETS,
    "functions": exported_functions.NETS,
    "control": exported_control.NETS,
    "transformers": exported_transformers.NETS,
    "caches": exported_caches.NETS,
    "vision": exported_vision.NETS,
}


def net_of(name):
    """The net, its inputs, and other inputs that the same file has to take."""
    made = next((kind[name]() for kind in KINDS.values() if name in kind), None) or exported_vision.classifier(name)
    return made if len(made) == 3 else (*made, [])


def named(words):
    """The names that the command line's words stand for."""
    names = []
    for word in words:
        kind, opset = re.fullmatch(r"(.*?)(_opset\d+)?", word).groups(default="")
        nets = exported_vision.all_classifiers() if kind == "classifiers" else KINDS.get(kind)
        names += [word] if nets is None else [n + s + opset for n in nets for s in ("", "_dynamo")]
    return names


def as_tensor(v):
    if v.dtype != torch.bfloat16:
        return numpy_helper.from_array(v.detach().cpu().contiguous().numpy())
    bits = v.contiguous().view(torch.int16).numpy().tobytes()
    return onnx.TensorProto(dims=list(v.shape), data_type=onnx.TensorProto.BFLOAT16, raw_data=bits)


def flat(outputs):
    """The arrays of nested outputs, in the order of an exported net's outputs."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [v for o in outputs if o is not None for v in flat(o)]


def sizes_that_differ(inputs, more):
    """For each input the dimensions whose sizes other inputs change, as names by their numbers."""
    found = []
    for i, x in enumerate(inputs):
        found.append({d: f"d{i}_{d}" for d in range(x.dim()) if any(other[i].shape[d] != x.shape[d] for other in more)})
    return found


def forget(message):
    """Without where in PyTorch's sources each node is from."""
    for field, value in message.ListFields():
        if field.name in ("metadata_props", "doc_string"):
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE and field.name not in ("initializer", "t", "tensors"):
            for inner in value if field.is_repeated else [value]:
                forget(inner)


def export(name, folder):
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # has no form in ONNX
    base, dynamo, opset = re.fullmatch(r"(.*?)(_dynamo)?(?:_opset(\d+))?", name).groups()
    net, inputs, more = net_of(base)
    net.eval()
    with torch.no_grad():
        for p in net.parameters():  # last layers that begin as zeros would hide all errors
            if p.dim() > 1 and not p.any():
                p.normal_(0, 0.05)
        sets = [(given, flat(net(*given))) for given in [inputs, *more]]
        for o in (o for _, outputs in sets for o in outputs if o.is_floating_point() and o.numel() > 0):
            if not o.isfinite().all() or 0 < o.abs().max() < 1e-12:
                raise ValueError("PyTorch's own results say nothing: infinite or nearly nothing")
        if not any((o != 0).any() for _, outputs in sets for o in outputs):
            raise ValueError("PyTorch's own results say nothing: zeros")
        shutil.rmtree(folder, ignore_errors=True)
        path = os.path.join(folder, "model.onnx")
        os.makedirs(folder, exist_ok=True)
        names = [f"in{i}" for i in range(len(inputs))]
        axes = sizes_that_differ(inputs, more)
        if dynamo:
            options = {"opset_version": int(opset)} if opset else {}
            if more:
                auto = [{d: torch.export.Dim.AUTO for d in a} for a in axes]
                options["dynamic_shapes"] = (tuple(auto),) if getattr(net, "variadic", False) else tuple(auto)
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=True, verbose=False, **options)
        else:
            axes = axes if more else [{0: "batch"} if x.dim() else {} for x in inputs]
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=False, opset_version=int(opset or 20), dynamic_axes=dict(zip(names, axes)))
    model = onnx.load(path, load_external_data=False)
    forget(model)
    onnx.save(model, path)
    kept = [i.name for i in model.graph.input]  # what the exporter found unused is no input of the file
    for n, (given, outputs) in enumerate(sets):
        data = os.path.join(folder, f"test_data_set_{n}")
        os.makedirs(data, exist_ok=True)
        for kind, values in (("input", [v for k, v in zip(names, given) if k in kept]), ("output", outputs)):
            for i, v in enumerate(values):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(as_tensor(v).SerializeToString())
    # of each output's largest number: PyTorch's own results have such errors beside those in float64
    return 2e-2 if any(v.dtype in (torch.float16, torch.bfloat16) for v in sets[0][1]) else exported_vision.TOLERANCES.get(base, 1e-4)


def add(tolerances, line):
    """The line of a case, beside those of others."""
    name = line.split()[0]
    others = [l for l in open(tolerances) if l.split()[0] != name] if os.path.exists(tolerances) else []
    with open(tolerances, "w") as f:
        f.writelines([*others, line])


def run(suite, folder, name, tolerances, line):
    """The line of this case."""
    with open(tolerances, "w") as f:
        f.write(line)
    ran = subprocess.run([suite, folder], capture_output=True, text=True)
    return ran.stdout or f"FAIL exports/{name} ended with status {ran.returncode}: {ran.stderr[-300:]}\n"


def judged(suite, folder, name, tolerances, line):
    """The line of this case, where the export itself may differ."""
    out = run(suite, folder, name, tolerances, line)
    if out.startswith("FAIL"):
        opinion = second_opinion(os.path.join(folder, "exports", name), float(line.split()[-1]))
        if opinion == "refused":
            return out.replace("FAIL", "refused", 1)
        if opinion == "other":
            out = run(suite, folder, name, tolerances, line)
            return out.replace("pass", "other", 1)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=[*KINDS, "classifiers"])
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
            if given.run:
                line = judged(given.run[0], given.folder, name, tolerances, lines[-1])
                if not line.startswith("FAIL"):
                    shutil.rmtree(case, ignore_errors=True)
            else:
                add(tolerances, lines[-1])
        if given.run:
            with open(given.run[1], "a") as f:
                f.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
