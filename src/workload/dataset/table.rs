//! Entries that are lengths: logs and traces.

use serde_json::Value;

use super::Entry;
use crate::plan::DatasetFormat;

/// Names of the columns that are understood, in lower case with `_` for blanks.
const ISL: &[&str] = &[
    "isl",
    "input_length",
    "input_tokens",
    "prompt_tokens",
    "prompt_length",
    "contexttokens",
    "context_tokens",
    "request_tokens",
    "num_prefill_tokens",
];
const OSL: &[&str] = &[
    "osl",
    "output_length",
    "output_tokens",
    "completion_tokens",
    "generatedtokens",
    "generated_tokens",
    "response_tokens",
    "num_decode_tokens",
];
const TIME: &[&str] = &["timestamp", "seconds", "time", "at", "arrived_at", "arrival"];

/// Where the columns of a CSV are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    isl: usize,
    osl: Option<usize>,
    time: Option<usize>,
}

impl Columns {
    /// The columns that a header names; a file whose first line is numbers has none.
    pub(super) fn of_header(format: DatasetFormat, line: &str) -> Option<Self> {
        if !matches!(format, DatasetFormat::Lengths | DatasetFormat::Azure | DatasetFormat::Burstgpt) {
            return None;
        }
        Self::named(line)
    }

    fn named(line: &str) -> Option<Self> {
        let names: Vec<String> =
            fields(line).iter().map(|name| name.to_lowercase().replace([' ', '-'], "_")).collect();
        let find = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        Some(Self { isl: find(ISL)?, osl: find(OSL), time: find(TIME) })
    }

    /// What a CSV holds, by its first line.
    pub(super) fn detect(line: &str) -> Option<DatasetFormat> {
        let plain = line.to_lowercase();
        if plain.contains("contexttokens") {
            return Some(DatasetFormat::Azure);
        }
        if plain.contains("request tokens") {
            return Some(DatasetFormat::Burstgpt);
        }
        let are_numbers = fields(line).iter().all(|field| field.parse::<f64>().is_ok());
        (Self::named(line).is_some() || are_numbers).then_some(DatasetFormat::Lengths)
    }

    pub(super) fn entry(&self, line: &str) -> Result<Entry, String> {
        let fields = fields(line);
        let headless = *self == Self::default();
        let osl = if headless { (fields.len() > 1).then_some(1) } else { self.osl };
        let tokens = |column: usize| {
            let text = fields.get(column).ok_or_else(|| format!("it has no column {}", column + 1))?;
            whole(text).ok_or_else(|| format!("`{text}` in column {} is no number of tokens", column + 1))
        };
        let at = match self.time {
            Some(column) => {
                let text = fields.get(column).ok_or("it has no timestamp")?;
                Some(instant(text).ok_or_else(|| format!("`{text}` is no timestamp"))?)
            }
            None => None,
        };
        // A log may lack the length of an answer that never came.
        let is_told = |column: &usize| fields.get(*column).is_some_and(|text| !text.is_empty());
        let osl = osl.filter(is_told).map(tokens).transpose()?;
        Ok(Entry { at, isl: Some(tokens(self.isl)?), osl, ..Entry::default() })
    }
}

/// The fields of a CSV line; quotes may hold commas.
fn fields(line: &str) -> Vec<String> {
    if !line.contains('"') {
        return line.split(',').map(|field| field.trim().to_owned()).collect();
    }
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().into_iter().for_each(|field| field.push(c)),
        }
    }
    fields.into_iter().map(|field| field.trim().to_owned()).collect()
}

fn whole(text: &str) -> Option<u32> {
    if let Ok(tokens) = text.parse::<u32>() {
        return Some(tokens);
    }
    // `512.0`, as tools that keep numbers as floats write it.
    let tokens = text.parse::<f64>().ok()?;
    (tokens.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&tokens)).then_some(tokens as u32)
}

/// Seconds: a number, or a date with a time of day (`2023-11-16 18:17:03.97`).
pub(super) fn instant(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // An offset is the same for a whole trace, and only differences count.
    let time = time.trim_end_matches('Z').split('+').next()?;
    let mut parts = time.split(':');
    let (hour, minute) = (parts.next()?.parse::<f64>().ok()?, parts.next()?.parse::<f64>().ok()?);
    let second = parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok())?;
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013): days from a civil date.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

/// A line of Mooncake's trace; its timestamps are milliseconds.
pub(super) fn mooncake(value: &Value) -> Result<Entry, String> {
    let tokens =
        |name: &str| number(value, &[name]).ok_or_else(|| format!("it has no whole number `{name}`"));
    let at = value.get("timestamp").and_then(Value::as_f64).ok_or("it has no number `timestamp`")?;
    let (isl, osl) = (tokens("input_length")?, tokens("output_length")?);
    let blocks = value.get("hash_ids").and_then(Value::as_array).ok_or("it has no list `hash_ids`")?;
    let blocks: Option<Vec<u64>> = blocks.iter().map(Value::as_u64).collect();
    let blocks = blocks.ok_or("`hash_ids` holds something that is no whole number")?;
    Ok(Entry { at: Some(at / 1e3), isl: Some(isl), osl: Some(osl), blocks, ..Entry::default() })
}

/// A line of a log: an object with lengths by one of their usual names, or within its `usage`.
pub(super) fn logged(value: &Value) -> Result<Entry, String> {
    let isl = number(value, ISL).ok_or("it has no prompt length (`isl`, `input_tokens`, `prompt_tokens`)")?;
    let at = TIME.iter().find_map(|name| value.get(name)).map(|at| match at {
        Value::String(text) => instant(text).ok_or_else(|| format!("`{text}` is no timestamp")),
        at => at.as_f64().ok_or_else(|| format!("`{at}` is no timestamp")),
    });
    Ok(Entry { at: at.transpose()?, isl: Some(isl), osl: number(value, OSL), ..Entry::default() })
}

fn number(value: &Value, names: &[&str]) -> Option<u32> {
    let found = names.iter().find_map(|name| value.get(name).or_else(|| value.get("usage")?.get(name)))?;
    found.as_u64().and_then(|tokens| u32::try_from(tokens).ok())
}
