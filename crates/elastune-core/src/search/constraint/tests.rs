//! The language's grammar, kinds and three truth values.

use proptest::prelude::*;

use super::{Constraint, MAX_BYTES};
use crate::model::space::{ParamValue, Params};

fn params() -> Params {
    Params::from([
        ("channels".to_string(), ParamValue::Int(48)),
        ("lr".to_string(), ParamValue::Float(0.05)),
        ("optimizer".to_string(), ParamValue::Text("adam".into())),
        ("bias".to_string(), ParamValue::Bool(true)),
    ])
}

fn holds(text: &str) -> bool {
    Constraint::parse(text).unwrap_or_else(|message| panic!("{text}: {message}")).holds(&params())
}

#[test]
fn operators_bind_as_in_python() {
    for text in [
        "channels <= 48",
        "lr < 0.05 or channels == 48",
        "not lr < 0.05",
        "channels == 40 + 2 * 4",
        "channels == (10 + 2) * 4",
        "channels - 8 - 8 == 32",
        "96 / 2 / 1 == channels",
        "-channels < -1e1",
        "true or false and false",
        "not false and true",
        "optimizer == \"adam\" and 'sgd' != optimizer",
        "bias",
        "bias == true",
        "lr*1.0E2>4.9and(channels>1)",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in ["channels < 48", "not bias", "lr == 0.05 and not (optimizer == 'adam')", "(true or true) and false", "channels / 0 < 5"] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn what_is_absent_breaks_nothing() {
    for text in [
        "momentum < 0",
        "momentum >= 0",
        "not (momentum < 0)",
        "momentum + channels == 0",
        "momentum < 0 and channels == 48",
        "momentum < 0 or channels == 0",
    ] {
        assert!(holds(text), "{text}");
    }
    assert!(!holds("momentum < 0 and channels == 0"), "the other part is certainly false");
}

#[test]
fn mistakes_name_their_place() {
    for (text, expected) in [
        ("", "expected a value at character 1, where it ends"),
        ("lr <", "expected a value at character 5, where it ends"),
        ("lr < < 3", "expected a parameter, a number or a quoted text at character 6"),
        ("(lr < 3", "expected ')' at character 8, where it ends"),
        ("lr < 3 channels", "expected an operator, such as 'and' at character 8"),
        ("1 < lr < 3", "expected 'and' or 'or' at character 8: comparisons don't chain"),
        ("lr == 'x", "the text that begins at character 7 has no closing quote"),
        ("lr < 1.2.3", "'1.2.3' at character 6 is not a number"),
        ("lr < 1e999", "'1e999' at character 6 is not a number"),
        ("lr = 3", "unexpected '=' at character 4; equality is written '=='"),
        ("lr < 3 && bias", "unexpected '&' at character 8"),
    ] {
        assert_eq!(Constraint::parse(text), Err(expected.to_string()), "{text}");
    }
    assert!(Constraint::parse(&("-".repeat(100) + "1 < 2")).is_err());
    assert!(Constraint::parse(&" ".repeat(MAX_BYTES + 1)).is_err());
}

proptest! {
    /// Whatever is typed: an answer, no panic; and what parses evaluates.
    #[test]
    fn any_text_parses_or_says_why(text in r#"(lr|channels|momentum|bias|and|or|not|[0-9.]{1,4}|[-+*/()<>=!"'é ]|==|<=){0,40}"#) {
        match Constraint::parse(&text) {
            Ok(constraint) => { constraint.holds(&params()); constraint.holds(&Params::new()); }
            Err(message) => prop_assert!(!message.is_empty()),
        }
    }
}
