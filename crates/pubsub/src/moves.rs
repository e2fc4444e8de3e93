//! Values between frame and image: a layout worked out into few runs, each one tight loop.

use alloc::vec::Vec;
use core::ops::Range;

use wire::{BuiltInType, FieldEncoding};

use crate::image::{ImageLayout, ImageSize};
use crate::plan::DataSetPlan;
use crate::run::UInt64Run;

/// How to get all values of a message into or out of an image.
///
/// Every loop takes its slices apart chunk by chunk: what an iterator has to work out before its first step (lengths
/// of two sides, divisions) would take longer than a message of few fields. For the same reason the first Boolean and
/// the first run of eight-byte Variants, all that the papers' frames have, are not in a list, and where they are
/// missing have places that are in no frame or empty.
#[derive(Debug, Clone)]
pub(crate) struct Moves {
    image_bytes: usize,
    boolean: Boolean,
    /// Values of eight bytes with Variant bytes.
    eights: Run,
    /// There is something in the members below.
    more: bool,
    /// Fields that share a place in the image, and which.
    repeated: Option<(UInt64Run, usize)>,
    /// There is something in the lists.
    lists: bool,
    booleans: Vec<Boolean>,
    others: Vec<Run>,
}

/// Neighbouring fields of one size: in the frame at a fixed stride, in the image one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    /// Bytes of one value.
    size: usize,
    /// Bytes from value to value in the frame: the size, and one more for a Variant byte.
    stride: usize,
    frame: Range<usize>,
    image: Range<usize>,
}

/// A Boolean: 0 or 1, whatever the other side has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boolean {
    frame: usize,
    image: usize,
}

impl Moves {
    /// `image_of` tells which DataSet of the image has the values of a DataSetMessage, if any. All offsets in the frame
    /// are moved by `header` bytes.
    pub(crate) fn new(
        data_sets: &[DataSetPlan],
        image: &ImageLayout,
        header: usize,
        image_of: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let (mut repeated, mut booleans): (Option<(UInt64Run, usize)>, _) = (None, Vec::new());
        let mut runs: Vec<Run> = Vec::new();
        for (index, set) in data_sets.iter().enumerate() {
            let Some(image_set) = image_of(index) else { continue };
            let places = image.fields(image_set);
            for (number, (field, place)) in set.fields.iter().zip(places).enumerate() {
                let shares = |other: Option<usize>| other.is_some_and(|other| places.get(other) == Some(place));
                if shares(number.checked_sub(1)) {
                    if let Some((run, _)) = &mut repeated {
                        run.grow();
                    }
                } else if shares(number.checked_add(1)) {
                    let run = UInt64Run::new(field.offset, set.encoding, 1).moved(header);
                    repeated = Some((run, place.offset));
                } else if field.ty == BuiltInType::Boolean {
                    booleans.push(Boolean { frame: header + field.offset, image: place.offset });
                } else {
                    add(&mut runs, set.encoding, field.ty.bytes(), header + field.offset, place.offset);
                }
            }
        }
        let boolean = if booleans.is_empty() { Boolean::NONE } else { booleans.remove(0) };
        let eights = runs.iter().position(|run| (run.size, run.stride) == (8, 9)).map(|first| runs.remove(first));
        let eights = eights.unwrap_or(Run { size: 8, stride: 9, frame: 0..0, image: 0..0 });
        let lists = !booleans.is_empty() || !runs.is_empty();
        let more = repeated.is_some() || lists;
        Self { image_bytes: image.bytes(), boolean, eights, more, repeated, lists, booleans, others: runs }
    }

    /// The fields that share a place in the image.
    #[inline]
    pub(crate) fn repeated(&self) -> Option<&UInt64Run> {
        self.repeated.as_ref().map(|(run, _)| run)
    }

    #[cold]
    fn size(&self, image: &[u8]) -> ImageSize {
        ImageSize { expected: self.image_bytes, found: image.len() }
    }

