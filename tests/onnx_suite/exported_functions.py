"""Single functions of PyTorch and their variants, for write_exports.py: one net each, so that a failure names its cause."""
import torch
import torch.nn.functional as F
from torch import nn

from exported_layers import Of, Recurrent, images, sequence, words


def of(fn, *inputs, more=()):
    """The function as a net, its inputs, and others of other sizes that the same file has to take."""
    return lambda: (Of(fn), tuple(i() for i in inputs), [tuple(i() for i in other) for other in more])


def r(*shape):
    return lambda: torch.randn(*shape)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.1


def whole(low, high, *shape):
    return lambda: torch.randint(low, high, shape)


def given(values, dtype=None):
    return lambda: torch.tensor(values, dtype=dtype)


def layer(make, *inputs, more=()):
    return lambda: (make(), tuple(i() for i in inputs), [tuple(i() for i in other) for other in more])


IMAGE = r(2, 4, 8, 10)

NETS = {}

# resizing: each mode, by size and by scale, with and without aligned corners
for mode, shape in {"nearest": (2, 3, 7, 9), "nearest-exact": (2, 3, 7, 9), "bilinear": (2, 3, 7, 9), "bicubic": (2, 3, 7, 9), "area": (2, 3, 7, 9), "linear": (2, 3, 9), "trilinear": (2, 3, 5, 6, 7)}.items():
    n = len(shape) - 2
    title = mode.replace("-", "_")
    NETS[f"resize_{title}_size"] = of(lambda x, mode=mode, n=n: F.interpolate(x, size=(11, 5, 4)[:n], mode=mode), r(*shape))
    NETS[f"resize_{title}_scale"] = of(lambda x, mode=mode, n=n: F.interpolate(x, scale_factor=(1.7, 0.6, 2.0)[:n], mode=mode), r(*shape))
    if mode in ("linear", "bilinear", "bicubic", "trilinear"):
        NETS[f"resize_{title}_aligned"] = of(lambda x, mode=mode, n=n: F.interpolate(x, size=(11, 5, 4)[:n], mode=mode, align_corners=True), r(*shape))
        NETS[f"resize_{title}_computed"] = of(lambda x, mode=mode, n=n: F.interpolate(x, scale_factor=(1.7, 0.6, 2.0)[:n], mode=mode, recompute_scale_factor=True), r(*shape))
        NETS[f"resize_{title}_aligned_scale"] = of(lambda x, mode=mode, n=n: F.interpolate(x, scale_factor=(1.7, 0.6, 2.0)[:n], mode=mode, align_corners=True), r(*shape))
    if mode in ("bilinear", "bicubic"):
        NETS[f"resize_{title}_antialias"] = of(lambda x, mode=mode: F.interpolate(x, size=(4, 5), mode=mode, antialias=True), r(*shape))

NETS["resize_to_one"] = of(lambda x: (F.interpolate(x, size=(1, 5), mode="bilinear"), F.interpolate(x, size=(8, 1), mode="bicubic"), F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True), F.interpolate(x, size=1)), r(2, 3, 7, 9))

for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for aligned in (False, True):
            NETS[f"grid_{mode}_{padding}{'_aligned' if aligned else ''}"] = of(
                lambda x, g, m=mode, p=padding, a=aligned: F.grid_sample(x, g, m, p, a), r(2, 3, 6, 7), lambda: torch.rand(2, 4, 5, 2) * 3 - 1.5)
NETS["grid_volume"] = of(lambda x, g: F.grid_sample(x, g, align_corners=False), r(1, 2, 4, 5, 6), lambda: torch.rand(1, 3, 4, 2, 3) * 2.4 - 1.2)

# convolutions
for name, make, shape in (
    ("transpose1d", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 9)),
    ("transpose2d", lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2)), (2, 4, 8, 10)),
    ("transpose2d_dilated", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, dilation=2, bias=False), (2, 4, 8, 10)),
    ("transpose2d_groups", lambda: nn.ConvTranspose2d(4, 8, 3, groups=4), (2, 4, 8, 10)),
    ("transpose3d", lambda: nn.ConvTranspose3d(2, 4, 3, stride=2, padding=1, output_padding=(1, 0, 1), groups=2), (1, 2, 4, 5, 6)),
    ("same", lambda: nn.Conv2d(4, 6, (4, 3), padding="same"), (2, 4, 8, 10)),
    ("valid_dilated", lambda: nn.Conv2d(4, 6, 3, padding="valid", dilation=(2, 3)), (2, 4, 8, 10)),
    ("circular", lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (2, 4, 8, 10)),
    ("reflect", lambda: nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode="reflect"), (2, 4, 8, 10)),
    ("depthwise1d", lambda: nn.Conv1d(4, 8, 3, groups=4, stride=2), (2, 4, 9)),
    ("conv3d_groups", lambda: nn.Conv3d(4, 8, (1, 2, 3), groups=2, stride=(1, 2, 1), padding=(0, 1, 1)), (1, 4, 4, 5, 6)),
):
    NETS[f"conv_{name}"] = layer(make, r(*shape))
