#!/usr/bin/env python3
"""Writes the files of other tools that tests/interchange reads: make_interchange.py torch|mxnet [folder]

`torch` needs safetensors, numpy, ml_dtypes and torch; `mxnet` needs MXNet 1.9. The folder is
tests/data/interchange. Element i of an array is i * 3 % 7 - 3, of unsigned integers i * 3 % 7, of bool
whether i * 3 % 7 is not 0, so that the tests need no second copy of the values.
"""
import os
import sys


def numbers(shape, dtype):
    import numpy as np
    n = int(np.prod(shape))
    values = np.arange(n) * 3 % 7
    kind = np.dtype(dtype).kind
    if kind == 'b':
        return (values != 0).reshape(shape)
    if kind != 'u':
        values = values - 3
    return values.astype(dtype).reshape(shape)


def write_torch(folder):
    import json
    import pickle
    import zipfile

    import ml_dtypes
    import numpy as np
    import safetensors.numpy
    import safetensors.torch
    import torch

    def path(name):
        return os.path.join(folder, name)

    torch.manual_seed(3)
    dtypes = ['float32', 'float64', 'float16', 'uint8', 'int8', 'uint16', 'int16', 'uint32', 'int32', 'uint64', 'int64',
              'bool']
    arrays = {d: numbers((3, 4), d) for d in dtypes}
    tensors = {d: torch.from_numpy(a.copy()) for d, a in arrays.items()}
    tensors['bfloat16'] = torch.from_numpy(numbers((3, 4), 'float32')).to(torch.bfloat16)
    tensors['scalar'] = torch.tensor(-3.0)
    tensors['empty'] = torch.zeros(0, 5)
    tensors['odd'] = torch.from_numpy(numbers((5,), 'int8'))
    safetensors.torch.save_file(tensors, path('all.safetensors'), metadata={'format': 'pt', 'made by': 'safetensors'})
    safetensors.torch.save_file({'f8': torch.ones(3).to(torch.float8_e4m3fn), 'a': torch.ones(2)}, path('f8.safetensors'))
    # as transformers shards: an index beside the files
    names = ['float32', 'int64', 'bool']
    index = {'metadata': {'total_size': 99}, 'weight_map': {}}
    for i, name in enumerate(names):
        shard = f'model-{i + 1:05}-of-00003.safetensors'
        safetensors.torch.save_file({name: tensors[name]}, path(shard))
        index['weight_map'][name] = shard
    with open(path('model.safetensors.index.json'), 'w') as f:
        json.dump(index, f)

    # npy: versions, orders, byte orders
    for d in dtypes:
        np.save(path(f'{d}.npy'), arrays[d])
    np.save(path('bfloat16.npy'), numbers((3, 4), 'float32').astype(ml_dtypes.bfloat16))
    np.save(path('fortran.npy'), np.asfortranarray(numbers((3, 4, 2), 'float32')))
    np.save(path('scalar.npy'), np.float64(-3))
    np.save(path('empty.npy'), np.zeros((0, 5), 'int16'))
    for d in ['float32', 'int16', 'float64', 'uint64']:
        np.save(path(f'big_{d}.npy'), numbers((3, 4), d).astype(np.dtype(d).newbyteorder('>')))
    np.save(path('big_fortran.npy'), np.asfortranarray(numbers((3, 4), 'int32').astype('>i4')))
    for version in [(2, 0), (3, 0)]:
        with open(path(f'version{version[0]}.npy'), 'wb') as f:
            np.lib.format.write_array(f, arrays['float32'], version=version)
    np.save(path('complex.npy'), np.zeros(3, 'complex64'))
    np.save(path('objects.npy'), np.array([{}, 'x'], dtype=object))
    np.save(path('texts.npy'), np.array(['a', 'bc']))
    np.save(path('structure.npy'), np.zeros(2, dtype=[('a', 'f4'), ('b', 'i2')]))
    np.savez(path('stored.npz'), **arrays)
    np.savez_compressed(path('deflated.npz'), zeros=np.zeros((100, 100), 'float32'), **arrays)
    with zipfile.ZipFile(path('zip64.npz'), 'w') as z:
        with z.open('a.npy', 'w', force_zip64=True) as f:
            np.lib.format.write_array(f, arrays['float32'])

    # .pt
    base = torch.from_numpy(numbers((4, 6), 'float32').copy())
    tree = {
        'tensors': {d: t for d, t in tensors.items() if d != 'odd'},
        'transposed': base.t(), 'part': base[1:3, ::2], 'row': base[2], 'expanded': torch.tensor([2.0]).expand(3),
        'parameter': torch.nn.Parameter(base[0]), 'list': [base[0], (base[1], 'text', None, 1.5, True)],
        'epoch': 3, 'large': 1 << 80, 7: base[3],
    }
    torch.save(tree, path('tree.pt'))
    torch.save({'f8': torch.ones(3).to(torch.float8_e4m3fn)}, path('f8.pt'))
    # whose elements are the negatives of those in the file
    x = torch.complex(torch.tensor([[1., 2., 3.], [4., 5., 6.]]), torch.tensor([[.5, -1.5, 2.5], [3.5, -4.5, 0.]]))
    torch.save({'plain': x.imag.clone(), 'negated': x.conj().imag, 'part': x.conj().imag[:, 1:]}, path('negated.pt'))
    torch.save({'a': base}, path('legacy.pt'), _use_new_zipfile_serialization=False)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(4 * 4 * 5, 3), torch.nn.LayerNorm(3))
    net.train()
    for _ in range(3):
        net(torch.randn(2, 3, 6, 7))  # running statistics other than 0 and 1
    net.eval()
    x = torch.randn(2, 3, 6, 7)
    torch.save({'state_dict': net.state_dict(), 'x': x, 'y': net(x).detach()}, path('net.pt'))
    torch.save(net.state_dict(), path('net_alone.pt'))
    torch.save(net, path('module.pt'))
    torch.jit.script(torch.nn.Linear(2, 2)).save(path('script.pt'))
    for name, kind in [('lstm', torch.nn.LSTM), ('gru', torch.nn.GRU)]:
        layer = kind(3, 4, num_layers=2, bidirectional=True)
        x = torch.randn(5, 2, 3)
        torch.save({'net': layer.state_dict(), 'x': x, 'y': layer(x)[0].detach()}, path(f'{name}.pt'))

    class Evil:
        def __reduce__(self):
            return os.system, ('touch kaon_was_here',)

    torch.save({'a': torch.ones(2), 'b': Evil()}, path('evil.pt'))
    write_checkpoints(torch, path)
    with open(path('evil.states'), 'wb') as f:
        pickle.dump(({0: Evil()}, None), f)


