#!/usr/bin/env python3
"""write_page.py CASES RESULTS EXPORTS PAGE: docs/onnx.md from what onnx_suite printed for the cases that write_cases.py
made, and for the nets that write_exports.py exported.

    write_cases.py CASES
    onnx_suite CASES > RESULTS
    write_exports.py FOLDER --run onnx_suite EXPORTS
    write_page.py CASES RESULTS EXPORTS docs/onnx.md
"""
import collections
import os
import re
import sys

import onnx
from onnx import defs

HEAD = """# ONNX operators

Made by `tests/onnx_suite/write_page.py` from a run of the backend test of the `onnx` package {version}, which is not
ours: each case is run twice operator by operator and twice hybridized, and passes when all four give the expected
outputs within the suite's own tolerances. What the reader does is in [interchange.md](interchange.md).

| group | cases | pass | |
|---|---|---|---|
"""

EXPORTS = """
## Nets that PyTorch exports

Nets of `tests/onnx_suite/write_exports.py`, with random weights: the largest error of an output beside its largest
number, compared with PyTorch's own results, operator by operator and hybridized; 1e-4 is allowed, and 2e-2 for a net
of 16-bit numbers (Mask and Keypoint R-CNN: 5e-4). A number in brackets is the error beside ONNX Runtime's results where these are not PyTorch's: there
the exported file is not the net. "Wrong file": ONNX Runtime refuses the file too. "No export": PyTorch itself could not
export the net so. What has nothing was not run. Nets whose names begin with `sizes_` or end with `_step`, and those of
control flow, were called with inputs of several sizes or values.

| net | traced | torch.export |
|---|---|---|
"""

OPSETS = """
Files of other opsets, of single functions; not each was run in each:

| opset | | files | as PyTorch | as ONNX Runtime alone | wrong files | fail |
|---|---|---|---|---|---|---|
"""


def operators(graph, found):
    for node in graph.node:
        found.add((node.domain, node.op_type))
        for a in node.attribute:
            for g in [a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs:
                operators(g, found)


def short(reason):
    reason = re.sub(r"; in ONNX node.*", "", reason)
    reason = re.sub(r"^\[onnx\] ", "", reason)
    return reason.replace("|", "\\|")[:110]


def write_exports(results, f):
    """The table of exported nets: the largest error of each, traced and by torch.export; how many by opset."""
    nets, opsets = collections.OrderedDict(), {}
    for line in open(results):  # the latest run of a net counts
        word, name, *rest = line.rstrip("\n").split(" ", 2)
        name, dynamo, opset = re.fullmatch(r"exports/(.*?)(_dynamo)?(?:_opset(\d+))?", name).groups()
        if opset:
            opsets.setdefault((int(opset), bool(dynamo)), {})[name] = word
            continue
        cells = {"pass": rest[0], "none": "no export", "other": f"({rest[0]})", "refused": "wrong file"}
        nets.setdefault(name, {})[bool(dynamo)] = cells.get(word, short(rest[0]))
    f.write(EXPORTS)
    for name in sorted(nets):
        f.write(f"| {name} | {nets[name].get(False, '')} | {nets[name].get(True, '')} |\n")
    if not opsets:
        return
    f.write(OPSETS)
    for (opset, dynamo), words in sorted(opsets.items()):
        n = collections.Counter(words.values())
        f.write(f"| {opset} | {'torch.export' if dynamo else 'traced'} | {len(words) - n['none']} | {n['pass']} | {n['other']} | {n['refused']} | {n['FAIL']} |\n")


def main():
    cases, results, exports, page = sys.argv[1:]
    outcome = {}
    for line in open(results):
        word, name, *rest = line.rstrip("\n").split(" ", 2)
        outcome[name] = None if word == "pass" else (rest[0] if rest else "")
    groups = collections.OrderedDict()
    by_operator = collections.defaultdict(list)  # of cases with this operator alone
    used_in = collections.Counter()  # other cases
    for name, reason in outcome.items():
        group = name.split("/")[0]
        total, passed = groups.get(group, (0, 0))
        groups[group] = (total + 1, passed + (reason is None))
        model = onnx.load(os.path.join(cases, name, "model.onnx"), load_external_data=False)
        found = set()
        operators(model.graph, found)
        for f in model.functions:
            found |= {(n.domain, n.op_type) for n in f.node}
        if len(found) == 1:
            by_operator[next(iter(found))].append((name, reason))
        elif reason is None:
            used_in.update(found)
    versions = collections.defaultdict(set)
    for s in defs.get_all_schemas_with_history():
        versions[(s.domain, s.name)].add(s.since_version)
    with open(page, "w") as f:
        f.write(HEAD.format(version=onnx.__version__))
        for group, (total, passed) in groups.items():
            f.write(f"| {group} | {total} | {passed} | {100 * passed / total:.1f} % |\n")
        f.write("\n## By operator\n\nopsets: the versions of the operator that the standard has. pass: cases with this operator "
                "alone, and in brackets the\nothers that pass and use it.\n\n| operator | opsets | pass | why not |\n|---|---|---|---|\n")
        for key in sorted(set(by_operator) | set(used_in), key=lambda k: (k[0], k[1].lower())):
            runs = by_operator.get(key, [])
            passed = sum(r is None for _, r in runs)
            reasons = collections.Counter(short(r) for _, r in runs if r is not None)
            why = "; ".join(f"{r} ({n})" if n > 1 else r for r, n in reasons.most_common(2))
            if len(reasons) > 2:
                why += f"; {len(reasons) - 2} more"
            name = f"{key[0]}.{key[1]}" if key[0] else key[1]
            opsets = ", ".join(str(v) for v in sorted(versions.get(key, [])))
            own = f"{passed} of {len(runs)}" if runs else ""
            others = f" ({used_in[key]})" if used_in[key] else ""
            f.write(f"| `{name}` | {opsets} | {own}{others} | {why} |\n")
        write_exports(exports, f)


if __name__ == "__main__":
    main()
