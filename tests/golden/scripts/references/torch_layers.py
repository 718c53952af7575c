"""PyTorch: products, layers, losses, arrays from numbers and updates."""
import math

import numpy as np
import torch
import torch.nn.functional as nn

from formulae import FORMULAE, at_least_1d, formula
from torch_elementwise import gelu


@formula("dot")
def dot(a, x):
    left = x[0].movedim(0, -1) if a.get("transpose_a") else x[0]
    right = x[1].movedim(-1, 0) if a.get("transpose_b") else x[1]
    return at_least_1d(torch.tensordot(left, right, 1))


@formula("batch_dot")
def batch_dot(a, x):
    return (x[0].mT if a.get("transpose_a") else x[0]) @ (x[1].mT if a.get("transpose_b") else x[1])


@formula("FullyConnected")
def fully_connected(a, x):
    data = x[0].flatten(1) if a.get("flatten", True) else x[0]
    return nn.linear(data, *x[1:])


def of_axes(a, key, default, n):
    return a.tuple(key) or (default,) * n


def in_layout(f):
    """f(attributes, inputs), which wants channels second, for inputs in the layout of the attributes."""

    def g(a, x):
        if not a.get("layout", "").endswith("C"):
            return f(a, x)
        return f(a, [t.movedim(-1, 1) if t.ndim > 2 else t for t in x]).movedim(1, -1)

    return g


@formula("Convolution")
@in_layout
def convolution(a, x):
    n = x[0].ndim - 2
    f = (nn.conv1d, nn.conv2d, nn.conv3d)[n - 1]
    return f(x[0], x[1], x[2] if len(x) > 2 else None, of_axes(a, "stride", 1, n), of_axes(a, "pad", 0, n),
             of_axes(a, "dilate", 1, n), a.get("num_group", 1))


@formula("Deconvolution")
@in_layout
def deconvolution(a, x):
    n = x[0].ndim - 2
    f = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[n - 1]
    y = f(x[0], x[1], None, of_axes(a, "stride", 1, n), 0, 0, a.get("num_group", 1), of_axes(a, "dilate", 1, n))
    target = a.tuple("target_shape")
    for i in range(n):
        full = y.shape[2 + i]
        if target:
            before, size = (full - target[i] + 1) // 2, target[i]
        else:
            before = of_axes(a, "pad", 0, n)[i]
            size = full - 2 * before + of_axes(a, "adj", 0, n)[i]
        if before + size > full:
            y = nn.pad(y, [0, 0] * (n - 1 - i) + [0, before + size - full])
        y = y.narrow(2 + i, before, size)
    return y + x[2].reshape([1, -1] + [1] * n) if len(x) > 2 else y


@formula("Pooling")
@in_layout
def pooling(a, x):
    x, n, kind = x[0], x[0].ndim - 2, a.get("pool_type", "max")
    if a.get("global_pool"):
        kernel, stride, pads, full = tuple(x.shape[2:]), (1,) * n, (0,) * n, False
    else:
        kernel, stride, pads = a.tuple("kernel"), of_axes(a, "stride", 1, n), of_axes(a, "pad", 0, n)
        full = a.get("pooling_convention") == "full"
    y = nn.pad(x, [p for q in reversed(pads) for p in (q, q)], value=-math.inf if kind == "max" else 0.0)
    counted = a.get("count_include_pad", True)
    weight = torch.ones_like(x) if not counted else torch.ones_like(y)
    if not counted:
        weight = nn.pad(weight, [p for q in reversed(pads) for p in (q, q)])
    more = []
    for i in reversed(range(n)):
        size = y.shape[2 + i]
        steps = (math.ceil if full else math.floor)((size - kernel[i]) / stride[i])
        more += [0, max(0, steps * stride[i] + kernel[i] - size)]
    y, weight = nn.pad(y, more, value=-math.inf if kind == "max" else 0.0), nn.pad(weight, more)
    for i in range(n):
        y, weight = y.unfold(2 + i, kernel[i], stride[i]), weight.unfold(2 + i, kernel[i], stride[i])
    y, weight = y.flatten(2 + n), weight.flatten(2 + n)
    if kind == "max":
        first = torch.tensor(np.argmax(y.detach().numpy(), -1, keepdims=True))  # of equal ones; NaN before all
        return y.gather(-1, first).squeeze(-1)
    if kind == "sum":
        return y.sum(-1)
    if kind == "avg":
        return torch.where(weight.sum(-1) == 0, 0, y.sum(-1) / weight.sum(-1).clamp(min=1))  # 0 over no element
    p = a.get("p_value")
    return (y.abs() ** p).sum(-1) ** (1 / p)


