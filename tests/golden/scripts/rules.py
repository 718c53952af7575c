"""Who is right where MXNet 1.9.1 and PyTorch differ, or MXNet refuses.

A rule speaks of elements: `where` gives those it decides, among those that differ. "open" elements are not compared:
nothing says what they are.
"""
import re

import numpy as np

SUMS = re.compile(r"^(sum|mean|prod|nansum|nanprod|sum_axis|norm|dot|batch_dot|FullyConnected|Convolution|Deconvolution|"
                  r"Pooling|BatchNorm|LayerNorm|softmax|softmin|log_softmax|SoftmaxActivation|SoftmaxOutput|"
                  r"_contrib_(BilinearResize2D|AdaptiveAvgPooling2D|SyncBatchNorm|interleaved_\w+)|UpSampling|"
                  r"_contrib_(box_nms|box_decode|box_encode|MultiBox\w+|ROIAlign)|"
                  r"GridGenerator|BilinearSampler|SpatialTransformer|Correlation|"
                  r"_contrib_(\w*Deformable\w+|PSROIPooling|RROIAlign|(Multi)?Proposal)|"
                  r"RNN|CTCLoss|cumsum|col2im|InstanceNorm|GroupNorm|L2Normalization|LRN|moments|"
                  r"softmax_cross_entropy|scaled_dot_product_attention|rotary_embedding|add_n|ElementWiseSum|take|Embedding|gather_nd|Pad|pad|\w+_update|\w+_update_phase[12]|multi_sum_sq|"
                  r"random_pdf_\w+|_image_(random_\w+|adjust_lighting|resize)|"
                  r"_linalg_(?!extract|make)\w+|_npi_(svd|solve|matmul|tensordot\w*|einsum)|"
                  r"broadcast_(to|axis|axes|like)|repeat|tile|where|LeakyReLU|"
                  r"_np_(sum|prod|max|min|roll|moveaxis|dot|trace)|_npi_(add|subtract|average|norm|pinv\w*|tensor\w+|eig\w*|polyval|ediff1d|blackman|hamming|hanning|insert_\w+|pad)|nanmean|interp|cov|cross|linalg_norm|"
                  r"_npi_(mean|var|std|diff|tril|rot90|percentile|where\w*)|triu|quantile|"
                  r"median|logsumexp|cumprod|cummax|cummin|take_along_axis|put_along_axis|index_add|meshgrid|"
                  r"_contrib_(fft|ifft|count_sketch|hawkesll|BatchNormWithReLU|SparseEmbedding)|IdentityAttachKLSparseReg|"
                  r"fmod|floor_divide|silu|mish|log_sigmoid|hard_swish|tanh_shrink|soft_shrink|celu|glu)$")


TRUTHS = re.compile(r"_np_(any|all)|_npi_is\w+|isclose|isin|_npi_(not_)?equal(_scalar)?|_npi_(greater|less)(_equal)?(_scalar)?|_npi_logical_not")
INDICES = re.compile(r"_npi_arg(max|min)|searchsorted")


def result_dtype(op, output, dtype):
    """Of a result whose dtype is not that of the first input; None for others."""
    reals = ("float32", "float64", "float16", "bfloat16")
    if TRUTHS.fullmatch(op):
        return "bool"
    if INDICES.fullmatch(op) or (op in ("cummax", "cummin") and output == 1) or (op == "_histogram" and output == 0):
        return "int64"
    if op in ("quantile", "_npi_percentile", "median"):
        return "float64" if dtype == "float64" else "float32"
    if (op in ("_npi_mean", "_npi_var", "_npi_std") or "true_divide" in op) and dtype not in reals:
        return "float32"
    if op in ("_np_sum", "_np_prod", "cumprod") and dtype == "bool":
        return "int64"
    return {"_contrib_allclose": "uint8", "_npi_where_scalar2": "float32"}.get(op)


def sums(op):
    """Whether results are sums of terms that may cancel: their error is that of the largest term."""
    return bool(SUMS.match(op)) or op.startswith("broadcast_")


def passes_heads(op):
    """Whether gradients are heads and sums of heads."""
    return bool(re.fullmatch(r"broadcast_(add|sub|plus|minus|maximum|minimum)", op))


