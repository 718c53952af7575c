#!/usr/bin/env python3
"""Makes data/gluon_losses.json: losses and the gradients of their inputs, as MXNet's gluon.loss and PyTorch have them.

Run it with a Python that has mxnet, then with one that has torch: each replaces its own cases in the file and keeps the
others. A case has the inputs, flat, with their shapes; the result; and a gradient for each input that has one. MXNet's
are of the result times (1, 1.25, 1.5, ...), PyTorch's of the mean, which must be the mean of Kaon's result.
golden_losses_test.cpp makes the same losses, by name.
"""
import json
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import numpy as np  # noqa: E402

FILE = pathlib.Path(__file__).parent.parent / "data" / "gluon_losses.json"
rng = np.random.RandomState(7)


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


def uniform(low, high, *shape):
    return rng.uniform(low, high, shape).astype("float32")


def classes(n, *shape):
    return rng.randint(0, n, shape).astype("float32")


def flat(a):
    a = np.asarray(a, dtype="float64")
    return {"shape": list(a.shape), "values": a.ravel().tolist()}


def case(inputs, wants, out, grads):
    return {"inputs": [None if a is None else flat(a) for a in inputs], "wants": wants, "out": flat(out),
            "grads": [flat(g) for g in grads]}


def mxnet_cases():
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    loss = gluon.loss
    cases = {}

    def add(name, block, inputs, wants):
        """wants: the indices of the inputs that get a gradient."""
        arrays = [None if a is None else nd.array(a) for a in inputs]
        for i in wants:
            arrays[i].attach_grad()
        with autograd.record() if wants else autograd.pause():
            out = block(*arrays)
        head = (1 + 0.25 * np.arange(out.size)).reshape(out.shape)
        if wants:
            out.backward(nd.array(head))
        cases[name] = case(inputs, wants, out.asnumpy(), [arrays[i].grad.asnumpy() for i in wants])

    p, l, w = normal(4, 3), normal(4, 3), uniform(0.1, 2, 4, 1)
    add("l1", loss.L1Loss(), [p, l], [0])
    add("l2_samples", loss.L2Loss(weight=0.5), [p, l, w], [0])
    add("l1_axis", loss.L1Loss(batch_axis=1), [p, l], [0])
    add("huber", loss.HuberLoss(rho=0.75, weight=2), [p, l, w], [0])
    sign = np.sign(l)
    add("hinge", loss.HingeLoss(margin=0.5), [p, sign, w], [0])
    add("squared_hinge", loss.SquaredHingeLoss(), [p, sign], [0])
    add("logistic", loss.LogisticLoss(), [p, sign, w], [0])
    q = np.exp(l) / np.exp(l).sum(1, keepdims=True)
    add("kl", loss.KLDivLoss(from_logits=False), [p, q, w], [0])
    c = classes(3, 4)
    add("ce", loss.SoftmaxCELoss(), [p, c, w], [0])
    add("ce_axis", loss.SoftmaxCELoss(axis=1, weight=0.5), [normal(2, 3, 4), classes(3, 2, 4)], [0])
    add("ce_dense", loss.SoftmaxCELoss(sparse_label=False), [p, q], [0])
    b = uniform(0, 1, 4, 3)
    pos = uniform(0.5, 3, 3)
    ones = np.ones((1, 1), "float32")
    add("bce", loss.SigmoidBCELoss(), [p, b, w], [0])
    add("bce_positive", loss.SigmoidBCELoss(), [p, b, None, pos.reshape(1, 3)], [0])
    add("bce_positive_samples", loss.SigmoidBCELoss(weight=2), [p, b, w, pos.reshape(1, 3)], [0])
    add("bce_positive_sigmoid", loss.SigmoidBCELoss(from_sigmoid=True), [uniform(0.05, 0.95, 4, 3), b, w, pos.reshape(1, 3)], [0])
    # CTC: 4 classes and the blank
    pred = normal(2, 6, 5)
    label = np.array([[0, 1, 1], [3, 2, -1]], "float32")
    full = np.array([[0, 1, 1], [3, 2, 0]], "float32")
    steps, sizes, cw = np.array([6, 4], "float32"), np.array([3, 2], "float32"), np.array([0.5, 2], "float32")
    add("ctc", loss.CTCLoss(), [pred, label], [0])
    add("ctc_tnc", loss.CTCLoss(layout="TNC", weight=0.5), [pred.swapaxes(0, 1), label], [0])
    add("ctc_tn", loss.CTCLoss(label_layout="TN"), [pred, label.T], [0])
    add("ctc_steps", loss.CTCLoss(), [pred, label, steps], [0])
    add("ctc_sizes", loss.CTCLoss(), [pred, full, None, sizes], [0])
    add("ctc_both", loss.CTCLoss(), [pred, full, steps, sizes], [0])
    add("ctc_all", loss.CTCLoss(layout="TNC", label_layout="TN", weight=3),
        [pred.swapaxes(0, 1), full.T, steps, sizes, cw], [0])
    x, y, z = normal(4, 3), normal(4, 3), normal(4, 3)
    add("triplet", loss.TripletLoss(), [x, y, z], [0, 1, 2])
    x3, y3, z3 = normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 4)
    add("triplet_axis", loss.TripletLoss(margin=4, weight=0.5, batch_axis=1), [x3, y3, z3], [0, 1, 2])
    counts = np.array([[2, 3, 4], [5, 2, 7], [3, 2, 2], [9, 2, 4]], "float32")
    add("poisson", loss.PoissonNLLLoss(), [p, counts], [0])
    add("poisson_rates", loss.PoissonNLLLoss(from_logits=False, weight=2), [uniform(0.5, 3, 4, 3), counts, w], [0])
    # refused while it is recorded: it adds in place
    add("poisson_full", loss.PoissonNLLLoss(compute_full=True), [p, counts], [])
    pair = np.array([1, -1, -1, 1], "float32")
    add("cosine", loss.CosineEmbeddingLoss(), [x, y, pair], [0, 1])
    add("cosine_margin", loss.CosineEmbeddingLoss(margin=0.1, weight=2), [x, y + x, pair, w], [0, 1])
    add("sdml", loss.SDMLLoss(), [x, y], [0, 1])
    add("sdml_smoothing", loss.SDMLLoss(smoothing_parameter=0.1), [x, x + 0.5 * y], [0, 1])
    return "mxnet " + mx.__version__, cases


