//! Whatever a server sends: any reply, cut anywhere, or no reply at all.

use super::super::*;
use proptest::prelude::*;
use proptest::sample::Index;

/// A reply as it is sent, and what it means.
type Sent = (Vec<u8>, Value);

fn line(kind: char, text: &str, value: Value) -> Sent {
    (format!("{kind}{text}\r\n").into_bytes(), value)
}

fn bulk(kind: char, format: &str, text: &[u8]) -> Vec<u8> {
    let length = format.len() + text.len();
    [format!("{kind}{length}\r\n{format}").as_bytes(), text, b"\r\n"].concat()
}

fn simple() -> impl Strategy<Value = Sent> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        Just(line('_', "", Value::Null)),
        Just(line('$', "-1", Value::Null)),
        Just(line('*', "-1", Value::Null)),
        Just(line('+', "OK", Value::Okay)),
        any::<i64>().prop_map(|number| line(':', &number.to_string(), Value::Integer(number))),
        (-1e300..1e300).prop_map(|number: f64| line(',', &number.to_string(), Value::Double(number))),
        Just(line('#', "t", Value::Boolean(true))),
        "[a-zN ]{0,20}".prop_map(|text| line('+', &text, Value::Text(text.clone().into()))),
        "[0-9]{1,30}".prop_map(|text| line('(', &text, Value::Text(text.clone().into()))),
        "[A-Z]{3,9} .{0,20}".prop_filter_map("an error is one line", |text| {
            (!text.contains(['\r', '\n'])).then(|| line('-', &text, Value::Error(text.clone().into())))
        }),
        bytes().prop_map(|text| (bulk('$', "", &text), Value::Text(text.into()))),
        bytes().prop_map(|text| (bulk('=', "txt:", &text), Value::Text(text.into()))),
        bytes().prop_map(|text| (bulk('!', "", &text), Value::Error(text.into()))),
    ]
}

fn aggregate(kind: char, width: usize, elements: Vec<Sent>) -> Sent {
    let whole = elements.len() / width * width;
    let (bytes, values): (Vec<_>, Vec<_>) = elements.into_iter().take(whole).unzip();
    let head = format!("{kind}{}\r\n", whole / width).into_bytes();
    let value = if kind == '>' { Value::Push(values) } else { Value::Array(values) };
    ([head, bytes.concat()].concat(), value)
}

fn reply() -> impl Strategy<Value = Sent> {
    simple().prop_recursive(4, 32, 6, |element| {
        (
            prop::sample::select(&[('*', 1), ('~', 1), ('%', 2), ('>', 1)]),
            prop::collection::vec(element, 0..6),
        )
            .prop_map(|((kind, width), elements)| aggregate(kind, width, elements))
    })
}

/// One change of a byte stream.
#[derive(Clone, Debug)]
enum Damage {
    Overwrite(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(b"+-:$*%~>,#_!=(\r\n0123456789".as_slice())];
    prop_oneof![
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Overwrite(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        any::<Index>().prop_map(Damage::Remove),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            _ if bytes.is_empty() => {}
            Damage::Overwrite(at, byte) => *at.get_mut(bytes) = *byte,
            Damage::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Damage::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

/// Checks what must be true of reading any `input`.
fn check(input: &[u8]) -> Result<(), TestCaseError> {
    let whole = read(input);
    if let Ok(Some((value, length))) = &whole {
        prop_assert!(*length <= input.len());
        prop_assert!(
            room(value) <= input.len() / 3 + 1,
            "more is reserved than {} bytes can fill",
            input.len()
        );
    }
    // What is said of a beginning is not taken back when more comes.
    for cut in 0..input.len() {
        let early = read(&input[..cut]);
        if early != Ok(None) {
            prop_assert_eq!(same(&early), same(&whole), "cut at {}", cut);
            break;
        }
    }
    Ok(())
}

/// As text, since not every number equals itself.
fn same(outcome: &Result<Option<(Value, usize)>, Garbage>) -> String {
    format!("{outcome:?}")
}

/// For how many values there is room in the widest part of `value`.
fn room(value: &Value) -> usize {
    match value {
        Value::Array(elements) | Value::Push(elements) => {
            elements.iter().map(room).fold(elements.capacity(), usize::max)
        }
        _ => 1,
    }
}

proptest! {
    /// Goal: pieces in which replies arrive do not change what they mean.
    #[test]
    fn replies_cut_anywhere_are_read_alike(
        replies in prop::collection::vec(reply(), 1..5), cuts in prop::collection::vec(any::<Index>(), 0..8)
    ) {
        let (bytes, values): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        let stream = bytes.concat();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        ends.push(stream.len());
        ends.sort_unstable();
        let (mut from, mut found) = (0, Vec::new());
        for end in ends {
            while let Some((value, length)) = read(&stream[from..end]).unwrap() {
                found.push(value);
                from += length;
            }
        }
        prop_assert_eq!(found, values);
        prop_assert_eq!(from, stream.len());
    }

    #[test]
    fn a_damaged_reply_is_read_within_bounds_or_refused(
        (mut bytes, _) in reply(), damages in prop::collection::vec(damage(), 1..5)
    ) {
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        check(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_within_bounds_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }

    #[test]
    fn protocol_like_bytes_are_read_within_bounds_or_refused(text in "([*$%>~=!:+,(#_-][0-9-]{0,4}\r\n){0,12}") {
        check(text.as_bytes())?;
    }
}
