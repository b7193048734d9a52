//! One column of a row group: its values, and where there are none.

use super::thrift::{Struct, varint};

/// Physical types of Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    I32 = 1,
    I64 = 2,
    F64 = 5,
    Text = 6,
}

/// How often a value stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurs {
    Once,
    AtMostOnce,
    Often,
}

/// Codec and encodings, as the format numbers them.
const ZSTD: i32 = 6;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
/// Level of compression: the default of zstd.
const LEVEL: i32 = 3;

/// Levels of one bit, as runs.
#[derive(Clone, Debug, Default)]
struct Levels {
    runs: Vec<(u8, u64)>,
}

impl Levels {
    fn push(&mut self, level: u8) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == level => *count += 1,
            _ => self.runs.push((level, 1)),
        }
    }

    /// In a page: the length of what follows, then runs of the RLE / bit-packing hybrid.
    fn write(&self, page: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        for (level, count) in &self.runs {
            varint(&mut bytes, count << 1);
            bytes.push(*level);
        }
        page.extend((bytes.len() as u32).to_le_bytes());
        page.extend(bytes);
    }
}

/// A column that is being filled.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub name: &'static str,
    pub of: Type,
    pub occurs: Occurs,
    entries: u64,
    defined: Levels,
    repeated: Levels,
    values: Vec<u8>,
}

impl Column {
    pub fn new(name: &'static str, of: Type, occurs: Occurs) -> Self {
        let (defined, repeated) = (Levels::default(), Levels::default());
        Self { name, of, occurs, entries: 0, defined, repeated, values: Vec::new() }
    }

    pub fn i32(&mut self, value: Option<u32>) {
        // Counts of tokens and requests are far below 2^31.
        self.value(value.map(|value| value.cast_signed().to_le_bytes()));
    }

    pub fn i64(&mut self, value: u64) {
        self.maybe_i64(Some(value));
    }

    pub fn maybe_i64(&mut self, value: Option<u64>) {
        self.value(value.map(|value| value.cast_signed().to_le_bytes()));
    }

    pub fn f64(&mut self, value: Option<f64>) {
        self.value(value.map(f64::to_le_bytes));
    }

    pub fn text(&mut self, value: Option<&str>) {
        self.value(value.map(|text| {
            let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
            bytes.extend(text.as_bytes());
            bytes
        }));
    }

    fn value(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        self.entries += 1;
        self.defined.push(u8::from(bytes.is_some()));
        self.values.extend(bytes.as_ref().map_or(&[][..], |bytes| bytes.as_ref()));
    }

    /// A list of a row.
    pub fn list(&mut self, values: &[u32]) {
        if values.is_empty() {
            self.entries += 1;
            self.defined.push(0);
            self.repeated.push(0);
        }
        for (index, value) in values.iter().enumerate() {
            self.entries += 1;
            self.defined.push(1);
            self.repeated.push(u8::from(index > 0));
            self.values.extend(value.to_le_bytes());
        }
    }

    /// The column's elements of the schema: itself, or a list with its two groups.
    pub fn schema(&self) -> Vec<Struct> {
        let repetition = i32::from(self.occurs == Occurs::AtMostOnce);
        let own = |name: &str| Struct::default().i32(1, self.of as i32).i32(3, repetition).text(4, name);
        match (self.occurs, self.of) {
            (Occurs::Often, _) => vec![
                // A group that is annotated as a list (3), of a repeated group (2).
                Struct::default().i32(3, 0).text(4, self.name).i32(5, 1).i32(6, 3),
                Struct::default().i32(3, 2).text(4, "list").i32(5, 1),
                own("element"),
            ],
            (_, Type::Text) => vec![own(self.name).i32(6, 0)],
            _ => vec![own(self.name)],
        }
    }

    /// Writes the column's one page to `file` and gives its metadata; the column is empty then.
    pub fn write(&mut self, file: &mut Vec<u8>, at: u64) -> std::io::Result<Struct> {
        let mut page = Vec::new();
        if self.occurs == Occurs::Often {
            self.repeated.write(&mut page);
        }
        if self.occurs != Occurs::Once {
            self.defined.write(&mut page);
        }
        page.append(&mut self.values);
        let packed = zstd::bulk::compress(&page, LEVEL)?;
        let data = Struct::default().i32(1, self.entries as i32).i32(2, PLAIN).i32(3, RLE).i32(4, RLE);
        let head = Struct::default()
            .i32(1, 0)
            .i32(2, page.len() as i32)
            .i32(3, packed.len() as i32)
            .inner(5, data)
            .finish();
        let offset = (at + file.len() as u64).cast_signed();
        let path: &[&str] =
            if self.occurs == Occurs::Often { &[self.name, "list", "element"] } else { &[self.name] };
        let meta = Struct::default()
            .i32(1, self.of as i32)
            .i32s(2, &[PLAIN, RLE])
            .texts(3, path)
            .i32(4, ZSTD)
            .i64(5, self.entries.cast_signed())
            .i64(6, (head.len() + page.len()) as i64)
            .i64(7, (head.len() + packed.len()) as i64)
            .i64(9, offset);
        file.extend(head);
        file.extend(packed);
        *self = Self::new(self.name, self.of, self.occurs);
        Ok(Struct::default().i64(2, offset).inner(3, meta))
    }
}
