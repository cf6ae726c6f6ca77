//! Ids, and the positions of what has them.

use std::fmt;

use anyhow::{Result, bail};

/// The ids of ports or layers, each with its position, in ascending order: there may be very many.
#[derive(Debug, Default)]
pub(super) struct Ids(Vec<(u64, usize)>);

impl Ids {
    /// The ids of what is at the positions 0, 1, 2 and so on. `what` they are is for the error.
    pub fn new(ids: impl IntoIterator<Item = u64>, what: &str) -> Result<Ids> {
        let ids = ids.into_iter().enumerate();
        let mut ids: Vec<_> = ids.map(|(position, id)| (id, position)).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            bail!("two {what} have the id {}: ids must be unique", twice[0].0)
        }
        Ok(Ids(ids))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn position(&self, id: u64) -> Option<usize> {
        let found = self.0.binary_search_by_key(&id, |known| known.0).ok()?;
        self.0.get(found).map(|known| known.1)
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|known| known.0)).finish()
    }
}
