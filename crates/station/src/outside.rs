//! An application outside: the process image between one end of a stream and a process of somebody's own.
//!
//! The application phase gives it what was read, the publish phase takes what it wrote last. Neither waits for it.

use std::path::Path;

use measure::EventKind;
use pubsub::{Endpoint, Status};
use rt::image::{Image, ImageSpec, Life, Link, Reader, Writer};
use scenario::{Scenario, StreamEnd};
use units::{Nanos, Tai};

use crate::engine::Delivers;

/// BuiltInTypes of the fields (OPC 10000-6 §5.1.2).
const BOOLEAN: u8 = 1;
const INT64: u8 = 8;
const UINT64: u8 = 9;
/// StatusCode of inputs that may not be used: BadNoData (OPC 10000-4 §7.39).
const BAD_NO_DATA: u32 = 0x809B_0000;

/// The engine's side of an image, or half of it for one thread.
#[derive(Debug)]
pub struct Outside {
    /// What the application is given through; none in the half that takes.
    inputs: Option<Writer>,
    /// What is looked at; none in the half that gives.
    outputs: Option<Outputs>,
    image: Image,
    /// Bytes of values among the inputs.
    values: usize,
    _link: Option<Link>,
}

/// What the application leaves.
#[derive(Debug)]
struct Outputs {
    /// None at an end that sends nothing.
    written: Option<Reader>,
    /// How often the application had done something at the last glance.
    stirred: u64,
}

/// What the file of an end's image is called: `STREAM.writer` or `STREAM.reader`.
pub fn image_name(scenario: &Scenario, stream: usize, end: StreamEnd) -> String {
    let end = if end == StreamEnd::Writer { "writer" } else { "reader" };
    format!("{}.{end}", scenario.streams[stream].name)
}

impl Outside {
    /// Makes the image of an end and offers it at `path`. Everything is allocated here.
    ///
    /// # Errors
    /// No memory for it, or the path cannot be made; in words.
    pub fn offer(endpoint: &mut Endpoint, path: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| error.to_string();
        let values = endpoint.delivered(Tai(0)).values.len();
        let sent = endpoint.outputs().len();
        let spec = spec(values, sent).map_err(told)?;
        let name = path.file_name().map_or_else(Default::default, |name| name.to_string_lossy().into_owned());
        let image = Image::create(&name, &spec).map_err(told)?;
        let inputs = image.input_writer().map_err(told)?;
        let outputs = (sent > 0).then(|| image.output_reader()).transpose().map_err(told)?;
        let link = image.link_at(path).map_err(told)?;
        let outputs = Outputs { written: outputs, stirred: 0 };
        Ok(Self { inputs: Some(inputs), outputs: Some(outputs), image, values, _link: Some(link) })
    }

    /// The half that gives, and the half that takes.
    pub(crate) fn halves(mut self) -> (Self, Self) {
        let (outputs, image) = (self.outputs.take(), self.image.clone());
        (self, Self { inputs: None, outputs, image, values: 0, _link: None })
    }

    /// Whether it is the half that takes, or all.
    pub(crate) fn takes(&self) -> bool {
        self.outputs.is_some()
    }

    /// Says that the cycles begin.
    pub(crate) fn begin(&self) {
        // Only who is not the engine is refused.
        _ = self.image.set_life(Life::Running);
    }

    /// Gives what the application phase of `cycle`, at `now`, has; `fresh` when a message came since the one before.
    #[inline]
    pub(crate) fn give(&mut self, cycle: i64, now: Tai, fresh: bool, endpoint: &impl Delivers) {
        let Some(inputs) = &mut self.inputs else { return };
        let given = endpoint.delivered(now);
        inputs.set_status(if given.status == Status::Good { 0 } else { BAD_NO_DATA });
        let values = self.values;
        inputs.write(cycle, now, |bytes| {
            let (variables, rest) = bytes.split_at_mut(values.min(bytes.len()));
            if variables.len() == given.values.len() {
                variables.copy_from_slice(given.values);
            }
            if let Some((counter, rest)) = rest.split_first_chunk_mut() {
                *counter = given.counter.to_le_bytes();
                if let Some((age, rest)) = rest.split_first_chunk_mut() {
                    *age = given.age.map_or(-1, |age: Nanos| age.0).to_le_bytes();
                    rest.iter_mut().take(1).for_each(|byte| *byte = u8::from(fresh));
                }
            }
        });
    }

    /// Takes what the application wrote last into what is published; nothing new leaves it as it was.
    #[inline]
    pub(crate) fn take(&mut self, cycle: i64, at: Tai, endpoint: &mut impl Delivers) -> Option<EventKind> {
        let Outputs { written, stirred } = self.outputs.as_mut()?;
        let beats = self.image.application_heartbeat();
        let stirred = std::mem::replace(stirred, beats) != beats;
        let (mut new, mut answered_after) = (stirred, None);
        if let Some(outputs) = written {
            let written = outputs.read().filter(|written| written.fresh);
            new = written.is_some();
            if let Some(written) = written {
                let known = endpoint.replace(written.bytes, written.cycle);
                answered_after = u64::try_from(cycle.saturating_sub(written.cycle)).ok().filter(|_| known);
            }
        }
        Some(EventKind::Outside { cycle, at, new, stirred, answered_after })
    }
}

/// Values first, in both directions, so that an application can copy one to the other.
fn spec(values: usize, sent: usize) -> std::io::Result<ImageSpec> {
    let name = |way: &str, index: usize| format!("{way}.variable{}", index + 2);
    let mut spec = ImageSpec::new();
    for index in 0..values / size_of::<u64>() {
        spec = spec.input(&name("read", index), UINT64, size_of::<u64>())?;
    }
    for index in 0..sent / size_of::<u64>() {
        spec = spec.output(&name("write", index), UINT64, size_of::<u64>())?;
    }
    spec.input("counter", UINT64, 8)?.input("age_ns", INT64, 8)?.input("fresh", BOOLEAN, 1)
}
