"""Boxes with scores: NonMaxSuppression and its like, prior boxes, proposals, and the last layers of detectors.

Scores are multiples of 1/64, mostly no two of them equal. Thresholds are between scores."""

from framework import *

from . import operation

FLOATS = ["f16", "f32"]


def threshold(draw, low=0, high=63):
    """A number that is no score, and that is no overlap of boxes of whole sixteenths."""
    return round(draw.integer(low, high) / 64 + 0.0037, 5)


def boxes(draw, type_, *shape, scale=1.0, may_be_empty=True):
    """Two corners of each box: mostly some that overlap, sometimes empty ones or ones with the corners exchanged."""
    corner = draw.numbers("f64", *shape, 2, low=0, high=1)
    extent = draw.numbers("f64", *shape, 2, low=0 if may_be_empty and draw.flag(0.2) else 0.25, high=1)
    found = np.concatenate([corner, corner + extent], -1)
    if draw.flag(0.1):
        found = found[..., [2, 1, 0, 3]]
    return (found * scale).astype(DTYPES[type_])


def scores(draw, type_, *shape):
    count = int(np.prod(shape))
    found = draw.numpy.permutation(max(count, 64))[:count] % 64
    return ((found // 16 * 16 if draw.flag(0.15) else found).reshape(shape) / 64).astype(DTYPES[type_])


def distinct(draw, *shape):
    """Scores greater than 0, no two of which are equal: which of equal ones is first is undefined."""
    count = int(np.prod(shape))
    return f32((draw.numpy.permutation(count) + 1) / count).reshape(shape)


def of_score(kind, **attributes):
    """A node whose boxes have scores. OpenVINO gives boxes that are too small a score of 0, and may select them."""

    def build(*inputs):
        found, found_scores = make(kind, *inputs, **attributes).outputs()
        are = make("Convert-1", make("Greater-1", found_scores, scalar(0, np.float32)), destination_type="f32")
        return [make("Multiply-1", found, make("Unsqueeze-1", are, axes(1))), found_scores]

    return build


def one(draw, value, types=("f32",), shapes=((), (1,))):
    """An input of one element."""
    array = np.array(value, DTYPES[draw.choice(*types)])
    return draw.fed(array.reshape(draw.choice(*shapes)))


def selection(kind, coordinates=4, **attributes):
    """A node whose first input are boxes. OpenVINO must know how many coordinates they have."""

    def build(found, *inputs):
        if found.get_partial_shape()[2].is_dynamic:
            found = make("Reshape-1", found, axes(0, 0, coordinates), special_zero=True)
        return make(kind, found, *inputs, **attributes)

    return build


def sizes(draw):
    """Images, boxes and classes. Of no boxes OpenVINO's CPU plugin does not write how many are selected."""
    return draw.choice(1, 1, 2, 2, 3), draw.size(1) + draw.integer(0, 3), draw.integer(1, 3)


# --- NonMaxSuppression and its like ---------------------------------------------------------------


@operation("NonMaxSuppression-1 NonMaxSuppression-3 NonMaxSuppression-4 NonMaxSuppression-5 NonMaxSuppression-9")
def non_max_suppression(draw, kind):
    revision, type_ = int(kind.rsplit("-", 1)[1]), draw.type(FLOATS)
    draw.is_alone = revision < 5
    images, count, classes = sizes(draw)
    shapes = ((), (1,)) if revision >= 5 else ((),)
    more = [
        one(draw, draw.choice(1, 2, 3, 9), ("i32", "i64"), shapes),
        one(draw, threshold(draw), shapes=shapes),
        one(draw, threshold(draw, -1, 40), shapes=shapes),
        one(draw, draw.choice(0.0, 0.25, 0.5, 1.0), shapes=shapes),
    ][: 4 if revision >= 5 else 3]
    # Without the first of them no box is selected, and OpenVINO's CPU plugin does not write that there are none.
    more = more[: draw.integer(1 if revision >= 5 or draw.flag(0.8) else 0, len(more))]
    attributes = {"box_encoding": draw.choice("corner", "center"), "sort_result_descending": draw.flag()}
    if revision > 1:
        attributes["output_type"] = draw.choice("i32", "i64")
    # OpenVINO's CPU plugin does not know how much two empty boxes overlap: more or less than the default, 0.
    found = boxes(draw, type_, images, count, may_be_empty=len(more) > 1)
    inputs = [found, scores(draw, type_, images, classes, count), *more]
    return inputs, selection(kind, **draw.optional(attributes, 0.8))


@operation("NMSRotated-13")
def nms_rotated(draw, kind):
    images, count, classes = sizes(draw)
    found = draw.numbers("f32", images, count, 5, low=-1, high=1)
    found[..., 2:4] = np.abs(found[..., 2:4]) + (1 / 16 if draw.flag(0.9) else 0)
    if draw.flag(0.2):
        found[..., 4] = 0
    attributes = {
        "sort_result_descending": draw.flag(),
        "output_type": draw.choice("i32", "i64"),
        "clockwise": draw.flag(),
    }
    limits = [
        one(draw, draw.choice(1, 2, 3, 9), ("i32", "i64")),
        one(draw, threshold(draw)),
        one(draw, threshold(draw, -1, 40)),
    ]
    inputs = [found, scores(draw, "f32", images, classes, count), *limits]
    return inputs, selection(kind, 5, **draw.optional(attributes, 0.8))


def of_classes(draw, count, classes):
    """The attributes that MatrixNms and MulticlassNms have in common."""
    return {
        "sort_result_type": draw.choice("classid", "score", "none"),
        "sort_result_across_batch": draw.flag(),
        "output_type": draw.choice("i32", "i64"),
        "score_threshold": threshold(draw, 0, 40),
        "nms_top_k": draw.choice(-1, 1, 2, count),
        "keep_top_k": draw.choice(-1, 1, 2, 3, count * classes),
        # OpenVINO's CPU plugin crashes if no class is left.
        "background_class": draw.choice(-1, classes, classes - 1 if classes > 1 else -1),
        "normalized": draw.flag(),
    }


@operation("MatrixNms-8")
def matrix_nms(draw, kind):
    images, count, classes = sizes(draw)
    attributes = of_classes(draw, count, classes) | {
        "decay_function": draw.choice("linear", "gaussian"),
        "gaussian_sigma": draw.choice(0.5, 1.0, 2.0, 3.5),
        "post_threshold": draw.choice(0.0, threshold(draw, 0, 30)),
    }
    inputs = [boxes(draw, "f32", images, count), distinct(draw, images, classes, count)]
    return inputs, selection(kind, **draw.optional(attributes, 0.8))


@operation("MulticlassNms-8 MulticlassNms-9")
def multiclass_nms(draw, kind):
    images, count, classes = sizes(draw)

    # OpenVINO's reference, and with nms_eta its CPU plugin, compare a box whose score is the threshold with the last one
    # that was taken only. So no score is 0, which is the default.
    def positive(scores):
        return scores + scores.dtype.type(1 / 64)

    attributes = of_classes(draw, count, classes) | {
        "iou_threshold": threshold(draw),
        "nms_eta": draw.choice(1.0, 1.0, 0.75, 0.5),
    }
    if kind == "MulticlassNms-9" and draw.flag(0.4):
        # Each class has boxes of its own, and an input says how many there are of each image.
        numbers = draw.indices(0, 4, images)
        numbers[0] = max(numbers[0], 1)
        count = int(numbers.sum())
        inputs = [boxes(draw, "f32", classes, count), positive(scores(draw, "f32", classes, count)), numbers]
    else:
        inputs = [boxes(draw, "f32", images, count), positive(scores(draw, "f32", images, classes, count))]
    return inputs, selection(kind, **draw.optional(attributes, 0.8))


# --- SSD: DetectionOutput and prior boxes ---------------------------------------------------------


@operation("DetectionOutput-1 DetectionOutput-8")
def detection_output(draw, kind):
    type_ = "f16" if draw.flag(0.1) else "f32"
    images, count, classes = draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 4)
    share_location, normalized, in_target = draw.flag(), draw.flag(), draw.flag(0.3)
    decrease_label_id = draw.flag(0.3)
    locations = count * (1 if share_location else classes) * 4
    height, width = draw.integer(1, 20), draw.integer(1, 20)

    priors = boxes(draw, "f64", draw.choice(1, images), count)
    if not normalized:
        # In pixels, after the number of the image, which is -1 after the last one.
        priors = np.concatenate([np.zeros((*priors.shape[:2], 1)), priors * [width, height, width, height]], -1)
        if draw.flag(0.2):
            priors[0, draw.integer(0, count - 1), 0] = -1
    priors = priors.reshape(len(priors), 1, -1)
    if not in_target:
        variances = np.zeros_like(priors)
        variances[..., : count * 4] = draw.numbers("f64", len(priors), 1, count * 4, low=0.125, high=0.5)
        priors = np.concatenate([priors, variances], 1)
    inputs = [
        draw.numbers(type_, images, locations, low=-1, high=1),
        scores(draw, type_, images, count * classes),
        priors.astype(DTYPES[type_]),
    ]
    if draw.flag(0.25):
        inputs += [
            scores(draw, type_, images, count * 2),
            draw.numbers(type_, images, locations, low=-1, high=1),
        ]
    attributes = {
        "share_location": share_location,
        "normalized": normalized,
        "variance_encoded_in_target": in_target,
        "keep_top_k": [draw.choice(-1, -1, 1, 3, count * classes, 30)],
        "nms_threshold": threshold(draw),
        **({"num_classes": classes} if kind == "DetectionOutput-1" else {}),
        **draw.optional(
            {
                "background_label_id": 0 if decrease_label_id else draw.integer(-1, classes),
                "top_k": draw.choice(-1, 1, 2, count, 10),
                "code_type": f"caffe.PriorBoxParameter.{draw.choice('CORNER', 'CENTER_SIZE')}",
                "confidence_threshold": threshold(draw, -1, 40),
                "clip_after_nms": draw.flag(),
                "clip_before_nms": draw.flag(),
                "decrease_label_id": decrease_label_id,
                "input_height": height,
                "input_width": width,
                "objectness_score": threshold(draw, -1, 40),
            },
            0.8,
        ),
    }
    return inputs, op(kind, **attributes)


def of_sizes(draw, kind, **attributes):
    """The sizes of a feature map and of an image are constants, or fed, or those of two inputs."""
    draw.has_reference = False
    sizes = [(draw.integer(1, high), draw.integer(1, high)) for high in (4, 40)]
    type_ = draw.choice("i32", "i64")
    if draw.flag():
        return [draw.fed(np.array(it, DTYPES[type_])) for it in sizes], op(kind, **attributes)

    def size(image):
        return make("Gather-8", make("ShapeOf-3", image, output_type=type_), axes(2, 3), scalar(0))

    images = [draw.numbers("f32", 1, 1, *it) for it in sizes]
    return images, lambda map_, image: make(kind, size(map_), size(image), **attributes)


def of_priors(draw):
    """The attributes that PriorBox and PriorBoxClustered have in common."""
    variance = draw.choice([], [0.125], [0.1, 0.1, 0.2, 0.2], [0.5, 0.25, 2.0, 1.0])
    return {"clip": draw.flag(), "offset": draw.choice(0.0, 0.25, 0.5, 1.5), "variance": variance}


@operation("PriorBox-1 PriorBox-8")
def prior_box(draw, kind):
    def some(least, most, *numbers):
        return [float(draw.choice(*numbers)) for _ in range(draw.integer(least, most))]

    attributes = {
        "aspect_ratio": some(0, 3, 0.5, 1, 1, 2, 3, 2.5),
        "flip": draw.flag(),
        "scale_all_sizes": draw.flag(0.7),
        "step": draw.choice(0.0, 0.0, -1.0, 1.0, 4.0, 5.5),
    }
    fixed, ratios = draw.flag(0.4), []
    for it in attributes["aspect_ratio"]:
        if it not in [1.0, *ratios]:
            ratios += [it, 1 / it] if attributes["flip"] else [it]
    if fixed:
        # OpenVINO rounds half of an odd size down where it knows the sizes of map and image, but not elsewhere.
        attributes["fixed_size"] = some(1, 3, 2, 4, 6.5, 8, 16.25)
        attributes["density"] = [float(draw.integer(1, 3)) for _ in attributes["fixed_size"]]
        # The output has room for as many boxes as there are aspect ratios, of which 1 is one. OpenVINO's CPU plugin
        # does not write what is left.
        count = draw.choice(0, 1 + len(ratios))
        attributes["fixed_ratio"] = some(count, count, 0.25, 0.5, 1, 2, 4)
    elif attributes["scale_all_sizes"]:
        attributes["min_size"] = some(1, 3, 1, 4, 7, 9.5, 16)
        attributes["max_size"] = some(0, len(attributes["min_size"]), 5, 9, 20.5)
    else:
        attributes["min_size"] = some(1, 3, 0.125, 0.4, 0.5, 1)
    if kind == "PriorBox-8":
        attributes["min_max_aspect_ratios_order"] = draw.flag()
    if not attributes["scale_all_sizes"]:
        attributes["step"] = draw.choice(-1.0, 0.0, 0.125, 0.25)
    # The lists have no defaults.
    lists = {"min_size": [], "max_size": [], "density": [], "fixed_ratio": [], "fixed_size": []}
    return of_sizes(draw, kind, **lists | attributes | of_priors(draw))


@operation("PriorBoxClustered-1")
def prior_box_clustered(draw, kind):
    count = draw.integer(1, 4)
    width, height = ([float(draw.integer(1, 20)) for _ in range(count)] for _ in range(2))
    steps = {it: draw.choice(0.0, 0.0, 1.0, 4.0, 5.5) for it in ("step", "step_w", "step_h")}
    attributes = {"width": width, "height": height, **draw.optional(steps), **of_priors(draw)}
    return of_sizes(draw, kind, **attributes)


# --- proposals ------------------------------------------------------------------------------------


@operation("Proposal-1 Proposal-4")
def proposal(draw, kind):
    images, height, width = draw.choice(1, 1, 2), draw.integer(1, 5), draw.integer(2, 5)
    # OpenVINO's CPU plugin crashes if there are fewer regions than wanted.
    ratio = [draw.choice(0.5, 1.0, 2.0) for _ in range(draw.integer(1, 2))]
    scale = [draw.choice(1.0, 2.0, 2.5, 4.0) for _ in range(draw.integer(1, 2))]
    anchors, stride = len(ratio) * len(scale), draw.choice(2, 4, 8)
    # Without scores nothing says which regions OpenVINO would have had to leave out as too small.
    has_scores = kind == "Proposal-4"
    if has_scores:
        rescaled, sizes_, framework = ((1.0,), (1.0, 2.0), (2.0,)), (1, 1, 2, 4), ("", "tensorflow")
    else:
        rescaled, sizes_, framework = ((1.0,), (0.5, 1.0)), (1,), ("",)
    rescaled = draw.choice(*rescaled)
    image = [height * stride + draw.integer(0, 3), width * stride, *rescaled]
    attributes = {
        "base_size": draw.choice(2, 4, 8),
        "pre_nms_topn": draw.choice(100, 100, 20, 8, 5),
        "post_nms_topn": draw.choice(1, 1, 2, 3),
        "nms_thresh": threshold(draw, 40),
        "feat_stride": stride,
        "min_size": draw.choice(*sizes_),
        "ratio": ratio,
        "scale": scale,
        **draw.optional(
            {
                "clip_before_nms": draw.flag(0.7),
                "clip_after_nms": draw.flag(),
                "normalize": draw.flag(),
                "box_size_scale": draw.choice(1.0, 2.0, 5.0),
                "box_coordinate_scale": draw.choice(1.0, 4.0, 10.0),
                "framework": draw.choice(*framework),
            }
        ),
    }
    inputs = [
        distinct(draw, images, 2 * anchors, height, width),
        draw.numbers("f32", images, 4 * anchors, height, width, low=-0.5, high=0.5),
        draw.fed(f32(image)),
    ]
    return inputs, (of_score if has_scores else op)(kind, **attributes)


def of_cells(draw, height, width, of_cell):
    """Boxes around cells of 4 pixels: `[height, width, of_cell, 4]`."""
    y, x = np.mgrid[:height, :width] * 4.0 + 2
    extent = draw.integer(1, 8) + draw.numbers("f64", of_cell, 2, low=0, high=4)
    return f32(np.stack([x, y, x, y], -1)[:, :, None] + np.concatenate([-extent, extent], -1))


def of_generation(draw):
    return {
        "min_size": draw.choice(0.0, 1.0, 2.5, 6.0),
        "nms_threshold": threshold(draw, 20),
        "pre_nms_count": draw.choice(1, 4, 8, 100),
        "post_nms_count": draw.choice(1, 3, 5, 30),
    }


@operation("GenerateProposals-9 ExperimentalDetectronGenerateProposalsSingleImage-6")
def generate_proposals(draw, kind):
    of_one = kind.startswith("Experimental")
    images = 1 if of_one else draw.choice(1, 2, 2, 3)
    height, width, of_cell = draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 3)
    info = np.ones((images, 3 if of_one else draw.choice(3, 4)), np.float32)
    info[:, 0] = 4 * height + draw.numbers("i32", images)
    info[:, 1] = 4 * width + draw.numbers("i32", images, low=0)
    info[:, 2:] = draw.choice(1.0, 1.0, 1.5, 2.0)
    deltas = draw.numbers("f32", images, 4 * of_cell, height, width, low=-0.5, high=0.5)
    found = distinct(draw, images, of_cell, height, width)
    inputs = [info, of_cells(draw, height, width, of_cell), deltas, found]
    attributes = of_generation(draw)
    if of_one:
        inputs = [info[0], inputs[1].reshape(-1, 4), deltas[0], found[0]]
        return inputs, of_score(kind, **attributes)
    more = {"normalized": draw.flag(), "nms_eta": 1.0, "roi_num_type": draw.choice("i32", "i64")}
    return inputs, op(kind, **attributes, **draw.optional(more))


