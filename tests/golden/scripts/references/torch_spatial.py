"""PyTorch: samplers, correlation, deformable convolution, and regions at positions between pixels."""
import math

import torch

from formulae import formula


def axis_of(at, size, kind):
    """The two pixels of one axis that a position is between, and their weights.

    zero: pixels outside are 0. inside: so are positions outside, and past the last pixel there is that pixel. region:
    that goes on for one pixel on both sides.
    """
    if kind == "zero":
        low = at.detach().floor()
        high, above = low + 1, at - low
        weights = [(1 - above) * ((low >= 0) & (low < size)), above * ((high >= 0) & (high < size))]
    else:
        reach = 1 if kind == "region" else 0
        valid = (at >= -reach) & ((at <= size) if reach else (at < size))
        at = torch.clamp(at, min=0)
        low = torch.clamp(at.detach().floor(), max=size - 1)
        high = torch.clamp(low + 1, max=size - 1)
        above = torch.where(low >= size - 1, torch.zeros_like(at), at - low)
        weights = [(1 - above) * valid, above * valid]
    return [torch.clamp(i, 0, size - 1).long() for i in (low, high)], weights


def sampled(image, y, x, kind):
    """image (n, c, h, w) at y, x (n, ...): (n, c, ...)."""
    n, c, h, w = image.shape
    if image.numel() == 0 or y.numel() == 0:
        return image.new_zeros((n, c) + y.shape[1:]) + 0 * (image.sum() + y.sum() + x.sum())
    (rows, down), (columns, across) = axis_of(y, h, kind), axis_of(x, w, kind)
    flat, total = image.reshape(n, c, h * w), 0
    for row, dy in zip(rows, down):
        for column, dx in zip(columns, across):
            index = (row * w + column).reshape(n, 1, -1).expand(n, c, -1)
            total = total + flat.gather(2, index).reshape(n, c, *y.shape[1:]) * (dy * dx).unsqueeze(1)
    return total


def lines(h, w, like):
    """x and y of pixels, -1 to 1."""
    def line(n):
        return torch.linspace(-1, 1, n, dtype=like.dtype) if n > 1 else like.new_zeros(n)
    y, x = torch.meshgrid(line(h), line(w), indexing="ij")
    return x, y


def affine_grid(loc, size):
    x, y = lines(*size, loc)
    points = torch.stack([x, y, torch.ones_like(x)]).reshape(3, -1)
    return (loc.reshape(-1, 2, 3) @ points).reshape(-1, 2, *size)


@formula("GridGenerator")
def grid_generator(a, x):
    if a.get("transform_type") == "affine":
        return affine_grid(x[0], a.tuple("target_shape"))
    h, w = x[0].shape[2:]
    gx, gy = lines(h, w, x[0])
    return torch.stack([gx + x[0][:, 0] * 2 / (w - 1), gy + x[0][:, 1] * 2 / (h - 1)], 1)


def bilinear(image, grid):
    h, w = image.shape[2:]
    return sampled(image, (grid[:, 1] + 1) * (h - 1) / 2, (grid[:, 0] + 1) * (w - 1) / 2, "zero")


@formula("BilinearSampler")
def bilinear_sampler(a, x):
    return bilinear(x[0], x[1])


@formula("SpatialTransformer")
def spatial_transformer(a, x):
    return bilinear(x[0], affine_grid(x[1], a.tuple("target_shape")))


