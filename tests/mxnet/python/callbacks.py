"""Operators and functions that the program computes: on arrays, in graphs, with gradients, states and errors."""
import gc

import numpy as np

import mxnet as mx
from environment import end, live, raises
from mxnet import autograd, gluon, nd


class Scale(mx.operator.CustomOp):
    """y = factor * x; counts its calls in a state, and waits for values in the middle."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        self.seen = float(in_data[0].asnumpy().sum())
        self.assign(out_data[0], req[0], in_data[0] * self.factor)
        aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert self.seen == float(in_data[0].asnumpy().sum()), 'the forward of this very call'
        np.testing.assert_allclose(out_data[0].asnumpy(), in_data[0].asnumpy() * self.factor, rtol=1e-6)
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register('scale')
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor='2'):
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def list_auxiliary_states(self):
        return ['calls']

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [(1,)]

    def create_operator(self, ctx, shapes, dtypes):
        return Scale(self.factor)


class Fails(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ValueError('the forward of the program')

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        raise ValueError('the backward of the program')


class FailsLater(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        raise ValueError('the backward of the program')


@mx.operator.register('fails')
class FailsProp(mx.operator.CustomOpProp):
    def __init__(self, later='0'):
        super().__init__()
        self.later = later == '1'

    def create_operator(self, ctx, shapes, dtypes):
        return FailsLater() if self.later else Fails()


def on_arrays():
    x, calls = nd.array([1, 2, 3]), nd.zeros(1)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, calls, op_type='scale', factor=3)
        z = (y * y).sum()
    z.backward()
    np.testing.assert_allclose(y.asnumpy(), [3, 6, 9])
    np.testing.assert_allclose(x.grad.asnumpy(), 18 * x.asnumpy())
    assert calls.asscalar() == 1
    with mx.util.np_shape(True):  # without it 0 is a size that is not known
        assert nd.Custom(nd.zeros((0, 2)), calls, op_type='scale').shape == (0, 2)


def in_graphs():
    symbol = mx.sym.Custom(mx.sym.var('data') + 1, op_type='scale', factor='4', name='times')
    assert symbol.list_arguments() == ['data'] and symbol.list_auxiliary_states() == ['times_calls']
    assert symbol.list_outputs() == ['times_output']
    executor = symbol.simple_bind(mx.cpu(), data=(2, 3), grad_req='write')
    executor.arg_dict['data'][:] = 1
    for turn in range(3):
        out = executor.forward(is_train=True)[0]
        np.testing.assert_allclose(out.asnumpy(), 8)
        executor.backward(nd.ones((2, 3)))
        np.testing.assert_allclose(executor.grad_dict['data'].asnumpy(), 4)
        assert executor.aux_dict['times_calls'].asscalar() == turn + 1
    again = mx.sym.load_json(symbol.tojson())
    assert again.list_auxiliary_states() == ['times_calls']
    np.testing.assert_allclose(
        again.bind(mx.cpu(), {'data': nd.ones((1, 2))}, aux_states=[nd.zeros(1)]).forward()[0].asnumpy(), 8)

    class Block(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.dense = gluon.nn.Dense(4)
                self.calls = self.params.get('calls', shape=(1,), init='zeros', grad_req='null')

        def hybrid_forward(self, F, x, calls):
            return F.Custom(self.dense(x), calls, op_type='scale', factor=2)
    block = Block()
    block.initialize()
    x = nd.random.normal(shape=(3, 5))
    gradients = []
    for hybrid in False, True:
        block.hybridize(hybrid)
        for _ in range(2):
            with autograd.record():
                loss = (block(x) ** 2).sum()
            loss.backward()
        gradients.append((loss.asscalar(), block.dense.weight.grad().asnumpy()))
    np.testing.assert_allclose(gradients[0][0], gradients[1][0], rtol=1e-5)
    np.testing.assert_allclose(gradients[0][1], gradients[1][1], rtol=1e-4, atol=1e-5)
    assert block.calls.data().asscalar() == 4


def errors():
    x = nd.ones(3)
    y = nd.Custom(x, op_type='fails')  # the call itself does not fail
    raises(mx.MXNetError, y.wait_to_read, 'fails')
    raises(mx.MXNetError, (y + 1).asnumpy)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type='fails', later=1)
    y.backward()
    raises(mx.MXNetError, x.grad.asnumpy, 'backward')
    x.attach_grad()
    bound = mx.sym.Custom(mx.sym.var('data'), op_type='fails').bind(mx.cpu(), {'data': nd.ones(3)})
    raises(mx.MXNetError, lambda: bound.forward()[0].asnumpy(), 'fails')
    raises(mx.MXNetError, lambda: nd.Custom(x, op_type='nobody'), 'nobody')
    raises(mx.MXNetError, lambda: nd.Custom(x, op_type='scale', color='red'), 'scale')
    nd.waitall()


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        y, = self.saved_tensors
        return dy * y * (1 - y)


class Breaks(autograd.Function):
    def forward(self, x):
        return x * 1

    def backward(self, dy):
        raise KeyError('the backward of the program')


def functions():
    x = nd.array([-1, 0, 2])
    x.attach_grad()
    with autograd.record():
        loss = (Sigmoid()(x) * nd.array([1, 2, 3])).sum()
    loss.backward()
    s = 1 / (1 + np.exp(-x.asnumpy()))
    np.testing.assert_allclose(x.grad.asnumpy(), np.array([1, 2, 3]) * s * (1 - s), rtol=1e-5)
    with autograd.record():
        y = Breaks()(x)

    def backward():
        y.backward()
        x.grad.wait_to_read()
    raises(mx.MXNetError, backward, 'backward')


def no_leaks():
    def step():
        x, calls = nd.ones(4), nd.zeros(1)
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x, calls, op_type='scale', factor=2) + Sigmoid()(x)
        y.backward()
        x.grad.wait_to_read()
    step()
    gc.collect()  # a Function is in a cycle with its callbacks
    before = live('array')
    for _ in range(200):
        step()
    gc.collect()
    assert live('array') == before, (before, live('array'))


on_arrays()
in_graphs()
errors()
functions()
no_leaks()
end('callbacks')
