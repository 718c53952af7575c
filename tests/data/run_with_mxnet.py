#!/usr/bin/env python3
"""Runs an exported model in MXNet: python3 run_with_mxnet.py PREFIX EPOCH INPUT.nd OUTPUT.nd

Loads PREFIX-symbol.json and PREFIX-EPOCH.params as a SymbolBlock, feeds the array of INPUT.nd and saves the result.
Needs mxnet==1.9.1 with numpy==1.23.5; exits with 77 where they cannot be imported.
"""
import sys

try:
    import mxnet as mx
except ImportError:
    sys.exit(77)

prefix, epoch, source, target = sys.argv[1:5]
net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-{int(epoch):04}.params")
mx.nd.save(target, net(mx.nd.load(source)[0]))