@formula("BatchNorm")
def batch_norm(a, x, train):
    data, gamma, beta, mean, var = x
    axis, eps = a.get("axis", 1) % data.ndim, a.get("eps", 1e-3)
    others = [i for i in range(data.ndim) if i != axis]
    of_batch = train and not a.get("use_global_stats", False)
    m, v = (data.mean(others), data.var(others, correction=0)) if of_batch else (mean, var)
    along = [-1 if i == axis else 1 for i in range(data.ndim)]
    y = (data - m.reshape(along)) / torch.sqrt(v.reshape(along) + eps)
    if not a.get("fix_gamma", True):
        y = y * gamma.reshape(along)
    k = a.get("momentum", 0.9) if of_batch else 1
    updated = [(k * mean + (1 - k) * m).detach(), (k * var + (1 - k) * v).detach()]
    return [y + beta.reshape(along)], updated


@formula("LayerNorm")
def layer_norm(a, x):
    axis = a.get("axis", -1) % x[0].ndim
    along = [-1 if i == axis else 1 for i in range(x[0].ndim)]
    mean, var = x[0].mean(axis, keepdim=True), x[0].var(axis, correction=0, keepdim=True)
    return (x[0] - mean) / torch.sqrt(var + a.get("eps", 1e-5)) * x[1].reshape(along) + x[2].reshape(along)


@formula("Activation")
def activation(a, x):
    return FORMULAE[a.get("act_type")](a, x)


@formula("LeakyReLU")
def leaky_relu(a, x):
    kind, slope, data = a.get("act_type", "leaky"), a.get("slope", 0.25), x[0]
    if kind == "gelu":
        return gelu(data)
    if kind == "selu":
        return nn.selu(data)
    if kind == "prelu":
        gamma = x[1] if x[1].ndim == 2 else x[1].reshape(1, -1)
        below = data * gamma.reshape(list(gamma.shape) + [1] * (data.ndim - 2))
    elif kind == "elu":
        below = slope * torch.expm1(torch.where(data > 0, torch.zeros_like(data), data))
    else:
        below = data * (slope if kind == "leaky" else (a.get("lower_bound", 0.125) + a.get("upper_bound", 0.334)) / 2)
    return torch.where(data > 0, data, below)


@formula("softmax softmin log_softmax")
def softmax(a, x, name):
    z, axis = x[0] / (a.get("temperature") or 1.0), a.get("axis", -1)
    if name == "softmin":
        z = -z
    if name == "log_softmax":
        return torch.log_softmax(z, axis)
    if len(x) == 1:
        return torch.softmax(z, axis)
    keep = torch.arange(z.shape[axis]) < x[1].unsqueeze(-1)
    last = z.movedim(axis, -1)
    return torch.softmax(torch.where(keep, last, torch.full_like(last, -math.inf)), -1).movedim(-1, axis)


@formula("SoftmaxActivation")
def softmax_activation(a, x):
    if a.get("mode", "instance") == "channel":
        return torch.softmax(x[0], 1)
    return torch.softmax(x[0].flatten(1), -1).reshape(x[0].shape)


class GivenGradient(torch.autograd.Function):
    """A loss layer: its gradient is `gradient`, whatever comes from above, or times that with out_grad."""

    @staticmethod
    def forward(context, x, y, gradient, out_grad=False):
        context.save_for_backward(gradient)
        context.out_grad = out_grad
        return y.clone()

    @staticmethod
    def backward(context, head):
        gradient = context.saved_tensors[0]
        return gradient * head if context.out_grad else gradient, None, None, None


