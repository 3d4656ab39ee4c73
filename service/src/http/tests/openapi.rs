//! The document that clients are generated from.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_checked_in_document_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let written = std::fs::read_to_string(path).expect("service/openapi.json");
    let served = crate::http::document().to_pretty_json().expect("JSON");
    assert!(written.trim_end() == served, "service/openapi.json is out of date: elastune-service openapi > service/openapi.json");
}

#[test]
fn every_operation_is_named_once_and_every_reference_resolves() {
    let document: serde_json::Value = serde_json::to_value(crate::http::document()).expect("JSON");
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        assert!(!path.contains('~'), "{path}");
        for (method, operation) in item.as_object().expect("operations").iter().filter(|(_, value)| value.is_object()) {
            let name = operation["operationId"].as_str().unwrap_or_default().to_string();
            assert!(!name.is_empty() && names.insert(name.clone()), "{method} {path}: `{name}` is missing or there twice");
            assert!(operation["responses"]["default"].is_object(), "{method} {path} does not say how it fails");
        }
    }
    fn check(value: &serde_json::Value, schemas: &serde_json::Map<String, serde_json::Value>) {
        match value {
            serde_json::Value::Object(map) => {
                if let Some(name) = map.get("$ref").and_then(|r| r.as_str()?.strip_prefix("#/components/schemas/")) {
                    assert!(schemas.contains_key(name), "{name}");
                }
                map.values().for_each(|value| check(value, schemas));
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| check(value, schemas)),
            _ => {}
        }
    }
    check(&document, schemas);
}

#[tokio::test]
async fn the_document_and_its_page_are_served() {
    let service = Service::start().await;
    let served: serde_json::Value =
        service.bare(reqwest::Method::GET, "/openapi.json").send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(served, serde_json::to_value(crate::http::document()).expect("JSON"));
    let page = service.bare(reqwest::Method::GET, "/docs/").send().await.expect("an answer");
    assert_eq!(page.status(), 200);
    assert!(page.text().await.expect("a page").contains("swagger-ui"));
}