@formula("Correlation")
def correlation(a, x):
    kernel, reach = a.get("kernel_size", 1), a.get("max_displacement", 1)
    stride1, stride2, pad = a.get("stride1", 1), a.get("stride2", 1), a.get("pad_size", 0)
    one, two = (torch.nn.functional.pad(i, (pad,) * 4) for i in x)
    border, radius = reach + kernel // 2, reach // stride2
    out = [-((2 * border - n) // stride1) for n in one.shape[2:]]
    planes = []
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            total = x[0].new_zeros(x[0].shape[0], *out)
            for i in range(kernel):
                for j in range(kernel):
                    def part(image, down, across):
                        y, z = reach + i + down, reach + j + across
                        return image[:, :, y:y + (out[0] - 1) * stride1 + 1:stride1,
                                     z:z + (out[1] - 1) * stride1 + 1:stride1]
                    p, q = part(one, 0, 0), part(two, dy * stride2, dx * stride2)
                    total = total + (p * q if a.get("is_multiply", True) else (p - q).abs()).sum(1)
            planes.append(total)
    return torch.stack(planes, 1) / max(1, kernel * kernel * x[0].shape[1])


@formula("_contrib_DeformableConvolution _contrib_ModulatedDeformableConvolution")
def deformable_convolution(a, x, name):
    x, (kh, kw) = list(x), a.tuple("kernel")
    image, offset = x[0], x[1]
    mask = x.pop(2) if "Modulated" in name else None
    weight, bias = x[2], x[3] if len(x) > 3 else None
    stride, dilate, pad = a.tuple("stride") or (1, 1), a.tuple("dilate") or (1, 1), a.tuple("pad") or (0, 0)
    groups, parts = a.get("num_group", 1), a.get("num_deformable_group", 1)
    n, c = image.shape[:2]
    h, w = offset.shape[2:]
    offset = offset.reshape(n, parts, kh, kw, 2, h, w)
    y = torch.arange(h).reshape(h, 1) * stride[0] - pad[0] + (torch.arange(kh) * dilate[0]).reshape(kh, 1, 1, 1)
    z = torch.arange(w) * stride[1] - pad[1] + (torch.arange(kw) * dilate[1]).reshape(kw, 1, 1)
    positions = [(at + offset[:, :, :, :, k]).reshape(n * parts, kh, kw, h, w) for k, at in enumerate((y, z))]
    columns = sampled(image.reshape(n * parts, c // parts, *image.shape[2:]), *positions,
                      "inside" if mask is None else "zero")
    if mask is not None:
        columns = columns * mask.reshape(n * parts, 1, kh, kw, h, w)
    columns = columns.reshape(n, groups, c // groups * kh * kw, h * w)
    out = (weight.reshape(groups, weight.shape[0] // groups, -1) @ columns).reshape(n, weight.shape[0], h, w)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


def floor_parts(count, parts):
    return [min(max(i * parts // count, 0), parts - 1) for i in range(count)]


def away(v):
    return math.copysign(math.floor(abs(v) + 0.5), v)


def pooled(x, attrs, size, part):
    """Stacks part(roi number, roi, image, k, i, j) over regions, results and parts."""
    image, rois = x[0], x[1].detach().numpy()
    dims = attrs.get("output_dim")
    values = [part(r, roi, image[int(roi[0])], k, i, j) for r, roi in enumerate(rois) for k in range(dims)
              for i in range(size) for j in range(size)]
    out = torch.stack(values) if values else image.new_zeros(0) + 0 * image.sum()
    return out.reshape(len(rois), dims, size, size)


@formula("_contrib_PSROIPooling")
def ps_roi_pooling(a, x):
    scale, size = a.get("spatial_scale"), a.get("pooled_size")
    groups = a.get("group_size", 0) or size
    group = floor_parts(size, groups)

    def edges(begin, end, i, limit):
        begin, end = away(begin) * scale, (away(end) + 1) * scale
        each = max(end - begin, 0.1) / size
        return (min(max(math.floor(i * each + begin), 0), limit), min(max(math.ceil((i + 1) * each + begin), 0), limit))

    def part(_, roi, image, k, i, j):
        top, bottom = edges(roi[2], roi[4], i, image.shape[1])
        left, right = edges(roi[1], roi[3], j, image.shape[2])
        plane = image[(k * groups + group[i]) * groups + group[j]]
        return plane[top:bottom, left:right].mean() if top < bottom and left < right else 0 * plane.sum()

    return pooled(x, a, size, part)


@formula("_contrib_DeformablePSROIPooling")
def deformable_ps_roi_pooling(a, x):
    scale, size, groups = a.get("spatial_scale"), a.get("pooled_size"), a.get("group_size")
    parts, samples = a.get("part_size", 0) or size, a.get("sample_per_part", 1)
    moves, dims, std = not a.get("no_trans", False), a.get("output_dim"), a.get("trans_std", 0.0)
    group, own = floor_parts(size, groups), floor_parts(size, parts)
    classes = x[2].shape[1] // 2 if moves else 1

    def part(r, roi, image, k, i, j):
        positions = []
        for axis, index, first in ((1, i, 2), (0, j, 1)):
            begin, end = away(roi[first]) * scale - 0.5, (away(roi[first + 2]) + 1) * scale - 0.5
            length = max(end - begin, 0.1)
            start = begin + index * length / size
            if moves:
                start = start + x[2][r, k // (dims // classes) * 2 + axis, own[i], own[j]] * std * length
            positions.append([torch.as_tensor(start + s * length / size / samples, dtype=image.dtype)
                              for s in range(samples)])
        plane, total, count = image[(k * groups + group[i]) * groups + group[j]], 0 * image.sum(), 0
        for y in positions[0]:
            for z in positions[1]:
                if not (-0.5 <= y <= image.shape[1] - 0.5 and -0.5 <= z <= image.shape[2] - 0.5):
                    continue
                at = [torch.clamp(p, 0, n - 1) for p, n in zip((y, z), plane.shape)]
                total = total + sampled(plane[None, None], at[0].reshape(1, 1), at[1].reshape(1, 1), "inside").sum()
                count += 1
        return total / max(count, 1)

    return pooled(x, a, size, part)


@formula("_contrib_RROIAlign")
def rotated_roi_align(a, x):
    image, rois = x[0], x[1].detach()
    scale, size, ratio = a.get("spatial_scale"), a.tuple("pooled_size"), a.get("sampling_ratio", -1)
    regions = []
    for roi in rois:
        across, down = (max(float(roi[k]) * scale, 1.0) for k in (3, 4))
        angle = float(roi[5]) * math.pi / 180

        def line(length, count):
            n = ratio if ratio > 0 else math.ceil(length / count - 1e-9)
            return -length / 2 + (torch.arange(count * n, dtype=image.dtype) + 0.5) * (length / count / n), n

        (v, n), (u, m) = line(down, size[0]), line(across, size[1])
        v, u = torch.meshgrid(v, u, indexing="ij")
        y = v * math.cos(angle) - u * math.sin(angle) + float(roi[2]) * scale
        z = u * math.cos(angle) + v * math.sin(angle) + float(roi[1]) * scale
        values = sampled(image[int(roi[0])][None], y[None], z[None], "region")
        regions.append(torch.nn.functional.avg_pool2d(values, (n, m))[0])
    return torch.stack(regions) if regions else image.new_zeros(0, image.shape[1], *size) + 0 * image.sum()


@formula("max_pool_indices")
def max_pool_indices(a, x):
    axes = x[0].ndim - 2
    pool = (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)[axes - 1]
    if a.get("global_pool", False):
        return list(pool(x[0], tuple(x[0].shape[2:]), return_indices=True))
    if x[0].shape[0] == 0:  # PyTorch takes other axes for the batch
        values, places = max_pool_indices(a, [x[0].new_zeros((1,) + x[0].shape[1:])])
        return [values[:0] + 0 * x[0].sum(), places[:0]]
    return list(pool(x[0], a.tuple("kernel"), a.tuple("stride"), a.tuple("pad"), a.tuple("dilation"),
                     a.get("pooling_convention") == "full", return_indices=True))


@formula("max_unpool")
def max_unpool(a, x):
    size = a.tuple("output_size")
    n, c = x[0].shape[:2]
    out = x[0].new_zeros(n, c, math.prod(size))
    parts = math.prod(x[0].shape[2:])
    return out.scatter(2, x[1].reshape(n, c, parts), x[0].reshape(n, c, parts)).reshape(n, c, *size)
