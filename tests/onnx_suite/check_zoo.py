#!/usr/bin/env python3
"""check_zoo.py ONNX_ZOO [--bytes=N] [NAME...]: nets that Kaon has written, checked by onnx.checker and run by ONNX Runtime.

ONNX_ZOO is the program onnx_zoo. Models of more than N bytes have their arrays in a second file. Each net's outputs must be Kaon's own within 1e-4 of the largest one.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def tensors(folder, kind):
    names = sorted(f for f in os.listdir(folder) if f.startswith(kind))
    for name in names:
        t = onnx.TensorProto()
        with open(os.path.join(folder, name), "rb") as f:
            t.ParseFromString(f.read())
        yield numpy_helper.to_array(t)


def check(program, name, folder, most):
    subprocess.run([program, name, folder, *most], check=True)
    path = os.path.join(folder, "model.onnx")
    files = [f for f in os.listdir(folder) if f.startswith("model.onnx.")]
    assert len(files) == 1 or not most and name != "large", files
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options)
    data = os.path.join(folder, "test_data_set_0")
    feeds = dict(zip([i.name for i in session.get_inputs()], tensors(data, "input")))
    worst = 0
    for got, want in zip(session.run(None, feeds), tensors(data, "output"), strict=True):
        assert got.shape == want.shape, (got.shape, want.shape)
        worst = max(worst, np.abs(got - want).max() / max(1e-12, np.abs(want).max()))
    return worst


def main():
    program = sys.argv[1]
    most = [a.removeprefix("--bytes=") for a in sys.argv[2:] if a.startswith("--bytes=")]
    names = [a for a in sys.argv[2:] if not a.startswith("--")] or subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    failed = 0
    for name in names:
        folder = tempfile.mkdtemp()
        try:
            worst = check(program, name, folder, most)
            good = worst < 1e-4
            print(f"{'pass' if good else 'FAIL'} {name}: {worst:.2e} of the largest output", flush=True)
        except Exception as e:
            good = False
            print(f"FAIL {name}: {str(e).splitlines()[0]}", flush=True)
        failed += not good
        shutil.rmtree(folder)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
