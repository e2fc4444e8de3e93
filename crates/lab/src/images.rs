//! Where applications outside find the process images of a run.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use measure::Side;
use nix::unistd::{UnlinkatFlags, unlinkat};
use rt::image::{Image, Presence};
use scenario::{ApplicationKind, Scenario, StreamEnd};
use serde_json::{Value, json};
use units::Nanos;

use crate::error::LabError;
use crate::socket::{control_folder, make_folder};
use crate::venue::Venue;

/// How often it is looked who is attached.
const GLANCE: Nanos = Nanos::from_millis(200);

/// A folder of images. Dropped, what is left in it of this run goes, and so does the folder if the run made it.
#[derive(Debug)]
pub struct ImageFolder {
    path: PathBuf,
    names: Vec<String>,
    /// Both are open, so that they are found again from other mounts: a run without root has a `/run` of its own.
    folder: File,
    /// What holds the folder, if it was made here.
    made_in: Option<File>,
}

impl ImageFolder {
    /// Opens, and if need be makes, the folder for the ends that `drives` names; `None` if none of them has an application
    /// outside. Call it before [`Rights::take`](crate::Rights::take), which may hide it.
    ///
    /// # Errors
    /// It cannot be made, or is not a folder of this user.
    pub fn open(
        scenario: &Scenario,
        drives: impl Fn(usize, Side) -> bool,
        path: PathBuf,
    ) -> Result<Option<Self>, LabError> {
        let names: Vec<String> =
            outside(scenario, drives).map(|(stream, end)| station::image_name(scenario, stream, end)).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let path = std::path::absolute(&path).unwrap_or(path);
        let what = || format!("opening {} for process images", path.display());
        if path.starts_with(control_folder()) {
            make_folder(&control_folder(), "process images")?;
        }
        if path.exists() && !path.is_dir() {
            return Err(LabError::Scenario {
                what: format!("{} is no folder", path.display()),
                mend: "name a folder for process images with --image".into(),
            });
        }
        let made = !path.exists();
        make_folder(&path, "process images")?;
        let folder = File::open(&path).map_err(LabError::io(what()))?;
        let above = path.parent().filter(|_| made).map(File::open).transpose().map_err(LabError::io(what()))?;
        Ok(Some(Self { names, folder, made_in: above, path }))
    }

    /// Where each image will be.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.names.iter().map(|name| self.path.join(name))
    }

    /// A path to the folder that holds in every mount namespace, as long as this process lives.
    pub(crate) fn everywhere(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.folder.as_raw_fd()).into()
    }
}

impl Drop for ImageFolder {
    fn drop(&mut self) {
        let ours = |name: &String| fs::read_link(self.everywhere().join(name)).is_ok_and(|to| to.starts_with("/proc"));
        for name in self.names.iter().filter(|name| ours(name)) {
            // A host that was killed could not remove its own. One that another run offers by now is alive.
            let dead = Image::attach(&self.everywhere().join(name))
                .map_or(true, |image| !matches!(image.engine(), Presence::Alive { .. }));
            if dead {
                _ = unlinkat(&self.folder, name.as_str(), UnlinkatFlags::NoRemoveDir);
            }
        }
        if let (Some(above), Some(name)) = (&self.made_in, self.path.file_name()) {
            // Only an empty one goes.
            _ = unlinkat(above, Path::new(name), UnlinkatFlags::RemoveDir);
        }
    }
}

/// The ends with an application outside, of those that `drives` names.
fn outside(scenario: &Scenario, drives: impl Fn(usize, Side) -> bool) -> impl Iterator<Item = (usize, StreamEnd)> {
    let ends = [(Side::Writer, StreamEnd::Writer), (Side::Reader, StreamEnd::Reader)];
    let all = scenario.streams.iter().enumerate().flat_map(move |(index, stream)| {
        ends.into_iter().map(move |(side, end)| (index, side, end, stream.application(end)))
    });
    all.filter(move |(index, side, _, kind)| *kind == ApplicationKind::Image && drives(*index, *side))
        .map(|(index, _, end, _)| (index, end))
}

/// The images of a run that goes on.
pub(crate) struct Offered {
    images: Vec<(Value, Option<Image>)>,
    looked: Nanos,
}

impl Offered {
    /// Those that the hosts have made.
    pub(crate) fn find(scenario: &Scenario, folder: Option<&ImageFolder>, venue: &Venue) -> Self {
        let mut images = Vec::new();
        for (stream, end) in outside(scenario, |stream, side| venue.has(scenario, stream, side)) {
            let Some(folder) = folder else { continue };
            let name = station::image_name(scenario, stream, end);
            let image = Image::attach(&folder.everywhere().join(&name)).ok();
            let told = json!({
                "stream": scenario.streams[stream].name,
                "end": if end == StreamEnd::Writer { "writer" } else { "reader" },
                "path": folder.path.join(&name),
            });
            images.push((told, image));
        }
        Self { images, looked: Nanos::ZERO }
    }

    /// Whether it is time to look again.
    pub(crate) fn is_due(&mut self, elapsed: Nanos) -> bool {
        let due = !self.images.is_empty() && elapsed - self.looked >= GLANCE;
        if due {
            self.looked = elapsed;
        }
        due
    }

    /// Who is attached to each.
    pub(crate) fn look(&self) -> Vec<Value> {
        let look = |(told, image): &(Value, Option<Image>)| {
            let mut told = told.clone();
            let (who, pid) = match image.as_ref().map(Image::application) {
                Some(Presence::Alive { pid }) => ("attached", Some(pid)),
                Some(Presence::Gone { pid }) => ("gone", Some(pid)),
                Some(Presence::Absent) => ("none", None),
                None => ("not known", None),
            };
            told["application"] = who.into();
            told["pid"] = pid.into();
            told
        };
        self.images.iter().map(look).collect()
    }
}
