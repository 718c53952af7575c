"""A LeNet learns with Trainer and a DataLoader of two worker processes; Module.fit learns a table."""
import logging

import numpy as np

import mxnet as mx
from environment import end
from mxnet import autograd, gluon
from mxnet.gluon import nn


def digits(count, seed):
    """Bars in one of ten places, with noise: images that a network tells apart."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, count)
    images = random.uniform(0, 0.3, (count, 1, 28, 28)).astype('float32')
    for image, label in zip(images, labels):
        image[0, 2 + 5 * (label % 5): 6 + 5 * (label % 5), 4 if label < 5 else 16: 12 if label < 5 else 24] += 0.7
    return images, labels.astype('float32')


def lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(8, 5, activation='relu'), nn.MaxPool2D(2, 2), nn.Conv2D(16, 5, activation='relu'),
                nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(64, activation='relu'), nn.Dropout(0.1), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    return net


def train_with_gluon(workers, hybrid):
    mx.random.seed(1)
    np.random.seed(1)
    net = lenet()
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(*digits(960, 0)), batch_size=32, shuffle=True,
                                   num_workers=workers)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.03, 'momentum': 0.9, 'wd': 1e-4})
    losses = []
    for _ in range(3):
        total = 0
        for data, label in loader:
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(data.shape[0])
            total += loss.mean().asscalar()
        losses.append(total / len(loader))
    images, labels = digits(200, 1)
    metric = mx.metric.Accuracy()
    metric.update(mx.nd.array(labels), net(mx.nd.array(images)))
    print('workers %d hybrid %d: losses %s, accuracy %.3f' % (workers, hybrid, losses, metric.get()[1]))
    assert losses[-1] < losses[0] and metric.get()[1] > 0.9
    trainer.save_states('/tmp/kaon_trainer_states')
    trainer.load_states('/tmp/kaon_trainer_states')


def train_with_module():
    random = np.random.RandomState(3)
    data = random.normal(size=(600, 10)).astype('float32')
    label = (data[:, :5].sum(axis=1) > data[:, 5:].sum(axis=1)).astype('float32')
    symbol = mx.sym.var('data')
    symbol = mx.sym.Activation(mx.sym.FullyConnected(symbol, num_hidden=16, name='fc1'), act_type='relu')
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(symbol, num_hidden=2, name='fc2'), name='softmax')
    logging.basicConfig(level=logging.WARNING)
    for kvstore in 'local', None:
        mx.random.seed(2)
        train = mx.io.NDArrayIter(data[:500], label[:500], 50, shuffle=True)
        test = mx.io.NDArrayIter(data[500:], label[500:], 50)
        module = mx.mod.Module(symbol)
        module.fit(train, eval_data=test, num_epoch=15, optimizer='adam', kvstore=kvstore,
                   optimizer_params={'learning_rate': 0.02}, initializer=mx.init.Xavier())
        accuracy = dict(module.score(test, 'acc'))['accuracy']
        print('Module.fit with kvstore %s: %.3f' % (kvstore, accuracy))
        assert accuracy > 0.9
        assert module.predict(test).shape == (100, 2)


for hybrid in False, True:
    train_with_gluon(2, hybrid)
train_with_gluon(0, True)
train_with_module()
end('training')