def condition(case):
    """How many times larger gradients' errors are than those of sums: eigenvectors turn by the error over the gap."""
    if case["op"] != "_linalg_syevd" or case["inputs"][0].values.size == 0:
        return 1.0
    values = np.linalg.eigvalsh(case["inputs"][0].values.astype(np.float64))
    gaps = np.diff(values, axis=-1)
    return max(1.0, float(np.abs(values).max() / gaps.min())) if gaps.size else 1.0


def offset(case):
    """The magnitude against which an elementwise function cancels."""
    near = {"gammaln": 1.0, "digamma": 1.0, "cos": 1.0, "sin": 1.0, "tan": 1.0, "gelu": 1.0, "softrelu": 1.0,
            "logaddexp": 1.0, "_contrib_quadratic": 2.0}
    return 1.0 if case["attrs"].get("act_type") in ("softrelu", "gelu") else near.get(case["op"], 0.0)


class Elements:
    """One result: what MXNet and PyTorch have, where they differ."""

    def __init__(self, case, what, mxnet, torch, differs):
        self.case, self.what, self.mxnet, self.torch, self.differs = case, what, mxnet, torch, differs

    def any_input(self, test):
        return any(test(t.values.astype(np.float64)).any() for t in self.case["inputs"] if t.is_float and t.values.size)


def everywhere(e):
    return np.ones(e.torch.shape, bool)


def nan_in(e):
    """Input 0 has NaN somewhere (for windows and reductions)."""
    return np.full(e.torch.shape, e.any_input(np.isnan))


def nan_in_any(e):
    return np.full(e.torch.shape, e.any_input(np.isnan))


def infinite_in(e):
    return np.full(e.torch.shape, e.any_input(np.isinf))


def here(test):
    """Elements whose own input passes the test; where results are no functions of one element, all if any input does."""

    def of(e):
        same = [t.values.astype(np.float64) for t in e.case["inputs"] if t.shape == e.torch.shape]
        if len(same) == len(e.case["inputs"]):
            with np.errstate(all="ignore"):
                return np.any([test(x) for x in same], axis=0)
        return np.full(e.torch.shape, e.any_input(test))

    return of


nan_here, infinite_here = here(np.isnan), here(np.isinf)
zero_here, nonpositive, negative = here(lambda x: x == 0), here(lambda x: x <= 0), here(lambda x: x < 0)


def at_the_limit(e):
    """Infinite here and nearly so there."""
    limit = 1e4 if any(t.dtype == "float16" for t in e.case["inputs"]) else 1e37
    with np.errstate(all="ignore"):
        return (np.isinf(e.mxnet) & (np.abs(e.torch) > limit)) | (np.isinf(e.torch) & (np.abs(e.mxnet) > limit))


def attribute(name, *values):
    """Elements of calls with one of these texts for the attribute; none given: with the attribute."""

    def test(e):
        text = e.case["attrs"].get(name)
        return np.full(e.torch.shape, text in values if values else text is not None)

    return test


