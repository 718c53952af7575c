"""Writes gluon_names.txt: the public classes and functions of MXNet 1.9.1's Gluon and of what it trains with, a line
each, by module.

    MXNET_SUBGRAPH_BACKEND=NONE python make_gluon_names.py
"""
import importlib
import inspect
import os

MODULES = ["gluon", "gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data", "gluon.data.batchify", "gluon.data.vision",
           "gluon.data.vision.transforms", "gluon.model_zoo.vision", "gluon.utils", "gluon.contrib.nn",
           "gluon.contrib.rnn", "gluon.contrib.cnn", "gluon.contrib.data", "gluon.contrib.data.text",
           "gluon.contrib.estimator", "metric", "initializer", "optimizer", "lr_scheduler", "kvstore"]


def names(module):
    exported = getattr(module, "__all__", None)
    for name in sorted(exported if exported is not None else vars(module)):
        value = getattr(module, name, None)
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not getattr(value, "__module__", "").startswith("mxnet"):
            continue
        yield name, value


def main():
    seen = {}
    lines = []
    for path in MODULES:
        try:
            module = importlib.import_module("mxnet." + path)
        except ImportError:
            continue
        for name, value in names(module):
            home = value.__module__.replace("mxnet.", "")
            if getattr(module, "__all__", None) is None and not home.startswith(path):
                continue  # imported there for its own use
            if id(value) in seen and inspect.isclass(value):
                continue
            seen[id(value)] = path
            lines.append(f"{path}.{name}")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gluon_names.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
