//! Random layouts: a reader takes what the template wrote, tells the first damaged byte, and never panics.

mod common;

use common::layouts::{bits, layout, set_all};
use downbeat_pubsub::{EthernetHeader, ImageLayout, Mismatch, NetworkMessageLayout, ReaderLayout, WriterTemplate};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that change, found by writing two messages with no changing byte in common.
fn changing(layout: &NetworkMessageLayout) -> Vec<bool> {
    let message = |byte: u8| {
        let mut template = WriterTemplate::new(layout, None).expect("a layout");
        set_all(&mut template, layout, || byte);
        template.frame().to_vec()
    };
    message(0).iter().zip(message(0x7E)).map(|(a, b)| *a != b).collect()
}

proptest! {
    #[test]
    fn reads_exactly_what_was_written(layout in layout(), bytes in vec(any::<u8>(), 64)) {
        let mut template = WriterTemplate::new(&layout, None).unwrap();
        let mut source = bytes.iter().cycle().copied();
        let values = set_all(&mut template, &layout, || source.next().unwrap());
        let reader = ReaderLayout::new(&layout).unwrap();
        prop_assert_eq!(reader.check(template.frame()), Ok(()));
        let places = layout.data_sets.iter().enumerate().flat_map(|(i, set)| (0..set.fields.len()).map(move |j| (i, j)));
        for ((i, j), value) in places.zip(values) {
            prop_assert_eq!(reader.field(template.frame(), i, j).map(bits), Some(bits(value)));
        }
    }

    #[test]
    fn an_image_is_all_fields_at_once(layout in layout(), bytes in vec(any::<u8>(), 64)) {
        let mut one_by_one = WriterTemplate::new(&layout, None).unwrap();
        let mut source = bytes.iter().cycle().copied();
        let values = set_all(&mut one_by_one, &layout, || source.next().unwrap());
        let image_layout = ImageLayout::of(&layout);
        let mut image = vec![0; image_layout.bytes()];
        let places = || layout.data_sets.iter().enumerate().flat_map(|(i, set)| (0..set.fields.len()).map(move |j| (i, j)));
        for ((i, j), value) in places().zip(&values) {
            prop_assert!(image_layout.set(&mut image, i, j, *value));
        }
        let mut at_once = WriterTemplate::new(&layout, None).unwrap();
        let mut source = bytes.iter().cycle().copied();
        set_all(&mut at_once, &layout, || source.next().unwrap() ^ 0x5A);
        prop_assert!(at_once.write_image(&image[1..]).is_err());
        prop_assert_eq!(at_once.write_image(&image), Ok(()));
        let reader = ReaderLayout::new(&layout).unwrap();
        let (mut read, mut taken) = (vec![0xEE; image.len()], vec![0xEE; image.len()]);
        prop_assert_eq!(reader.read_image(one_by_one.frame(), &mut read), Ok(()));
        prop_assert_eq!(reader.take_apart(one_by_one.frame(), &mut taken), Ok(()));
        prop_assert!(reader.take_apart(one_by_one.frame(), &mut image.clone()[1..]).is_err());
        for ((i, j), value) in places().zip(values) {
            prop_assert_eq!(reader.field(at_once.frame(), i, j).map(bits), Some(bits(value)));
            prop_assert_eq!(image_layout.get(&read, i, j).map(bits), Some(bits(value)));
            prop_assert_eq!(image_layout.get(&taken, i, j).map(bits), Some(bits(value)));
        }
    }

    #[test]
    fn taking_apart_finds_what_checking_finds(layout in layout(), at in any::<prop::sample::Index>(), damage in 0..=255_u8) {
        let mut message = WriterTemplate::new(&layout, None).unwrap().frame().to_vec();
        let reader = ReaderLayout::new(&layout).unwrap();
        let mut image = vec![0; ImageLayout::of(&layout).bytes()];
        let at = at.index(message.len());
        message[at] ^= damage;
        prop_assert_eq!(reader.take_apart(&message, &mut image), reader.check(&message));
        prop_assert_eq!(reader.take_apart(&message[..at], &mut image), reader.check(&message[..at]));
    }

    #[test]
    fn any_damaged_constant_byte_is_found_at_its_offset(layout in layout(), damage in 1..=255_u8) {
        let mut message = WriterTemplate::new(&layout, None).unwrap().frame().to_vec();
        let reader = ReaderLayout::new(&layout).unwrap();
        for (offset, changes) in changing(&layout).into_iter().enumerate() {
            let good = message[offset];
            message[offset] ^= damage;
            let expected = if changes {
                Ok(())
            } else {
                Err(Mismatch { offset, expected: Some(good), found: Some(good ^ damage) })
            };
            prop_assert_eq!(reader.check(&message), expected, "byte {} of {}", offset, message.len());
            message[offset] = good;
        }
    }

    #[test]
    fn no_other_length_is_taken_but_zeros_up_to_the_ethernet_minimum(layout in layout(), extra in 1_usize..60) {
        let message = WriterTemplate::new(&layout, None).unwrap().frame().to_vec();
        let reader = ReaderLayout::new(&layout).unwrap();
        for end in 0..message.len() {
            let found = reader.check(&message[..end]);
            prop_assert!(found.is_err_and(|mismatch| mismatch.offset == end && mismatch.found.is_none()));
        }
        let mut longer = message.clone();
        longer.resize(message.len() + extra, 0);
        prop_assert_eq!(reader.check(&longer).is_ok(), longer.len() <= 46);
        *longer.last_mut().unwrap() = 1;
        prop_assert!(reader.check(&longer).is_err());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(layout in layout(), bytes in vec(any::<u8>(), 0..1600)) {
        let reader = ReaderLayout::new(&layout).unwrap();
        let message = WriterTemplate::new(&layout, None).unwrap().frame().to_vec();
        let mut mixed = message.clone();
        for (place, byte) in mixed.iter_mut().zip(&bytes) {
            *place ^= byte & byte.rotate_left(3) & byte.rotate_left(5);
        }
        for input in [&bytes[..], &mixed[..], &mixed[..mixed.len().min(bytes.len())]] {
            let _ = reader.check(input);
            for i in 0..=layout.data_sets.len() {
                let _ = (reader.data_set_status(input, i), reader.data_set_timestamp(input, i));
                let _ = (0..50).filter_map(|j| reader.field(input, i, j)).count();
                let _ = reader.uint64_run(i, 0..1).and_then(|run| reader.uint64s(input, &run));
            }
            let _ = (reader.sequence_number(input), reader.timestamp(input));
        }
    }

    #[test]
    fn no_bytes_make_the_ethernet_parser_panic(bytes in vec(any::<u8>(), 0..40)) {
        let rest = EthernetHeader::parse(&bytes).map(|(header, _, rest)| header.bytes() + rest.len());
        prop_assert!(rest.is_none_or(|length| length == bytes.len()));
    }
}