# operators, results, side, reason, elements
RULES = [
    (r".*", r".*", "open", "a step may leave the range of the dtype", at_the_limit),
    (r".*", r"gradients", "open", "MXNet's float16 steps overflow",
     lambda e: ~np.isfinite(e.mxnet) & any(t.dtype == "float16" for t in e.case["inputs"]) & (e.torch != 0)),
    (r"clip", r"gradients", "mxnet", "the bounds themselves let the gradient through", lambda e: ~nan_here(e)),
    (r"Deconvolution", r".*", "torch", "MXNet's float64 kernel with dilate and pad", attribute("dilate")),
    (r"Pooling", r".*", "mxnet", "the mean of a window without elements is 0", attribute("pool_type", "avg")),
    (r"Pooling", r".*", "open", "the largest of a window without elements", lambda e: e.mxnet < -6e4),
    (r"Activation", r"outputs", "torch", "NaN stays", nan_here),
    (r"(broadcast|)_(maximum|minimum)(_scalar)?", r"gradients", "open", "the gradient at NaN",
     lambda e: np.full(e.torch.shape, e.any_input(np.isnan))),
    (r"(broadcast|)_(maximum|minimum)(_scalar)?", r"gradients", "mxnet", "of equal numbers the first takes the whole gradient",
     everywhere),
    (r"rsqrt|reciprocal|rcbrt", r"gradients", "open", "the sign of an infinite gradient at 0", zero_here),
    (r"gammaln|gamma|digamma", r".*", "open", "poles", nonpositive),
    (r"softsign|Activation", r"outputs", "torch", "the limit at infinity", infinite_here),
    (r"sign|_contrib_sign_ste", r"outputs", "torch", "NaN stays, as in NumPy", nan_here),
    (r"gelu|LeakyReLU", r".*", "torch", "the limit at infinity", infinite_here),
    (r"gamma", r".*", "torch", "the gamma function has signs", negative),
    (r"SoftmaxActivation", r".*", "torch", "documented: over all but the first axis; MXNet's CPU kernel takes the last",
     attribute("mode", None, "instance")),
    (r"SoftmaxOutput", r"gradients", "torch", "with out_grad MXNet multiplies by the output instead of the head",
     attribute("out_grad", "True")),
    (r"SoftmaxOutput", r"gradients", "torch", "MXNet ignores smooth_alpha with multi_output", attribute("smooth_alpha")),
    (r"SoftmaxOutput", r".*", "torch", "MXNet's kernel for other dtypes takes all but the first axis",
     attribute("preserve_shape", "True")),
    (r"MAERegressionOutput", r"gradients", "torch", "documented: 0 where there is no error; MXNet: -1", everywhere),
    (r"MakeLoss", r"gradients", "torch", "documented: divided by the size of axis 0; MXNet: by all but the last axis",
     attribute("normalization", "batch")),
    (r"relu|norm|clip|smooth_l1|LeakyReLU|hard_sigmoid|Activation|abs|sign", r"gradients", "open", "the gradient at NaN", nan_here),
    (r"LeakyReLU", r"gradients", "torch", "MXNet's gradient of SELU below 0 is not its derivative",
     attribute("act_type", "selu")),
    (r"prod|nanprod", r"gradients", "torch", "MXNet divides by a factor of 0", everywhere),
    (r"nansum|nanprod|norm|sum|sum_axis|mean", r"outputs", "torch", "MXNet's compensated sum of infinities", infinite_in),
    (r"_arange", r"outputs", "torch", "MXNet's float16 start is a whole number", everywhere),
    (r"Pooling", r".*", "torch", "NaN in a window gives NaN", nan_in),
    (r"GridGenerator", r".*", "torch", "the only pixel of an axis is at 0, where MXNet divides by 0",
     lambda e: np.isnan(e.mxnet)),
    (r"Correlation", r"gradients", "mxnet", "the gradients of an absolute difference of 0 are 1 and -1",
     attribute("is_multiply", "False")),
    (r"_contrib_quantized_conv", r"outputs", "torch",
     "documented: the bias has a range of its own, and that of the result follows from uint8 data, both of which MXNet forgets",
     everywhere),
    (r"RNN", r".*", "torch", "MXNet reads sequence lengths on GPUs only", attribute("use_sequence_length", "True")),
    (r"RNN", r".*", "torch", "MXNet bounds the cells on GPUs only", attribute("lstm_state_clip_min")),
    (r"RNN", r".*", "torch", "without steps MXNet leaves the memory as it was",
     lambda e: np.full(e.torch.shape, 0 in e.case["inputs"][0].shape)),
    (r"RNN", r"gradients", "torch", "the derivative, where MXNet's is another for the layers between the first and the last",
     lambda e: np.full(e.torch.shape, e.case["attrs"]["num_layers"] == "3" and "rnn" in e.case["attrs"]["mode"])),
    (r"CTCLoss", r"outputs", "torch", "nothing to read and no steps: a loss of 0", lambda e: np.isinf(e.mxnet)),
    (r"CTCLoss", r"gradients", "torch", "0 where the labels do not fit, where MXNet leaves the memory as it was",
     lambda e: e.torch == 0),
    (r"_image_flip_\w+", r"outputs", "torch", "MXNet leaves the column or the row in the middle as the memory was", everywhere),
    (r"_image_to_tensor", r"outputs", "torch", "MXNet divides in float16", everywhere),
    (r"_image_random_saturation", r"outputs", "torch", "MXNet's grey is the blue channel alone", everywhere),
    (r"random_pdf_\w+", r".*", "torch", "MXNet computes in float16",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].dtype == "float16")),
    (r"random_pdf_\w+", r"gradients", "torch", "MXNet's digamma has few digits",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].dtype == "float64")),
    (r"_image_(random_(contrast|hue)|adjust_lighting)", r"outputs", "torch", "MXNet computes colours in float32",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].dtype == "float64")),
    (r"max|min|max_axis|min_axis", r".*", "torch", "NaN wins", nan_in),
    (r"SequenceLast", r"gradients", "torch", "MXNet's gradient without lengths goes to other steps",
     lambda e: np.full(e.torch.shape, "use_sequence_length" not in e.case["attrs"])),
    (r"CTCLoss", r"gradients", "torch", "probabilities below the range of float32, in which MXNet computes",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].dtype == "float64")),
    (r"LRN", r"gradients", "torch", "MXNet divides by 0 in images of few channels", lambda e: np.isinf(e.mxnet)),
    (r"_npi_svd", r".*", "torch", "the signs of the vectors are chosen, where MXNet has LAPACK's", everywhere),
    (r"_linalg_(slog)?det", r"outputs", "torch", "the determinant of nothing is 1",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].shape[-1] == 0)),
    (r"(mp_)?nag_mom_update", r"updated", "torch", "MXNet takes the new weight into the momentum when it works in place",
     everywhere),
    (r"_multi_adamw_update", r"updated", "torch", "MXNet reads a rescale_grad of float64 as float32",
     lambda e: np.full(e.torch.shape, e.case["inputs"][0].dtype == "float64")),
    (r"mp_lamb_update_phase2", r"updated", "torch", "MXNet leaves weight32 as it was", everywhere),
    (r"sign(sgd|um)_update", r"updated", "torch", "NaN stays", nan_in_any),
    (r"\w+_update(_phase[12])?", r".*", "torch", "MXNet computes in 16 bits",
     lambda e: np.full(e.torch.shape, "mp_" not in e.case["op"] and e.case["inputs"][0].dtype == "float16")),
    (r"gather_nd", r"gradients", "torch", "MXNet drops negative indices", everywhere),
    (r"_npi_(var|std|percentile)", r"gradients", "torch", "MXNet has no gradient", everywhere),
    (r"_npi_(var|std)", r"outputs", "torch", "reals of integers, which MXNet cuts", everywhere),
    (r"_npi_where_[lr]scalar", r"gradients", "torch", "MXNet's gradient goes to the elements that were not taken", everywhere),
    (r"_np_prod", r".*", "torch", "MXNet divides by a factor of 0; a product of nothing is 1", everywhere),
    (r"_npi_(blackman|hamming|hanning)", r"outputs", "torch", "MXNet's pi has few digits", everywhere),
    (r"_npi_around", r"outputs", "torch", "integers are rounded, where MXNet cuts digits off", everywhere),
    (r"_npi_average", r"gradients", "torch", "of both outputs, where MXNet has that of the first", everywhere),
    (r"_npi_eigh?", r"outputs", "torch", "the signs of the vectors are chosen, where MXNet has LAPACK's", everywhere),
    (r"_npi_rot90", r"gradients", "torch", "MXNet's gradient for negative axes and k", everywhere),
    (r"_npi_copysign", r"outputs", "torch", "-0 is negative, as in NumPy", everywhere),
    (r"_npi_copysign", r"gradients", "mxnet", "the gradient at infinity", infinite_here),
    (r"_npi_copysign", r"gradients", "torch", "0 at 0", everywhere),
    (r"_npi_arctan2", r"gradients", "torch", "0 where both are 0", zero_here),
    (r"_npi_rarctan2_scalar", r"gradients", "torch", "the derivative, where MXNet has another one", everywhere),
    (r"(broadcast)?_power(_scalar)?|_rpower_scalar", r"gradients", "open", "the gradient of 0 to the power of 0 and less",
     lambda e: ~np.isfinite(e.mxnet) | ~np.isfinite(e.torch)),
]


