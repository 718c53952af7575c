"""Small nets of PyTorch's own layers, for write_exports.py."""
import torch
import torch.nn.functional as F
from torch import nn


def words(n, length, vocabulary=50):
    return torch.randint(0, vocabulary, (n, length))


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
        b = self.down2(F.max_pool2d(a, 2))
        y = self.middle(F.max_pool2d(b, 2))
        y = self.side2(torch.cat([b, self.up2(y)], 1))
        return self.last(self.side1(torch.cat([a, self.up1(y)], 1)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.net = kind(12, 16, num_layers=2, batch_first=True, **options)
        width = options.get("proj_size", 16)
        self.last = nn.Linear(width * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, words):
        y, state = self.net(self.embed(words))
        return self.last(y[:, -1]), *(state if isinstance(state, tuple) else (state,))


class Packed(nn.Module):
    """Sequences of several lengths."""

    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(6, 8, bidirectional=True)

    def forward(self, x, lengths):
        y, _ = self.net(nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=True))
        return nn.utils.rnn.pad_packed_sequence(y)[0]


class Encoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options), 2, enable_nested_tensor=False)

    def forward(self, x, *padding):
        return self.net(x, src_key_padding_mask=padding[0]) if padding else self.net(x)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)

    def forward(self, x, y, padding):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.net(x, y, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.MultiheadAttention(16, 4, batch_first=True, kdim=10, vdim=12)

    def forward(self, q, k, v, padding):
        return self.net(q, k, v, key_padding_mask=padding)


class Shapes(nn.Module):
    """Arithmetic on shapes, as programs have it."""

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.view(n, c // 2, 2, h * w).transpose(1, 2).reshape(n, -1)
        y = F.pad(y, (1, 2), value=0.5)
        mask = torch.arange(y.shape[1])[None] < y.shape[1] // 2
        y = torch.where(mask, y, torch.zeros_like(y)).cumsum(1)
        top, index = y.topk(3, dim=1)
        return y.softmax(1), top, index, torch.einsum("ni,nj->nij", y[:, :4], y[:, 2:5]), y[:, ::2].clamp(min=-1)


class Of(nn.Module):
    """A function as a net."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)


class Filled(nn.Module):
    """Writes into parts of an array."""

    def forward(self, x, index):
        y = x.clone()
        y[:, 1:3] = 2.0
        y[index] = y[index] * 3
        y = y.scatter(1, index[:, None].expand(-1, 2), -1.0)
        y = y.index_add(0, index, x)
        return y.masked_fill(x > 1, 0.25), y.gather(1, index[:, None])


class Found(nn.Module):
    """What values decide."""

    def forward(self, x):
        at = torch.nonzero(x > 0)
        return at, x[x > 0], torch.sort(x, dim=1, descending=True)[0], torch.unique(x.round()), x.argmax(1)


def sequence(*layers):
    return nn.Sequential(*layers)


def images(*shape):
    return (torch.randn(*shape),)


def padding():
    return torch.tensor([[False] * 6, [False] * 4 + [True] * 2])


def wav2vec_like():
    layers, width = [], 1
    for kernel, stride in [(10, 5), (3, 2), (3, 2), (2, 2)]:
        layers += [nn.Conv1d(width, 16, kernel, stride, bias=False), nn.GroupNorm(16, 16), nn.GELU()]
        width = 16
    return sequence(*layers, nn.Conv1d(16, 16, 8, padding=4, groups=4), nn.GELU())


def resized(x):
    return (F.interpolate(x, scale_factor=2.0, mode="nearest"), F.interpolate(x, size=(9, 5), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=(0.5, 1.5), mode="bilinear", align_corners=False), F.interpolate(x, size=(11, 13), mode="bicubic"),
            F.interpolate(x, size=(4, 4), mode="area"))


def sampled(x, grid):
    theta = torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 1.1, 0.2]]]).repeat(x.shape[0], 1, 1)
    return F.grid_sample(x, grid, align_corners=False), F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="border", align_corners=True)


def folded(x):
    y = F.unfold(x, 3, padding=1, stride=2)
    return y, F.fold(y, (8, 8), 3, padding=1, stride=2)


def activated(x):
    return (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.elu(x), F.selu(x),
            F.celu(x), F.softplus(x), F.softsign(x), F.leaky_relu(x), F.relu6(x), F.hardtanh(x), F.logsigmoid(x), F.glu(x), F.threshold(x, 0.1, 0.0))


def reduced(x):
    return (x.mean((2, 3)), x.std(1), x.var((2, 3), unbiased=False), x.amax(1), x.logsumexp(-1), x.norm(dim=1), x.prod(3), x.cumsum(2),
            x.min(3)[0], x.sum(), (x > 0).any(1), (x > 0).all(2), F.normalize(x, dim=1))


def moved(x):
    return (x.flip(2), x.roll((1, -2), (2, 3)), x.permute(0, 2, 3, 1), F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), x.repeat(1, 2, 1, 1),
            x.tril(), torch.stack([x, x * 2], 1), x.unbind(1)[1], *x.chunk(2, 1), *x.split([1, 3], 1), F.pad(x, (1, 2, 3, 0), mode="reflect"),
            F.pad(x, (1, 1, 1, 1), mode="replicate"), F.pad(x, (1, 1, 1, 1), mode="circular"), x.unfold(2, 3, 2))


def counted(x):
    i = (x * 10).to(torch.int64)
    return (i // 3, i % 3, i.remainder(4), (i & 7), i.bitwise_or(8), torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), F.one_hot(i.abs() % 5, 5),
            torch.fmod(x, 0.7), x.floor(), x.round(), x.trunc(), x.sign(), torch.atan2(x, x + 1), x.clamp(-0.5, 0.5), x.isnan(), x.to(torch.int32))


NETS = {
    "unet": lambda: (UNet(), images(2, 3, 16, 24)),
    "rnn": lambda: (Recurrent(nn.RNN), (words(3, 7),)),
    "lstm": lambda: (Recurrent(nn.LSTM), (words(3, 7),)),
    "lstm_both": lambda: (Recurrent(nn.LSTM, bidirectional=True), (words(3, 7),)),
    "lstm_packed": lambda: (Packed(), (torch.randn(7, 3, 6), torch.tensor([7, 4, 2]))),
    "gru": lambda: (Recurrent(nn.GRU), (words(3, 7),)),
    "gru_both": lambda: (Recurrent(nn.GRU, bidirectional=True), (words(3, 7),)),
    "transformer": lambda: (Encoder(), images(2, 6, 16)),
    "transformer_masked": lambda: (Encoder(norm_first=True, activation="gelu"), (torch.randn(2, 6, 16), padding())),
    "translator": lambda: (Translator(), (torch.randn(2, 6, 16), torch.randn(2, 5, 16), padding())),
    "multihead": lambda: (Heads(), (torch.randn(2, 5, 16), torch.randn(2, 6, 10), torch.randn(2, 6, 12), padding())),
    "causal": lambda: (Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), tuple(torch.randn(2, 3, 5, 8) for _ in range(3))),
    "shapes": lambda: (Shapes(), images(2, 4, 3, 3)),
    "filled": lambda: (Filled(), (torch.randn(4, 5), torch.tensor([2, 0, 1, 3]))),
    "found": lambda: (Found(), images(4, 5)),
    "wav2vec_like": lambda: (wav2vec_like(), images(2, 1, 400)),
    "autoencoder": lambda: (sequence(nn.Conv2d(3, 8, 3, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 3, 3, 2, 1, output_padding=1), nn.Tanh()), images(2, 3, 16, 16)),
    "volumes": lambda: (sequence(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.ConvTranspose3d(4, 2, 2, 2)), images(1, 2, 6, 8, 8)),
    "normalisations": lambda: (sequence(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm((4, 8, 8)), nn.LocalResponseNorm(3), nn.Dropout(0.3), nn.RMSNorm(8)), images(2, 4, 8, 8)),
    "pools": lambda: (Of(lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, 4)), F.adaptive_max_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), F.max_pool2d(x, 3, 2, 1, 2), F.lp_pool2d(x, 2, 2), *F.max_pool2d(x, 2, return_indices=True))), images(2, 3, 8, 8)),
    "resized": lambda: (Of(resized), images(2, 3, 8, 8)),
    "sampled": lambda: (Of(sampled), (torch.randn(2, 3, 8, 8), torch.rand(2, 5, 6, 2) * 2.2 - 1.1)),
    "folded": lambda: (Of(folded), images(2, 3, 8, 8)),
    "activated": lambda: (Of(activated), images(3, 8)),
    "reduced": lambda: (Of(reduced), images(2, 4, 6, 6)),
    "moved": lambda: (Of(moved), images(2, 4, 6, 6)),
    "counted": lambda: (Of(counted), images(3, 8)),
    "bag": lambda: (nn.EmbeddingBag(50, 8, mode="mean"), (words(3, 7),)),
    "complex": lambda: (Of(lambda x: torch.view_as_real(torch.fft.rfft(x))), images(2, 16)),
    "spectrogram": lambda: (Of(lambda x: torch.view_as_real(torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True))), images(2, 400)),
    "float16": lambda: (sequence(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).half(), (torch.randn(2, 3, 8, 8).half(),)),
    "float64": lambda: (sequence(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).double(), (torch.randn(3, 8).double(),)),
}