# --- ExperimentalDetectron ------------------------------------------------------------------------


@operation("ExperimentalDetectronPriorGridGenerator-6")
def prior_grid_generator(draw, kind):
    height, width = draw.integer(1, 4), draw.integer(1, 4)
    priors = draw.numbers("f32", draw.size(1), 4, low=-8, high=8)
    image = np.zeros((1, draw.integer(1, 3), draw.integer(1, 20), draw.integer(1, 20)), np.float32)
    attributes = {
        "h": draw.choice(0, height),
        "w": draw.choice(0, width),
        "stride_x": draw.choice(0.0, 2.0, 4.5),
        "stride_y": draw.choice(0.0, 2.0, 4.5),
    }
    map_ = np.zeros((1, draw.integer(1, 3), height, width), np.float32)
    # OpenVINO takes what the file does not have as false, but the default is true.
    return [priors, map_, image], op(kind, flatten=draw.flag(), **draw.optional(attributes))


@operation("ExperimentalDetectronTopKROIs-6")
def top_k_rois(draw, kind):
    count = draw.integer(1, 6)
    inputs = [draw.numbers("f32", count, 4), scores(draw, "f32", count)]
    # OpenVINO's CPU plugin takes as many as it is told, even if there are not so many.
    return inputs, op(kind, max_rois=draw.integer(1, count))


