"""Programs as MXNet's tutorials on hybridizing write them, and what those say that they do."""
import contextlib
import io
import json
import os
import tempfile
import time
import warnings

import numpy as np

import mxnet as mx
from environment import end, raises
from mxnet import gluon, nd, sym
from mxnet.gluon import nn


class LeNet(gluon.HybridBlock):
    """Children by name scope, a parameter of its own, and a print that hybridizing silences."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(6, kernel_size=5)
            self.pool1 = nn.MaxPool2D(pool_size=2)
            self.conv2 = nn.Conv2D(16, kernel_size=5)
            self.pool2 = nn.MaxPool2D(pool_size=2)
            self.fc1 = nn.Dense(120)
            self.fc2 = nn.Dense(84)
            self.fc3_weight = self.params.get('fc3_weight', shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        print(type(x).__name__)
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.reshape((0, -1))))
        x = F.relu(self.fc2(x))
        return F.dot(x, fc3_weight, transpose_b=True)


def printed(call, *arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = call(*arguments)
    return result, out.getvalue().split()


def hybrid_blocks():
    net = LeNet()
    net.initialize()
    x = nd.random_normal(shape=(16, 1, 28, 28))
    expected, words = printed(net, x)
    assert words == ['NDArray'] and expected.shape == (16, 10)
    assert printed(net, x)[1] == ['NDArray']
    net.hybridize()
    y, words = printed(net, x)
    assert words == ['Symbol'], 'traced once'
    np.testing.assert_allclose(y.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    assert printed(net, x)[1] == [], 'and not again'
    for options in dict(static_alloc=True), dict(static_alloc=True, static_shape=True):
        net.hybridize(**options)
        for _ in range(2):
            np.testing.assert_allclose(net(x).asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)

    net.export('model', epoch=1)
    with open('model-symbol.json') as text:
        graph = json.load(text)
    assert [n['op'] for n in graph['nodes']].count('Convolution') == 2
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        again = gluon.SymbolBlock.imports('model-symbol.json', ['data'], 'model-0001.params')
    np.testing.assert_allclose(again(x).asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)

    symbol = net(sym.var('data'))
    assert symbol.list_arguments()[0] == 'data' and len(symbol.list_arguments()) == 10
    symbol.save('lenet.json')
    net.collect_params().save('lenet.params')
    assert os.path.getsize('lenet.params') > 4 * sum(p.data().size for p in net.collect_params().values())


def mlp():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Dense(256, activation='relu'), nn.Dense(128, activation='relu'), nn.Dense(2))
    net.collect_params().initialize()
    return net


def benchmark():
    def seconds(net, x):
        nd.waitall()
        start = time.time()
        for _ in range(1000):
            net(x)
        nd.waitall()
        return time.time() - start
    net, x = mlp(), nd.random_normal(shape=(1, 512))
    before = net(x).asnumpy()
    print('before hybridizing: %.4f sec' % seconds(net, x))
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-4, atol=1e-5)
    print('after hybridizing: %.4f sec' % seconds(net, x))
    program = net(sym.var('data'))
    assert str(program) == '<Symbol %s>' % program.name
    assert json.loads(program.tojson())['nodes'][0]['op'] == 'null'


def function_spaces():
    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.hidden, self.output = nn.Dense(10), nn.Dense(2)

        def hybrid_forward(self, F, x):
            print(type(x).__name__, F.__name__)
            return self.output(F.relu(self.hidden(x)))
    net, x = Net(), nd.random.normal(shape=(1, 4))
    net.initialize()
    assert printed(net, x)[1] == ['NDArray', 'mxnet.ndarray']
    net.hybridize()
    assert printed(net, x)[1] == ['Symbol', 'mxnet.symbol']
    assert printed(net, x)[1] == []


def what_symbols_refuse():
    a, b = nd.array([[1, 2, 3], [4, 5, 6]]), nd.array([[1, 2, 3]])

    def block(forward):
        class Block(gluon.HybridBlock):
            def hybrid_forward(self, F, x):
                return forward(F, x)
        made = Block()
        made.hybridize()
        return made
    raises(AttributeError, lambda: block(lambda F, x: x.reshape((x.shape[0], -1)))(a), "no attribute 'shape'")

    def add_in_place(_, x):
        x += 1
        return x
    raises(mx.base.NotImplementedForSymbol, lambda: block(add_in_place)(a), '__iadd__')
    raises(AttributeError, lambda: block(lambda F, x: F.array(x.asnumpy()))(a))
    # + on arrays broadcasts, + on symbols does not
    plus = block(lambda F, x: x + F.ones((1, 1)))
    raises(mx.MXNetError, lambda: plus(a).wait_to_read(), '(1, 1)')
    plus.hybridize(False)
    np.testing.assert_allclose(plus(a).asnumpy(), a.asnumpy() + 1)
    np.testing.assert_allclose(block(lambda F, x: F.broadcast_add(x, F.ones((1, 1))))(a).asnumpy(), a.asnumpy() + 1)
    first = block(lambda F, x: x[0])
    first.hybridize(False)
    np.testing.assert_allclose(first(a).asnumpy(), [1, 2, 3])
    first.hybridize()
    np.testing.assert_allclose(first(a).asnumpy(), a.asnumpy())  # the first output, which is all of it

    for name in 'add', 'sub', 'mul', 'div', 'mod', 'equal', 'not_equal', 'greater', 'lesser_equal':
        call = 'broadcast_' + name
        bound = getattr(sym, call)(sym.var('a'), sym.var('b')).bind(mx.cpu(), {'a': a, 'b': b})
        np.testing.assert_allclose(bound.forward()[0].asnumpy(), getattr(nd, call)(a, b).asnumpy())


os.chdir(tempfile.mkdtemp())
mx.random.seed(42)
hybrid_blocks()
benchmark()
function_spaces()
what_symbols_refuse()
end('tutorials')
