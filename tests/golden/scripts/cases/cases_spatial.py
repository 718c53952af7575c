"""Cases of samplers, correlation, deformable convolution, region pools and proposals."""
import numpy as np

from cases_detection import images_and_rois
from cases_elementwise import describe
from draw import REALS, case
from tensors import Tensor


def images(d, dtype, channels=None, zero=True, kind=None):
    dims = [d.pick(1, 1, 2, 3), channels or d.pick(1, 2, 3), d.pick(1, 2, 3, 5, 7), d.pick(1, 2, 4, 5, 6)]
    if zero and d.number % 11 == 4:
        dims[0] = 0
    return d.values(tuple(dims), dtype, kind or d.pick("normal", "ties", "large", "tiny"))


def between(d, shape, low, high):
    """Odd multiples of 1/16, never on a pixel."""
    return (d.random.randint(low * 8, high * 8, shape) * 2 + 1) / 16.0


@describe("GridGenerator", "spatial", 13)
def grid_generator(name, d):
    dtype, n = d.dtype(REALS), 0 if d.number % 11 == 4 else d.pick(1, 2, 3)
    if d.number % 2:
        shape = (n, 2, d.pick(2, 3, 5), d.pick(2, 4, 17))
        return case(name, [d.values(shape, dtype, d.pick("normal", "special"))], {"transform_type": "warp"})
    size = (d.pick(1, 2, 3, 5), d.pick(2, 3, 4, 17))
    return case(name, [d.values((n, 6), dtype, d.pick("normal", "ties"))],
                {"transform_type": "affine", "target_shape": size})


def grid(d, n, dtype, size, target):
    """Positions between pixels, some outside of the image."""
    def line(pixels):
        at = between(d, (n, *target), -2, pixels + 1)
        return at * 2 / (pixels - 1) - 1 if pixels > 1 else at / 4
    return Tensor(dtype, np.stack([line(size[1]), line(size[0])], 1))


@describe("BilinearSampler", "spatial", 14)
def bilinear_sampler(name, d):
    x = images(d, d.dtype(REALS), kind=d.pick("normal", "ties"))
    where = grid(d, x.shape[0], x.dtype, x.shape[2:], (d.pick(1, 2, 3), d.pick(1, 4, 17)))
    attrs = {"cudnn_off": True} if d.chance(0.2) else {}
    return case(name, [x, where], attrs)


@describe("SpatialTransformer", "spatial", 13)
def spatial_transformer(name, d):
    x = images(d, d.dtype(REALS), kind=d.pick("normal", "ties"))
    turn = np.array([0.8125, -0.4375, 0.1875, 0.375, 0.9375, -0.0625]) * d.pick(1, 0.5, 1.5)
    loc = turn + d.random.randint(-8, 9, (x.shape[0], 6)) / 64.0
    attrs = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (d.pick(2, 3, 5), d.pick(2, 4, 9))}
    if d.chance(0.2):
        attrs["cudnn_off"] = True
    return case(name, [x, Tensor(x.dtype, loc)], attrs)