def write_checkpoints(torch, path):
    """Of training: weights, and what loops keep beside them."""
    import argparse
    import collections
    import datetime
    import functools
    import pathlib

    import numpy as np

    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(numbers((2, 3), 'float32')))
        net.bias.copy_(torch.from_numpy(numbers((2,), 'float32')))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0)  # the weights stay
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    history = collections.defaultdict(list)
    history['loss'] += [np.float64(0.5), np.float32(0.25), np.float64(0.125)]
    history['images'].append(torch.ones(2))
    tree = {
        'args': argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath('/out'), weights=torch.ones(2)),
        'net': net.state_dict(), 'optimizer': optimizer.state_dict(), 'history': history,
        'path': pathlib.PurePosixPath('/out'), 'when': datetime.datetime(2026, 1, 2), 'array': np.arange(3),
        'bytes': b'bytes', 'complex': 1j, 'partial': functools.partial(int, base=2), 'loss': torch.nn.MSELoss(),
        'f8': torch.ones(3).to(torch.float8_e4m3fn), 'c64': torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)),
        'sparse': torch.eye(2).to_sparse(), 'keys': {None: 1, (1, 2): 'a', 2.5: torch.ones(2)},
    }
    torch.save(tree, path('checkpoint.pt'))
    torch.save(tree, path('checkpoint4.pt'), pickle_protocol=4)


def write_mxnet(folder):
    import mxnet as mx
    from mxnet import autograd, gluon

    def grad_of(shape, k):
        return (mx.nd.arange(int(mx.nd.array(shape).prod().asscalar())) * 3 % 7 - 3 + k).reshape(shape) / 8

    kinds = {
        'sgd': dict(learning_rate=0.1, momentum=0.9), 'nag': dict(learning_rate=0.1, momentum=0.9),
        'adam': dict(learning_rate=0.1), 'rmsprop': dict(learning_rate=0.1, centered=True),
        'adagrad': dict(learning_rate=0.1), 'adadelta': dict(), 'ftrl': dict(learning_rate=0.1),
        'adamax': dict(learning_rate=0.1), 'ftml': dict(learning_rate=0.1), 'signum': dict(learning_rate=0.1),
        'dcasgd': dict(learning_rate=0.1),
    }
    for name, options in kinds.items():
        half = name in ('sgd', 'adam')
        for dtype in ['float32', 'float16'] if half else ['float32']:
            if dtype == 'float16':
                options = dict(options, multi_precision=True)
            with mx.name.Prefix(''):
                net = gluon.nn.Dense(2, in_units=3, prefix='net_')
            net.initialize(mx.init.One())
            net.cast(dtype)
            trainer = gluon.Trainer(net.collect_params(), name, options, update_on_kvstore=False)

            def step(k):
                for p in net.collect_params().values():
                    with autograd.record():
                        loss = (p.data() * grad_of(p.shape, k).astype(dtype)).sum()
                    loss.backward()
                trainer.step(1)

            def save(which):
                mx.nd.save(os.path.join(folder, f'{name}_{dtype}_{which}.params'),
                           {k: p.data() for k, p in net.collect_params().items()})

            step(0)
            step(1)
            save('before')
            trainer.save_states(os.path.join(folder, f'{name}_{dtype}.states'))
            step(2)
            save('after')


if __name__ == '__main__':
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), '../data/interchange')
    os.makedirs(folder, exist_ok=True)
    {'torch': write_torch, 'mxnet': write_mxnet}[sys.argv[1]](folder)