    /// Image to frame.
    #[inline(always)]
    pub(crate) fn write(&self, image: &[u8], frame: &mut [u8]) -> Result<(), ImageSize> {
        self.check(image)?;
        self.boolean.write(image, frame);
        // The run ends where it ends in the frame; one end is enough to look at.
        let run = &self.eights;
        if run.frame.end != 0
            && let (Some(from), Some(to)) = (image.get(run.image.start..), frame.get_mut(run.frame.clone()))
        {
            scatter::<9, 8, 27, 24, 36, 32>(from, to);
        }
        if self.more {
            if let Some((run, offset)) = &self.repeated {
                run.fill(frame, ImageLayout::uint64(image, *offset).unwrap_or(0));
            }
            if self.lists {
                self.write_more(image, frame);
            }
        }
        Ok(())
    }

    fn write_more(&self, image: &[u8], frame: &mut [u8]) {
        for boolean in &self.booleans {
            boolean.write(image, frame);
        }
        for run in &self.others {
            let (from, to) = (image.get(run.image.clone()), frame.get_mut(run.frame.clone()));
            let (Some(from), Some(to)) = (from, to) else { continue };
            match (run.size, run.stride) {
                (size, stride) if size == stride => to.copy_from_slice(from),
                (1, _) => scatter::<2, 1, 6, 3, 8, 4>(from, to),
                (2, _) => scatter::<3, 2, 9, 6, 12, 8>(from, to),
                (4, _) => scatter::<5, 4, 15, 12, 20, 16>(from, to),
                (8, _) => scatter::<9, 8, 27, 24, 36, 32>(from, to),
                _ => scatter::<17, 16, 51, 48, 68, 64>(from, to),
            }
        }
    }

    /// Frame to image; leaves out what is beyond the end of `frame`. Repeated fields are taken from the first of them.
    #[inline(always)]
    pub(crate) fn read(&self, frame: &[u8], image: &mut [u8]) -> Result<(), ImageSize> {
        self.check(image)?;
        let run = &self.eights;
        if let (Some(from), Some(to)) = (frame.get(run.frame.clone()), image.get_mut(run.image.clone())) {
            gather::<9, 8, 27, 24, 36, 32>(from, to);
        }
        self.read_others(frame, image);
        Ok(())
    }

    /// The Variant byte of the run of eight-byte Variants in a `message`, 0 if there is no run; `None` if there are
    /// different ones.
    pub(crate) fn type_of_eights(&self, message: &[u8]) -> Option<u8> {
        let mut types = message.get(self.eights.frame.clone())?.as_chunks::<9>().0.iter().map(|[ty, ..]| *ty);
        let first = types.next().unwrap_or(0);
        types.all(|ty| ty == first).then_some(first)
    }

    /// Whether the run of eight-byte Variants is `region`.
    pub(crate) fn eights_in(&self, region: &Range<usize>) -> bool {
        self.eights.frame == *region
    }

