//! `open62541/pubsub.h` of 1.5.10: messages without a server. The crate has no bindings for this header.
//!
//! [`Message::new`] builds a message and compares it byte by byte with what is expected, so that a structure that does
//! not fit is found before anything is measured.

use std::ffi::{c_uint, c_void};
use std::ptr;

use open62541_sys as ua;

/// DataSetWriterId of the papers' example.
pub(crate) const WRITER_ID: u16 = 62541;

/// Ethernet header with tag.
pub(crate) const HEADER_BYTES: usize = 18;

#[repr(C)]
struct DataSetMessageHeader {
    valid: bool,
    field_encoding: c_uint,
    sequence_enabled: bool,
    sequence: u16,
    status_enabled: bool,
    status: u16,
    major_enabled: bool,
    major: u32,
    minor_enabled: bool,
    minor: u32,
    kind: c_uint,
    timestamp_enabled: bool,
    timestamp: i64,
    picoseconds_included: bool,
    picoseconds: u16,
}

#[repr(C)]
struct DataSetMessage {
    header: DataSetMessageHeader,
    field_count: u16,
    fields: *mut ua::UA_DataValue,
}

#[repr(C)]
struct GroupHeader {
    writer_group_id_enabled: bool,
    writer_group_id: u16,
    version_enabled: bool,
    version: u32,
    number_enabled: bool,
    number: u16,
    sequence_enabled: bool,
    sequence: u16,
}

#[repr(C)]
struct SecurityHeader {
    signed: bool,
    encrypted: bool,
    footer_enabled: bool,
    footer_size: u16,
    force_key_reset: bool,
    token_id: u32,
    nonce_size: u16,
    nonce: [u8; 16],
}

#[repr(C)]
struct NetworkMessage {
    version: u8,
    publisher_id_enabled: bool,
    publisher_id: ua::UA_PublisherId,
    group_header_enabled: bool,
    group_header: GroupHeader,
    class_id_enabled: bool,
    class_id: ua::UA_Guid,
    security_enabled: bool,
    security: SecurityHeader,
    timestamp_enabled: bool,
    timestamp: i64,
    picoseconds_enabled: bool,
    picoseconds: u16,
    chunk: bool,
    promoted_enabled: bool,
    promoted_size: u16,
    promoted: *mut ua::UA_Variant,
    message_id_enabled: bool,
    message_id: ua::UA_String,
    payload_header_enabled: bool,
    message_count: u8,
    writer_ids: [u16; 32],
    kind: c_uint,
    messages: *mut DataSetMessage,
    security_footer: ua::UA_ByteString,
}

unsafe extern "C" {
    fn UA_NetworkMessage_encodeBinary(
        message: *const NetworkMessage,
        out: *mut ua::UA_ByteString,
        options: *const c_void,
    ) -> ua::UA_StatusCode;
    fn UA_NetworkMessage_decodeBinary(
        bytes: *const ua::UA_ByteString,
        message: *mut NetworkMessage,
        encoding: *const c_void,
        options: *const ua::UA_DecodeBinaryOptions,
    ) -> ua::UA_StatusCode;
    fn UA_NetworkMessage_clear(message: *mut NetworkMessage);
}

/// A message of the papers' layout with its values, and room to encode it into.
pub(crate) struct Message {
    /// What is written.
    values: Box<[u64]>,
    /// What was read last.
    read: Box<[u64]>,
    _running: Box<bool>,
    fields: Box<[ua::UA_DataValue]>,
    set: Box<DataSetMessage>,
    message: Box<NetworkMessage>,
    /// Room for an Ethernet header, and the message.
    bytes: Vec<u8>,
    message_bytes: usize,
    arena: Arena,
    /// PublisherId and WriterGroupId of what is read.
    reads: (u16, u16),
}

