"""NonMaxSuppression, NMSRotated, PriorBox, PriorBoxClustered, DetectionOutput, RegionYolo, ReorgYolo, ROIAlign,
ROIPooling, PSROIPooling, Proposal, MulticlassNms, MatrixNms, GenerateProposals, ExperimentalDetectron*."""

import re

from framework import *


def boxes(count, seed=0, batches=1, size=1.0):
    """Boxes as two corners, of which some overlap: `[batches, count, 4]`."""
    corner = (spread(batches, count, 2, seed=seed) + 4) / 8 * size
    extent = (spread(batches, count, 2, seed=seed + 7) + 6) / 16 * size
    return np.concatenate([corner, corner + extent], -1)


def scores(*shape, seed=0):
    """Numbers from 0 to 1 of which no two are equal."""
    numbers = np.arange(np.prod(shape, dtype=np.int64)) + 1000 * seed
    return f32((numbers * 7919 % 104729) / 104729).reshape(shape)


# --- NonMaxSuppression ----------------------------------------------------------------------------

BOXES, SCORES = boxes(8, batches=2), scores(2, 3, 8)


def suppression(revision, *limits, **attributes):
    return op(f"NonMaxSuppression-{revision}", *limits, **attributes)


LIMITS = [scalar(3), real(0.3), real(0.1)]
case(
    "non_max_suppression/revisions",
    [BOXES, SCORES],
    ops(
        suppression(1, *LIMITS),
        suppression(3, *LIMITS, output_type="i32"),
        suppression(4, *LIMITS, output_type="i64", sort_result_descending=False),
        suppression(5, *LIMITS, output_type="i32"),
        suppression(9, *LIMITS, output_type="i64", sort_result_descending=False),
    ),
    # With sizes, the first revisions have outputs of shapes that OpenVINO does not keep to.
    shapes=["2,?,4", "2,3,?"],
)
case(
    "non_max_suppression/soft",
    [BOXES, SCORES],
    ops(
        suppression(5, *LIMITS, real(0.5), output_type="i32"),
        suppression(9, *LIMITS, real(0.1), sort_result_descending=False),
    ),
)
case("non_max_suppression/center", [BOXES, SCORES], suppression(9, *LIMITS, box_encoding="center"))
# The corners of some boxes are in another order.
FLIPPED = BOXES[:, :, [2, 1, 0, 3]]
case("non_max_suppression/corners_in_any_order", [FLIPPED, SCORES], suppression(9, *LIMITS))
# The overlap of two boxes is the threshold; one box is empty; scores are equal, none, or infinite.
case(
    "non_max_suppression/edges",
    [
        f32([[[0, 0, 1, 1], [0, 0, 1, 0.5], [2, 0, 3, 1], [0, 0, 1, 0.25], [5, 5, 5, 5], [7, 7, 8, 8]]]),
        f32([[[0.5, 0.5, 0.5, 0.5, np.inf, np.nan], [0.1, 0.2, 0.2, 0.5, 0.1, 0.6]]]),
    ],
    ops(
        suppression(9, scalar(9), real(0.5), real(0.1)),
        suppression(9, scalar(9), real(1), real(-1)),
        suppression(9, scalar(9), real(0.25)),
        suppression(9, scalar(9), real(0.5), real(2), sort_result_descending=False),
    ),
)
case(
    "non_max_suppression/without_optional_inputs",
    [BOXES, SCORES],
    suppression(9),
    lambda b, s: [np.zeros((0, 3), np.int64), np.zeros((0, 3), np.float32), i64([0])],
    formula="OpenVINO writes no count of no boxes",
)
case(
    "non_max_suppression/open_dimensions",
    [BOXES, SCORES, i64(2), f32(0.5)],
    op("NonMaxSuppression-9", real(0.2)),
    shapes=["?,?,4", "?,3,?", "", ""],
    more=[[boxes(3, 1), scores(1, 3, 3, seed=1), i64(1), f32(0.1)]],
)
case(
    "non_max_suppression/f16",
    [BOXES.astype(np.float16), SCORES.astype(np.float16)],
    suppression(9, scalar(3), const(f16(0.3)), const(f16(0.1)), output_type="i32"),
)
# What is found is gathered.
case(
    "non_max_suppression/gathered",
    [boxes(8), scores(1, 2, 8)],
    lambda b, s: make(
        "GatherND-8",
        b,
        make("Gather-8", make("NonMaxSuppression-9", b, s, *LIMITS).output(0), axes(0, 2), scalar(1)),
        batch_dims=0,
    ),
)

TURNED = np.concatenate([spread(2, 8, 2), np.abs(spread(2, 8, 2, seed=1)) + 1, spread(2, 8, 1, seed=2)], -1)


def rotated(threshold, clockwise):
    return op(
        "NMSRotated-13",
        scalar(6),
        real(threshold),
        real(0.1),
        sort_result_descending=clockwise,
        output_type="i64" if clockwise else "i32",
        clockwise=clockwise,
    )


