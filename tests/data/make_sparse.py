#!/usr/bin/env python3
"""Lets MXNet 1.9.1 compute sparse.nd, which tests/ops/sparse reads: python3 make_sparse.py [folder]

Ran with CPython 3.11, mxnet==1.9.1 and numpy==1.23.5 from PyPI (newer numpy lacks what mxnet imports).
Each array is named <case>/<function>/<part>: the arguments 0, 1, ..., `attrs`, and the results out0, out1, ...
"""
import pathlib
import sys

import mxnet as mx
import numpy as np

random = np.random.RandomState(20)
sparse = mx.nd.sparse
saved = {}
case = 0


def dense(*shape, low=-8):
    return mx.nd.array(random.randint(low, 9, shape) / 4)


def matrix(m, n, density):
    """Zero but for some elements; density 0: nothing is stored; 1: all is."""
    values = random.randint(1, 9, (m, n)) / 4 * np.where(random.rand(m, n) < 0.5, -1, 1)
    values[random.rand(m, n) >= density] = 0
    if 0 < density < 1:
        values[random.randint(m)] = 0  # an empty row
    return mx.nd.array(values)


def add(function, arguments, results, attrs=()):
    global case
    parts = {str(i): a for i, a in enumerate(arguments)}
    if attrs:
        parts["attrs"] = mx.nd.array(attrs, dtype="float64")
    parts.update({f"out{i}": r for i, r in enumerate(results)})
    saved.update({f"{case}/{function}/{name}": a.copy() for name, a in parts.items()})
    case += 1


def functions(m, n, density):
    x, y, k = matrix(m, n, density), matrix(m, n, density), 66 if n == 7 else int(random.randint(1, 12))
    rows, csr = x.tostype("row_sparse"), x.tostype("csr")
    more_rows, more_csr = y.tostype("row_sparse"), y.tostype("csr")
    add("cast_row_sparse", [x], [rows]), add("cast_csr", [x], [csr])
    b, c = dense(n, k), dense(m, k)
    add("dot", [csr, b], [sparse.dot(csr, b)])
    product = sparse.dot(csr, c, transpose_a=True)
    add("dot_transposed", [csr, c], [product.tostype("default"), product])
    b.attach_grad()
    with mx.autograd.record():
        out = sparse.dot(csr, b)
    out.backward(c)
    add("dot_gradient", [csr, b, c], [b.grad])
    ids = mx.nd.array(random.randint(0, m, random.randint(1, 6)), dtype="int64")
    add("retain", [rows, ids], [sparse.retain(rows, ids)])
    add("add_row_sparse", [rows, more_rows], [sparse.elemwise_add(rows, more_rows)])
    add("add_csr", [csr, more_csr], [sparse.elemwise_add(csr, more_csr)])
    add("times", [rows, csr], [rows * 1.5, csr * 1.5])
    for axis in (0, 1):
        add("square_sum", [rows], [mx.nd._internal._square_sum(rows, axis=axis)], [axis])
    if density:
        add("getnnz", [csr], [mx.nd.contrib.getnnz(csr)]), add("getnnz", [csr], [mx.nd.contrib.getnnz(csr, axis=1)], [1])
    add("where", [csr, x + 1, y], [mx.nd.where(csr, x + 1, y)])
    begin = int(random.randint(m))
    end = int(random.randint(begin + 1, m + 1))
    if density:
        add("slice", [csr], [csr[begin:end]], [begin, end])


def updates(m, n, density):
    gradient = matrix(m, n, density).tostype("row_sparse")
    lr, wd, rescale, clip = 0.125, 0.25, 0.5, 1.0
    common = dict(lr=lr, rescale_grad=rescale, clip_gradient=clip)

    def update(name, function, states, attrs=(), **more):
        weight = dense(m, n)
        arrays = [weight] + [dense(*s, low=1) for s in states]
        before = [a.copy() for a in arrays]
        function(arrays[0], gradient, *arrays[1:], out=arrays[0], **common, **more)
        add(name, [gradient] + before, arrays, attrs)

    for lazy in (True, False):
        update("sgd_update", mx.nd.sgd_update, [], [lazy], wd=wd, lazy_update=lazy)
        update("sgd_mom_update", mx.nd.sgd_mom_update, [(m, n)], [lazy], wd=wd, momentum=0.5, lazy_update=lazy)
        update("adam_update", mx.nd.adam_update, [(m, n)] * 2, [lazy], wd=wd, lazy_update=lazy)
    update("adagrad_update", sparse.adagrad_update, [(m, n)])
    update("group_adagrad_update", mx.nd.contrib.group_adagrad_update, [(m, 1)])
    # MXNet changes the rows of the gradient alone where weight and states are row_sparse; all rows are stored here.
    weight, z, k = (dense(m, n, low=1) for _ in range(3))
    stored = [a.tostype("row_sparse") for a in (weight, z, k)]
    mx.nd.ftrl_update(stored[0], gradient, stored[1], stored[2], out=stored[0], wd=wd, **common)
    add("ftrl_update", [gradient, weight, z, k], [a.tostype("default") for a in stored])


def embedding(m, n, count):
    weight, ids, head = dense(m, n), mx.nd.array(random.randint(0, m, count)), dense(count, n)
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        out = mx.nd.Embedding(ids, weight, input_dim=m, output_dim=n, sparse_grad=True)
    out.backward(head)
    add("embedding", [weight.tostype("default"), ids, head], [out, weight.grad])


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for m, n, density in [(1, 1, 1), (1, 7, 0.5), (6, 1, 0.4), (5, 3, 0), (5, 3, 1), (4, 9, 0.3), (17, 13, 0.2),
                          (33, 6, 0.1), (3, 65, 0.5)]:
        functions(m, n, density)
        updates(m, n, density)
    for m, n, count in [(1, 1, 1), (1, 3, 5), (7, 2, 1), (20, 5, 9), (6, 33, 40)]:
        embedding(m, n, count)
    mx.nd.waitall()  # save does not wait before it writes how much a sparse array stores
    mx.nd.save(str(folder / "sparse.nd"), saved)
    print(case, "cases")


main()
