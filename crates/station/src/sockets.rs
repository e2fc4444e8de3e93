//! Opening what the ends of a host send and receive through.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use link::udp::{UdpReceiver, UdpReceiverOptions, UdpSender, UdpSenderOptions};
use link::xdp::{XdpKey, XdpOptions, XdpPort, XdpReceiver, XdpSender};
use link::{LinkError, Receiver, ReceiverOptions, Sender, SenderOptions, Stamps, TxTime};
use pubsub::{DispatchKey, Dispatcher, PublisherId};
use scenario::{HostId, Scenario};
use units::Nanos;

use crate::departure::{Departure, Launch};
use crate::inlet::{Inlet, Source};
use crate::outlet::{Outlet, Target};
use crate::spec::{EndSpec, OutletSpec, RoleSpec};
use crate::stamping::StampPlan;
use crate::ways::{Choice, Link, Reached, Shares, choose};
use crate::worker::rhythms;

/// Bytes of a receiving socket's buffer: some thousand frames, so that a late thread loses none.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Frames that each AF_XDP receiver has room for, for the same reason; of many each has less, as they read less each.
const XDP_FRAMES: usize = 1024;
const XDP_FRAMES_OF_ALL: usize = 4096;
const XDP_FRAMES_AT_LEAST: usize = 64;

/// What reaches an interface with datagrams.
const UDP: &str = "UDP socket";

/// How long an interface may take to find its partner.
const RUNNING_WITHIN: Nanos = Nanos::from_millis(3_000);

/// The sockets of a host while they are being opened.
pub(crate) struct Sockets<'a> {
    spec: &'a RoleSpec,
    scenario: &'a Scenario,
    /// By which way Ethernet frames come and go.
    interfaces: HashMap<String, Interface>,
    /// The same of datagrams.
    udp: HashMap<String, Reached>,
    tai_minus_utc: Nanos,
}

/// Where frames or datagrams come in: ends of which all this is the same share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entrance<'a> {
    /// The interface.
    pub(crate) interface: &'a str,
    /// The address of the datagrams; none for Ethernet frames.
    pub(crate) at: Option<SocketAddr>,
}

/// What is known of one interface.
struct Interface {
    choice: Choice,
    reached: Reached,
    /// Its AF_XDP port.
    port: Port,
}

/// The ends of an AF_XDP port, until their places in the threads ask for them: a sender for each thread that sends,
/// a receiver for each group of ends that reads, by what it reads.
#[derive(Default)]
struct Port {
    senders: Vec<XdpSender>,
    receivers: Vec<(Vec<DispatchKey>, XdpReceiver)>,
}

/// What frames a receiver is to get.
struct Wanted {
    destination: Option<[u8; 6]>,
    publishers: Vec<u16>,
    keys: Vec<DispatchKey>,
}

impl<'a> Sockets<'a> {
    pub(crate) fn new(spec: &'a RoleSpec, scenario: &'a Scenario, tai_minus_utc: Nanos) -> Self {
        Self { spec, scenario, interfaces: HashMap::new(), udp: HashMap::new(), tai_minus_utc }
    }

    /// How far TAI is ahead of UTC, by which stamps were asked for.
    pub(crate) fn tai_minus_utc(&self) -> Nanos {
        self.tai_minus_utc
    }

    fn stamps(&self, interface: &str) -> Stamps {
        self.spec.stamps(interface).stamps()
    }

