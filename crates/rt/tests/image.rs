//! Process images within one process: who may do what, who wakes whom, and files that lie.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use downbeat_rt::clock;
use downbeat_rt::image::{Direction, Field, Image, ImageSpec, Life, Presence, Waited};
use units::{Nanos, Tai};

fn spec() -> ImageSpec {
    ImageSpec::new().input("a", 9, 8).unwrap().input("b", 3, 1).unwrap().output("c", 10, 4).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

#[test]
fn an_attached_image_has_the_same_variables() {
    let spec = spec()
        .with_field(Field { name: "gap µ".into(), type_id: 1, direction: Direction::Input, offset: 100, bytes: 3 })
        .unwrap();
    let image = Image::create("variables", &spec).unwrap();
    let link = image.link_at(&path("variables")).unwrap();
    let theirs = Image::attach(link.path()).unwrap();
    assert_eq!(theirs.spec(), &spec);
    assert_eq!(theirs.engine(), Presence::Alive { pid: std::process::id() });
    assert_eq!((theirs.life(), theirs.application()), (Life::Starting, Presence::Absent));
    image.set_life(Life::Running).unwrap();
    assert_eq!(theirs.life(), Life::Running);
    let (mut writer, mut reader) = (image.input_writer().unwrap(), theirs.input_reader().unwrap());
    assert_eq!(reader.read(), None, "nothing was published yet");
    writer.write(7, Tai(70), |bytes| bytes[100..].copy_from_slice(b"xyz"));
    writer.set_status(0x8000_0000);
    writer.write(8, Tai(80), |bytes| assert_eq!(&bytes[100..], b"xyz", "as it was written last"));
    let set = reader.read().unwrap();
    assert_eq!((set.cycle, set.at, set.status, set.sequence, set.fresh), (8, Tai(80), 0x8000_0000, 2, true));
    assert_eq!((set.bytes.len(), &set.bytes[100..]), (103, &b"xyz"[..]));
    assert!(!reader.read().unwrap().fresh);
    // The next reader begins with what the last one had.
    drop(reader);
    let mut reader = theirs.input_reader().unwrap();
    assert_eq!(reader.read().map(|set| (set.cycle, set.fresh)), Some((8, false)));
    assert!(image.application_heartbeat() == 4 && image.engine_heartbeat() == 2);
    let shown = link.path().to_owned();
    drop((link, writer, image));
    assert_eq!(theirs.life(), Life::Stopped, "the engine has dropped all it had");
    assert!(!shown.exists());
}

#[test]
fn every_end_is_held_once_and_by_its_side() {
    let image = Image::create("ends", &spec()).unwrap();
    let theirs = Image::attach_fd(image.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let refused = |kind| move |error: std::io::Error| assert_eq!(error.kind(), kind, "{error}");
    let busy = refused(std::io::ErrorKind::ResourceBusy);
    let held = (image.input_writer().unwrap(), theirs.output_writer().unwrap());
    busy(image.input_writer().unwrap_err());
    busy(image.output_writer().unwrap_err());
    let foreign = refused(std::io::ErrorKind::PermissionDenied);
    foreign(theirs.input_writer().unwrap_err());
    foreign(theirs.output_reader().unwrap_err());
    foreign(theirs.set_life(Life::Running).unwrap_err());
    drop(held);
    _ = (image.input_writer().unwrap(), image.output_writer().unwrap());
}

#[test]
fn a_path_leads_to_one_engine_at_a_time() {
    let at = path("path");
    let image = Image::create("first", &spec()).unwrap();
    let link = image.link_at(&at).unwrap();
    let other = Image::create("second", &spec()).unwrap();
    let error = other.link_at(&at).unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(link);
    // What a dead engine leaves behind: a link that leads nowhere.
    std::os::unix::fs::symlink("/proc/4194305/fd/3", &at).unwrap();
    assert!(Image::attach(&at).unwrap_err().to_string().contains("does the engine run?"));
    drop(other.link_at(&at).unwrap());
    assert!(!at.exists());
    std::fs::write(&at, "a file of somebody's").unwrap();
    assert!(other.link_at(&at).unwrap_err().to_string().contains("another file is there"));
    assert!(Image::attach(&at).unwrap_err().to_string().contains("sealed"));
    std::fs::remove_file(&at).unwrap();
}

#[test]
fn a_reader_sleeps_until_something_happens() {
    let image = Image::create("sleep", &spec()).unwrap();
    let (mut writer, mut reader) = (image.input_writer().unwrap(), image.input_reader().unwrap());
    let long = Nanos::from_millis(100_000);
    let began = clock::now();
    assert_eq!(reader.wait(Nanos(1_000_000)), Waited::TimedOut);
    assert!(clock::now() - began >= Nanos(1_000_000));
    writer.write(1, Tai(1), |_| ());
    assert_eq!(reader.wait(long), Waited::Fresh, "what is there already needs no sleep");
    assert!(reader.read().unwrap().fresh);
    // Many times, because a wake-up is lost only in a gap of nanoseconds.
    let (done, all) = (AtomicBool::new(false), 5_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 1;
            while last < all {
                assert_eq!(reader.wait(long), Waited::Fresh);
                let set = reader.read().unwrap();
                assert!(set.fresh && set.cycle > last);
                last = set.cycle;
            }
            assert_eq!(reader.wait(long), Waited::Stopped);
            done.store(true, Ordering::Release);
        });
        for cycle in 2..=all {
            writer.write(cycle, Tai(cycle), |_| ());
            if cycle % 3 == 0 {
                std::thread::yield_now();
            }
        }
        image.set_life(Life::Stopped).unwrap();
    });
    assert!(done.load(Ordering::Acquire));
}