# not compared even where MXNet and PyTorch agree
ALWAYS_OPEN = [
    (r"LeakyReLU|Activation|relu|clip|abs|hard_sigmoid|(max|min)(_axis)?", r"gradients", "the gradient at NaN", nan_here),
    (r"LeakyReLU", r"gradients", "the gradient at infinity", infinite_here),
    (r"(broadcast)?_power(_scalar)?|_rpower_scalar", r"gradients", "the gradient of a power of 0 and less, and of infinity",
     here(lambda x: ~(x > 0) | np.isinf(x))),
    (r"_rpower_scalar", r"gradients", "the gradient of a power of 0 and less", attribute("scalar", "0.0")),
    (r"_npi_arctan2|fmod|_npi_copysign", r"gradients", "the gradient at infinity and NaN, and of a remainder of 0",
     here(lambda x: ~np.isfinite(x) | (x == 0))),
    (r"gammaln|gamma|digamma", r".*", "poles", here(lambda x: (x <= 0) & (x == np.floor(x)))),
]


def always_open(case, what, values):
    """[(reason, elements)]"""
    e = Elements(case, what, values, values, None)
    found = []
    for names, results, reason, where in ALWAYS_OPEN:
        if re.fullmatch(names, case["op"]) and re.fullmatch(results, what):
            elements = where(e)
            if elements.any():
                found.append((reason, elements))
    return found


