//! A UA_Server with one publisher and one subscriber, set up as the stack's own real-time examples do it.
//!
//! The values are variables of the server with callbacks of ours as their source, so that nothing is copied to read
//! them. The WriterGroup has a state machine of ours instead of the stack's timer, whose smallest interval is a
//! millisecond, and is triggered. Frames come through the event loop, or through a socket of ours into a connection
//! with a state machine of ours. Delta frames are off: a reader of the stack takes key frames only.

use std::ffi::c_void;
use std::ptr;

use open62541_sys as ua;
use units::Nanos;

use crate::drive::End;
use crate::message::{WRITER_ID, data_type, good, publisher_id, scalar};
use crate::socket::Socket;

const URL: &str = "opc.eth://01-00-5E-7F-00-01:8.3";
const PROFILE: &str = "http://opcfoundation.org/UA-Profile/Transport/pubsub-eth-uadp";
/// 2000-01-01, from which the stack counts configuration versions, and one tick: version 1, as the papers' frames have.
const VERSION_1: i64 = 125_911_584_000_000_001;
const ATTRIBUTE_VALUE: u32 = 13;
/// PublisherId, GroupHeader, WriterGroupId, PayloadHeader.
const NETWORK_MESSAGE_MASK: u32 = 0x01 | 0x02 | 0x04 | 0x40;
/// Timestamp, MajorVersion, MinorVersion.
const DATA_SET_MESSAGE_MASK: u32 = 0x01 | 0x08 | 0x10;
const READ_WRITE: u8 = 3;
/// Where OPC UA servers listen; nobody calls here, but the stack insists.
const FIRST_PORT: u16 = 14_840;

/// How frames come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receive {
    /// By the stack's event loop.
    EventLoop,
    /// By a socket of ours, whose frames are handed to the stack.
    OwnSocket,
}

impl Receive {
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        match word {
            "loop" => Ok(Self::EventLoop),
            "socket" => Ok(Self::OwnSocket),
            other => Err(format!("expected loop, socket or codec, found {other:?}")),
        }
    }
}

/// PublisherId and WriterGroupId of what is read and written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) reads: (u16, u16),
    pub(crate) writes: (u16, u16),
}

/// The value of one variable; a Boolean is in its first byte.
#[derive(Debug)]
struct Slot {
    value: u64,
    kind: u32,
    /// For the last one of a message: where to note that it is complete.
    arrived: *mut bool,
}

pub(crate) struct Server {
    server: *mut ua::UA_Server,
    writer_group: ua::UA_NodeId,
    reading: ua::UA_NodeId,
    socket: Option<Socket>,
    input: Box<[Slot]>,
    output: Box<[Slot]>,
    arrived: Box<bool>,
}

impl Server {
    /// Starts a server whose components are all operational.
    pub(crate) fn start(interface: &str, ids: Ids, fields: u16, receive: Receive, number: u16) -> Result<Self, String> {
        let mut arrived = Box::new(false);
        let slots = |arrived: *mut bool| {
            let mut slots = vec![Slot { value: 1, kind: ua::UA_TYPES_BOOLEAN, arrived: ptr::null_mut() }];
            let slot = |_| Slot { value: 0, kind: ua::UA_TYPES_UINT64, arrived: ptr::null_mut() };
            slots.extend((0..fields).map(slot));
            slots.last_mut().into_iter().for_each(|last| last.arrived = arrived);
            slots.into_boxed_slice()
        };
        let (input, output) = (slots(&raw mut *arrived), slots(ptr::null_mut()));
        let server = new_server(FIRST_PORT + number)?;
        let mut new = Self {
            server,
            writer_group: node(0),
            reading: node(0),
            socket: (receive == Receive::OwnSocket).then(|| Socket::open(interface)).transpose()?,
            input,
            output,
            arrived,
        };
        // The clock stands still while versions are taken from it.
        // SAFETY: the configuration and its event loop live as long as the server; nothing else runs yet.
        unsafe {
            let events = (*ua::UA_Server_getConfig(server)).eventLoop;
            let clock = (*events).dateTime_now.replace(version_1);
            new.add_publisher(interface, ids.writes)?;
            (*events).dateTime_now = clock;
        }
        new.add_subscriber(interface, ids.reads, receive)?;
        // SAFETY: a server that has not been started.
        good(unsafe { ua::UA_Server_run_startup(server) }, "starting")?;
        // SAFETY: a running server.
        good(unsafe { ua::UA_Server_enableAllPubSubComponents(server) }, "enabling")?;
        for _ in 0..10 {
            // SAFETY: as above.
            unsafe { ua::UA_Server_run_iterate(server, false) };
        }
        Ok(new)
    }

