#!/usr/bin/env python3
"""Writes tests/golden/data: for every operator random cases with the values and gradients that they must have.

Runs with PyTorch; MXNET_PYTHON names the interpreter of MXNet's own environment. See README.md.
"""
import argparse
import os
import pathlib
import pickle
import re
import select
import subprocess
import sys
import zlib
from collections import Counter, defaultdict

import numpy as np
import torch

sys.path += [str(pathlib.Path(__file__).parent / room) for room in ("cases", "references")]

import cases_attention  # noqa: F401
import cases_composed  # noqa: F401
import cases_detection  # noqa: F401
import cases_distribution  # noqa: F401
import cases_image  # noqa: F401
import cases_indexing  # noqa: F401
import cases_layers  # noqa: F401
import cases_linalg  # noqa: F401
import cases_movement  # noqa: F401
import cases_numpy  # noqa: F401
import cases_numpy_arrays  # noqa: F401
import cases_quant  # noqa: F401
import cases_optim  # noqa: F401
import cases_resize  # noqa: F401
import cases_rnn  # noqa: F401
import cases_signal  # noqa: F401
import cases_spatial  # noqa: F401
import rules
import torch_reference
from cases_elementwise import DESCRIPTIONS
from draw import Draw
from tensors import FLOATS, Tensor, write_golden

HERE = pathlib.Path(__file__).resolve().parent
SMALLEST = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-23, "bfloat16": 2.0**-126}
# How far one side may be from the other: (MXNet from PyTorch, Kaon from a value that both give, Kaon from MXNet's own).
# MXNet keeps some attributes as float32, and computes in the arrays' dtype.
BOUNDS = {"float64": (1e-6, 2e-13, 1e-6), "float32": (4e-5, 4e-6, 3e-5), "float16": (5e-3, 2.0**-9, 1e-2),
          "bfloat16": (2.0**-6, 2.0**-6, 2.0**-6)}
# MXNet's float16 kernels of these compute positions in float16.
POSITIONS = (r"GridGenerator|BilinearSampler|SpatialTransformer|Correlation|_contrib_(Deformable(Convolution|PSROIPooling)|"
             r"ModulatedDeformableConvolution|PSROIPooling|RROIAlign)")


# What MXNet has no imperative call for on the CPU.
NOT_CALLED = {"_contrib_fft": "only implemented in GPU", "_contrib_ifft": "only implemented in GPU",
              "_contrib_count_sketch": "only implemented in GPU", "IdentityAttachKLSparseReg": "for Symbols only"}


class MXNet:
    """The worker, started again when a case has ended it."""

    def __init__(self, python):
        self.python, self.process = python, None

    def compute(self, case):
        """In the case's dtypes, or in float32 and uint8 where MXNet has no kernel for float16, bfloat16 and bool."""
        if case["op"] in NOT_CALLED:
            return {"error": NOT_CALLED[case["op"]]}
        coarse = re.fullmatch(POSITIONS, case["op"]) and "float16" in dtypes(case)
        if not coarse and not any("bfloat16" in name for name in dtypes(case)):
            answer = self.ask(case)
            if "error" not in answer or not re.search("Unknown type|FP16|float16|FP32|type_flag|Unsupported data type|"
                                                      "only supports 32-bit|Other DTypes are not supported",
                                                      answer["error"]):
                return answer
        names = {"bfloat16": "float32", "float16": "float32", "bool": "uint8"}
        if re.match("SoftmaxActivation|CTCLoss|Crop|InstanceNorm|LRN|GridGenerator|"
                    "_contrib_(MultiBox|SyncBatchNorm|interleaved|(Multi)?Proposal)", case["op"]):
            names["float64"] = "float32"
        other = dict(case, inputs=[Tensor(names.get(t.dtype, t.dtype), t.values) for t in case["inputs"]])
        if "dtype" in case["attrs"]:
            other["attrs"] = dict(case["attrs"], dtype=names.get(case["attrs"]["dtype"], case["attrs"]["dtype"]))
        answer = self.ask(other)
        answer["in_other_dtypes"] = True
        return answer

    def ask(self, case):
        if self.process is None:
            self.process = subprocess.Popen([self.python, HERE / "mxnet_worker.py"], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        sent = {k: case[k] for k in ("op", "attrs", "wants", "train", "updates", "seed")}
        if "outs" in case:
            sent["outs"] = case["outs"]
        sent["inputs"] = [t.wire() for t in case["inputs"]]
        # its Pooling keeps no places of maxima when it predicts, and takes wrong ones
        sent["train"] = case["train"] or case["op"] not in ("BatchNorm", "Dropout", "LeakyReLU", "RNN",
                                                            "_contrib_SyncBatchNorm", "_contrib_quantized_pooling")
        sent["train"] |= case["op"] == "RNN" and any(case["wants"])
        # only NumPy's shapes have arrays without elements or dimensions
        made = [] if case["inputs"] else re.findall(r"\d+", case["attrs"].get("shape", ""))
        sent["np_shape"] = case["op"].startswith("_np") or "0" in made or any(t.shape == () or 0 in t.shape for t in case["inputs"])
        try:
            pickle.dump(sent, self.process.stdin, protocol=4)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], 120)[0]:
                self.process.kill()
            answer = pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            self.process.wait()
            self.process = None
            return {"error": "ended the process"}
        for key in ("outputs", "gradients", "updated"):
            if key in answer:
                answer[key] = [None if w is None else Tensor.from_wire(w) for w in answer[key]]
        return answer


