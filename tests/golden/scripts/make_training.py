#!/usr/bin/env python3
"""Trains two small nets 50 steps with MXNet 1.9.1 and every optimizer setting that Kaon has: data/training.params.

Arrays: "<net>/x", "<net>/y": data; "<net>/init/<parameter>"; "<net>/<setting>/<dtype>/<parameter>" after the last step,
and ".../losses": the mean loss of each step. The settings are those of training_test.cpp. No net has a kink: one tie
that falls otherwise would part the two for good. Nor has it a bias before a BatchNorm: the gradient is 0 but for rounding,
which Adam makes as large as any.
"""
import os
import pathlib
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet import autograd, gluon, lr_scheduler  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

STEPS, BATCH = 50, 4


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh"), nn.BatchNorm(), nn.Dense(6, activation="softrelu"), nn.LayerNorm(), nn.Dense(4))
    return net, (6,), 4


def conv():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(momentum=0.8, epsilon=1e-4), nn.Activation("sigmoid"), nn.AvgPool2D(2, 2),
            nn.Conv2D(3, 2, use_bias=False), nn.GELU(), nn.Flatten(), nn.Dense(3))
    return net, (2, 6, 6), 3


# MXNet keeps the betas as float32: of the defaults 1 - beta2 is 1e-5 off
EXACT = dict(beta1=0.875, beta2=1 - 2.0**-10)
SETTINGS = {
    "sgd": ("sgd", dict(learning_rate=0.125), None),
    "sgd_wd": ("sgd", dict(learning_rate=0.125, wd=0.0625), None),
    "sgd_momentum": ("sgd", dict(learning_rate=0.0625, momentum=0.875), None),
    "sgd_momentum_wd": ("sgd", dict(learning_rate=0.0625, momentum=0.875, wd=0.03125), None),
    "sgd_clip": ("sgd", dict(learning_rate=0.5, clip_gradient=0.015625, wd=0.0078125), None),
    "sgd_all": ("sgd", dict(learning_rate=0.25, momentum=0.75, clip_gradient=0.0078125, wd=0.015625), None),
    "adam": ("adam", dict(learning_rate=0.0078125), None),
    "adam_wd": ("adam", dict(learning_rate=0.0078125, wd=0.0625, **EXACT), None),
    "adam_all": ("adam", dict(learning_rate=0.015625, beta1=0.75, beta2=0.9375, epsilon=0.0009765625, wd=0.03125,
                              clip_gradient=0.0078125), None),
    "sgd_factor": ("sgd", dict(momentum=0.5), lambda: lr_scheduler.FactorScheduler(
        step=7, factor=0.5, stop_factor_lr=0.015625, base_lr=0.125, warmup_steps=5, warmup_begin_lr=0.03125)),
    "sgd_multi_factor": ("sgd", dict(momentum=0.5), lambda: lr_scheduler.MultiFactorScheduler(
        step=[5, 12, 30], factor=0.375, base_lr=0.125, warmup_steps=4, warmup_begin_lr=0.015625, warmup_mode="constant")),
    "sgd_poly": ("sgd", dict(wd=0.015625), lambda: lr_scheduler.PolyScheduler(
        max_update=40, base_lr=0.125, pwr=2, final_lr=0.0078125, warmup_steps=6)),
    "adam_cosine": ("adam", dict(learning_rate=0.0078125, **EXACT), lambda: lr_scheduler.CosineScheduler(
        max_update=45, base_lr=0.0078125, final_lr=0.0009765625, warmup_steps=5, warmup_begin_lr=0.0001220703125)),
    # MXNet takes the new weight into the momentum of nag, so none decays
    "nag": ("nag", dict(learning_rate=0.0625, momentum=0.875), None),
    "nag_plain": ("nag", dict(learning_rate=0.125, wd=0.0625), None),
    "signum": ("signum", dict(learning_rate=0.0009765625, momentum=0.75, wd=0.0625, wd_lh=0.125), None),
    "signsgd": ("signum", dict(learning_rate=0.0009765625, momentum=0, wd=0.125), None),
    "adagrad": ("adagrad", dict(learning_rate=0.0625, wd=0.0625), None),
    # takes matrices only: other parameters stay
    "groupadagrad": ("groupadagrad", dict(learning_rate=0.0625, eps=0.0009765625, clip_gradient=0.125), None),
    "adadelta": ("adadelta", dict(rho=0.875, epsilon=0.0009765625, wd=0.0078125), None),
    "rmsprop": ("rmsprop", dict(learning_rate=0.0078125, gamma1=0.875, epsilon=0.0009765625, wd=0.03125), None),
    "rmsprop_centered": ("rmsprop", dict(learning_rate=0.0078125, gamma1=0.875, gamma2=0.75, epsilon=0.0009765625, centered=True,
                                         clip_weights=0.75), None),
    "ftrl": ("ftrl", dict(learning_rate=0.25, lamda1=0.0009765625, beta=0.5, wd=0.0078125), None),
    "ftml": ("ftml", dict(learning_rate=0.015625, beta1=0.5, beta2=0.9375, epsilon=0.0009765625, wd=0.03125), None),
    "adamax": ("adamax", dict(learning_rate=0.0078125, beta1=0.875, beta2=0.9375, wd=0.03125), None),
    "nadam": ("nadam", dict(learning_rate=0.0078125, beta1=0.875, beta2=0.9375, epsilon=0.0009765625, wd=0.03125,
                            schedule_decay=0.25), None),
    "dcasgd": ("dcasgd", dict(learning_rate=0.125, lamda=0.5, wd=0.03125), None),
    "lars": ("lars", dict(learning_rate=0.125, momentum=0.75, eta=0.125, eps=0.0009765625, wd=0.03125), None),
    "lbsgd": ("lbsgd", dict(learning_rate=0.03125, momentum=0.75, wd=0.03125, batch_scale=2, warmup_epochs=3, updates_per_epoch=8,
                            warmup_strategy="power2"), None),
    "lamb": ("lamb", dict(learning_rate=0.015625, beta1=0.875, beta2=0.9375, epsilon=0.0009765625, wd=0.0625), None),
    "lamb_bounds": ("lamb", dict(learning_rate=0.015625, beta1=0.875, beta2=0.9375, wd=0.0625, lower_bound=0.5, upper_bound=2.0,
                                 bias_correction=False), None),
    "sgd_multipliers": ("sgd", dict(learning_rate=0.125, momentum=0.5, wd=0.03125), None),
    "adam_multipliers": ("adam", dict(learning_rate=0.0078125, wd=0.03125, **EXACT), None),
}