    fn add_publisher(&mut self, interface: &str, ids: (u16, u16)) -> Result<(), String> {
        let server = self.server;
        let connection = add_connection(server, interface, "publisher", ids.0, None)?;
        // SAFETY: all configurations are zeroed structures, which is how the stack initialises them, and are copied by
        // the calls that take them; what they point to lives until then. Nodes are numeric: copies share nothing.
        unsafe {
            let mut config: ua::UA_PublishedDataSetConfig = std::mem::zeroed();
            config.name = string("values");
            let mut data_set = node(0);
            let added = ua::UA_Server_addPublishedDataSet(server, &raw const config, &raw mut data_set);
            good(added.addResult, "adding a PublishedDataSet")?;
            for (index, slot) in self.output.iter_mut().enumerate() {
                let variable = add_variable(server, &format!("output{index}"), slot)?;
                let mut field: ua::UA_DataSetFieldConfig = std::mem::zeroed();
                let config = field.field.variable.as_mut();
                config.fieldNameAlias = string("value");
                config.publishParameters.publishedVariable = variable;
                config.publishParameters.attributeId = ATTRIBUTE_VALUE;
                let added = ua::UA_Server_addDataSetField(server, copy(&data_set), &raw const field, ptr::null_mut());
                good(added.result, "adding a DataSetField")?;
            }
            let mut settings: ua::UA_UadpWriterGroupMessageDataType = std::mem::zeroed();
            settings.networkMessageContentMask = NETWORK_MESSAGE_MASK;
            let mut group: ua::UA_WriterGroupConfig = std::mem::zeroed();
            group.name = string("group");
            group.customStateMachine = Some(follow);
            group.writerGroupId = ids.1;
            group.publishingInterval = 1_000.0;
            group.messageSettings = extension(ua::UA_TYPES_UADPWRITERGROUPMESSAGEDATATYPE, (&raw mut settings).cast());
            let result = ua::UA_Server_addWriterGroup(server, connection, &raw const group, &raw mut self.writer_group);
            good(result, "adding a WriterGroup")?;

            let mut settings: ua::UA_UadpDataSetWriterMessageDataType = std::mem::zeroed();
            settings.dataSetMessageContentMask = DATA_SET_MESSAGE_MASK;
            let mut writer: ua::UA_DataSetWriterConfig = std::mem::zeroed();
            writer.name = string("writer");
            writer.dataSetWriterId = WRITER_ID;
            writer.keyFrameCount = 1;
            writer.messageSettings =
                extension(ua::UA_TYPES_UADPDATASETWRITERMESSAGEDATATYPE, (&raw mut settings).cast());
            let group = copy(&self.writer_group);
            let result = ua::UA_Server_addDataSetWriter(server, group, data_set, &raw const writer, ptr::null_mut());
            good(result, "adding a DataSetWriter")
        }
    }