    /// What carries away the frames, or datagrams to an address, of one interface and priority.
    pub(crate) fn outlet(&mut self, wanted: &OutletSpec<'_>) -> Result<Outlet, String> {
        let &OutletSpec { interface: name, priority, to, txtime } = wanted;
        let stamps = self.stamps(name);
        if let Some(to) = to {
            self.udp(name)?.send = Some(UDP.into());
            return self.keeping(wanted, |txtime| {
                let options = UdpSenderOptions { priority, stamps, txtime, ..UdpSenderOptions::default() };
                UdpSender::open(name, to, options).map(Target::Udp)
            });
        }
        let interface = self.interface(name)?;
        if interface.choice.xdp {
            if txtime.is_some() {
                return Err(format!("{name}: AF_XDP passes by the queue that would keep launch times"));
            }
            // Frames of all priorities leave through it in the order they come.
            let sender = interface.port.senders.pop();
            let sender = sender.ok_or_else(|| format!("{name}: its AF_XDP port has no sender left"))?;
            interface.reached.send = Some(sender.how().to_string());
            self.note_launches(wanted, None);
            return Ok(Outlet::new(Target::Xdp(Box::new(sender))));
        }
        interface.reached.send = Some("packet socket".into());
        self.keeping(wanted, |txtime| {
            Sender::open(name, SenderOptions { priority, stamps, txtime }).map(Target::Socket)
        })
    }

    /// Whether frames of all priorities leave an interface by one port, in the order they come: by AF_XDP.
    pub(crate) fn all_leave_alike(&self, wanted: &OutletSpec<'_>) -> bool {
        let by_xdp = self.interfaces.get(wanted.interface).is_some_and(|interface| interface.choice.xdp);
        by_xdp && wanted.to.is_none() && wanted.txtime.is_none()
    }

