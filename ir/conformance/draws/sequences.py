"""What a network means by a sequence: CTC and beam search."""

from framework import *

from . import operation


def probabilities(draw, type_, rows, columns, classes):
    """Numbers from 0 to 4, in which no two classes of a step are equal."""
    ranks = draw.numpy.random((rows, columns, classes)).argsort(-1)
    return (ranks / 4 + draw.numpy.integers(0, 4, (rows, columns, 1)) / 16).astype(DTYPES[type_])


@operation("CTCGreedyDecoder-1")
def ctc_greedy_decoder(draw, kind):
    steps, rows = draw.size(1) + draw.integer(0, 3), draw.size(1)
    type_ = draw.type(["f16", "f32"])
    # Each sequence is as long as there are ones in front of the first zero.
    mask = np.arange(steps)[:, None] < draw.indices(0 if draw.flag(0.2) else 1, steps, rows)
    inputs = [
        probabilities(draw, type_, steps, rows, draw.integer(1, 4)),
        mask.astype(DTYPES[type_]),
    ]
    return inputs, op(kind, **draw.optional({"ctc_merge_repeated": draw.flag()}))


@operation("CTCGreedyDecoderSeqLen-6")
def ctc_greedy_decoder_seq_len(draw, kind):
    rows, steps, classes = draw.size(1), draw.size(1) + draw.integer(0, 3), draw.integer(1, 4)
    lengths = draw.indices(0 if draw.flag(0.2) else 1, steps, rows)
    inputs = [probabilities(draw, draw.type(["f16", "f32"]), rows, steps, classes), lengths]
    if draw.flag():
        blank = np.array(draw.integer(0, classes - 1), lengths.dtype)
        inputs.append(draw.fed(blank.reshape(draw.choice((), (1,)))))
    attributes = {
        "merge_repeated": draw.flag(),
        "classes_index_type": draw.choice("i32", "i64"),
        "sequence_length_type": draw.choice("i32", "i64"),
    }
    return inputs, op(kind, **draw.optional(attributes))


@operation("CTCLoss-4")
def ctc_loss(draw, kind):
    rows, steps, classes = draw.size(1), draw.size(1) + draw.integer(0, 3), draw.integer(2, 5)
    lengths = draw.indices(1, steps, rows)
    blank = draw.integer(0, classes - 1)
    has_blank = draw.flag()
    classes_but_blank = [it for it in range(classes) if it != (blank if has_blank else classes - 1)]
    labels = draw.numpy.choice(classes_but_blank, (rows, steps)).astype(lengths.dtype)
    # Labels that are the same need a blank between them, so that there may be no path of all labels.
    counts = draw.numpy.integers(0 if draw.flag(0.2) else 1, lengths, endpoint=True).astype(lengths.dtype)
    if draw.flag(0.7):
        counts = (counts + 1) // 2
    attributes = draw.optional({"preprocess_collapse_repeated": draw.flag(0.4), "unique": draw.flag(0.4)})
    # OpenVINO takes what the file does not have as false, but the default is true.
    attributes["ctc_merge_repeated"] = draw.flag()
    if attributes.get("preprocess_collapse_repeated"):
        # OpenVINO's CPU plugin takes the first label even if there is none.
        counts = np.maximum(counts, 1)
    logits = draw.numbers(draw.type(["f16", "f32"]), rows, steps, classes)
    inputs = [logits, lengths, labels, counts]
    if has_blank:
        inputs.append(draw.fed(np.array(blank, lengths.dtype)))
    return inputs, op(kind, **attributes)


@operation("GatherTree-1")
def gather_tree(draw, kind):
    steps, rows, beams = draw.size(1), draw.size(1), draw.size(1)
    type_ = DTYPES[draw.choice("i32", "f32")]
    ids = draw.indices(1, 5, steps, rows, beams).astype(type_)
    parents = draw.indices(0, beams - 1, steps, rows, beams).astype(type_)
    lengths = draw.indices(1, steps + 1, rows).astype(type_)
    return [ids, parents, lengths, draw.fed(np.array(draw.integer(1, 6), type_))], op(kind)
