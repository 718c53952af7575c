# Writes bert.txt beside it: what PyTorch gives for a small BERT with the parameters and inputs of
# tests/gluon/nn/text_models_test.cpp. Run it with torch.
import math
import os

import torch
from torch import nn

VOCAB, TYPES, LENGTH, UNITS, HIDDEN, LAYERS, HEADS = 11, 2, 7, 8, 12, 2, 2


def filled(tensor, number):
    """Parameter `number`: 0.3 sin(1.7 number + 0.37 place)."""
    places = range(tensor.numel())
    values = [0.3 * math.sin(1.7 * number + 0.37 * j) for j in places]
    return torch.tensor(values, dtype=torch.float32).double().reshape(tensor.shape)


torch.set_default_dtype(torch.float64)
count = 0


def make(*shape):
    global count
    count += 1
    return filled(torch.empty(*shape), count)


def linear(out, units):
    return make(out, units), make(out)


def norm():
    return make(UNITS) + 1, make(UNITS)


words, types, places = make(VOCAB, UNITS), make(TYPES, UNITS), make(LENGTH, UNITS)
first_norm = norm()
pooler, classifier = linear(UNITS, UNITS), linear(2, UNITS)
decoder, decoder_norm, decoder_bias = linear(UNITS, UNITS), norm(), make(VOCAB)
layers = []
for _ in range(LAYERS):
    layer = nn.TransformerEncoderLayer(UNITS, HEADS, HIDDEN, dropout=0, activation="gelu", layer_norm_eps=1e-12,
                                       batch_first=True)
    query, key, value = linear(UNITS, UNITS), linear(UNITS, UNITS), linear(UNITS, UNITS)
    out, after, ffn_1, ffn_2, last = linear(UNITS, UNITS), norm(), linear(HIDDEN, UNITS), linear(UNITS, HIDDEN), norm()
    layer.load_state_dict({
        "self_attn.in_proj_weight": torch.cat([query[0], key[0], value[0]]),
        "self_attn.in_proj_bias": torch.cat([query[1], key[1], value[1]]),
        "self_attn.out_proj.weight": out[0], "self_attn.out_proj.bias": out[1],
        "linear1.weight": ffn_1[0], "linear1.bias": ffn_1[1], "linear2.weight": ffn_2[0], "linear2.bias": ffn_2[1],
        "norm1.weight": after[0], "norm1.bias": after[1], "norm2.weight": last[0], "norm2.bias": last[1]})
    layers.append(layer)

tokens = torch.tensor([[1, 4, 9, 2, 10], [3, 3, 7, 0, 0]])
segments = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
lengths, masked = torch.tensor([5, 3]), torch.tensor([[1, 4], [2, 0]])


def normed(x, pair):
    return nn.functional.layer_norm(x, (UNITS,), pair[0], pair[1], 1e-12)


def project(x, pair):
    return nn.functional.linear(x, *pair)


x = normed(words[tokens] + types[segments] + places[:5], first_norm)
behind = torch.arange(5)[None] >= lengths[:, None]
for layer in layers:
    layer.train()  # no fast path
    x = layer(x, src_key_padding_mask=behind)
pooled = torch.tanh(project(x[:, 0], pooler))
at = torch.gather(x, 1, masked[:, :, None].expand(-1, -1, UNITS))
scores = project(normed(nn.functional.gelu(project(at, decoder)), decoder_norm), (words, decoder_bias))
x = x * ~behind[:, :, None]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bert.txt"), "w") as f:
    for result in (x, pooled, project(pooled, classifier), scores):
        f.write(" ".join(f"{v:.9g}" for v in result.flatten().tolist()) + "\n")
