//! Tensors: elements in memory that programs see.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_openvino_ir::document::ElementType;
use tract_openvino_ir::internal::{DatumType, IntoTValue, TValue, tract_ndarray};
use tract_openvino_ir::internal::{IntoTensor, Tensor as TractTensor, datum_type};

use crate::border::{
    CxxStrings, Handle, HostPointer, List, Memory, Out, OutHandle, RawShape, STRING_BYTES, Text,
};
use crate::element_type::{self, bytes, volume};
use crate::error::{Error, Result};
use crate::handles::Object;
use crate::shape::shape_to_c;
use crate::types::{ov_element_type_e, ov_shape_t};

/// A tensor that a program has, or a request, or both.
#[derive(Debug)]
pub(crate) struct Tensor(Mutex<Contents>);

impl Object for Tensor {
    const NAME: &'static str = "a tensor";
}

#[derive(Debug)]
struct Contents {
    element_type: ElementType,
    shape: Vec<usize>,
    data: Data,
    /// Whether a program knows where the elements are: then they stay there.
    is_known: bool,
}

#[derive(Debug)]
enum Data {
    /// It may be more than the elements need.
    Memory(Memory),
    Strings(Strings),
}

/// Texts, which are no numbers in memory.
#[derive(Debug, Default)]
struct Strings {
    texts: Vec<String>,
    /// As a program reads them, if one has asked where they are.
    view: Option<CxxStrings>,
}

impl From<Vec<String>> for Strings {
    fn from(texts: Vec<String>) -> Strings {
        Strings { texts, view: None }
    }
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn zeros(element_type: ElementType, shape: &[usize]) -> Result<Tensor> {
        let data = data(element_type, shape)?;
        Ok(Tensor::of(element_type, shape, data))
    }

