"""Makes data/networks/: what small networks give that are built of MXNet's gluon layers, beside those of Kaon's zoo: an
encoder as GluonNLP's BERTModel, a detector with the targets and heads of MXNet's example/ssd, a U-Net, and language
models of an LSTM.

For each network NAME: NAME.params by save_parameters, NAME-symbol.json and NAME-0000.params by export. results.params
holds NAME/input/I, NAME/output/I, NAME/loss and NAME/grad/KEY, the gradients of that loss by the names of NAME.params,
or NAME/after/KEY, statistics that changed; and NAME/trained/KEY, the parameters after some steps with all inputs;
exported.json says for each KEY under which name the exported program has it.

    MXNET_SUBGRAPH_BACKEND=NONE python make_networks.py
"""
import json
import math
import os

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

FOLDER = os.path.join(os.path.dirname(__file__), "..", "data", "networks")
EPSILON = 1e-12  # of the encoder's LayerNorm
STEPS = 5


def head(shape):
    i = np.arange(int(np.prod(shape)))
    return nd.array((i * 7919 % 1000 / 1000.0 - 0.5).astype(np.float32).reshape(shape))


def sum_of_heads(*arrays):
    return sum((a * head(a.shape)).sum() for a in arrays)


class BatchNormReLU(nn.BatchNorm):
    """MXNet's own works with some numbers of channels only."""

    def hybrid_forward(self, F, *args, **kwargs):
        return F.relu(super().hybrid_forward(F, *args, **kwargs))


