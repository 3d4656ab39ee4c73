//! The language of `constraints`: comparisons over parameters, joined by and, or, not. Parsed by `validate` and by every searcher.
//!
//! ```text
//! channels <= 48 or lr < 0.05
//! not (optimizer == "adam" and lr * batch_size > 10)
//! ```
//!
//! A parameter that its condition leaves out makes every comparison it takes part in *unknown*, and a constraint is broken
//! only where it is certainly false (Kleene's three values), so `x < 1` and `not (x >= 1)` both hold without `x`.

mod parse;
#[cfg(test)]
mod tests;

use crate::model::space::{Domain, ParamValue, Params, SearchSpace};

/// Longest constraint, in bytes.
pub const MAX_BYTES: usize = 500;
/// Deepest nesting of parentheses, `not` and `-`.
pub const MAX_DEPTH: usize = 32;

/// A parsed constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint(Expr);

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Number(f64),
    Text(String),
    Bool(bool),
    Name(String),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// What an expression gives before any value is known. `Any`: a categorical whose values are of several kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bool,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    /// Rests on a parameter that is absent.
    Unknown,
    Number(f64),
    Text(&'a str),
    Bool(bool),
}

impl Constraint {
    /// Errors: a sentence that says what is wrong and at which character.
    pub fn parse(text: &str) -> Result<Constraint, String> {
        parse::parse(text).map(Constraint)
    }

    /// Whether every name is a parameter and every operator gets what it works on; if not, a sentence.
    pub fn check(&self, space: &SearchSpace) -> Result<(), String> {
        match self.0.kind(space)? {
            Kind::Bool => Ok(()),
            _ => Err("must be a comparison, such as 'channels <= 48'".into()),
        }
    }

    /// False only where it is certainly broken.
    pub fn holds(&self, params: &Params) -> bool {
        self.0.value(params) != Value::Bool(false)
    }
}

impl Expr {
    fn kind(&self, space: &SearchSpace) -> Result<Kind, String> {
        let want = |part: &Expr, wanted: Kind, whose: &str| match part.kind(space)? {
            kind if kind == wanted => Ok(()),
            kind => Err(format!("{whose} needs {} on each side, not {}", wanted.words(), kind.words())),
        };
        match self {
            Expr::Number(_) => Ok(Kind::Number),
            Expr::Text(_) => Ok(Kind::Text),
            Expr::Bool(_) => Ok(Kind::Bool),
            Expr::Name(name) => match space.get(name) {
                Some(parameter) => Ok(domain_kind(&parameter.domain)),
                None => Err(super::nearest::unknown("parameter", name, space.keys().map(String::as_str))),
            },
            Expr::Not(part) => want(part, Kind::Bool, "'not'").map(|()| Kind::Bool),
            Expr::Negate(part) => want(part, Kind::Number, "'-'").map(|()| Kind::Number),
            Expr::Binary(op, left, right) => {
                let whose = format!("'{}'", op.word());
                match op {
                    Op::Or | Op::And => {
                        want(left, Kind::Bool, &whose)?;
                        want(right, Kind::Bool, &whose)?;
                        Ok(Kind::Bool)
                    }
                    Op::Equal | Op::NotEqual => {
                        let (left, right) = (left.kind(space)?, right.kind(space)?);
                        if left == right || left == Kind::Any || right == Kind::Any {
                            Ok(Kind::Bool)
                        } else {
                            Err(format!("{whose} compares {} with {}", left.words(), right.words()))
                        }
                    }
                    Op::Less | Op::AtMost | Op::Greater | Op::AtLeast => {
                        want(left, Kind::Number, &whose)?;
                        want(right, Kind::Number, &whose)?;
                        Ok(Kind::Bool)
                    }
                    Op::Add | Op::Subtract | Op::Multiply | Op::Divide => {
                        want(left, Kind::Number, &whose)?;
                        want(right, Kind::Number, &whose)?;
                        Ok(Kind::Number)
                    }
                }
            }
        }
    }

    fn value<'a>(&'a self, params: &'a Params) -> Value<'a> {
        match self {
            Expr::Number(number) => Value::Number(*number),
            Expr::Text(text) => Value::Text(text),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Name(name) => match params.get(name) {
                None => Value::Unknown,
                Some(ParamValue::Bool(truth)) => Value::Bool(*truth),
                Some(ParamValue::Text(text)) => Value::Text(text),
                Some(ParamValue::Int(number)) => Value::Number(*number as f64),
                Some(ParamValue::Float(number)) => Value::Number(*number),
            },
            Expr::Not(part) => match part.value(params) {
                Value::Bool(truth) => Value::Bool(!truth),
                _ => Value::Unknown,
            },
            Expr::Negate(part) => match part.value(params) {
                Value::Number(number) => Value::Number(-number),
                _ => Value::Unknown,
            },
            Expr::Binary(op, left, right) => op.apply(left.value(params), right.value(params)),
        }
    }
}

impl Op {
    fn word(self) -> &'static str {
        match self {
            Op::Or => "or",
            Op::And => "and",
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::Less => "<",
            Op::AtMost => "<=",
            Op::Greater => ">",
            Op::AtLeast => ">=",
            Op::Add => "+",
            Op::Subtract => "-",
            Op::Multiply => "*",
            Op::Divide => "/",
        }
    }

    fn apply<'a>(self, left: Value<'a>, right: Value<'a>) -> Value<'a> {
        use Value::{Bool, Number, Unknown};
        match (self, left, right) {
            (Op::Or, Bool(true), _) | (Op::Or, _, Bool(true)) => Bool(true),
            (Op::Or, Bool(false), Bool(false)) => Bool(false),
            (Op::And, Bool(false), _) | (Op::And, _, Bool(false)) => Bool(false),
            (Op::And, Bool(true), Bool(true)) => Bool(true),
            (Op::Or | Op::And, _, _) | (_, Unknown, _) | (_, _, Unknown) => Unknown,
            (Op::Equal, left, right) => Bool(left == right),
            (Op::NotEqual, left, right) => Bool(left != right),
            (op, Number(a), Number(b)) => match op {
                Op::Less => Bool(a < b),
                Op::AtMost => Bool(a <= b),
                Op::Greater => Bool(a > b),
                Op::AtLeast => Bool(a >= b),
                Op::Add => Number(a + b),
                Op::Subtract => Number(a - b),
                Op::Multiply => Number(a * b),
                Op::Divide => Number(a / b),
                Op::Or | Op::And | Op::Equal | Op::NotEqual => Unknown,
            },
            _ => Unknown,
        }
    }
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::Bool => "a comparison",
            Kind::Any => "a parameter whose values are of several kinds",
        }
    }
}

fn domain_kind(domain: &Domain) -> Kind {
    let Domain::Categorical { values } = domain else { return Kind::Number };
    let kind = |value: &ParamValue| match value {
        ParamValue::Bool(_) => Kind::Bool,
        ParamValue::Int(_) | ParamValue::Float(_) => Kind::Number,
        ParamValue::Text(_) => Kind::Text,
    };
    let mut kinds = values.iter().map(kind);
    let first = kinds.next().unwrap_or(Kind::Any);
    if kinds.all(|kind| kind == first) { first } else { Kind::Any }
}
