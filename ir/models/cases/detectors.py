"""Small networks of the architectures that Open Model Zoo has: detectors, and text."""

from framework import *

CRASHES = "OpenVINO's reference of PriorBox crashes"


class Network:
    """What the layers of a network have in common: each has weights of its own, in no simple order."""

    def __init__(self):
        self.seed = 0

    def weights(self, *shape, scale=1.0):
        self.seed += 1
        spread_out = np.random.default_rng(self.seed).uniform(-1, 1, shape)
        return const(f32(spread_out * scale * (3 / np.prod(shape[1:])) ** 0.5))

    def biased(self, x, channels, rank=4):
        bias = self.weights(*([1, channels] + [1] * (rank - 2)))
        return make("Add-1", x, bias)

    def convolution(self, x, channels, kernel=3, stride=1):
        inputs = x.get_partial_shape()[1].get_length()
        pad = kernel // 2
        return self.biased(
            make(
                "Convolution-1",
                x,
                self.weights(channels, inputs, kernel, kernel),
                **{**PLAIN, "strides": [stride] * 2, "pads_begin": [pad] * 2, "pads_end": [pad] * 2},
            ).output(0),
            channels,
        ).output(0)

    def block(self, x, channels, stride=1):
        """A convolution and its activation."""
        return make("Relu-1", self.convolution(x, channels, stride=stride)).output(0)

    def dense(self, x, inputs, outputs):
        product = make("MatMul-1", x, self.weights(outputs, inputs), transpose_b=True)
        return self.biased(product, outputs, 2).output(0)


def flattened(x, *shape):
    return make("Reshape-1", x, axes(*shape), special_zero=True).output(0)


def sizes_of(x):
    """Height and width, as Model Optimizer writes them."""
    return make("StridedSlice-1", shape_of(x), axes(2), axes(4), axes(1), begin_mask=[0], end_mask=[0])


# --- SSD ------------------------------------------------------------------------------------------

VARIANCE = [0.1, 0.1, 0.2, 0.2]


def ssd(image):
    net, classes = Network(), 3
    first = net.block(net.block(image, 4, 2), 6, 2)
    second = net.block(first, 8, 2)
    priors = [
        make(
            "PriorBox-1",
            sizes_of(first),
            sizes_of(image),
            min_size=[8.0],
            max_size=[14.0],
            aspect_ratio=[2.0],
            density=[],
            fixed_ratio=[],
            fixed_size=[],
            clip=False,
            flip=True,
            step=4.0,
            offset=0.5,
            variance=VARIANCE,
            scale_all_sizes=True,
        ),
        make(
            "PriorBoxClustered-1",
            sizes_of(second),
            sizes_of(image),
            width=[12.0, 20.0],
            height=[16.0, 10.0],
            clip=False,
            step=8.0,
            step_h=0.0,
            step_w=0.0,
            offset=0.5,
            variance=VARIANCE,
        ),
    ]
    logits, scores = [], []
    for x, boxes in ((first, 4), (second, 2)):
        for heads, size in ((logits, 4), (scores, classes)):
            head = make("Transpose-1", net.convolution(x, boxes * size), axes(0, 2, 3, 1))
            heads.append(flattened(head, 0, -1))
    logits, scores = (make("Concat-1", *it, axis=1).output(0) for it in (logits, scores))
    scores = make("Softmax-1", flattened(scores, 0, -1, classes), axis=2)
    priors = [make("Unsqueeze-1", it, axes(0)).output(0) for it in priors]
    return make(
        "DetectionOutput-1",
        logits,
        flattened(scores, 0, -1),
        make("Concat-1", *priors, axis=2),
        num_classes=classes,
        background_label_id=0,
        top_k=20,
        keep_top_k=[10],
        variance_encoded_in_target=False,
        code_type="caffe.PriorBoxParameter.CENTER_SIZE",
        share_location=True,
        nms_threshold=0.45,
        confidence_threshold=0.3,
        clip_after_nms=False,
        clip_before_nms=False,
        decrease_label_id=False,
        normalized=True,
        input_height=1,
        input_width=1,
        objectness_score=0.0,
    )


