/// `nearest_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
    Simple,
}

/// `coordinate_transformation_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    Asymmetric,
    TfHalfPixelForNn,
    AlignCorners,
}

impl Coordinates {
    /// The coordinate in an axis of `size` elements of element `at` of `output` elements.
    pub(super) fn of(self, at: usize, scale: f32, size: usize, output: usize) -> f32 {
        let x = at as f32;
        match self {
            Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if output > 1 => (x + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if output > 1 => {
                x * (size as f32 - 1.) / (output as f32 - 1.)
            }
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.,
            Coordinates::Asymmetric => x / scale,
            Coordinates::TfHalfPixelForNn => (x + 0.5) / scale,
        }
    }
}

impl Nearest {
    pub(super) fn of(self, x: f32, downsample: bool) -> f32 {
        match self {
            Nearest::RoundPreferFloor if x == x.trunc() + 0.5 => x.floor(),
            Nearest::RoundPreferFloor | Nearest::RoundPreferCeil => x.round(),
            Nearest::Floor => x.floor(),
            Nearest::Ceil => x.ceil(),
            Nearest::Simple if downsample => x.ceil(),
            Nearest::Simple => x.trunc(),
        }
    }
}
