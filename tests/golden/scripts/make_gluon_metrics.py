#!/usr/bin/env python3
"""Makes data/gluon_metrics.json: mx.metric over three batches, with reset_local() after the first.

A case has the batches, each a list of labels and a list of predictions, flat with their shapes, and what get() gives
after each of them and get_global() at the end; NaN is null. Cases of metrics that MXNet lacks (by "numpy") are computed
here from their definitions. golden_metrics_test.cpp makes the same metrics, by name.
"""
import json
import math
import os
import pathlib
import warnings

warnings.filterwarnings("ignore")
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet import metric  # noqa: E402

FILE = pathlib.Path(__file__).parent.parent / "data" / "gluon_metrics.json"
rng = np.random.RandomState(11)


def softmax(*shape):
    e = np.exp(rng.normal(size=shape))
    return (e / e.sum(1, keepdims=True)).astype("float32")


def labels(n, *shape):
    return rng.randint(0, n, shape).astype("float32")


def flat(a):
    return {"shape": list(a.shape), "values": [float(f"{v:.9g}") for v in np.asarray(a, "float64").ravel()]}


def number(v):
    v = float(v)
    return None if math.isnan(v) else v


def main():
    cases = {}

    def add(name, make, batches):
        """batches: lists of (label, pred)."""
        m = make()
        values = []
        for i, pairs in enumerate(batches):
            m.update([mx.nd.array(l) for l, _ in pairs], [mx.nd.array(p) for _, p in pairs])
            values.append(number(m.get()[1]))
            if i == 0:
                m.reset_local()
        write(name, "mxnet " + mx.__version__, batches, values, number(m.get_global()[1]))

    def write(name, by, batches, values, total):
        cases[name] = {"by": by, "values": values, "global": total,
                       "batches": [[[flat(l) for l, _ in b], [flat(p) for _, p in b]] for b in batches]}

    two = [[(labels(2, n), softmax(n, 2))] for n in (6, 9, 5)]
    two_pairs = [[(labels(2, n), softmax(n, 2)), (labels(2, 4), softmax(4, 2))] for n in (3, 6, 5)]
    never = [[(np.zeros(4, "float32"), np.tile(np.array([[0.9, 0.1]], "float32"), (4, 1)))] for _ in range(3)]
    many = [[(labels(4, n), softmax(n, 4))] for n in (8, 11, 5)]
    for average in ("macro", "micro"):
        for kind, batches in (("", two), ("_pairs", two_pairs), ("_never", never)):
            add(f"f1_{average}{kind}", lambda: metric.F1(average=average), batches)
            add(f"mcc_{average}{kind}", lambda: metric.MCC(average=average), batches)
    add("accuracy", metric.Accuracy, many)
    add("top_2", lambda: metric.TopKAccuracy(2), many)
    add("ce", metric.CrossEntropy, many)
    add("nll", lambda: metric.NegativeLogLikelihood(eps=1e-3), many)
    add("perplexity", lambda: metric.Perplexity(None), many)
    add("perplexity_ignore", lambda: metric.Perplexity(ignore_label=1), many)
    add("perplexity_nothing", lambda: metric.Perplexity(ignore_label=0), never)
    zero = [[(np.array([0, 1], "float32"), np.array([[0, 1], [0.5, 0.5]], "float32"))]] * 3
    add("perplexity_zero", lambda: metric.Perplexity(None), zero)
    add("pcc", metric.PCC, many)
    add("pcc_two", metric.PCC, two)
    add("pcc_never", metric.PCC, never)
    grows = [[(labels(k, 9), labels(k, 9))] for k in (2, 5, 3)]
    add("pcc_classes", metric.PCC, grows)
    pairs = [[(x, (x * 0.5 + rng.normal(size=x.shape)).astype("float32"))]
             for x in (rng.normal(size=s).astype("float32") for s in ((7, 1), (7, 1), (7, 1)))]
    add("mae", metric.MAE, pairs)
    add("mse", metric.MSE, pairs)
    add("pearson_macro", metric.PearsonCorrelation, pairs)
    flat_ = [[(np.ones((3, 1), "float32"), pairs[0][0][1][:3])], pairs[1], pairs[2]]
    add("pearson_flat", metric.PearsonCorrelation, flat_)
    add("loss", metric.Loss, pairs)
    add("custom", lambda: metric.CustomMetric(lambda l, p: float(np.abs(l - p).max())), pairs)
    add("custom_counts", lambda: metric.np(lambda l, p: (float(np.abs(l - p).sum()), 2)), pairs)

    # of all samples: reset_local() of MXNet's micro average keeps them, and its get_global() gives 0
    def own(name, figure, batches):
        def of(some):
            l = np.concatenate([l.ravel() for b in some for l, _ in b])
            p = np.concatenate([p.reshape(len(l_.ravel()), -1) for b in some for l_, p in b])
            return figure(l.astype("float64"), p.astype("float64"))
        values = [of(batches[:1]), of(batches[1:2]), of(batches[1:])]
        write(name, "numpy " + np.__version__, batches, [number(v) for v in values], number(of(batches)))

    def auc(l, p):
        p = p[:, -1]
        one, zero_ = p[l > 0], p[l <= 0]
        if not len(one) or not len(zero_):
            return math.nan
        return np.mean([[1.0 if a > b else 0.5 if a == b else 0.0 for b in zero_] for a in one])

    own("pearson_micro", lambda l, p: np.corrcoef(l, p[:, 0])[0, 1], pairs)
    shifted = [[(l + 1000, p - 5000)] for ((l, p),) in pairs]
    own("pearson_shifted", lambda l, p: np.corrcoef(l, p[:, 0])[0, 1], shifted)
    own("rmse", lambda l, p: math.sqrt(np.mean((l - p[:, 0]) ** 2)), pairs)
    ties = [[(labels(2, n), (rng.randint(0, 4, n) / 4).astype("float32"))] for n in (9, 20, 13)]
    own("auc", auc, two)
    own("auc_ties", auc, ties)
    own("auc_never", auc, never)
    for c in range(4):
        def f1(l, p, c=c):
            says = p.argmax(1)
            right, wrong = np.sum((l == c) & (says == c)), np.sum((l == c) != (says == c))
            return 2 * right / (2 * right + wrong) if right + wrong else 0
        own(f"class_f1_{c}", f1, many)
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(cases.items())) + "\n}\n")


if __name__ == "__main__":
    main()
