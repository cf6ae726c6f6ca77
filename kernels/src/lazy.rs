//! Constants that are read when they are needed.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use tract_core::internal::*;

use crate::memory::Unwritten;
use crate::threads::{lock, without_noting};

/// A constant tensor that may not have been read yet. Clones share it.
///
/// Weights of a file are most of the time in which a model is loaded, and may never be needed. They are read once, by whoever needs them
/// first. Who only packs them reads them part by part, and keeps nothing.
///
/// ```
/// use tract_core::internal::*;
/// use tract_openvino_kernels::LazyTensor;
///
/// let file = [1u8, 2, 3, 4];
/// let tensor = LazyTensor::of_parts(DatumType::U8, &[2], move |begin, part| {
///     part.copy_from_slice(&file[1 + begin..][..part.len()]);
///     Ok(())
/// })?;
/// assert!(!tensor.is_read());
/// assert_eq!(**tensor.get()?, tensor1(&[2u8, 3]));
/// # TractResult::Ok(())
/// ```
#[derive(Clone)]
pub struct LazyTensor(Arc<LazyParts>);

struct LazyParts {
    datum_type: DatumType,
    shape: TVec<usize>,
    /// Until it is read. Tensors that got their memory while a model runs would lie between what its nodes need, and in fewer large
    /// pages.
    room: Mutex<Option<Unwritten>>,
    read: Box<ReadParts>,
    tensor: OnceLock<Arc<Tensor>>,
}

type ReadParts = dyn Fn(usize, &mut [u8]) -> TractResult<()> + Send + Sync;

impl LazyTensor {
    /// A tensor that is read, as [`tensor_of_parts`](crate::tensor_of_parts) does it, when it is needed. Its memory is reserved now,
    /// and the system gives it when it is read. `read` must not need the tensor itself, and may be called for a part again.
    ///
    /// # Errors
    ///
    /// The errors of [`tensor_of_parts`](crate::tensor_of_parts), but for those of `read`.
    pub fn of_parts(
        datum_type: DatumType,
        shape: &[usize],
        read: impl Fn(usize, &mut [u8]) -> TractResult<()> + Send + Sync + 'static,
    ) -> TractResult<LazyTensor> {
        Ok(LazyTensor(Arc::new(LazyParts {
            datum_type,
            shape: shape.into(),
            room: Mutex::new(Some(Unwritten::new(datum_type, shape)?)),
            read: Box::new(read),
            tensor: OnceLock::new(),
        })))
    }

    /// The type of its elements.
    pub fn datum_type(&self) -> DatumType {
        self.0.datum_type
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Whether the tensor is in memory.
    pub fn is_read(&self) -> bool {
        self.0.tensor.get().is_some()
    }

    /// The tensor, which is read now if it was not before. Threads that need it meanwhile wait, or help.
    ///
    /// # Errors
    ///
    /// The errors of `read`. Whoever needs the tensor next tries again; it is an error, too, if there is no memory for it then.
    pub fn get(&self) -> TractResult<&Arc<Tensor>> {
        let LazyParts { datum_type, shape, room, read, tensor } = &*self.0;
        if let Some(tensor) = tensor.get() {
            return Ok(tensor);
        }
        // Who reads waits for nobody but threads that read parts of it, so others can wait for him, whatever they are within.
        let mut room = lock(room);
        if let Some(tensor) = tensor.get() {
            return Ok(tensor);
        }
        let place = room.take().map_or_else(|| Unwritten::new(*datum_type, shape), Ok)?;
        // It says nothing of how much work the runs to come have.
        let found = without_noting(|| place.of_parts(read))?.into_arc_tensor();
        Ok(tensor.get_or_init(|| found))
    }

    /// Some of its bytes, where it is in memory. Otherwise only these are read, into `place`, and it stays as it was.
    pub(crate) fn bytes<'a>(
        &'a self,
        bytes: Range<usize>,
        place: &'a mut Vec<u8>,
    ) -> TractResult<&'a [u8]> {
        if let Some(tensor) = self.0.tensor.get() {
            return Ok(&tensor.try_as_plain_ram()?.as_bytes()[bytes]);
        }
        place.clear();
        place.resize(bytes.len(), 0);
        (self.0.read)(bytes.start, place)?;
        Ok(place)
    }
}

/// A tensor that is in memory.
impl From<Arc<Tensor>> for LazyTensor {
    fn from(tensor: Arc<Tensor>) -> LazyTensor {
        LazyTensor(Arc::new(LazyParts {
            datum_type: tensor.datum_type(),
            shape: tensor.shape().into(),
            room: Mutex::new(None),
            read: Box::new(|_, _| Ok(())),
            tensor: tensor.into(),
        }))
    }
}

/// A tensor that is in memory.
impl From<Tensor> for LazyTensor {
    fn from(tensor: Tensor) -> LazyTensor {
        tensor.into_arc_tensor().into()
    }
}

impl Debug for LazyTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.tensor.get() {
            Some(tensor) => Debug::fmt(tensor, f),
            None => write!(f, "{:?}, {:?}, not read yet", self.shape(), self.datum_type()),
        }
    }
}

/// Nothing is read to compare it: what is not in memory is equal to its clones alone. tract compares operators when nodes are added.
impl PartialEq for LazyTensor {
    fn eq(&self, other: &LazyTensor) -> bool {
        let [a, b] = [self, other].map(|it| it.0.tensor.get());
        Arc::ptr_eq(&self.0, &other.0) || (a.is_some() && a == b)
    }
}

