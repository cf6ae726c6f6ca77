//! Operations of detectors: boxes with scores, and regions of feature maps.

mod detection_output;
mod detectron;
mod priors;
mod proposal;
mod regions;
mod suppression;
mod yolo;

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::limits::MAX_BOXES;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("PriorBox", 1, priors::prior_box);
    registry.add("PriorBox", 8, priors::prior_box);
    registry.add("PriorBoxClustered", 1, priors::prior_box_clustered);
    registry.add("DetectionOutput", 1, detection_output::detection_output);
    registry
        .add("DetectionOutput", 8, detection_output::detection_output)
        .without("without `keep_top_k`: a number of classes that follows from open sizes");
    registry.add("RegionYolo", 1, yolo::region_yolo);
    registry.add("ReorgYolo", 2, yolo::reorg_yolo);
    registry.add("Proposal", 1, proposal::proposal);
    registry.add("Proposal", 4, proposal::proposal);
    registry.add("ROIAlign", 3, regions::roi_align);
    registry.add("ROIAlign", 9, regions::roi_align);
    registry.add("ROIAlignRotated", 15, regions::roi_align_rotated);
    registry.add("ROIPooling", 2, regions::roi_pooling);
    registry.add("PSROIPooling", 1, regions::psroi_pooling);
    registry.add("DeformablePSROIPooling", 1, regions::deformable_psroi_pooling);
    registry.add("NonMaxSuppression", 1, suppression::non_max_suppression);
    registry.add("NonMaxSuppression", 3, suppression::non_max_suppression);
    registry.add("NonMaxSuppression", 4, suppression::non_max_suppression);
    registry.add("NonMaxSuppression", 5, suppression::non_max_suppression);
    registry.add("NonMaxSuppression", 9, suppression::non_max_suppression);
    registry.add("NMSRotated", 13, suppression::nms_rotated);
    registry.add("MulticlassNms", 8, suppression::multiclass_nms);
    registry.add("MulticlassNms", 9, suppression::multiclass_nms);
    registry.add("MatrixNms", 8, suppression::matrix_nms);
    registry.add("GenerateProposals", 9, detectron::generate_proposals);
    registry
        .add("ExperimentalDetectronPriorGridGenerator", 6, detectron::prior_grid)
        .without("`h` and `w` that are not the size of the feature map");
    registry.add("ExperimentalDetectronTopKROIs", 6, detectron::top_k_rois);
    registry.add("ExperimentalDetectronROIFeatureExtractor", 6, detectron::roi_feature_extractor);
    registry.add("ExperimentalDetectronDetectionOutput", 6, detectron::detection_output);
    registry.add(
        "ExperimentalDetectronGenerateProposalsSingleImage",
        6,
        detectron::generate_proposals_single_image,
    );
}

/// An attribute that says how many boxes an output has.
fn count_of_boxes(ctx: &LayerContext, name: &str) -> TractResult<usize> {
    let count = ctx.attribute(name)?;
    ensure!(count <= MAX_BOXES, "attribute {name} is {count}, but must be in [0, {MAX_BOXES}]");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use crate::bad_input::changed_models::error;

    #[test]
    fn errors_name_what_is_wrong() {
        for (model, from, to, expected) in [
            ("non_max_suppression/center", "\"center\"", "\"edge\"", "one of corner, center"),
            (
                "prior_box/densities",
                "density=\"2, 1\"",
                "density=\"2\"",
                "density is [2], but must have a number of 1 or more for each of the 2 fixed sizes",
            ),
            (
                "prior_box/densities",
                "density=\"2, 1\"",
                "density=\"99999, 1\"",
                "must make 1 to 65536",
            ),
            (
                "prior_box/sizes_of_the_image",
                "max_size=\"\"",
                "max_size=\"0.5\"",
                "more boxes for a cell than the 6 that the output has",
            ),
            (
                "prior_box_clustered/steps",
                "width=\"4, 6, 9\"",
                "width=\"4, 6\"",
                "width and height have 2 and 3 numbers",
            ),
            (
                "detection_output/variance_in_target",
                "keep_top_k=\"4\"",
                "keep_top_k=\"\"",
                "keep_top_k is empty",
            ),
            (
                "region_yolo/sigmoid",
                "mask=\"2, 4\"",
                "mask=\"2\"",
                "the number of channels is 16, but must be regions * (coords + classes + 1)",
            ),
            (
                "reorg_yolo/strides",
                "stride=\"2\"",
                "stride=\"3\"",
                "the number of channels is 8, but must be a multiple of 9",
            ),
            ("reorg_yolo/strides", "stride=\"2\"", "stride=\"0\"", "must be one number, 1 or more"),
            ("roi_align/max", "pooled_h=\"2\"", "pooled_h=\"0\"", "must be from 1 to 65535"),
            (
                "roi_pooling/max",
                "output_roi=\"3, 2\"",
                "output_roi=\"3\"",
                "output_roi is [3], but must be height and width",
            ),
            ("psroi_pooling/average", "\"average\"", "\"max\"", "one of average, bilinear"),
            ("proposal/tensorflow", "scale=\"1, 2.5\"", "scale=\"1\"", "has 2 anchors"),
            (
                "experimental_detectron/prior_grid_generator",
                "h=\"0\"",
                "h=\"7\"",
                "h is 7, but must be 0 or 2, the size of the feature map",
            ),
            (
                "experimental_detectron/detection_output",
                "deltas_weights=\"2, 2, 1, 1\"",
                "deltas_weights=\"2\"",
                "must have 4 numbers",
            ),
            (
                "experimental_detectron/top_k_rois",
                "max_rois=\"5\"",
                "max_rois=\"99999999\"",
                "max_rois is 99999999, but must be in [0, 16777216]",
            ),
            (
                "detection_output/variance_in_target",
                "keep_top_k=\"4\"",
                "keep_top_k=\"99999999\"",
                "rows, but must have 16777216 or fewer",
            ),
            (
                "detection_output/variance_in_target",
                "keep_top_k=\"4\"",
                "keep_top_k=\"9223372036854775807\"",
                match usize::BITS {
                    64 => "times 9223372036854775807 is too large",
                    _ => "rows, but must have 16777216 or fewer",
                },
            ),
        ] {
            let error = error(model, &[(from, to)]);
            assert!(error.contains(expected), "{model}: {expected:?} is not in: {error}");
        }
    }
}
