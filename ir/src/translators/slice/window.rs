//! Where slices begin and end.

use tract_core::internal::*;

use crate::operators::take::numpy_slice;
use crate::translators::common::FAR;
use crate::workarounds::expressions::is_size;

/// Where a slice begins, and how many elements it has, on an axis of this size.
///
/// Bounds that are numbers are clamped to the axis, so that a size which is a symbol may have any value. Only
/// an axis that a slice like `1:`, `:-1`, `:1` or `-1:` is taken of is supposed to have an element: the size is
/// simple then, and the slice fails without one when the model runs. So does a slice between sizes, like `:M`,
/// if it is not on the axis.
pub(super) fn window(
    dim: &TDim,
    start: Option<&TDim>,
    stop: Option<&TDim>,
    step: i64,
) -> (TDim, TDim) {
    let open = if step > 0 { [0, i64::MAX] } else { [i64::MAX, i64::MIN] };
    let [start, stop] = [start, stop].map(|bound| bound.map(|bound| bound.clone().simplify()));
    let start = start.unwrap_or_else(|| open[0].to_dim());
    let stop = stop.unwrap_or_else(|| open[1].to_dim());
    if let (Ok(dim), Some(start), Some(stop)) = (dim.to_usize(), start.as_i64(), stop.as_i64()) {
        let (first, len) = numpy_slice(dim, start, stop, step);
        return (first.to_dim(), len.to_dim());
    }
    // In either direction the elements are between a lower and an upper position.
    let (lower, upper) = if step > 0 {
        (Edge::new(dim, &start, 0), Edge::new(dim, &stop, 0))
    } else {
        (Edge::new(dim, &stop, 1), Edge::new(dim, &start, 1))
    };
    let distance = match (&lower, &upper) {
        (Edge::Front(lower), Edge::Front(upper)) | (Edge::Back(upper), Edge::Back(lower))
            if lower >= upper =>
        {
            return (0.to_dim(), 0.to_dim());
        }
        _ => (upper.position(dim) - lower.position(dim)).simplify(),
    };
    let distance = match (&lower, &upper) {
        (Edge::Front(1..), Edge::Back(1..)) | (Edge::Back(_), Edge::Front(_)) => {
            TDim::Max(vec![distance, 0.to_dim()]).simplify()
        }
        _ => distance,
    };
    if distance.as_i64().is_some_and(|distance| distance <= 0) {
        return (0.to_dim(), 0.to_dim());
    }
    // No axis is longer than such a step.
    let len = match step.unsigned_abs().min(FAR as u64) {
        1 => distance,
        step => distance.div_ceil(step).simplify(),
    };
    let first = if step > 0 { lower.position(dim) } else { upper.position(dim) - 1 };
    (first + lower.beyond() + upper.beyond(), len)
}

/// A position on an axis.
enum Edge {
    /// Counted from the front.
    Front(i64),
    /// Counted from the back.
    Back(i64),
    /// A size, which is not clamped.
    Size(TDim),
    /// A size that is counted from the back, and `offset` more.
    SizeBack { size: TDim, offset: i64 },
}

impl Edge {
    /// The position of a bound, and `offset` more, which is 0 or 1.
    fn new(dim: &TDim, bound: &TDim, offset: i64) -> Edge {
        match bound.as_i64() {
            Some(FAR..) => Edge::Back(0),
            Some(number) if number <= -FAR => Edge::Front(0),
            Some(number @ 0..) => Edge::Front(number + offset),
            Some(number) => Edge::Back(-number - offset),
            None if bound == dim && offset == 0 => Edge::Back(0),
            None => {
                let size = (bound.clone() * -1).simplify();
                match is_size(&size) {
                    true => Edge::SizeBack { size, offset },
                    false => Edge::Size((bound.clone() + offset).simplify()),
                }
            }
        }
    }

