"""Formulae of cases_signal.py."""
import torch
from torch.nn import functional as nn

from formulae import FORMULAE, formula
from torch_layers import GivenGradient


@formula("_contrib_fft")
def fft(a, x):
    return torch.view_as_real(torch.fft.fft(x[0])).flatten(-2)


@formula("_contrib_ifft")
def ifft(a, x):
    z = torch.view_as_complex(x[0].reshape(*x[0].shape[:-1], x[0].shape[-1] // 2, 2).contiguous())
    return torch.fft.ifft(z, norm="forward").real


@formula("_contrib_count_sketch")
def count_sketch(a, x):
    h, s = x[1].reshape(-1).long(), x[2].reshape(-1)
    return torch.zeros(*x[0].shape[:-1], a.get("out_dim"), dtype=torch.float64).index_add(-1, h, x[0] * s)


@formula("_contrib_hawkesll")
def hawkesll(a, x):
    lda, alpha, beta, state, lags, marks, lengths, ends = x
    totals, states = [], []
    for i in range(lda.shape[0]):
        sums, last, now, total = list(state[i]), [0.0] * lda.shape[1], 0.0, 0.0
        for j in range(min(int(lengths[i]), lags.shape[1])):
            m = int(marks[i, j])
            now = now + lags[i, j]
            decay = torch.exp(-beta[m] * (now - last[m]))
            total = total + torch.log(lda[i, m] + alpha[m] * beta[m] * sums[m] * decay)
            total = total - lda[i, m] * (now - last[m]) - alpha[m] * sums[m] * (1 - decay)
            sums[m], last[m] = 1 + sums[m] * decay, now
        for m in range(lda.shape[1]):
            decay = torch.exp(-beta[m] * (ends[i] - last[m]))
            total = total - lda[i, m] * (ends[i] - last[m]) - alpha[m] * sums[m] * (1 - decay)
            sums[m] = sums[m] * decay
        totals.append(total)
        states.append(torch.stack([s.detach() for s in sums]))
    return [torch.stack(totals), torch.stack(states)]


@formula("SVMOutput")
def svm_output(a, x):
    data, r, margin = x[0].detach(), a.get("regularization_coefficient", 1.0), a.get("margin", 1.0)
    s = 2.0 * nn.one_hot(x[1].long(), data.shape[1]) - 1
    reached = s * data
    gradient = -r * s * (reached < margin) if a.get("use_linear") else -2 * r * s * (margin - reached).clamp(min=0)
    return GivenGradient.apply(x[0], data, gradient)


@formula("IdentityAttachKLSparseReg")
def sparse_reg(a, x):
    t, momentum = a.get("sparseness_target", 0.1), a.get("momentum", 0.9)
    m = (momentum * x[1] + (1 - momentum) * x[0].mean(0)).detach()
    more = a.get("penalty", 0.001) * ((1 - t) / (1 - m) - t / m)

    class Added(torch.autograd.Function):
        @staticmethod
        def forward(context, data):
            return data.clone()

        @staticmethod
        def backward(context, head):
            return head + more

    return [Added.apply(x[0])], [m]


@formula("_contrib_BatchNormWithReLU")
def batch_norm_relu(a, x, train):
    y, updated = FORMULAE["BatchNorm"](a, x, train)
    y = y[0] if isinstance(y, list) else y
    return torch.relu(y), updated


@formula("_contrib_SparseEmbedding")
def sparse_embedding(a, x):
    return x[1][x[0].long()]


COMPARE = {"equal": torch.eq, "not_equal": torch.ne, "greater": torch.gt, "greater_equal": torch.ge, "less": torch.lt,
           "less_equal": torch.le}


@formula(" ".join(f"_npi_{name}" for name in COMPARE))
def compare(a, x, name):
    return COMPARE[name[len("_npi_"):]](x[0], x[1])


@formula(" ".join(f"_npi_{name}_scalar" for name in COMPARE))
def compare_scalar(a, x, name):
    return COMPARE[name[len("_npi_"):-len("_scalar")]](x[0], a.get("scalar"))


@formula("_npi_logical_not")
def logical_not(a, x):
    return x[0] == 0


@formula("_np_reshape")
def numpy_reshape(a, x):
    return x[0].reshape(a.tuple("newshape"))
