"""Writes small JPEG and PNG files of every kind, and what MXNet 1.9.1 decodes of them.

    python3.11 -m venv images && images/bin/pip install pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy
    images/bin/python make_images.py files           # *.jpg and *.png
    mx/bin/python make_images.py pixels              # pixels.params: "<file> <flag> <to_rgb>" to uint8 arrays
"""
import pathlib
import struct
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent
Y, X = np.mgrid[0:13, 0:17]
RGB = np.stack([X * 15, Y * 19, (X * 7 + Y * 11) % 256], -1).astype(np.uint8)


def png(name, rows_of, width, height, depth, color, chunks=b"", interlaced=True):
    """A PNG by hand. rows_of(x0, y0, dx, dy): the packed bytes of each row of a pass."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    adam7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b""
    for x0, y0, dx, dy in adam7 if interlaced else [(0, 0, 1, 1)]:
        if x0 < width:
            data += b"".join(b"\0" + row for row in rows_of(x0, y0, dx, dy))
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunks + chunk(b"IDAT", zlib.compress(data, 9)) +
                              chunk(b"IEND", b""))


def files():
    import cv2
    from PIL import Image

    image = Image.fromarray(RGB, "RGB")
    grey, alpha = image.convert("L"), Image.fromarray(np.dstack([RGB, (X * 14).astype(np.uint8)]), "RGBA")
    image.save(HERE / "rgb.jpg", quality=90, subsampling=0)
    image.save(HERE / "half.jpg", quality=80, subsampling=1)
    image.save(HERE / "quarter.jpg", quality=80, subsampling=2)
    image.save(HERE / "progressive.jpg", quality=80, progressive=True)
    image.save(HERE / "restarts.jpg", quality=85, restart_marker_blocks=1)
    image.resize((1, 1)).save(HERE / "pixel.jpg")
    image.resize((33, 1)).save(HERE / "row.jpg")
    grey.save(HERE / "grey.jpg", quality=90)
    image.save(HERE / "direct.jpg", quality=90, keep_rgb=True)  # red, green and blue as they are
    image.convert("CMYK").save(HERE / "cmyk.jpg", quality=95)
    data = bytearray((HERE / "cmyk.jpg").read_bytes())
    data[data.index(b"Adobe") + 11] = 2  # the transform: four channels are YCCK
    (HERE / "ycck.jpg").write_bytes(data)
    exif = Image.Exif()
    exif[0x112] = 6  # the orientation
    image.save(HERE / "turned.jpg", quality=90, exif=exif)
    data = (HERE / "rgb.jpg").read_bytes()
    (HERE / "padded.jpg").write_bytes(data[:20] + b"\0\0\0" + data[20:])  # after the first segment

    image.save(HERE / "rgb.png")
    grey.save(HERE / "grey.png")
    alpha.save(HERE / "rgba.png")
    alpha.convert("LA").save(HERE / "grey_alpha.png")
    palette = image.quantize(16)
    palette.save(HERE / "palette.png")
    palette.save(HERE / "palette_transparent.png", transparency=3)
    image.save(HERE / "rgb_transparent.png", transparency=(15, 19, 18))
    image.convert("1").save(HERE / "black_and_white.png")
    cv2.imwrite(str(HERE / "grey16.png"), (X * 3000 + Y * 100 + X * Y).astype(np.uint16))
    cv2.imwrite(str(HERE / "rgb16.png"), np.stack([X * 3000 + Y, Y * 4000 + X, X * Y * 200], -1).astype(np.uint16))
    png("interlaced.png", lambda x, y, dx, dy: [r[x::dx].tobytes() for r in RGB[y::dy]], 17, 13, 8, 2)
    png("interlaced_narrow.png", lambda x, y, dx, dy: [r[x:2:dx].tobytes() for r in RGB[y::dy]], 2, 13, 8, 2)
    bits = ((X + Y) % 4).astype(np.uint8)

    def packed(row):
        row = np.concatenate([row, np.zeros(-len(row) % 4, np.uint8)]).reshape(-1, 4)
        return bytes((row[:, 0] << 6 | row[:, 1] << 4 | row[:, 2] << 2 | row[:, 3]).astype(np.uint8))

    png("interlaced_two_bits.png", lambda x, y, dx, dy: [packed(r[x::dx]) for r in bits[y::dy]], 17, 13, 2, 0)
    gamma = struct.pack(">I", 4) + b"gAMA" + struct.pack(">I", 100000)
    png("linear.png", lambda x, y, dx, dy: [r.tobytes() for r in RGB], 17, 13, 8, 2,
        gamma + struct.pack(">I", zlib.crc32(gamma[4:])), interlaced=False)


def pixels():
    import mxnet as mx

    found = {}
    for file in sorted(p for p in HERE.iterdir() if p.suffix in (".jpg", ".png")):
        for flag, to_rgb in ((1, 1), (1, 0), (0, 1)):
            found[f"{file.name} {flag} {to_rgb}"] = mx.image.imread(str(file), flag=flag, to_rgb=to_rgb)
    mx.nd.save(str(HERE / "pixels.params"), found)


if __name__ == "__main__":
    {"files": files, "pixels": pixels}[sys.argv[1]]()