def dtypes(case):
    return [t.dtype for t in case["inputs"]] + [case["attrs"].get("dtype", "")]


def largest(values):
    values = np.abs(np.asarray(values, np.float64))
    values = values[np.isfinite(values)]
    return float(values.max()) if values.size else 0.0


def differing(got, want, relative, absolute):
    """Which elements differ by more than the bound."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = (np.isnan(a) & np.isnan(b)) | (a == b)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        same |= finite & (np.abs(a - b) <= relative * np.abs(b) + absolute)
    return ~same


class Case:
    def __init__(self, case, file):
        self.case, self.file, self.other = case, file, False
        self.sums, self.condition = rules.sums(case["op"]), rules.condition(case)
        self.inputs = max([largest(t.values) for t in case["inputs"] if t.is_float], default=0.0)

    def bounds(self, dtype, values, is_gradient, which):
        """(relative, absolute) for a tensor of this dtype and values."""
        if dtype not in FLOATS:
            return 0.0, 0.0
        half = which == 0 and any(t.dtype == "float16" for t in self.case["inputs"])
        if half:
            dtype = "float16"
        elif which == 2 and self.other and dtype == "float64":
            dtype = "float32"
        relative = BOUNDS[dtype][which]
        if is_gradient and which != 0 and dtype in ("float16", "bfloat16"):
            relative *= 4  # gradients are several operators, each rounds
        if is_gradient and rules.passes_heads(self.case["op"]):
            scale = 8.0  # sums of a few heads
        elif self.sums and (is_gradient or not self.case["op"].startswith("broadcast_")):
            scale = max(1.0, self.inputs, largest(values)) * (self.condition if is_gradient else 1.0)
        else:
            scale = 2.0 if is_gradient else rules.offset(self.case)
        return relative, relative * scale + 4 * SMALLEST[dtype]

    def dtype_of(self, kind, i, got):
        """Of result i: MXNet's, or what follows from the inputs."""
        case = self.case
        if kind == "gradients":
            return case["inputs"][i].dtype
        if kind == "updated":
            return case["inputs"][case["updates"][i]].dtype
        if case["inputs"] and "dtype" not in case["attrs"]:
            if own := rules.result_dtype(case["op"], i, case["inputs"][0].dtype):
                return own
        if got is not None:
            return got.dtype
        if case["op"] == "_contrib_quantized_conv":
            return "float32" if i else "int32"
        if "dtype" in case["attrs"] and case["op"] != "Embedding":
            return case["attrs"]["dtype"]
        if case["op"] == "max_pool_indices" and i == 1:
            return "int64"
        if case["op"] in ("one_hot", "argsort") or not case["inputs"]:
            return "float32"
        return case["inputs"][{"where": 1, "_npi_where": 1, "_npi_where_lscalar": 1, "_npi_where_rscalar": 1, "Embedding": 1}.get(case["op"], 0)].dtype


