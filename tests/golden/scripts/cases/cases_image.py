"""Cases of images as files have them: (height, width, channels)."""
import numpy as np

from cases_elementwise import describe
from draw import ANY, NUMBERS, REALS, case
from tensors import FLOATS, Tensor


def image(d, dtypes, channels=(3, 3, 1), batch=False):
    dtype = d.dtype(dtypes)
    shape = (d.integer(1, 9), d.integer(1, 9), d.pick(*channels))
    if d.number % 11 == 6:
        shape = (12, 13) + shape[2:]
    if batch and d.chance(0.5):
        shape = (d.pick(1, 2, 3),) + shape
    x = d.random.randint(0, 100 if dtype == "int8" else 256, shape)
    return Tensor(dtype, x % 2 == 1 if dtype == "bool" else x / 4.0 if dtype in FLOATS and d.chance(0.5) else x)


@describe("_image_to_tensor", "image", 10)
def to_tensor(name, d):
    return case(name, [image(d, ("float32", "uint8", "float64", "int32", "float16", "int64", "int8"), batch=True)], wants=[False])


@describe("_image_normalize", "image", 10)
def normalize(name, d):
    x = image(d, REALS, batch=True)
    x = Tensor(x.dtype, np.moveaxis(x.values, -1, -3))
    channels = x.shape[-3]
    n, m = d.pick(1, channels), d.pick(1, channels)
    return case(name, [x], {"mean": tuple(d.pick(0.5, -1.25, 64.0) for _ in range(n)),
                            "std": tuple(d.pick(0.5, 2.0, 0.25) for _ in range(m))})


@describe("_image_crop", "image", 10)
def crop(name, d):
    x = image(d, NUMBERS, batch=True)
    h, w = x.shape[-3:-1]
    height, width = d.integer(1, h + 1), d.integer(1, w + 1)
    return case(name, [x], {"x": d.integer(0, w - width + 1), "y": d.integer(0, h - height + 1), "width": width,
                            "height": height})


@describe("_image_resize", "image", 10)
def resize(name, d):
    x = image(d, ("float32", "float64", "float32", "float16"), batch=True)
    attrs = {"size": (d.integer(1, 12), d.integer(1, 12))} if d.chance(0.6) else {"size": (d.integer(1, 9),)}
    if d.chance(0.5):
        attrs["keep_ratio"] = True
        if len(attrs["size"]) == 1:  # no side may come to 0
            x = Tensor(x.dtype, x.values[..., :8, :8, :])
    return case(name, [x], attrs, wants=[False])


@describe("_image_flip_left_right _image_flip_top_bottom", "image", 10)
def flip(name, d):
    return case(name, [image(d, NUMBERS)], wants=[False])


@describe("_image_random_brightness", "image", 10)
def brightness(name, d):
    factor = d.pick(0.5, 1.25, 0.0, 2.0)
    dtypes = ("float32", "uint8", "float64", "int32", "float16", "int64", "bfloat16")  # MXNet wraps int8
    return case(name, [image(d, dtypes)], {"min_factor": factor, "max_factor": factor}, wants=[False])


@describe("_image_random_contrast _image_random_saturation", "image", 10)
def contrast(name, d):
    factor = d.pick(0.5, 1.3, 0.0, 2.0)
    return case(name, [image(d, REALS)], {"min_factor": factor, "max_factor": factor}, wants=[False])


@describe("_image_random_hue", "image", 10)
def hue(name, d):
    factor = d.pick(0.5, 1.3, 0.1, 0.75)
    return case(name, [image(d, REALS, channels=(3,))], {"min_factor": factor, "max_factor": factor}, wants=[False])


@describe("_image_adjust_lighting", "image", 10)
def lighting(name, d):
    return case(name, [image(d, REALS, channels=(3,))],
                {"alpha": tuple(d.pick(0.1, -0.2, 0.05, 1.5) for _ in range(3))}, wants=[False])