@formula("SoftmaxOutput")
def softmax_output(a, x):
    data, label = x[0].detach(), x[1]
    scale, normalization, ignored = a.get("grad_scale", 1.0), a.get("normalization", "null"), a.get("ignore_label", -1.0)
    if a.get("multi_output"):
        scores = data.flatten(2).movedim(1, 2) if data.ndim > 2 else data.unsqueeze(1)
        if normalization != "valid":
            scale /= scores.shape[1]
    else:
        scores = data if a.get("preserve_shape") else data.flatten(1)
    classes = scores.shape[-1]
    y = torch.softmax(scores, -1)
    label = label.reshape(y.shape[:-1])
    alpha = a.get("smooth_alpha", 0.0)
    hit = label.unsqueeze(-1) == torch.arange(classes)
    other = alpha / max(1, classes - 1)
    target = other + (1 - alpha - other) * hit.double()
    gradient = (y - target) * scale
    if a.get("use_ignore"):
        gradient = torch.where((label == ignored).unsqueeze(-1), 0, gradient)
    if normalization == "batch":
        gradient = gradient / (data.shape[0] if a.get("multi_output") else label.numel())
    elif normalization == "valid":
        gradient = gradient / max(1, int((label != ignored).sum()))
    if a.get("multi_output"):
        y, gradient = (t.movedim(2, 1).reshape(data.shape) for t in (y, gradient))
    return GivenGradient.apply(x[0], y.reshape(data.shape), gradient.reshape(data.shape), a.get("out_grad", False))


@formula("LinearRegressionOutput MAERegressionOutput LogisticRegressionOutput")
def regression(a, x, name):
    data = x[0].detach()
    y = torch.sigmoid(data) if name.startswith("Logistic") else data
    error = y - x[1].reshape(y.shape)
    if name.startswith("MAE"):
        error = torch.sign(error)
    return GivenGradient.apply(x[0], y, error * a.get("grad_scale", 1.0) / max(1, x[1].numel() // x[1].shape[0]))


@formula("MakeLoss")
def make_loss(a, x):
    data, scale = x[0].detach(), a.get("grad_scale", 1.0)
    if a.get("normalization") == "batch":
        scale /= data.shape[0]
    elif a.get("normalization") == "valid":
        scale /= max(1, int((data > a.get("valid_thresh", 0.0)).sum()))
    return GivenGradient.apply(x[0], data, torch.full_like(data, scale))


@formula("softmax_cross_entropy")
def softmax_cross_entropy(a, x):
    return nn.cross_entropy(x[0], x[1].long(), reduction="sum").reshape(1)


@formula("Dropout")
def dropout(a, x):
    return x[0] * 1


@formula("_zeros _ones _full")
def filled(a, x, name):
    value = {"_zeros": 0.0, "_ones": 1.0}.get(name, a.get("value"))
    return torch.full(a.tuple("shape"), float(value), dtype=torch.float64)


@formula("_arange")
def arange(a, x):
    start, stop, step = a.get("start"), a.get("stop"), a.get("step", 1.0)
    start, stop = (0.0, start) if stop is None else (start, stop)
    return torch.tensor(np.repeat(start + step * np.arange(max(0, math.ceil((stop - start) / step))), a.get("repeat", 1)))


@formula("_linspace")
def linspace(a, x):
    return torch.tensor(np.linspace(a.get("start"), a.get("stop"), a.get("num"), a.get("endpoint", True)))


@formula("_eye")
def eye(a, x):
    return torch.tensor(np.eye(a.get("N"), a.get("M") or None, a.get("k", 0)))


@formula("sgd_update sgd_mom_update adam_update")
def update(a, x, name):
    weight, grad = x[0], x[1] * a.get("rescale_grad", 1.0)
    limit, wd, lr = a.get("clip_gradient", -1.0), a.get("wd", 0.0), a.get("lr")
    if name == "adam_update":
        grad = grad + wd * weight
    if limit >= 0:
        grad = grad.clamp(-limit, limit)
    if name == "sgd_update":
        return [], [weight - lr * (grad + wd * weight)]
    if name == "sgd_mom_update":
        momentum = a.get("momentum", 0.0) * x[2] - lr * (grad + wd * weight)
        return [], [weight + momentum, momentum]
    b, c = a.get("beta1", 0.9), a.get("beta2", 0.999)
    mean, var = b * x[2] + (1 - b) * grad, c * x[3] + (1 - c) * grad**2
    return [], [weight - lr * mean / (torch.sqrt(var) + a.get("epsilon", 1e-8)), mean, var]