NETS["conv_transpose_output_size"] = of(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=(1, 0)), r(2, 4, 5, 6), r(4, 3, 3, 3))
NETS["conv_weight_input"] = of(lambda x, w: F.conv2d(x, w, padding=1), r(2, 4, 5, 6), r(3, 4, 3, 3))
NETS["conv_unbatched"] = layer(lambda: nn.Conv2d(4, 6, 3), r(4, 8, 10))

# moving and indexing
for name, fn, *inputs in (
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGE),
    ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), IMAGE),
    ("einsum_matmul", lambda a, b: torch.einsum("bij,bjk->bik", a, b), r(2, 3, 4), r(2, 4, 5)),
    ("einsum_heads", lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), r(2, 3, 4, 5), r(2, 6, 4, 5)),
    ("einsum_diagonal", lambda a: torch.einsum("bii->bi", a), r(2, 4, 4)),
    ("einsum_trace", lambda a: torch.einsum("ii", a), r(4, 4)),
    ("einsum_ellipsis", lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), r(2, 3, 4, 5), r(3, 5, 2)),
    ("einsum_outer", lambda a, b, c: torch.einsum("i,j,k->kij", a, b, c), r(3), r(4), r(5)),
    ("einsum_sum", lambda a: torch.einsum("ijk->j", a), r(2, 3, 4)),
    ("einsum_bilinear", lambda a, w, b: torch.einsum("bi,oij,bj->bo", a, w, b), r(2, 3), r(5, 3, 4), r(2, 4)),
    ("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), r(2, 3, 4), r(3, 4, 5)),
    ("bilinear", lambda a, b, w: F.bilinear(a, b, w), r(2, 3), r(2, 4), r(5, 3, 4)),
    ("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1), x.cumsum(1).flip(1)), r(3, 4, 5)),
    ("cumsum_whole", lambda x: (x.cumsum(1), x.to(torch.int32).cumsum(0), (x > 2).cumsum(1)), whole(0, 5, 3, 4)),
    ("cumprod", lambda x: x.cumprod(1), r(3, 4)),
    ("cummax", lambda x: x.cummax(1), r(3, 6)),
    ("cummin", lambda x: x.cummin(1), r(3, 6)),
    ("logcumsumexp", lambda x: x.logcumsumexp(1), r(3, 6)),
    ("topk", lambda x: (*x.topk(3), *x.topk(2, dim=0), *x.topk(2, dim=1, largest=False)), r(4, 6)),
    ("topk_k_input", lambda x, k: x.topk(k.item())[0], r(4, 6), given(3)),
    ("sort", lambda x: (*x.sort(), *x.sort(0, descending=True), x.argsort(1)), r(4, 6)),
    ("sort_stable", lambda x: torch.sort(x, dim=1, stable=True), whole(0, 4, 3, 9)),
    ("kthvalue", lambda x: x.kthvalue(2, 1), r(3, 7)),
    ("median", lambda x: x.median(1), r(3, 7)),
    ("msort", lambda x: torch.msort(x), r(5, 3)),
    ("quantile", lambda x: torch.quantile(x, 0.3, 1), r(3, 7)),
    ("mode_values", lambda x: x.mode(1)[0], whole(1, 4, 3, 7)),
    ("scatter", lambda x, i, s: x.scatter(1, i, s), r(3, 5), whole(0, 5, 3, 1), r(3, 1)),
    ("scatter_add", lambda x, i, s: (x.scatter_add(1, i, s), x.scatter_add(0, i % 3, s)), r(3, 5), whole(0, 5, 3, 5), r(3, 5)),
    ("scatter_reduce", lambda x, i, s: tuple(x.scatter_reduce(1, i, s, reduce=m) for m in ("sum", "prod", "amax", "amin", "mean")), r(3, 5), whole(0, 5, 3, 5), r(3, 5)),
    ("scatter_reduce_new", lambda x, i, s: tuple(x.scatter_reduce(1, i, s, reduce=m, include_self=False) for m in ("sum", "amax", "amin")), r(3, 5), whole(0, 5, 3, 5), r(3, 5)),
    ("index_put", lambda x, i, v: x.index_put((i,), v), r(5, 3), given([0, 3]), r(2, 3)),
    ("index_put_add", lambda x, i, v: x.index_put((i,), v, accumulate=True), r(5, 3), given([0, 3, 0]), r(3, 3)),
    ("index_put_pairs", lambda x, i, j, v: x.index_put((i, j), v), r(5, 3), given([0, 3]), given([1, 2]), r(2)),
    ("index_put_mask", lambda x: x.masked_fill(x > 0.5, 2.0), r(5, 3)),
    ("masked_put_slice", lambda x, v: torch.cat([x[:, :1], v, x[:, 2:]], 1), r(4, 3), r(4, 1)),
    ("masked_scatter", lambda x, m, v: x.masked_scatter(m > 0, v), r(4, 3), r(4, 3), r(12)),
    ("masked_select", lambda x: x.masked_select(x > 0), r(4, 3)),
    ("index_select", lambda x, i: (x.index_select(1, i), x[:, i], x[i][:, i]), r(5, 5), given([0, 3, 2])),
    ("index_grid", lambda x, i, j: x[i, :, j], r(5, 4, 6), given([0, 3]), given([1, 5])),
    ("index_negative", lambda x: (x[-1], x[:, -2:], x[..., ::3], x[:, None, 1:-1], x[1:, ::2]), r(3, 4, 6)),
    ("index_mask_rows", lambda x: x[x[:, 0] > 0], r(6, 3)),
    ("index_copy", lambda x, i, v: (x.index_copy(0, i, v), x.index_fill(0, i, 0.5)), r(5, 3), given([0, 3]), r(2, 3)),
    ("index_add", lambda x, i, v: x.index_add(1, i, v, alpha=2), r(3, 5), given([0, 3, 0]), r(3, 3)),
    ("index_reduce", lambda x, i, v: x.index_reduce(0, i, v, "amax"), r(5, 3), given([0, 3, 0]), r(3, 3)),
    ("take", lambda x, i: (x.take(i), torch.take_along_dim(x, i % 3, 0)), r(3, 4), whole(0, 12, 3, 4)),
    ("gather", lambda x, i: (x.gather(0, i), x.gather(1, i)), r(4, 4), whole(0, 4, 3, 4)),
    ("slice_scatter", lambda x, v: (x.slice_scatter(v, 1, 1, 3), x.select_scatter(v[:, 0], 1, 0), x.diagonal_scatter(v[0], 0)), r(2, 5), r(2, 2)),
    ("slice_assign", lambda x: assigned(x), r(4, 6)),
    ("diagonal", lambda x: (x.diagonal(), x.diagonal(1), torch.diag(x[0]), torch.diag_embed(x, 1), x.diagonal(-1, 0, 1)), r(4, 5)),
    ("tril_indices", lambda x: x[torch.tril_indices(4, 4)[0], torch.tril_indices(4, 4)[1]], r(4, 4)),
    ("triu", lambda x: (x.triu(1), x.tril(-1), x.triu(-2)), r(2, 4, 5)),
    ("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij") + torch.meshgrid(a, b, indexing="xy"), r(3), r(4)),
    ("cartesian", lambda a, b: (torch.cartesian_prod(a, b), torch.combinations(a)), r(3), r(4)),
    ("roll", lambda x: (x.roll(1), x.roll((2, -1), (0, 1)), x.roll(7, 1)), r(3, 5)),
    ("rot90", lambda x: (x.rot90(1, (0, 1)), x.rot90(2, (0, 1)), x.fliplr(), x.flipud()), r(3, 5)),
    ("movedim", lambda x: (x.movedim(0, 2), x.swapaxes(0, 1), x.mT), r(2, 3, 5)),
    ("unfold", lambda x: (x.unfold(1, 3, 2), F.unfold(x[:, None], (2, 3), dilation=(1, 2), padding=1, stride=2)), r(2, 6, 8)),
    ("fold", lambda x: F.fold(x, (6, 8), (2, 3), stride=(2, 1)), r(2, 12, 18)),
    ("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat_interleave(2, 1), x.tile(2), x.expand(4, 2, 3, 5)), r(2, 3, 5)),
    ("repeat_by", lambda x, n: x.repeat_interleave(n, 0), r(3, 4), given([2, 0, 3])),
    ("split", lambda x: (*x.split(2, 1), *x.tensor_split(3, 1), *x.chunk(3, 1), *x.hsplit(7)), r(2, 7)),
    ("stacks", lambda a, b: (torch.hstack([a, b]), torch.vstack([a, b]), torch.dstack([a, b]), torch.column_stack([a, b]), torch.block_diag(a, b)), r(2, 3), r(2, 3)),
    ("squeezes", lambda x: (x.squeeze(), x.squeeze(1), x.unsqueeze(-1), x.flatten(1), x.unflatten(3, (2, 2)), x.ravel()), r(2, 1, 3, 4)),
    ("as_strided", lambda x: x.as_strided((3, 2), (2, 1), 1), r(4, 4)),
    ("strided_view", lambda x: x.view(2, 6).t().contiguous().view(3, 4), r(3, 4)),
    ("pad_constant", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, -1, 0, 2), value=3.0), F.pad(x, (-1, 0, 0, -2, 1, 1))), IMAGE),
    ("pad_volume", lambda x: (F.pad(x, (1, 2, 0, 1, 2, 2), mode="replicate"), F.pad(x, (1, 1, 1, 1, 1, 1), mode="circular"), F.pad(x, (1, 2, 0, 1, 2, 2), mode="reflect")), r(1, 2, 4, 5, 6)),
    ("pad_sides", lambda x: (F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 1), mode="replicate"), F.pad(x, (2, 1), mode="circular")), r(2, 3, 6)),
    ("pad_int", lambda x: F.pad(x, (1, 2), value=7), whole(0, 5, 2, 3)),
    ("pad_bool", lambda x: F.pad(x > 0, (1, 2), value=True), r(2, 3)),
    ("nonzero", lambda x: (x.nonzero(), *torch.nonzero(x, as_tuple=True), torch.argwhere(x > 1)), whole(0, 3, 3, 4)),
    ("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), whole(0, 5, 12)),
    ("unique_rows", lambda x: torch.unique(x, dim=0), whole(0, 2, 6, 2)),
    ("unique_consecutive", lambda x: torch.unique_consecutive(x), whole(0, 2, 12)),
    ("bincount", lambda x: torch.bincount(x, minlength=6), whole(0, 5, 12)),
    ("histc", lambda x: torch.histc(x, 5, -1.0, 1.0), r(20)),
    ("searchsorted", lambda s, v: (torch.searchsorted(s, v), torch.searchsorted(s, v, right=True)), lambda: torch.randn(6).sort()[0], r(3, 4)),
    ("bucketize", lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5]), right=True), r(3, 4)),
    ("one_hot", lambda x: (F.one_hot(x, 5), F.one_hot(x).float()), lambda: torch.tensor([0, 4, 2, 1])),
    ("where", lambda x, y: (torch.where(x > y, x, y), torch.where(x > 0, 1.0, x), torch.where(x > 0)[0], torch.where(x > 0, 2, 3)), r(3, 4), r(4)),
    ("fills", lambda x: (torch.zeros_like(x), torch.full_like(x, 2.5), x.new_ones(2, 3), torch.full((x.shape[0], 2), 7), torch.eye(3), torch.linspace(0, 1, 5) + x[0, 0], torch.empty_like(x).fill_(3)), r(3, 4)),
    ("arange", lambda x: (torch.arange(x.shape[0]), torch.arange(1, 5, 0.5), torch.arange(x.shape[1] - 1, -1, -1), torch.logspace(0, 1, 4) * x[0, 0]), r(3, 4)),
):
    NETS[name] = of(fn, *inputs)