def stored(values, dtype):
    """As this dtype holds them; integers wrap."""
    values = np.asarray(values)
    if dtype not in FLOATS and dtype != "bool" and values.dtype.kind == "f":
        values = np.where(np.isfinite(values), values, 0).astype(np.int64)
    return Tensor(dtype, values)


class Result:
    """One array of the answer: its values, and the places where nothing is said."""

    def __init__(self, tensor, skipped=()):
        self.tensor, self.skipped = tensor, [int(i) for i in skipped]


def judge(c, mxnet, torch_answer):
    """(results by kind, source, reasons), a text of what is undecided, or None for a case that is left out."""
    c.other = "in_other_dtypes" in mxnet
    if "error" in mxnet and (torch_answer is None or rules.refused(mxnet["error"]) is None):
        return None
    found, sides, undecided = {}, set(), []
    for kind in ("outputs", "gradients", "updated"):
        found[kind] = []
        mine = torch_answer[kind] if torch_answer else [None] * len(mxnet[kind])
        theirs = mxnet[kind] if "error" not in mxnet else [None] * len(mine)
        if c.case["op"] == "LeakyReLU" and kind == "outputs":
            theirs = theirs[:1]  # rrelu shows its slopes
        if len(mine) != len(theirs):
            return f"{len(theirs)} {kind} for {len(mine)}"
        for i, (want, got) in enumerate(zip(mine, theirs)):
            dtype = c.dtype_of(kind, i, None if c.other else got)
            if got is None and ("error" not in mxnet or want is None):
                found[kind].append(None)  # no gradient reaches it
            elif got is None:
                answer = stored(want, dtype)
                skipped = np.zeros(answer.shape, bool)
                for reason, where in rules.always_open(c.case, kind, answer.values):
                    skipped |= where
                found[kind].append(Result(answer, np.flatnonzero(skipped)))
            elif torch_answer is None or want is None:
                values = got.values.reshape(1) if got.shape == () and kind == "outputs" else got.values
                found[kind].append(Result(stored(values, dtype)))
            else:
                result = decided(c, kind, stored(want, dtype), got, sides, undecided)
                found[kind].append(result)
    if undecided:
        return "; ".join(undecided)
    if "error" in mxnet:
        return found, "torch", [rules.refused(mxnet["error"])]
    if torch_answer is None:
        return found, "mxnet", []
    sources = {side for side, _ in sides}
    source = "mxnet" if "mxnet" in sources else "torch" if "torch" in sources else "both"
    return found, source, sorted(f"{side}: {reason}" for side, reason in sides)


def decided(c, kind, want, got, sides, undecided):
    """PyTorch's values with MXNet's where a rule says so."""
    theirs = got.values.reshape(want.shape) if got.values.size == want.values.size == 1 else got.values
    if c.other:
        theirs = stored(theirs, want.dtype).values
    if theirs.shape != want.shape and c.case["op"].lower() == "reshape":
        sides.add(("torch", "MXNet takes the wrong dimension for -1 after -4"))
        return Result(want)
    if theirs.shape != want.shape:
        undecided.append(f"{kind}: shape {theirs.shape} for {want.shape}")
        return None
    differs = differing(theirs, want.values, *c.bounds(want.dtype, want.values, kind == "gradients", 0))
    skipped = np.zeros(want.shape, bool)
    for reason, where in rules.always_open(c.case, kind, want.values):
        sides.add(("open", reason))
        skipped |= where
    differs &= ~skipped
    if not differs.any():
        return Result(want, np.flatnonzero(skipped))
    elements = rules.Elements(c.case, kind, theirs.astype(np.float64), want.values.astype(np.float64), differs)
    decisions, left = rules.decide(elements)
    if left.any():
        at = tuple(int(i) for i in np.argwhere(left)[0])
        numbers = [t.values[at].item() for t in c.case["inputs"] if t.shape == want.shape]
        undecided.append(f"{kind} at {at} {numbers}: {theirs[at]!s} for {want.values[at]!s}, {left.sum()} of {left.size}")
        return None
    values = want.values.copy()
    for side, reason, where in decisions:
        sides.add((side, reason))
        if side == "mxnet":
            values[where] = theirs[where]
        if side == "open":
            skipped |= where
    return Result(Tensor(want.dtype, values), np.flatnonzero(skipped))


