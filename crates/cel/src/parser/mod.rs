//! Reads expressions into trees.
//!
//! Two readers share the tokens, the literals, the macros and the builder of trees: [`fast`] reads texts
//! without faults, [`recover`] reads all others.

mod build;
mod fast;
mod grammar;
mod literal;
mod macros;
mod names;
mod recover;
mod stream;
mod syntax;
mod token;
mod visit;

#[cfg(test)]
mod tests;

use crate::ast::{ExprId, Node};
use crate::issues::Source;
use crate::{Ast, Issues, Settings};
use std::sync::Arc;

/// The number of code points that an expression may have.
const CODE_POINTS: usize = 100_000;

/// Parses an expression and expands its macros.
pub(crate) fn parse(text: &str, settings: &Settings) -> Result<Ast, Issues> {
    let source = Arc::new(Source::new(text));
    let size = if text.len() <= CODE_POINTS { text.len() } else { text.chars().count() };
    if size > CODE_POINTS {
        let mut issues = Issues::new(source);
        let message = format!("expression code point size exceeds limit: size: {size}, limit {CODE_POINTS}");
        issues.report_at(-1, -1, message);
        return Err(issues);
    }
    match fast::read(text, settings).map_or_else(|| slow(text, settings, &source), Ok) {
        Ok((nodes, root)) => Ok(Ast { source, nodes, root }),
        Err(issues) => Err(issues.sorted()),
    }
}

/// Reads any text, and finds what is wrong with it.
fn slow(text: &str, settings: &Settings, source: &Arc<Source>) -> Result<(Vec<Node>, ExprId), Issues> {
    let mut issues = Issues::new(source.clone());
    let tree = recover::read(text, &mut issues)
        .and_then(|(syntax, root)| visit::tree(&syntax, root, settings, &mut issues));
    match tree {
        Some(tree) if issues.is_empty() => Ok(tree),
        _ => Err(issues),
    }
}