def assigned(x):
    y = x.clone()
    y[1:3, ::2] = y[0, :3] * 2
    y[:, -1] += 1
    y[y > 1.5] = 0
    y[..., 0, None] = 4
    y[2] = torch.arange(6.0)
    return y


# numbers
for name, fn, *inputs in (
    ("fft", lambda x: (torch.view_as_real(torch.fft.fft(x)), torch.view_as_real(torch.fft.fft(x, n=8)), torch.view_as_real(torch.fft.fft(x, dim=0, norm="ortho"))), r(4, 10)),
    ("ifft", lambda x: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))), r(3, 8, 2)),
    ("rfft", lambda x: (torch.fft.rfft(x).abs(), torch.fft.rfft(x, dim=0).real, torch.fft.rfft(x).imag), r(4, 10)),
    ("irfft", lambda x: (torch.fft.irfft(torch.fft.rfft(x) * 2), torch.fft.irfft(torch.fft.rfft(x), n=9)), r(4, 10)),
    ("fft2", lambda x: torch.view_as_real(torch.fft.fft2(x)), r(2, 4, 6)),
    ("rfft2", lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="ortho")), r(2, 4, 6)),
    ("fftn", lambda x: torch.fft.fftn(x).real, r(2, 4, 6)),
    ("fftshift", lambda x: (torch.fft.fftshift(x), torch.fft.ifftshift(x, 1), torch.fft.fftfreq(5) + x[0]), r(4, 5)),
    ("complex_product", lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)), r(3, 4, 2), r(3, 4, 2)),
    ("polar", lambda x: torch.view_as_real(torch.polar(torch.ones_like(x), x)), r(3, 4)),
    ("complex_parts", lambda x: (torch.view_as_complex(x).angle(), torch.view_as_complex(x).abs(), torch.view_as_real(torch.view_as_complex(x).conj())), r(3, 4, 2)),
    ("stft", lambda x: torch.view_as_real(torch.stft(x, 32, 8, window=torch.hann_window(32), return_complex=True)), r(2, 200)),
    ("stft_plain", lambda x: torch.view_as_real(torch.stft(x, 32, 8, center=False, onesided=False, normalized=True, window=torch.ones(32), return_complex=True)), r(2, 200)),
    ("stft_power", lambda x: torch.stft(x, 64, 16, 48, window=torch.hamming_window(48), return_complex=True).abs().pow(2), r(2, 300)),
    ("istft", lambda x: torch.istft(torch.stft(x, 32, 8, window=torch.hann_window(32), return_complex=True), 32, 8, window=torch.hann_window(32)), r(2, 200)),
    ("rounding", lambda x: (x.round(), x.round(decimals=1), x.floor(), x.ceil(), x.trunc(), x.frac(), x.sgn()), r(3, 4)),
    ("division", lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.remainder(x, y), torch.div(x, y, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor")), r(3, 4), r(3, 4)),
    ("division_whole", lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x / y), whole(-9, 9, 3, 4), lambda: torch.tensor([3, -2, 4, -5])),
    ("bits", lambda x, y: (x & y, x | y, x ^ y, ~x, x << 2, x >> 1), whole(0, 99, 3, 4), whole(0, 99, 3, 4)),
    ("logic", lambda x, y: ((x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0), torch.logical_xor(x, y), x.eq(y), x.ne(y), torch.isclose(x, y)), r(3, 4), r(3, 4)),
    ("special", lambda x: (x.erf(), x.erfc(), x.expm1(), x.abs().log1p(), x.sinc(), x.sigmoid().logit(), x.exp2(), x.abs().log2(), x.abs().log10(), x.abs().rsqrt(), x.square(), x.abs().sqrt()), r(3, 4)),
    ("gammas", lambda x: (x.lgamma(), x.digamma()), positive(3, 4)),
    ("erfinv", lambda x: x.erfinv(), lambda: torch.rand(3, 4) * 1.8 - 0.9),
    ("trigonometry", lambda x: (x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), x.sinh(), x.cosh(), x.tanh(), x.asinh(), x.atanh(), (x.abs() + 1).acosh()), lambda: torch.rand(3, 4) * 1.8 - 0.9),
    ("atan2", lambda x, y: (torch.atan2(x, y), torch.hypot(x, y), torch.copysign(x, y)), r(3, 4), r(3, 4)),
    ("powers", lambda x, y: (x.pow(2), x.pow(y), 2.0 ** y, x.pow(-0.5), x.pow(3), x ** 0.5, torch.float_power(x, 2)), positive(3, 4), r(3, 4)),
    ("power_whole", lambda x: (x ** 2, x ** 3, 2 ** x), whole(0, 6, 3, 4)),
    ("lerp", lambda x, y: (torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5), torch.addcdiv(x, y, y.abs() + 1), torch.maximum(x, y), torch.fmin(x, y)), r(3, 4), r(3, 4)),
    ("clamp", lambda x, y: (x.clamp(min=0.1), x.clamp(max=0.5), x.clamp(-0.5, 0.5), x.clamp(min=y), x.clamp_max(y)), r(3, 4), r(4)),
    ("clamp_whole", lambda x: (x.clamp(min=2), x.clamp(1, 3), x.to(torch.int32).clamp(max=2)), whole(0, 6, 3, 4)),
    ("nan_to_num", lambda x: (torch.nan_to_num(x / 0 * (x > 0), 1.0, 2.0, -2.0), torch.isinf(x / 0), torch.isfinite(x)), r(3, 4)),
    ("reductions", lambda x: (x.sum(0), x.mean((0, 2), keepdim=True), x.prod(1), x.amax((1, 2)), x.amin(), x.std(), x.var(1, correction=0), *torch.var_mean(x, 1), *torch.std_mean(x, (0, 1)), x.norm(), x.norm(1, 1), x.norm(float("inf"), 2), x.logsumexp((0, 1))), r(3, 4, 5)),
    ("reductions_bool", lambda x: ((x > 0).any(), (x > 0).all(1), (x > 0).sum(1), (x > 0).float().mean(), (x > 0).any(0, keepdim=True), torch.count_nonzero(x > 0, 1)), r(3, 4)),
    ("reductions_whole", lambda x: (x.sum(), x.prod(1), x.amax(0), x.max(1)[1], x.min(), x.to(torch.int32).sum(1), x.float().mean()), whole(0, 6, 3, 4)),
    ("aminmax", lambda x: (*torch.aminmax(x), x.max(), *x.max(1), *x.min(0, keepdim=True), x.argmax(), x.argmin(1, keepdim=True)), r(3, 4)),
    ("norms", lambda x: (torch.linalg.norm(x), torch.linalg.vector_norm(x, 3, 1), torch.linalg.matrix_norm(x[None]), F.normalize(x, 1, 0), torch.renorm(x, 2, 0, 1.0), torch.linalg.norm(x, 1, 1)), r(3, 4)),
    ("nansum", lambda x: (x.nansum(1), x.nanmean(1)), r(3, 4)),
    ("distances", lambda x, y: (torch.cdist(x, y), F.cosine_similarity(x[:, :3], y[:, :3], dim=2), F.pairwise_distance(x[:, 0], y[:, 0])), r(2, 3, 4), r(2, 5, 4)),
    ("cdist_one", lambda x, y: torch.cdist(x, y, p=1), r(2, 3, 4), r(2, 5, 4)),
    ("products", lambda a, b: (a @ b, torch.mm(a, b), a.matmul(b[:, 0]), torch.mv(a, b[:, 0]), torch.dot(a[0], b[:, 0]), torch.outer(a[0], b[0]), torch.addmm(a[:, :2], a, b, beta=0.5, alpha=2), torch.kron(a[:2, :2], b[:2, :2]), torch.linalg.multi_dot([a, b, b.t()])), r(3, 4), r(4, 2)),
    ("products_batched", lambda a, b: (torch.bmm(a, b), torch.baddbmm(a[:, :, :2] * 0 + 1, a, b), a[:, None] @ b[None], torch.linalg.vecdot(a, a)), r(2, 3, 4), r(2, 4, 2)),
    ("cross", lambda a, b: torch.linalg.cross(a, b), r(4, 3), r(4, 3)),
    ("determinant", lambda x: torch.linalg.det(x), r(2, 3, 3)),
    ("inverse", lambda x: torch.linalg.inv(x + 4 * torch.eye(3)), r(2, 3, 3)),
    ("trace", lambda x: torch.trace(x), r(3, 3)),
    ("casts", lambda x: (x.int(), x.long(), x.double(), x.half().float(), x.bool(), x.to(torch.int8), x.short(), x.bfloat16().float()), lambda: torch.randn(3, 4) * 5),
    ("casts_unsigned", lambda x: (x.to(torch.uint8), (x.to(torch.uint8) + 250), x.to(torch.uint8).float() / 255), whole(0, 99, 3, 4)),
    ("mixed_types", lambda x, i: (x + i, x * i, i / 2, i * 1.5, x.double() + x, i + True), r(3, 4), whole(0, 9, 3, 4)),
    ("scalars", lambda x, s: (x + s, x * s, s * 2, s.reshape(1), x.sum() / s), r(3, 4), lambda: torch.tensor(2.5)),
    ("trapezoid", lambda x: (torch.trapezoid(x), x.diff(dim=1), torch.gradient(x, dim=1)[0]), r(3, 6)),
    ("softmaxes", lambda x: (x.softmax(0), x.softmax(-1), x.log_softmax(1), F.softmin(x, 1), F.softmax(x, 1, dtype=torch.float64), F.gumbel_softmax(x, hard=False) * 0), r(3, 4, 5)),
    ("rectifiers", lambda x: (F.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])), F.rrelu(x), F.relu(x), F.hardshrink(x), F.softshrink(x), F.tanhshrink(x), F.glu(x, 1), F.silu(x), F.logsigmoid(x), F.softplus(x, 2.0, 1.0)), r(2, 4, 5)),
    ("losses", lambda x, t, y: (F.cross_entropy(x, t), F.cross_entropy(x, t, label_smoothing=0.1, reduction="none"), F.nll_loss(x.log_softmax(1), t, reduction="sum"), F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.5), F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.cosine_embedding_loss(x, y, t * 0 + 1), F.hinge_embedding_loss(x, t[:, None] * 0 + 1)), r(3, 5), whole(0, 5, 3), r(3, 5)),
    ("dropouts", lambda x: (F.dropout(x, 0.5, False), F.alpha_dropout(x, 0.5, False), F.dropout2d(x, 0.3, False)), IMAGE),
):
    NETS[name] = of(fn, *inputs)

