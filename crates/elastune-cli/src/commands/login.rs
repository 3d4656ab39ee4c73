//! `elastune login`. Called by `main`, and by the stack for its own link.

use std::process::ExitCode;

use anyhow::{Context, Result};
use elastune_api::client::Client;
use serde::Serialize;

use crate::args::Format;
use crate::output::{Table, line, show};

#[derive(Debug, Serialize)]
struct Link {
    url: String,
    expires: elastune_core::time::Time,
}

pub async fn run(client: &Client, format: Format) -> Result<ExitCode> {
    let link = draw(client).await?;
    match format {
        Format::Table => line(link.url)?,
        _ => show(format, &link, || {
            let mut table = Table::new(["url"]);
            table.row([link.url.clone()]);
            table
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An address that logs a browser in, once.
pub async fn url(client: &Client) -> Result<String> {
    Ok(draw(client).await?.url)
}

async fn draw(client: &Client) -> Result<Link> {
    let link = client.login_link().await.context("cannot make a login link")?;
    Ok(Link { url: format!("{}{}", client.server(), link.path), expires: link.expires })
}
