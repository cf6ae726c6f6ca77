//! Operations of detectors: boxes with scores, and regions of feature maps.

mod detection_output;
mod detectron;
mod priors;
mod proposal;
mod regions;
mod suppression;
mod yolo;

use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("PriorBox", 1, priors::prior_box);
    registry.add("PriorBox", 8, priors::prior_box);
    registry.add("PriorBoxClustered", 1, priors::prior_box_clustered);
    registry.add("DetectionOutput", 1, detection_output::detection_output);
    registry.add("DetectionOutput", 8, detection_output::detection_output);
    registry.add("RegionYolo", 1, yolo::region_yolo);
    registry.add("ReorgYolo", 2, yolo::reorg_yolo);
    registry.add("Proposal", 1, proposal::proposal);
    registry.add("Proposal", 4, proposal::proposal);
    registry.add("ROIAlign", 3, regions::roi_align);
    registry.add("ROIAlign", 9, regions::roi_align);
    registry.add("ROIPooling", 2, regions::roi_pooling);
    registry.add("PSROIPooling", 1, regions::psroi_pooling);
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
    registry.add("ExperimentalDetectronPriorGridGenerator", 6, detectron::prior_grid);
    registry.add("ExperimentalDetectronTopKROIs", 6, detectron::top_k_rois);
    registry.add("ExperimentalDetectronROIFeatureExtractor", 6, detectron::roi_feature_extractor);
    registry.add("ExperimentalDetectronDetectionOutput", 6, detectron::detection_output);
    registry.add(
        "ExperimentalDetectronGenerateProposalsSingleImage",
        6,
        detectron::generate_proposals_single_image,
    );
}