# layers with options
for name, make, *inputs in (
    ("embedding_padded", lambda: nn.Embedding(50, 8, padding_idx=0), lambda: words(2, 5)),
    ("embedding_max_norm", lambda: nn.Embedding(50, 8, max_norm=1.0), lambda: words(2, 5)),
    ("bag_sum", lambda: nn.EmbeddingBag(50, 8, mode="sum"), lambda: words(3, 7)),
    ("bag_max", lambda: nn.EmbeddingBag(50, 8, mode="max"), lambda: words(3, 7)),
    ("bag_offsets", lambda: nn.EmbeddingBag(50, 8, mode="sum"), lambda: words(1, 9)[0], given([0, 3, 4])),
    ("bag_offsets_last", lambda: nn.EmbeddingBag(50, 8, mode="mean", include_last_offset=True), lambda: words(1, 9)[0], given([0, 3, 4, 9])),
    ("bag_padded", lambda: nn.EmbeddingBag(50, 8, mode="sum", padding_idx=3), lambda: words(3, 7)),
    ("batch_norm_1d", lambda: nn.BatchNorm1d(4), r(3, 4)),
    ("batch_norm_1d_sequence", lambda: nn.BatchNorm1d(4, affine=False), r(3, 4, 5)),
    ("batch_norm_no_statistics", lambda: nn.BatchNorm2d(4, track_running_stats=False), IMAGE),
    ("group_norm_1d", lambda: nn.GroupNorm(2, 4), r(3, 4, 5)),
    ("group_norm_flat", lambda: nn.GroupNorm(2, 4), r(3, 4)),
    ("instance_norm_1d", lambda: nn.InstanceNorm1d(4, track_running_stats=True), r(3, 4, 5)),
    ("instance_norm_3d", lambda: nn.InstanceNorm3d(2, affine=True), r(1, 2, 3, 4, 5)),
    ("layer_norm_plain", lambda: nn.LayerNorm((8, 10), elementwise_affine=False), IMAGE),
    ("layer_norm_no_bias", lambda: nn.LayerNorm(10, bias=False), IMAGE),
    ("local_response", lambda: nn.LocalResponseNorm(4, 0.01, 0.7, 2.0), IMAGE),
    ("cross_map_norm", lambda: nn.CrossMapLRN2d(3), IMAGE),
    ("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(10, 3)), IMAGE),
    ("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(10, 3)), IMAGE),
    ("max_pool_1d", lambda: nn.MaxPool1d(3, 2, 1, ceil_mode=True), r(2, 4, 10)),
    ("max_pool_3d", lambda: nn.MaxPool3d((1, 2, 3), 2, (0, 1, 1), ceil_mode=True), r(1, 2, 5, 6, 7)),
    ("max_pool_indices", lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), IMAGE),
    ("max_pool_indices_1d", lambda: nn.MaxPool1d(3, 2, return_indices=True), r(2, 4, 10)),
    ("max_pool_unbatched", lambda: nn.MaxPool2d(2), r(4, 8, 10)),
    ("max_unpool", lambda: Unpool(), IMAGE),
    ("average_pool_1d", lambda: nn.AvgPool1d(3, 2, 1, ceil_mode=True), r(2, 4, 10)),
    ("average_pool_ceil", lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    ("average_pool_3d", lambda: nn.AvgPool3d((1, 2, 3), 2, (0, 1, 1), count_include_pad=False), r(1, 2, 5, 6, 7)),
    ("average_pool_divisor", lambda: nn.AvgPool2d(3, 2, divisor_override=5), IMAGE),
    ("lp_pool_1d", lambda: nn.LPPool1d(3, 2), lambda: torch.rand(2, 4, 10)),
    ("lp_pool_ceil", lambda: nn.LPPool2d(2, 3, 2, ceil_mode=True), IMAGE),
    ("adaptive_average_uneven", lambda: nn.AdaptiveAvgPool2d((3, 7)), IMAGE),
    ("adaptive_average_none", lambda: nn.AdaptiveAvgPool2d((None, 5)), IMAGE),
    ("adaptive_average_3d", lambda: nn.AdaptiveAvgPool3d((1, 2, 3)), r(1, 2, 4, 4, 6)),
    ("adaptive_max_1d", lambda: nn.AdaptiveMaxPool1d(5), r(2, 4, 10)),
    ("adaptive_max_uneven", lambda: nn.AdaptiveMaxPool2d((3, 7)), IMAGE),
    ("fractional_pool", lambda: nn.FractionalMaxPool2d(2, output_size=3), IMAGE),
    ("upsample", lambda: sequence(nn.Upsample(scale_factor=2), nn.UpsamplingBilinear2d(scale_factor=1.5), nn.UpsamplingNearest2d((5, 5))), IMAGE),
    ("paddings", lambda: sequence(nn.ReflectionPad2d(1), nn.ReplicationPad2d((1, 2, 0, 1)), nn.ZeroPad2d(1), nn.ConstantPad2d((0, 1, 1, 0), 2.0), nn.CircularPad2d(1)), IMAGE),
    ("softmax_2d", lambda: sequence(nn.Softmax2d(), nn.LogSoftmax(1)), IMAGE),
    ("identity", lambda: nn.Identity(), IMAGE),
    ("bilinear_layer", lambda: nn.Bilinear(3, 4, 5), r(2, 3), r(2, 4)),
    ("adaptive_softmax", lambda: Of(nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12]).log_prob), r(3, 8)),
    ("lstm_cell", lambda: nn.LSTMCell(6, 8), r(3, 6)),
    ("gru_cell", lambda: nn.GRUCell(6, 8), r(3, 6), r(3, 8)),
    ("rnn_cell", lambda: nn.RNNCell(6, 8, nonlinearity="relu"), r(3, 6), r(3, 8)),
    ("lstm_projected", lambda: Recurrent(nn.LSTM, proj_size=6), lambda: words(3, 7)),
    ("lstm_no_bias", lambda: Recurrent(nn.LSTM, bias=False), lambda: words(3, 7)),
    ("rnn_relu_both", lambda: Recurrent(nn.RNN, nonlinearity="relu", bidirectional=True), lambda: words(3, 7)),
    ("multihead_self", lambda: Itself(nn.MultiheadAttention(16, 4)), r(5, 2, 16)),
    ("multihead_bias", lambda: Itself(nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True, add_zero_attn=True)), r(2, 5, 16)),
    ("decoder_layer", lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), r(2, 5, 16), r(2, 6, 16)),
    ("attention_scaled", lambda: Of(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3)), r(2, 3, 5, 8), r(2, 3, 6, 8), r(2, 3, 6, 8), r(5, 6)),
    ("attention_mask_bool", lambda: Of(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > -1)), r(2, 3, 5, 8), r(2, 3, 6, 8), r(2, 3, 6, 8), r(2, 1, 5, 6)),
    ("attention_groups", lambda: Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)), r(2, 4, 5, 8), r(2, 2, 6, 8), r(2, 2, 6, 8)),
):
    NETS[name] = layer(make, *inputs)


