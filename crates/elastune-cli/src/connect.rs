//! Which service to speak to, and with which token. Called by `main` for every command that needs a service.

use std::io::ErrorKind;

use anyhow::{Context, Result};
use elastune_api::client::Client;

use crate::args::Connection;
use crate::stack::{admin_token_file, default_folder};

pub fn client(connection: &Connection) -> Result<Client> {
    Ok(Client::new(&connection.server, token(connection)?.as_deref())?)
}

/// A named file, the environment, or what `elastune up` left on this machine; None if there is none of them.
fn token(connection: &Connection) -> Result<Option<String>> {
    if let Some(path) = &connection.token_file {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read --token-file {}", path.display()))?;
        return Ok(Some(text.trim().to_string()));
    }
    if let Ok(token) = std::env::var("ELASTUNE_TOKEN") {
        return Ok(Some(token));
    }
    let path = admin_token_file(&default_folder());
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_string())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}