/// A sealed file with these bytes.
fn sealed(bytes: &[u8]) -> OwnedFd {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let fd = memfd_create("hostile", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let file = std::fs::File::from(fd);
    file.write_all_at(bytes, 0).unwrap();
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    file.into()
}

fn bytes_of(image: &Image) -> Vec<u8> {
    let file = std::fs::File::from(image.as_fd().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_file_that_lies_is_refused_and_never_crashes() {
    let good = bytes_of(&Image::create("good", &spec()).unwrap());
    assert!(Image::attach_fd(sealed(&good)).is_ok());
    for bytes in [&good[..0], &good[..64], &good[..good.len() - 64], &[good.clone(), vec![0; 64]].concat()] {
        assert!(Image::attach_fd(sealed(bytes)).is_err(), "{} bytes", bytes.len());
    }
    let says = |at: usize, value: &[u8], expected: &str| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let error = Image::attach_fd(sealed(&bytes)).unwrap_err().to_string();
        assert!(error.contains(expected), "{at:#x}: {error}");
    };
    says(0, b"dbimage2", "dbimage1");
    says(0x08, &[2], "version 2 found, 1 expected");
    says(0x10, &[0xFF; 8], "do not follow");
    says(0x20, &[0xFF; 4], "4294967295 fields");
    says(0x20, &[100], "more than the file holds");
    for direction in [0x100, 0x200] {
        for at in [0x00, 0x08, 0x10] {
            says(direction + at, &[0xFF; 8], "do not follow");
            says(direction + at, &[0; 8], "do not follow");
        }
    }
    let field = 0x300;
    says(field, b"\xFF\xFE", "field 0 at offset 768");
    says(field, b"b\0", "there is one of this name already");
    says(field + 0x71, &[2], "field 0 at offset 768");
    says(field + 0x74, &[0xFF; 4], "an end up to");
    says(field + 0x78, &[0; 4], "at least 1");
    // Any other byte, one at a time: refused or usable, whatever it says.
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let Ok(image) = Image::attach_fd(sealed(&bytes)) else { continue };
            if let (Ok(mut reader), Ok(mut writer)) = (image.input_reader(), image.output_writer()) {
                _ = reader.read().map(|set| set.bytes.len());
                writer.write(1, Tai(1), |bytes| bytes.fill(1));
            }
            _ = (image.life(), image.engine(), image.application());
        }
    }
}