class Itself(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x, x, x)


class Unpool(nn.Module):
    def forward(self, x):
        y, at = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, at, 2)


# one file for inputs of other sizes
SEQUENCES = dict(more=[(r(5, 9, 6),), (r(1, 2, 6),)])
NETS |= {
    "sizes_linear": layer(lambda: sequence(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), r(3, 4, 6), **SEQUENCES),
    "sizes_convolution": layer(lambda: sequence(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)), r(2, 3, 16, 20), more=[(r(5, 3, 24, 18),), (r(3, 3, 7, 9),)]),
    "sizes_upsample": layer(lambda: sequence(nn.Conv2d(3, 4, 3, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 2, 1)), r(2, 3, 16, 20), more=[(r(3, 3, 24, 18),)]),
    "sizes_like_other": of(lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear") + y, r(2, 3, 4, 5), r(2, 3, 8, 9), more=[(r(3, 3, 5, 6), r(3, 3, 7, 11))]),
    "sizes_lstm": layer(lambda: nn.LSTM(6, 8, batch_first=True, bidirectional=True), r(3, 4, 6), **SEQUENCES),
    "sizes_gru": layer(lambda: nn.GRU(6, 8, batch_first=True), r(3, 4, 6), **SEQUENCES),
    "sizes_encoder": layer(lambda: nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), r(3, 4, 6), **SEQUENCES),
    "sizes_attention": of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), r(2, 2, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), more=[(r(3, 2, 7, 4), r(3, 2, 7, 4), r(3, 2, 7, 4))]),
    "sizes_reshape": of(lambda x: (x.reshape(x.shape[0], -1), x.view(x.shape[0] * x.shape[1], x.shape[2]), x[:, : x.shape[1] // 2 + 1], x.transpose(1, 2).flatten(1)), r(3, 4, 6), **SEQUENCES),
    "sizes_positions": of(lambda x: x + torch.arange(x.shape[1])[None, :, None] * 0.1 + torch.ones(x.shape[1], x.shape[1]).tril().sum(0)[None, :, None], r(3, 4, 6), **SEQUENCES),
    "sizes_concat": of(lambda x, y: torch.cat([x, y], 1).cumsum(1), r(3, 4), r(3, 2), more=[(r(2, 7), r(2, 5))]),
    "sizes_pools": layer(lambda: sequence(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, ceil_mode=True)), r(2, 3, 16, 20), more=[(r(3, 3, 11, 13),)]),
    "sizes_transpose": layer(lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), r(2, 3, 6, 7), more=[(r(3, 3, 5, 9),)]),
    "sizes_topk": of(lambda x: (x.topk(2, 1), x.sort(1)[0], x.argmax(1))[0][0] + x.sort(1)[0][:, :2], r(3, 6), more=[(r(4, 9),)]),
    "sizes_pad": of(lambda x: F.pad(x, (0, 8 - x.shape[2], 1, 1)), r(3, 4, 6), more=[(r(2, 3, 5),)]),
}

