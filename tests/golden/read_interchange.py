#!/usr/bin/env python3
"""Reads what Kaon wrote with the libraries themselves: read_interchange.py <kaon-convert> [folder]

Converts the files of tests/data/interchange to each kind by kaon-convert, and compares every array, bit for bit, with
what the library reads from the original. Needs safetensors, numpy, ml_dtypes and torch.
"""
import os
import subprocess
import sys
import tempfile


def main(convert, folder):
    import ml_dtypes
    import numpy as np
    import safetensors.torch
    import torch

    def as_numpy(t):
        if isinstance(t, np.ndarray):
            return t.view(ml_dtypes.bfloat16) if t.dtype.kind == 'V' else t
        return t.detach().to(torch.float32).numpy().astype(ml_dtypes.bfloat16) if t.dtype == torch.bfloat16 else \
            t.detach().numpy()

    def flat(tree, name=''):
        if isinstance(tree, torch.Tensor):
            return {name: tree}
        items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else []
        return {k: v for key, part in items for k, v in flat(part, f'{name}.{key}' if name else f'{key}').items()}

    def original(path):
        if path.endswith('.safetensors'):
            return safetensors.torch.load_file(path)
        if path.endswith('.npz'):
            return dict(np.load(path))
        return flat(torch.load(path, weights_only=True))

    compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in ['all.safetensors', 'stored.npz', 'deflated.npz', 'tree.pt', 'net.pt', 'lstm.pt']:
            expected = original(os.path.join(folder, name))
            for kind, options in [('a.safetensors', []), ('a.npz', []), ('b.npz', ['--compress']),
                                  ('m.safetensors.index.json', ['--shard-bytes', '200'])]:
                out = os.path.join(scratch, kind)
                subprocess.run([convert, os.path.join(folder, name), out] + options, check=True, stdout=subprocess.DEVNULL)
                if kind.endswith('.json'):
                    import json
                    got = {}
                    for tensor, shard in json.load(open(out))['weight_map'].items():
                        got[tensor] = safetensors.torch.load_file(os.path.join(scratch, shard))[tensor]
                else:
                    got = original(out)
                assert set(got) == set(expected), (name, kind, set(got) ^ set(expected))
                for tensor, value in expected.items():
                    a, b = as_numpy(value), as_numpy(got[tensor])
                    assert a.shape == b.shape and a.dtype == b.dtype, (name, kind, tensor, a.dtype, b.dtype)
                    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes(), (name, kind, tensor)
                    compared += 1
    print(f'{compared} arrays are the same')


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), '../data/interchange'))
