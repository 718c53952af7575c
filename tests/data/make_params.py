#!/usr/bin/env python3
"""Writes the small array files that today's MXNet cannot write any more: python3 make_params.py [folder]

Needs Python's standard library only: the bytes are laid out here. Every array holds 0, 1, 2, ... in its element type.
"""
import pathlib
import struct
import sys

LIST = 0x112
MARKS = {1: 0xF993FAC8, 2: 0xF993FAC9, 3: 0xF993FACA}
TYPES = {0: "f", 1: "d", 2: "e", 3: "B", 4: "i", 5: "b", 6: "q", 7: "?", 8: "h", 9: "H", 10: "I", 11: "Q"}
BFLOAT16 = 12


def values(shape, dtype):
    count = 1
    for dim in shape:
        count *= dim
    if dtype == BFLOAT16:
        return b"".join(struct.pack("<f", i)[2:] for i in range(count))
    return struct.pack(f"<{count}{TYPES[dtype]}", *range(count))


def array(version, shape, dtype=0, device=(1, 0)):
    """shape None: MXNet's array that is none."""
    head = struct.pack("<I", MARKS[version]) if version else b""
    if version >= 2:
        head += struct.pack("<i", 0)  # dense
    if shape is None:
        return head + struct.pack("<i", -1 if version == 3 else 0)
    head += struct.pack("<i", len(shape)) + struct.pack(f"<{len(shape)}{'q' if version else 'I'}", *shape)
    return head + struct.pack("<iii", *device, dtype) + values(shape, dtype)


def save(path, arrays, names=()):
    text = struct.pack("<QQQ", LIST, 0, len(arrays)) + b"".join(arrays) + struct.pack("<Q", len(names))
    for name in names:
        text += struct.pack("<Q", len(name.encode())) + name.encode()
    path.write_bytes(text)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for version in (0, 1):
        save(folder / f"v{version}.params", [array(version, (2, 3)), array(version, (4,), 6), array(version, None)],
             ["arg:weight", "aux:count", "none"])
    save(folder / "gpu.params", [array(2, (2, 2), device=(2, 0)), array(2, (3,), device=(3, 0))], ["on_gpu", "pinned"])
    save(folder / "bfloat16.params", [array(2, (2, 3), BFLOAT16)], ["b"])
    save(folder / "integers.params", [array(2, (2, 3), t) for t in range(8, 12)],
         ["int16", "uint16", "uint32", "uint64"])
    save(folder / "mixed.nd", [array(0, (2,)), array(1, (2,)), array(2, (2,)), array(3, (2,)), array(3, None)])


main()
