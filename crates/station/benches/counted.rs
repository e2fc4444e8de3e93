//! The hot paths of a cycle, one call at a time, for counting their instructions: `cargo xtask counts`.
//!
//! `counted` lists the names of all paths; `counted NAME` walks that path: some calls to warm up, then
//! [`CALLS`] calls inside [`downbeat_counted_path`], which is what the counter is switched on by.
//!
//! A new path is a line in [`PATHS`].

use std::error::Error;
use std::hint::black_box;

use measure::{Event, EventKind, Side};
use pubsub::{
    DispatchKey, Dispatcher, Endpoint, EndpointConfig, EthernetHeader, NetworkMessageLayout, Publisher, PublisherId,
    ReaderLayout, Role, Subscriber, SubscriberConfig, VlanTag, WriterTemplate,
};
use rt::ring::{Consumer, Producer, Ring};
use units::{Nanos, Tai};

const WARM_UP: u64 = 16;
/// Calls that are counted. `xtask` divides by it.
const CALLS: u64 = 64;

type Done = Result<(), Box<dyn Error>>;

type Path = (&'static str, fn() -> Done);

/// Name and work of each path.
const PATHS: [Path; 18] = [
    ("template_9", || template(9)),
    ("template_161", || template(161)),
    ("publisher_9", || publisher(9)),
    ("publisher_161", || publisher(161)),
    ("endpoint_publish_9", || endpoint_publish(9)),
    ("endpoint_publish_161", || endpoint_publish(161)),
    ("layout_9", || layout(9)),
    ("layout_161", || layout(161)),
    ("subscriber_9", || subscriber(9)),
    ("subscriber_161", || subscriber(161)),
    ("endpoint_receive_9", || endpoint_receive(9)),
    ("endpoint_receive_161", || endpoint_receive(161)),
    ("application_source", || application(Role::Source)),
    ("application_echo", || application(Role::Echo)),
    ("dispatch_10", || dispatch(10)),
    ("dispatch_1000", || dispatch(1_000)),
    ("trace_published", || trace(published)),
    ("trace_arrived", || trace(arrived)),
];

/// Some day in January 2024 as OPC UA DateTime.
const START_TICKS: i64 = 133_500_000_000_000_000;
const HEADER: EthernetHeader = EthernetHeader {
    destination: [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01],
    source: [2, 0, 0, 0, 0, 1],
    vlan: Some(VlanTag { pcp: 3, dei: false, vid: 8 }),
};
const HEADER_BYTES: usize = 18;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [] => {
            println!("{CALLS} calls");
            PATHS.iter().for_each(|(name, _)| println!("{name}"));
            Ok(())
        }
        [name] => match PATHS.iter().find(|(known, _)| known == name) {
            Some((_, walk)) => walk(),
            None => Err(format!("no path is called {name}: without a name, all are listed").into()),
        },
        _ => Err("expected at most one name".into()),
    }
}

/// What is counted. Never inlined, so that the counter finds where it begins and ends.
#[inline(never)]
fn downbeat_counted_path(call: &mut impl FnMut(u64), number: u64) {
    call(number);
}

fn count(mut call: impl FnMut(u64)) {
    for number in 1..=WARM_UP {
        black_box(&mut call)(number);
    }
    for number in WARM_UP + 1..=WARM_UP + CALLS {
        downbeat_counted_path(&mut call, black_box(number));
    }
}

fn papers(fields: u16) -> NetworkMessageLayout {
    NetworkMessageLayout::papers(2234, 101, fields)
}

fn ticks(number: u64) -> i64 {
    START_TICKS + number as i64 * 2_500
}

/// One new value into an image.
#[inline]
fn change(image: &mut [u8], value: u64) {
    if let Some(first) = image.as_chunks_mut::<8>().0.get_mut(1) {
        *first = value.to_le_bytes();
    }
}

/// The message of each call, warm-up included.
fn messages(fields: u16) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut source = source(fields)?;
    let mut message = |number: u64| {
        source.application(number as i64);
        Ok(source.publish(ticks(number)).ok_or("nothing to publish")?.frame[HEADER_BYTES..].to_vec())
    };
    (0..=WARM_UP + CALLS).map(&mut message).collect()
}

fn source(fields: u16) -> Result<Endpoint, Box<dyn Error>> {
    let write = Some((papers(fields), Some(HEADER)));
    Ok(Endpoint::new(EndpointConfig { role: Role::Source, write, read: None, variables: fields })?)
}

/// Patching a frame: values and timestamp.
fn template(fields: u16) -> Done {
    let mut template = WriterTemplate::new(&papers(fields), Some(&HEADER))?;
    let mut image = vec![0; pubsub::ImageLayout::of(&papers(fields)).bytes()];
    count(|number| {
        change(&mut image, number);
        template.write_image(black_box(&image)).expect("an image of this layout");
        template.stamp(0, ticks(number));
        black_box(template.frame());
    });
    Ok(())
}