    fn position(&self, dim: &TDim) -> TDim {
        // The same term from both ends, so that sizes of parts add up to that of the whole.
        let clamped = |number: i64| match number {
            0 | 1 => number.to_dim(),
            _ => TDim::Min(vec![number.to_dim(), dim.clone()]).simplify(),
        };
        match self {
            Edge::Front(number) => clamped(*number),
            Edge::Back(number) => (dim.clone() - clamped(*number)).simplify(),
            Edge::Size(size) => size.clone(),
            Edge::SizeBack { size, offset } => (dim.clone() - size + *offset).simplify(),
        }
    }

    /// What moves a slice beyond the end of its axis, so that it fails, where the size that is counted from the
    /// back is 0: then the bound is 0 and means the front.
    fn beyond(&self) -> TDim {
        match self {
            Edge::SizeBack { size, .. } if !size.prove_strict_positive() => {
                TDim::Max(vec![1.to_dim() - size, 0.to_dim()]).simplify() * FAR
            }
            _ => 0.to_dim(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> (SymbolScope, TDim, TDim) {
        let scope = SymbolScope::default();
        for assertion in ["N>=0", "M>=0"] {
            scope.add_assertion(assertion).unwrap();
        }
        let (n, m) = (scope.sym("N").to_dim(), scope.sym("M").to_dim());
        (scope, n, m)
    }

    #[test]
    fn slices_of_any_size() {
        let (scope, n, _) = sizes();
        let bounds = [
            None,
            Some(0),
            Some(1),
            Some(2),
            Some(5),
            Some(-1),
            Some(-2),
            Some(-5),
            Some(i64::MAX),
            Some(i64::MIN),
        ];
        for (start, stop) in bounds.iter().flat_map(|start| bounds.map(|stop| (*start, stop))) {
            for step in [1, 2, -1, -3, i64::MIN] {
                let dims = [start, stop].map(|bound| bound.map(|bound: i64| bound.to_dim()));
                let (first, len) = window(&n, dims[0].as_ref(), dims[1].as_ref(), step);
                for size in 1..8 {
                    let open = if step > 0 { [0, i64::MAX] } else { [i64::MAX, i64::MIN] };
                    let expected = numpy_slice(
                        size as usize,
                        start.unwrap_or(open[0]),
                        stop.unwrap_or(open[1]),
                        step,
                    );
                    let symbols = SymbolValues::default().with(&scope.sym("N"), size);
                    let value = |dim: &TDim| dim.eval_to_i64(&symbols).unwrap();
                    let found = (value(&first), value(&len));
                    let message = format!("{start:?}:{stop:?}:{step} of {size}: {first}, {len}");
                    assert_eq!(found.1, expected.1 as i64, "{message}");
                    assert!(
                        found.1 == 0 || found.0 == expected.0 as i64,
                        "{message}: {found:?} {expected:?}"
                    );
                    assert!(step != 1 || (0..=size).contains(&found.0), "{message}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_of_common_slices() {
        let (_scope, n, m) = sizes();
        let len = |start: Option<TDim>, stop: Option<TDim>| {
            window(&n, start.as_ref(), stop.as_ref(), 1).1
        };
        let number = |number: i64| Some(number.to_dim());
        assert_eq!(len(number(0), number(i64::MAX)), n);
        assert_eq!(len(None, Some(m.clone())), m);
        assert_eq!(len(Some((m.clone() * -1).simplify()), None), m);
        assert_eq!(len(number(-1), None), 1.to_dim());
        assert_eq!(len(number(1), None), n.clone() - 1);
        assert_eq!((len(None, number(3)) + len(number(3), None)).simplify(), n);
    }

    #[test]
    fn no_elements_from_the_back() {
        let (scope, n, m) = sizes();
        let (first, _) = window(&n, Some(&(m * -1)), None, 1);
        let first = |m| {
            let symbols = SymbolValues::default().with(&scope.sym("N"), 7).with(&scope.sym("M"), m);
            first.eval_to_i64(&symbols).unwrap()
        };
        assert_eq!(first(2), 5);
        assert!(first(0) > 7);
    }
}
