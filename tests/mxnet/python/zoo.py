"""Nets of MXNet's model zoo on Kaon beside MXNet's own library, which is in the wheel.

    zoo.py [--all | NET ...]

MXNet's library draws the parameters and saves them; Kaon loads them. Compared are outputs in float32, imperative and
hybridized, a training step in float64 (where rounding cannot hide a difference), and files that the one library has
exported and the other reads. Without names a few small nets are compared, --all: all 34. A line for each net.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = ['alexnet', 'mobilenet0.25', 'mobilenetv2_0.25', 'resnet18_v1', 'resnet18_v2']
# Sizes of images: as small as the pooling in the nets allows.
SIZES = {'alexnet': 67, 'densenet': 224, 'inception': 299, 'squeezenet': 224, '': 64}
# MXNet keeps lr and momentum in float32: new parameters and running statistics differ by that.
LIMITS = {'outputs': 2e-5, 'gradients': 1e-8, 'updated': 1e-6, 'files': 2e-5}


def size_of(name):
    return next(size for family, size in SIZES.items() if name.startswith(family))


# --- In a process with one of the libraries

class Worker:
    def __init__(self):
        from kaon_mxnet import compat
        compat.install()
        import mxnet as mx
        import numpy as np
        self.mx, self.np = mx, np

    def data(self, name, dtype):
        size = size_of(name)
        values = self.np.random.RandomState(1).uniform(-1, 1, (2, 3, size, size))
        return self.mx.nd.array(values, dtype=dtype)

    def net(self, name):
        net = self.mx.gluon.model_zoo.vision.get_model(name)

        def without_draws(block):
            if isinstance(block, self.mx.gluon.nn.Dropout):
                block._rate = 0
        net.apply(without_draws)
        return net

    def training_step(self, name, net):
        """Gradients, that of the data too, and then the parameters, by their names in the net."""
        mx, gluon = self.mx, self.mx.gluon
        net.cast('float64')
        parameters = net._collect_params_with_prefix()
        trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.05, 'momentum': 0.9, 'wd': 1e-3})
        data = self.data(name, 'float64')
        data.attach_grad()
        with mx.autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(data), mx.nd.array([1, 7]))
        loss.backward()
        results = {'gradients data': data.grad.asnumpy()}
        results.update({'gradients ' + k: p.grad().asnumpy() for k, p in parameters.items() if p.grad_req != 'null'})
        trainer.step(2)
        results.update({'updated ' + k: p.data().asnumpy() for k, p in parameters.items()})
        return results

    def differences(self, results, reference):
        """The largest of each kind, as a part of the largest value."""
        np = self.np
        kinds = sorted({key.split(' ')[0] for key in results})
        found = {}
        for kind in kinds:
            keys = [k for k in results if k.split(' ')[0] == kind]
            assert all(results[k].shape == reference[k].shape for k in keys)
            floor = 1e-6 * max(np.abs(reference[k]).max() for k in keys)  # some gradients are rounding alone
            found[kind] = float(max(np.abs(results[k] - reference[k]).max() /
                                    max(np.abs(reference[k]).max(), floor) for k in keys))
            assert all(np.isfinite(results[k]).all() for k in keys), kind
        return found

    def read_files(self, name, prefix):
        net = self.mx.gluon.SymbolBlock.imports(prefix + '-symbol.json', ['data'], prefix + '-0000.params')
        return {'files ': net(self.data(name, 'float32')).asnumpy()}

    def make(self, name, folder):
        self.mx.random.seed(3)
        net, data = self.net(name), self.data(name, 'float32')
        net.initialize(self.mx.init.Xavier())
        net.hybridize()
        outputs = net(data).asnumpy()
        net.save_parameters(folder + '/parameters')
        net.export(folder + '/mxnet')
        self.np.savez(folder + '/results', **{'outputs ': outputs, 'files ': outputs, **self.training_step(name, net)})
        return {}

    def compare(self, name, folder):
        reference, found = self.np.load(folder + '/results.npz'), {}
        for hybrid in False, True:
            net, data = self.net(name), self.data(name, 'float32')
            net.load_parameters(folder + '/parameters')
            net.hybridize(hybrid)
            results = {'outputs ': net(data).asnumpy()}
            if hybrid:
                net.export(folder + '/kaon')
                results.update(self.read_files(name, folder + '/mxnet'))
            results.update(self.training_step(name, net))
            for kind, value in self.differences(results, reference).items():
                found[kind] = max(value, found.get(kind, 0))
        return found

    def read(self, name, folder):
        return self.differences(self.read_files(name, folder + '/kaon'), self.np.load(folder + '/results.npz'))

    def names(self, *_):
        import re
        try:
            self.mx.gluon.model_zoo.vision.get_model('none of them')
        except ValueError as error:
            return re.findall(r'^\t(\S+)$', str(error), re.M)


def work():
    worker = Worker()
    for line in sys.stdin:
        what, name, folder = json.loads(line)
        try:
            answer = getattr(worker, what)(name, folder)
        except Exception as error:  # pylint: disable=broad-except
            answer = '%s: %s: %s' % (what, type(error).__name__, str(error).strip()[:400])
        print('answer ' + json.dumps(answer))
        sys.stdout.flush()


# --- In the first process

class Library:
    def __init__(self, is_kaon):
        environment = dict(os.environ, MXNET_SUBGRAPH_BACKEND='NONE',
                           PYTHONPATH=os.pathsep.join([os.path.join(HERE, '../../../mxnet/python'), HERE]))
        environment.pop('MXNET_LIBRARY_PATH', None)
        environment['KAON_MXNET_ACTIVATE'] = '1' if is_kaon else '0'
        self.process = subprocess.Popen([sys.executable, '-W', 'ignore', os.path.abspath(__file__), '--worker'],
                                        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, what, name='', folder=''):
        self.process.stdin.write(json.dumps([what, name, folder]) + '\n')
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith('answer '):
                answer = json.loads(line[len('answer '):])
                if isinstance(answer, str):
                    raise RuntimeError(answer)
                return answer
        raise RuntimeError('%s: the process ended with %s' % (what, self.process.wait()))


def main():
    mxnet, kaon = Library(False), Library(True)
    names = sys.argv[1:] or SMALL
    if names == ['--all']:
        names = sorted(mxnet('names'))
    print('%-20s %s' % ('net', ' '.join('%10s' % kind for kind in LIMITS)))
    failed = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                mxnet('make', name, folder)
                found = kaon('compare', name, folder)
                found['files'] = max(found['files'], mxnet('read', name, folder)['files'])
            except RuntimeError as error:
                failed.append(name)
                print('%-20s %s' % (name, error))
                continue
        too_large = [kind for kind, limit in LIMITS.items() if not found[kind] <= limit]
        failed += [name] if too_large else []
        print('%-20s %s %s' % (name, ' '.join('%10.1e' % found[kind] for kind in LIMITS), ' '.join(too_large)))
        sys.stdout.flush()
    if failed:
        print('differ: ' + ', '.join(failed))
        return 1
    print('zoo passed')
    return 0


if __name__ == '__main__':
    if sys.argv[1:] == ['--worker']:
        work()
    else:
        sys.exit(main())
