"""Quantised convolution, of which MXNet's has neither the bias nor the range right."""
import numpy as np
import torch

from formulae import formula


@formula("_contrib_quantized_conv")
def quantized_conv(a, x):
    """Sums in int64; the range and the scale of the bias in float32, as documented."""
    n = 2 if a.get("no_bias") else 3
    single = [np.float32(v) for v in map(float, x[n:])]
    data, weight, *bias = (max(abs(single[2 * i]), abs(single[2 * i + 1])) for i in range(n))
    count = np.float32(127.5 if x[0].min() < 0 else 255.5)
    y = torch.nn.functional.conv2d(x[0].double(), x[1].double(), None, a.tuple("stride", (1, 1)), a.tuple("pad", (0, 0)),
                                   a.tuple("dilate", (1, 1)), a.get("num_group", 1))
    if bias:
        scale = count / data * (np.float32(127.5) / weight) * bias[0] / np.float32(127.5)
        added = np.trunc(x[2].numpy().astype(np.float32) * scale)
        y = y + torch.tensor(added).double().reshape(1, -1, 1, 1)
    level = data / np.float32(int(count)) * (weight / np.float32(127))
    return [y.long(), torch.tensor([float(level * np.float32(-2147483648))]), torch.tensor([float(level * np.float32(2147483647))])]
