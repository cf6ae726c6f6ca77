//! [`Layout`]: what the dimensions of a tensor are.

use std::fmt;
use std::str::FromStr;

use tract_core::internal::*;

/// What the dimensions of a tensor are, by their names: OpenVINO's `Layout`.
///
/// The text is letters (`NCHW`), or names in brackets (`[n, channels, height, width]`). `?` is a dimension without a name, and
/// `...` any number of them. Upper and lower case are the same; so are `B`, `BATCH` and `N`, `CHANNELS`, `CHANNEL` and `C`, `HEIGHT`
/// and `H`, `WIDTH` and `W`, `DEPTH` and `D`. `**SCALAR**` has no dimensions. The default layout, which is `...` and an empty text,
/// says nothing.
///
/// ```
/// use tract_openvino_ir::preprocess::Layout;
/// # use tract_openvino_ir::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let layout: Layout = "n...c".parse()?;
/// assert_eq!(layout.to_string(), "[N,...,C]");
/// assert_eq!(layout.axis("channels", 4), Some(3));
/// assert_eq!(layout.axis("H", 4), None);
/// assert_eq!("[batch,?,?,c]".parse::<Layout>()?, "N??C".parse()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The dimensions before `...`, or all.
    front: Vec<Option<String>>,
    /// Those after `...`. `None` if there is no `...`.
    back: Option<Vec<Option<String>>>,
}

/// How a layout without dimensions is written.
const SCALAR: &str = "**SCALAR**";

impl Default for Layout {
    /// The layout that says nothing.
    fn default() -> Layout {
        Layout { front: vec![], back: Some(vec![]) }
    }
}

impl Layout {
    /// The layout of a tensor without dimensions.
    pub fn scalar() -> Layout {
        Layout { front: vec![], back: None }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Layout::default()
    }

    /// Whether a dimension has a name, in any spelling.
    pub fn has(&self, name: &str) -> bool {
        let name = canonical(name);
        self.names().any(|it| *it == name)
    }

    /// The axis of the dimension with a name, in any spelling, of a tensor of this rank. `None` if no dimension has it, or if
    /// the tensor has no such axis.
    pub fn axis(&self, name: &str, rank: usize) -> Option<usize> {
        let name = canonical(name);
        let is_it = |it: &Option<String>| it.as_ref() == Some(&name);
        let axis = match self.front.iter().position(is_it) {
            Some(axis) => axis,
            None => {
                let back = self.back.as_ref()?;
                (back.iter().position(is_it)? + rank).checked_sub(back.len())?
            }
        };
        (axis < rank).then_some(axis)
    }