/// The same, numbered and counted.
fn publisher(fields: u16) -> Done {
    let mut publisher = Publisher::new(&papers(fields), Some(&HEADER))?;
    let mut image = vec![0; publisher.image().bytes()];
    count(|number| {
        change(&mut image, number);
        black_box(publisher.publish(black_box(&image), ticks(number)).expect("an image of this layout").frame);
    });
    Ok(())
}

/// The application and publish phases of a Source.
fn endpoint_publish(fields: u16) -> Done {
    let mut source = source(fields)?;
    count(|number| {
        black_box(source.application(number as i64));
        black_box(source.publish(ticks(number)).expect("a Source has something to publish").frame);
    });
    Ok(())
}

/// Checking a message and copying its values.
fn layout(fields: u16) -> Done {
    let (layout, messages) = (ReaderLayout::new(&papers(fields))?, messages(fields)?);
    let mut image = vec![0; pubsub::ImageLayout::of(&papers(fields)).bytes()];
    count(|number| {
        layout.take_apart(black_box(&messages[number as usize]), &mut image).expect("a message of this layout");
        black_box(&image);
    });
    Ok(())
}

/// The same with sequence window and timeout.
fn subscriber(fields: u16) -> Done {
    let (mut subscriber, messages) = (Subscriber::new(SubscriberConfig::strict(papers(fields)))?, messages(fields)?);
    count(|number| {
        black_box(subscriber.receive(black_box(&messages[number as usize]), Tai(number as i64)));
        black_box(subscriber.take().expect("a new message"));
    });
    Ok(())
}

/// The subscribe and application phases of a Sink.
fn endpoint_receive(fields: u16) -> Done {
    let read = Some(papers(fields));
    let mut sink = Endpoint::new(EndpointConfig { role: Role::Sink, write: None, read, variables: fields })?;
    let messages = messages(fields)?;
    count(|number| {
        black_box(sink.receive(black_box(&messages[number as usize])));
        black_box(sink.application(number as i64).read.expect("a new counter"));
    });
    Ok(())
}

/// The application phase alone, without news.
fn application(role: Role) -> Done {
    let write = Some((papers(9), Some(HEADER)));
    let read = Some(NetworkMessageLayout::papers(2235, 102, 9));
    let mut endpoint = Endpoint::new(EndpointConfig { role, write, read, variables: 9 })?;
    count(|number| _ = black_box(endpoint.application(number as i64)));
    Ok(())
}

/// From the bytes of a message to its subscriber among so many.
fn dispatch(groups: u16) -> Done {
    let ids = |group: u16| (2_000 + group / 8, 100 + group % 8);
    let key = |group| {
        let (publisher, group) = ids(group);
        DispatchKey { publisher_id: PublisherId::UInt16(publisher), writer_group_id: Some(group) }
    };
    let dispatcher = Dispatcher::new(&(0..groups).map(key).collect::<Vec<_>>())?;
    let message = |call: u16| {
        let (publisher, group) = ids(call.wrapping_mul(617) % groups);
        Ok(WriterTemplate::new(&NetworkMessageLayout::papers(publisher, group, 3), None)?.frame().to_vec())
    };
    let messages: Vec<Vec<u8>> = (0..=(WARM_UP + CALLS) as u16).map(message).collect::<Result<_, Box<dyn Error>>>()?;
    count(|number| {
        let found = dispatcher.find(black_box(&messages[number as usize]));
        assert_eq!(black_box(found).len(), 1, "one subscriber");
    });
    Ok(())
}

/// A record of an event, packed and in the ring.
fn trace(event: fn(u64) -> EventKind) -> Done {
    let ring = Ring::create("counted", 1 << 10)?;
    let (mut producer, mut consumer): (Producer, Consumer) = (ring.producer()?, ring.consumer()?);
    count(|number| {
        let event = Event { stream: 1, side: Side::Writer, kind: event(black_box(number)) };
        black_box(producer.push(&event.pack()));
    });
    let found = std::iter::from_fn(|| consumer.pop()).count() as u64;
    if found == WARM_UP + CALLS { Ok(()) } else { Err(format!("{found} records were in the ring").into()) }
}

#[inline]
fn published(number: u64) -> EventKind {
    EventKind::Published {
        cycle: number as i64,
        counter: number,
        sequence: number as u16,
        handle: number as u32,
        at: Tai(number as i64),
        launch: Some(Tai(number as i64) + Nanos(1)),
        bytes: 131,
        repeated: false,
    }
}

#[inline]
fn arrived(number: u64) -> EventKind {
    EventKind::Arrived {
        cycle: number as i64,
        counter: number,
        stamp: Some(Tai(number as i64)),
        decoded: Tai(number as i64) + Nanos(1),
        tag: Some((8, 3)),
        superseded: None,
        inconsistent: false,
    }
}