def torch_cases():
    import torch
    F = torch.nn.functional
    cases = {}

    def add(name, f, inputs, grad_from=0):
        t = [torch.tensor(a, dtype=torch.float64) for a in inputs]
        t[0].requires_grad_()
        out = f(*t)
        out.backward()
        cases[name] = case(inputs, [0], out.detach().numpy(), [t[0].grad.numpy()])

    p, l, c, w = normal(5, 4), normal(5, 4), classes(4, 5), uniform(0.2, 2, 4)
    c[1] = 2
    hidden = c.copy()
    hidden[[0, 3]] = -1
    image, labels = normal(2, 4, 3, 2), classes(4, 2, 3, 2)
    labels[0, 1, 0] = labels[1, 2, 1] = 255
    q = np.exp(l) / np.exp(l).sum(1, keepdims=True)
    iq = np.exp(image[::-1]) / np.exp(image[::-1]).sum(1, keepdims=True)
    add("smooth_l1", lambda p, l: F.smooth_l1_loss(p, l), [p, l])
    add("smooth_l1_beta", lambda p, l: F.smooth_l1_loss(p, l, beta=0.5), [p, l])
    add("smooth_l1_zero", lambda p, l: F.smooth_l1_loss(p, l, beta=0), [p, l])
    ce = F.cross_entropy
    add("ce_smoothing", lambda p, c: ce(p, c.long(), label_smoothing=0.1), [p, c])
    add("ce_ignore", lambda p, c: ce(p, c.long(), ignore_index=-1), [p, hidden])
    add("ce_weights", lambda p, c, w: ce(p, c.long(), weight=w), [p, c, w])
    add("ce_everything", lambda p, c, w: ce(p, c.long(), weight=w, ignore_index=-1, label_smoothing=0.25), [p, hidden, w])
    add("ce_image", lambda p, c: ce(p, c.long(), ignore_index=255, label_smoothing=0.1), [image, labels])
    add("ce_image_weights", lambda p, c, w: ce(p, c.long(), weight=w, ignore_index=255, label_smoothing=0.1), [image, labels, w])
    add("ce_dense_smoothing", lambda p, q: ce(p, q, label_smoothing=0.1), [p, q])
    add("ce_dense_weights", lambda p, q, w: ce(p, q, weight=w, label_smoothing=0.1), [p, q, w])
    add("ce_dense_image", lambda p, q, w: ce(p, q, weight=w), [image, iq, w])
    counts = np.array([[0, 1, 2, 3]] * 5, "float32")
    add("poisson_zeros", lambda p, t: F.poisson_nll_loss(p, t, full=True), [p, counts])
    b, pos = uniform(0, 1, 5, 4), uniform(0.5, 3, 4)
    add("bce_torch", lambda p, b, w: F.binary_cross_entropy_with_logits(p, b, pos_weight=w), [p, b, pos])
    return "torch " + torch.__version__, cases


def main():
    try:
        import mxnet  # noqa: F401
        who, cases = mxnet_cases()
    except ImportError:
        who, cases = torch_cases()
    all_ = json.loads(FILE.read_text()) if FILE.exists() else {}
    all_ = {k: v for k, v in all_.items() if v["by"].split()[0] != who.split()[0]}
    for name, c in cases.items():
        all_[name] = {"by": who, **c}
    lines = [f"{json.dumps(k)}: {json.dumps(json.loads(json.dumps(v), parse_float=lambda t: float(f'{float(t):.9g}')))}"
             for k, v in sorted(all_.items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