@operation("ExperimentalDetectronROIFeatureExtractor-6")
def roi_feature_extractor(draw, kind):
    levels, channels = draw.integer(1, 4), draw.integer(1, 3)
    scales = [4, 8, 16, 32][:levels] if draw.flag(0.7) else [2, 5, 32, 64][:levels]
    maps = [draw.numbers("f32", 1, channels, draw.integer(1, 9), draw.integer(1, 9)) for _ in scales]
    count, scale = draw.integer(1, 5), draw.choice(8.0, 64.0, 400.0)
    attributes = {
        "output_size": draw.integer(1, 3),
        "sampling_ratio": draw.choice(0, 1, 2, 3),
        "pyramid_scales": scales,
        "aligned": draw.flag(),
    }
    return [boxes(draw, "f32", count, scale=scale), *maps], op(kind, **attributes)


@operation("ExperimentalDetectronDetectionOutput-6")
def detectron_detection_output(draw, kind):
    count, classes = draw.integer(1, 6), draw.integer(1, 4)
    attributes = {
        "score_threshold": threshold(draw, 0, 40),
        "nms_threshold": threshold(draw),
        "num_classes": classes,
        "post_nms_count": draw.choice(-1, 1, 2, 4, 20),
        "max_detections_per_image": draw.choice(1, 3, 10, 30),
        "class_agnostic_box_regression": draw.flag(),
        "max_delta_log_wh": draw.choice(0.25, 0.5, 4.125),
        "deltas_weights": [draw.choice(1.0, 2.0, 10.0) for _ in range(4)],
    }
    inputs = [
        boxes(draw, "f32", count, scale=draw.choice(8.0, 20.0)),
        draw.numbers("f32", count, 4 * classes, low=-1, high=1),
        scores(draw, "f32", count, classes),
        f32([[draw.integer(8, 40), draw.integer(8, 40), 1]]),
    ]
    return inputs, op(kind, **attributes)


