#!/usr/bin/env python3
"""Checks the operators that Kaon writes as ONNX by onnx.checker and ONNX Runtime.

    check_rows.py KAON_OPS_TESTS [--folder=F] [--all] [--opsets=17,24] [--every=N] [--only=REGEX] [--detection]

KAON_OPS_TESTS is the program kaon_ops_tests: its hidden case writes each row of the test table as a model at opsets 17
to 24, with inputs and results. Every model must pass the checker with full_check. ONNX Runtime runs those that it has
kernels for, and must give Kaon's results within 10 times the row's tolerance, as both may round. NumPy has no
bfloat16: these models are loaded alone. Where ONNX Runtime differs and the standard's own evaluator gives Kaon's
results, the table says reference. It has a line for each opset. --all prints what ONNX Runtime does not run as well,
--folder keeps the files, --every takes each N-th case, --only those of operators whose name has the expression.
--detection: 1,200 random cases of object detection in place of the table; those of box_nms must be equal bit by bit.
"""
import collections
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime


def arrays(folder, kind):
    found = []
    while os.path.exists(os.path.join(folder, f"{kind}{len(found)}.npy")):
        found.append(np.load(os.path.join(folder, f"{kind}{len(found)}.npy")))
    return found


def differs(got, want, tolerance):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape} instead of {want.dtype} {want.shape}"
    if want.size == 0:
        return ""
    a, b = got.astype(np.float64), want.astype(np.float64)
    largest = np.abs(b[np.isfinite(b)]).max(initial=1)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * (largest + np.abs(b)))
    if same.all():
        return ""
    at = np.unravel_index(np.argmin(same), same.shape)
    return f"{a[at]!r} instead of {b[at]!r} at {tuple(map(int, at))}"


def by_reference(path, inputs):
    model = onnx.load(path)
    try:
        return onnx.reference.ReferenceEvaluator(model).run(None, {x.name: inputs[int(x.name[1:])] for x in model.graph.input})
    except Exception:  # what it lacks says nothing
        return [np.zeros(0)] * len(model.graph.output)


def check(job):
    folder, opset = job
    name, title, more = open(os.path.join(folder, "title.txt")).read().splitlines()
    tolerance, is_random = 10 * float(more.split()[0]), more.split()[1] == "1"
    path = os.path.join(folder, f"{opset}.onnx")
    if not os.path.exists(path):
        return opset, "refused", name, title, open(os.path.join(folder, f"{opset}.txt")).read().strip()
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as e:
        return opset, "invalid", name, title, " ".join(str(e).split())[:300]
    inputs, outputs = arrays(folder, "in"), arrays(folder, "out")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        text = " ".join(str(e).split())
        missing = "NOT_IMPLEMENTED" in text or "is under development" in text or "not a registered function" in text
        return opset, "no kernel" if missing else "not loaded", name, title, text[:300]
    if any(x.dtype.kind == "V" for x in inputs + outputs):  # bfloat16, which NumPy does not know
        return opset, "bfloat16", name, title, ""
    try:
        got = session.run(None, {x.name: inputs[int(x.name[1:])] for x in session.get_inputs()})
    except Exception as e:
        text = " ".join(str(e).split())
        return opset, "no kernel" if "data type is not supported" in text else "failed", name, title, text[:300]
    if not is_random:
        for i, (a, b) in enumerate(zip(got, outputs, strict=True)):
            wrong = differs(a, b, tolerance)
            if wrong:
                if all(not differs(a, b, tolerance) for a, b in zip(by_reference(path, inputs), outputs)):
                    return opset, "reference", name, title, f"output {i}: {wrong}"
                return opset, "other", name, title, f"output {i}: {wrong}"
    return opset, "same", name, title, ""


def main():
    program = sys.argv[1]
    options = dict(a.lstrip("-").partition("=")[::2] for a in sys.argv[2:])
    folder = options.get("folder") or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    kind = "onnx detection: files of random boxes" if "detection" in options else "onnx rows: files"
    subprocess.run([program, f"{kind} for other tools"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "KAON_ONNX_CASES": folder})
    opsets = [int(o) for o in options.get("opsets", "17,18,19,20,21,22,23,24").split(",")]
    cases = sorted(os.listdir(folder), key=int)[::int(options.get("every", 1))]
    if "only" in options:
        cases = [f for f in cases if re.search(options["only"], open(os.path.join(folder, f, "title.txt")).readline())]
    jobs = [(os.path.join(folder, f), opset) for f in cases for opset in opsets]
    counts = collections.defaultdict(collections.Counter)
    seen = collections.OrderedDict()
    with multiprocessing.Pool(min(2, os.cpu_count())) as pool:
        for opset, state, name, title, text in pool.imap(check, jobs, chunksize=64):
            counts[opset][state] += 1
            if state in ("invalid", "not loaded", "failed", "other") or ("all" in options and state not in ("same", "bfloat16")):
                kind = (state, name, re.sub(r"[0-9.]+", "#", text)[:60])
                seen.setdefault(kind, []).append((opset, title, text))
    for (state, name, _), found in seen.items():
        opset, title, text = found[0]
        print(f"{state} {name}: {len(found)} models, as opset {opset} {title}: {text}")
    states = ["same", "reference", "bfloat16", "other", "failed", "not loaded", "invalid", "no kernel", "refused"]
    print("| opset | " + " | ".join(states) + " |\n|---" * 1 + "|---" * len(states) + "|")
    for opset in sorted(counts):
        print(f"| {opset} | " + " | ".join(str(counts[opset][s]) for s in states) + " |")
    if "folder" not in options:
        shutil.rmtree(folder)
    sys.exit(any(counts[o][s] for o in counts for s in ("other", "failed", "not loaded", "invalid")))


if __name__ == "__main__":
    main()