def text(case):
    shapes = ", ".join(f"{t.shape} {t.dtype}" for t in case["inputs"])
    return f"{case['op']} {case['attrs']} {shapes}" + (" train" if case["train"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operators, by a regular expression: nothing is written")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "data")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mxnet = MXNet(os.environ["MXNET_PYTHON"])
    files, undecided, refused, summary = defaultdict(list), [], Counter(), defaultdict(Counter)
    for name, (function, count, file) in DESCRIPTIONS.items():
        if not re.search(options.only, name):
            continue
        for number in range(max(1, int(count * options.scale))):
            seed = (zlib.crc32(name.encode()) + 7919 * number + 104729 * options.seed) % 2**31
            case = function(name, Draw(seed, number))
            case["seed"] = seed
            c = Case(case, file)
            theirs = mxnet.compute(case)
            answer = judge(c, theirs, torch_reference.compute(case))
            if answer is None:
                refused[name, theirs.get("error", "")[:110]] += 1
            elif isinstance(answer, str):
                undecided.append((text(case), answer))
            else:
                files[file].append((c, *answer))
                summary[name][answer[1], "; ".join(answer[2])] += 1
    for (name, error), n in sorted(refused.items()):
        print(f"left out: {n} {name}: {error}")
    for case, differences in undecided:
        print(f"UNDECIDED {case}\n    {differences}")
    print(f"{sum(map(len, files.values()))} cases, {len(undecided)} undecided")
    if options.only and options.out == HERE.parent / "data":
        return
    options.out.mkdir(exist_ok=True)
    for file, members in sorted(files.items()):
        write_file(options.out / f"{file}.golden", members)
    write_summary(options.out / "SOURCES.md", summary)
    if undecided:
        sys.exit("say in rules.py who is right")


def write_file(path, members):
    tensors, index = [], []

    def add(t):
        tensors.append(t)
        return len(tensors) - 1

    for c, answer, source, reasons in members:
        case, which = c.case, 2 if source == "mxnet" else 1
        entry = {"op": case["op"], "attrs": case["attrs"], "inputs": [add(t) for t in case["inputs"]],
                 "source": source, "seed": case["seed"]}
        if reasons:
            entry["reasons"] = reasons
        if case["train"]:
            entry["train"] = True
        if any(case["wants"]):
            entry["wants"] = [int(w and t.is_float) for w, t in zip(case["wants"], case["inputs"])]
        for what in ("outputs", "gradients", "updated"):
            entry[what] = []
            for result in answer[what]:
                if result is None:
                    entry[what].append(None)
                    continue
                t = result.tensor
                relative, absolute = c.bounds(t.dtype, t.values, what == "gradients", which)
                entry[what].append([add(t), float(f"{relative:.2g}"), float(f"{absolute:.2g}"), *result.skipped])
        if case["updates"]:
            entry["updates"] = case["updates"]
        index.append(entry)
    size = write_golden(path, index, tensors)
    print(f"{path.name}: {len(members)} cases, {size} bytes, {path.stat().st_size} packed")


def write_summary(path, summary):
    lines = ["# Where the golden values come from", "",
             "Written by make_golden.py: the number of cases in which MXNet 1.9.1 and PyTorch agree (the value is PyTorch's",
             "in float64, rounded), in which they differ or one has nothing and MXNet's or PyTorch's value counts, and why.",
             "MXNet's without a reason: PyTorch has no such operator. Open elements are not compared.", "",
             "| operator | both | mxnet | torch | reasons |", "|---|---|---|---|---|"]
    for name in sorted(summary):
        counts, reasons = Counter(), set()
        for (source, reason), n in summary[name].items():
            counts[source] += n
            reasons |= set(reason.split("; ")) - {""}
        lines.append(f"| {name} | {counts['both']} | {counts['mxnet']} | {counts['torch']} | {'; '.join(sorted(reasons))} |")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