    fn add_subscriber(&mut self, interface: &str, ids: (u16, u16), receive: Receive) -> Result<(), String> {
        let server = self.server;
        let follow: StateMachine = (receive == Receive::OwnSocket).then_some(follow);
        self.reading = add_connection(server, interface, "subscriber", ids.0, follow)?;
        // SAFETY: as in `add_publisher`.
        unsafe {
            let mut group: ua::UA_ReaderGroupConfig = std::mem::zeroed();
            group.name = string("group");
            let mut reader_group = node(0);
            let reading = copy(&self.reading);
            let result = ua::UA_Server_addReaderGroup(server, reading, &raw const group, &raw mut reader_group);
            good(result, "adding a ReaderGroup")?;

            let mut fields = Vec::new();
            let mut targets = Vec::new();
            for (index, slot) in self.input.iter_mut().enumerate() {
                let mut field: ua::UA_FieldMetaData = std::mem::zeroed();
                field.name = string("value");
                field.builtInType = slot.kind as u8 + 1;
                field.dataType = node(slot.kind + 1);
                field.valueRank = -1;
                fields.push(field);
                let mut target: ua::UA_FieldTargetDataType = std::mem::zeroed();
                target.attributeId = ATTRIBUTE_VALUE;
                target.targetNodeId = add_variable(server, &format!("input{index}"), slot)?;
                targets.push(target);
            }
            let mut settings: ua::UA_UadpDataSetReaderMessageDataType = std::mem::zeroed();
            settings.networkMessageContentMask = NETWORK_MESSAGE_MASK;
            settings.dataSetMessageContentMask = DATA_SET_MESSAGE_MASK;
            let mut reader: ua::UA_DataSetReaderConfig = std::mem::zeroed();
            reader.name = string("reader");
            reader.publisherId = publisher_id(ids.0);
            reader.writerGroupId = ids.1;
            reader.dataSetWriterId = WRITER_ID;
            reader.messageSettings =
                extension(ua::UA_TYPES_UADPDATASETREADERMESSAGEDATATYPE, (&raw mut settings).cast());
            reader.dataSetMetaData.name = string("values");
            reader.dataSetMetaData.fieldsSize = fields.len();
            reader.dataSetMetaData.fields = fields.as_mut_ptr();
            let target = reader.subscribedDataSet.target.as_mut();
            target.targetVariablesSize = targets.len();
            target.targetVariables = targets.as_mut_ptr();
            let result = ua::UA_Server_addDataSetReader(server, reader_group, &raw const reader, ptr::null_mut());
            good(result, "adding a DataSetReader")
        }
    }

    /// The counter of a message that has arrived completely.
    fn take(&mut self) -> Option<u64> {
        // SAFETY: our own flag, which a callback sets through the pointer while the stack runs in this thread.
        let arrived = unsafe { ptr::replace(&raw mut *self.arrived, false) };
        arrived.then(|| self.input.last().map(|last| last.value)).flatten()
    }
}

impl End for Server {
    fn read(&mut self) -> Result<Option<u64>, String> {
        let Some(socket) = &mut self.socket else {
            if let Some(counter) = self.take() {
                return Ok(Some(counter));
            }
            // SAFETY: a running server, used by this thread alone.
            unsafe { ua::UA_Server_run_iterate(self.server, false) };
            return Ok(self.take());
        };
        let Some(uadp) = socket.receive()? else { return Ok(None) };
        let bytes = ua::UA_ByteString { length: uadp.len(), data: uadp.as_mut_ptr() };
        // SAFETY: as above; the bytes live for the call, which keeps none.
        let status = unsafe { ua::UA_Server_processPubSubConnectionReceive(self.server, copy(&self.reading), bytes) };
        good(status, "receiving")?;
        Ok(self.take())
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        match &self.socket {
            Some(socket) => socket.wait(timeout),
            // Takes the frame as well; `read` tells it. Waits until the stack's next timer at most.
            // SAFETY: as above.
            None => _ = unsafe { ua::UA_Server_run_iterate(self.server, true) },
        }
        Ok(())
    }

    fn wait_long(&mut self) -> Result<(), String> {
        match &mut self.socket {
            Some(socket) => socket.wait_long(),
            None => self.wait(Nanos::ZERO),
        }
    }

