//! The names of the nodes of models, and their constants. tract compares a new one with all others, which takes longer
//! with each layer of a large file.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use tract_core::internal::*;
use tract_core::ops::konst::Const;

use super::derived::Derived;
use crate::shortened::shortened_name;

/// The names that are taken in a model, and its constants.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub model: Taken,
    /// How often each name was taken already when a node of any model was to have it.
    counts: HashMap<String, usize>,
    /// How often two constants were compared.
    #[cfg(test)]
    compared: usize,
}

/// The names of the nodes of a model, and how many of its nodes these are.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    names: HashSet<String>,
    nodes: usize,
    /// What is known of outlets of the model that are computed from sizes alone.
    pub derived: HashMap<OutletId, Derived>,
    /// The nodes of large constants, by what [`likeness`] gives.
    constants: HashMap<u64, Vec<usize>>,
}

/// A constant of fewer bytes is put into a model once more if it is there already.
const SMALL_CONSTANT: usize = 1 << 12;

/// How many constants that look alike a new one is compared with.
const MOST_ALIKE: usize = 4;

impl Names {
    /// Goes on with another model, and gives the names of the one before.
    pub fn go_on_with(&mut self, model: Taken) -> Taken {
        std::mem::replace(&mut self.model, model)
    }

    /// A name for a node that a model does not have yet. All layers may have one name: tract would count from 1 for
    /// each. A long name is shortened.
    pub fn unique<'a>(&mut self, model: &TypedModel, name: impl Into<Cow<'a, str>>) -> String {
        let name = shortened_name(name).into_owned();
        let taken = &mut self.model;
        let added = model.nodes().iter().skip(taken.nodes);
        taken.names.extend(added.map(|node| node.name.clone()));
        taken.nodes = model.nodes().len();
        if !taken.names.contains(&name) {
            return name;
        }
        let count = self.counts.entry(name.clone()).or_default();
        loop {
            *count += 1;
            let name = format!("{name}.{count}");
            if !taken.names.contains(&name) {
                return name;
            }
        }
    }

    /// Adds a constant to a model, unless that has a large one that is equal.
    pub fn constant<'a>(
        &mut self,
        model: &mut TypedModel,
        name: impl Into<Cow<'a, str>>,
        tensor: Arc<Tensor>,
    ) -> TractResult<OutletId> {
        let fact = TypedFact::try_from(tensor.clone())?;
        let bytes = tensor.len().saturating_mul(tensor.datum_type().size_of());
        let is_large = bytes >= SMALL_CONSTANT && tensor.is_plain_ram();
        let likeness = if is_large { Some(likeness(&tensor)?) } else { None };
        let alike = likeness.and_then(|it| self.model.constants.get(&it));
        for node in alike.into_iter().flatten().rev().take(MOST_ALIKE) {
            #[cfg(test)]
            {
                self.compared += 1;
            }
            let konst = model.outlet_fact((*node).into())?.konst.as_ref();
            if konst.is_some_and(|konst| Arc::ptr_eq(konst, &tensor) || **konst == *tensor) {
                return Ok((*node).into());
            }
        }
        let name = self.unique(model, name);
        let op = Const::new_with_opt_exotic_fact(tensor, fact.exotic_fact.clone())?;
        let node = model.add_node(name, op, tvec!(fact))?;
        if let Some(likeness) = likeness {
            self.model.constants.entry(likeness).or_default().push(node);
        }
        Ok(node.into())
    }
}

/// What equal tensors have in common: their type, their shape, and some of their bytes.
fn likeness(tensor: &Tensor) -> TractResult<u64> {
    const PARTS: usize = 16;
    const PART: usize = 32;
    let plain = tensor.try_as_plain_ram()?;
    let mut hasher = DefaultHasher::new();
    (tensor.datum_type(), tensor.shape()).hash(&mut hasher);
    // The bytes of texts and sizes are addresses.
    if tensor.datum_type().is_number() || tensor.datum_type() == DatumType::Bool {
        let bytes = plain.as_bytes();
        let last = bytes.len().saturating_sub(PART);
        for part in 0..PARTS {
            let start = last / (PARTS - 1) * part;
            bytes[start..].iter().take(PART).for_each(|byte| hasher.write_u8(*byte));
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_own() -> TractResult<()> {
        let mut names = Names::default();
        let mut model = TypedModel::default();
        for expected in ["a", "a.1", "a.2"] {
            let name = names.unique(&model, "a");
            assert_eq!(name, expected);
            model.add_source(name, f32::fact([1]))?;
        }
        // Added without a look at the names.
        model.add_source("b", f32::fact([1]))?;
        assert_eq!(names.unique(&model, "b"), "b.1");
        let outer = names.go_on_with(Taken::default());
        let body = TypedModel::default();
        assert_eq!(names.unique(&body, "a"), "a");
        names.go_on_with(outer);
        assert_eq!(names.unique(&model, "a"), "a.3");
        names.go_on_with(Taken::default());
        model = TypedModel::default();
        assert_eq!(names.unique(&model, "a"), "a");
        Ok(())
    }

    #[test]
    fn long_names_are_shortened_and_stay_different() -> TractResult<()> {
        let mut names = Names::default();
        let mut model = TypedModel::default();
        let long = |middle: char| ["a".repeat(1000), middle.into(), "z".repeat(1000)].concat();
        for middle in ['b', 'b', 'c'] {
            let name = names.unique(&model, long(middle));
            assert!(name.len() < 1000 && model.nodes().iter().all(|node| node.name != name));
            model.add_source(name, f32::fact([1]))?;
        }
        Ok(())
    }

    #[test]
    fn large_constants_are_there_once() -> TractResult<()> {
        let mut names = Names::default();
        let mut model = TypedModel::default();
        let zeros = |len| Arc::new(Tensor::zero::<f32>(&[len]).unwrap());
        let mut last = vec![0f32; 2000];
        last[1990] = 1.;
        let mut middle = last.clone();
        middle.swap(1000, 1990);
        let mut add = |tensor: Arc<Tensor>| names.constant(&mut model, "constant", tensor);
        let of_zeros = add(zeros(2000))?;
        assert_eq!(add(zeros(2000))?, of_zeros);
        for other in [tensor1(&last), tensor1(&middle), Tensor::zero::<i32>(&[2000])?] {
            assert_ne!(add(other.into_arc_tensor())?, of_zeros);
        }
        // Small ones are not compared.
        assert_ne!(add(zeros(2))?, add(zeros(2))?);
        let outer = names.go_on_with(Taken::default());
        let mut body = TypedModel::default();
        names.constant(&mut body, "constant", zeros(2000))?;
        assert_eq!(body.nodes().len(), 1);
        names.go_on_with(outer);
        assert_eq!(names.constant(&mut model, "constant", zeros(2000))?, of_zeros);
        Ok(())
    }

    /// A new one is not compared with all that are there.
    #[test]
    fn constants_that_look_alike() -> TractResult<()> {
        let compared = |count: usize| -> TractResult<usize> {
            let (mut names, mut model) = (Names::default(), TypedModel::default());
            for number in 0..count {
                let mut alike = vec![0f32; 2000];
                alike[1000] = number as f32 + 1.;
                let alike = tensor1(&alike).into_arc_tensor();
                let node = names.constant(&mut model, "constant", alike.clone())?;
                assert_eq!(names.constant(&mut model, "constant", alike)?, node);
            }
            assert_eq!(model.nodes().len(), count);
            Ok(names.compared)
        };
        let (few, many) = (compared(20)?, compared(80)?);
        assert!(few >= 20 && many <= 5 * few, "{few} comparisons, then {many}");
        Ok(())
    }
}
