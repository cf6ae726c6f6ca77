use std::sync::Mutex;

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::patches::{Layout, Window};

/// The layout for the last sizes that an operator met: it is the same in each run of most models.
#[derive(Debug, Clone, Default)]
pub(super) struct Layouts(Arc<Mutex<Option<Arc<Layout>>>>);

/// What is remembered is no part of an operator.
impl PartialEq for Layouts {
    fn eq(&self, _other: &Layouts) -> bool {
        true
    }
}

impl Eq for Layouts {}

impl Layouts {
    /// For data of these spatial sizes, and a product with some rows; none if the output has no elements. `shape`, which
    /// has the sizes of the output up to its channels, gets the others.
    pub fn of(
        &self,
        spec: &PoolSpec,
        sizes: &[usize],
        rows: usize,
        shape: &mut TVec<usize>,
    ) -> TractResult<Option<Arc<Layout>>> {
        let mut last = self.0.lock().map_err(|_| format_err!("a thread panicked"))?;
        if let Some(layout) = &*last
            && layout.window.input[3 - spec.rank()..] == *sizes
        {
            shape.extend_from_slice(&layout.window.output[3 - spec.rank()..]);
            return Ok((!shape.contains(&0)).then(|| layout.clone()));
        }
        let window = Window::new(spec, sizes)?;
        shape.extend_from_slice(&window.output[3 - spec.rank()..]);
        if shape.contains(&0) {
            return Ok(None);
        }
        let layout = Arc::new(Layout::new(window, rows)?);
        *last = Some(layout.clone());
        Ok(Some(layout))
    }
}