# numbers of 16 bits
def as16(dtype, make, *shapes):
    return lambda: (make().to(dtype), tuple(torch.randn(*s).to(dtype) for s in shapes))


for short, dtype in (("half", torch.float16), ("bfloat", torch.bfloat16)):
    NETS |= {
        f"{short}_linear": as16(dtype, lambda: sequence(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (3, 8)),
        f"{short}_convolution": as16(dtype, lambda: sequence(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)), (2, 3, 16, 16)),
        f"{short}_encoder": as16(dtype, lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16)),
        f"{short}_lstm": as16(dtype, lambda: nn.LSTM(6, 8, batch_first=True), (2, 5, 6)),
        f"{short}_softmax": as16(dtype, lambda: Of(lambda x: (x.softmax(1), x.sigmoid(), x.tanh(), x.exp())), (3, 8)),
        f"{short}_attention": as16(dtype, lambda: Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), (2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
        f"{short}_resize": as16(dtype, lambda: Of(lambda x: (F.interpolate(x, scale_factor=2), F.pad(x, (1, 1)), x.flip(2), x[..., 1:3], x.topk(2)[0])), (2, 3, 6, 6)),
        f"{short}_transpose": as16(dtype, lambda: sequence(nn.ConvTranspose2d(3, 4, 2, 2), nn.GroupNorm(2, 4), nn.SiLU()), (2, 3, 6, 6)),
    }