impl Eq for LazyTensor {}

/// A constant that is read when the model first runs. Unlike tract's `Const`, its value is not known to who changes the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LazyConst(pub LazyTensor);

impl_op!(LazyConst, "LazyConst", info = |op| vec![format!("{:?}", op.0)]);

impl EvalOp for LazyConst {
    // tract would make a constant of it.
    not_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, _inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec!(self.0.get()?.clone().into_tvalue()))
    }
}

impl TypedOp for LazyConst {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(self.0.datum_type().fact(self.0.shape())))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Four bytes, how many of which were read is counted. They can be read once `allowed` is positive.
    fn counted(allowed: Arc<AtomicUsize>, count: Arc<AtomicUsize>) -> TractResult<LazyTensor> {
        LazyTensor::of_parts(DatumType::U8, &[2, 2], move |begin, part| {
            ensure!(allowed.load(Ordering::Relaxed) > 0, "the file is not there");
            count.fetch_add(part.len(), Ordering::Relaxed);
            for (place, byte) in part.iter_mut().enumerate() {
                *byte = (begin + place) as u8;
            }
            Ok(())
        })
    }

    #[test]
    fn a_tensor_is_read_once() -> TractResult<()> {
        let (allowed, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tensor = counted(allowed.clone(), count.clone())?;
        assert_eq!((tensor.datum_type(), tensor.shape()), (DatumType::U8, &[2, 2][..]));
        let error = tensor.get().unwrap_err();
        assert!(format!("{error:#}").contains("the file is not there"), "{error:#}");
        assert!(!tensor.is_read());
        // It can be read later.
        allowed.store(1, Ordering::Relaxed);
        let clone = tensor.clone();
        for tensor in [&tensor, &clone, &tensor] {
            assert_eq!(**tensor.get()?, tensor2(&[[0u8, 1], [2, 3]]));
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
        Ok(())
    }

    #[test]
    fn parts_are_read_each_time_until_it_is_in_memory() -> TractResult<()> {
        let (allowed, count) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
        let tensor = counted(allowed, count.clone())?;
        let mut place = vec![7; 9];
        for (range, expected, so_far) in [(1..3, &[1u8, 2][..], 2), (0..4, &[0, 1, 2, 3], 6)] {
            assert_eq!(tensor.bytes(range, &mut place)?, expected);
            assert_eq!(count.load(Ordering::Relaxed), so_far);
        }
        assert!(!tensor.is_read());
        tensor.get()?;
        assert_eq!(tensor.bytes(2..4, &mut place)?, [2, 3]);
        assert_eq!(count.load(Ordering::Relaxed), 10);
        Ok(())
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "there are no threads")]
    fn threads_read_it_once() -> TractResult<()> {
        let (allowed, count) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..100 {
            let tensor = counted(allowed.clone(), count.clone())?;
            count.store(0, Ordering::Relaxed);
            let places = std::thread::scope(|scope| {
                let threads = [(); 4]
                    .map(|()| scope.spawn(|| tensor.get().map(Arc::as_ptr).unwrap() as usize));
                threads.map(|thread| thread.join().unwrap())
            });
            assert!(places.iter().all(|place| *place == places[0]));
            assert_eq!(count.load(Ordering::Relaxed), 4);
        }
        Ok(())
    }

    #[test]
    fn bad_shapes_are_found_before_they_are_read() {
        for (dt, shape) in [
            (DatumType::String, &[1][..]),
            (DatumType::U8, &[usize::MAX, 2]),
            (DatumType::F64, &[usize::MAX / 4]),
        ] {
            assert!(LazyTensor::of_parts(dt, shape, |_, _| Ok(())).is_err(), "{dt:?} {shape:?}");
        }
    }

    #[test]
    fn to_compare_is_not_to_read() -> TractResult<()> {
        let one = Arc::new(AtomicUsize::new(1));
        let [a, b] = [counted(one.clone(), one.clone())?, counted(one.clone(), one.clone())?];
        assert!(a == a.clone() && a != b);
        assert!(!a.is_read() && !b.is_read());
        assert!(a.get()? == b.get()? && a == b);
        assert_ne!(LazyTensor::from(tensor1(&[1u8])), LazyTensor::from(tensor1(&[2u8])));
        Ok(())
    }

    #[test]
    fn a_constant_is_read_when_the_model_runs() -> TractResult<()> {
        let (allowed, count) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
        let tensor = counted(allowed, count.clone())?;
        let mut model = TypedModel::default();
        let constant = model.wire_node("constant", LazyConst(tensor.clone()), &[])?[0];
        let input = model.add_source("input", u8::fact([2, 2]))?;
        let sum = model.wire_node("sum", tract_core::ops::math::add(), &[constant, input])?;
        model.select_output_outlets(&sum)?;
        let model = model.into_decluttered()?.into_optimized()?.into_runnable()?;
        assert!(!tensor.is_read());
        for _ in 0..2 {
            let output = model.run(tvec!(tensor2(&[[1u8, 1], [2, 2]]).into()))?;
            assert_eq!(*output[0], tensor2(&[[1u8, 2], [4, 5]]));
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
        Ok(())
    }
}
