#!/usr/bin/env python3
"""write_learning.py FOLDER [COUNT [SEED [OPERATOR]]]: operators of ai.onnx.ml, as cases for onnx_suite.

The same as write_language.py for FOLDER/learning: random trees, linear models and what is done to features, with ONNX
Runtime's results. Needs onnx and onnxruntime.
"""
import numpy as np
import onnx
from onnx import numpy_helper

from write_language import write_group

POST = ["NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def features(d, n, kinds=(np.float32, np.float32, np.float64, np.int64, np.int32)):
    """Few different numbers, so that nodes meet equal ones."""
    kind = d.of(*kinds)
    x = d.integers(5, (d.up_to(6), n), np.int64, -4)
    return (x / 2).astype(kind) if np.dtype(kind).kind == "f" else x.astype(kind)


def labels(d, n, name):
    if d.chance(0.3):
        return {"classlabels_strings": [f"class {i}" for i in range(n)]}
    return {name: [int(v) for v in d.rng.permutation(20)[:n] - 5]}


def trees(d, width, kind, targets, positive, whole):
    """Random trees, as the attributes of TreeEnsembleClassifier and -Regressor. whole: each leaf has numbers of all targets."""
    a = {f"nodes_{k}": [] for k in "treeids nodeids featureids modes values truenodeids falsenodeids missing_value_tracks_true".split()}
    w = {f"{kind}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    modes = d.of(MODES[:1], MODES[:1], MODES)
    for tree in range(d.up_to(4)):
        count = 0

        def add(depth):
            nonlocal count
            node = count
            count += 1
            leaf = depth == 0 or node > 0 and d.chance(0.3)
            row = len(a["nodes_treeids"])
            for k, v in zip(a, [tree, node, 0 if leaf else int(d.rng.integers(width)), "LEAF" if leaf else d.of(*modes),
                                0.0 if leaf else float(d.rng.integers(-4, 5)) / 2, 0, 0, int(d.chance(0.3))]):
                a[k].append(v)
            if leaf:
                ids = [int(i) for i in (range(targets) if whole or d.chance(0.5) else d.rng.permutation(targets)[:1])]
                for i in ids:
                    value = float(np.float32(d.rng.random() if positive else d.rng.standard_normal()))
                    for k, v in zip(w, [tree, node, i, value]):
                        w[k].append(v)
            else:
                a["nodes_truenodeids"][row] = add(depth - 1)
                a["nodes_falsenodeids"][row] = add(depth - 1)
            return node

        add(d.up_to(4))
    if d.chance(0.5):
        del a["nodes_missing_value_tracks_true"]
    return a | w


def with_nan(d, x):
    if x.dtype.kind == "f" and d.chance(0.4):
        x[d.rng.random(x.shape) < 0.2] = np.nan
    return x


def regressor(d):
    width, targets = d.up_to(4), d.up_to(3)
    post, whole = d.of(*POST[:5]), d.chance(0.6)
    if not whole:  # where no leaf has a target's number, ONNX Runtime leaves out its base value and transform
        post = "NONE"
    a = trees(d, width, "target", targets, False, whole)
    a |= dict(n_targets=targets, post_transform=post, aggregate_function=d.of("SUM", "SUM", "AVERAGE", "MIN", "MAX"))
    if whole and d.chance(0.4):
        a["base_values"] = [0.25 * i - 0.5 for i in range(targets)]
    return a, [with_nan(d, features(d, width))], [], {0: None}


def classifier(d):
    width, classes = d.up_to(4), d.of(2, 2, 3, 4)
    # one score for two classes: of two scores ONNX Runtime looks at the second alone, and says 0 or 1 for the label
    alone = classes == 2
    positive = d.chance(0.5)
    a = trees(d, width, "class", 1 if alone else classes, positive, True)
    a |= labels(d, classes, "classlabels_int64s") | dict(post_transform=d.of(*POST[:5]))
    if d.chance(0.4):
        a["base_values"] = [0.25] if alone else [0.25 * i - 0.5 for i in range(classes)]
    return a, [with_nan(d, features(d, width))], [], {0: None, 1: None}


def ensemble(d):
    width, targets = d.up_to(4), d.up_to(3)
    kind = d.of(np.float32, np.float64)
    nodes, leaves, roots, members = [], [], [], []
    modes = d.of([0], list(range(6)), [0, 6])

    def child(depth):
        if depth == 0 or d.chance(0.3):
            leaves.append((int(d.rng.integers(targets)), d.rng.standard_normal()))
            return 1, len(leaves) - 1
        return 0, add(depth)

    def add(depth):
        row = len(nodes)
        nodes.append(None)
        mode = d.of(*modes)
        if mode == 6:
            members.append((row, [float(v) for v in d.rng.permutation(8)[: d.up_to(3)] - 4]))
        (yes_leaf, yes), (no_leaf, no) = child(depth - 1), child(depth - 1)
        nodes[row] = (int(d.rng.integers(width)), mode, float(d.rng.integers(-4, 5)) / 2, yes, no, yes_leaf, no_leaf, int(d.chance(0.3)))
        return row

    for _ in range(d.up_to(3)):
        roots.append(add(d.up_to(4)))
    column = lambda i: [n[i] for n in nodes]
    tensor = lambda v, t: numpy_helper.from_array(np.array(v, t))
    a = dict(tree_roots=roots, nodes_featureids=column(0), nodes_modes=tensor(column(1), np.uint8), nodes_splits=tensor(column(2), kind),
             nodes_truenodeids=column(3), nodes_falsenodeids=column(4), nodes_trueleafs=column(5), nodes_falseleafs=column(6),
             leaf_targetids=[l[0] for l in leaves], leaf_weights=tensor([l[1] for l in leaves], kind), n_targets=targets,
             aggregate_function=d.of(0, 1, 1, 2, 3), post_transform=d.of(0, 0, 3))  # ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX
    if members:
        a["membership_values"] = tensor([v for _, m in sorted(members) for v in m + [np.nan]], kind)
    if d.chance(0.5):
        a["nodes_missing_value_tracks_true"] = column(7)
    x = features(d, width, (kind,))
    if members:  # of which ONNX Runtime takes 0.5 for 0
        x = np.round(x)
    return a, [with_nan(d, x)], [], {0: None}


def floats(d, n, scale=1.0):
    return [float(np.float32(v)) for v in d.rng.standard_normal(n) * scale]


def linear_regressor(d):
    width, targets = d.up_to(4), d.up_to(3)
    a = dict(coefficients=floats(d, width * targets), targets=targets, post_transform=d.of(*POST[:4]))
    if d.chance(0.7):
        a["intercepts"] = floats(d, targets)
    return a, [features(d, width, (np.float32,))], [], {0: None}


def linear_classifier(d):
    width, classes = d.up_to(4), d.of(2, 2, 3, 4)
    rows = 1 if classes == 2 and d.chance(0.5) else classes
    a = dict(coefficients=floats(d, width * rows), intercepts=floats(d, rows), post_transform=d.of(*POST[:5]), multi_class=int(d.chance(0.5)))
    return a | labels(d, classes, "classlabels_ints"), [features(d, width)], [], {0: None, 1: None}


def scaler(d):
    width = d.up_to(5)
    n = d.of(1, width)
    return dict(offset=floats(d, n), scale=floats(d, n)), [features(d, width)], [], {0: None}


def normalizer(d):
    return dict(norm=d.of("MAX", "L1", "L2")), [features(d, d.up_to(5))], [], {0: None}


def imputer(d):
    width = d.up_to(5)
    n, x = d.of(1, width), features(d, width, (np.float32, np.int64))
    if x.dtype == np.int64:
        return dict(imputed_value_int64s=[int(v) for v in d.integers(9, (n,))], replaced_value_int64=1), [x], [], {0: None}
    missing = d.of(float("nan"), 1.0)
    return dict(imputed_value_floats=floats(d, n), replaced_value_float=missing), [with_nan(d, x)], [], {0: None}


def one_hot_encoder(d):
    if d.chance(0.3):
        x = np.array([[d.of("a", "b", "c", "?") for _ in range(3)] for _ in range(2)], object)
        return dict(cats_strings=["a", "b", "c"], zeros=1), [x], [], {0: None}
    return dict(cats_int64s=[-2, 0, 1, 3], zeros=1), [features(d, 3, (np.int64, np.float32))], [], {0: None}


def feature_vectorizer(d):
    rows, kind = d.up_to(4), d.of(np.float32, np.int64)
    widths = [d.up_to(4) for _ in range(d.up_to(3))]
    return dict(inputdimensions=widths), [d.integers(9, (rows, w), kind) for w in widths], [], {0: None}


def support_regressor(d):
    width, n = d.up_to(4), d.up_to(5)
    a = dict(kernel_type=d.of("LINEAR", "POLY", "RBF", "SIGMOID"), kernel_params=[0.3, 0.5, 2.0], rho=floats(d, 1),
             coefficients=floats(d, n), support_vectors=floats(d, n * width), n_supports=n)
    if d.chance(0.2):
        a["one_class"] = 1
    return a, [features(d, width, (np.float32,))], [], {0: None}


def support_classifier(d):
    width, classes = d.up_to(4), d.of(2, 3, 4)
    per_class = [d.up_to(3) for _ in range(classes)]
    n, pairs = sum(per_class), classes * (classes - 1) // 2
    a = dict(kernel_type=d.of("LINEAR", "POLY", "RBF", "SIGMOID"), kernel_params=[0.3, 0.5, 2.0], rho=floats(d, pairs),
             coefficients=floats(d, n * (classes - 1)), support_vectors=floats(d, n * width), vectors_per_class=per_class,
             post_transform=d.of(*POST[:5]))
    if d.chance(0.5):
        a |= dict(prob_a=[-abs(v) - 0.5 for v in floats(d, pairs)], prob_b=floats(d, pairs, 0.3))
    return a | labels(d, classes, "classlabels_ints"), [features(d, width)], [], {0: None, 1: None}


OPERATORS = {
    "TreeEnsemble": ensemble,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "SVMClassifier": support_classifier,
    "SVMRegressor": support_regressor,
    "Scaler": scaler,
    "Normalizer": normalizer,
    "Imputer": imputer,
    "OneHotEncoder": one_hot_encoder,
    "FeatureVectorizer": feature_vectorizer,
}
SHARES = {"TreeEnsemble": 2, "TreeEnsembleClassifier": 4, "TreeEnsembleRegressor": 3, "LinearClassifier": 2, "SVMClassifier": 2}

if __name__ == "__main__":
    write_group("learning", OPERATORS, SHARES, "ai.onnx.ml")