case(
    "networks/ssd",
    [spread(1, 3, 32, 32)],
    ssd,
    without_reference=CRASHES,
    shapes=["?,3,32,32"],
    more=[[spread(2, 3, 32, 32, seed=1)]],
)

# --- YOLO -----------------------------------------------------------------------------------------


def region(x, classes, regions, do_softmax, mask=()):
    anchors = [float(it) for it in range(1, 13)]
    return make(
        "RegionYolo-1",
        x,
        anchors=anchors[: 2 * regions],
        mask=list(mask),
        coords=4,
        classes=classes,
        num=regions,
        do_softmax=do_softmax,
        axis=1,
        end_axis=3,
    )


def yolo_v2(image):
    net, classes, regions = Network(), 3, 2
    fine = net.block(net.block(image, 4, 2), 8, 2)
    coarse = net.block(fine, 8, 2)
    both = make("Concat-1", make("ReorgYolo-2", fine, stride=[2]), coarse, axis=1)
    x = net.convolution(net.block(both.output(0), 8), regions * (5 + classes), kernel=1)
    return region(x, classes, regions, True)


def yolo_v3(image):
    net, classes = Network(), 2
    fine = net.block(net.block(image, 4, 2), 6, 2)
    coarse = net.block(fine, 8, 2)
    channels = 2 * (5 + classes)
    larger = make(
        "Interpolate-4",
        net.block(coarse, 4),
        axes(0, 0),
        const(f32([2, 2])),
        axes(2, 3),
        mode="nearest",
        shape_calculation_mode="scales",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    both = make("Concat-1", larger, fine, axis=1).output(0)
    return [
        region(net.convolution(coarse, channels, kernel=1), classes, 4, False, (2, 3)),
        region(net.convolution(net.block(both, 6), channels, kernel=1), classes, 4, False, (0, 1)),
    ]


case("networks/yolo_v2", [spread(1, 3, 32, 32)], yolo_v2)
case("networks/yolo_v3", [spread(1, 3, 32, 32)], yolo_v3, shapes=["?,3,32,32"], more=[[spread(2, 3, 32, 32, seed=1)]])


def yolo_with_suppression(image):
    """Boxes, scores and indices, and the boxes that the indices say."""
    net, classes = Network(), 2
    x = net.block(net.block(image, 4, 2), 6, 2)
    cells = 8 * 8
    boxes = flattened(net.convolution(x, 4), 0, 4, cells)
    boxes = make("Sigmoid-1", make("Transpose-1", boxes, axes(0, 2, 1)))
    scores = make("Sigmoid-1", flattened(net.convolution(x, classes), 0, classes, cells))
    found = make(
        "NonMaxSuppression-9",
        boxes,
        scores,
        scalar(6),
        real(0.5),
        real(0.4),
        box_encoding="center",
        sort_result_descending=True,
        output_type="i64",
    )
    indices = make("Gather-8", found.output(0), axes(0, 2), scalar(1), batch_dims=0)
    return [found.output(0), found.output(1), make("GatherND-8", boxes, indices, batch_dims=0)]


case("networks/yolo_with_suppression", [spread(1, 3, 32, 32)], yolo_with_suppression)

# --- Faster R-CNN, R-FCN --------------------------------------------------------------------------


def regions_of(net, x, info):
    """A network of regions: scores and boxes of anchors, of which Proposal takes some."""
    x = net.block(x, 6)
    scores = make("Softmax-1", flattened(net.convolution(x, 8, kernel=1), 0, 2, -1, 8), axis=1)
    return make(
        "Proposal-4",
        flattened(scores, 0, 8, 8, 8),
        net.convolution(x, 16, kernel=1),
        flattened(info, -1),
        base_size=8,
        pre_nms_topn=100,
        post_nms_topn=8,
        nms_thresh=0.7,
        feat_stride=4,
        min_size=4,
        ratio=[0.5, 1.0],
        scale=[1.0, 2.0],
        clip_before_nms=True,
        clip_after_nms=False,
        normalize=False,
        box_size_scale=1.0,
        box_coordinate_scale=1.0,
        framework="",
    ).output(0)


def faster_rcnn(image, info):
    net = Network()
    x = net.block(net.block(image, 4, 2), 6, 2)
    rois = regions_of(net, x, info)
    pooled = make("ROIPooling-2", x, rois, output_roi=[3, 3], method="max", spatial_scale=0.25)
    features = make("Relu-1", net.dense(flattened(pooled, 0, -1), 54, 10))
    scores = make("Softmax-1", net.dense(features.output(0), 10, 3), axis=1)
    return [rois, scores, net.dense(features.output(0), 10, 12)]


def rfcn(image, info):
    net, classes, bins = Network(), 3, 2
    x = net.block(net.block(image, 4, 2), 6, 2)
    rois = regions_of(net, x, info)
    maps = net.convolution(x, classes * bins * bins, kernel=1)
    pooled = make(
        "PSROIPooling-1",
        maps,
        rois,
        output_dim=classes,
        group_size=bins,
        spatial_scale=0.25,
        mode="average",
        spatial_bins_x=1,
        spatial_bins_y=1,
    )
    votes = make("ReduceMean-1", pooled, axes(2, 3), keep_dims=False)
    return [rois, make("Softmax-1", votes, axis=1)]


PICTURE = [spread(1, 3, 32, 32), f32([[32, 32, 1]])]
case("networks/faster_rcnn", PICTURE, faster_rcnn)
case("networks/rfcn", PICTURE, rfcn)

# --- text -----------------------------------------------------------------------------------------


def text_detection(image):
    """Whether a pixel is of text, and with which of its eight neighbours it is linked."""
    net = Network()
    first = net.block(image, 4, 2)
    second = net.block(first, 6, 2)
    third = net.block(second, 8, 2)

    def larger(x, like):
        return make(
            "Interpolate-4",
            x,
            sizes_of(like),
            const(f32([1, 1])),
            axes(2, 3),
            mode="linear_onnx",
            shape_calculation_mode="sizes",
            coordinate_transformation_mode="half_pixel",
        )

    def merged(channels):
        x = net.convolution(third, channels, kernel=1)
        for finer in (second, first):
            x = make("Add-1", larger(x, finer), net.convolution(finer, channels, kernel=1)).output(0)
        return x

    links = make("Transpose-1", merged(16), axes(0, 2, 3, 1))
    links = make("Reshape-1", links, make("Concat-1", dims(links, 0, 1, 2), axes(8, 2), axis=0), special_zero=False)
    return [make("Softmax-1", merged(2), axis=1), make("Softmax-1", links, axis=4)]


def text_recognition(image):
    """Letters of the columns of a line."""
    net, hidden, letters = Network(), 5, 7
    x = net.block(net.block(image, 4, 2), 6, 2)
    # [N, 6, 4, 8] is a sequence of 8.
    x = flattened(make("Transpose-1", x, axes(0, 3, 1, 2)), 0, 0, -1)
    for inputs in (24, 2 * hidden):
        batch = dims(x, 0)
        zeros = make("Broadcast-3", real(0), make("Concat-1", batch, axes(2, hidden), axis=0))
        lengths = make("Broadcast-3", scalar(8), batch)
        sequence = make(
            "LSTMSequence-5",
            x,
            zeros,
            zeros,
            lengths,
            net.weights(2, 4 * hidden, inputs),
            net.weights(2, 4 * hidden, hidden),
            net.weights(2, 4 * hidden),
            hidden_size=hidden,
            direction="bidirectional",
            activations=["sigmoid", "tanh", "tanh"],
            activations_alpha=[],
            activations_beta=[],
            clip=0.0,
        )
        x = flattened(make("Transpose-1", sequence.output(0), axes(0, 2, 1, 3)), 0, 0, -1)
    logits = make("MatMul-1", x, net.weights(letters, 2 * hidden), transpose_b=True)
    probabilities = make("Softmax-1", logits, axis=2)
    decoded = make("CTCGreedyDecoderSeqLen-6", probabilities, lengths, merge_repeated=True)
    return [probabilities, decoded.output(0), decoded.output(1)]


case("networks/text_detection", [spread(1, 3, 32, 40)], text_detection)
case(
    "networks/text_recognition",
    [spread(1, 1, 16, 32)],
    text_recognition,
    shapes=["?,1,16,32"],
    more=[[spread(3, 1, 16, 32, seed=1)]],
)
