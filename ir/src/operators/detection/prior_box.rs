//! What prior boxes are, and those of PriorBox-1 and PriorBox-8.

/// The boxes of all cells, in pixels of the image.
pub(crate) struct Grid {
    pub cell: Cell,
    pub priors: Vec<Prior>,
}

/// The size of a cell, and where its center is, in units of its size.
pub(crate) struct Cell {
    pub height: f32,
    pub width: f32,
    pub offset: f32,
}

/// A box, relative to the center of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Prior {
    pub x: f32,
    pub y: f32,
    pub half_width: f32,
    pub half_height: f32,
    /// Whether it ends where the image ends, even without `clip`.
    pub in_image: bool,
}

impl Prior {
    /// A box around the center with the area of a square, and an aspect ratio.
    pub fn of(size: f32, ratio: f32) -> Prior {
        let ratio = ratio.sqrt();
        Prior {
            half_width: size * 0.5 * ratio,
            half_height: size * 0.5 / ratio,
            ..Prior::default()
        }
    }
}

/// The attributes of PriorBox.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorBox {
    pub min_size: Vec<f32>,
    pub max_size: Vec<f32>,
    /// 1, then the others; with `flip`, the inverse of each too.
    pub aspect_ratios: Vec<f32>,
    /// One for each of `fixed_size`.
    pub density: Vec<usize>,
    pub fixed_ratio: Vec<f32>,
    pub fixed_size: Vec<f32>,
    pub step: f32,
    pub offset: f32,
    /// Otherwise `min_size` and `step` are in units of the image, and aspect ratios are those of the first
    /// size only.
    pub scale_all_sizes: bool,
    pub min_max_aspect_ratios_order: bool,
}

/// Aspect ratios as they count: 1 first, each once, with its inverse if `flip` says so.
pub(crate) fn aspect_ratios(listed: &[f32], flip: bool) -> Vec<f32> {
    let mut ratios = vec![1.];
    for ratio in listed {
        if ratios.iter().all(|known: &f32| (ratio - known).abs() >= 1e-6) {
            ratios.push(*ratio);
            if flip {
                ratios.push(1. / ratio);
            }
        }
    }
    ratios
}

impl PriorBox {
    /// The number of boxes of a cell, as the specification counts them: where the attributes yield fewer, the
    /// last boxes of all are zeros. `None` if it cannot be counted.
    pub fn count(&self) -> Option<usize> {
        let ratios = self.aspect_ratios.len();
        let count = if !self.fixed_size.is_empty() {
            ratios.checked_mul(self.fixed_size.len())?
        } else if self.scale_all_sizes {
            ratios.checked_mul(self.min_size.len())?.checked_add(self.max_size.len())?
        } else {
            (ratios + self.min_size.len()).checked_sub(1)?
        };
        let shapes = if self.fixed_ratio.is_empty() { ratios } else { self.fixed_ratio.len() };
        self.density.iter().try_fold(count, |count, density| {
            let more = density.checked_mul(*density)?.checked_sub(1)?;
            count.checked_add(more.checked_mul(shapes)?)
        })
    }

    pub fn grid(&self, cells: [usize; 2], image: [f32; 2]) -> Grid {
        let scale = if self.scale_all_sizes { 1. } else { image[0] };
        let step = match self.step {
            _ if self.scale_all_sizes => self.step,
            -1. => image[0] / cells[0] as f32,
            step => step * image[0],
        };
        let cell = match step {
            0. => Cell {
                height: image[0] / cells[0] as f32,
                width: image[1] / cells[1] as f32,
                offset: 0.5,
            },
            step => Cell { height: step, width: step, offset: self.offset },
        };
        Grid { cell, priors: self.priors(scale).collect() }
    }

    /// The boxes of a cell. `scale` is what `min_size` is in units of.
    pub fn priors(&self, scale: f32) -> impl Iterator<Item = Prior> + '_ {
        self.fixed().chain(self.scaled(scale))
    }

    /// The boxes of `fixed_size`. Each is divided into `density` by `density` parts, in which one is centered.
    fn fixed(&self) -> impl Iterator<Item = Prior> + '_ {
        self.fixed_size.iter().zip(&self.density).flat_map(move |(size, density)| {
            let (size, density) = (*size, *density);
            let ratios =
                if self.fixed_ratio.is_empty() { &self.aspect_ratios } else { &self.fixed_ratio };
            ratios.iter().enumerate().flat_map(move |(number, ratio)| {
                // The square of aspect_ratio has a whole size.
                let square = number == 0 && self.fixed_ratio.is_empty();
                let prior = Prior::of(if square { size.trunc() } else { size }, *ratio);
                let part = (size / density as f32).trunc();
                let start = part / 2. - size.trunc() / 2.;
                let at = move |number: usize| start + number as f32 * part;
                (0..density).flat_map(move |row| {
                    (0..density).map(move |column| Prior {
                        x: at(column),
                        y: at(row),
                        in_image: true,
                        ..prior
                    })
                })
            })
        })
    }

    /// The boxes of `min_size` and `max_size`.
    fn scaled(&self, scale: f32) -> impl Iterator<Item = Prior> + '_ {
        let sizes = move || self.min_size.iter().map(move |size| size * scale);
        let last = self.min_size.len().saturating_sub(1);
        sizes().enumerate().flat_map(move |(number, size)| {
            let with_ratios = self.scale_all_sizes || number == last;
            let ratios = if with_ratios { &self.aspect_ratios[1..] } else { &[] };
            let ratios_of = if self.scale_all_sizes { number } else { 0 };
            let ratios_of = self.min_size[ratios_of] * scale;
            let others = ratios.iter().map(move |ratio| Prior::of(ratios_of, *ratio));
            let largest = self.max_size.get(number);
            let largest = largest.map(|largest| Prior::of((size * largest).sqrt(), 1.));
            let (before, after) = match self.min_max_aspect_ratios_order {
                true => (largest, None),
                false => (None, largest),
            };
            std::iter::once(Prior::of(size, 1.)).chain(before).chain(others).chain(after)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> PriorBox {
        PriorBox {
            min_size: vec![4., 16.],
            max_size: vec![9.],
            aspect_ratios: aspect_ratios(&[1., 4., 4.], true),
            density: vec![],
            fixed_ratio: vec![],
            fixed_size: vec![],
            step: 0.,
            offset: 0.5,
            scale_all_sizes: true,
            min_max_aspect_ratios_order: true,
        }
    }

    fn widths(attributes: &PriorBox, scale: f32) -> Vec<f32> {
        attributes.priors(scale).map(|prior| prior.half_width * 2.).collect()
    }

    #[test]
    fn order_of_sizes_and_ratios() {
        let attributes = example();
        assert_eq!(attributes.aspect_ratios, [1., 4., 0.25]);
        assert_eq!(widths(&attributes, 1.), [4., 6., 8., 2., 16., 32., 8.]);
        assert_eq!(attributes.count(), Some(7));
        let attributes = PriorBox { min_max_aspect_ratios_order: false, ..attributes };
        assert_eq!(widths(&attributes, 1.), [4., 8., 2., 6., 16., 32., 8.]);
    }

    #[test]
    fn sizes_in_units_of_the_image() {
        let attributes = PriorBox { scale_all_sizes: false, max_size: vec![], ..example() };
        assert_eq!(widths(&attributes, 2.), [8., 32., 16., 4.]);
        assert_eq!(attributes.count(), Some(4));
    }

    #[test]
    fn more_boxes_than_can_be_counted() {
        let attributes = PriorBox { density: vec![usize::MAX], ..example() };
        assert_eq!(attributes.count(), None);
    }
}
