//! Jute, the encoding of ZooKeeper's protocol: big-endian numbers, and texts and lists with their length.

use crate::node::NodeError;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Appends values to a message.
pub(crate) trait Write {
    fn text(&mut self, text: &str);
    fn buffer(&mut self, bytes: &[u8]);
    fn flag(&mut self, flag: bool);
}

impl Write for BytesMut {
    fn text(&mut self, text: &str) {
        self.buffer(text.as_bytes());
    }

    fn buffer(&mut self, bytes: &[u8]) {
        self.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.extend_from_slice(bytes);
    }

    fn flag(&mut self, flag: bool) {
        self.put_u8(u8::from(flag));
    }
}

/// Takes values from a message; an error where it ends too soon.
pub(crate) trait Read {
    fn int(&mut self) -> Result<i32, NodeError>;
    fn long(&mut self) -> Result<i64, NodeError>;
    fn flag(&mut self) -> Result<bool, NodeError>;
    fn buffer(&mut self) -> Result<Bytes, NodeError>;
    fn text(&mut self) -> Result<String, NodeError>;
}

impl Read for Bytes {
    fn int(&mut self) -> Result<i32, NodeError> {
        self.try_get_i32().map_err(|_| too_short())
    }

    fn long(&mut self) -> Result<i64, NodeError> {
        self.try_get_i64().map_err(|_| too_short())
    }

    fn flag(&mut self) -> Result<bool, NodeError> {
        self.try_get_u8().map(|flag| flag != 0).map_err(|_| too_short())
    }

    /// A length of -1 is a buffer that is missing, which counts as empty.
    fn buffer(&mut self) -> Result<Bytes, NodeError> {
        let length = usize::try_from(self.int()?.max(0)).unwrap_or_default();
        if length > self.len() {
            return Err(too_short());
        }
        Ok(self.split_to(length))
    }

    fn text(&mut self) -> Result<String, NodeError> {
        String::from_utf8(self.buffer()?.to_vec()).map_err(|_| protocol("a text is no UTF-8"))
    }
}

/// What ZooKeeper knows of a znode besides its data; what we do not use is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The change that created it.
    pub(crate) czxid: i64,
    /// The change that wrote its data last.
    pub(crate) mzxid: i64,
    /// When it was created, by the wall clock of the leader, in milliseconds.
    pub(crate) ctime: i64,
    /// When its data was written last, by the wall clock of the leader, in milliseconds.
    pub(crate) mtime: i64,
    /// How often its data was written.
    pub(crate) version: i32,
    pub(crate) children: i32,
}

impl Stat {
    pub(crate) fn read(from: &mut Bytes) -> Result<Self, NodeError> {
        let (czxid, mzxid, ctime, mtime) = (from.long()?, from.long()?, from.long()?, from.long()?);
        let version = from.int()?;
        let (_cversion, _aversion, _owner, _length) = (from.int()?, from.int()?, from.long()?, from.int()?);
        let children = from.int()?;
        let _pzxid = from.long()?;
        Ok(Self { czxid, mzxid, ctime, mtime, version, children })
    }
}

fn too_short() -> NodeError {
    protocol("an answer is too short")
}

pub(crate) fn protocol(reason: &str) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written_and_a_short_message_is_refused() {
        let mut message = BytesMut::new();
        message.put_i64(-7);
        message.text("é");
        message.put_i32(-1);
        let mut read = message.freeze();
        assert_eq!(read.long().unwrap(), -7);
        assert_eq!(Read::text(&mut read).unwrap(), "é");
        assert!(Read::buffer(&mut read).unwrap().is_empty(), "missing is empty");
        assert!(read.int().is_err());
        assert!(Read::buffer(&mut Bytes::from_static(&[0, 0, 0, 9, 1])).is_err(), "longer than the message");
        assert!(Stat::read(&mut Bytes::from_static(&[0; 67])).is_err());
        assert!(Stat::read(&mut Bytes::from_static(&[0; 68])).is_ok());
    }
}