def sequence(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


class SelfAttention(gluon.HybridBlock):
    def __init__(self, units, heads):
        super().__init__()
        self.heads, self.units = heads, units
        with self.name_scope():
            self.proj_query, self.proj_key, self.proj_value = [nn.Dense(units, flatten=False) for _ in range(3)]

    def split(self, F, x):  # (batch * heads, steps, units / heads)
        x = F.transpose(F.reshape(x, (0, 0, self.heads, -1)), (0, 2, 1, 3))
        return F.reshape(x, (-1, 0, 0), reverse=True)

    def weights(self, F, scores, mask):
        mask = F.reshape(F.broadcast_axis(F.expand_dims(mask, 1), axis=1, size=self.heads), (-1, 0, 0), reverse=True)
        return F.softmax(F.where(mask, scores, -1e18 * F.ones_like(scores)), axis=-1) * mask

    def hybrid_forward(self, F, x, mask):
        query = F.contrib.div_sqrt_dim(self.split(F, self.proj_query(x)))
        scores = F.batch_dot(query, self.split(F, self.proj_key(x)), transpose_b=True)
        y = F.batch_dot(self.weights(F, scores, mask), self.split(F, self.proj_value(x)))
        y = F.transpose(F.reshape(y, (-1, self.heads, 0, 0), reverse=True), (0, 2, 1, 3))
        return F.reshape(y, (0, 0, -1))


class InterleavedAttention(SelfAttention):
    """The same by the operators of GluonNLP 0.10, over one product with weights that are interleaved by heads."""

    def hybrid_forward(self, F, x, mask):
        value = lambda p: p.data() if F is nd else p.var()
        layers = self.proj_query, self.proj_key, self.proj_value
        weight = F.concat(*[F.reshape(value(l.weight), (self.heads, -1, 0), reverse=True) for l in layers], dim=-2)
        bias = F.concat(*[F.reshape(value(l.bias), (self.heads, -1)) for l in layers], dim=-1)
        all_three = F.FullyConnected(F.transpose(x, (1, 0, 2)), F.reshape(weight, (-1, 0), reverse=True),
                                     F.reshape(bias, -1), num_hidden=3 * self.units, flatten=False)
        scores = F.contrib.interleaved_matmul_selfatt_qk(all_three, heads=self.heads)
        y = F.contrib.interleaved_matmul_selfatt_valatt(all_three, self.weights(F, scores, mask), heads=self.heads)
        return F.transpose(y, (1, 0, 2))


class FeedForward(gluon.HybridBlock):
    def __init__(self, units, hidden):
        super().__init__()
        with self.name_scope():
            self.ffn_1, self.activation = nn.Dense(hidden, flatten=False), nn.GELU()
            self.ffn_2, self.layer_norm = nn.Dense(units, flatten=False), nn.LayerNorm(epsilon=EPSILON)

    def hybrid_forward(self, F, x):
        return self.layer_norm(x + self.ffn_2(self.activation(self.ffn_1(x))))


class Encoder(gluon.HybridBlock):
    def __init__(self, units, hidden, heads):
        super().__init__()
        with self.name_scope():
            self.attention_cell, self.proj = SelfAttention(units, heads), nn.Dense(units, flatten=False)
            self.layer_norm, self.ffn = nn.LayerNorm(epsilon=EPSILON), FeedForward(units, hidden)

    def hybrid_forward(self, F, x, mask):
        return self.ffn(self.layer_norm(x + self.proj(self.attention_cell(x, mask))))


class BERT(gluon.HybridBlock):
    def __init__(self, vocab, types, length, units, hidden, layers, heads):
        super().__init__()
        with self.name_scope():
            self.word_embed, self.token_type_embed = nn.Embedding(vocab, units), nn.Embedding(types, units)
            self.position_embed = nn.Embedding(length, units)
            self.layer_norm = nn.LayerNorm(epsilon=EPSILON)
            self.pooler = nn.Dense(units, activation="tanh", flatten=False)
            self.classifier = nn.Dense(2, flatten=False)
            self.decoder = sequence(
                nn.Dense(units, flatten=False), nn.GELU(), nn.LayerNorm(epsilon=EPSILON),
                nn.Dense(vocab, flatten=False, params=self.word_embed.collect_params()))
            self.cells = [Encoder(units, hidden, heads) for _ in range(layers)]
            for i, cell in enumerate(self.cells):
                self.register_child(cell, "encoder%d" % i)

    def hybrid_forward(self, F, tokens, types, valid_length, masked_positions):
        steps = F.contrib.arange_like(tokens, axis=1)
        x = self.word_embed(tokens) + self.token_type_embed(types)
        x = self.layer_norm(F.broadcast_add(x, F.expand_dims(self.position_embed(steps), 0)))
        mask = F.broadcast_lesser(F.reshape(steps, (1, -1)), F.reshape(valid_length, (-1, 1)))
        mask = F.broadcast_mul(F.expand_dims(F.ones_like(tokens), 2), F.expand_dims(mask, 1))
        for cell in self.cells:
            x = cell(x, mask)
        pooled = self.pooler(F.reshape(F.slice_axis(x, axis=1, begin=0, end=1), (0, -1)))
        samples = F.expand_dims(F.contrib.arange_like(masked_positions, axis=0), 1)
        samples = F.broadcast_like(samples, masked_positions)
        masked = F.gather_nd(x, F.stack(samples, masked_positions))
        return x, pooled, self.classifier(pooled), self.decoder(masked)


class SSD(gluon.HybridBlock):
    def __init__(self, classes, stages):
        super().__init__()
        self.classes, count = classes, len(stages)
        size = lambda i: 0.2 + 0.7 * i / count
        self.sizes = [(size(i), math.sqrt(size(i) * size(i + 1))) for i in range(count)]
        with self.name_scope():
            self.stages = stages
            conv = lambda channels: nn.Conv2D(channels, 3, padding=1)
            self.class_predictors = [conv(4 * (classes + 1)) for _ in stages]
            self.box_predictors = [conv(4 * 4) for _ in stages]
        for i in range(count):
            for name in "stages", "class_predictors", "box_predictors":
                self.register_child(getattr(self, name)[i], name + str(i))

    def predict(self, F, x):
        anchors, scores, boxes = [], [], []
        for stage, classes, box, sizes in zip(self.stages, self.class_predictors, self.box_predictors, self.sizes):
            x = stage(x)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1, 2, 0.5)))
            scores.append(F.flatten(F.transpose(classes(x), (0, 2, 3, 1))))
            boxes.append(F.flatten(F.transpose(box(x), (0, 2, 3, 1))))
        scores = F.reshape(F.concat(*scores, dim=1), (0, -1, self.classes + 1))
        return F.concat(*anchors, dim=1), scores, F.concat(*boxes, dim=1)

    def hybrid_forward(self, F, x):
        anchors, scores, boxes = self.predict(F, x)
        detections = F.contrib.MultiBoxDetection(F.transpose(F.softmax(scores), (0, 2, 1)), boxes, anchors,
                                                 nms_threshold=0.45)
        return anchors, scores, boxes, detections


