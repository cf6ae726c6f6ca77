//! The arithmetic of boxes.

use std::cmp::Ordering;

/// A box by two corners.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Corners {
    pub x_min: f32,
    pub y_min: f32,
    pub x_max: f32,
    pub y_max: f32,
}

/// Whether the corners are pixels that belong to the box, so that it is wider than their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Extent {
    /// From corner to corner, as for normalized coordinates.
    Distance,
    /// One more.
    Pixels,
}

impl Extent {
    pub fn extra(self) -> f32 {
        match self {
            Extent::Distance => 0.,
            Extent::Pixels => 1.,
        }
    }
}

impl Corners {
    /// From `x_min`, `y_min`, `x_max`, `y_max`.
    pub fn new([x_min, y_min, x_max, y_max]: [f32; 4]) -> Corners {
        Corners { x_min, y_min, x_max, y_max }
    }

    /// Around a center.
    pub fn around(x: f32, y: f32, width: f32, height: f32) -> Corners {
        let (half_width, half_height) = (width / 2., height / 2.);
        Corners::new([x - half_width, y - half_height, x + half_width, y + half_height])
    }

    pub fn coordinates(&self) -> [f32; 4] {
        [self.x_min, self.y_min, self.x_max, self.y_max]
    }

    pub fn width(&self, extent: Extent) -> f32 {
        self.x_max - self.x_min + extent.extra()
    }

    pub fn height(&self, extent: Extent) -> f32 {
        self.y_max - self.y_min + extent.extra()
    }

    fn area(&self, extent: Extent) -> f32 {
        self.width(extent) * self.height(extent)
    }

    /// The part that is in `[0, x_max]` and `[0, y_max]`.
    pub fn clipped(&self, x_max: f32, y_max: f32) -> Corners {
        Corners {
            x_min: self.x_min.min(x_max).max(0.),
            y_min: self.y_min.min(y_max).max(0.),
            x_max: self.x_max.min(x_max).max(0.),
            y_max: self.y_max.min(y_max).max(0.),
        }
    }

    /// Another box, of which its center is moved by the first two numbers, in units of width and height, and of
    /// which width and height are multiplied by the exponentials of the others.
    pub fn refined(&self, [x, y, width, height]: [f32; 4], extent: Extent) -> Corners {
        let (own_width, own_height) = (self.width(extent), self.height(extent));
        Corners::around(
            self.x_min + 0.5 * own_width + x * own_width,
            self.y_min + 0.5 * own_height + y * own_height,
            width.exp() * own_width,
            height.exp() * own_height,
        )
    }

    /// In units of another width and height.
    pub fn divided(&self, width: f32, height: f32) -> Corners {
        Corners {
            x_min: self.x_min / width,
            y_min: self.y_min / height,
            x_max: self.x_max / width,
            y_max: self.y_max / height,
        }
    }

    /// Whether there is a gap between two boxes. Boxes of pixels may have a gap of less than a pixel, and
    /// still overlap.
    pub fn is_apart(&self, other: &Corners) -> bool {
        self.x_min > other.x_max
            || other.x_min > self.x_max
            || self.y_min > other.y_max
            || other.y_min > self.y_max
    }

    /// Whether two boxes without a gap between them overlap by more than a threshold.
    pub fn overlaps(&self, other: &Corners, extent: Extent, threshold: f32) -> bool {
        !self.is_apart(other) && self.overlap(other, extent) > threshold
    }

    /// Intersection over union: 0 of boxes that do not overlap, or are empty.
    pub fn overlap(&self, other: &Corners, extent: Extent) -> f32 {
        let shared = Corners {
            x_min: self.x_min.max(other.x_min),
            y_min: self.y_min.max(other.y_min),
            x_max: self.x_max.min(other.x_max),
            y_max: self.y_max.min(other.y_max),
        };
        let shared = shared.width(extent).max(0.) * shared.height(extent).max(0.);
        if shared > 0. { shared / (self.area(extent) + other.area(extent) - shared) } else { 0. }
    }
}

/// The boxes of a tensor whose last axis has `x_min`, `y_min`, `x_max`, `y_max`.
pub(super) fn corners(elements: &[f32]) -> impl Iterator<Item = Corners> + '_ {
    elements.chunks_exact(4).map(|four| Corners::new([four[0], four[1], four[2], four[3]]))
}

/// The order of scores: greater ones first, NaN last.
pub(super) fn descending(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// A box that may be an output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub score: f32,
    pub class: usize,
    /// The number of the region, or of the prior box, that it is predicted from.
    pub region: usize,
    pub corners: Corners,
}

/// Keeps the candidates of the greatest scores, in their order. Of equal scores the first one comes first.
pub(super) fn keep_greatest<T>(candidates: &mut Vec<T>, most: usize, score: impl Fn(&T) -> f32) {
    candidates.sort_by(|a, b| descending(score(a), score(b)));
    candidates.truncate(most);
}

/// Takes candidates in their order, and leaves out those that one of the taken suppresses.
pub(super) fn suppress<T>(
    candidates: impl IntoIterator<Item = T>,
    most: usize,
    mut suppresses: impl FnMut(&T, &T) -> bool,
) -> Vec<T> {
    let mut taken: Vec<T> = vec![];
    for candidate in candidates {
        if taken.len() >= most {
            break;
        }
        if !taken.iter().any(|earlier| suppresses(earlier, &candidate)) {
            taken.push(candidate);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps() {
        let whole = Corners::new([0., 0., 9., 9.]);
        let half = Corners::new([0., 0., 9., 4.]);
        assert_eq!(whole.overlap(&half, Extent::Pixels), 0.5);
        assert_eq!(whole.overlap(&whole, Extent::Distance), 1.);
        let beside = Corners::new([9.5, 0., 18., 9.]);
        assert!(whole.is_apart(&beside));
        assert_eq!(whole.overlap(&beside, Extent::Distance), 0.);
        assert!(whole.overlap(&beside, Extent::Pixels) > 0.);
        let point = Corners::new([1., 1., 1., 1.]);
        assert_eq!(point.overlap(&point, Extent::Distance), 0.);
    }

    #[test]
    fn order_of_scores() {
        let mut scores = [f32::NAN, 1., f32::INFINITY, -1., f32::NAN];
        scores.sort_by(|a, b| descending(*a, *b));
        assert_eq!(scores[..3], [f32::INFINITY, 1., -1.]);
    }

    #[test]
    fn the_first_of_each_group_up_to_a_number() {
        let same_ten = |a: &i32, b: &i32| a / 10 == b / 10;
        assert_eq!(suppress([31, 12, 35, 18, 40, 50], 3, same_ten), [31, 12, 40]);
        assert!(suppress([1], 0, same_ten).is_empty());
    }
}
