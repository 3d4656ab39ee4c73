//! Verbs on one thing, `/studies/{id}:pause`. The router takes a parameter only as a whole path segment, so inside of it they are
//! spelled `/studies/{id}/~pause`; here, and nowhere else, one spelling becomes the other. Used by the router and the OpenAPI document.

use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// The router's spelling of a request's address. A request that already has it is sent where nothing is.
pub fn to_router(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let (folder, last) = path.rsplit_once('/')?;
    let inner = if path.contains("/~") {
        "/api/~".to_string()
    } else {
        let (id, verb) = last.split_once(':')?;
        // `studies:validate` and `trials:suggest` are words, which the router knows as they are.
        if !path.starts_with("/api/") || matches!(id, "studies" | "trials") {
            return None;
        }
        format!("{folder}/{id}/~{verb}")
    };
    let mut parts = uri.clone().into_parts();
    let target = match uri.query() {
        Some(query) => format!("{inner}?{query}"),
        None => inner,
    };
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// A user's spelling of a path of the router.
pub fn to_public(path: &str) -> String {
    path.replace("/~", ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(uri: &str) -> String {
        let uri: Uri = uri.parse().expect("a test's address");
        to_router(&uri).unwrap_or(uri).to_string()
    }

    #[test]
    fn only_a_verb_behind_an_id_is_respelled() {
        let id = "0190b6d5-0000-7000-8000-000000000001";
        assert_eq!(routed(&format!("/api/v1/studies/{id}:pause?x=1")), format!("/api/v1/studies/{id}/~pause?x=1"));
        assert_eq!(routed(&format!("/api/v1/studies/{id}/trials:suggest")), format!("/api/v1/studies/{id}/trials:suggest"));
        assert_eq!(routed("/api/v1/studies:validate"), "/api/v1/studies:validate");
        assert_eq!(routed("/api/v1/studies/no-id:pause"), "/api/v1/studies/no-id/~pause");
        assert_eq!(routed("/studies/a:b"), "/studies/a:b");
        assert_eq!(routed(&format!("/api/v1/studies/{id}/~pause")), "/api/~");
        assert_eq!(to_public("/api/v1/studies/{id}/~pause"), "/api/v1/studies/{id}:pause");
    }
}
