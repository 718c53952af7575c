"""The same operators by PyTorch in float64, from their formulae, with gradients by its autograd.

compute(case) gives what mxnet_worker.py gives, or None where there is no formula here.
"""
import numpy as np
import torch

import torch_attention  # noqa: F401
import torch_composed  # noqa: F401
import torch_elementwise  # noqa: F401
import torch_indexing  # noqa: F401
import torch_layers  # noqa: F401
import torch_linalg  # noqa: F401
import torch_movement  # noqa: F401
import torch_numpy  # noqa: F401
import torch_numpy_arrays  # noqa: F401
import torch_quant  # noqa: F401
import torch_optim  # noqa: F401
import torch_resize  # noqa: F401
import torch_rnn  # noqa: F401
import torch_signal  # noqa: F401
import torch_spatial  # noqa: F401
from formulae import FORMULAE, Attrs
from tensors import head


def compute(case):
    """The same keys as MXNet's answer, values float64 or int64; None: no formula."""
    function = FORMULAE.get(case["op"])
    if function is None:
        return None
    inputs, leaves = [], []
    for t, wants in zip(case["inputs"], case["wants"]):
        x = torch.tensor(t.values.astype(np.float64 if t.is_float else np.int64))
        if wants and t.is_float:
            x.requires_grad_()
        leaves.append(x)
        inputs.append(x)
    known = function.__code__.co_varnames[: function.__code__.co_argcount]
    more = {"name": case["op"]} if "name" in known else {"train": case["train"]} if "train" in known else {}
    outputs = function(Attrs(case["attrs"]), inputs, **more)
    updated = []
    if isinstance(outputs, tuple):
        outputs, updated = outputs
    outputs = list(outputs) if isinstance(outputs, list) else [outputs]
    gradients = [None] * len(leaves)
    wanted = [i for i, x in enumerate(leaves) if x.requires_grad]
    if wanted:
        for i in wanted:
            gradients[i] = np.zeros(leaves[i].shape)
        live = [(y, torch.tensor(head(case["seed"], k, tuple(y.shape)))) for k, y in enumerate(outputs) if y.requires_grad]
        if live:
            found = torch.autograd.grad([y for y, _ in live], [leaves[i] for i in wanted], [h for _, h in live],
                                        allow_unused=True)
            for i, g in zip(wanted, found):
                if g is not None:
                    gradients[i] = g.numpy()
    return {"outputs": [y.detach().numpy() for y in outputs], "gradients": gradients,
            "updated": [u.detach().numpy() for u in updated]}
