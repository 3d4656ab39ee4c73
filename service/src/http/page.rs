//! Pages of listings: bounded sizes, and tokens that name the last line of a page, so that no line is missed or repeated
//! however the table changes between two pages. Used by the listings.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Result};

/// `limit` of the query, or 100; at most 1,000.
pub fn limit(asked: Option<u32>) -> Result<i64> {
    match asked {
        None => Ok(100),
        Some(limit @ 1..=1000) => Ok(i64::from(limit)),
        Some(limit) => Err(ApiError::field("limit", format!("{limit} is not between 1 and 1000"))),
    }
}

/// A token that holds `key`.
pub fn token(key: &impl Serialize) -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(key)?))
}

/// The key in a token.
pub fn key<T: DeserializeOwned>(token: Option<&str>) -> Result<Option<T>> {
    let Some(token) = token else { return Ok(None) };
    let read = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match read {
        Some(key) => Ok(Some(key)),
        None => Err(ApiError::field("page_token", "is not a token of this listing; start again without one")),
    }
}

/// Splits off what was asked beyond the limit to see whether there is more; `key` of the page's last line becomes the token.
pub fn cut<T, K: Serialize>(mut items: Vec<T>, limit: i64, key: impl Fn(&T) -> K) -> Result<(Vec<T>, Option<String>)> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if items.len() <= limit {
        return Ok((items, None));
    }
    items.truncate(limit);
    let token = items.last().map(|last| token(&key(last))).transpose()?;
    Ok((items, token))
}
