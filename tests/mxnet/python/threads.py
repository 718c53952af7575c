"""Several Python threads call at once: arrays, gradients, cached operators, operators of the program, failures."""
import threading

import numpy as np

import mxnet as mx
from environment import end, raises
from mxnet import autograd, gluon, nd


class Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() * 2))  # waits inside

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register('twice')
class TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Twice()


net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, activation='relu'), gluon.nn.Dense(3))
net.initialize()
net.hybridize()
shared = nd.random.normal(shape=(4, 5))
expected = net(shared).asnumpy()
symbol = mx.sym.Custom(mx.sym.var('data'), op_type='twice')
failures = []


def work(seed):
    random = np.random.RandomState(seed)
    for turn in range(60):
        values = random.uniform(1, 2, (3, 4)).astype('float32')
        x = nd.array(values)
        x.attach_grad()
        assert not autograd.is_recording()
        with autograd.record():
            y = nd.Custom(x * x, op_type='twice').sum()
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 4 * values, rtol=1e-5)
        np.testing.assert_allclose(net(shared).asnumpy(), expected, rtol=1e-5, atol=1e-6)
        if turn % 10 == 0:
            bound = symbol.bind(mx.cpu(), {'data': x})
            np.testing.assert_allclose(bound.forward()[0].asnumpy(), 2 * values, rtol=1e-6)
            text = 'expected by %d' % seed
            raises(mx.MXNetError, lambda: nd.dot(x, x), 'dot')
            raises(mx.MXNetError, lambda: mx.sym.load_json(text))


def run(seed):
    try:
        work(seed)
    except BaseException as error:  # pylint: disable=broad-except
        failures.append((seed, repr(error)))


threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(120)
assert not any(thread.is_alive() for thread in threads), 'a thread hangs'
assert not failures, failures
nd.waitall()
end('threads')
