//! Who may do what, and what the others are told.

use reqwest::Method;
use uuid::Uuid;

use super::*;

#[tokio::test]
async fn each_token_opens_its_own_doors_only() {
    let service = Service::start().await;
    let study = service.study(OUTSIDE).await;
    let (node, node_token) = service.node().await;
    let (other, _) = service.node().await;
    let join = service.join_token().await;
    let sha = "0".repeat(64);
    let registration = serde_json::to_value(registration()).expect("plain");
    let none = serde_json::json!({"workers": []});
    let batch = serde_json::json!({"spool": Uuid::new_v4(), "reports": []});
    // Status by caller: none, admin, the node, a join token.
    let doors: Vec<(Method, String, Option<&serde_json::Value>, [u16; 4])> = vec![
        (Method::GET, "/studies".into(), None, [401, 200, 403, 403]),
        (Method::GET, format!("/studies/{}", study.id), None, [401, 200, 403, 403]),
        (Method::POST, format!("/studies/{}:pause", study.id), None, [401, 200, 403, 403]),
        (Method::GET, format!("/studies/{}/events", study.id), None, [401, 200, 403, 403]),
        (Method::GET, "/cluster".into(), None, [401, 200, 403, 403]),
        (Method::GET, "/nodes".into(), None, [401, 200, 403, 403]),
        (Method::POST, "/nodes".into(), None, [401, 200, 403, 403]),
        (Method::POST, "/login-links".into(), None, [401, 200, 403, 403]),
        (Method::POST, "/nodes/register".into(), Some(&registration), [401, 403, 200, 200]),
        (Method::GET, format!("/nodes/{node}/desired"), None, [401, 403, 200, 403]),
        (Method::GET, format!("/nodes/{other}/desired"), None, [401, 403, 403, 403]),
        (Method::POST, format!("/nodes/{node}/heartbeat"), Some(&none), [401, 403, 204, 403]),
        (Method::POST, format!("/nodes/{other}/heartbeat"), Some(&none), [401, 403, 403, 403]),
        (Method::POST, format!("/nodes/{node}/reports"), Some(&batch), [401, 403, 200, 403]),
        (Method::POST, format!("/nodes/{other}/reports"), Some(&batch), [401, 403, 403, 403]),
        (Method::POST, format!("/nodes/{other}:drain"), None, [401, 200, 403, 403]),
        (Method::GET, format!("/checkpoints/{sha}"), None, [401, 404, 404, 403]),
    ];
    for (method, path, body, expected) in doors {
        let callers = [None, Some(&service.admin), Some(&node_token), Some(&join)];
        for (caller, expected) in callers.into_iter().zip(expected) {
            let mut request = service.bare(method.clone(), &format!("/api/v1{path}"));
            if let Some(token) = caller {
                request = request.bearer_auth(token);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.expect("an answer");
            let status = response.status().as_u16();
            let who = caller.map_or("nobody", |token| token.rsplit_once('_').map_or("", |(kind, _)| kind));
            assert_eq!(status, expected, "{method} {path} by {who}");
            if status == 401 {
                assert_eq!(response.headers()["www-authenticate"], "Bearer");
                problem(response, 401, "unauthorized").await;
            } else if status == 403 {
                problem(response, 403, "forbidden").await;
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_token_is_refused_whatever_it_looks_like() {
    let service = Service::start().await;
    for value in ["Bearer wrong", "Bearer ", "Bearer", "Basic YTpi", "elastune_admin_x", "Bearer \u{e4}"] {
        let request = service.bare(Method::GET, "/api/v1/studies").header("authorization", value);
        let problem = refused(request, 401, "unauthorized").await;
        assert!(problem.detail.contains("token") || problem.detail.contains("Bearer"), "{}", problem.detail);
    }
    let upper = service.bare(Method::GET, "/api/v1/studies").header("authorization", format!("bearer {}", service.admin));
    assert_eq!(upper.send().await.expect("an answer").status(), 200);
}

#[tokio::test]
async fn a_removed_node_is_refused() {
    let service = Service::start().await;
    let (node, token) = service.node().await;
    service.client.remove_node(node).await.expect("removed");
    service.client.remove_node(node).await.expect("removing twice is no error");
    let agent = service.client.with_token(&token).expect("a client");
    assert_eq!(agent.desired(node, None, 0).await.expect_err("its token is gone").status(), Some(401));
    assert!(service.client.nodes().await.expect("nodes").is_empty());
}

#[tokio::test]
async fn a_login_link_works_once_and_its_cookie_from_the_same_origin_only() {
    let service = Service::start().await;
    let link = service.client.login_link().await.expect("a link");
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a browser");
    let login = || browser.get(format!("{}{}", service.base, link.path)).send();
    let response = login().await.expect("an answer");
    assert_eq!((response.status().as_u16(), &response.headers()["location"]), (303, &reqwest::header::HeaderValue::from_static("/")));
    let cookie = response.headers()["set-cookie"].to_str().expect("text").to_string();
    for part in ["elastune_session=", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert_eq!(response.headers()["cache-control"], "no-store");
    let session = cookie.split(';').next().expect("name and value").to_string();
    problem(login().await.expect("an answer"), 401, "unauthorized").await;
    let person = browser.get(format!("{}{}", service.base, link.path)).header("accept", "text/html,*/*;q=0.8");
    let response = person.send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.headers()["location"].to_str().expect("text")), (303, "/?login=used"));
    assert!(!response.headers().contains_key("set-cookie"));

    let with = |method, site: Option<&str>| {
        let request = service.bare(method, "/api/v1/studies").header("cookie", format!("other=1; {session}"));
        let request = request.header("content-type", "application/yaml").body(OUTSIDE);
        match site {
            Some(site) => request.header("sec-fetch-site", site),
            None => request,
        }
    };
    assert_eq!(with(Method::GET, Some("same-site")).send().await.expect("an answer").status(), 200);
    assert_eq!(with(Method::POST, Some("same-origin")).send().await.expect("an answer").status(), 201);
    refused(with(Method::POST, Some("same-site")), 403, "forbidden").await;
    refused(with(Method::POST, Some("cross-site")), 403, "forbidden").await;
    // A session is no bearer token, and the admin's token is no session.
    let value = session.split_once('=').expect("a value").1;
    refused(service.bare(Method::GET, "/api/v1/studies").bearer_auth(value), 401, "unauthorized").await;
    let admin_cookie = format!("elastune_session={}", service.admin);
    refused(service.bare(Method::GET, "/api/v1/studies").header("cookie", admin_cookie), 401, "unauthorized").await;
}

#[tokio::test]
async fn secrets_are_hashed_at_rest() {
    let service = Service::start().await;
    let (_, token) = service.node().await;
    let link = service.client.login_link().await.expect("a link");
    let rows: Vec<(Vec<u8>, String)> = sqlx::query_as("select hash, t::text from tokens t").fetch_all(&service.pool).await.expect("rows");
    assert!(rows.len() >= 4);
    for (hash, row) in rows {
        assert_eq!(hash.len(), 32);
        for secret in [&service.admin, &token, &link.path] {
            assert!(!row.contains(secret.as_str()));
        }
    }
}