    fn application(&mut self, counter: Option<u64>) {
        for (output, input) in self.output.iter_mut().zip(&self.input).skip(1) {
            output.value = counter.unwrap_or(input.value);
        }
    }

    /// Building and sending are one step of the stack: [`Self::launch`].
    fn publish(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        // SAFETY: a running server, used by this thread alone.
        let status = unsafe { ua::UA_Server_triggerWriterGroupPublish(self.server, copy(&self.writer_group)) };
        good(status, "publishing")
    }
}

fn new_server(port: u16) -> Result<*mut ua::UA_Server, String> {
    // SAFETY: a zeroed configuration is what the stack asks for; `newWithConfig` takes it over.
    unsafe {
        let mut config: ua::UA_ServerConfig = std::mem::zeroed();
        config.logging = ua::UA_Log_Stdout_new(ua::UA_LogLevel::UA_LOGLEVEL_ERROR);
        good(ua::UA_ServerConfig_setMinimal(&raw mut config, port, ptr::null()), "configuring")?;
        config.pubSubConfig.enableDeltaFrames = false;
        let server = ua::UA_Server_newWithConfig(&raw mut config);
        if server.is_null() { Err("open62541 made no server".to_owned()) } else { Ok(server) }
    }
}

fn add_connection(
    server: *mut ua::UA_Server,
    interface: &str,
    name: &str,
    publisher: u16,
    state_machine: StateMachine,
) -> Result<ua::UA_NodeId, String> {
    // SAFETY: zeroed structures are initialised ones; the call copies what they point to.
    unsafe {
        let mut address: ua::UA_NetworkAddressUrlDataType = std::mem::zeroed();
        address.networkInterface = string(interface);
        address.url = string(URL);
        let mut config: ua::UA_PubSubConnectionConfig = std::mem::zeroed();
        config.name = string(name);
        config.customStateMachine = state_machine;
        config.publisherId = publisher_id(publisher);
        config.transportProfileUri = string(PROFILE);
        config.address.type_ = data_type(ua::UA_TYPES_NETWORKADDRESSURLDATATYPE);
        config.address.storageType = ua::UA_VariantStorageType::UA_VARIANT_DATA_NODELETE;
        config.address.data = (&raw mut address).cast();
        let mut connection = node(0);
        let status = ua::UA_Server_addPubSubConnection(server, &raw const config, &raw mut connection);
        good(status, "adding a connection")?;
        Ok(connection)
    }
}

/// A variable whose value is in a slot.
fn add_variable(server: *mut ua::UA_Server, name: &str, slot: &mut Slot) -> Result<ua::UA_NodeId, String> {
    // SAFETY: numeric nodes and zeroed structures; the slot is in a box that lives as long as the server is used.
    unsafe {
        let mut attributes: ua::UA_VariableAttributes = ptr::read(&raw const ua::UA_VariableAttributes_default);
        attributes.dataType = node(slot.kind + 1);
        attributes.valueRank = -1;
        attributes.accessLevel = READ_WRITE;
        let mut browse_name: ua::UA_QualifiedName = std::mem::zeroed();
        browse_name.namespaceIndex = 1;
        browse_name.name = string(name);
        let mut requested = node(0);
        requested.namespaceIndex = 1;
        let source = ua::UA_CallbackValueSource { read: Some(read_slot), write: Some(write_slot) };
        let mut added = node(0);
        let status = ua::UA_Server_addCallbackValueSourceVariableNode(
            server,
            requested,
            node(ua::UA_NS0ID_OBJECTSFOLDER),
            node(ua::UA_NS0ID_HASCOMPONENT),
            browse_name,
            node(ua::UA_NS0ID_BASEDATAVARIABLETYPE),
            attributes,
            source,
            ptr::from_mut(slot).cast(),
            &raw mut added,
        );
        good(status, "adding a variable")?;
        Ok(added)
    }
}

