//! What someone would write by hand for the papers' frame with n UInt64, knowing nothing but its offsets.
//!
//! The yardstick beside the bare system call: no layouts, no checks beyond the constant bytes, no counters.

use std::ops::Range;

/// Bytes before the first Variant: headers, timestamp, versions, field count and the Boolean.
const HEAD_BYTES: usize = 32;
const TIMESTAMP: Range<usize> = 12..20;
/// Value of the Boolean.
const RUNNING: usize = 31;
/// A Variant byte and a UInt64.
const FIELD_BYTES: usize = 9;
/// Variant byte of UInt64 (OPC 10000-6 §5.1.2).
const UINT64: u8 = 9;

/// Bytes of the Ethernet header as it is sent, with its tag.
pub(super) const TAGGED_HEADER_BYTES: usize = 18;

/// Where the values are in the UADP message.
fn offsets(fields: u16) -> Vec<usize> {
    (0..usize::from(fields)).map(|field| HEAD_BYTES + field * FIELD_BYTES + 1).collect()
}

/// Patches a frame.
pub(super) struct Writer {
    frame: Vec<u8>,
    offsets: Vec<usize>,
}

impl Writer {
    /// Starts from a finished frame.
    pub(super) fn new(frame: &[u8], fields: u16) -> Self {
        let offsets = offsets(fields).iter().map(|offset| TAGGED_HEADER_BYTES + offset).collect();
        Self { frame: frame.to_vec(), offsets }
    }

    /// Puts a counter into all fields, and the time; returns the frame.
    #[inline]
    pub(super) fn build(&mut self, counter: u64, ticks: i64) -> &[u8] {
        let counter = counter.to_le_bytes();
        for &offset in &self.offsets {
            self.frame[offset..offset + 8].copy_from_slice(&counter);
        }
        self.stamp(ticks);
        &self.frame
    }

    /// Puts the running state, a value into each field, and the time; returns the frame.
    #[inline]
    pub(super) fn build_values(&mut self, running: bool, values: &[u64], ticks: i64) -> &[u8] {
        self.frame[TAGGED_HEADER_BYTES + RUNNING] = u8::from(running);
        for (&offset, value) in self.offsets.iter().zip(values) {
            self.frame[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.stamp(ticks);
        &self.frame
    }

    /// The frame as it was built last.
    #[inline]
    pub(super) fn frame(&self) -> &[u8] {
        &self.frame
    }

    #[inline]
    fn stamp(&mut self, ticks: i64) {
        let timestamp = TAGGED_HEADER_BYTES + TIMESTAMP.start..TAGGED_HEADER_BYTES + TIMESTAMP.end;
        self.frame[timestamp].copy_from_slice(&ticks.to_le_bytes());
    }
}

/// Compares the constant bytes of a message and copies its values out.
pub(super) struct Reader {
    head: Vec<u8>,
    offsets: Vec<usize>,
    running: bool,
    values: Vec<u64>,
}

impl Reader {
    /// Starts from a finished frame.
    pub(super) fn new(frame: &[u8], fields: u16) -> Self {
        let head = frame[TAGGED_HEADER_BYTES..TAGGED_HEADER_BYTES + HEAD_BYTES].to_vec();
        let offsets = offsets(fields);
        Self { head, running: false, values: vec![0; offsets.len()], offsets }
    }

    /// Reads the UADP bytes of a frame; `None` when they are of another kind.
    #[inline]
    pub(super) fn take_apart(&mut self, uadp: &[u8]) -> Option<&[u64]> {
        let head = uadp.get(..HEAD_BYTES)?;
        if uadp.len() != HEAD_BYTES + self.offsets.len() * FIELD_BYTES
            || head[..TIMESTAMP.start] != self.head[..TIMESTAMP.start]
            || head[TIMESTAMP.end..RUNNING] != self.head[TIMESTAMP.end..RUNNING]
        {
            return None;
        }
        self.running = head[RUNNING] != 0;
        for (value, &offset) in self.values.iter_mut().zip(&self.offsets) {
            let field = uadp.get(offset - 1..offset + 8)?;
            if field[0] != UINT64 {
                return None;
            }
            *value = u64::from_le_bytes(field[1..].try_into().ok()?);
        }
        Some(&self.values)
    }

    /// What was read last: the running state and the values.
    #[inline]
    pub(super) fn newest(&self) -> (bool, &[u64]) {
        (self.running, &self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams;
    use super::*;

    #[test]
    fn builds_and_reads_the_same_bytes_as_the_engine() {
        for fields in [1, 2, 160] {
            let mut source = streams::source(fields).unwrap();
            source.application(0);
            let ours = source.publish(7).unwrap().frame.to_vec();
            let mut writer = Writer::new(&ours, fields);
            let mut reader = Reader::new(&ours, fields);
            assert_eq!(writer.build(1, 7), ours);
            assert_eq!(writer.build_values(true, &vec![1; fields.into()], 7), ours);
            let frame = writer.build(0x0102_0304_0506_0708, 9).to_vec();
            let uadp = &frame[TAGGED_HEADER_BYTES..];
            assert_eq!(reader.take_apart(uadp), Some(vec![0x0102_0304_0506_0708; fields.into()].as_slice()));
            source.application(1);
            assert_eq!(writer.build(2, 11), source.publish(11).unwrap().frame);
            assert_eq!(reader.take_apart(&uadp[..uadp.len() - 1]), None);
            assert_eq!(reader.newest().1.len(), usize::from(fields));
            assert!(reader.newest().0);
            let mut other = uadp.to_vec();
            other[0] ^= 1;
            assert_eq!(reader.take_apart(&other), None);
        }
    }
}
