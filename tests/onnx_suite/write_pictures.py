#!/usr/bin/env python3
"""write_pictures.py FOLDER: image files for ImageDecoder, as cases for onnx_suite.

FOLDER/pictures/NAME has a model with ImageDecoder, a small image file of a variant of BMP, PNM or TIFF as its input, and
what Pillow reads from it, as write_cases.py lays them out. FOLDER/tolerances.txt gets their lines; those of other groups
stay. Needs onnx, numpy and Pillow.
"""
import io
import os
import shutil
import struct
import sys

import numpy as np
import onnx
import PIL.Image
from onnx import helper

from write_control_flow import write
from write_quantised import record_tolerances

rng = np.random.default_rng(4)
COLOURS = PIL.Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8))


def saved(image, kind, **options):
    f = io.BytesIO()
    image.save(f, format=kind, **options)
    return f.getvalue()


def top_down(bmp):
    """The same pixels with rows from the top, which a negative height says."""
    begin, row = struct.unpack("<I", bmp[10:14])[0], (7 * 3 + 3) // 4 * 4
    rows = [bmp[begin + i * row : begin + (i + 1) * row] for i in range(5)]
    return bmp[:22] + struct.pack("<i", -5) + bmp[26:begin] + b"".join(reversed(rows))


def big_endian_tiff():
    """Three strips of two rows, the last with one, of grey levels with a second number that is dropped."""
    grey = rng.integers(0, 256, (5, 7, 2), np.uint8)
    tags = [(256, 3, [7]), (257, 3, [5]), (258, 3, [8, 8]), (259, 3, [1]), (262, 3, [1]), (273, 4, None), (277, 3, [2]), (278, 3, [2]), (279, 4, [28, 28, 14])]
    directory = 8
    after = directory + 2 + 12 * len(tags) + 4
    extra, entries = b"", b""
    pixels = after + 24
    for tag, kind, values in tags:
        values = values or [pixels, pixels + 28, pixels + 56]
        data = b"".join(struct.pack(">H" if kind == 3 else ">I", v) for v in values)
        if len(data) > 4:
            data, extra = struct.pack(">I", after + len(extra)), extra + data
        entries += struct.pack(">HHI", tag, kind, len(values)) + data.ljust(4, b"\0")
    assert len(extra) == 24
    return b"MM\0*" + struct.pack(">IH", directory, len(tags)) + entries + b"\0\0\0\0" + extra + grey.tobytes(), np.repeat(grey[:, :, :1], 3, 2)


def wide_pgm():
    levels = rng.integers(0, 1001, (5, 7))
    return b"P5\n# of 1000 levels\n7 5 1000\n" + levels.astype(">u2").tobytes(), np.repeat(((levels * 255 + 500) // 1000).astype(np.uint8)[:, :, None], 3, 2)


def text(kind, most, channels):
    levels = rng.integers(0, most + 1, (5, 7 * channels))
    lines = "\n".join((" " if most > 1 else "").join(str(v) for v in row) for row in levels)
    return f"{kind}\n7 5\n{'' if most == 1 else most}\n{lines}\n".encode()


# name: bytes, or bytes with the pixels where Pillow reads them otherwise
FILES = {
    "bmp_24": saved(COLOURS, "bmp"),
    "bmp_top_down": top_down(saved(COLOURS, "bmp")),
    "bmp_32": saved(COLOURS.convert("RGBA"), "bmp"),
    "bmp_grey": saved(COLOURS.convert("L"), "bmp"),
    "bmp_palette": saved(COLOURS.quantize(11), "bmp"),
    "bmp_bits": saved(COLOURS.convert("1"), "bmp"),
    "pnm_colours": saved(COLOURS, "ppm"),
    "pnm_grey": saved(COLOURS.convert("L"), "ppm"),
    "pnm_bits": saved(COLOURS.convert("1"), "ppm"),
    "pnm_wide": wide_pgm(),
    "pnm_text_bits": text("P1", 1, 1),
    "pnm_text_grey": text("P2", 200, 1),
    "pnm_text_colours": text("P3", 255, 3),
    "tiff_colours": saved(COLOURS, "tiff"),
    "tiff_transparent": saved(COLOURS.convert("RGBA"), "tiff"),
    "tiff_grey": saved(COLOURS.convert("L"), "tiff"),
    "tiff_palette": saved(COLOURS.quantize(11), "tiff"),
    "tiff_big_endian": big_endian_tiff(),
    "no_image": (b"no image at all", np.zeros((0, 0, 3), np.uint8)),
    "cut_bmp": (saved(COLOURS, "bmp")[:-40], np.zeros((0, 0, 3), np.uint8)),
    "cut_tiff": (saved(COLOURS, "tiff")[:-40], np.zeros((0, 0, 3), np.uint8)),
    "cut_pnm": (saved(COLOURS, "ppm")[:-1], np.zeros((0, 0, 3), np.uint8)),
}


def main():
    root = sys.argv[1]
    shutil.rmtree(os.path.join(root, "pictures"), ignore_errors=True)
    lines = []
    for i, (name, data) in enumerate(FILES.items()):
        data, pixels = data if isinstance(data, tuple) else (data, None)
        if pixels is None:
            pixels = np.array(PIL.Image.open(io.BytesIO(data)).convert("RGB"))
        kind = ["RGB", "BGR", "Grayscale"][i % 3] if pixels.size else "RGB"
        if kind == "Grayscale":
            pixels = np.array(PIL.Image.fromarray(pixels).convert("L"))[:, :, None]
        elif kind == "BGR":
            pixels = pixels[:, :, ::-1]
        node = helper.make_node("ImageDecoder", ["data"], ["pixels"], pixel_format=kind)
        info = helper.make_tensor_value_info
        graph = helper.make_graph([node], name, [info("data", onnx.TensorProto.UINT8, ["n"])], [info("pixels", onnx.TensorProto.UINT8, ["h", "w", "c"])])
        folder = os.path.join(root, "pictures", name)
        test = os.path.join(folder, "test_data_set_0")
        os.makedirs(test)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), os.path.join(folder, "model.onnx"))
        write([np.frombuffer(data, np.uint8)], test, "input")
        write([np.ascontiguousarray(pixels)], test, "output")
        lines.append(f"pictures/{name} 0 0\n")
    record_tolerances(root, "pictures", lines)


if __name__ == "__main__":
    main()
