//! `elastune node ...` and `elastune cluster`. Called by `main`.

use std::process::ExitCode;

use anyhow::Result;
use elastune_api::client::Client;
use elastune_api::cluster::{Cluster, JoinRequest, Node};
use elastune_core::model::ids::NodeId;

use crate::Usage;
use crate::args::{Format, NodeCommand};
use crate::output::{Table, age, line, show, word};

pub async fn run(client: &Client, format: Format, command: NodeCommand) -> Result<ExitCode> {
    match command {
        NodeCommand::Join => {
            let token = client.join_token(&JoinRequest::default()).await?;
            match format {
                Format::Table => line(&token.command)?,
                _ => show(format, &token, || {
                    let mut table = Table::new(["token", "command"]);
                    table.row([token.token.clone(), token.command.clone()]);
                    table
                })?,
            }
        }
        NodeCommand::Ls => {
            let nodes = client.nodes().await?;
            show(format, &nodes, || list(&nodes))?;
        }
        NodeCommand::Drain { node } => verb(client, format, &node, "drain").await?,
        NodeCommand::Cordon { node } => verb(client, format, &node, "cordon").await?,
        NodeCommand::Uncordon { node } => verb(client, format, &node, "uncordon").await?,
        NodeCommand::Rm { node } => {
            client.remove_node(find(client, &node).await?).await?;
            eprintln!("removed {node}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn verb(client: &Client, format: Format, node: &str, verb: &str) -> Result<()> {
    let node = client.node_verb(find(client, node).await?, verb).await?;
    show(format, &node, || list(std::slice::from_ref(&node)))
}

/// A node by its id or its name.
async fn find(client: &Client, name: &str) -> Result<NodeId> {
    if let Ok(id) = name.parse() {
        return Ok(NodeId(id));
    }
    let nodes = client.nodes().await?;
    match nodes.iter().filter(|node| node.name == name).collect::<Vec<_>>()[..] {
        [node] => Ok(node.id),
        [] => Err(Usage(format!("no node is called `{name}`; `elastune node ls` lists them")).into()),
        _ => Err(Usage(format!("several nodes are called `{name}`; name one by its id, from `elastune node ls`")).into()),
    }
}

fn list(nodes: &[Node]) -> Table {
    let mut table = Table::new(["name", "state", "devices", "address", "seen", "id"]);
    for node in nodes {
        let kinds: Vec<_> = node.devices.iter().map(|d| d.name.clone()).collect();
        let devices = match kinds.first() {
            Some(first) if kinds.iter().all(|k| k == first) => format!("{} x {first}", kinds.len()),
            _ => kinds.join(", "),
        };
        table.row([
            node.name.clone(),
            word(&node.state),
            devices,
            node.address.clone(),
            format!("{} ago", age(node.last_seen)),
            node.id.to_string(),
        ]);
    }
    table
}

pub async fn cluster(client: &Client, format: Format) -> Result<ExitCode> {
    let cluster = client.cluster().await?;
    show(format, &cluster, || devices(&cluster))?;
    if format == Format::Table {
        line(format!(
            "{} of {} devices in use, {} trials waiting, plan {}",
            cluster.devices_in_use, cluster.devices, cluster.waiting_trials, cluster.plan
        ))?;
        if let Some(problem) = &cluster.problem {
            line(format!("the newest decision was refused: {problem}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn devices(cluster: &Cluster) -> Table {
    let mut table = Table::new(["node", "device", "kind", "trial", "rank"]);
    for node in &cluster.nodes {
        for device in &node.devices {
            let here = cluster.occupants.iter().filter(|o| o.node == node.id && o.device == device.index);
            let mut free = true;
            for o in here {
                free = false;
                let part = if o.parts > 1 { format!(" (1/{})", o.parts) } else { String::new() };
                let switching = if o.switching { ", switching" } else { "" };
                table.row([
                    node.name.clone(),
                    device.index.to_string(),
                    device.name.clone(),
                    format!("{}/{}{part}{switching}", o.study_name, o.trial_number),
                    o.rank.to_string(),
                ]);
            }
            if free {
                table.row([node.name.clone(), device.index.to_string(), device.name.clone(), "-".into(), "-".into()]);
            }
        }
    }
    table
}
