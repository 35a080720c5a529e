//! Records that are JSON values (`--json-lines`).
//!
//! Invariant: objects keep the order of their members; of members with the same name the last one counts.
//!
//! Source: RFC 8259; numbers are read as doubles.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// How deep arrays and objects may be nested: serde_json's limit.
const NESTED_MAX: usize = 127;

impl Json {
    /// The one value that `text` is.
    ///
    /// # Errors
    /// What is wrong, with its byte, as the end of the message `the record ...`. Not all that is refused is wrong: a value may
    /// be nested too deep, or a number too large.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        serde_json::from_slice(text).map_err(|error| {
            let words = error.to_string();
            let what = words.split(" at line ").next().unwrap_or(&words);
            let at = error.column();
            // The library tells its errors apart by their words alone; a test holds them.
            match what {
                "recursion limit exceeded" => format!(
                    "has arrays and objects nested more than {NESTED_MAX} deep, at byte {at}"
                ),
                "number out of range" => {
                    format!("has a number beyond the range of a double, at byte {at}")
                }
                what => format!("is not JSON: {what} at byte {at}"),
            }
        })
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Build)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(value) = values.next_element()? {
            out.push(value);
        }
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(member) = members.next_entry()? {
            out.push(member);
        }
        Ok(Json::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_order() {
        let read = Json::parse(br#" {"b": [1, -2.5e1, true, null], "a": "\u00e9\n"} "#);
        let wanted = Json::Object(vec![
            (
                "b".into(),
                Json::Array(vec![
                    Json::Number(1.0),
                    Json::Number(-25.0),
                    Json::Bool(true),
                    Json::Null,
                ]),
            ),
            ("a".into(), Json::Text("é\n".into())),
        ]);
        assert_eq!(read, Ok(wanted));
        for bad in ["", "{", "[1,]", "nul", "{} x", "\"\u{1}\""] {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000);
        assert!(Json::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn what_is_json_but_refused_is_told_as_what_it_is() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(nested(NESTED_MAX).as_bytes()).is_ok());
        for (text, told) in [
            (
                nested(NESTED_MAX + 1),
                "has arrays and objects nested more than 127 deep, at byte 128",
            ),
            (
                "[1e400]".into(),
                "has a number beyond the range of a double, at byte 6",
            ),
            (
                "[1e400".into(),
                "has a number beyond the range of a double, at byte 6",
            ),
            (
                "{".into(),
                "is not JSON: EOF while parsing an object at byte 1",
            ),
        ] {
            assert_eq!(Json::parse(text.as_bytes()), Err(told.to_string()));
        }
    }
}
