#!/usr/bin/env python3
"""write_cases.py FOLDER [GROUP...]: the backend test cases of the installed `onnx` package as files.

Each case becomes FOLDER/GROUP/NAME/model.onnx with test_data_set_*/input_*.pb and output_*.pb, which onnx_suite runs,
and FOLDER/tolerances.txt gets a line "GROUP/NAME rtol atol" for each. Groups: node, simple, pytorch-converted,
pytorch-operator, light.
"""
import glob
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

GROUPS = ["node", "simple", "pytorch-converted", "pytorch-operator", "light"]


def as_proto(value, kind):
    """The value as the message of its type: a tensor, a sequence or an optional."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    if kind.HasField("optional_type"):
        return numpy_helper.from_optional(value, "", None)
    if kind.HasField("sequence_type"):
        return numpy_helper.from_list(value)
    if kind.HasField("map_type"):
        return numpy_helper.from_dict(value)
    return numpy_helper.from_array(np.asarray(value))


def write_case(case, folder):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    if case.model_dir and not case.model:
        shutil.copytree(case.model_dir, folder, dirs_exist_ok=True)
        return
    onnx.save(case.model, path)
    for i, (inputs, outputs) in enumerate(case.data_sets or []):
        data = os.path.join(folder, f"test_data_set_{i}")
        os.makedirs(data, exist_ok=True)
        for kind, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for j, value in enumerate(values):
                with open(os.path.join(data, f"{kind}_{j}.pb"), "wb") as f:
                    f.write(as_proto(value, infos[j].type).SerializeToString())


def write_light(root):
    """Models with small weights, on the data that the package's own runner makes."""
    lines = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light/*.onnx"))):
        name = os.path.basename(path)[: -len(".onnx")]
        data = os.path.join(root, name, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        shutil.copy(path, os.path.join(root, name, "model.onnx"))
        graph = onnx.load(path).graph
        initialized = {i.name for i in graph.initializer}
        inputs = [i for i in graph.input if i.name not in initialized]
        for j, info in enumerate(inputs):
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
            n = np.prod(shape)
            value = (np.arange(n).reshape(shape) / n).astype(np.float32)
            with open(os.path.join(data, f"input_{j}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(value).SerializeToString())
        for j, _ in enumerate(graph.output):
            shutil.copy(path[: -len(".onnx")] + f"_output_{j}.pb", os.path.join(data, f"output_{j}.pb"))
        lines.append(f"light/{name} 1e-3 1e-7\n")
    print("light", len(lines))
    return lines


def main():
    root, groups = sys.argv[1], sys.argv[2:] or GROUPS
    lines = []
    for group in groups:
        count = 0
        if group == "light":
            lines += write_light(os.path.join(root, group))
            continue
        cases = load_model_tests(kind=group)
        if group == "simple":  # those of the files, and those that the package makes
            from onnx.backend.test.case.model import collect_testcases
            names = {c.name for c in cases}
            cases += [c for c in collect_testcases() if c.kind == "simple" and c.name not in names]
        for case in cases:
            try:
                write_case(case, os.path.join(root, group, case.name))
            except Exception as e:  # a case that the package itself cannot write
                print(f"{group}/{case.name}: not written: {e}")
                continue
            lines.append(f"{group}/{case.name} {case.rtol} {case.atol}\n")
            count += 1
        print(group, count)
    with open(os.path.join(root, "tolerances.txt"), "w") as f:
        f.writelines(lines)


if __name__ == "__main__":
    main()
