//! The table of a load that moved: percentiles by slice of time against what was in flight.

use super::style::{Ink, Style};
use crate::metrics::Slice;
use crate::metrics::slices::Percentiles;
use crate::report::words;
use crate::units::{Seconds, significant};

/// One line a slice; nothing for a load that did not move.
pub(super) fn table(slices: &[Slice], style: Style) -> String {
    if slices.is_empty() {
        return String::new();
    }
    let heads =
        ["from", "in flight", "req/s", "good/s", "failed", "ttft p50", "p95", "p99", "tpot p50", "p95"];
    let mut rows: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    for slice in slices {
        let figure = |of: Option<Percentiles>, value: fn(Percentiles) -> f64| {
            of.map_or("-".to_owned(), |of| Seconds(value(of)).to_string())
        };
        rows.push(vec![
            Seconds(slice.from).to_string(),
            significant(slice.in_flight),
            significant(slice.requests_per_second),
            significant(slice.goodput),
            words::count(slice.failed.into()),
            figure(slice.ttft, |of| of.p50),
            figure(slice.ttft, |of| of.p95),
            figure(slice.ttft, |of| of.p99),
            figure(slice.tpot, |of| of.p50),
            figure(slice.tpot, |of| of.p95),
        ]);
    }
    // A column of nothing but zeros or dashes says nothing; what does not fit is left out from the right.
    let told = |column: usize| rows[1..].iter().any(|row| !matches!(row[column].as_str(), "0" | "-"));
    let width_of = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut columns: Vec<(usize, usize)> = Vec::new();
    let mut used = 0;
    for column in (0..heads.len()).filter(|&column| column < 2 || told(column)) {
        used += width_of(column) + 2;
        if used > style.width {
            break;
        }
        columns.push((column, width_of(column)));
    }
    let mut out = String::from("\n");
    for (index, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|&(column, width)| format!("  {:>width$}", row[column]));
        let line = cells.collect::<String>();
        out.push_str(&if index == 0 { style.paint(Ink::Faint, &line) } else { line });
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_a_line_and_what_does_not_fit_is_left_out_from_the_right() {
        let percentiles = |p50| Some(Percentiles { n: 40, p50, p95: 2.0 * p50, p99: 3.0 * p50 });
        let slice = |k: u32| Slice {
            from: 5.0 * f64::from(k),
            to: 5.0 * f64::from(k + 1),
            in_flight: 4.0 * f64::from(k) + 0.5,
            completed: 40,
            failed: 0,
            requests_per_second: 8.0,
            goodput: 7.5,
            ttft: percentiles(0.04 * f64::from(k + 1)),
            tpot: percentiles(0.01),
            e2e: None,
        };
        let slices: Vec<Slice> = (0..3).map(slice).collect();
        let text = |width| table(&slices, Style { width, colour: false });
        let lines = [
            "",
            "    from  in flight  req/s  good/s  ttft p50      p95     p99  tpot p50      p95",
            "    0 ms       0.50   8.00    7.50   40.0 ms  80.0 ms  120 ms   10.0 ms  20.0 ms",
            "  5.00 s       4.50   8.00    7.50   80.0 ms   160 ms  240 ms   10.0 ms  20.0 ms",
            "  10.0 s       8.50   8.00    7.50    120 ms   240 ms  360 ms   10.0 ms  20.0 ms",
        ];
        assert_eq!(text(100).lines().collect::<Vec<_>>(), lines);
        assert!(text(60).lines().all(|line| line.chars().count() <= 60) && !text(60).contains("tpot"));
        assert_eq!(table(&[], Style { width: 80, colour: false }), "");
    }
}
