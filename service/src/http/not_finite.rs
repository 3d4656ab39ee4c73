//! JSON as Python writes it: bare `NaN`, `Infinity` and `-Infinity` become the words that `MetricValue` stores.
//! Used for bodies that carry measurements.

use std::borrow::Cow;

const TOKENS: [(&[u8], &[u8]); 3] = [(b"-Infinity", b"\"-inf\""), (b"Infinity", b"\"inf\""), (b"NaN", b"\"nan\"")];

/// The same JSON with every bare token outside of strings replaced.
pub fn quote(json: &[u8]) -> Cow<'_, [u8]> {
    let mut out: Option<Vec<u8>> = None;
    let (mut at, mut copied, mut in_string) = (0, 0, false);
    while at < json.len() {
        match (in_string, json[at]) {
            (true, b'\\') => at += 1,
            (_, b'"') => in_string = !in_string,
            (false, b'-' | b'I' | b'N') => {
                if let Some((token, word)) = TOKENS.iter().find(|(token, _)| json[at..].starts_with(token)) {
                    let out = out.get_or_insert_default();
                    out.extend_from_slice(&json[copied..at]);
                    out.extend_from_slice(word);
                    at += token.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    match out {
        None => Cow::Borrowed(json),
        Some(mut out) => {
            out.extend_from_slice(&json[copied..]);
            Cow::Owned(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_quoted_and_strings_left_alone() {
        let text = br#"{"NaN": [NaN, Infinity, -Infinity, -1, "Infinity \" NaN", "\\"], "x": NaN}"#;
        let quoted = quote(text);
        let value: serde_json::Value = serde_json::from_slice(&quoted).expect("it is JSON now");
        assert_eq!(value, serde_json::json!({"NaN": ["nan", "inf", "-inf", -1, "Infinity \" NaN", "\\"], "x": "nan"}));
    }

    #[test]
    fn json_without_tokens_is_not_copied() {
        assert!(matches!(quote(br#"{"a": [1.5, "NaN"]}"#), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        #[test]
        fn valid_json_is_never_changed(values: Vec<String>) {
            let text = serde_json::to_vec(&values).expect("strings are JSON");
            assert_eq!(quote(&text).as_ref(), text.as_slice());
        }
    }
}
