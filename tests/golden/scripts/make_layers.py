"""Makes data/layers.params: what layers of MXNet's gluon.nn, contrib.nn and contrib.cnn compute, one case a form.

For each case NAME the file holds NAME/param/KEY (KEY as save_parameters writes it), NAME/x, the result NAME/out, the
result in training NAME/train, and the gradients NAME/grad/x and NAME/grad/KEY of the sum of that result's elements,
each times head(its index).

    MXNET_SUBGRAPH_BACKEND=NONE python make_layers.py
"""
import os

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet.gluon import contrib, nn

FILE = os.path.join(os.path.dirname(__file__), "..", "data", "layers.params")


def joined(container, *blocks):
    container.add(*blocks)
    return container


class BatchNormReLU(nn.BatchNorm):
    """MXNet's own works with some numbers of channels only."""

    def hybrid_forward(self, F, *args, **kwargs):
        return F.relu(super().hybrid_forward(F, *args, **kwargs))


# The same blocks are in golden_layers_test.cpp, by name.
CASES = {
    "conv1_transpose": (nn.Conv1DTranspose(3, 4, strides=2, padding=1, output_padding=1), (2, 2, 5)),
    "conv2_transpose": (nn.Conv2DTranspose(4, (3, 2), strides=(2, 3), padding=(1, 0), output_padding=(1, 2)),
                        (2, 3, 4, 3)),
    "conv2_transpose_groups": (nn.Conv2DTranspose(6, 3, groups=3, use_bias=False, activation="relu"), (1, 3, 3, 4)),
    "conv2_transpose_dilated": (nn.Conv2DTranspose(2, 3, dilation=(2, 1), in_channels=2), (2, 2, 3, 3)),
    "conv3_transpose": (nn.Conv3DTranspose(2, 2, strides=2), (1, 2, 2, 3, 2)),
    "instance_norm": (nn.InstanceNorm(), (2, 3, 4, 5)),
    "instance_norm_last": (nn.InstanceNorm(axis=2, epsilon=1e-3, center=False, scale=True), (2, 4, 3)),
    "group_norm": (nn.GroupNorm(num_groups=2), (2, 4, 3, 3)),
    "group_norm_one": (nn.GroupNorm(scale=False), (1, 3, 4)),
    "batch_norm_relu": (BatchNormReLU(in_channels=3), (4, 3, 2, 2)),
    "batch_norm_relu_last": (BatchNormReLU(axis=-1, momentum=0.5, epsilon=1e-2), (2, 3, 4)),
    "sync_batch_norm": (contrib.nn.SyncBatchNorm(num_devices=1), (4, 3, 2, 2)),
    "concurrent": (joined(contrib.nn.Concurrent(axis=1), nn.Dense(3), contrib.nn.Identity(), nn.Dense(2)), (4, 5)),
    "hybrid_concurrent": (joined(contrib.nn.HybridConcurrent(), nn.Dense(3, activation="tanh"), nn.Dense(1)), (1, 5)),
    "pixel_shuffle1": (contrib.nn.PixelShuffle1D(3), (2, 6, 4)),
    "pixel_shuffle2": (contrib.nn.PixelShuffle2D((2, 3)), (2, 12, 3, 2)),
    "pixel_shuffle3": (contrib.nn.PixelShuffle3D((2, 3, 2)), (1, 24, 2, 1, 3)),
    "reflection_pad2": (nn.ReflectionPad2D(2), (2, 3, 4, 3)),
    "deformable": (contrib.cnn.DeformableConvolution(4, (3, 3), padding=(1, 1)), (2, 3, 5, 4)),
    "deformable_groups": (contrib.cnn.DeformableConvolution(
        4, (3, 2), strides=(2, 1), groups=2, num_deformable_group=2, use_bias=False, offset_use_bias=False,
        activation="relu"), (1, 4, 6, 5)),
}


def head(shape):
    i = np.arange(int(np.prod(shape)))
    return nd.array((i * 7919 % 1000 / 1000.0 - 0.5).astype(np.float32).reshape(shape))


def main():
    rng = np.random.RandomState(26)
    draw = lambda shape: nd.array(rng.uniform(-1, 1, shape).astype(np.float32))
    data = {}
    for name, (block, shape) in CASES.items():
        block.initialize()
        x = draw(shape)
        block(x)  # completes shapes
        params = block._collect_params_with_prefix()
        for key, p in params.items():
            p.set_data(draw(p.shape).abs() + 0.5 if "var" in key else draw(p.shape) * 0.5)
            data["%s/param/%s" % (name, key)] = p.data().copy()
        x.attach_grad()
        data[name + "/x"], data[name + "/out"] = x, block(x)
        with mx.autograd.record():
            y = block(x)
            loss = (y * head(y.shape)).sum()
        loss.backward()
        data[name + "/train"], data[name + "/grad/x"] = y, x.grad
        for key, p in params.items():
            if p.grad_req != "null":
                data["%s/grad/%s" % (name, key)] = p.grad()
    nd.save(FILE, data)


if __name__ == "__main__":
    main()
