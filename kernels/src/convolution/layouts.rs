use std::sync::Mutex;

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::patches::PatchLayout;
use crate::threads::lock;
use crate::window::Window;

/// So many layouts an operator keeps: in most models there is one for all runs, and some alternate between few sizes.
const MOST_LAYOUTS: usize = 4;

/// A cache of the layouts for the last sizes that an operator met, the last one at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct PatchLayoutCache(Arc<Mutex<Vec<Arc<PatchLayout>>>>);

/// What is remembered is no part of an operator.
impl PartialEq for PatchLayoutCache {
    fn eq(&self, _other: &PatchLayoutCache) -> bool {
        true
    }
}

impl PatchLayoutCache {
    /// For data of these spatial sizes, and a product with some rows; none if the output has no elements. `shape`, which
    /// has the sizes of the output up to its channels, gets the others.
    pub fn of(
        &self,
        spec: &PoolSpec,
        sizes: &[usize],
        rows: usize,
        shape: &mut TVec<usize>,
    ) -> TractResult<Option<Arc<PatchLayout>>> {
        let mut has_elements = |window: &Window| {
            shape.extend_from_slice(&window.output[3 - spec.rank()..]);
            !shape.contains(&0)
        };
        if let Some(layout) = self.kept(spec, sizes) {
            return Ok(has_elements(&layout.window).then_some(layout));
        }
        let window = Window::new(spec, sizes)?;
        rule_if!(has_elements(&window));
        // Other runs need not wait for it.
        let layout = Arc::new(PatchLayout::new(window, rows)?);
        let mut kept = lock(&self.0);
        if kept.len() >= MOST_LAYOUTS {
            kept.remove(0);
        }
        kept.push(layout.clone());
        Ok(Some(layout))
    }

    /// The layout for these sizes, if it is there.
    fn kept(&self, spec: &PoolSpec, sizes: &[usize]) -> Option<Arc<PatchLayout>> {
        let mut kept = lock(&self.0);
        let is_it = |it: &Arc<PatchLayout>| it.window.input[3 - spec.rank()..] == *sizes;
        let place = kept.iter().rposition(is_it)?;
        kept[place..].rotate_left(1);
        kept.last().cloned()
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::cnn::PaddingSpec;
    use tract_core::ops::nn::DataFormat;

    use super::*;

    fn spec() -> PoolSpec {
        PoolSpec::new(DataFormat::NCHW, tvec![3, 3], PaddingSpec::Valid, None, None, 1, 1)
    }

    #[test]
    fn some_sizes_are_kept() -> TractResult<()> {
        let (layouts, spec) = (PatchLayoutCache::default(), spec());
        let of = |size: usize| {
            let mut shape = tvec![1, 1];
            let layout = layouts.of(&spec, &[size, 7], 1, &mut shape)?.context("it has pixels")?;
            assert_eq!(*shape, [1, 1, size - 2, 5]);
            TractResult::Ok(layout)
        };
        let first = of(10)?;
        let second = of(11)?;
        for _ in 0..2 {
            assert!(Arc::ptr_eq(&first, &of(10)?));
            assert!(Arc::ptr_eq(&second, &of(11)?));
        }
        // What was not met for the longest time goes.
        for size in 20..23 {
            of(size)?;
        }
        assert!(Arc::ptr_eq(&second, &of(11)?));
        assert!(!Arc::ptr_eq(&first, &of(10)?));
        Ok(())
    }

    /// A panic elsewhere does not end the operator.
    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "there are no threads")]
    fn after_a_panic() -> TractResult<()> {
        let layouts = PatchLayoutCache::default();
        let other = layouts.clone();
        let thread = std::thread::spawn(move || {
            let _kept = other.0.lock();
            panic!("with the layouts");
        });
        thread.join().unwrap_err();
        assert!(layouts.0.is_poisoned());
        let layout = layouts.of(&spec(), &[5, 5], 1, &mut tvec![1, 1])?;
        assert_eq!(layout.context("it has pixels")?.window.pixels(), 9);
        Ok(())
    }
}