    /// Whether a tensor of this rank can have the layout.
    pub fn fits(&self, rank: usize) -> bool {
        match &self.back {
            None => rank == self.front.len(),
            Some(back) => rank >= self.front.len() + back.len(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.front.iter().chain(self.back.iter().flatten()).flatten()
    }

    /// The dimensions of a tensor of this rank.
    fn of_rank(&self, rank: usize) -> TractResult<Vec<Option<&str>>> {
        ensure!(
            self.fits(rank),
            "layout {self} does not fit a tensor of rank {rank}: give a layout of {rank} dimensions"
        );
        let back = self.back.as_ref().map_or(&[][..], |back| back);
        let between = std::iter::repeat_n(&None, rank - self.front.len() - back.len());
        let all = self.front.iter().chain(between).chain(back);
        Ok(all.map(|name| name.as_deref()).collect())
    }

    /// For each axis of a tensor with the other layout, the axis of one with this layout. `None` if that is each axis itself, or
    /// if one of them says nothing.
    ///
    /// Dimensions without a name go to those that are left, in their order.
    pub(super) fn order_to(&self, to: &Layout, rank: usize) -> TractResult<Option<Vec<usize>>> {
        if self == to || self.is_empty() || to.is_empty() {
            return Ok(None);
        }
        let (from_names, to_names) = (self.of_rank(rank)?, to.of_rank(rank)?);
        let count = |names: &[Option<&str>]| names.iter().flatten().count();
        let order = if count(&from_names) > count(&to_names) {
            let back = matched(&to_names, &from_names, to, self)?;
            inverse(&back)
        } else {
            matched(&from_names, &to_names, self, to)?
        };
        Ok((!order.iter().copied().eq(0..rank)).then_some(order))
    }

    /// The layout of a tensor whose axes were put into this order. One that says nothing stays.
    pub(super) fn permuted(&self, order: &[usize]) -> TractResult<Layout> {
        check_order(order)?;
        if self.is_empty() {
            return Ok(self.clone());
        }
        ensure!(
            self.back.is_none(),
            "the axes are put into order {order:?}, but the number of dimensions of layout {self} is not known: give it without ..."
        );
        ensure!(
            order.len() == self.front.len(),
            "the axes are put into order {order:?}, but layout {self} has {} dimensions",
            self.front.len()
        );
        let front = order.iter().map(|axis| self.front[*axis].clone()).collect();
        Ok(Layout { front, back: None })
    }

    /// The axes that a tensor of this layout loses to have the dimensions of a layout of fewer, and the layout of what is left.
    /// `None` if that does not have fewer, or if the number of dimensions of either is not known.
    pub(super) fn squeezed_to(&self, to: &Layout) -> TractResult<Option<(Vec<usize>, Layout)>> {
        if self.back.is_some() || to.back.is_some() || self.front.len() <= to.front.len() {
            return Ok(None);
        }
        for layout in [self, to] {
            ensure!(
                layout.front.iter().all(Option::is_some),
                "layout {to} of the tensor has fewer dimensions than {self} of the model: all must have names, but {layout} has ?"
            );
        }
        if let Some(missing) = to.names().find(|name| !self.has(name)) {
            bail!("layout {to} of the tensor has {missing}, but {self} of the model does not")
        }
        let lost = |axis: &usize| !self.front[*axis].as_ref().is_some_and(|name| to.has(name));
        let lost: Vec<usize> = (0..self.front.len()).filter(lost).collect();
        let mut front = self.front.clone();
        front.retain(|name| name.as_ref().is_some_and(|name| to.has(name)));
        Ok(Some((lost, Layout { front, back: None })))
    }

    /// The layout of a tensor of this layout with axes in front: those that it lacks for a layout of more dimensions, and how many
    /// these are. `None` if that does not have more, or if the number of dimensions of either is not known.
    pub(super) fn unsqueezed_to(&self, to: &Layout) -> TractResult<Option<(usize, Layout)>> {
        if self.back.is_some() || to.back.is_some() || self.front.len() >= to.front.len() {
            return Ok(None);
        }
        let added: Vec<Option<String>> = to
            .front
            .iter()
            .filter(|name| !name.as_ref().is_some_and(|name| self.has(name)))
            .cloned()
            .collect();
        ensure!(
            added.len() + self.front.len() == to.front.len() && added.iter().all(Option::is_some),
            "layout {self} cannot become {to}, which has more dimensions: all must have names, and {to} must have those of {self}"
        );
        let count = added.len();
        let front = added.into_iter().chain(self.front.iter().cloned()).collect();
        Ok(Some((count, Layout { front, back: None })))
    }
}

/// For each axis of a tensor with the second names, the axis of one with the first names, which are fewer or as many.
fn matched(
    from_names: &[Option<&str>],
    to_names: &[Option<&str>],
    from: &Layout,
    to: &Layout,
) -> TractResult<Vec<usize>> {
    let mut order = vec![None; to_names.len()];
    for (axis, name) in from_names.iter().enumerate().filter(|(_, name)| name.is_some()) {
        let place = to_names.iter().position(|it| it == name).with_context(|| {
            format!("layout {from} has {}, but {to} does not", name.unwrap_or_default())
        })?;
        order[place] = Some(axis);
    }
    let mut left = (0..from_names.len()).filter(|axis| from_names[*axis].is_none());
    let order = order.into_iter().map(|axis| axis.or_else(|| left.next()));
    order.collect::<Option<_>>().with_context(|| format!("layout {from} cannot become {to}"))
}

/// The order that undoes an order of axes.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    for (place, axis) in order.iter().enumerate() {
        inverse[*axis] = place;
    }
    inverse
}

/// Checks that each dimension is there once.
pub(super) fn check_order(order: &[usize]) -> TractResult<()> {
    let mut found = vec![false; order.len()];
    for dim in order {
        let is_new = found.get_mut(*dim).is_some_and(|found| !std::mem::replace(found, true));
        ensure!(
            is_new,
            "the dimensions are {order:?}, but must be 0 to {}, once each",
            order.len() - 1
        );
    }
    Ok(())
}

/// A name of a dimension in the one spelling that is kept.
fn canonical(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    let short = match &*name {
        "B" | "BATCH" => "N",
        "CHANNEL" | "CHANNELS" => "C",
        "HEIGHT" => "H",
        "WIDTH" => "W",
        "DEPTH" => "D",
        _ => return name,
    };
    short.into()
}