class SSDHeads(gluon.HybridBlock):
    """The program that example/ssd trains: outputs are probabilities, losses of boxes, targets."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def hybrid_forward(self, F, x, labels):
        anchors, scores, boxes = self.net.predict(F, x)
        scores = F.transpose(scores, (0, 2, 1))
        box_target, box_mask, class_target = F.contrib.MultiBoxTarget(
            anchors, labels, scores, overlap_threshold=0.5, ignore_label=-1, negative_mining_ratio=3,
            minimum_negative_samples=0, negative_mining_thresh=0.5, variances=(0.1, 0.1, 0.2, 0.2))
        chances = F.SoftmaxOutput(scores, class_target, ignore_label=-1, use_ignore=True, grad_scale=1,
                                  multi_output=True, normalization="valid")
        off = F.smooth_l1(box_mask * (boxes - box_target), scalar=1)
        return (chances, F.MakeLoss(off, grad_scale=1, normalization="valid"),
                F.MakeLoss(class_target, grad_scale=0))


def ssd_loss(anchors, scores, boxes, labels):
    box_target, box_mask, class_target = nd.contrib.MultiBoxTarget(
        anchors, labels, nd.transpose(scores, (0, 2, 1)), negative_mining_ratio=3)
    chosen = class_target >= 0
    entropy = -nd.pick(nd.log_softmax(scores), nd.maximum(class_target, 0), axis=2)
    positive = nd.maximum((class_target > 0).sum(axis=1), 1)
    off = ((boxes - box_target) * box_mask).abs()
    return ((entropy * chosen).sum(axis=1) + off.sum(axis=1)) / positive


class UNet(gluon.HybridBlock):
    def __init__(self, classes, channels, depth):
        super().__init__()
        level = lambda c: sequence(nn.Conv2D(c, 3, padding=1, use_bias=False), BatchNormReLU(),
                                   nn.Conv2D(c, 3, padding=1, use_bias=False), BatchNormReLU())
        with self.name_scope():
            self.down = [level(channels << i) for i in range(depth + 1)]
            self.up = [nn.Conv2DTranspose(channels << i, 2, strides=2) for i in range(depth)]
            self.across = [level(channels << i) for i in range(depth)]
            self.pool, self.output = nn.MaxPool2D(), nn.Conv2D(classes, 1)
        for name in "down", "up", "across":
            for i, block in enumerate(getattr(self, name)):
                self.register_child(block, name + str(i))

    def hybrid_forward(self, F, x):
        maps = []
        for down in self.down[:-1]:
            maps.append(down(x))
            x = self.pool(maps[-1])
        x = self.down[-1](x)
        for across, up, beside in reversed(list(zip(self.across, self.up, maps))):
            x = across(F.concat(beside, up(x), dim=1))
        return self.output(x)


class LanguageModel(gluon.HybridBlock):
    def __init__(self, vocab, units, layers, tied):
        super().__init__()
        with self.name_scope():
            self.encoder, self.rnn = nn.Embedding(vocab, units), rnn.LSTM(units, layers)
            self.decoder = nn.Dense(vocab, flatten=False, in_units=units,
                                    params=self.encoder.collect_params() if tied else None)

    def hybrid_forward(self, F, tokens, hidden, cell):
        y, (hidden, cell) = self.rnn(self.encoder(tokens), [hidden, cell])
        return self.decoder(y), hidden, cell


entropy_of = gluon.loss.SoftmaxCrossEntropyLoss


def run(name, net, inputs, loss_of, training, results, exported):
    """Draws parameters, keeps files and results. `inputs`: how many the network takes, these, and those of the loss."""
    rng = np.random.RandomState(len(name))
    count, arrays = inputs
    net.initialize()
    net(*arrays[:count])  # completes shapes
    params = net._collect_params_with_prefix()
    drawn = set()
    for key, p in sorted(params.items()):
        if p.name in drawn:
            continue
        drawn.add(p.name)
        value = rng.uniform(-0.5, 0.5, p.shape)
        if key.endswith(("gamma", "running_var")):
            value = value + 1
        p.set_data(nd.array(value.astype(np.float32)))
    net.save_parameters(os.path.join(FOLDER, name + ".params"))
    saved = nd.load(os.path.join(FOLDER, name + ".params"))
    outputs = net(*arrays[:count])
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    for i, a in enumerate(arrays):
        results["%s/input/%d" % (name, i)] = a
    for i, a in enumerate(outputs):
        results["%s/output/%d" % (name, i)] = a
    with autograd.record(train_mode=training):
        outputs = net(*arrays[:count])
        loss = loss_of(outputs, *arrays[count:])
    loss.backward()
    results[name + "/loss"] = loss
    for key in saved:
        if params[key].grad_req != "null":
            results["%s/grad/%s" % (name, key)] = params[key].grad().copy()
        elif training:  # statistics that the step has changed
            results["%s/after/%s" % (name, key)] = params[key].data().copy()
        params[key].set_data(saved[key])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2, "momentum": 0.9})
    for _ in range(STEPS):
        with autograd.record():
            loss = loss_of(net(*arrays[:count]), *arrays[count:])
        loss.backward()
        trainer.step(arrays[0].shape[0])
    for key in saved:
        results["%s/trained/%s" % (name, key)] = params[key].data().copy()
    for key in saved:
        params[key].set_data(saved[key])
    net.hybridize()
    net(*arrays[:count])
    net.export(os.path.join(FOLDER, name))
    exported[name] = {key: params[key].name for key in sorted(saved)}


def interleaved(net, results):
    """The same encoder with the other operators, which must give the same."""
    for cell in net.cells:
        cell.attention_cell.__class__ = InterleavedAttention
    net.hybridize()
    for i, a in enumerate(net(*[results["bert/input/%d" % i] for i in range(4)])):
        assert np.allclose(a.asnumpy(), results["bert/output/%d" % i].asnumpy(), 1e-5, 1e-6)
    net.export(os.path.join(FOLDER, "bert_interleaved"))
    os.remove(os.path.join(FOLDER, "bert_interleaved-0000.params"))  # bert has them


def heads(net, image, labels, results):
    """The program of example/ssd over the network, with the gradients that its own heads give."""
    block = SSDHeads(net)
    params = net._collect_params_with_prefix()
    before = {key: p.data().copy() for key, p in params.items()}
    with autograd.record():
        outputs = block(image, labels)
    autograd.backward(outputs)
    for i, a in enumerate(outputs):
        results["ssd_heads/output/%d" % i] = a
    for key, p in params.items():
        if p.grad_req != "null":
            results["ssd_heads/grad/" + key] = p.grad().copy()
        p.set_data(before[key])
    block.hybridize()
    block(image, labels)
    block.export(os.path.join(FOLDER, "ssd_heads"))
    os.remove(os.path.join(FOLDER, "ssd_heads-0000.params"))  # ssd has them


def main():
    os.makedirs(FOLDER, exist_ok=True)
    rng = np.random.RandomState(21)
    results, exported = {}, {}

    tokens, types = rng.randint(0, 13, (3, 6)), rng.randint(0, 2, (3, 6))
    lengths, masked = [6, 3, 1], [[1, 4], [2, 0], [0, 0]]
    words, follows = rng.randint(0, 13, (3, 2)), [1, 0, 1]

    def bert_loss(outputs, words, follows):
        x, pooled, next_scores, word_scores = outputs
        return (entropy_of()(word_scores, words).mean() + entropy_of()(next_scores, follows).mean() +
                sum_of_heads(x, pooled))

    encoder = BERT(13, 2, 7, 8, 12, 2, 2)
    inputs = [nd.array(a) for a in (tokens, types, lengths, masked, words, follows)]
    run("bert", encoder, (4, inputs), bert_loss, False, results, exported)
    interleaved(encoder, results)

    stage = lambda c: sequence(nn.Conv2D(c, 3, padding=1), BatchNormReLU(), nn.MaxPool2D())
    image = nd.array(rng.uniform(-1, 1, (2, 3, 16, 16)))
    labels = nd.array([[[1, 0.1, 0.2, 0.5, 0.6], [-1] * 5, [-1] * 5],
                       [[0, 0.5, 0.5, 0.9, 0.8], [1, 0, 0, 0.3, 0.3], [0, 0.2, 0.1, 0.9, 0.95]]])
    detector = SSD(2, [stage(4), stage(6), stage(5)])
    run("ssd", detector, (1, [image, labels]), lambda outputs, labels: ssd_loss(*outputs[:3], labels).sum(), True,
        results, exported)
    heads(detector, image, labels, results)

    pixels = nd.array(rng.uniform(-1, 1, (2, 1, 8, 12)))
    classes = nd.array(rng.randint(0, 3, (2, 8, 12)))
    run("unet", UNet(3, 4, 2), (1, [pixels, classes]),
        lambda outputs, classes: entropy_of(axis=1)(outputs, classes).mean(), True, results, exported)

    for name, tied in ("lstm_model", False), ("lstm_model_tied", True):
        text, net = rng.randint(0, 11, (6, 3)), LanguageModel(11, 7, 2, tied)
        states = [nd.array(rng.uniform(-1, 1, (2, 3, 7))) for _ in range(2)]
        if tied:
            states = net.rnn.begin_state(batch_size=3)
        run(name, net, (3, [nd.array(text[:-1])] + states + [nd.array(text[1:])]),
            lambda outputs, targets: entropy_of()(outputs[0], targets).mean() + sum_of_heads(*outputs[1:]), False,
            results, exported)

    nd.save(os.path.join(FOLDER, "results.params"), results)
    with open(os.path.join(FOLDER, "exported.json"), "w") as file:
        json.dump(exported, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
