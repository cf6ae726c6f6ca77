//! Tables of sentencepiece: rules in a double array, and what they make.

use tract_core::internal::*;

/// A table of rules.
#[derive(Debug)]
pub(crate) struct CharsMap {
    /// The units of the double array, as the library darts-clone has them.
    units: Vec<u32>,
    /// What the rules make, each with a zero byte at its end.
    texts: String,
}

/// Whether a unit has a value.
fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

/// The byte that leads to a unit.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

/// The distance to the children of a unit.
fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

impl CharsMap {
    /// Reads a table: the number of the array's bytes (in 32 bits), the array, and the texts.
    pub fn new(bytes: Vec<u8>) -> TractResult<CharsMap> {
        let (size, rest) = bytes.split_first_chunk::<4>().context("the table is cut short")?;
        let size = u32::from_le_bytes(*size) as usize;
        ensure!(
            size < rest.len() && size.is_multiple_of(4) && size > 0,
            "the array of the table has {size} bytes, but must have a multiple of 4 and less than {}",
            rest.len()
        );
        let (array, texts) = rest.split_at(size);
        let units = array.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let texts = String::from_utf8(texts.to_vec()).ok();
        Ok(CharsMap { units, texts: texts.context("the texts of the table are not UTF-8")? })
    }

    /// The longest rule for the beginning of a text: the number of its bytes, and what it makes of them.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let mut node = offset(self.units[0]) as usize;
        let mut longest = None;
        for (at, byte) in text.iter().enumerate() {
            node ^= *byte as usize;
            let Some(unit) = self.units.get(node).filter(|unit| label(**unit) == u32::from(*byte))
            else {
                break;
            };
            node ^= offset(*unit) as usize;
            if has_value(*unit)
                && let Some(value) = self.units.get(node)
            {
                longest = Some((at + 1, *value & 0x7fff_ffff));
            }
        }
        let (len, place) = longest?;
        // What is out of range is no rule.
        let text = self.texts.get(usize::try_from(place).ok()?..)?;
        Some((len, text.split('\0').next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with one rule, of a byte.
    fn table(byte: u8, texts: &str, value: u32) -> Vec<u8> {
        // The root's children are at 256, and the child's value is at 0 of a block at 512.
        let mut units = vec![0u32; 768];
        units[0] = 256 << 10;
        let child = 256 ^ byte as usize;
        units[child] = (child as u32 ^ 512) << 10 | 1 << 8 | u32::from(byte);
        units[512] = 1 << 31 | value;
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(texts.as_bytes());
        bytes
    }

    #[test]
    fn a_rule() {
        let map = CharsMap::new(table(b'A', "xy\0a\0", 3)).unwrap();
        assert_eq!(map.longest(b"AB"), Some((1, "a")));
        assert_eq!(map.longest(b"BA"), None);
        // A value beyond the texts is no rule.
        assert_eq!(CharsMap::new(table(b'A', "xy\0", 30)).unwrap().longest(b"A"), None);
    }

    #[test]
    fn broken_tables() {
        for (bytes, expected) in [
            (vec![1, 0], "cut short"),
            (vec![9, 0, 0, 0, 1, 2], "9 bytes"),
            (vec![0, 0, 0, 0, 1, 2], "0 bytes"),
            ([&[4, 0, 0, 0][..], &[0; 4], &[0xff]].concat(), "not UTF-8"),
        ] {
            let error = CharsMap::new(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(0u8.., 0..200), text: Vec<u8>) {
            let len = (bytes.len() / 4 * 4) as u32;
            let table = [&len.to_le_bytes(), &*bytes, &[0; 8]].concat();
            if let Ok(map) = CharsMap::new(table) {
                map.longest(&text);
            }
        }
    }
}