impl FromStr for Layout {
    type Err = TractError;

    /// # Errors
    ///
    /// A name is empty, is there twice, or has other characters than letters, digits and `_`; there is more than one `...`; or the
    /// text is blank.
    fn from_str(text: &str) -> TractResult<Layout> {
        parse(text).with_context(|| format!("{text:?} is not a layout"))
    }
}

fn parse(text: &str) -> TractResult<Layout> {
    if text.is_empty() {
        return Ok(Layout::default());
    }
    let text = text.trim();
    if text == SCALAR {
        return Ok(Layout::scalar());
    }
    let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let dims: Vec<&str> = match in_brackets {
        Some(names) => names.split(',').map(str::trim).collect(),
        None => letters(text),
    };
    ensure!(
        dims.iter().any(|name| !name.is_empty()),
        "it has no dimensions: that of a scalar is {SCALAR}"
    );
    let mut layout = Layout { front: vec![], back: None };
    for name in dims {
        let name = match name {
            "..." => {
                ensure!(layout.back.is_none(), "it has ... twice");
                layout.back = Some(vec![]);
                continue;
            }
            "?" => None,
            name => {
                check_name(name)?;
                ensure!(!layout.has(name), "it has dimension {} twice", canonical(name));
                Some(canonical(name))
            }
        };
        layout.back.as_mut().unwrap_or(&mut layout.front).push(name);
    }
    Ok(layout)
}

/// The letters of a text, and `...`.
fn letters(text: &str) -> Vec<&str> {
    let mut letters = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("...") { 3 } else { first.len_utf8() };
        let (letter, after) = rest.split_at(len);
        letters.push(letter);
        rest = after;
    }
    letters
}

fn check_name(name: &str) -> TractResult<()> {
    ensure!(!name.is_empty(), "the name of a dimension is empty");
    ensure!(
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'),
        "dimension {name:?} must be letters, digits and _, or ?, or ..."
    );
    ensure!(
        name.chars().any(|letter| letter != '_'),
        "dimension {name:?} must have a letter or a digit"
    );
    Ok(())
}

