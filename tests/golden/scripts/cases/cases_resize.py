"""Cases of operators that give images another size."""
from cases_elementwise import describe
from draw import REALS, case


def images(d, dtype, kind=None, zero=True):
    dims = [d.pick(1, 1, 2), d.pick(1, 2, 3), d.pick(1, 2, 3, 4, 5, 7), d.pick(1, 2, 3, 5, 6)]
    if zero and d.number % 11 == 4:
        dims[d.pick(0, 1)] = 0
    return d.values(tuple(dims), dtype, kind or d.pick("normal", "ties", "large", "tiny"))


@describe("_contrib_BilinearResize2D", "resize", 60)
def bilinear_resize(name, d):
    x = images(d, d.dtype(REALS))
    attrs, inputs = {}, [x]
    if d.chance(0.5):
        attrs["align_corners"] = d.chance(0.3)
    mode = ("size", "size", "scale", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down",
            "to_odd_up")[d.number % 9]
    if mode == "size":
        attrs.update(height=d.integer(1, 12), width=d.integer(1, 12))
    elif mode in ("scale", "odd_scale"):
        attrs.update(scale_height=d.pick(1.0, 1.5, 2.0, 3.25), scale_width=d.pick(1.0, 1.25, 2.0))
    elif mode == "like":
        inputs.append(d.values((1, 1, d.integer(1, 9), d.integer(1, 9)), x.dtype, "normal"))
    elif mode == "to_even_down":  # of one pixel nothing would be left
        inputs = [d.values((1, 2, d.integer(2, 7), d.integer(2, 7)), x.dtype, "normal")]
    elif mode == "to_odd_down":
        inputs = [d.values((2, 1, d.integer(2, 7), d.integer(2, 7)), x.dtype, "normal")]
    if mode not in ("size", "scale"):
        attrs["mode"] = mode
    return case(name, inputs, attrs)


@describe("_contrib_AdaptiveAvgPooling2D", "resize", 40)
def adaptive_average(name, d):
    size = d.pick((), (1,), (2,), (d.integer(1, 8), d.integer(1, 8)), (d.integer(1, 4), d.integer(1, 4)))
    return case(name, [images(d, d.dtype(REALS))], {"output_size": size} if size else {})


@describe("UpSampling", "resize", 45)
def up_sampling(name, d):
    x, scale = images(d, d.dtype(REALS)), d.integer(1, 4)
    attrs = {"scale": scale, "sample_type": "nearest"}
    if d.chance(0.35):
        k = 2 * scale - scale % 2
        attrs.update(sample_type="bilinear", num_filter=max(x.shape[1], 1), num_args=2)
        x = images(d, x.dtype, zero=False)
        attrs["num_filter"] = x.shape[1]
        return case(name, [x, d.values((x.shape[1], 1, k, k), x.dtype, "normal")], attrs)
    inputs = [x]
    if d.chance(0.5):
        attrs["multi_input_mode"] = d.pick("concat", "sum")
        for _ in range(d.integer(1, 3)):
            divisor = d.pick(1, scale)
            shape = (x.shape[0], x.shape[1], x.shape[2] * scale // divisor, x.shape[3] * scale // divisor)
            if attrs["multi_input_mode"] == "concat":
                shape = (shape[0], d.integer(1, 4)) + shape[2:]
            inputs.append(d.values(shape, x.dtype, "normal"))
    attrs["num_args"] = len(inputs)
    return case(name, inputs, attrs)


@describe("Crop", "resize", 30)
def crop(name, d):
    x = images(d, d.dtype(REALS))
    h, w = d.integer(1, x.shape[2] + 1), d.integer(1, x.shape[3] + 1)
    attrs, inputs = {"num_args": 1}, [x]
    if d.chance(0.4):
        attrs["num_args"] = 2
        inputs.append(d.values((1, 1, h, w), x.dtype))
    else:
        attrs["h_w"] = (h, w)
    if d.chance(0.3):
        attrs["center_crop"] = True
    elif d.chance(0.6):
        attrs["offset"] = (d.integer(0, x.shape[2] - h + 1), d.integer(0, x.shape[3] - w + 1))
    return case(name, inputs, attrs)
