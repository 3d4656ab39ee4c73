//! Readers of single fields: each notes what is wrong and gives None, so that the walk goes on and finds the rest.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::FieldError;
use crate::search::nearest;

/// Errors and warnings so far.
#[derive(Debug, Default)]
pub(super) struct Notes(RefCell<(Vec<FieldError>, Vec<FieldError>)>);

impl Notes {
    pub fn into_inner(self) -> (Vec<FieldError>, Vec<FieldError>) {
        self.0.into_inner()
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    value: &'a Value,
    path: String,
    notes: &'a Notes,
}

impl<'a> Field<'a> {
    pub fn root(value: &'a Value, notes: &'a Notes) -> Self {
        Field { value, path: String::new(), notes }
    }

    /// Notes an error; None, so that a reader can return it.
    pub fn wrong<T>(&self, message: impl Into<String>) -> Option<T> {
        self.notes.0.borrow_mut().0.push(FieldError { path: self.path.clone(), message: message.into() });
        None
    }

    pub fn warn(&self, message: impl Into<String>) {
        self.notes.0.borrow_mut().1.push(FieldError { path: self.path.clone(), message: message.into() });
    }

    pub fn value(&self) -> &'a Value {
        self.value
    }

    pub fn object(&self) -> Option<Object<'a>> {
        match self.value {
            Value::Object(map) => Some(Object { field: self.clone(), map, known: Vec::new() }),
            other => self.wrong(format!("must be an object of keys and values, not {}", kind(other))),
        }
    }

    /// The entry of an object, without noting anything.
    pub fn entry(&self, key: &str) -> Option<Field<'a>> {
        let value = self.value.get(key)?;
        Some(Field { value, path: join(&self.path, key), notes: self.notes })
    }

    /// `most`: items, above which it is refused unread.
    pub fn list(&self, most: usize) -> Option<Vec<Field<'a>>> {
        let Value::Array(items) = self.value else {
            return self.wrong(format!("must be a list, not {}", kind(self.value)));
        };
        if items.len() > most {
            return self.wrong(format!("has {} items; at most {most} are allowed", items.len()));
        }
        let item = |(index, value)| Field { value, path: format!("{}[{index}]", self.path), notes: self.notes };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// `most`: characters.
    pub fn text(&self, most: usize) -> Option<&'a str> {
        match self.value {
            Value::String(text) if text.trim().is_empty() => self.wrong("must not be empty"),
            Value::String(text) if text.chars().count() > most => self.wrong(format!("must be at most {most} characters long")),
            Value::String(text) if text.chars().any(char::is_control) => self.wrong("must not contain control characters"),
            Value::String(text) => Some(text),
            other => self.wrong(format!("must be a text, not {}; put it in quotes", kind(other))),
        }
    }

    /// A finite number.
    pub fn float(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => match number.as_f64().filter(|number| number.is_finite()) {
                Some(number) => Some(number),
                None => self.wrong("is too large for a number"),
            },
            other => self.not_a_number("a number", other),
        }
    }

    /// An integer within `range`.
    pub fn int(&self, range: RangeInclusive<i64>) -> Option<i64> {
        let Value::Number(number) = self.value else {
            return self.not_a_number("an integer", self.value);
        };
        // 16.0 is an integer: YAML and JavaScript write them so.
        let whole = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 9e15).map(|value| value as i64);
        match number.as_i64().or(whole) {
            Some(value) if range.contains(&value) => Some(value),
            Some(value) if value < *range.start() => self.wrong(format!("must be at least {}", range.start())),
            Some(_) => self.wrong(format!("must be at most {}", range.end())),
            None if number.as_u64().is_some() => self.wrong(format!("must be at most {}", range.end())),
            None => self.wrong(format!("must be an integer, not {number}")),
        }
    }

    fn not_a_number<T>(&self, wanted: &str, value: &Value) -> Option<T> {
        match value {
            Value::String(text) if text.trim().parse::<f64>().is_ok() => {
                self.wrong(format!("must be {wanted}, not the text \"{}\"; leave the quotes out", text.trim()))
            }
            other => self.wrong(format!("must be {wanted}, not {}", kind(other))),
        }
    }

    /// One of a closed set of names; `planned` ones are known but not built.
    pub fn choice<T: Copy>(&self, what: &str, built: &[(&str, T)], planned: &[&str]) -> Option<T> {
        let Value::String(name) = self.value else {
            return self.wrong(format!("must be a name of a {what}, not {}", kind(self.value)));
        };
        match built.iter().find(|(other, _)| other == name) {
            Some((_, value)) => Some(*value),
            None if planned.contains(&name.as_str()) => {
                let names: Vec<&str> = built.iter().map(|(name, _)| *name).collect();
                self.wrong(format!("'{name}' is not supported in this version; there are {}", names.join(", ")))
            }
            None => self.wrong(nearest::unknown(what, name, built.iter().map(|(name, _)| *name))),
        }
    }
}

/// An object whose keys are asked for one by one; what nobody asked for is unknown.
#[derive(Debug)]
pub(super) struct Object<'a> {
    field: Field<'a>,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// The key's field; None where it is absent or null.
    pub fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        self.map.get(key).filter(|value| !value.is_null()).map(|value| self.child(key, value))
    }

    pub fn required(&mut self, key: &'static str) -> Option<Field<'a>> {
        let found = self.get(key);
        if found.is_none() {
            return Field { value: &Value::Null, path: self.path(key), notes: self.field.notes }.wrong("is missing");
        }
        found
    }

    /// A key that the design knows and this version has not built.
    pub fn planned(&mut self, key: &'static str) {
        if let Some(field) = self.get(key) {
            field.wrong::<()>("is not supported in this version; leave it out");
        }
    }

    /// All keys, where they are the user's own; `most` above which they are refused.
    pub fn entries(self, most: usize) -> Option<Vec<(&'a str, Field<'a>)>> {
        if self.map.len() > most {
            return self.field.wrong(format!("has {} entries; at most {most} are allowed", self.map.len()));
        }
        Some(self.map.iter().map(|(key, value)| (key.as_str(), self.child(key, value))).collect())
    }

    /// Refuses the keys that nobody asked for.
    pub fn close(self) {
        for key in self.map.keys().filter(|key| !self.known.contains(&key.as_str())) {
            let message = nearest::unknown("key", key, self.known.iter().copied());
            Field { value: &Value::Null, path: self.path(key), notes: self.field.notes }.wrong::<()>(message);
        }
    }

    /// The object as a field, for errors about several keys at once.
    pub fn field(&self) -> &Field<'a> {
        &self.field
    }

    fn child(&self, key: &str, value: &'a Value) -> Field<'a> {
        Field { value, path: self.path(key), notes: self.field.notes }
    }

    fn path(&self, key: &str) -> String {
        join(&self.field.path, key)
    }
}

/// Shortened, since keys are the user's.
fn join(path: &str, key: &str) -> String {
    let key: String = key.chars().take(100).collect();
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