# Their states are float32 whatever the weights are.
FLOAT32 = ("adagrad", "groupadagrad", "adadelta", "rmsprop", "rmsprop_centered", "ftrl")


def trainers(parameters, rule, options):
    """One Trainer; nadam in MXNet counts the updates of all parameters as one, so each of them gets its own."""
    if rule == "nadam":
        return [gluon.Trainer([p], rule, options) for p in parameters.values() if p.grad_req != "null"]
    if rule == "lars":  # which leaves out some parameters by their names
        names = dict(enumerate(sorted(parameters)))
        return [gluon.Trainer(parameters, mx.optimizer.create(rule, param_idx2name=names, **options))]
    if rule == "lbsgd":  # which keeps the first gradient itself, whose memory the next one takes
        optimizer = mx.optimizer.create(rule, **options)
        cumulate = optimizer._cumulate_gradient
        optimizer._cumulate_gradient = lambda grad, index: cumulate(grad.copy(), index)
        return [gluon.Trainer(parameters, optimizer)]
    return [gluon.Trainer(parameters, rule, options)]


def train(make, arrays, name, setting, dtype):
    net = make()[0]
    net.initialize()
    net(arrays[f"{name}/x"][:BATCH])
    for key, parameter in net._collect_params_with_prefix().items():
        parameter.set_data(arrays[f"{name}/init/{key}"])
    net.cast(dtype)
    rule, options, schedule = SETTINGS[setting]
    if schedule:
        options = dict(options, lr_scheduler=schedule())
    if setting.endswith("multipliers"):
        for parameter in net.collect_params(".*weight").values():
            parameter.lr_mult, parameter.wd_mult = 0.5, 2.0
        for parameter in net.collect_params(".*bias").values():
            parameter.lr_mult, parameter.wd_mult = 2.0, 0.0
    if setting == "groupadagrad":
        for parameter in net.collect_params().values():
            if len(parameter.shape) != 2:
                parameter.grad_req = "null"
    steps = trainers(net.collect_params(), rule, options)
    criterion, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for i in range(STEPS):
        part = slice(i * BATCH, (i + 1) * BATCH)
        x, y = arrays[f"{name}/x"][part].astype(dtype), arrays[f"{name}/y"][part].astype(dtype)
        with autograd.record():
            loss = criterion(net(x), y)
        loss.backward()
        for trainer in steps:
            trainer.step(BATCH)
        losses.append(float(loss.mean().asscalar()))
    result = {k: p.data() for k, p in net._collect_params_with_prefix().items()}
    result["losses"] = mx.nd.array(losses, dtype="float64")
    return {f"{name}/{setting}/{dtype}/{k}": v for k, v in result.items()}


def main():
    random, arrays = np.random.RandomState(5), {}
    for name, make in (("mlp", mlp), ("conv", conv)):
        net, shape, classes = make()
        labels = random.randint(0, classes, STEPS * BATCH)
        centres = random.randint(-32, 33, (classes,) + shape) / 64
        x = random.randint(-64, 65, (STEPS * BATCH,) + shape) / 64 + centres[labels]
        arrays[f"{name}/x"], arrays[f"{name}/y"] = mx.nd.array(x), mx.nd.array(labels)
        net.initialize()
        net(arrays[f"{name}/x"][:BATCH])
        for key, parameter in net._collect_params_with_prefix().items():
            values = random.randint(-64, 65, parameter.shape) / 128
            values = {"gamma": 1 + values / 2, "running_mean": values * 0, "running_var": values * 0 + 1}.get(key.split(".")[-1], values)
            arrays[f"{name}/init/{key}"] = mx.nd.array(values)
        for setting in SETTINGS:
            # of conv but one matrix is trained, and MXNet changes the statistics of BatchNorm in a backward that comes there
            if setting == "groupadagrad" and name == "conv":
                continue
            for dtype in ("float32",) if setting in FLOAT32 else ("float64", "float32"):
                arrays.update(train(make, arrays, name, setting, dtype))
    mx.nd.save(str(pathlib.Path(__file__).resolve().parents[1] / "data" / "training.params"), arrays)
    for key in arrays:
        if key.endswith("losses"):
            print(key, arrays[key].asnumpy()[[0, 1, -1]])


if __name__ == "__main__":
    main()