impl Message {
    /// A message of `fields` UInt64 and the Boolean; `writes` and `reads` are PublisherId and WriterGroupId.
    pub(crate) fn new(fields: usize, writes: (u16, u16), reads: (u16, u16)) -> Result<Self, String> {
        let mut values = vec![0_u64; fields].into_boxed_slice();
        let mut running = Box::new(true);
        let mut data = vec![scalar(ua::UA_TYPES_BOOLEAN, (&raw mut *running).cast())];
        data.extend(values.iter_mut().map(|value| scalar(ua::UA_TYPES_UINT64, (&raw mut *value).cast())));
        let mut data = data.into_boxed_slice();
        // SAFETY: all-zero bytes are valid for these structures: integers, booleans, pointers and unions of them.
        let (mut set, mut message): (Box<DataSetMessage>, Box<NetworkMessage>) =
            unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
        set.header.valid = true;
        (set.header.major_enabled, set.header.major) = (true, 1);
        (set.header.minor_enabled, set.header.minor) = (true, 1);
        set.header.timestamp_enabled = true;
        set.field_count = data.len() as u16;
        set.fields = data.as_mut_ptr();
        message.version = 1;
        message.publisher_id_enabled = true;
        message.publisher_id = publisher_id(writes.0);
        message.group_header_enabled = true;
        message.group_header.writer_group_id_enabled = true;
        message.group_header.writer_group_id = writes.1;
        message.payload_header_enabled = true;
        message.message_count = 1;
        message.writer_ids[0] = WRITER_ID;
        message.messages = &raw mut *set;
        let arena = Arena::new(1 << 16);
        let mut new = Self {
            read: values.clone(),
            values,
            _running: running,
            fields: data,
            set,
            message,
            bytes: vec![0; 2048],
            message_bytes: 0,
            arena,
            reads,
        };
        new.check(writes)?;
        Ok(new)
    }

    /// Whether the bytes are the papers' and come back as they went.
    fn check(&mut self, writes: (u16, u16)) -> Result<(), String> {
        let counter = 0x0102_0304_0506_0708;
        let written = expected(writes, self.values.len(), counter, 9);
        let read = expected(self.reads, self.values.len(), counter, 9);
        self.fill(counter);
        let found = self.encode(9)?.to_vec();
        if found != written {
            return Err(format!("open62541 encodes\n{found:02x?}, expected\n{written:02x?}"));
        }
        for arena in [true, false] {
            match self.decode(&read, arena)? {
                Some(found) if found == counter => {}
                found => return Err(format!("open62541 decodes {found:?}, expected {counter}")),
            }
        }
        Ok(())
    }

    /// A counter into all values.
    pub(crate) fn fill(&mut self, counter: u64) {
        self.values.fill(counter);
    }

    /// What was read last into all values.
    #[inline]
    pub(crate) fn echo(&mut self) {
        self.values.copy_from_slice(&self.read);
    }

    /// A counter into the first value, as the other contestants change one.
    #[inline]
    pub(crate) fn change(&mut self, counter: u64) {
        self.values[0] = counter;
    }

    /// Encodes into memory that is there already.
    #[inline]
    pub(crate) fn encode(&mut self, ticks: i64) -> Result<&[u8], String> {
        self.set.header.timestamp = ticks;
        debug_assert_eq!(self.set.fields.cast_const(), self.fields.as_ptr());
        let out = self.bytes.get_mut(HEADER_BYTES..).unwrap_or_default();
        let mut out = ua::UA_ByteString { length: out.len(), data: out.as_mut_ptr() };
        // SAFETY: the message points to parts of `self`, and `out` to its buffer; null options are allowed.
        let status = unsafe { UA_NetworkMessage_encodeBinary(&raw const *self.message, &raw mut out, ptr::null()) };
        good(status, "encoding")?;
        self.message_bytes = out.length;
        Ok(&self.frame()[HEADER_BYTES..])
    }

    /// The message that was encoded last, behind its Ethernet header.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.bytes[..HEADER_BYTES + self.message_bytes]
    }

    /// Puts an Ethernet header with tag before the message.
    pub(crate) fn set_header(&mut self, header: [u8; HEADER_BYTES]) {
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
    }

    /// Decodes, checks what a reader checks, and copies the values out; tells the last of them. Memory comes from an
    /// arena or from malloc.
    #[inline]
    pub(crate) fn decode(&mut self, uadp: &[u8], arena: bool) -> Result<Option<u64>, String> {
        let bytes = ua::UA_ByteString { length: uadp.len(), data: uadp.as_ptr().cast_mut() };
        self.arena.used = 0;
        // SAFETY: zeroed structures are valid (see `new`); `bytes` is only read; the arena outlives what is decoded,
        // and only what came from malloc is cleared.
        unsafe {
            let mut options: ua::UA_DecodeBinaryOptions = std::mem::zeroed();
            options.callocContext = (&raw mut self.arena).cast();
            options.calloc = Some(arena_calloc);
            let options = if arena { &raw const options } else { ptr::null() };
            let mut message: NetworkMessage = std::mem::zeroed();
            let status = UA_NetworkMessage_decodeBinary(&raw const bytes, &raw mut message, ptr::null(), options);
            good(status, "decoding")?;
            let last = self.copy_out(&message);
            if !arena {
                UA_NetworkMessage_clear(&raw mut message);
            }
            Ok(last)
        }
    }

    /// # Safety
    /// The message has just been decoded.
    unsafe fn copy_out(&mut self, message: &NetworkMessage) -> Option<u64> {
        // SAFETY: the union holds a UInt16 when the type says so; `messages` has `message_count` elements and each
        // `field_count` fields; a scalar of type UInt64 points to one.
        unsafe {
            let publisher = &message.publisher_id;
            if publisher.idType != ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT16
                || *publisher.id.uint16.as_ref() != self.reads.0
                || message.group_header.writer_group_id != self.reads.1
                || message.message_count != 1
                || message.writer_ids[0] != WRITER_ID
            {
                return None;
            }
            let set = message.messages.as_ref()?;
            if !set.header.valid || set.header.kind != 0 || usize::from(set.field_count) != self.values.len() + 1 {
                return None;
            }
            let fields = std::slice::from_raw_parts(set.fields, set.field_count.into());
            for (value, field) in self.read.iter_mut().zip(&fields[1..]) {
                if field.value.type_ != data_type(ua::UA_TYPES_UINT64) {
                    return None;
                }
                *value = *field.value.data.cast::<u64>();
            }
        }
        self.read.last().copied()
    }
}

