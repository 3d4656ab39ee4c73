//! The web page, embedded into the binary: files with their headers, and the page itself for every address that it draws.
//! Called by the router for what is not API.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::error::ApiError;
use crate::http::public_path;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Dist;

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>elastune</title>\
<p>This service was built without its web page. To add it: <code>cd web && npm ci && npm run build</code>, then build the service again. \
The REST API works: <a href=\"/docs/\">its description</a>.</p></html>";

const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Whatever no route took.
pub async fn fallback(method: Method, uri: Uri, headers: axum::http::HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path == "api" || path.starts_with("api/") {
        return ApiError::not_found(format!("there is nothing at {}; /docs lists what there is", public_path(&uri))).into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        return ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET works here; the API is under /api/v1")
            .into_response();
    }
    if let Some(file) = Dist::get(path) {
        return serve(path, &file, &headers);
    }
    // The page draws its own addresses, none of which looks like a file.
    if path.rsplit('/').next().is_some_and(|last| last.contains('.')) {
        return ApiError::not_found(format!("there is no file {}", uri.path())).into_response();
    }
    match Dist::get("index.html") {
        Some(page) => serve("index.html", &page, &headers),
        None => secure(Html(NOT_BUILT).into_response()),
    }
}

fn serve(path: &str, file: &rust_embed::EmbeddedFile, request: &axum::http::HeaderMap) -> Response {
    let etag = format!("\"{}\"", hex::encode(&file.metadata.sha256_hash()[..16]));
    // Vite puts the hash of the content into the names of what it puts into assets/.
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let fresh = request.get(header::IF_NONE_MATCH).is_some_and(|seen| seen.as_bytes() == etag.as_bytes());
    let mut response = if fresh { StatusCode::NOT_MODIFIED.into_response() } else { file.data.clone().into_response() };
    let headers = response.headers_mut();
    if let Ok(mime) = HeaderValue::from_str(file.metadata.mimetype()) {
        headers.insert(header::CONTENT_TYPE, mime);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    secure(response)
}

fn secure(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
