//! Boxes that are turned around their centers.

/// A point, or the way between two.
type Vector = [f32; 2];

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1]]
}

/// Positive if the second way turns to the left of the first one.
fn cross(a: Vector, b: Vector) -> f32 {
    a[0] * b[1] - a[1] * b[0]
}

/// A rectangle, by its corners in the mathematical sense of rotation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rotated {
    corners: [Vector; 4],
    area: f32,
}

impl Rotated {
    /// From center, width, height, and the angle in radians.
    pub fn new([x, y, width, height, angle]: [f32; 5]) -> Rotated {
        let (sin, cos) = angle.sin_cos();
        let corner = |right: f32, up: f32| {
            let (dx, dy) = (right * width / 2., up * height / 2.);
            [x + dx * cos - dy * sin, y + dx * sin + dy * cos]
        };
        Rotated {
            corners: [corner(-1., -1.), corner(1., -1.), corner(1., 1.), corner(-1., 1.)],
            area: width * height,
        }
    }

    /// Intersection over union: 0 of boxes that do not overlap, or are empty.
    pub fn overlap(&self, other: &Rotated) -> f32 {
        if self.area <= 0. || other.area <= 0. {
            return 0.;
        }
        let mut shared = self.corners.to_vec();
        for side in 0..4 {
            shared = cut(&shared, other.corners[side], other.corners[(side + 1) % 4]);
        }
        let shared = area(&shared);
        if shared > 0. { shared / (self.area + other.area - shared) } else { 0. }
    }
}

/// The part of a convex polygon to the left of a line.
fn cut(polygon: &[Vector], start: Vector, end: Vector) -> Vec<Vector> {
    let line = minus(end, start);
    let side = |point: Vector| cross(line, minus(point, start));
    let mut part = vec![];
    for (number, point) in polygon.iter().enumerate() {
        let next = polygon[(number + 1) % polygon.len()];
        let (here, there) = (side(*point), side(next));
        if here >= 0. {
            part.push(*point);
        }
        // The polygon's side crosses the line.
        if here * there < 0. {
            let way = minus(next, *point);
            let share = here / (here - there);
            part.push([point[0] + way[0] * share, point[1] + way[1] * share]);
        }
    }
    part
}

/// The area of a polygon. It is reckoned from one of its points, so that little is lost far from the origin.
fn area(polygon: &[Vector]) -> f32 {
    let Some(first) = polygon.first() else { return 0. };
    let pairs = polygon.windows(2);
    pairs.map(|pair| cross(minus(pair[0], *first), minus(pair[1], *first))).sum::<f32>() / 2.
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(a: [f32; 5], b: [f32; 5]) -> f32 {
        Rotated::new(a).overlap(&Rotated::new(b))
    }

    #[test]
    fn overlaps() {
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-5, "{a} {b}");
        let square = [5., 5., 2., 2., 0.];
        close(overlap(square, square), 1.);
        close(overlap(square, [6., 5., 2., 2., 0.]), 1. / 3.);
        close(overlap(square, [5., 5., 2., 2., std::f32::consts::FRAC_PI_2]), 1.);
        // An octagon.
        let octagon = 8. * (2f32.sqrt() - 1.);
        let turned = [5., 5., 2., 2., std::f32::consts::FRAC_PI_4];
        close(overlap(square, turned), octagon / (8. - octagon));
        assert_eq!(overlap(square, [9., 5., 2., 2., 1.]), 0.);
        assert_eq!(overlap(square, [5., 5., 0., 2., 1.]), 0.);
        assert!(overlap(square, [5., 5., 1., 2., f32::NAN]).is_finite());
    }
}
