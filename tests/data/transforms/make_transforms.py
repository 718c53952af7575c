#!/usr/bin/env python3
"""Writes transforms.params with MXNet's transforms of images: python3 make_transforms.py

Arrays: "image NAME", and for each result the call, "NAME Transform(numbers)", whose numbers the test reads in order.
Needs mxnet==1.9.1 with numpy==1.23.5.
"""
import os

import mxnet as mx
import numpy as np
from mxnet.gluon.data.vision import transforms as T

random = np.random.RandomState(4)


def smooth(height, width, channels):
    """Noise on a slope, so that methods differ but rounding does not decide."""
    y, x = np.mgrid[0:height, 0:width]
    base = 128 + 90 * np.sin(0.7 * x + 0.3 * y)
    image = base[:, :, None] + random.randint(-30, 30, (height, width, channels))
    return np.clip(image, 0, 255).astype(np.uint8)


images = {"small": smooth(7, 10, 3), "tall": smooth(24, 13, 3), "grey": smooth(12, 12, 1), "large": smooth(26, 39, 3)}
images["float"] = images["small"].astype(np.float32) / 7 - 3
images["chw"] = images["tall"].astype(np.float32).transpose(2, 0, 1) / 255
images["square"] = random.rand(2, 9, 9).astype(np.float32)
out = {f"image {name}": mx.nd.array(image, dtype=image.dtype) for name, image in images.items()}


def add(name, call, transform):
    result = transform(out[f"image {name}"])
    out[f"{name} {call}"] = result.astype(result.dtype)


for name in ("small", "tall", "grey", "large", "float"):
    for w, h in ((5, 4), (14, 15), (20, 10), (12, 12), (3, 19), (19, 3)):
        for interp in (0, 1, 2, 3, 4):
            add(name, f"Resize({w},{h},0,{interp})", T.Resize((w, h), interpolation=interp))
    for side in (6, 12, 17):
        for keep in (False, True):
            add(name, f"Resize({side},-1,{int(keep)},1)", T.Resize(side, keep_ratio=keep))
    for w, h in ((4, 5), (7, 7), (16, 9), (9, 17), (18, 20)):
        for interp in (1, 2, 9):
            add(name, f"CenterCrop({w},{h},{interp})", T.CenterCrop((w, h), interpolation=interp))
for numbers in ((0, 0, 7, 7), (2, 1, 5, 4), (1, 3, 4, 2)):
    add("small", f"CropResize({','.join(map(str, numbers))},-1,-1,1)", T.CropResize(*numbers))
    for interp in (0, 1, 3):
        add("small", f"CropResize({','.join(map(str, numbers))},6,5,{interp})",
            T.CropResize(*numbers, size=(6, 5), interpolation=interp))
for name in ("chw", "square"):
    for angle in (0, 30, -75.5, 90, 135, 180, 400):
        for zoom_in, zoom_out in ((0, 0), (1, 0), (0, 1)):
            add(name, f"Rotate({angle},{zoom_in},{zoom_out})", T.Rotate(angle, bool(zoom_in), bool(zoom_out)))
add("tall", "ToTensor()", T.ToTensor())
add("chw", "Normalize(0.485,0.456,0.406,0.229,0.224,0.225)", T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
add("small", "Cast()", T.Cast("float32"))

mx.nd.save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "transforms.params"), out)
print(len(out), "arrays")
