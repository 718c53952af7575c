#!/usr/bin/env python3
"""write_sample.py CASES RESULTS SAMPLE [BYTES]: a small part of the cases, one file, for runs without the onnx package.

Takes passing cases, smallest first, until every operator that some passing case has is there twice (or as often as
there are cases), within BYTES (6,000,000) of files; writes SAMPLE/GROUP/NAME and SAMPLE/tolerances.txt.
"""
import collections
import os
import shutil
import sys

import onnx

from write_page import operators


def size_of(folder):
    return sum(os.path.getsize(os.path.join(base, f)) for base, _, files in os.walk(folder) for f in files)


def main():
    cases, results, sample = sys.argv[1:4]
    limit = int(sys.argv[4]) if len(sys.argv) > 4 else 6_000_000
    passing = [line.split()[1] for line in open(results) if line.startswith("pass ")]
    tolerances = {line.split()[0]: line for line in open(os.path.join(cases, "tolerances.txt"))}
    found = {}
    for name in passing:
        model = onnx.load(os.path.join(cases, name, "model.onnx"))
        found[name] = set()
        operators(model.graph, found[name])
        for f in model.functions:
            found[name] |= {(n.domain, n.op_type) for n in f.node}
    sizes = {name: size_of(os.path.join(cases, name)) for name in passing}
    seen, chosen, total = collections.Counter(), [], 0
    for name in sorted(passing, key=lambda n: (sizes[n], n)):
        if all(seen[o] >= 2 for o in found[name]) or total + sizes[name] > limit:
            continue
        seen.update(found[name])
        chosen.append(name)
        total += sizes[name]
    shutil.rmtree(sample, ignore_errors=True)
    for name in sorted(chosen):
        shutil.copytree(os.path.join(cases, name), os.path.join(sample, name))
    with open(os.path.join(sample, "tolerances.txt"), "w") as f:
        f.writelines(tolerances[n] for n in sorted(chosen))
    missing = set().union(*found.values()) - set(seen)
    print(len(chosen), "cases,", total, "bytes;", len(seen), "operators; left out:", sorted(missing))


if __name__ == "__main__":
    main()
