//! Each kind of reply, read whole, in pieces and damaged.

mod any;

use super::*;

fn text(text: &'static str) -> Value {
    Value::Text(Bytes::from_static(text.as_bytes()))
}

fn samples() -> Vec<(&'static [u8], Value)> {
    vec![
        (b"+OK\r\n", Value::Okay),
        (b"+PONG\r\n", text("PONG")),
        (b"-ERR no\r\n", Value::Error(Bytes::from_static(b"ERR no"))),
        (b"!5\r\nERR x\r\n", Value::Error(Bytes::from_static(b"ERR x"))),
        (b":-3\r\n", Value::Integer(-3)),
        (b",1763240000000000\r\n", Value::Double(1_763_240_000_000_000.0)),
        (b",inf\r\n", Value::Double(f64::INFINITY)),
        (b"#t\r\n", Value::Boolean(true)),
        (b"_\r\n", Value::Null),
        (b"$-1\r\n", Value::Null),
        (b"*-1\r\n", Value::Null),
        (b"(12345678901234567890\r\n", text("12345678901234567890")),
        (b"$2\r\nhi\r\n", text("hi")),
        (b"$0\r\n\r\n", text("")),
        (b"=6\r\ntxt:hi\r\n", text("hi")),
        (b"*2\r\n:1\r\n*1\r\n_\r\n", Value::Array(vec![Value::Integer(1), Value::Array(vec![Value::Null])])),
        (b"%1\r\n+a\r\n:1\r\n", Value::Array(vec![text("a"), Value::Integer(1)])),
        (b"~1\r\n:1\r\n", Value::Array(vec![Value::Integer(1)])),
        (b">1\r\n+x\r\n", Value::Push(vec![text("x")])),
    ]
}

#[test]
fn every_kind_of_reply_is_read() {
    for (input, value) in samples() {
        assert_eq!(read(input), Ok(Some((value, input.len()))), "{input:?}");
    }
}

#[test]
fn a_reply_cut_anywhere_asks_for_more() {
    for (input, _) in samples() {
        for cut in 0..input.len() {
            assert_eq!(read(&input[..cut]), Ok(None), "{:?}", &input[..cut]);
        }
    }
}

#[test]
fn what_follows_a_reply_is_left_alone() {
    assert_eq!(read(b":1\r\n:2\r\n"), Ok(Some((Value::Integer(1), 4))));
}

#[test]
fn huge_claims_are_refused_before_anything_is_reserved() {
    for claim in [
        "$65537\r\n",
        "$99999999999999999999\r\n",
        "$-2\r\n",
        "*1025\r\n",
        "*4294967296\r\n",
        "%513\r\n",
        ">99999\r\n",
        "$x\r\n",
    ] {
        assert_eq!(read(claim.as_bytes()), Err(Garbage::Length), "{claim:?}");
    }
    assert_eq!(read(&[b'+'; MAX_LINE + 2]), Err(Garbage::Line));
    assert_eq!(read("*1\r\n".repeat(20).as_bytes()), Err(Garbage::Depth));
}

#[test]
fn an_endless_reply_is_cut_off() {
    let one = format!("${MAX_BULK}\r\n{}\r\n", "x".repeat(MAX_BULK));
    let endless = format!("*1024\r\n{}", one.repeat(17));
    assert_eq!(read(endless.as_bytes()), Err(Garbage::TooLong));
}

#[test]
fn garbage_is_named() {
    assert_eq!(read(b"HTTP/1.1 400\r\n"), Err(Garbage::Type(b'H')));
    assert_eq!(read(b"$2\r\nhixx"), Err(Garbage::Length));
    assert_eq!(read(b":1x\r\n"), Err(Garbage::Number));
    assert_eq!(read(b"+a\rb\n"), Err(Garbage::Line));
}

#[test]
fn numbers_are_numbers_in_every_form() {
    for value in [Value::Integer(7), Value::Double(7.0), text("7")] {
        assert_eq!(value.number(), Some(7), "{value:?}");
    }
    for value in [Value::Integer(-7), Value::Double(f64::NAN), Value::Double(-1.0), Value::Null] {
        assert_eq!(value.number(), None, "{value:?}");
    }
}

#[test]
fn the_replies_that_fuzzing_starts_from_read_the_same_from_every_prefix() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp");
    for file in std::fs::read_dir(corpus).unwrap() {
        property::check_reply_bytes(&std::fs::read(file.unwrap().path()).unwrap());
    }
    samples().into_iter().for_each(|(input, _)| property::check_reply_bytes(input));
}