/// Memory that is given back all at once.
struct Arena {
    memory: Box<[u64]>,
    /// Words given out.
    used: usize,
}

impl Arena {
    fn new(bytes: usize) -> Self {
        Self { memory: vec![0; bytes / 8].into_boxed_slice(), used: 0 }
    }
}

/// # Safety
/// The context is an [`Arena`] that nobody else uses.
unsafe extern "C" fn arena_calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: as the caller promises.
    let arena = unsafe { &mut *context.cast::<Arena>() };
    let words = (count * size).div_ceil(8);
    let Some(room) = arena.memory.get_mut(arena.used..arena.used + words) else { return ptr::null_mut() };
    room.fill(0);
    arena.used += words;
    room.as_mut_ptr().cast()
}

/// The papers' message (OPC 10000-14 §7.2.4), written down.
fn expected(ids: (u16, u16), fields: usize, counter: u64, ticks: i64) -> Vec<u8> {
    // Version and flags: PublisherId, GroupHeader, PayloadHeader, extended flags; a PublisherId of type UInt16.
    let mut bytes = vec![0xF1, 0x01];
    bytes.extend(ids.0.to_le_bytes());
    bytes.push(0x01);
    bytes.extend(ids.1.to_le_bytes());
    bytes.push(1);
    bytes.extend(WRITER_ID.to_le_bytes());
    // DataSetFlags: valid, versions, second byte; timestamp.
    bytes.extend([0xE1, 0x10]);
    bytes.extend(ticks.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend((fields as u16 + 1).to_le_bytes());
    bytes.extend([1, 1]);
    for _ in 0..fields {
        bytes.push(9);
        bytes.extend(counter.to_le_bytes());
    }
    bytes
}

/// A DataValue that points to a scalar of ours.
pub(crate) fn scalar(kind: u32, data: *mut c_void) -> ua::UA_DataValue {
    // SAFETY: all-zero bytes are an empty DataValue.
    let mut value: ua::UA_DataValue = unsafe { std::mem::zeroed() };
    value.value.type_ = data_type(kind);
    value.value.storageType = ua::UA_VariantStorageType::UA_VARIANT_DATA_NODELETE;
    value.value.data = data;
    value.set_hasValue(true);
    value
}

/// A type of the stack's table.
pub(crate) fn data_type(index: u32) -> *const ua::UA_DataType {
    // SAFETY: a pointer into a table that is never changed.
    unsafe { (&raw const ua::UA_TYPES).cast::<ua::UA_DataType>().add(index as usize) }
}

pub(crate) fn publisher_id(id: u16) -> ua::UA_PublisherId {
    // SAFETY: all-zero bytes are a PublisherId of type Byte.
    let mut publisher: ua::UA_PublisherId = unsafe { std::mem::zeroed() };
    publisher.idType = ua::UA_PublisherIdType::UA_PUBLISHERIDTYPE_UINT16;
    // SAFETY: any bytes are a UInt16.
    unsafe { *publisher.id.uint16.as_mut() = id };
    publisher
}

/// What the stack says when it is not well.
pub(crate) fn good(status: ua::UA_StatusCode, what: &str) -> Result<(), String> {
    if status == ua::UA_STATUSCODE_GOOD {
        return Ok(());
    }
    // SAFETY: returns a constant string.
    let name = unsafe { std::ffi::CStr::from_ptr(ua::UA_StatusCode_name(status)) };
    Err(format!("open62541, {what}: {}", name.to_string_lossy()))
}
