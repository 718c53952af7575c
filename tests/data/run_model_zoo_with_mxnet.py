#!/usr/bin/env python3
"""Runs a net of MXNet's model zoo: python3 run_model_zoo_with_mxnet.py NAME FILE.params INPUT.nd OUTPUT.nd PREFIX

Loads FILE.params into the net with 10 classes, feeds the array of INPUT.nd, saves the result, saves the parameters again
as PREFIX.params and exports the net as PREFIX-symbol.json and PREFIX-0000.params. Needs mxnet==1.9.1 with numpy==1.23.5;
exits with 77 where they cannot be imported.
"""
import sys

try:
    import mxnet as mx
except ImportError:
    sys.exit(77)

name, parameters, source, target, prefix = sys.argv[1:6]
net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
net.load_parameters(parameters)
net.hybridize()
mx.nd.save(target, net(mx.nd.load(source)[0]))
net.save_parameters(prefix + ".params")
net.export(prefix)
