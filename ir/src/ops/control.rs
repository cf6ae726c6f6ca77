use crate::registry::Registry;

pub(super) fn register(_registry: &mut Registry) {}
