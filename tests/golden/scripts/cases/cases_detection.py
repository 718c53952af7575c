"""Cases of object detection: boxes, anchors, regions of images."""
import numpy as np

from cases_elementwise import describe
from draw import REALS, case
from tensors import Tensor


def batch(d, low=1, high=3):
    """Sizes in front; sometimes one is 0."""
    dims = [d.pick(1, 2, 3) for _ in range(d.integer(low, high))]
    if d.number % 11 == 4:
        dims[0] = 0
    return tuple(dims)


def boxes(d, shape, dtype, center=False):
    """(..., 4) of a few bits, so that 16-bit arithmetic keeps them; others in float32 and float64 at times."""
    few = dtype in ("float16", "bfloat16") or d.chance(0.5)
    r = d.random
    size = int(np.prod(shape))
    begin = r.randint(0, 8, (2, size)) / 16.0 if few else r.rand(2, size) / 2
    length = r.randint(1, 8, (2, size)) / 16.0 if few else r.rand(2, size) / 2 + 0.02
    end = length if center else begin + length
    return np.stack([begin[0], begin[1], end[0], end[1]], -1).reshape(shape + (4,))


def threshold(d):
    """No quotient of small integers."""
    return d.pick(0.31, 0.55, 0.1234, 0.7071)


@describe("_contrib_box_nms", "detection", 30)
def box_nms(name, d):
    dtype, shape = d.dtype(REALS), batch(d, 0, 3) if d.number % 11 != 4 else (2, 0)
    n = d.pick(1, 5, 12, 33)
    has_id, center = d.chance(0.6), d.chance(0.3)
    score, start, ids = (1, 2, 0) if d.chance(0.6) else (4, 0, 5)
    width = d.pick(6, 6, 7)
    x = d.random.randint(-3, 4, shape + (n, width)).astype(np.float64)
    x[..., score] = d.random.randint(0, 40 if d.chance(0.5) else 6, shape + (n,)) / 16.0  # with ties
    if dtype in ("float32", "float64") and d.chance(0.3):
        x[..., score] = np.where(d.random.rand(*x.shape[:-1]) < 0.2, np.nan, x[..., score])
    x[..., ids] = d.random.randint(0, 3, shape + (n,))
    x[..., start:start + 4] = boxes(d, shape + (n,), dtype, center)
    attrs = {"overlap_thresh": threshold(d)}
    if (score, start) != (1, 2):
        attrs.update(score_index=score, coord_start=start)
    if has_id:
        attrs["id_index"] = ids
        if d.chance(0.4):
            attrs["background_id"] = d.integer(0, 3)
        if d.chance(0.3):
            attrs["force_suppress"] = True
    if d.chance(0.4):
        attrs["topk"] = d.pick(0, 1, 3, 50)
    if d.chance(0.5):
        attrs["valid_thresh"] = d.pick(0.25, 1.0, -1.0)
    if center:
        attrs["in_format"] = "center"
    if d.chance(0.3):
        attrs["out_format"] = d.pick("center", "corner")
    return case(name, [Tensor(dtype, x)], attrs)


@describe("_contrib_box_iou", "detection", 30)
def box_iou(name, d):
    dtype, center = d.dtype(REALS), d.chance(0.4)
    return case(name, [Tensor(dtype, boxes(d, batch(d), dtype, center)),
                       Tensor(dtype, boxes(d, (d.pick(1, 3, 7), d.pick(1, 2))[:d.integer(1, 3)], dtype, center))],
                {"format": "center"} if center else {})


@describe("_contrib_box_decode", "detection", 30)
def box_decode(name, d):
    dtype, corner = d.dtype(REALS), d.chance(0.5)
    samples, n = d.pick(1, 2, 3), d.pick(1, 2, 7, 40)
    if d.number % 11 == 4:
        samples = 0
    attrs = {f"std{i}": d.pick(0.1, 0.5, 2.0) for i in range(4) if d.chance(0.6)}
    if d.chance(0.4):
        attrs["clip"] = d.pick(0.25, 1.0)
    if corner:
        attrs["format"] = "corner"
    return case(name, [d.values((samples, n, 4), dtype, "normal"), Tensor(dtype, boxes(d, (1, n), dtype, not corner))],
                attrs)