    fn of(element_type: ElementType, shape: &[usize], data: Data) -> Tensor {
        let shape = shape.to_vec();
        Tensor(Mutex::new(Contents { element_type, shape, data, is_known: false }))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn element_type(&self) -> ElementType {
        self.contents().element_type
    }

    pub fn shape(&self) -> Vec<usize> {
        self.contents().shape.clone()
    }

    /// Gives the tensor another shape. Its elements stay in their memory if there is room for them, and are lost otherwise.
    ///
    /// # Errors
    ///
    /// There is no room in memory that belongs to a program, or no memory for more.
    pub fn set_shape(&self, shape: &[usize]) -> Result<()> {
        self.contents().set_shape(shape)
    }

    /// The bytes of a tensor without texts.
    ///
    /// # Errors
    ///
    /// It has texts.
    pub fn to_bytes(&self) -> Result<Arc<[u8]>> {
        let contents = self.contents();
        match &contents.data {
            Data::Memory(memory) => {
                Ok(memory.to_bytes(bytes(contents.element_type, &contents.shape)?))
            }
            Data::Strings(_) => Err(Error::general("a tensor has texts, but must have numbers")),
        }
    }

    /// The elements as an input of a model. `copied` is whether they must be, because something may keep them for longer than a run.
    ///
    /// # Errors
    ///
    /// tract has no such elements.
    pub fn to_tract(&self, expected: DatumType, copied: bool) -> Result<TValue> {
        let contents = self.contents();
        let Contents { element_type, shape, data, .. } = &*contents;
        let datum_type = tract_type(*element_type)?;
        let tensor = match data {
            Data::Strings(Strings { texts, .. }) => {
                tract_ndarray::ArrayD::from_shape_vec(&**shape, texts.clone())
                    .map_err(Error::general)?
                    .into_tensor()
            }
            Data::Memory(memory) => {
                let is_whole = |owner: &&Arc<TractTensor>| {
                    owner.shape() == shape && owner.datum_type() == datum_type
                };
                match memory.owner().filter(is_whole) {
                    Some(owner) if !copied && owner.datum_type() == expected => {
                        return Ok(owner.clone().into_tvalue());
                    }
                    _ => memory.to_tensor(datum_type, shape)?,
                }
            }
        };
        let tensor = match tensor.datum_type() == expected {
            true => tensor,
            false => tensor.cast_to_dt(expected)?.into_owned(),
        };
        Ok(tensor.into_tvalue())
    }

    /// Makes an output of a model the elements. They are copied only if a program knows where the elements are.
    ///
    /// # Errors
    ///
    /// There is no room for it in memory that belongs to a program.
    pub fn set_output(&self, output: TValue) -> Result<()> {
        let mut contents = self.contents();
        let datum_type = tract_type(contents.element_type)?;
        if output.datum_type() == DatumType::String {
            contents.shape = output.shape().to_vec();
            let texts = output.try_as_plain_ram()?.as_slice::<String>()?.to_vec();
            contents.data = Data::Strings(texts.into());
            return Ok(());
        }
        let is_free = |memory: &Memory| !memory.is_of_host();
        let is_movable = output.datum_type() == datum_type
            // A program may write any bits there.
            && datum_type != DatumType::Bool
            && !contents.is_known
            && matches!(&contents.data, Data::Memory(memory) if is_free(memory));
        if is_movable {
            contents.shape = output.shape().to_vec();
            // It has a copy of what is an input or a constant, too.
            contents.data = Data::Memory(Memory::of_tensor(output.into_tensor()));
            return Ok(());
        }
        let shape = output.shape().to_vec();
        let output = output.cast_to_dt(datum_type)?;
        contents.set_shape(&shape)?;
        if let Data::Memory(memory) = &contents.data {
            memory.write(output.as_bytes());
        }
        Ok(())
    }
}

impl Contents {
    fn set_shape(&mut self, shape: &[usize]) -> Result<()> {
        let needed = bytes(self.element_type, shape)?;
        match &mut self.data {
            Data::Memory(memory) if memory.bytes() < needed => {
                if memory.is_of_host() {
                    return Err(Error::general(format_args!(
                        "a tensor of shape {shape:?} has {needed} bytes, but the memory of the program that it is in only {}",
                        memory.bytes()
                    )));
                }
                self.data = data(self.element_type, shape)?;
                // What a program knew is no more.
                self.is_known = false;
            }
            Data::Memory(_) => (),
            Data::Strings(Strings { texts, view }) => {
                texts.resize(needed / STRING_BYTES, String::new());
                *view = None;
            }
        }
        // The owner has the shape, too, if nothing else needs it now: it is not copied when it is an input then.
        if let Data::Memory(memory) = &mut self.data {
            memory.reshape(shape);
        }
        self.shape = shape.to_vec();
        Ok(())
    }
}

/// The type of tract's elements.
///
/// # Errors
///
/// There is none.
fn tract_type(element_type: ElementType) -> Result<DatumType> {
    datum_type(element_type).ok_or_else(|| {
        Error::not_implemented(format_args!(
            "inputs and outputs of models cannot be of type {element_type}"
        ))
    })
}

/// Zeros.
fn data(element_type: ElementType, shape: &[usize]) -> Result<Data> {
    let size = bytes(element_type, shape)?;
    Ok(match datum_type(element_type) {
        Some(DatumType::String) => {
            let texts = vec![String::new(); size / STRING_BYTES];
            Data::Strings(texts.into())
        }
        // Programs write any bits there.
        Some(DatumType::Bool) | None => Data::Memory(zeros(DatumType::U8, &[size])?),
        Some(datum_type) => Data::Memory(zeros(datum_type, shape)?),
    })
}

fn zeros(datum_type: DatumType, shape: &[usize]) -> Result<Memory> {
    // What is too much for any memory is a panic there.
    let tensor =
        crate::border::guarded(|| Ok(TractTensor::zero_aligned_dt(datum_type, shape, 64)?));
    let too_much = |error| {
        Error::general(format_args!("there is no memory for {datum_type:?} in {shape:?}: {error}"))
    };
    Ok(Memory::of_tensor(tensor.map_err(too_much)?))
}

// What the functions of the interface do.

fn known(number: ov_element_type_e) -> Result<ElementType> {
    let unknown = || Error::general("the elements of a tensor must be of a known type");
    element_type::from_c(number)?.ok_or_else(unknown)
}

pub(crate) fn create(
    number: ov_element_type_e,
    shape: RawShape,
    out: OutHandle<Tensor>,
) -> Result<()> {
    out.check()?;
    out.write(Tensor::zeros(known(number)?, &shape.sizes()?)?)
}

pub(crate) fn create_from_host(
    number: ov_element_type_e,
    shape: RawShape,
    pointer: HostPointer,
    out: OutHandle<Tensor>,
) -> Result<()> {
    out.check()?;
    element_type::from_c(number)?;
    let (element_type, shape) = (known(number), shape.sizes()?);
    let size = element_type.as_ref().map_or(Ok(0), |it| bytes(*it, &shape))?;
    let memory = Memory::of_host(&pointer, size)?;
    if *element_type.as_ref().unwrap_or(&ElementType::U8) == ElementType::String {
        return Err(Error::not_implemented(
            "texts in memory are objects of C++: give them to ov_tensor_create_from_string_array",
        ));
    }
    out.write(Tensor::of(element_type?, &shape, Data::Memory(memory)))
}

pub(crate) fn create_from_strings(
    texts: List<Text>,
    shape: RawShape,
    out: OutHandle<Tensor>,
) -> Result<()> {
    out.check()?;
    let (given, shape) = (self::texts(&texts)?, shape.sizes()?);
    let count = bytes(ElementType::String, &shape)? / STRING_BYTES;
    if given.len() > count {
        return Err(Error::invalid(format_args!(
            "there are {} texts, but shape {shape:?} has room for {count}",
            given.len()
        )));
    }
    let mut texts = given;
    // Those that are missing are empty.
    texts.resize(count, String::new());
    out.write(Tensor::of(ElementType::String, &shape, Data::Strings(texts.into())))
}

fn texts(texts: &List<Text>) -> Result<Vec<String>> {
    texts.get("texts")?.iter().map(|text| Ok(text.get("text")?.to_string())).collect()
}

pub(crate) fn set_strings(tensor: Handle<Tensor>, texts: List<Text>) -> Result<()> {
    let (tensor, given) = (tensor.get()?, self::texts(&texts)?);
    match &mut tensor.contents().data {
        Data::Strings(strings) if strings.texts.len() == given.len() => *strings = given.into(),
        Data::Strings(Strings { texts, .. }) => {
            return Err(Error::invalid(format_args!(
                "there are {} texts, but the tensor has {}",
                given.len(),
                texts.len()
            )));
        }
        Data::Memory(_) => return Err(Error::invalid("the elements of the tensor are no texts")),
    }
    Ok(())
}

pub(crate) fn set_shape(tensor: Handle<Tensor>, shape: RawShape) -> Result<()> {
    tensor.get()?.set_shape(&shape.sizes()?)
}

pub(crate) fn get_shape(tensor: Handle<Tensor>, out: Out<ov_shape_t>) -> Result<()> {
    out.check()?;
    out.write(shape_to_c(&tensor.get()?.shape())?)
}

pub(crate) fn get_element_type(tensor: Handle<Tensor>, out: Out<ov_element_type_e>) -> Result<()> {
    out.write(element_type::to_c(Some(tensor.get()?.element_type())))
}

pub(crate) fn get_size(tensor: Handle<Tensor>, out: Out<usize>) -> Result<()> {
    out.write(volume(&tensor.get()?.shape()).unwrap_or(0))
}

pub(crate) fn get_byte_size(tensor: Handle<Tensor>, out: Out<usize>) -> Result<()> {
    let tensor = tensor.get()?;
    out.write(bytes(tensor.element_type(), &tensor.shape())?)
}

pub(crate) fn get_data(tensor: Handle<Tensor>, out: Out<*mut c_void>) -> Result<()> {
    let tensor = tensor.get()?;
    out.check()?;
    let mut contents = tensor.contents();
    let address = match &mut contents.data {
        Data::Memory(memory) => memory.address(),
        Data::Strings(Strings { texts, view }) => {
            let strings = match view.take() {
                Some(strings) => strings,
                None => CxxStrings::of(texts)?,
            };
            view.insert(strings).address()
        }
    };
    contents.is_known = true;
    out.write(address)
}
