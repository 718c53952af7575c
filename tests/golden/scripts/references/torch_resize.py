"""PyTorch: operators that give images another size."""
import torch
import torch.nn.functional as nn

from formulae import formula


def resized(x, size, **options):
    if x.numel() == 0:
        return x.new_zeros(x.shape[:2] + tuple(size)) + 0 * x.sum()
    return nn.interpolate(x, size=tuple(size), **options)


@formula("_contrib_BilinearResize2D")
def bilinear_resize(a, x):
    mode, sizes = a.get("mode", "size"), []
    for axis, name in ((2, "height"), (3, "width")):
        n, scale = x[0].shape[axis], a.get("scale_" + name)
        if mode == "like":
            n = x[1].shape[axis]
        elif mode == "odd_scale":
            n = int((n - 1) * scale) + 1 if n % 2 else int(n * scale)
        elif mode.startswith("to_"):
            wrong = n % 2 != (0 if "even" in mode else 1)
            n += (1 if mode.endswith("up") else -1) if wrong else 0
        else:
            n = int(n * scale) if scale else a.get(name, 1)
        sizes.append(n)
    image = x[0][:, :, :1 if sizes[0] == 1 else None, :1 if sizes[1] == 1 else None]  # MXNet: one is the first
    return resized(image, sizes, mode="bilinear", align_corners=bool(a.get("align_corners", True)))


@formula("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(a, x):
    size = a.tuple("output_size") or (1,)
    size = (size[0], size[-1])
    if x[0].numel() == 0:
        return x[0].new_zeros(x[0].shape[:2] + size) + 0 * x[0].sum()
    return nn.adaptive_avg_pool2d(x[0], size)


@formula("UpSampling")
def up_sampling(a, x):
    scale = a.get("scale")
    if a.get("sample_type") == "bilinear":
        return nn.conv_transpose2d(x[0], x[1], stride=scale, padding=scale // 2, groups=x[0].shape[1])
    size = (x[0].shape[2] * scale, x[0].shape[3] * scale)
    large = [resized(i, size, mode="nearest") for i in x]
    return torch.cat(large, 1) if a.get("multi_input_mode", "concat") == "concat" else sum(large)


@formula("Crop")
def crop(a, x):
    h, w = x[1].shape[2:] if len(x) == 2 else a.tuple("h_w")
    y, z = a.tuple("offset") or (0, 0)
    if a.get("center_crop"):
        y, z = (x[0].shape[2] - h) // 2, (x[0].shape[3] - w) // 2
    return x[0][:, :, y:y + h, z:z + w]
