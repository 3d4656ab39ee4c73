//! "Did you mean": the known name nearest to a mistyped one. Called wherever a name is refused.

/// A sentence that refuses `name` and names the known one that is likely meant, or all of them where there are few.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near = known.iter().map(|other| (distance(name, other), *other)).min();
    // Truncated, so that a hostile name does not fill the answer.
    let shown: String = name.chars().take(64).collect();
    match near {
        Some((edits, other)) if edits <= 2 && edits < other.len() => format!("unknown {what} '{shown}'; did you mean '{other}'?"),
        Some(_) if known.len() <= 12 => format!("unknown {what} '{shown}'; there are {}", known.join(", ")),
        _ => format!("unknown {what} '{shown}'"),
    }
}

/// Levenshtein's distance; names longer than 64 characters are far from everything.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().take(65).collect(), right.chars().take(65).collect());
    if left.len() > 64 || right.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let swap = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = swap.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
