//! Checkpoints over HTTP: streamed up and down, refused whole when the bytes are not what they are called.

use futures::TryStreamExt;
use reqwest::Method;
use sha2::{Digest, Sha256};

use super::*;

#[tokio::test]
async fn bytes_come_back_and_lies_are_refused() {
    let service = Service::start().await;
    let (_, token) = service.node().await;
    let agent = service.client.with_token(&token).expect("a client");
    let bytes: Vec<u8> = (0..20_000_003u32).map(|i| (i % 253) as u8).collect();
    let sha256 = hex::encode(Sha256::digest(&bytes));

    let lie = service.ask(Method::PUT, &format!("/checkpoints/{sha256}")).body(bytes[1..].to_vec());
    let told = refused(lie, 422, "hash_mismatch").await;
    assert!(told.detail.contains(&hex::encode(Sha256::digest(&bytes[1..]))));
    refused(service.ask(Method::GET, &format!("/checkpoints/{sha256}")), 404, "not_found").await;

    let chunks = bytes.chunks(100_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let body = reqwest::Body::wrap_stream(futures::stream::iter(chunks));
    let stored = agent.upload_checkpoint(&sha256, body).await.expect("stored");
    assert_eq!((stored.bytes, stored.sha256.as_str()), (bytes.len() as u64, sha256.as_str()));
    let again = service.ask(Method::PUT, &format!("/checkpoints/{sha256}")).body(bytes.clone()).send().await.expect("an answer");
    assert_eq!(again.status(), 200);
    let stream = agent.download_checkpoint(&sha256).await.expect("there");
    let parts: Vec<Vec<u8>> = stream.try_collect().await.expect("readable");
    assert!(parts.concat() == bytes);

    for name in ["short", &sha256.to_uppercase(), "..%2f..%2fetc%2fpasswd"] {
        refused(service.ask(Method::PUT, &format!("/checkpoints/{name}")).body("x"), 400, "invalid_sha256").await;
    }
}
