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
// StatusCodes (OPC 10000-4 §7.39).
/// Of inputs that no message came for: BadNoData.
const BAD_NO_DATA: u32 = 0x809B_0000;
/// Of outputs that nobody has written yet: BadWaitingForInitialData.
const BAD_WAITING: u32 = 0x8032_0000;
/// Of outputs whose application does nothing any more: UncertainLastUsableValue.
const UNCERTAIN_LAST_USABLE: u32 = 0x4090_0000;
/// Set in a StatusCode of severity Bad.
const SEVERITY_BAD: u32 = 0x8000_0000;

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
    /// How often the application had done something at the last glance, and when that was noticed; none before it did.
    stirred: u64,
    stirred_at: Option<Tai>,
    /// After so long without a sign of it outputs are no longer what it says of them.
    silent_after: Nanos,
    /// StatusCode that it wrote last; none before it wrote.
    said: Option<u32>,
}

impl Outputs {
    /// The StatusCode of the outputs at an instant.
    fn status(&self, at: Tai) -> u32 {
        let silent = self.stirred_at.is_none_or(|since| at - since > self.silent_after);
        match self.said {
            None => BAD_WAITING,
            Some(said) if silent && said & SEVERITY_BAD == 0 => UNCERTAIN_LAST_USABLE,
            Some(said) => said,
        }
    }
}

/// What the file of an end's image is called: `STREAM.writer` or `STREAM.reader`.
pub fn image_name(scenario: &Scenario, stream: usize, end: StreamEnd) -> String {
    let end = if end == StreamEnd::Writer { "writer" } else { "reader" };
    format!("{}.{end}", scenario.streams[stream].name)
}

impl Outside {
    /// Makes the image of an end and offers it at `path`. Everything is allocated here. Outputs of an application that
    /// neither reads nor writes for longer than `silent_after` are uncertain.
    ///
    /// # Errors
    /// No memory for it, or the path cannot be made; in words.
    pub fn offer(endpoint: &mut Endpoint, path: &Path, silent_after: Nanos) -> Result<Self, String> {
        let told = |error: std::io::Error| error.to_string();
        let values = endpoint.delivered(Tai(0)).values.len();
        let sent = endpoint.outputs().len();
        let spec = spec(values, sent).map_err(told)?;
        let name = path.file_name().map_or_else(Default::default, |name| name.to_string_lossy().into_owned());
        let image = Image::create(&name, &spec).map_err(told)?;
        let inputs = image.input_writer().map_err(told)?;
        let outputs = (sent > 0).then(|| image.output_reader()).transpose().map_err(told)?;
        let link = image.link_at(path).map_err(told)?;
        let outputs = Outputs { written: outputs, stirred: 0, stirred_at: None, silent_after, said: None };
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
        inputs.set_status(if given.status == Status::Good { u32::from(given.said) << 16 } else { BAD_NO_DATA });
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
        let outputs = self.outputs.as_mut()?;
        let beats = self.image.application_heartbeat();
        let stirred = std::mem::replace(&mut outputs.stirred, beats) != beats;
        if stirred {
            outputs.stirred_at = Some(at);
        }
        let (mut new, mut answered_after, mut status) = (stirred, None, 0);
        if let Some(written) = &mut outputs.written {
            let written = written.read().filter(|written| written.fresh);
            new = written.is_some();
            if let Some(written) = written {
                outputs.said = Some(written.status);
                let known = endpoint.replace(written.bytes, written.cycle);
                answered_after = u64::try_from(cycle.saturating_sub(written.cycle)).ok().filter(|_| known);
            }
            status = outputs.status(at);
            endpoint.set_status(status);
        }
        Some(EventKind::Outside { cycle, at, new, stirred, answered_after, status })
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
