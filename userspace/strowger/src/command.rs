//! The operator's commands: drain, disable, enable, release, reload.

use crate::{args::Target, talk::Where};
use anyhow::Result;
use control::admin::client::escape;

/// Says something about a peer, a region or the node.
pub(crate) fn admit(word: &str, target: &Target, node: &Where, json: bool) -> Result<()> {
    let path = match target {
        Target::Peer { name } => format!("/v1/peers/{}/{word}", escape(name)),
        Target::Region { name } => format!("/v1/regions/{}/{word}", escape(name)),
        Target::Node => format!("/v1/node/{word}"),
    };
    tell(&path, node, json)
}

/// Sends calls back to the region of a composite.
pub(crate) fn release(composite: &str, node: &Where, json: bool) -> Result<()> {
    tell(&format!("/v1/composites/{}/release", escape(composite)), node, json)
}

fn tell(path: &str, node: &Where, json: bool) -> Result<()> {
    let answer = node.post(path)?;
    if json {
        println!("{answer}");
    } else {
        println!("{}", answer["done"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Has the configuration read again.
pub(crate) fn reload(dry: bool, node: &Where, json: bool) -> Result<()> {
    let answer = node.post(&format!("/v1/reload?dry={dry}"))?;
    if json {
        println!("{answer}");
        return Ok(());
    }
    let changes = answer["changes"].as_array().cloned().unwrap_or_default();
    changes.iter().for_each(|change| println!("{}", change.as_str().unwrap_or_default()));
    let word = if dry { "would change" } else { "changed" };
    println!("{} thing(s) {word}", changes.len());
    Ok(())
}
