//! Inputs and outputs: their names, types and shapes.

use std::ffi::c_char;
use std::sync::Arc;

use tract_openvino_ir::document::ElementType;

use crate::border::{Handle, Out, OutHandle, Text, give_text};
use crate::element_type;
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::shape::{PartialShape, shape_to_c};
use crate::types::{ov_element_type_e, ov_partial_shape_t, ov_shape_t};

/// An input or an output of a model, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    /// The names of its tensor, if it has any, in alphabetical order.
    pub names: Vec<String>,
    /// More names that a compiled model knows it by.
    pub aliases: Vec<String>,
    pub element_type: Option<ElementType>,
    pub shape: PartialShape,
}

impl Port {
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|it| it == name)
    }
}

/// Which side of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Input => "input",
            Side::Output => "output",
        }
    }
}

/// What has ports: a model, or one that is compiled.
pub(crate) trait HasPorts: Send + Sync {
    fn ports(&self, side: Side) -> Vec<Port>;

    /// A number that a model has in common with what was compiled from it, and with nothing else that there is.
    fn origin(&self) -> usize;
}

/// A port that a program holds. Its model may be reshaped: then it has another shape.
pub(crate) struct PortHandle {
    pub owner: Arc<dyn HasPorts>,
    pub side: Side,
    pub index: usize,
}

impl Object for PortHandle {
    const NAME: &'static str = "a port";
}

impl PortHandle {
    /// # Errors
    ///
    /// The model has no such port any more.
    pub fn get(&self) -> Result<Port> {
        let ports = self.owner.ports(self.side);
        let gone = || Error::general("the model does not have this port any more");
        ports.into_iter().nth(self.index).ok_or_else(gone)
    }
}

/// Gives a program the port of a number.
///
/// # Errors
///
/// The number is too large: `beyond` says how that is answered.
pub(crate) fn by_index(
    owner: Arc<dyn HasPorts>,
    side: Side,
    index: usize,
    beyond: impl Fn(String) -> Error,
    out: OutHandle<PortHandle>,
) -> Result<()> {
    out.check()?;
    let index = checked(owner.ports(side).len(), side, index, beyond)?;
    out.write(PortHandle { owner, side, index })
}

/// # Errors
///
/// There are not so many ports: `beyond` says how that is answered.
pub(crate) fn checked(
    count: usize,
    side: Side,
    index: usize,
    beyond: impl Fn(String) -> Error,
) -> Result<usize> {
    if index < count {
        return Ok(index);
    }
    let name = side.name();
    Err(beyond(format!("there is no {name} {index}: the model has {count}")))
}

/// # Errors
///
/// The number of ports is not one.
pub(crate) fn only(count: usize, side: Side) -> Result<()> {
    if count != 1 {
        let name = side.name();
        return Err(Error::general(format_args!(
            "the model has {count} {name}s: say which, as only a model with one {name} needs nothing to tell it by"
        )));
    }
    Ok(())
}

/// # Errors
///
/// There is none of this name.
pub(crate) fn index_of(ports: &[Port], side: Side, name: &str) -> Result<usize> {
    ports
        .iter()
        .position(|port| port.has_name(name))
        .ok_or_else(|| no_port(ports, side.name(), name))
}

/// The error for a name that no port has.
pub(crate) fn no_port<'a>(
    ports: impl IntoIterator<Item = &'a Port>,
    what: &str,
    name: &str,
) -> Error {
    let names: Vec<String> =
        ports.into_iter().flat_map(|port| &port.names).map(|name| format!("{name:?}")).collect();
    Error::general(format_args!(
        "there is no {what} with a tensor of the name {name:?}: the names are {}",
        names.join(", ")
    ))
}

// What the functions of the interface do.

pub(crate) fn size<T: Object + HasPorts>(
    owner: Handle<T>,
    side: Side,
    out: Out<usize>,
) -> Result<()> {
    out.check()?;
    out.write(owner.get()?.ports(side).len())
}

pub(crate) fn only_port<T: Object + HasPorts>(
    owner: Handle<T>,
    side: Side,
    out: OutHandle<PortHandle>,
) -> Result<()> {
    let owner = owner.get()?;
    out.check()?;
    only(owner.ports(side).len(), side)?;
    out.write(PortHandle { owner, side, index: 0 })
}

pub(crate) fn port_by_name<T: Object + HasPorts>(
    owner: Handle<T>,
    side: Side,
    name: Text,
    out: OutHandle<PortHandle>,
) -> Result<()> {
    let (owner, name) = (owner.get()?, name.get("name of a tensor")?);
    out.check()?;
    let index = index_of(&owner.ports(side), side, name)?;
    out.write(PortHandle { owner, side, index })
}

pub(crate) fn get_shape(port: Handle<PortHandle>, out: Out<ov_shape_t>) -> Result<()> {
    out.check()?;
    let shape = port.get()?.get()?.shape;
    let open = || Error::general(format_args!("the shape {shape} has open dimensions"));
    out.write(shape_to_c(&shape.sizes().ok_or_else(open)?)?)
}

pub(crate) fn get_any_name(port: Handle<PortHandle>, out: Out<*mut c_char>) -> Result<()> {
    out.check()?;
    let port = port.get()?.get()?;
    let name = port.names.first().ok_or_else(|| Error::general("the port has no name"))?;
    out.write(give_text(name)?)
}

pub(crate) fn get_partial_shape(
    port: Handle<PortHandle>,
    out: Out<ov_partial_shape_t>,
) -> Result<()> {
    out.check()?;
    out.write(port.get()?.get()?.shape.to_c()?)
}

pub(crate) fn get_element_type(
    port: Handle<PortHandle>,
    out: Out<ov_element_type_e>,
) -> Result<()> {
    out.write(element_type::to_c(port.get()?.get()?.element_type))
}