type StateMachine = Option<
    unsafe extern "C" fn(
        *mut ua::UA_Server,
        ua::UA_NodeId,
        *mut c_void,
        *mut ua::UA_PubSubState,
        ua::UA_PubSubState,
    ) -> ua::UA_StatusCode,
>;

/// A component is what it is asked to be.
unsafe extern "C" fn follow(
    _server: *mut ua::UA_Server,
    _component: ua::UA_NodeId,
    _context: *mut c_void,
    state: *mut ua::UA_PubSubState,
    target: ua::UA_PubSubState,
) -> ua::UA_StatusCode {
    // SAFETY: the stack gives the place of the component's state.
    unsafe { *state = target };
    ua::UA_STATUSCODE_GOOD
}

unsafe extern "C" fn version_1(_events: *mut ua::UA_EventLoop) -> i64 {
    VERSION_1
}

/// Points to the value: nothing is copied.
unsafe extern "C" fn read_slot(
    _server: *mut ua::UA_Server,
    _session: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _node: *const ua::UA_NodeId,
    slot: *mut c_void,
    _timestamp: bool,
    _range: *const ua::UA_NumericRange,
    value: *mut ua::UA_DataValue,
) -> ua::UA_StatusCode {
    // SAFETY: the context that `add_variable` gave; `value` is empty and the caller's.
    unsafe {
        let slot = slot.cast::<Slot>();
        ptr::write(value, scalar((*slot).kind, (&raw mut (*slot).value).cast()));
    }
    ua::UA_STATUSCODE_GOOD
}

unsafe extern "C" fn write_slot(
    _server: *mut ua::UA_Server,
    _session: *const ua::UA_NodeId,
    _session_context: *mut c_void,
    _node: *const ua::UA_NodeId,
    slot: *mut c_void,
    _range: *const ua::UA_NumericRange,
    value: *const ua::UA_DataValue,
) -> ua::UA_StatusCode {
    // SAFETY: the context that `add_variable` gave; the stack has checked the type of the value, a scalar.
    unsafe {
        let (slot, data) = (slot.cast::<Slot>(), (*value).value.data);
        if data.is_null() {
            return ua::UA_STATUSCODE_BADTYPEMISMATCH;
        }
        (*slot).value = if (*slot).kind == ua::UA_TYPES_BOOLEAN {
            data.cast::<u8>().read().into()
        } else {
            data.cast::<u64>().read()
        };
        if !(*slot).arrived.is_null() {
            *(*slot).arrived = true;
        }
    }
    ua::UA_STATUSCODE_GOOD
}

/// A numeric node of namespace 0.
fn node(number: u32) -> ua::UA_NodeId {
    // SAFETY: all-zero bytes are the numeric node 0; any bytes are a number.
    unsafe {
        let mut node: ua::UA_NodeId = std::mem::zeroed();
        *node.identifier.numeric.as_mut() = number;
        node
    }
}

/// The same numeric node; the stack's components have such.
fn copy(node: &ua::UA_NodeId) -> ua::UA_NodeId {
    // SAFETY: a numeric node owns nothing, so two copies do not share anything.
    unsafe { ptr::read(node) }
}

/// A string that the stack copies.
fn string(text: &str) -> ua::UA_String {
    ua::UA_String { length: text.len(), data: text.as_ptr().cast_mut() }
}

fn extension(kind: u32, data: *mut c_void) -> ua::UA_ExtensionObject {
    // SAFETY: all-zero bytes are an empty ExtensionObject, of which one variant is filled.
    unsafe {
        let mut object: ua::UA_ExtensionObject = std::mem::zeroed();
        object.encoding = ua::UA_ExtensionObjectEncoding::UA_EXTENSIONOBJECT_DECODED;
        let decoded = object.content.decoded.as_mut();
        decoded.type_ = data_type(kind);
        decoded.data = data;
        object
    }
}
