//! Numbers and texts as bytes, little-endian, with the FNV-1a hashes that guard them.

use std::time::Duration;

/// FNV-1a with 128 bits.
pub(crate) fn fnv128(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.raw(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, number: u128) {
        self.raw(&number.to_le_bytes());
    }

    /// Nanoseconds; spans of more than 584 years become that long.
    pub(crate) fn duration(&mut self, span: Duration) {
        self.u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.raw(text.as_bytes());
    }

    pub(crate) fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.raw(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Takes values from a buffer; `None` where it ends or is malformed.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn raw(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.raw(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.raw(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.raw(16)?.try_into().ok().map(u128::from_le_bytes)
    }

    pub(crate) fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.raw(length)?).ok()
    }

    pub(crate) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.raw(1)? {
            [0] => Some(None),
            [1] => read(self).map(Some),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_the_published_ones() {
        assert_eq!(fnv128(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