@describe("Correlation", "spatial", 14)
def correlation(name, d):
    attrs = {}
    for key, choices in (("kernel_size", (1, 1, 3)), ("max_displacement", (1, 0, 2, 3)), ("stride1", (1, 1, 2)),
                         ("stride2", (1, 1, 2)), ("pad_size", (0, 1, 2, 4))):
        attrs[key] = d.pick(*choices)
    if d.chance(0.5):
        attrs["is_multiply"] = False
    least = 2 * (attrs["max_displacement"] + attrs["kernel_size"] // 2 - attrs["pad_size"]) + 1
    shape = (d.pick(1, 2), d.pick(1, 2, 3), max(least, 1) + d.pick(0, 1, 3), max(least, 1) + d.pick(0, 2, 4))
    if d.number % 11 == 4:
        shape = (0,) + shape[1:]
    dtype = d.dtype(REALS)
    return case(name, [d.values(shape, dtype, "normal"), d.values(shape, dtype, "normal")], attrs)


@describe("_contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution", "spatial", 16)
def deformable_convolution(name, d):
    dtype, attrs = d.dtype(REALS), {}
    kernel = (d.pick(1, 2, 3), d.pick(1, 2, 3))
    stride, dilate, pad = ((d.pick(1, 1, 2), d.pick(1, 1, 2)) for _ in range(3))
    pad = (pad[0] - d.pick(0, 1), pad[1] - d.pick(0, 1))
    groups, parts = d.pick(1, 1, 2), d.pick(1, 1, 2)
    channels, filters = groups * parts * d.pick(1, 2), groups * d.pick(1, 2)
    attrs = {"kernel": kernel, "num_filter": filters}
    for key, value, default in (("stride", stride, (1, 1)), ("dilate", dilate, (1, 1)), ("pad", pad, (0, 0)),
                                ("num_group", groups, 1), ("num_deformable_group", parts, 1)):
        if value != default or d.chance(0.3):
            attrs[key] = value
    size = [max((k - 1) * w + 1 - 2 * p, 2) + d.pick(0, 1, 3) for k, w, p in zip(kernel, dilate, pad)]
    out = [(n + 2 * p - (k - 1) * w - 1) // s + 1 for n, p, k, w, s in zip(size, pad, kernel, dilate, stride)]
    n, taps = 0 if d.number % 11 == 4 else d.pick(1, 1, 2), kernel[0] * kernel[1]
    inputs = [d.values((n, channels, *size), dtype, "normal"),
              Tensor(dtype, between(d, (n, parts * 2 * taps, *out), -2, 2))]
    if "Modulated" in name:
        inputs.append(d.values((n, parts * taps, *out), dtype, "unit"))
    inputs.append(d.values((filters, channels // groups, *kernel), dtype, "unit"))
    if d.chance(0.5):
        inputs.append(d.values((filters,), dtype, "normal"))
    else:
        attrs["no_bias"] = True
    # MXNet has the gradient of the modulated one on GPUs only
    wants = [d.number % 2 == 0] * len(inputs) if "Modulated" in name else None
    return case(name, inputs, attrs, wants=wants)


@describe("_contrib_PSROIPooling", "spatial", 13)
def ps_roi_pooling(name, d):
    scale, size = d.pick(1.0, 0.5, 0.25), d.pick(1, 2, 3)
    groups, dims = d.pick(0, 1, 2, 3), d.pick(1, 2)
    attrs = {"spatial_scale": scale, "output_dim": dims, "pooled_size": size}
    if groups:
        attrs["group_size"] = groups
    x, rois = images_and_rois(d, d.dtype(REALS), dims * (groups or size) ** 2, scale, negative=False)
    return case(name, [x, rois], attrs, wants=[True, False])


@describe("_contrib_DeformablePSROIPooling", "spatial", 13)
def deformable_ps_roi_pooling(name, d):
    scale, size, groups, dims = d.pick(1.0, 0.5), d.pick(1, 2, 3), d.pick(1, 2, 3), d.pick(2, 4)
    attrs = {"spatial_scale": scale, "output_dim": dims, "pooled_size": size, "group_size": groups}
    parts = d.pick(0, 1, 2, 3)
    if parts:
        attrs["part_size"] = parts
    if d.chance(0.7):
        attrs["sample_per_part"] = d.pick(2, 3)
    x, rois = images_and_rois(d, d.dtype(REALS), dims * groups**2, scale, negative=False)
    if d.chance(0.3):
        attrs["no_trans"] = True
        return case(name, [x, rois], attrs, wants=[True, False])
    attrs["trans_std"] = d.pick(0.125, 0.25)  # MXNet keeps a float32
    trans = d.values((rois.shape[0], 2 * d.pick(1, 2), parts or size, parts or size), x.dtype, "normal")
    return case(name, [x, rois, trans], attrs, wants=[True, False, True])


@describe("_contrib_RROIAlign", "spatial", 13)
def rotated_roi_align(name, d):
    scale, size = d.pick(1.0, 0.5, 0.25), (d.integer(1, 4), d.integer(1, 4))
    x, rois = images_and_rois(d, d.dtype(REALS), d.pick(1, 2, 3), scale, negative=False)
    rois = np.concatenate([rois.values, d.random.randint(-180, 181, (rois.shape[0], 1))], 1)
    rois[:, 3:5] = np.maximum(rois[:, 3:5] - rois[:, 1:3], 0.25)
    attrs = {"pooled_size": size, "spatial_scale": scale}
    if d.chance(0.5):
        attrs["sampling_ratio"] = d.pick(1, 2, 3)
    return case(name, [x, Tensor(x.dtype, rois)], attrs, wants=[d.number % 2 == 0, False])


@describe("_contrib_Proposal _contrib_MultiProposal", "spatial", 13)
def proposal(name, d):
    dtype = d.dtype(REALS)
    n, h, w = 1 if name == "_contrib_Proposal" else d.pick(1, 2, 3), d.integer(2, 6), d.integer(2, 6)
    attrs, scales, ratios = {}, (4, 8, 16, 32), (0.5, 1, 2)
    if d.chance(0.7):
        scales = attrs["scales"] = d.pick((2,), (1, 2), (2.5, 4))
    if d.chance(0.5):
        ratios = attrs["ratios"] = d.pick((1,), (0.5, 2))
    anchors, stride = len(scales) * len(ratios), 16
    if d.chance(0.5):
        stride = attrs["feature_stride"] = d.pick(4, 8)
    order = d.random.permutation(n * 2 * anchors * h * w)
    scores = (order % 61 / 64.0 if dtype in ("float16", "bfloat16") else order / 4096.0).reshape(n, 2 * anchors, h, w)
    deltas = d.random.randint(-8, 9, (n, 4 * anchors, h, w)) / 32.0
    attrs["rpn_post_nms_top_n"] = d.pick(3, 8, 20)
    if d.chance(0.5):
        attrs["rpn_pre_nms_top_n"] = d.pick(4, 12, 50)
    if d.chance(0.5):
        attrs["threshold"] = d.pick(0.31, 0.5555)
    if d.chance(0.6):
        attrs["rpn_min_size"] = d.pick(1, 4, 30)
    if d.chance(0.2):
        attrs["iou_loss"] = True
    if d.chance(0.6):
        attrs["output_score"] = True
    sizes = np.array([[h * stride - d.pick(0, 3, stride), w * stride - d.pick(0, 5), d.pick(1, 0.5, 1.5)]
                      for _ in range(n)], float)
    inputs = [Tensor(dtype, scores), Tensor(dtype, deltas), Tensor(dtype, sizes)]
    return case(name, inputs, attrs, wants=[False] * 3)


@describe("max_pool_indices", "spatial", 13)
def max_pool_indices(name, d):
    axes = d.pick(1, 2, 2, 3)
    if d.chance(0.15):
        return case(name, [d.values(d.dims(axes + 2, axes + 2, zero=False), d.dtype(REALS), "ties")], {"global_pool": True})
    kernel, stride, dilation = (tuple(d.pick(*choices) for _ in range(axes)) for choices in ((1, 2, 3), (1, 2, 3), (1, 1, 2)))
    pad = tuple(d.integer(0, k // 2 + 1) if w == 1 else 0 for k, w in zip(kernel, dilation))  # no window is empty
    size = [max((k - 1) * w + 1 - 2 * p, 1) + d.pick(0, 1, 4) for k, w, p in zip(kernel, dilation, pad)]
    attrs = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}
    # PyTorch drops windows that begin behind the image
    begins = [-((n + 2 * p - (k - 1) * w - 1) // -s) * s for n, p, k, w, s in zip(size, pad, kernel, dilation, stride)]
    if d.chance(0.5) and all(b < n + p for b, n, p in zip(begins, size, pad)):
        attrs["pooling_convention"] = "full"
    dims = (0 if d.number % 11 == 4 else d.pick(1, 2), d.pick(1, 3), *size)
    return case(name, [d.values(dims, d.dtype(REALS), d.pick("normal", "ties", "large"))], attrs)


@describe("max_unpool", "spatial", 13)
def max_unpool(name, d):
    size = tuple(d.integer(2, 5) for _ in range(d.pick(1, 2, 2, 3)))
    n, c, area = 0 if d.number % 11 == 4 else d.pick(1, 2), d.pick(1, 3), int(np.prod(size))
    parts = (d.integer(1, area + 1),) + (1,) * (len(size) - 1)
    places = np.stack([d.random.permutation(area)[:parts[0]] for _ in range(n * c)] or [np.zeros(0)])
    return case(name, [d.values((n, c, *parts), d.dtype(), "normal"),
                       Tensor("int64", places[:n * c].reshape(n, c, *parts))], {"output_size": size}, wants=[True, False])
