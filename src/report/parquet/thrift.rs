//! As much of Thrift's compact protocol as the metadata of a Parquet file needs.

/// Types of the compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A structure as bytes; its fields are written with rising numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    pub fn i32(mut self, field: u8, value: i32) -> Self {
        self.head(field, I32);
        varint(&mut self.bytes, zigzag(i64::from(value)));
        self
    }

    pub fn i64(mut self, field: u8, value: i64) -> Self {
        self.head(field, I64);
        varint(&mut self.bytes, zigzag(value));
        self
    }

    pub fn text(mut self, field: u8, value: &str) -> Self {
        self.head(field, BINARY);
        binary(&mut self.bytes, value);
        self
    }

    pub fn inner(mut self, field: u8, value: Struct) -> Self {
        self.head(field, STRUCT);
        self.bytes.extend(value.finish());
        self
    }

    pub fn structs(mut self, field: u8, values: Vec<Struct>) -> Self {
        self.list(field, STRUCT, values.len());
        values.into_iter().for_each(|value| self.bytes.extend(value.finish()));
        self
    }

    pub fn i32s(mut self, field: u8, values: &[i32]) -> Self {
        self.list(field, I32, values.len());
        values.iter().for_each(|value| varint(&mut self.bytes, zigzag(i64::from(*value))));
        self
    }

    pub fn texts(mut self, field: u8, values: &[&str]) -> Self {
        self.list(field, BINARY, values.len());
        values.iter().for_each(|value| binary(&mut self.bytes, value));
        self
    }

    /// The bytes, with the mark of the structure's end.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn list(&mut self, field: u8, of: u8, len: usize) {
        self.head(field, LIST);
        if len < 15 {
            self.bytes.push(((len as u8) << 4) | of);
        } else {
            self.bytes.push(0xf0 | of);
            varint(&mut self.bytes, len as u64);
        }
    }

    /// The head of a field: how far its number is from the last one, and its type.
    fn head(&mut self, field: u8, of: u8) {
        debug_assert!(field > self.last && field - self.last < 16, "fields rise by less than 16");
        self.bytes.push(((field - self.last) << 4) | of);
        self.last = field;
    }
}

fn binary(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Seven bits a byte, the lowest first; the high bit says that more come.
pub(super) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_fields_are_packed_as_the_protocol_says() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            varint(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 0x7f, 0x80, 1, 0xac, 2]);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        let packed = Struct::default().i32(1, 1).text(4, "ab").i32s(6, &[3]).finish();
        assert_eq!(packed, [0x15, 2, 0x38, 2, b'a', b'b', 0x29, 0x15, 6, 0]);
    }
}
