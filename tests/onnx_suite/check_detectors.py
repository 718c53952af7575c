#!/usr/bin/env python3
"""Detectors of GluonCV: MXNet's files become ONNX, and ONNX Runtime gives MXNet's boxes.

    check_detectors.py --export FOLDER [NET...]          with mxnet 1.9.1 and gluoncv 0.10.5
    check_detectors.py FOLDER KAON_CONVERT [NET...]      with onnx and onnxruntime

The first writes FOLDER/NET-symbol.json, its parameters, drawn so that no two scores are equal, an input and MXNet's
outputs; the second converts each by KAON_CONVERT, has the model checked, runs it and prints the largest differences of
classes, scores and boxes (in pixels). It ends with 1 where a class differs, a score by 1e-3 or a box by 0.1.
"""
import os
import subprocess
import sys

import numpy as np

NETS = ["ssd_512_mobilenet1.0_voc", "yolo3_mobilenet1.0_voc", "center_net_resnet18_v1b_voc",
        "faster_rcnn_resnet50_v1b_voc"]
SHAPE = (1, 3, 256, 256)


def export(folder, names):
    import gluoncv
    import mxnet as mx
    os.makedirs(folder, exist_ok=True)
    for name in names:
        net = gluoncv.model_zoo.get_model(name, pretrained=False, pretrained_base=False)
        net.initialize()
        x = mx.nd.array(np.random.RandomState(1).uniform(-1, 1, SHAPE))
        if name.startswith("ssd"):
            net.set_nms(0.45, 400, 100)
        net(x)  # gives the parameters their shapes
        random = np.random.RandomState(3)
        for p in net.collect_params().values():
            if p.name.endswith("weight"):
                p.set_data(mx.nd.array(random.normal(0, (1 / max(1, np.prod(p.shape[1:]))) ** 0.5, p.shape)))
            elif p.name.endswith(("gamma", "running_var", "moving_var")):
                p.set_data(mx.nd.array(random.uniform(0.5, 1.5, p.shape)))
            elif p.name.endswith(("bias", "beta", "mean")):
                p.set_data(mx.nd.array(random.normal(0, 0.3, p.shape)))
        net.hybridize()
        outputs = net(x)
        file = os.path.join(folder, name)
        net.export(file)
        np.savez(file, x=x.asnumpy(), **{"y%d" % i: y.asnumpy() for i, y in enumerate(outputs[:3])})
        print("exported", name)


def check(folder, convert, names):
    import onnx
    import onnxruntime
    wrong = 0
    for name in names:
        file = os.path.join(folder, name)
        subprocess.run([convert, file + "-symbol.json", file + ".onnx", "--shape",
                        "data=" + ",".join(map(str, SHAPE))], check=True, stdout=subprocess.DEVNULL)
        onnx.checker.check_model(file + ".onnx", full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(file + ".onnx", options)
        data = np.load(file + ".npz")
        outputs = session.run(None, {session.get_inputs()[0].name: data["x"]})
        worst = [float(np.abs(y.reshape(data["y%d" % i].shape) - data["y%d" % i]).max())
                 for i, y in enumerate(outputs[:3])]
        print("%s: classes %g, scores %.2g, boxes %.2g" % (name, *worst))
        wrong += worst[0] > 0 or worst[1] > 1e-3 or worst[2] > 0.1
    return 1 if wrong else 0


def main():
    arguments = sys.argv[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    if arguments[0] == "--export":
        return export(arguments[1], arguments[2:] or NETS)
    return check(arguments[0], os.path.abspath(arguments[1]), arguments[2:] or NETS)


sys.exit(main())