THRESHOLDS = [(threshold, clockwise) for threshold in (0.1, 0.3, 0.5) for clockwise in (True, False)]
case("nms_rotated/thresholds", [TURNED, SCORES], ops(*(rotated(*it) for it in THRESHOLDS)))

# --- PriorBox, PriorBoxClustered ------------------------------------------------------------------

PRIOR = dict(
    min_size=[4.0, 7.0],
    max_size=[9.0],
    aspect_ratio=[2.0, 1.0, 3.0],
    density=[],
    fixed_ratio=[],
    fixed_size=[],
    clip=False,
    flip=True,
    step=0.0,
    offset=0.5,
    variance=[0.1, 0.1, 0.2, 0.2],
    scale_all_sizes=True,
)
SIZES = [i64([2, 3]), i64([16, 20])]


def around(cells, image, step, offset, sizes, variance, clip=False, in_image=False):
    """The formula of boxes around cells: `sizes` has x and y from the center, width and height. With
    `in_image` a box begins and ends in the image."""
    y, x = np.mgrid[: cells[0], : cells[1]].reshape(2, -1, 1)
    x, y = (x + offset) * step[1], (y + offset) * step[0]
    dx, dy, width, height = np.array(sizes, float).T
    rows, columns = image
    corners = [
        (x + dx - width / 2) / columns,
        (y + dy - height / 2) / rows,
        (x + dx + width / 2) / columns,
        (y + dy + height / 2) / rows,
    ]
    corners = np.stack(corners, -1)
    if in_image:
        corners = np.concatenate([np.maximum(corners[..., :2], 0), np.minimum(corners[..., 2:], 1)], -1)
    corners = (np.clip(corners, 0, 1) if clip else corners).reshape(-1)
    variance = np.resize(variance or [0.1], 4)
    return np.stack([corners, np.tile(variance, corners.size // 4)]).astype(np.float32)


def aspect_ratios(at):
    ratios = [1.0]
    for it in at["aspect_ratio"]:
        if it not in ratios:
            ratios += [it, 1 / it] if at["flip"] else [it]
    return ratios


def scaled_sizes(at, unit):
    """Width and height of the boxes of `min_size` and `max_size`."""
    sizes, smallest = [], [it * unit for it in at["min_size"]]
    for number, size in enumerate(smallest):
        largest = [(size * it) ** 0.5 for it in at["max_size"][number : number + 1]]
        largest = [(0, 0, it, it) for it in largest]
        every = at["scale_all_sizes"]
        base = size if every else smallest[0]
        ratios = aspect_ratios(at)[1:] if every or number == len(smallest) - 1 else []
        others = [(0, 0, base * it**0.5, base / it**0.5) for it in ratios]
        in_order = at.get("min_max_aspect_ratios_order", True)
        sizes += [(0, 0, size, size), *(largest + others if in_order else others + largest)]
    return sizes


def fixed_sizes(at):
    """Place, width and height of the boxes of `fixed_size`."""
    sizes = []
    for size, density in zip(at["fixed_size"], map(int, at["density"])):
        for number, it in enumerate(at["fixed_ratio"] or aspect_ratios(at)):
            side = int(size) if number == 0 and not at["fixed_ratio"] else size
            part = size // density
            places = (part - int(size)) / 2 + part * np.arange(density)
            sizes += [(x, y, side * it**0.5, side / it**0.5) for y in places for x in places]
    return sizes


def prior_boxes(attributes, revision=1):
    """A PriorBox and its formula: OpenVINO's reference crashes."""
    at = {**PRIOR, **attributes}

    def formula(cells, image):
        step = at["step"]
        if not at["scale_all_sizes"]:
            step = image[0] / cells[0] if step == -1 else step * image[0]
        offset = at["offset"] if step else 0.5
        step = [step, step] if step else image / cells
        unit = 1 if at["scale_all_sizes"] else image[0]
        sizes = fixed_sizes(at) + scaled_sizes(at, unit)
        return around(cells, image, step, offset, sizes, at["variance"], at["clip"], bool(at["fixed_size"]))

    return op(f"PriorBox-{revision}", **at), formula


def prior_boxes_case(name, *attributes):
    several(f"prior_box/{name}", SIZES, [prior_boxes(it) for it in attributes])


prior_boxes_case("sizes_and_ratios", {}, dict(clip=True, flip=False))
prior_boxes_case("step", dict(step=8.0, variance=[]), dict(step=5.0, offset=0.25, variance=[0.3]))
OF_IMAGE = dict(scale_all_sizes=False, min_size=[0.4, 0.5], max_size=[])
prior_boxes_case("sizes_of_the_image", OF_IMAGE, {**OF_IMAGE, "step": 0.25}, {**OF_IMAGE, "step": -1.0})
FIXED = dict(min_size=[], max_size=[], fixed_size=[7.5, 5.0], density=[2.0, 1.0])
prior_boxes_case("densities", {**FIXED, "aspect_ratio": [2.0]}, {**FIXED, "aspect_ratio": [], "fixed_ratio": [0.5]})


def of_shapes(*nodes):
    """Prior boxes of the sizes of two images."""

    def build(*images):
        sizes = [dims(it, 2, 3) for it in images]
        return [build(*sizes) for build, _ in nodes]

    def reference(*images):
        return [formula(*(i64(it.shape[2:]) for it in images)) for _, formula in nodes]

    return build, reference


IN_ORDER = {"min_max_aspect_ratios_order": True}
NOT_IN_ORDER = {"min_max_aspect_ratios_order": False}
IMAGES_OF_SIZES = [spread(1, 1, 2, 3), spread(1, 1, 16, 20)]
case("prior_box/revision_8", IMAGES_OF_SIZES, *of_shapes(prior_boxes(IN_ORDER, 8), prior_boxes(NOT_IN_ORDER, 8)))
case(
    "prior_box/open_dimensions",
    IMAGES_OF_SIZES,
    *of_shapes(prior_boxes({})),
    shapes=["1,1,?,?", "1,1,?,?"],
    more=[[spread(1, 1, 1, 2), spread(1, 1, 8, 8)]],
)
CLUSTERED = dict(width=[4.0, 6.0, 9.0], height=[3.0, 8.0, 5.0], offset=0.5)


def clustered(step, step_h, step_w, clip, variance):
    at = dict(step=step, step_h=step_h, step_w=step_w, clip=clip, variance=variance)

    def formula(cells, image):
        steps = [step_h or step, step_w or step]
        steps = steps if any(steps) else image / cells
        sizes = [(0, 0, *it) for it in zip(CLUSTERED["width"], CLUSTERED["height"])]
        return around(cells, image, steps, 0.5, sizes, variance, clip)

    return op("PriorBoxClustered-1", **CLUSTERED, **at), formula


several(
    "prior_box_clustered/steps",
    SIZES,
    [
        clustered(0.0, 0.0, 0.0, False, [0.1, 0.1, 0.2, 0.2]),
        clustered(8.0, 4.0, 0.0, True, [0.3]),
        clustered(0.0, 4.0, 0.0, False, []),
    ],
)

# --- DetectionOutput ------------------------------------------------------------------------------

CLASSES, COUNT = 3, 6


def priors(normalized=True, variances=True, seed=3, batches=1):
    corners = boxes(COUNT, seed, batches)
    if not normalized:
        corners = corners * f32([20, 10, 20, 10])
        corners = np.concatenate([np.zeros((batches, COUNT, 1), np.float32), corners], -1)
    parts = [corners.reshape(batches, 1, -1)]
    if variances:
        size = corners.shape[-1]
        some = np.full((batches, 1, COUNT * size), 0.2, np.float32)
        some[..., : COUNT * 4] = (spread(batches, 1, COUNT * 4, seed=5) + 5) / 32
        parts.append(some)
    return np.concatenate(parts, 1)


DETECTION = dict(
    background_label_id=0,
    top_k=-1,
    variance_encoded_in_target=False,
    keep_top_k=[4],
    code_type="caffe.PriorBoxParameter.CENTER_SIZE",
    share_location=True,
    nms_threshold=0.3,
    confidence_threshold=0.1,
    clip_after_nms=False,
    clip_before_nms=False,
    decrease_label_id=False,
    normalized=True,
    input_height=10,
    input_width=20,
    objectness_score=0.5,
)


def detections(*inputs, revision=8, **attributes):
    more = {"num_classes": CLASSES} if revision == 1 else {}
    return make(f"DetectionOutput-{revision}", *inputs, **{**DETECTION, **more, **attributes})


LOGITS, PREDICTIONS = spread(2, COUNT * 4, seed=1) / 4, scores(2, COUNT * CLASSES)
case(
    "detection_output/caffe",
    [LOGITS, PREDICTIONS, priors()],
    lambda *inputs: [
        detections(*inputs),
        detections(*inputs, revision=1, keep_top_k=[-1], top_k=2),
        detections(*inputs, keep_top_k=[-1], clip_after_nms=True, confidence_threshold=0.6),
        detections(*inputs, background_label_id=-1, clip_before_nms=True, nms_threshold=0.9),
        detections(*inputs, code_type="caffe.PriorBoxParameter.CORNER", background_label_id=1),
    ],
)
case(
    "detection_output/mxnet",
    [LOGITS, PREDICTIONS, priors()],
    lambda *inputs: [
        detections(*inputs, decrease_label_id=True),
        detections(*inputs, decrease_label_id=True, top_k=3, keep_top_k=[2], nms_threshold=0.9),
    ],
)
case(
    "detection_output/location_of_each_class",
    [spread(2, COUNT * CLASSES * 4, seed=2) / 4, PREDICTIONS, priors(batches=2)],
    lambda *inputs: [
        detections(*inputs, share_location=False),
        detections(*inputs, share_location=False, decrease_label_id=True, keep_top_k=[9]),
    ],
)
case(
    "detection_output/variance_in_target",
    [LOGITS, PREDICTIONS, priors(variances=False)],
    lambda *inputs: [
        detections(*inputs, variance_encoded_in_target=True),
        detections(*inputs, variance_encoded_in_target=True, code_type="caffe.PriorBoxParameter.CORNER"),
    ],
)
ENDED = priors(normalized=False)
ENDED[0, 0, 20] = -1
case(
    "detection_output/pixels",
    [LOGITS, PREDICTIONS, priors(normalized=False), ENDED],
    lambda logits, predictions, *priors: [detections(logits, predictions, it, normalized=False) for it in priors],
)
case(
    "detection_output/additional_inputs",
    [LOGITS, PREDICTIONS, priors(batches=2), scores(2, COUNT * 2, seed=4), spread(2, COUNT * 4, seed=6) / 4],
    lambda *inputs: [detections(*inputs), detections(*inputs, objectness_score=0.9, keep_top_k=[-1])],
)
case("detection_output/f16", [it.astype(np.float16) for it in (LOGITS, PREDICTIONS, priors())], detections)
case(
    "detection_output/open_dimensions",
    [LOGITS, PREDICTIONS, priors()],
    detections,
    shapes=["?,?", "?,?", "1,2,?"],
    more=[[LOGITS[:1], PREDICTIONS[:1], priors(seed=9)]],
)

# --- RegionYolo, ReorgYolo ------------------------------------------------------------------------

ANCHORS = [1.0, 2.0, 3.0, 4.0]
REGION = dict(coords=4, classes=3, num=2, anchors=ANCHORS)
case(
    "region_yolo/softmax",
    [spread(2, 16, 2, 3)],
    ops(
        op("RegionYolo-1", **REGION, do_softmax=True, mask=[], axis=1, end_axis=3),
        op("RegionYolo-1", **REGION, do_softmax=True, mask=[0, 1], axis=1, end_axis=-1),
    ),
)
case(
    "region_yolo/sigmoid",
    [spread(2, 16, 2, 3)],
    op("RegionYolo-1", **{**REGION, "num": 6}, do_softmax=False, mask=[2, 4], axis=1, end_axis=3),
)
case(
    "region_yolo/open_dimensions",
    [spread(1, 16, 2, 3)],
    op("RegionYolo-1", **REGION, do_softmax=False, mask=[0, 1], axis=1, end_axis=3),
    shapes=["?,?,?,?"],
    more=[[spread(2, 16, 1, 1)]],
)
case(
    "reorg_yolo/strides",
    [offsets(2, 8, 4, 6), offsets(1, 9, 3, 6)],
    lambda a, b: [make("ReorgYolo-2", a, stride=[2]), make("ReorgYolo-2", b, stride=[3])],
)
case(
    "reorg_yolo/open_dimensions",
    [offsets(1, 8, 4, 6)],
    op("ReorgYolo-2", stride=[2]),
    shapes=["?,?,?,?"],
    more=[[offsets(2, 4, 2, 2)]],
)

# --- ROIAlign, ROIPooling, PSROIPooling -----------------------------------------------------------

MAP = spread(2, 2, 5, 6)
CORNERS = f32([[0, 0, 2, 2], [-3, -2, 9, 9], [1.25, 0.5, 3.75, 3.5], [3, 3, 1, 1], [5.5, 4.5, 5.75, 4.75]])
IMAGES = i32([0, 1, 1, 0, 0])
ALIGNED_MODES = ("asymmetric", "half_pixel_for_nn", "half_pixel")
ALIGN = dict(pooled_h=2, pooled_w=3, spatial_scale=1.0)


def align(revision, **attributes):
    return op(f"ROIAlign-{revision}", **{**ALIGN, **attributes})


case(
    "roi_align/revision_3",
    [MAP, CORNERS, IMAGES],
    ops(align(3, sampling_ratio=2, mode="avg"), align(3, sampling_ratio=0, mode="avg", spatial_scale=0.5)),
)
case("roi_align/max", [MAP + 5, CORNERS, IMAGES], align(3, sampling_ratio=2, mode="max"))
case(
    "roi_align/aligned_modes",
    [MAP, CORNERS, IMAGES],
    ops(
        *(
            align(9, sampling_ratio=2, mode=mode, aligned_mode=aligned_mode)
            for mode in ("avg", "max")
            for aligned_mode in ALIGNED_MODES
        )
    ),
)
case(
    "roi_align/samples_of_the_size",
    [MAP, CORNERS[:3], IMAGES[:3]],
    ops(*(align(9, sampling_ratio=0, mode="avg", aligned_mode=aligned_mode) for aligned_mode in ALIGNED_MODES)),
)
case(
    "roi_align/open_dimensions",
    [MAP, CORNERS, IMAGES],
    align(9, sampling_ratio=2, mode="avg", aligned_mode="half_pixel"),
    shapes=["?,?,?,?", "?,4", "?"],
    more=[[spread(1, 1, 3, 3), CORNERS[:1], i32([0])]],
)
case(
    "roi_align/f16",
    [MAP.astype(np.float16), CORNERS.astype(np.float16), IMAGES],
    align(9, sampling_ratio=2, mode="avg", aligned_mode="half_pixel"),
)
REGIONS = f32([[0, 0, 0, 2, 2], [1, 1, 1, 9, 9], [1, 4, 3, 1, 1], [0, 1.5, 0.5, 3.5, 2.5], [0, -4, -4, 0, -1]])
UNIT = f32([[0, 0, 0, 1, 1], [1, 0.25, 0.125, 0.75, 0.5], [0, -0.25, 0.5, 0.5, 1.25], [1, 0.5, 0.5, 0.5, 0.5]])
case(
    "roi_pooling/max",
    [MAP, REGIONS],
    ops(
        op("ROIPooling-2", output_roi=[2, 3], method="max", spatial_scale=1.0),
        op("ROIPooling-2", output_roi=[3, 2], method="max", spatial_scale=0.5),
    ),
)
case(
    "roi_pooling/bilinear",
    [MAP, UNIT],
    ops(
        op("ROIPooling-2", output_roi=[2, 3], method="bilinear", spatial_scale=1.0),
        op("ROIPooling-2", output_roi=[1, 1], method="bilinear", spatial_scale=1.0),
    ),
)
case(
    "roi_pooling/end_of_regions",
    [MAP, f32([[0, 0, 0, 2, 2], [-1, 0, 0, 0, 0], [0, 0, 0, 3, 3]])],
    op("ROIPooling-2", output_roi=[2, 2], method="max", spatial_scale=1.0),
)
AVERAGE = dict(mode="average", spatial_bins_x=1, spatial_bins_y=1)
case(
    "psroi_pooling/average",
    [spread(2, 12, 5, 6), REGIONS[[0, 1, 3]]],
    op("PSROIPooling-1", **AVERAGE, output_dim=3, group_size=2, spatial_scale=0.5),
)
BILINEAR = dict(output_dim=2, spatial_scale=0.75, mode="bilinear", spatial_bins_x=3, spatial_bins_y=2)
case(
    "psroi_pooling/bilinear",
    [spread(2, 12, 5, 6), UNIT[:2]],
    ops(*(op("PSROIPooling-1", **BILINEAR, group_size=group_size) for group_size in (2, 1))),
)

# --- ROIAlignRotated, DeformablePSROIPooling ------------------------------------------------------


def between(channel, y, x):
    """The element at a point, which is moved into the data."""
    y, x = (np.clip(at, 0, size - 1) for at, size in zip((y, x), channel.shape))
    (top, left), (bottom, right) = ([int(it(at)) for at in (y, x)] for it in (np.floor, np.ceil))
    upper, lower = ([channel[row, it] for it in (left, right)] for row in (top, bottom))
    upper, lower = (it[0] + (it[1] - it[0]) * (x - left) for it in (upper, lower))
    return upper + (lower - upper) * (y - top)


def roi_align_rotated(data, regions, images, pooled_h, pooled_w, sampling_ratio, spatial_scale, clockwise_mode):
    output = np.zeros((len(regions), data.shape[1], pooled_h, pooled_w))
    height, width = data.shape[2:]
    for region, image in enumerate(images):
        x, y, w, h = (float(it) * spatial_scale for it in regions[region, :4])
        angle = float(regions[region, 4]) * (-1 if clockwise_mode else 1)
        cos, sin = np.cos(angle), np.sin(angle)
        part_h, part_w = h / pooled_h, w / pooled_w
        rows, columns = (sampling_ratio or max(int(np.ceil(part)), 0) for part in (part_h, part_w))
        for channel, row, column in np.ndindex(output.shape[1:]):
            total = 0
            for i, j in np.ndindex(rows, columns):
                down = (row + (i + 0.5) / rows) * part_h - h / 2
                right = (column + (j + 0.5) / columns) * part_w - w / 2
                at_y, at_x = down * cos - right * sin + y - 0.5, down * sin + right * cos + x - 0.5
                if -1 <= at_y <= height and -1 <= at_x <= width:
                    total += between(data[image, channel].astype(np.float64), at_y, at_x)
            output[region, channel, row, column] = total / (rows * columns) if rows * columns else 0
    return output.astype(data.dtype)


def align_rotated(**attributes):
    attributes = dict(pooled_h=2, pooled_w=3, sampling_ratio=2, spatial_scale=1.0, clockwise_mode=True) | attributes
    return op("ROIAlignRotated-15", **attributes), lambda *inputs: roi_align_rotated(*inputs, **attributes)


TURNED = f32([[3, 2, 4, 3, 0.3], [4, 3, 9, 2, -1.2], [1, 1, 3, 3, 2.5], [2, 2, 0, 3, 0.1], [3, 3, -2, 4, 0.2]])
several(
    "roi_align_rotated/regions",
    [MAP, TURNED, IMAGES],
    [align_rotated(), align_rotated(clockwise_mode=False), align_rotated(sampling_ratio=0, spatial_scale=0.75)],
    tolerance=1e-4,
)
several(
    "roi_align_rotated/open_dimensions",
    [MAP, TURNED, i64(IMAGES)],
    [align_rotated()],
    shapes=["?,?,?,?", "?,5", "?"],
    more=[[spread(1, 1, 3, 3), TURNED[:1], i64([0])]],
    tolerance=1e-4,
)
several("roi_align_rotated/f16", [f16(MAP), f16(TURNED), IMAGES], [align_rotated()])


def deformable_psroi_pooling(
    data, regions, *offsets, output_dim, group_size, spatial_scale, spatial_bins_x, spatial_bins_y, trans_std, part_size, mode
):
    output = np.zeros((len(regions), output_dim, group_size, group_size))
    height, width = data.shape[2:]
    for region, (image, *corners) in enumerate(regions.astype(np.float64)):
        if image == -1:
            break
        corners = np.trunc(np.array(corners) + np.copysign(0.5, corners)) + [0, 0, 1, 1]
        x, y, x_end, y_end = corners * spatial_scale - 0.5
        w, h = max(x_end - x, 0.1), max(y_end - y, 0.1)
        for channel, row, column in np.ndindex(output.shape[1:]):
            right, down = 0, 0
            if offsets:
                (trans,) = offsets
                by_class = trans[region].astype(np.float64).reshape(-1, 2, part_size, part_size)
                of_class = by_class[channel // (output_dim // len(by_class))]
                right, down = of_class[:, row * part_size // group_size, column * part_size // group_size] * trans_std
            rows = y + (row / group_size + down) * h + np.arange(spatial_bins_y) * h / group_size / spatial_bins_y
            columns = x + (column / group_size + right) * w + np.arange(spatial_bins_x) * w / group_size / spatial_bins_x
            of_data = data[int(image), (channel * group_size + row) * group_size + column].astype(np.float64)
            values = [
                between(of_data, i, j)
                for i in rows[(rows >= -0.5) & (rows <= height - 0.5)]
                for j in columns[(columns >= -0.5) & (columns <= width - 0.5)]
            ]
            output[region, channel, row, column] = np.mean(values) if values else 0
    return output.astype(data.dtype)


def deformable_pool(**attributes):
    attributes = dict(output_dim=2, group_size=3, spatial_scale=0.5, mode="bilinear_deformable") | attributes
    attributes = dict(spatial_bins_x=2, spatial_bins_y=3, trans_std=0.3, part_size=3) | attributes
    return op("DeformablePSROIPooling-1", **attributes), lambda *inputs: deformable_psroi_pooling(*inputs, **attributes)


DEFORMED = f32([[0, 1, 2, 9, 8], [1, -3, 0, 20, 5], [1, 12, 10, 14, 12], [0, 5, 5, 4, 4]])
MAPS = spread(2, 18, 5, 6)
several("deformable_psroi_pooling/without_offsets", [MAPS, DEFORMED], [deformable_pool()], tolerance=1e-4)
several(
    "deformable_psroi_pooling/offsets",
    [MAPS, DEFORMED, spread(4, 2, 3, 3, seed=1) / 8],
    [deformable_pool()],
    tolerance=1e-4,
)
several(
    "deformable_psroi_pooling/classes",
    [MAPS, DEFORMED, spread(4, 4, 2, 2, seed=1) / 8],
    [deformable_pool(part_size=2, spatial_bins_x=1)],
    tolerance=1e-4,
)
several(
    "deformable_psroi_pooling/end_of_regions",
    [MAPS, np.where(np.arange(4)[:, None] == 1, -1, DEFORMED).astype(np.float32)],
    [deformable_pool()],
    tolerance=1e-4,
)
several(
    "deformable_psroi_pooling/open_dimensions",
    [MAPS, DEFORMED, spread(4, 2, 3, 3, seed=1) / 8],
    [deformable_pool()],
    shapes=["?,18,?,?", "?,5", "?,2,3,3"],
    more=[[MAPS[:1, :, :3], DEFORMED[:1], spread(1, 2, 3, 3) / 8]],
    formula="the CPU plugin must know the sizes, and OpenVINO's core has no reference implementation",
)
several("deformable_psroi_pooling/f16", [f16(MAPS), f16(DEFORMED)], [deformable_pool()])
case(
    "deformable_psroi_pooling/without_optional_attributes",
    [spread(1, 2, 5, 6), DEFORMED[:1]],
    op("DeformablePSROIPooling-1", output_dim=2, spatial_scale=0.5, mode="bilinear_deformable"),
    lambda *inputs: deformable_psroi_pooling(
        *inputs, output_dim=2, group_size=1, spatial_scale=0.5, spatial_bins_x=1, spatial_bins_y=1, trans_std=1,
        part_size=1, mode=None,
    ),
    edit=[(re.compile(' (group_size|spatial_bins_[xy]|trans_std|part_size|mode)="[^"]*"'), "")],
    tolerance=1e-4,
)

# --- Proposal -------------------------------------------------------------------------------------

PROPOSAL = dict(
    base_size=4,
    pre_nms_topn=20,
    post_nms_topn=6,
    nms_thresh=0.6,
    feat_stride=4,
    min_size=2,
    ratio=[0.5, 1.0],
    scale=[1.0, 2.5],
    clip_before_nms=True,
    clip_after_nms=False,
    normalize=False,
    box_size_scale=1.0,
    box_coordinate_scale=1.0,
    framework="",
)


def proposals(batches, height, width, seed=0):
    return [scores(batches, 8, height, width, seed=seed), spread(batches, 16, height, width, seed=seed) / 8]


def proposal(revision=4, **attributes):
    more = {"infer_probs": True} if revision == 4 else {}
    return op(f"Proposal-{revision}", **{**PROPOSAL, **more, **attributes})


case(
    "proposal/revisions",
    [*proposals(1, 3, 4), f32([12, 16, 1])],
    ops(proposal(1), proposal(4), proposal(4, clip_before_nms=False, clip_after_nms=True)),
)
case(
    "proposal/scales",
    [*proposals(1, 3, 4), f32([12, 16, 1.5, 2])],
    ops(
        proposal(4, normalize=True, nms_thresh=0.9),
        proposal(4, box_size_scale=2.0, box_coordinate_scale=4.0, pre_nms_topn=8),
    ),
)
case("proposal/tensorflow", [*proposals(1, 3, 3), f32([12, 12, 1])], proposal(4, framework="tensorflow"))
case(
    "proposal/fewer_than_wanted",
    [*proposals(2, 1, 2), f32([4, 8, 1])],
    # OpenVINO writes no scores after the last region.
    proposal(1, nms_thresh=0.1),
)
case(
    "proposal/open_dimensions",
    [*proposals(1, 3, 4), f32([12, 16, 1])],
    proposal(4),
    shapes=["?,8,?,?", "?,16,?,?", "3"],
    more=[[*proposals(1, 2, 2, seed=3), f32([8, 8, 1])]],
)

# --- MulticlassNms, MatrixNms ---------------------------------------------------------------------

NMS = dict(
    sort_result_type="none",
    sort_result_across_batch=False,
    output_type="i64",
    score_threshold=0.1,
    nms_top_k=-1,
    keep_top_k=-1,
    background_class=-1,
    normalized=True,
)
ORDERS = [
    dict(sort_result_type=by, sort_result_across_batch=across_batch)
    for by in ("classid", "score")
    for across_batch in (False, True)
]


def multiclass(revision=9, **attributes):
    return op(f"MulticlassNms-{revision}", **{**NMS, "iou_threshold": 0.3, "nms_eta": 1.0, **attributes})


def matrix(**attributes):
    at = {"decay_function": "linear", "gaussian_sigma": 2.0, "post_threshold": 0.05}
    return op("MatrixNms-8", **{**NMS, **at, **attributes})


case("multiclass_nms/orders", [BOXES, SCORES], ops(*(multiclass(**it) for it in ORDERS)))
LIMITED = dict(sort_result_type="score", nms_top_k=4, keep_top_k=5, background_class=1)
case(
    "multiclass_nms/limits",
    [BOXES, SCORES],
    ops(
        multiclass(8, **LIMITED, output_type="i32"),
        multiclass(9, sort_result_type="score", iou_threshold=0.7, nms_eta=0.6),
    ),
)
case(
    "multiclass_nms/pixels",
    [boxes(8, batches=2, size=8.0), SCORES],
    multiclass(sort_result_type="score", normalized=False),
)
case(
    "multiclass_nms/boxes_of_each_class",
    [boxes(8, batches=3), SCORES[0], i64([3, 0, 5])],
    ops(multiclass(sort_result_type="score"), multiclass(sort_result_type="classid", keep_top_k=3)),
)
case(
    "multiclass_nms/open_dimensions",
    [BOXES, SCORES],
    multiclass(sort_result_type="classid"),
    shapes=["?,?,4", "?,?,?"],
    more=[[boxes(5), scores(1, 2, 5, seed=2)]],
)
case("matrix_nms/orders", [BOXES, SCORES], ops(*(matrix(**it) for it in ORDERS)))
case(
    "matrix_nms/decay",
    [BOXES, SCORES],
    ops(
        matrix(sort_result_type="score", decay_function="gaussian"),
        matrix(**LIMITED, output_type="i32", post_threshold=0.2),
    ),
)
case("matrix_nms/pixels", [boxes(8, batches=2, size=8.0), SCORES], matrix(sort_result_type="score", normalized=False))
case(
    "matrix_nms/open_dimensions",
    [BOXES, SCORES],
    matrix(sort_result_type="classid"),
    shapes=["?,?,4", "?,?,?"],
    more=[[boxes(5), scores(1, 2, 5, seed=2)]],
)

# --- GenerateProposals, ExperimentalDetectron* ----------------------------------------------------

GENERATE = dict(min_size=2.0, nms_threshold=0.6, pre_nms_count=20, post_nms_count=5)


def anchors(height, width):
    """Two boxes around each cell: `[height, width, 2, 4]`."""
    y, x = np.mgrid[:height, :width] * 4.0 + 2
    center = np.stack([x, y, x, y], -1)[:, :, None]
    return f32(center + f32([[-3, -2, 3, 2], [-4, -5, 4, 5]]))


def generated(batches, height, width, seed=0):
    deltas = spread(batches, 8, height, width, seed=seed) / 8
    return [anchors(height, width), deltas, scores(batches, 2, height, width, seed=seed)]


case(
    "generate_proposals/two_images",
    [f32([[12, 16, 1], [10, 14, 1.5]]), *generated(2, 3, 4)],
    lambda *inputs: [
        make(
            "GenerateProposals-9",
            *inputs,
            **GENERATE,
            normalized=normalized,
            nms_eta=1.0,
            roi_num_type="i32" if normalized else "i64",
        )
        for normalized in (True, False)
    ],
)
case(
    "generate_proposals/open_dimensions",
    [f32([[12, 16, 1, 2]]), *generated(1, 3, 4)],
    op("GenerateProposals-9", **GENERATE, normalized=True, nms_eta=1.0, roi_num_type="i64"),
    shapes=["?,4", "?,?,2,4", "?,8,?,?", "?,2,?,?"],
    more=[[f32([[8, 8, 1, 1]] * 2), *generated(2, 2, 2, seed=3)]],
)


def single_image(count):
    anchors_, deltas, scores_ = generated(1, 3, 4)
    inputs = [f32([12, 16, 1]), anchors_.reshape(-1, 4), deltas[0], scores_[0]]
    at = {**GENERATE, "post_nms_count": count}
    return inputs, op("ExperimentalDetectronGenerateProposalsSingleImage-6", **at)


for name, count in (("single_image", 3), ("fewer_than_wanted", 30)):
    case(f"experimental_detectron/{name}", *single_image(count))
case(
    "experimental_detectron/prior_grid_generator",
    [f32([[-2, -2, 2, 2], [-4, -5, 4, 6]]), spread(1, 1, 2, 3), spread(1, 3, 12, 16)],
    lambda *inputs: [
        make(
            "ExperimentalDetectronPriorGridGenerator-6",
            *inputs,
            flatten=flatten,
            h=0,
            w=0,
            stride_x=stride,
            stride_y=stride,
        )
        for flatten, stride in ((True, 0.0), (False, 5.0))
    ],
)
case(
    "experimental_detectron/top_k_rois",
    [spread(5, 4), scores(5)],
    ops(*(op("ExperimentalDetectronTopKROIs-6", max_rois=count) for count in (3, 5))),
)
ROIS = f32([[0, 0, 20, 20], [3, 5, 250, 260], [2, 2, 2, 9], [10, 20, 90, 180], [-9, -9, 5.5, 3.25]])
case(
    "experimental_detectron/roi_feature_extractor",
    [ROIS, spread(1, 2, 8, 9), spread(1, 2, 5, 4, seed=1), spread(1, 2, 3, 3, seed=2)],
    lambda *inputs: [
        make(
            "ExperimentalDetectronROIFeatureExtractor-6",
            *inputs,
            output_size=2,
            sampling_ratio=2,
            pyramid_scales=[4, 32, 64],
            aligned=aligned,
        )
        for aligned in (False, True)
    ],
)


def detectron_output(**attributes):
    at = dict(
        score_threshold=0.1,
        nms_threshold=0.3,
        num_classes=3,
        post_nms_count=4,
        max_detections_per_image=20,
        class_agnostic_box_regression=False,
        max_delta_log_wh=0.5,
        deltas_weights=[2.0, 2.0, 1.0, 1.0],
    )
    return op("ExperimentalDetectronDetectionOutput-6", **{**at, **attributes})


case(
    "experimental_detectron/detection_output",
    [boxes(8, size=20.0)[0], spread(8, 12) / 4, scores(8, 3), f32([[20, 24, 1]])],
    ops(detectron_output(), detectron_output(max_detections_per_image=3, nms_threshold=0.9)),
)