# --- YOLO -----------------------------------------------------------------------------------------


@operation("RegionYolo-1")
def region_yolo(draw, kind):
    coords, classes, regions = draw.choice(4, 4, 2, 3, 5), draw.integer(1, 4), draw.integer(1, 3)
    do_softmax, num = draw.flag(), draw.integer(1, 3)
    num = regions if do_softmax else max(num, regions)
    mask = draw.subset(range(num), regions)[:regions]
    axis = draw.integer(1, 3)
    attributes = {
        "coords": coords,
        "classes": classes,
        "num": num,
        "do_softmax": do_softmax,
        "mask": draw.choice([], mask) if do_softmax else mask,
        "anchors": [draw.real(1, 9) for _ in range(2 * num)],
        "axis": draw.choice(1, axis, axis - 4),
        "end_axis": draw.choice(3, -1, max(1, axis)),
    }
    channels = regions * (coords + classes + 1)
    x = draw.numbers(draw.type(FLOATS), draw.size(1), channels, draw.size(1), draw.size(1))
    return [x], op(kind, **attributes)


@operation("ReorgYolo-2")
def reorg_yolo(draw, kind):
    stride = draw.choice(1, 2, 2, 2, 3)
    x = draw.numbers(
        draw.type(["f16", "f32", "f64", "i8", "i32", "u8"]),
        draw.size(1),
        stride * stride * draw.integer(1, 3),
        stride * draw.integer(1, 3),
        stride * draw.integer(1, 3),
    )
    return [x], op(kind, stride=[stride])