@describe("_contrib_box_encode", "detection", 30)
def box_encode(name, d):
    dtype = d.dtype(REALS)
    samples, n, m = d.pick(1, 2, 3), d.pick(1, 2, 7, 30), d.pick(1, 2, 5)
    if d.number % 11 == 4:
        samples = 0
    shape = (samples, n)
    means = np.array([0, 0, 0, 0] if d.chance(0.5) else [0.125, -0.25, 0.5, 1])
    stds = np.array([1, 1, 1, 1] if d.chance(0.3) else [0.125, 0.25, 0.5, 0.25])
    return case(name, [Tensor(dtype, d.random.choice([1, 0, -1, 0.75], shape)),
                       Tensor(dtype, d.random.randint(0, m, shape)), Tensor(dtype, boxes(d, shape, dtype)),
                       Tensor(dtype, boxes(d, (samples, m), dtype)), Tensor(dtype, means), Tensor(dtype, stds)])


@describe("_contrib_bipartite_matching", "detection", 30)
def bipartite_matching(name, d):
    dtype, shape = d.dtype(REALS), batch(d, 0, 3) if d.number % 11 != 4 else (0,)
    scores = d.values(shape + (d.integer(1, 8), d.integer(1, 8)), dtype, d.pick("ties", "normal"))
    attrs = {"threshold": d.pick(1e-12, -4.0, 0.25, 4.0)}
    if d.chance(0.4):
        attrs["is_ascend"] = True
    if d.chance(0.4):
        attrs["topk"] = d.pick(0, 1, 2, 20)
    return case(name, [scores], attrs)


@describe("_contrib_MultiBoxPrior", "detection", 30)
def prior(name, d):
    attrs = {"sizes": tuple(d.pick(0.1, 0.25, 0.5, 0.9) for _ in range(d.integer(1, 4))),
             "ratios": tuple(d.pick(1.0, 2.0, 0.5, 3.0) for _ in range(d.integer(1, 4)))}
    if d.chance(0.4):
        attrs["clip"] = True
    if d.chance(0.4):
        attrs["steps"] = (d.pick(0.1, 0.25), d.pick(0.2, 0.3))
    if d.chance(0.4):
        attrs["offsets"] = (d.pick(0.0, 0.25), d.pick(0.5, 1.0))
    shape = (d.pick(1, 2), d.pick(1, 3), d.integer(1, 6), d.integer(1, 6))
    return case(name, [d.values(shape, d.dtype(REALS), "normal")], attrs)


@describe("_contrib_MultiBoxDetection", "detection", 30)
def detection(name, d):
    dtype = d.dtype(REALS)
    samples, classes, n = d.pick(1, 2, 3), d.pick(2, 3, 5), d.pick(1, 6, 20, 45)
    order = d.random.permutation(samples * classes * n) if d.chance(0.6) else d.random.randint(0, 9, samples * classes * n)
    probability = ((order % 997) / 1024.0).reshape(samples, classes, n)
    if dtype in ("float16", "bfloat16"):
        probability = (order % 61 / 64.0).reshape(samples, classes, n)
    attrs = {"nms_threshold": threshold(d)}
    if d.chance(0.3):
        attrs["clip"] = False
    if d.chance(0.5):
        attrs["threshold"] = d.pick(0.25, 0.5)
    if d.chance(0.3):
        attrs["background_id"] = d.pick(-1, 1)
    if d.chance(0.2):
        attrs["nms_threshold"] = d.pick(0.0, 1.0, 2.0)
    if d.chance(0.3):
        attrs["force_suppress"] = True
    if d.chance(0.4):
        attrs["variances"] = (0.5, 0.25, 1.0, 0.125)
    if d.chance(0.4):
        attrs["nms_topk"] = d.pick(0, 1, 4, 100)
    # offsets of few values: a suppressed box is so by far
    offsets = d.random.choice([0.0, 0.0, 0.5, -0.5], (samples, n * 4))
    return case(name, [Tensor(dtype, probability), Tensor(dtype, offsets), Tensor(dtype, boxes(d, (1, n), dtype))], attrs)


