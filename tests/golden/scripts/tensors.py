"""Arrays with Kaon's nine element types, their bytes for a pipe, and the file that the tests read."""
import json
import struct
import zlib

import numpy as np

FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7, "bfloat16": 12}
FLOATS = ("float32", "float64", "float16", "bfloat16")


def round_to_bfloat16(values):
    """float32 numbers that bfloat16 holds, nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


class Tensor:
    """dtype is Kaon's name; values a NumPy array, of float32 for bfloat16."""

    def __init__(self, dtype, values):
        self.dtype = dtype
        with np.errstate(all="ignore"):
            if dtype == "bfloat16":
                self.values = round_to_bfloat16(np.asarray(values).astype(np.float32))
            else:
                self.values = np.ascontiguousarray(np.asarray(values).astype(dtype)).reshape(np.shape(values))

    @property
    def shape(self):
        return tuple(int(n) for n in self.values.shape)

    @property
    def is_float(self):
        return self.dtype in FLOATS

    def data(self):
        if self.dtype == "bfloat16":
            return (self.values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return self.values.tobytes()

    def wire(self):
        return self.dtype, self.shape, self.values.tobytes()

    @staticmethod
    def from_wire(wire):
        dtype, shape, data = wire
        stored = "float32" if dtype == "bfloat16" else dtype
        return Tensor(dtype, np.frombuffer(data, stored).reshape(shape))


def head(seed, output, shape):
    """The head gradient of an output: multiples of 1/32 that every floating dtype holds, in (-2, 2)."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64((seed * 31 + output * 7919) % 2**32)
    mask = np.uint64(0xFFFFFFFF)
    x = (x * np.uint64(2654435761)) & mask
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(2246822519)) & mask
    x ^= x >> np.uint64(13)
    return (((x >> np.uint64(26)).astype(np.float64) - 32 + 0.5) / 16).reshape(shape)


def write_golden(path, index, tensors):
    """zlib of: the index as JSON, its length first (8 bytes), and the arrays as a list in MXNet's format V3."""
    text = json.dumps(index, separators=(",", ":")).encode()
    parts = [struct.pack("<Q", len(text)), text, struct.pack("<QQQ", 0x112, 0, len(tensors))]
    for t in tensors:
        parts.append(struct.pack("<IiI", 0xF993FACA, 0, len(t.shape)) + struct.pack(f"<{len(t.shape)}q", *t.shape))
        parts.append(struct.pack("<iii", 1, 0, FLAGS[t.dtype]) + t.data())
    parts.append(struct.pack("<Q", 0))
    raw = b"".join(parts)
    path.write_bytes(struct.pack("<Q", len(raw)) + zlib.compress(raw, 9))
    return len(raw)
