"""20,000 iterations of training: handles and resident memory stay as they are. KAON_ITERATIONS: another number."""
import os

import mxnet as mx
from environment import end, live, resident_kb
from mxnet import autograd, gluon, nd

iterations = int(os.environ.get('KAON_ITERATIONS', '20000'))
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(16, activation='relu'), gluon.nn.BatchNorm(), gluon.nn.Dense(4))
net.initialize()
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), 'adam', {'learning_rate': 0.001})
data, label = nd.random.normal(shape=(8, 12)), nd.array([0, 1, 2, 3, 0, 1, 2, 3])


def iterate(count):
    for _ in range(count):
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(8)
    nd.waitall()


kinds = 'array', 'all'
for hybrid in False, True:
    net.hybridize(hybrid, static_alloc=hybrid, static_shape=hybrid)
    iterate(iterations // 10)
    handles, memory = {k: live(k) for k in kinds}, resident_kb()
    iterate(iterations // 2)
    after = {k: live(k) for k in kinds}
    print('hybrid %d: %s handles, %d kB, then %d kB' % (hybrid, after, memory, resident_kb()))
    assert after == handles, (handles, after)
    assert resident_kb() < memory + 8192, 'memory grows'
end('memory')