@describe("_contrib_MultiBoxTarget", "detection", 30)
def target(name, d):
    dtype = d.dtype(REALS)
    samples, classes, n, m, width = d.pick(1, 2, 3), d.pick(2, 4), d.pick(1, 7, 24, 60), d.pick(1, 2, 4), d.pick(5, 5, 6)
    label = -np.ones((samples, m, width))
    for i in range(samples):
        valid = d.integer(0, m + 1)
        label[i, :valid, 0] = d.random.randint(0, classes - 1, valid)
        label[i, :valid, 1:5] = boxes(d, (valid,), dtype)
        label[i, :valid, 5:] = 1
    attrs = {"overlap_threshold": threshold(d)}
    if d.chance(0.2):
        attrs["overlap_threshold"] = -1.0
    if d.chance(0.3):
        attrs["ignore_label"] = d.pick(-2.0, 9.0)
    if d.chance(0.5):
        attrs.update(negative_mining_ratio=d.pick(0.5, 1.0, 3.0), negative_mining_thresh=threshold(d))
        if d.chance(0.3):
            attrs["minimum_negative_samples"] = 2
    if d.chance(0.3):
        attrs["variances"] = (0.5, 0.25, 1.0, 0.125)
    return case(name, [Tensor(dtype, boxes(d, (1, n), dtype)), Tensor(dtype, label),
                       d.values((samples, classes, n), dtype, "normal")], attrs)


def images_and_rois(d, dtype, channels, scale, negative=True):
    x = d.values((d.pick(1, 2), channels, d.integer(1, 9), d.integer(1, 9)), dtype, d.pick("normal", "ties"))
    r = d.pick(1, 3, 6)
    rois = np.zeros((r, 5))
    rois[:, 0] = d.random.randint(-1 if negative else 0, x.shape[0], r)
    high = np.array([x.shape[3], x.shape[2]]) / scale
    rois[:, 1:3] = np.floor(d.random.rand(r, 2) * high * 4) / 4 - d.pick(0, 1)
    rois[:, 3:5] = rois[:, 1:3] + np.floor(d.random.rand(r, 2) * high * 4) / 4 + 0.25
    return x, Tensor(dtype, rois)


@describe("_contrib_ROIAlign", "detection", 40)
def roi_align(name, d):
    scale, size = d.pick(1.0, 0.5, 0.25), (d.integer(1, 4), d.integer(1, 4))
    attrs = {"pooled_size": size, "spatial_scale": scale}
    channels = d.pick(1, 2, 3)
    if d.chance(0.3):
        attrs["position_sensitive"] = True
        channels *= size[0] * size[1]
    if d.chance(0.5):
        attrs["sample_ratio"] = d.pick(1, 2, 3)
    if d.chance(0.3):
        attrs["aligned"] = True
    x, rois = images_and_rois(d, d.dtype(REALS), channels, scale, negative=False)  # MXNet's is garbage
    return case(name, [x, rois], attrs, wants=[True, False])


@describe("ROIPooling", "detection", 40)
def roi_pooling(name, d):
    scale = d.pick(1.0, 0.5, 0.25)
    x, rois = images_and_rois(d, d.dtype(REALS), d.pick(1, 2, 3), scale)
    return case(name, [x, rois], {"pooled_size": (d.integer(1, 4), d.integer(1, 4)), "spatial_scale": scale},
                wants=[True, False])
