"""Nets with control flow, for write_exports.py: torch.cond, while_loop, scan and scripts of TorchScript."""
from typing import List

import torch
from torch import nn

from exported_layers import Of


class Branches(nn.Module):
    """torch.cond with weights in both branches."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.a(v).relu(), lambda v: self.b(v) * 2, (x,))


class Nested(nn.Module):
    def forward(self, x):
        def inner(v):
            return torch.cond(v.max() > 1, lambda w: w - 1, lambda w: w + 1, (v,))

        return torch.cond(x.sum() > 0, inner, lambda v: -v, (x,))


class Grows(nn.Module):
    """while_loop until the sum is large."""

    def forward(self, x):
        from torch._higher_order_ops import while_loop

        return while_loop(lambda i, v: (i < 10) & (v.abs().sum() < 50), lambda i, v: (i + 1, v * 1.5 + 0.1), (torch.tensor(0), x))


class Scans(nn.Module):
    def forward(self, h, xs):
        from torch._higher_order_ops import scan

        return scan(lambda c, x: (c * 0.5 + x, (c + x).sum(-1)), h, xs)


class Loops(nn.Module):
    """A recurrent net written out in TorchScript."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 5), nn.Linear(5, 5)

    def forward(self, x):
        h = torch.zeros(x.size(1), 5)
        out: List[torch.Tensor] = []
        for t in range(x.size(0)):
            h = torch.tanh(self.inner(x[t]) + self.outer(h))
            out.append(h)
        return torch.stack(out)


class Halves(nn.Module):
    """A while with a condition that values decide."""

    def forward(self, x):
        n = 0
        while bool(x.abs().max() > 0.5) and n < 20:
            x = x * 0.7
            n += 1
        return x, torch.tensor(n)


class Chooses(nn.Module):
    def forward(self, x):
        if x.size(0) > 2:
            y = x * 2
        else:
            y = x + 1
        if bool(y.sum() > 0):
            return y.relu()
        else:
            return -y


class Breaks(nn.Module):
    def forward(self, x):
        total = torch.zeros(x.size(1))
        for i in range(x.size(0)):
            if bool(x[i].sum() > 2):
                break
            if bool(x[i].sum() < -2):
                continue
            total = total + x[i]
        return total


class Decodes(nn.Module):
    """Greedy decoding of a small recurrent net: the sequence grows."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.last = nn.Embedding(12, 6), nn.Linear(12, 6), nn.Linear(6, 12)

    def forward(self, start, h):
        words = start.unsqueeze(1)
        for i in range(6):
            h = torch.tanh(self.cell(torch.cat([self.embed(words[:, -1]), h], 1)))
            words = torch.cat([words, self.last(h).argmax(1, keepdim=True)], 1)
        return words


class Beam(nn.Module):
    """A loop inside of a loop, with indices that are written."""

    def forward(self, x):
        y = torch.zeros_like(x)
        for i in range(x.size(0)):
            for j in range(x.size(1)):
                y[i, j] = x[: i + 1, : j + 1].sum()
        return y



def both(net, *inputs, more=()):
    return lambda: (net(), tuple(inputs), list(more))


X = torch.tensor([[0.3, -0.2, 0.5, 0.4], [1.2, 0.1, -0.3, 0.2]])

NETS = {
    "cond": both(Branches, X, more=[(-X,)]),
    "cond_nested": both(Nested, X, more=[(-X,), (X * 0.5,)]),
    "while_grows": both(Grows, X, more=[(X * 10,), (-X,)]),
    "scan": both(Scans, torch.ones(4), torch.arange(20.0).reshape(5, 4) / 10),
    "map": lambda: (Of(lambda xs: torch._higher_order_ops.map(lambda x: x.cumsum(0) * 2, xs)), (torch.randn(5, 4),)),
    "vmap": lambda: (Of(lambda a, b: torch.vmap(lambda x, y: (x * y).sum())(a, b)), (torch.randn(5, 4), torch.randn(5, 4))),
    "script_loop": both(lambda: torch.jit.script(Loops()), torch.randn(6, 2, 3), more=[(torch.randn(3, 4, 3),)]),
    "script_while": both(lambda: torch.jit.script(Halves()), X, more=[(X * 9,), (X * 0.1,)]),
    "script_if": both(lambda: torch.jit.script(Chooses()), X, more=[(-X,), (torch.randn(4, 4),)]),
    "script_break": both(lambda: torch.jit.script(Breaks()), X, more=[(X * 4,), (-X * 4,)]),
    "script_decoder": both(lambda: torch.jit.script(Decodes()), torch.tensor([1, 2, 3]), torch.zeros(3, 6)),
    "script_nested": both(lambda: torch.jit.script(Beam()), torch.randn(3, 4), more=[(torch.randn(2, 5),)]),
}
