use tract_core::internal::*;

use tract_openvino_kernels::checks::{MAX_OUTPUT_ELEMENTS, ensure_allocatable};

/// The most values that are kept one by one: each takes more memory than its elements.
const MOST_VALUES: usize = 256;

/// What the iterations of a loop give, which becomes one tensor.
pub(super) struct Collected {
    axis: usize,
    backwards: bool,
    elements: usize,
    /// Many values each.
    chunks: Vec<TValue>,
    values: Vec<TValue>,
}

impl Collected {
    pub fn new(axis: usize, backwards: bool) -> Collected {
        Collected { axis, backwards, elements: 0, chunks: vec![], values: vec![] }
    }

    /// Adds what an iteration gives.
    pub fn push(&mut self, value: TValue) -> TractResult<()> {
        self.elements = self.elements.saturating_add(value.len());
        ensure!(
            self.elements <= MAX_OUTPUT_ELEMENTS,
            "an output of a loop has more than {MAX_OUTPUT_ELEMENTS} elements"
        );
        self.values.push(value);
        if self.values.len() == MOST_VALUES {
            let values = std::mem::take(&mut self.values);
            self.chunks.push(self.stack(values)?);
        }
        Ok(())
    }

    /// All of it.
    pub fn finish(mut self) -> TractResult<TValue> {
        let mut all = std::mem::take(&mut self.chunks);
        let values = std::mem::take(&mut self.values);
        if !values.is_empty() {
            all.push(self.stack(values)?);
        }
        self.stack(all)
    }

    fn stack(&self, mut values: Vec<TValue>) -> TractResult<TValue> {
        if self.backwards {
            values.reverse();
        }
        match &*values {
            [one] => Ok(one.clone()),
            _ => {
                // Values may share their memory, but stacked they do not.
                let bytes = values.iter().map(|value| value.len() * value.datum_type().size_of());
                ensure_allocatable("Loop", bytes.sum())?;
                Ok(Tensor::stack_tensors(self.axis, &values)?.into_tvalue())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values() -> TractResult<()> {
        for count in [1, 255, 256, 257, 600] {
            for backwards in [false, true] {
                let mut collected = Collected::new(0, backwards);
                for number in 0..count {
                    collected.push(tensor1(&[number, -number]).into_tvalue())?;
                }
                let mut expected: Vec<[i64; 2]> = (0..count).map(|it| [it, -it]).collect();
                if backwards {
                    expected.reverse();
                }
                assert_eq!(*collected.finish()?, tensor1(&expected.concat()), "{count}");
            }
        }
        Ok(())
    }
}