    /// Opens a socket with launch times if they are wanted; without where the kernel refuses them and they need not be.
    fn keeping(
        &mut self,
        wanted: &OutletSpec<'_>,
        open: impl Fn(Option<TxTime>) -> Result<Target, LinkError>,
    ) -> Result<Outlet, String> {
        let Some(txtime) = wanted.txtime else {
            let outlet = open(None).map(Outlet::new).map_err(|error| error.to_string())?;
            self.note_launches(wanted, None);
            return Ok(outlet);
        };
        match open(Some(txtime.option())) {
            Ok(target) => {
                self.note_launches(wanted, None);
                Ok(Outlet::with_launch_times(target))
            }
            Err(error @ LinkError::NotPermitted { call: "SO_TXTIME", .. }) if self.may_pace(wanted) => {
                let outlet = open(None).map(Outlet::new).map_err(|error| error.to_string())?;
                self.note_launches(wanted, Some(&error.to_string()));
                Ok(outlet)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether our own thread may keep launch times in place of the kernel.
    fn may_pace(&self, wanted: &OutletSpec<'_>) -> bool {
        let ends = self.spec.workers.iter().flat_map(|worker| &worker.ends);
        let mut mine = ends.filter(|end| end.sends(self.scenario) && end.outlet(self.scenario) == *wanted);
        self.spec.launch == Launch::Auto && !mine.any(|end| end.departure.as_ref().is_some_and(|it| it.needed))
    }

    /// Notes how the streams of an outlet keep their launch times, and why not as planned.
    fn note_launches(&mut self, wanted: &OutletSpec<'_>, refused: Option<&str>) {
        let name = wanted.interface;
        let of_frames = self.interfaces.get_mut(name).map(|interface| &mut interface.reached);
        let reached = if wanted.to.is_some() { self.udp.get_mut(name) } else { of_frames };
        let Some(reached) = reached else { return };
        let ends = self.spec.workers.iter().flat_map(|worker| &worker.ends);
        for end in ends.filter(|end| end.sends(self.scenario) && end.outlet(self.scenario) == *wanted) {
            let Some(planned) = &end.departure else { continue };
            let paced = refused.map(|why| Departure::pace(format!("the kernel's launch times were refused: {why}")));
            reached.launches(&self.scenario.streams[end.stream].name, paced.as_ref().unwrap_or(planned));
        }
    }

    /// Where the frames or datagrams come in that these ends of a beat read; `ends` have their places in the beat.
    pub(crate) fn inlet(&mut self, entrance: Entrance<'_>, ends: &[(usize, &EndSpec)]) -> Result<Inlet, String> {
        let name = entrance.interface;
        let wanted = self.wanted(ends.iter().map(|(_, end)| *end));
        let readers = Dispatcher::new(&wanted.keys).map_err(|error| format!("{name}: {error}"))?;
        let places = ends.iter().map(|(place, _)| *place).collect();
        if let Some(at) = entrance.at {
            let options = UdpReceiverOptions {
                tai_minus_utc: self.tai_minus_utc,
                stamps: self.stamps(name),
                buffer_bytes: RECEIVE_BUFFER_BYTES,
                ..UdpReceiverOptions::default()
            };
            self.udp(name)?.receive = Some(UDP.into());
            let receiver = UdpReceiver::open(name, at, options).map_err(|error| error.to_string())?;
            return Ok(Inlet::new(name, Source::Udp(receiver), readers, places));
        }
        let options = ReceiverOptions {
            way: self.spec.link.receive_way(),
            destination: wanted.destination,
            publishers: &wanted.publishers,
            tai_minus_utc: self.tai_minus_utc,
            stamps: self.stamps(name),
            buffer_bytes: RECEIVE_BUFFER_BYTES,
            ..ReceiverOptions::default()
        };
        let interface = self.interface(name)?;
        if interface.choice.xdp {
            let receivers = &mut interface.port.receivers;
            let place = receivers.iter().position(|(keys, _)| *keys == wanted.keys);
            let place = place.ok_or_else(|| format!("{name}: its AF_XDP port has no such receiver left"))?;
            let (_, receiver) = receivers.swap_remove(place);
            interface.reached.receive = Some(receiver.how().to_string());
            return Ok(Inlet::new(name, Source::Xdp(Box::new(receiver)), readers, places));
        }
        let receiver = Receiver::open(name, options).map_err(|error| error.to_string())?;
        interface.reached.receive = Some(
            match receiver.way() {
                link::ReceiveWay::Ring => "packet ring",
                _ => "packet socket",
            }
            .into(),
        );
        Ok(Inlet::new(name, Source::Socket(receiver), readers, places))
    }

    /// How each interface was reached; where both come and go, first for frames and then for datagrams.
    pub(crate) fn reached(self) -> Vec<Reached> {
        let frames = self.interfaces.into_values().map(|interface| interface.reached);
        let mut reached: Vec<_> = frames.chain(self.udp.into_values()).collect();
        // Stable: frames stay before datagrams.
        reached.sort_by(|a, b| a.interface.cmp(&b.interface));
        reached
    }

    /// What is known of the datagrams of an interface, which is waited for.
    fn udp(&mut self, name: &str) -> Result<&mut Reached, String> {
        if !self.udp.contains_key(name) {
            wait_until_running(name)?;
            let why = self.shares(name).why_udp(self.spec.link);
            let reached = Reached::new(name, why, &self.spec.stamps(name));
            self.udp.insert(name.into(), reached);
        }
        self.udp.get_mut(name).ok_or_else(|| format!("{name} is not known"))
    }

    /// Which streams share an interface.
    fn shares(&self, name: &str) -> Shares<'_> {
        let ends = self.spec.workers.iter().flat_map(|worker| &worker.ends);
        Shares::of(ends.filter(|end| end.interface == name), self.scenario)
    }

    fn interface(&mut self, name: &str) -> Result<&mut Interface, String> {
        if !self.interfaces.contains_key(name) {
            let interface = self.look(name)?;
            self.interfaces.insert(name.into(), interface);
        }
        self.interfaces.get_mut(name).ok_or_else(|| format!("{name} is not known"))
    }

    /// Waits for the interface, chooses its way and opens its AF_XDP port, if that is the way.
    fn look(&self, name: &str) -> Result<Interface, String> {
        wait_until_running(name)?;
        let RoleSpec { link, workers, .. } = self.spec;
        let mut stamps = self.spec.stamps(name);
        let mut choice = choose(*link, name, workers, (self.scenario, &stamps))?;
        let mut port = Port::default();
        if choice.xdp {
            match self.stamped_port(name, &stamps) {
                Ok((opened, planned)) => (port, stamps) = (opened, planned),
                Err(error) if *link == Link::Xdp => return Err(error),
                Err(error) => choice = Choice { xdp: false, why: format!("AF_XDP was refused: {error}") },
            }
        }
        let why = self.shares(name).why_ethernet(&choice.why);
        let reached = Reached::new(name, why, &stamps);
        Ok(Interface { choice, reached, port })
    }

    /// Opens an AF_XDP port with the stamps that are planned, or where they need not be and cannot, with those of the kernel.
    fn stamped_port(&self, name: &str, planned: &StampPlan) -> Result<(Port, StampPlan), String> {
        let port = self.port(name, planned.stamps())?;
        let by_kernel = |(_, receiver): &(_, XdpReceiver)| receiver.how().receive_stamps != Stamps::Hardware;
        let lacks = port.receivers.iter().find(|receiver| planned.stamps() == Stamps::Hardware && by_kernel(receiver));
        let Some((_, receiver)) = lacks else { return Ok((port, planned.clone())) };
        let why = receiver.how().no_hardware_stamps.unwrap_or("no reason was told");
        if planned.is_needed() {
            return Err(format!(
                "{name}: hardware stamps were asked for, and AF_XDP hands on none here: {why}; take --link ring, or --stamps \
                 auto"
            ));
        }
        let stamps = planned.in_software(format!("AF_XDP hands on none here: {why}"));
        // Only one programme to an interface.
        drop(port);
        Ok((self.port(name, stamps.stamps())?, stamps))
    }

    /// Opens an AF_XDP port; without readers its receiving end, and with it the programme, goes again.
    fn port(&self, name: &str, stamps: Stamps) -> Result<Port, String> {
        let RoleSpec { workers, host, .. } = self.spec;
        let here = |end: &&EndSpec| end.interface == name && end.sends_to(self.scenario).is_none();
        let reads = |end: &&EndSpec| here(end) && end.receives(self.scenario);
        let sends = |end: &EndSpec| here(&end) && end.sends(self.scenario);
        let senders = workers.iter().filter(|worker| worker.ends.iter().any(sends)).count();
        let beats = workers.iter().flat_map(|worker| rhythms(self.scenario, HostId(*host), &worker.ends));
        let reading: Vec<Vec<&EndSpec>> = beats.map(|(_, ends)| ends.into_iter().filter(reads).collect()).collect();
        let wanted = self.wanted(reading.iter().flatten().copied());
        let keys = reading.into_iter().filter(|ends| !ends.is_empty()).map(|ends| self.wanted(ends.into_iter()).keys);
        let keys: Vec<_> = keys.collect();
        let options = XdpOptions {
            destination: wanted.destination,
            receive_frames: receive_frames(keys.len()) as u32,
            stamps,
            ..XdpOptions::default()
        };
        let (senders, receivers) = if keys.is_empty() {
            let (sender, _) = XdpPort::open(name, options).map_err(|error| error.to_string())?;
            (vec![sender], Vec::new())
        } else {
            XdpPort::open_shared(name, &options, &steering(&keys)?, senders.max(1))
                .map_err(|error| error.to_string())?
        };
        // Attaching restarts the port of many network cards.
        wait_until_running(name)?;
        Ok(Port { senders, receivers: keys.into_iter().zip(receivers).collect() })
    }

    fn wanted<'e>(&self, ends: impl Iterator<Item = &'e EndSpec>) -> Wanted {
        let (mut destinations, mut publishers, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for end in ends {
            let stream = &self.scenario.streams[end.stream];
            // What the writer sends the reader gets, and the other way round.
            destinations.push(stream.destinations[usize::from(end.writer)]);
            publishers.push(self.scenario.host(stream.publisher(end.writer)).publisher_id);
            let layout = stream.layout(self.scenario, end.writer);
            let group = layout.group_header.and_then(|header| header.writer_group_id);
            keys.push(DispatchKey { publisher_id: layout.publisher_id, writer_group_id: group });
        }
        publishers.sort_unstable();
        publishers.dedup();
        let first = destinations.first().copied();
        Wanted { destination: first.filter(|first| destinations.iter().all(|other| other == first)), publishers, keys }
    }
}

/// How much room each of so many receivers has.
fn receive_frames(receivers: usize) -> usize {
    (XDP_FRAMES_OF_ALL / receivers.max(1)).clamp(XDP_FRAMES_AT_LEAST, XDP_FRAMES)
}

/// What XDP gives to which of several receivers: all of a publisher that one of them reads alone, else the WriterGroups that
/// each reads, and what is of neither to the first, which counts it.
fn steering(receivers: &[Vec<DispatchKey>]) -> Result<Vec<Vec<XdpKey>>, String> {
    let mut readers: BTreeMap<u16, Vec<(usize, Option<u16>)>> = BTreeMap::new();
    for (receiver, key) in
        receivers.iter().enumerate().flat_map(|(place, keys)| keys.iter().map(move |key| (place, key)))
    {
        let PublisherId::UInt16(publisher_id) = key.publisher_id else {
            return Err(format!("AF_XDP tells publishers by a PublisherId of type UInt16, not {:?}", key.publisher_id));
        };
        readers.entry(publisher_id).or_default().push((receiver, key.writer_group_id));
    }
    let mut steered = vec![Vec::new(); receivers.len()];
    for (publisher_id, readers) in readers {
        let Some(&(first, _)) = readers.first() else { continue };
        let mut give =
            |receiver: usize, writer_group_id| steered[receiver].push(XdpKey { publisher_id, writer_group_id });
        if readers.iter().any(|(receiver, _)| *receiver != first) {
            readers.iter().for_each(|(receiver, group)| give(*receiver, *group));
        }
        if readers.iter().all(|(receiver, group)| *receiver == first || group.is_some()) {
            give(first, None);
        }
    }
    Ok(steered)
}

/// Until the kernel has put its queue in place, frames sent on a fresh interface vanish without a word.
fn wait_until_running(name: &str) -> Result<(), String> {
    match link::interface::wait_until_running(name, RUNNING_WITHIN) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("interface {name} found no partner within 3 s")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdp_gives_each_receiver_what_it_reads_and_the_rest_of_a_publisher_to_one() {
        let read =
            |publisher, writer_group_id| DispatchKey { publisher_id: PublisherId::UInt16(publisher), writer_group_id };
        let steer = |publisher_id, writer_group_id| XdpKey { publisher_id, writer_group_id };
        // Alone it gets all of a publisher, as a packet socket does: what it cannot read is counted.
        let alone = steering(&[vec![read(7, Some(101)), read(7, Some(102)), read(8, Some(1))]]).unwrap();
        assert_eq!(alone, [vec![steer(7, None), steer(8, None)]]);
        let shared = [vec![read(7, Some(101)), read(8, Some(1))], vec![read(7, Some(102)), read(9, Some(1))]];
        let first = vec![steer(7, Some(101)), steer(7, None), steer(8, None)];
        assert_eq!(steering(&shared).unwrap(), [first, vec![steer(7, Some(102)), steer(9, None)]]);
        let any = [vec![read(7, Some(101))], vec![read(7, None)]];
        assert_eq!(steering(&any).unwrap(), [vec![steer(7, Some(101))], vec![steer(7, None)]]);
        let other = DispatchKey { publisher_id: PublisherId::UInt32(7), writer_group_id: None };
        assert!(steering(&[vec![other]]).unwrap_err().contains("UInt32(7)"));
    }

    #[test]
    fn many_receivers_have_room_for_a_cycle_each() {
        assert_eq!([1, 4, 5, 300].map(receive_frames), [1024, 1024, 819, 64]);
    }
}