impl fmt::Display for Layout {
    /// As OpenVINO writes it: names in brackets. It can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &Option<String>| name.clone().unwrap_or("?".into());
        let mut dims: Vec<String> = self.front.iter().map(name).collect();
        match &self.back {
            None if dims.is_empty() => return f.write_str(SCALAR),
            None => (),
            Some(back) => {
                dims.push("...".into());
                dims.extend(back.iter().map(name));
            }
        }
        write!(f, "[{}]", dims.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn texts() {
        for (text, expected) in [
            ("NCHW", "[N,C,H,W]"),
            ("nc?w", "[N,C,?,W]"),
            (" N...C ", "[N,...,C]"),
            ("...", "[...]"),
            ("", "[...]"),
            ("[...]", "[...]"),
            ("...HW", "[...,H,W]"),
            ("??...", "[?,?,...]"),
            ("[ n , Height_2, ?, ... , width ]", "[N,HEIGHT_2,?,...,W]"),
            ("[channel,depth]", "[C,D]"),
            ("BCHW", "[N,C,H,W]"),
            ("0312", "[0,3,1,2]"),
            ("**SCALAR**", "**SCALAR**"),
            (" **SCALAR** ", "**SCALAR**"),
        ] {
            assert_eq!(layout(text).to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn texts_that_are_no_layouts() {
        for (text, expected) in [
            (" ", "it has no dimensions"),
            ("[]", "it has no dimensions"),
            ("[ ]", "it has no dimensions"),
            ("NN", "dimension N twice"),
            ("[batch,n]", "dimension N twice"),
            ("N...c...", "... twice"),
            ("N..C", "dimension \".\" must be letters"),
            ("N.C", "dimension \".\" must be letters"),
            ("N C", "dimension \" \" must be letters"),
            ("NC]", "dimension \"]\" must be letters"),
            ("[N,,C]", "the name of a dimension is empty"),
            ("[N C]", "dimension \"N C\" must be letters"),
            ("[N...C]", "dimension \"N...C\" must be letters"),
            ("[_]", "must have a letter or a digit"),
            ("NÇ", "dimension \"Ç\" must be letters"),
        ] {
            let error = format!("{:#}", text.parse::<Layout>().unwrap_err());
            assert!(error.contains(expected) && error.contains(text), "{text:?}: {error}");
        }
    }

    #[test]
    fn axes() {
        let open = layout("N?...HW");
        for (name, rank, axis) in [
            ("batch", 5, Some(0)),
            ("height", 5, Some(3)),
            ("w", 4, Some(3)),
            ("C", 5, None),
            ("w", 0, None),
            ("?", 5, None),
        ] {
            assert_eq!(open.axis(name, rank), axis, "{name} of {rank}");
        }
        assert_eq!([3, 4, 5].map(|rank| open.fits(rank)), [false, true, true]);
        assert_eq!([3, 4, 5].map(|rank| layout("NCHW").fits(rank)), [false, true, false]);
        assert!(Layout::scalar().fits(0) && !Layout::scalar().fits(1));
        assert_eq!(layout("NCHW").axis("w", 3), None);
    }

    #[test]
    fn axes_that_are_added_and_removed() -> TractResult<()> {
        let (lost, left) = layout("NDCHW").squeezed_to(&layout("HWC"))?.unwrap();
        assert_eq!((lost, left), (vec![0, 1], layout("CHW")));
        assert_eq!(layout("HWC").unsqueezed_to(&layout("NDCHW"))?, Some((2, layout("NDHWC"))));
        assert_eq!(layout("HWC").unsqueezed_to(&layout("NC...W"))?, None);
        for (from, to) in [("HWC", "NCH?"), ("HWC", "NCHD"), ("H?C", "NCHW")] {
            layout(from).unsqueezed_to(&layout(to)).unwrap_err();
            layout(to).squeezed_to(&layout(from)).unwrap_err();
        }
        Ok(())
    }

    /// A layout of some of these names, once each, and `?`.
    fn any_layout() -> impl Strategy<Value = Layout> {
        let names = ["N", "C", "H", "W", "D", "TIME", "F_1"].map(|name| Some(name.to_string()));
        let names = proptest::sample::subsequence(names.to_vec(), 0..=7).prop_shuffle();
        (names, 0..4usize, proptest::option::of(0..8usize)).prop_map(
            |(mut front, unnamed, ellipsis)| {
                for number in 0..unnamed {
                    front.insert((number * 5) % (front.len() + 1), None);
                }
                let back = ellipsis.map(|at| front.split_off(at.min(front.len())));
                Layout { front, back }
            },
        )
    }

    proptest! {
        #[test]
        fn text_and_back(layout in any_layout()) {
            let text = layout.to_string();
            prop_assert_eq!(&text.parse::<Layout>().unwrap(), &layout);
            prop_assert_eq!(&text.to_ascii_lowercase().parse::<Layout>().ok(), &Some(layout)
                .filter(|it| *it != Layout::scalar()));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in r"[\[\]NCHWnchwé?.,_* 0-9]{0,12}") {
            if let Ok(layout) = text.parse::<Layout>() {
                prop_assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
            }
        }

        /// Each name is where the other layout has it, and the way back leads back.
        #[test]
        fn orders(from in any_layout(), to in any_layout(), rank in 0..8usize) {
            let (order, back) = (from.order_to(&to, rank), to.order_to(&from, rank));
            prop_assert_eq!(order.is_ok(), back.is_ok());
            if let (Ok(Some(order)), Ok(Some(back))) = (&order, &back) {
                prop_assert_eq!(&inverse(order), back);
                prop_assert_eq!(inverse(&inverse(order)), order.clone());
                for name in from.names().filter(|name| to.has(name)) {
                    let axes = [&from, &to].map(|it| it.axis(name, rank).unwrap());
                    prop_assert_eq!(order[axes[1]], axes[0]);
                }
            }
            if from.back.is_none()
                && rank == from.front.len()
                && let Ok(Some(order)) = order
            {
                let permuted = from.permuted(&order).unwrap();
                prop_assert_eq!(permuted.order_to(&to, rank).unwrap(), None);
            }
        }

        /// What loses axes gets them back in front.
        #[test]
        fn squeezed_and_back(from in any_layout(), to in any_layout()) {
            if let Ok(Some((lost, left))) = from.squeezed_to(&to) {
                prop_assert_eq!(lost.len() + left.front.len(), from.front.len());
                let (added, whole) = left.unsqueezed_to(&from).unwrap().unwrap();
                prop_assert_eq!(added, lost.len());
                prop_assert!(from.names().all(|name| whole.has(name)));
            }
        }
    }
}
