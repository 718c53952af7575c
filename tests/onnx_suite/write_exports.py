#!/usr/bin/env python3
"""write_exports.py FOLDER [NAME...]: nets with random weights, exported by PyTorch, as cases for onnx_suite.

FOLDER/exports/NAME/model.onnx has PyTorch's own results for random inputs beside it, as write_cases.py lays them out.
Names that end in _dynamo are exported by torch.export, others by tracing. Needs torch, torchvision, transformers, onnx
and onnxscript. Sizes are small, so that all of them take minutes.
"""
import os
import sys

import numpy as np
import torch
from onnx import numpy_helper
from torch import nn


def vision(name, size=64, **options):
    import torchvision

    net = getattr(torchvision.models, name)(weights=None, **options)
    for m in net.modules():  # statistics that are not those of a new net
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.1, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return net, (torch.randn(2, 3, size, size),)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())
        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.side2, self.side1 = block(32, 16), block(24, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(nn.functional.max_pool2d(a, 2))
        y = self.middle(nn.functional.max_pool2d(b, 2))
        y = self.side2(torch.cat([b, self.up2(y)], 1))
        return self.last(self.side1(torch.cat([a, self.up1(y)], 1)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.net = kind(12, 16, num_layers=2, batch_first=True, **options)
        self.last = nn.Linear(16 * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, words):
        y, _ = self.net(self.embed(words))
        return self.last(y[:, -1])


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


class Shapes(nn.Module):
    """Arithmetic on shapes, as programs have it."""

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.view(n, c // 2, 2, h * w).transpose(1, 2).reshape(n, -1)
        y = torch.nn.functional.pad(y, (1, 2), value=0.5)
        mask = torch.arange(y.shape[1])[None] < y.shape[1] // 2
        y = torch.where(mask, y, torch.zeros_like(y)).cumsum(1)
        top, index = y.topk(3, dim=1)
        return y.softmax(1), top, index, torch.einsum("ni,nj->nij", y[:, :4], y[:, 2:5]), y[:, ::2].clamp(min=-1)


def words(n, length, vocabulary=50):
    return torch.randint(0, vocabulary, (n, length))


def transformer(kind):
    import transformers as t

    if kind == "bert":
        config = t.BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
        net, inputs = t.BertModel(config), (words(2, 12, 100), torch.ones(2, 12, dtype=torch.int64))
    elif kind == "distilbert":
        config = t.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64)
        net, inputs = t.DistilBertModel(config), (words(2, 12, 100), torch.ones(2, 12, dtype=torch.int64))
    elif kind == "llama":
        config = t.LlamaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64, use_cache=False)
        net, inputs = t.LlamaForCausalLM(config), (words(2, 12, 100),)
    elif kind == "vit":
        config = t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
        net, inputs = t.ViTModel(config), (torch.randn(2, 3, 32, 32),)
    else:
        config = t.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)
        net, inputs = t.GPT2LMHeadModel(config), (words(2, 12, 100),)
    config._attn_implementation = "eager"
    return net, inputs


class First(nn.Module):
    """The first output of a net whose outputs are a tuple or a mapping."""

    def __init__(self, net, names):
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *inputs):
        return self.net(**dict(zip(self.names, inputs)))[0]


def language(kind, names):
    net, inputs = transformer(kind)
    return First(net, names), inputs


NETS = {
    "resnet18": lambda: vision("resnet18"),
    "resnet50": lambda: vision("resnet50"),
    "alexnet": lambda: vision("alexnet", 96),
    "vgg11_bn": lambda: vision("vgg11_bn", 32),
    "squeezenet1_1": lambda: vision("squeezenet1_1"),
    "densenet121": lambda: vision("densenet121"),
    "googlenet": lambda: vision("googlenet", init_weights=False, aux_logits=False),
    "inception_v3": lambda: vision("inception_v3", 96, init_weights=False, aux_logits=False),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "mobilenet_v3_small": lambda: vision("mobilenet_v3_small"),
    "shufflenet_v2_x0_5": lambda: vision("shufflenet_v2_x0_5"),
    "mnasnet0_5": lambda: vision("mnasnet0_5"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "regnet_y_400mf": lambda: vision("regnet_y_400mf"),
    "convnext_tiny": lambda: vision("convnext_tiny", 32),
    "vit_b_16": lambda: vision("vit_b_16", 32, image_size=32),
    "swin_t": lambda: vision("swin_t", 64),
    "unet": lambda: (UNet(), (torch.randn(2, 3, 16, 24),)),
    "lstm": lambda: (Recurrent(nn.LSTM), (words(3, 7),)),
    "lstm_both": lambda: (Recurrent(nn.LSTM, bidirectional=True), (words(3, 7),)),
    "gru": lambda: (Recurrent(nn.GRU), (words(3, 7),)),
    "transformer": lambda: (Attentive(), (torch.randn(2, 6, 16),)),
    "shapes": lambda: (Shapes(), (torch.randn(2, 4, 3, 3),)),
    "bert": lambda: language("bert", ["input_ids", "attention_mask"]),
    "distilbert": lambda: language("distilbert", ["input_ids", "attention_mask"]),
    "gpt2": lambda: language("gpt2", ["input_ids"]),
    "llama": lambda: language("llama", ["input_ids"]),
    "vit": lambda: language("vit", ["pixel_values"]),
}


def export(name, folder, dynamo):
    torch.manual_seed(0)
    net, inputs = NETS[name]()
    net.eval()
    with torch.no_grad():
        outputs = net(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        os.makedirs(os.path.join(folder, "test_data_set_0"), exist_ok=True)
        path = os.path.join(folder, "model.onnx")
        names = [f"in{i}" for i in range(len(inputs))]
        if dynamo:
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=True, verbose=False)
        else:
            axes = {n: {0: "batch"} for n in names}
            torch.onnx.export(net, inputs, path, input_names=names, dynamo=False, opset_version=17, dynamic_axes=axes)
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, v in enumerate(values):
            with open(os.path.join(folder, "test_data_set_0", f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.ascontiguousarray(v.numpy())).SerializeToString())
    # an error counts beside the largest output: PyTorch's own results have such errors beside those in float64
    return 1e-4 * max(v.abs().max().item() for v in outputs if v.is_floating_point())


def main():
    root = sys.argv[1]
    wanted = sys.argv[2:] or [n + s for n in NETS for s in ("", "_dynamo")]
    lines = []
    for name in wanted:
        dynamo = name.endswith("_dynamo")
        try:
            scale = export(name.removesuffix("_dynamo"), os.path.join(root, "exports", name), dynamo)
        except Exception as e:  # what PyTorch itself cannot export
            print(f"{name}: not exported: {str(e).splitlines()[0] if str(e) else type(e).__name__}", flush=True)
            continue
        print(name, flush=True)
        lines.append(f"exports/{name} 0 {scale}\n")
        with open(os.path.join(root, "tolerances.txt"), "w") as f:
            f.writelines(lines)


if __name__ == "__main__":
    main()