    /// The run of eight-byte Variants; tells whether its Variant bytes are all `byte`. `false` when it does not fit.
    #[inline(always)]
    pub(crate) fn read_eights(&self, frame: &[u8], image: &mut [u8], byte: u8) -> bool {
        let run = &self.eights;
        if run.frame.end == 0 {
            return true;
        }
        let (from, to) = (frame.get(run.frame.clone()), image.get_mut(run.image.clone()));
        let (Some(mut from), Some(mut to)) = (from, to) else { return false };
        let mut difference = 0;
        while let (Some((values, more)), Some(_)) = (from.split_first_chunk::<36>(), to.first_chunk::<32>()) {
            let Some((places, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<32>() else { return false };
            for (place, [ty, value @ ..]) in places.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<9>().0) {
                difference |= ty ^ byte;
                *place = *value;
            }
            (from, to) = (more, rest);
        }
        if let (Some(values), Some(places)) = (from.first_chunk::<27>(), to.first_chunk_mut::<24>()) {
            for (place, [ty, value @ ..]) in places.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<9>().0) {
                difference |= ty ^ byte;
                *place = *value;
            }
            return difference == 0;
        }
        for _ in 0..2 {
            let Some(([ty, value @ ..], more)) = from.split_first_chunk::<9>() else { break };
            let Some((place, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<8>() else { break };
            difference |= ty ^ byte;
            *place = *value;
            (from, to) = (more, rest);
        }
        difference == 0
    }

    /// Whether `image` is long enough.
    #[inline]
    pub(crate) fn check(&self, image: &[u8]) -> Result<(), ImageSize> {
        if image.len() < self.image_bytes { Err(self.size(image)) } else { Ok(()) }
    }

    /// All but the run of eight-byte Variants.
    #[inline]
    pub(crate) fn read_others(&self, frame: &[u8], image: &mut [u8]) {
        self.boolean.read(frame, image);
        if self.more {
            if let Some((run, offset)) = &self.repeated
                && let Some(value) = run.first(frame)
                && let Some(place) = image.get_mut(*offset..).and_then(<[u8]>::first_chunk_mut)
            {
                *place = value;
            }
            if self.lists {
                self.read_more(frame, image);
            }
        }
    }

    fn read_more(&self, frame: &[u8], image: &mut [u8]) {
        for boolean in &self.booleans {
            boolean.read(frame, image);
        }
        for run in &self.others {
            let (from, to) = (frame.get(run.frame.clone()), image.get_mut(run.image.clone()));
            let (Some(from), Some(to)) = (from, to) else { continue };
            match (run.size, run.stride) {
                (size, stride) if size == stride => to.copy_from_slice(from),
                (1, _) => gather::<2, 1, 6, 3, 8, 4>(from, to),
                (2, _) => gather::<3, 2, 9, 6, 12, 8>(from, to),
                (4, _) => gather::<5, 4, 15, 12, 20, 16>(from, to),
                (8, _) => gather::<9, 8, 27, 24, 36, 32>(from, to),
                _ => gather::<17, 16, 51, 48, 68, 64>(from, to),
            }
        }
    }
}

impl Boolean {
    /// In no frame and no image.
    const NONE: Self = Self { frame: usize::MAX, image: usize::MAX };

    #[inline]
    fn write(&self, image: &[u8], frame: &mut [u8]) {
        if let (Some(from), Some(to)) = (image.get(self.image), frame.get_mut(self.frame)) {
            *to = u8::from(*from != 0);
        }
    }

    #[inline]
    fn read(&self, frame: &[u8], image: &mut [u8]) {
        if let (Some(from), Some(to)) = (frame.get(self.frame), image.get_mut(self.image)) {
            *to = u8::from(*from != 0);
        }
    }
}

/// One more value, to the last run if it goes on there.
fn add(runs: &mut Vec<Run>, encoding: FieldEncoding, bytes: usize, value: usize, image: usize) {
    let type_bytes = match encoding {
        FieldEncoding::Variant => wire::VARIANT_TYPE_BYTES,
        FieldEncoding::RawData => 0,
    };
    // RawData has no stride: values of any size are one run if they lie alike on both sides.
    let (size, stride) = if type_bytes == 0 { (1, 1) } else { (bytes, bytes + type_bytes) };
    let (frame, image) = (value - type_bytes..value + bytes, image..image + bytes);
    match runs.last_mut() {
        Some(run)
            if (run.size, run.stride) == (size, stride)
                && run.frame.end == frame.start
                && run.image.end == image.start =>
        {
            (run.frame.end, run.image.end) = (frame.end, image.end);
        }
        _ => runs.push(Run { size, stride, frame, image }),
    }
}

/// What is left after taking four at a time, at most; a constant, so that the loop needs no counting.
pub(crate) const REST: usize = 3;

/// Values one after the other to the last `SIZE` bytes of each stride; four at a time, then one at a time.
#[inline(always)]
fn scatter<
    const STRIDE: usize,
    const SIZE: usize,
    const STRIDE3: usize,
    const SIZE3: usize,
    const STRIDE4: usize,
    const SIZE4: usize,
>(
    mut from: &[u8],
    mut to: &mut [u8],
) {
    while let (Some((values, more)), Some(_)) = (from.split_first_chunk::<SIZE4>(), to.first_chunk::<STRIDE4>()) {
        let Some((places, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<STRIDE4>() else { return };
        for (place, value) in places.as_chunks_mut::<STRIDE>().0.iter_mut().zip(values.as_chunks::<SIZE>().0) {
            put::<STRIDE, SIZE>(place, value);
        }
        (from, to) = (more, rest);
    }
    // What is left: one look at its length, then constant offsets.
    if let (Some(values), Some(places)) = (from.first_chunk::<SIZE3>(), to.first_chunk_mut::<STRIDE3>()) {
        for (place, value) in places.as_chunks_mut::<STRIDE>().0.iter_mut().zip(values.as_chunks::<SIZE>().0) {
            put::<STRIDE, SIZE>(place, value);
        }
        return;
    }
    for _ in 0..2 {
        let Some((value, more)) = from.split_first_chunk::<SIZE>() else { return };
        let Some((place, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<STRIDE>() else { return };
        put(place, value);
        (from, to) = (more, rest);
    }
}

#[inline]
fn put<const STRIDE: usize, const SIZE: usize>(place: &mut [u8; STRIDE], value: &[u8; SIZE]) {
    if let Some(place) = place.last_chunk_mut() {
        *place = *value;
    }
}

#[inline(always)]
fn gather<
    const STRIDE: usize,
    const SIZE: usize,
    const STRIDE3: usize,
    const SIZE3: usize,
    const STRIDE4: usize,
    const SIZE4: usize,
>(
    mut from: &[u8],
    mut to: &mut [u8],
) {
    while let (Some((values, more)), Some(_)) = (from.split_first_chunk::<STRIDE4>(), to.first_chunk::<SIZE4>()) {
        let Some((places, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<SIZE4>() else { return };
        for (place, value) in places.as_chunks_mut::<SIZE>().0.iter_mut().zip(values.as_chunks::<STRIDE>().0) {
            get::<STRIDE, SIZE>(place, value);
        }
        (from, to) = (more, rest);
    }
    if let (Some(values), Some(places)) = (from.first_chunk::<STRIDE3>(), to.first_chunk_mut::<SIZE3>()) {
        for (place, value) in places.as_chunks_mut::<SIZE>().0.iter_mut().zip(values.as_chunks::<STRIDE>().0) {
            get::<STRIDE, SIZE>(place, value);
        }
        return;
    }
    for _ in 0..2 {
        let Some((value, more)) = from.split_first_chunk::<STRIDE>() else { return };
        let Some((place, rest)) = core::mem::take(&mut to).split_first_chunk_mut::<SIZE>() else { return };
        get(place, value);
        (from, to) = (more, rest);
    }
}

#[inline]
fn get<const STRIDE: usize, const SIZE: usize>(place: &mut [u8; SIZE], value: &[u8; STRIDE]) {
    if let Some(value) = value.last_chunk() {
        *place = *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::NetworkMessageLayout;
    use crate::plan::Plan;

    fn moves(layout: &NetworkMessageLayout) -> Moves {
        let plan = Plan::new(layout).unwrap();
        Moves::new(&plan.data_sets, &ImageLayout::of(layout), 0, Some)
    }

    /// Sizes, strides and bytes in the image.
    fn runs<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<(usize, usize, usize)> {
        runs.into_iter().map(|run| (run.size, run.stride, run.image.len())).collect()
    }

    #[test]
    fn neighbours_of_one_size_are_one_run() {
        use BuiltInType::{Boolean, Byte, DateTime, Double, Float, SByte, StatusCode, UInt16, UInt64};
        let papers = moves(&NetworkMessageLayout::papers(1, 1, 161));
        assert_eq!(papers.boolean, super::Boolean { frame: 31, image: 0 });
        assert_eq!((runs([&papers.eights]), papers.more), ([(8, 9, 8 * 161)].to_vec(), false));
        assert_eq!(runs(&moves(&NetworkMessageLayout::periodic_fixed(1, 1, 8)).others), [(1, 1, 64)]);
        let mut layout = NetworkMessageLayout::papers(1, 1, 1);
        layout.data_sets[0].fields =
            [Double, UInt64, DateTime, Float, StatusCode, Boolean, Boolean, Byte, SByte, UInt16].to_vec();
        let variants = moves(&layout);
        assert_eq!(runs([&variants.eights]), [(8, 9, 24)]);
        assert_eq!(runs(&variants.others), [(4, 5, 8), (1, 2, 2), (2, 3, 2)]);
        assert_eq!((variants.boolean.frame, variants.booleans.len()), (30 + 27 + 10 + 1, 1));
        layout.data_sets[0].encoding = FieldEncoding::RawData;
        assert_eq!(runs(&moves(&layout).others), [(1, 1, 32), (1, 1, 4)]);
    }
}
