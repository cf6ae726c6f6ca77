//! Arguments of methods and filters, by position or by name.

use minijinja::Value;
use minijinja::value::Kwargs;

use super::values::{Number, Result, refused};

/// The arguments in the order of their names: those that are not given are `None`.
pub(super) struct Arguments<const N: usize>(pub [Option<Value>; N]);

impl<const N: usize> Arguments<N> {
    pub(super) fn of(function: &str, names: [&str; N], arguments: &[Value]) -> Result<Self> {
        let (positional, named) = match arguments.split_last() {
            Some((last, rest)) if last.is_kwargs() => (rest, Some(Kwargs::try_from(last.clone())?)),
            _ => (arguments, None),
        };
        if positional.len() > N {
            let count = positional.len();
            return Err(refused(format!("{function} takes {N} arguments, but there are {count}")));
        }
        let mut result = [const { None }; N];
        for (argument, value) in result.iter_mut().zip(positional) {
            *argument = Some(value.clone());
        }
        if let Some(named) = named {
            for name in named.args() {
                let Some(index) = names.iter().position(|it| *it == name) else {
                    return Err(refused(format!("{function} takes no argument {name}")));
                };
                if result[index].is_some() {
                    return Err(refused(format!("{function} takes {name} once")));
                }
                result[index] = Some(named.peek(name)?);
            }
        }
        Ok(Arguments(result))
    }
}

/// An argument that must be there and be a text.
pub(super) fn required_text(function: &str, argument: &Option<Value>) -> Result<String> {
    match argument.as_ref().and_then(|it| it.as_str()) {
        Some(text) => Ok(text.to_string()),
        None => Err(refused(format!("{function} needs a text"))),
    }
}

/// An argument that is an integer, or `None` where it is missing or none.
pub(super) fn optional_integer(function: &str, argument: &Option<Value>) -> Result<Option<i64>> {
    match argument {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => match Number::of(value) {
            Some(Number::Int(number)) => {
                Ok(Some(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
            }
            _ => Err(refused(format!("{function} takes an integer, not {}", value.kind()))),
        },
    }
}

/// Whether an argument is there and true.
pub(super) fn is_set(argument: &Option<Value>) -> bool {
    argument.as_ref().is_some_and(Value::is_true)
}
