//! Texts for regular expressions, whose bytes may be no UTF-8.

/// A text in UTF-8. What is none in the bytes of a string, is a character for private use for each byte.
pub(crate) enum Text<'a> {
    Valid(&'a str),
    Broken {
        text: String,
        /// Where the characters are that stand for bytes.
        places: Vec<usize>,
    },
}

/// The character that stands for byte 0.
const FIRST: u32 = 0x10_ff00;

/// The bytes of such a character in UTF-8.
const WIDTH: usize = 4;

impl<'a> Text<'a> {
    pub fn new(bytes: &'a [u8]) -> Text<'a> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Text::Valid(text);
        }
        let (mut text, mut places) = (String::new(), vec![]);
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                places.push(text.len());
                text.extend(char::from_u32(FIRST + u32::from(*byte)));
            }
        }
        Text::Broken { text, places }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Text::Valid(text) => text,
            Text::Broken { text, .. } => text,
        }
    }

    /// The position in the bytes that a position in the text stands for.
    pub fn original(&self, position: usize) -> usize {
        match self {
            Text::Valid(_) => position,
            Text::Broken { places, .. } => {
                position - (WIDTH - 1) * places.partition_point(|place| *place < position)
            }
        }
    }

    /// Adds what a text has become to bytes.
    pub fn push_onto(&self, bytes: &mut Vec<u8>, text: &str) {
        let Text::Broken { .. } = self else { return bytes.extend_from_slice(text.as_bytes()) };
        for c in text.chars() {
            match u8::try_from((c as u32).wrapping_sub(FIRST)) {
                Ok(byte) if byte >= 0x80 => bytes.push(byte),
                _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn there_and_back(bytes: Vec<u8>) {
            let text = Text::new(&bytes);
            let mut back = vec![];
            text.push_onto(&mut back, text.as_str());
            proptest::prop_assert_eq!(&back, &bytes);
            let end = text.original(text.as_str().len());
            proptest::prop_assert_eq!(end, bytes.len());
        }
    }
}