def decide(e):
    """[(side, reason, elements)] for the elements of e that differ, and those left undecided."""
    left, decisions = e.differs.copy(), []
    for names, results, side, reason, where in RULES:
        if not re.fullmatch(names, e.case["op"]) or not re.fullmatch(results, e.what):
            continue
        found = left & where(e)
        if found.any():
            decisions.append((side, reason, found))
            left &= ~found
    return decisions, left


REFUSALS = [
    (r"only supports MKL-DNN Backend", "MXNet has it for MKL-DNN's layouts only"),
    (r"for Symbols only", "MXNet has it for Symbols only"),
    (r"NameError", "MXNet has no operator of this name"),
    (r"Zero batch size|Operation requires a 4D tensor. Size of dim|delay_alloc|Shape size mismatch|ended the process", "MXNet refuses arrays without elements"),
    (r"only supports uint8 as input type|quantized_conv only supports num_group", "MXNet takes uint8 without groups alone"),
    (r"didn't register FGradient", "MXNet has no gradient for it"),
    (r"No training support for LSTM with projection", "MXNet has no gradient of a projection on the CPU"),
    (r"only available for cuDNN|only supported for GPU|only implemented in GPU", "MXNet has it on GPUs only"),
    (r"not implemented for CPU|Operator not implemented: operator = _sparse", "MXNet has it for row-sparse arrays only"),
    (r"must be in range", "MXNet refuses negative axes"),
    (r"only supports? (float32/float64|32-bit|floating point types)", "MXNet takes float32 and float64 only"),
    (r"Inconsistent batch size|Non compatible mat", "MXNet fails for a vector for each matrix in some shapes"),
    (r"second to last dimension must be less", "MXNet refuses more rows than columns"),
    (r"Only WriteInplace is supported", "MXNet has it in place only"),
    (r"initial is not supported yet", "MXNet has no initial value"),
    (r"Number of inputs to operator", "MXNet has it for two arrays only"),
    (r"The length of axes must be 2", "MXNet needs axes"),
    (r"Too many reduction axes", "MXNet refuses so many axes"),
    (r"TBlob.get_with_shape: Check failed: this->shape_|ishape.Size\(\) == shape.Size\(\)|eshape\[0\] == 0",
     "MXNet fails for this layout"),
    (r"Dilate is not supported|natively supported|Not implmented|Invalid Input: 'NWC'|param_.layout.value\(\) == mshadow|could not create a descriptor", "MXNet has no kernel for it"),
]


def refused(error):
    """Why PyTorch's value counts where MXNet gives none; None: the case is left out."""
    for pattern, reason in REFUSALS:
        if re.search(pattern, error):
            return reason
    return None
