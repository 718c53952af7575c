#!/usr/bin/env python3
"""Writes the files of records in this folder with MXNet: python3 make_recordio.py

records.rec, records.idx   records of all lengths, with the magic number in them; records.txt has them as hex, by key
headers.rec, headers.idx   records with headers; headers.txt: flag, id, id2, labels, data
images.lst, images.rec, images.idx   made by MXNet's im2rec, --pass-through --pack-label, of ../images
Needs mxnet==1.9.1 with numpy==1.23.5.
"""
import os
import random
import subprocess
import sys

import mxnet as mx

here = os.path.dirname(os.path.abspath(__file__))
os.chdir(here)
magic = b"\x0a\x23\xd7\xce"

random.seed(1)
records = [bytes(random.randrange(256) for _ in range(n)) for n in range(1, 10)]
records += [b"", magic, magic * 3, b"abcd" + magic, magic + b"abcd", b"ab" + magic + b"cd", b"abcd" + magic + b"efgh" + magic,
            magic + b"x", b"abc" + magic, b"abcd" + magic[:3], magic[1:] + magic, b"abcdefgh" + magic + magic + b"ij"]
with open("records.txt", "w") as out:
    rec = mx.recordio.MXIndexedRecordIO("records.idx", "records.rec", "w")
    for i, record in enumerate(records):
        rec.write_idx(3 * i - 5, record)
        print(3 * i - 5, record.hex() or "-", file=out)
    rec.close()
rec = mx.recordio.MXIndexedRecordIO("records.idx", "records.rec", "r")
assert [rec.read_idx(3 * i - 5) for i in range(len(records))] == records

headers = [(0, 3.5, 7, 0, b"data"), (5, -1.0, 2**40, 2**63, b""), (0, [1.0, 2.5, -3.0], 1, 2, b"abc"),
           (9, [4.25], 3, 0, b"one label in a list")]
with open("headers.txt", "w") as out:
    rec = mx.recordio.MXIndexedRecordIO("headers.idx", "headers.rec", "w")
    for i, (flag, label, id, id2, data) in enumerate(headers):
        packed = mx.recordio.pack(mx.recordio.IRHeader(flag, label, id, id2), data)
        rec.write_idx(i, packed)
        header, back = mx.recordio.unpack(packed)
        assert back == data
        labels = [header.label] if header.flag == 0 else list(header.label)
        print(header.flag, header.id, header.id2, ",".join(f"{l:g}" for l in labels), data.hex() or "-", file=out)
    rec.close()

names = ["rgb.jpg", "rgb.png", "grey.jpg", "palette.png"]
with open("images.lst", "w") as out:
    for i, name in enumerate(names):
        labels = [float(i)] if i < 2 else [i, i + 0.5, -1.0]
        out.write("%d\t%s%s\n" % (10 * i, "".join("%f\t" % l for l in labels), name))
tool = os.path.join(os.path.dirname(mx.__file__), "tools", "im2rec.py")
# the tool imports cv2, which --pass-through does not use
without_cv2 = "import runpy, sys, types; sys.modules['cv2'] = types.ModuleType('cv2'); sys.argv = sys.argv[1:]; " \
              "runpy.run_path(sys.argv[0], run_name='__main__')"
subprocess.run([sys.executable, "-c", without_cv2, tool, "--pass-through", "--pack-label", "images", "../images"],
               check=True)
