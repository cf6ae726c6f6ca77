//! Constants of strings.

use tract_core::internal::*;

/// A tensor of strings. The bytes have their number, then where each begins and where the last ends, all in
/// 32 bits, and then the strings.
pub(super) fn strings(bytes: &[u8], shape: &[usize], volume: usize) -> TractResult<Tensor> {
    let number = |index: usize| -> TractResult<usize> {
        let from = index.checked_mul(4).context("too many strings")?;
        let four = bytes.get(from..).and_then(|rest| rest.first_chunk::<4>());
        let four = four.context("the offsets of its strings are cut short")?;
        Ok(u32::from_le_bytes(*four) as usize)
    };
    let count = number(0)?;
    ensure!(
        count == volume,
        "the number of strings is {count}, but shape {shape:?} has {volume} elements"
    );
    let content = count
        .checked_add(2)
        .and_then(|numbers| numbers.checked_mul(4))
        .and_then(|header| bytes.get(header..))
        .context("the offsets of its strings are cut short")?;
    let mut values = Vec::with_capacity(count.min(content.len() + 1));
    for index in 0..count {
        let (from, to) = (number(1 + index)?, number(2 + index)?);
        let text = content.get(from..to).with_context(|| {
            format!(
                "string {index} is at bytes {from}..{to}, but there are {} bytes",
                content.len()
            )
        })?;
        let text =
            std::str::from_utf8(text).with_context(|| format!("string {index} is not UTF-8"))?;
        values.push(text.to_string());
    }
    tensor1(&values).into_shape(shape)
}

#[cfg(test)]
mod tests {
    use tract_core::internal::*;

    use crate::document::ElementType;
    use crate::weights::tests::load;

    #[test]
    fn strings_are_checked() {
        let bytes = |numbers: &[u32], text: &str| {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            numbers.chain(text.bytes()).collect::<Vec<u8>>()
        };
        let good = load(ElementType::String, &[2], &bytes(&[2, 0, 1, 3], "abc")).unwrap();
        assert_eq!(good, tensor1(&["a".to_string(), "bc".to_string()]));
        for (numbers, text, expected) in [
            (vec![3, 0, 1, 3], "abc", "the number of strings is 3, but shape [2] has 2 elements"),
            (vec![2, 0, 1, 9], "abc", "bytes 1..9"),
            (vec![2, 0, 3, 1], "abc", "bytes 3..1"),
            (vec![2, 0], "", "cut short"),
        ] {
            let error = load(ElementType::String, &[2], &bytes(&numbers, text)).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
