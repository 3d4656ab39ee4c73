//! Durations and sizes as people write them: `1h30m`, `1.5GiB`. Called by the walk over a study.

/// Milliseconds. Errors: a sentence with an example.
pub(super) fn duration_ms(text: &str) -> Result<i64, String> {
    const UNITS: &[(&str, f64)] = &[("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3_600e3), ("d", 86_400e3)];
    let wrong = || "must be a duration with a unit, such as 90s, 30m or 1h30m".to_string();
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let (amount, unit, after) = amount(rest).ok_or_else(wrong)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        total += amount * factor;
        rest = after;
    }
    if total < 1.0 {
        return Err(wrong());
    }
    Ok(total.round() as i64)
}

/// Bytes. Errors: a sentence with an example.
pub(super) fn bytes(text: &str) -> Result<i64, String> {
    const UNITS: &[(&str, f64)] = &[
        ("b", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("tib", 1_099_511_627_776.0),
    ];
    let wrong = || "must be a size with a unit, such as 512MiB or 1GiB".to_string();
    let (amount, unit, after) = amount(text.trim()).ok_or_else(wrong)?;
    let (_, factor) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
    if !after.is_empty() {
        return Err(wrong());
    }
    Ok((amount * factor).round() as i64)
}

/// (number, unit, what follows).
fn amount(text: &str) -> Option<(f64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number = text[..digits].parse::<f64>().ok()?;
    let after = text[digits..].trim_start();
    let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    Some((number, &after[..letters], after[letters..].trim_start()))
}
