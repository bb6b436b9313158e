//! Tokens to a tree of nodes: the first document of a stream.

use super::scan::{Peeked, Scanner};
use super::token::{Token, TokenType};
use super::{fault, fault_at};
use crate::decode::{Budget, Error, Fault, Limits};
use object::Text;
use std::collections::HashMap;

/// The longest tag that is kept.
const LONGEST_TAG: usize = 64;

/// The index of a node in [`Document::nodes`].
pub(super) type NodeId = u32;

/// The nodes of a document.
pub(super) struct Document {
    pub(super) nodes: Vec<YamlNode>,
    /// The outermost node; a stream without a document has none.
    pub(super) root: Option<NodeId>,
}

pub(super) struct YamlNode {
    pub(super) content: Content,
    /// The line that it begins on, from zero.
    pub(super) line: u32,
}

/// The content of a node. It is three words large, because a request may have half a million nodes.
pub(super) enum Content {
    /// A plain scalar: its text gives the type.
    Plain(Text),
    /// A quoted or block scalar: a string.
    Quoted(Text),
    /// A scalar with a tag: the tag gives the type.
    TaggedScalar(Box<TaggedScalar>),
    Sequence(Box<[NodeId]>),
    /// Keys and values, alternating.
    Mapping(Box<[NodeId]>),
    Alias(Box<Alias>),
}

pub(super) struct TaggedScalar {
    /// The whole tag, `tag:yaml.org,2002:str`.
    pub(super) tag: String,
    pub(super) text: Text,
}

pub(super) struct Alias {
    pub(super) name: String,
    pub(super) target: NodeId,
}

/// The anchor and the tag before the content of a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: Option<String>,
}

/// Reads the first document of a stream.
pub(super) fn parse(input: &[u8], limits: &Limits) -> Result<Document, Fault> {
    let mut parser = Parser {
        scanner: Scanner::new(input),
        budget: Budget::new(limits),
        most_nodes: limits.values.saturating_mul(2),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        tags: HashMap::new(),
    };
    let root = parser.document()?;
    Ok(Document { nodes: parser.nodes, root })
}

struct Parser<'i> {
    scanner: Scanner<'i>,
    budget: Budget,
    most_nodes: usize,
    nodes: Vec<YamlNode>,
    anchors: HashMap<String, NodeId>,
    /// Tag handles and their prefixes.
    tags: HashMap<String, String>,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Option<NodeId>, Fault> {
        self.scanner.peek()?;
        self.scanner.take()?;
        let root = match self.scanner.peek()?.kind {
            TokenType::StreamEnd => return Ok(None),
            TokenType::Version(..) | TokenType::TagDirective | TokenType::DocumentStart => {
                self.directives()?;
                let token = self.scanner.peek()?;
                if token.kind != TokenType::DocumentStart {
                    return Err(problem(token, "did not find expected <document start>"));
                }
                self.scanner.take()?;
                let token = self.scanner.peek()?;
                match token.kind {
                    TokenType::Version(..)
                    | TokenType::TagDirective
                    | TokenType::DocumentStart
                    | TokenType::DocumentEnd
                    | TokenType::StreamEnd => self.empty(token.start),
                    _ => self.tree()?,
                }
            }
            _ => {
                self.directives()?;
                self.tree()?
            }
        };
        // Later documents are not read, but the token that ends this one is.
        self.scanner.peek()?;
        Ok(Some(root))
    }

    fn directives(&mut self) -> Result<(), Fault> {
        let mut version = false;
        loop {
            let token = self.scanner.peek()?;
            match token.kind {
                TokenType::Version(..) if version => {
                    return Err(problem(token, "found duplicate %YAML directive"));
                }
                TokenType::Version(1, 1) => {
                    version = true;
                    self.scanner.take()?;
                }
                TokenType::Version(..) => return Err(problem(token, "found incompatible YAML document")),
                TokenType::TagDirective => {
                    let Token { text: handle, suffix: prefix, .. } = self.scanner.take()?;
                    if self.tags.insert(handle, prefix).is_some() {
                        return Err(problem(token, "found duplicate %TAG directive"));
                    }
                }
                _ => break,
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            self.tags.entry(handle.into()).or_insert_with(|| prefix.into());
        }
        Ok(())
    }

    fn add(&mut self, content: Content, line: usize) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.nodes.push(YamlNode { content, line: line as u32 });
        id
    }

    /// An empty scalar, which has no token.
    fn empty(&mut self, line: usize) -> NodeId {
        self.add(Content::Plain(Text::default()), line)
    }

    /// A node with its children. Open collections are kept in a list, not on the call stack.
    fn tree(&mut self) -> Result<NodeId, Fault> {
        let mut open: Vec<Frame> = Vec::new();
        let mut found = self.node(NodeContext::Block)?;
        loop {
            // Keys and pairs are nodes too, so there are more nodes than values.
            if self.nodes.len() > self.most_nodes {
                return Err(Fault::new(Error::TooMany(self.most_nodes / 2)));
            }
            let mut complete = match found {
                Found::Leaf(node) => Some(node),
                Found::Collection(frame) => {
                    self.budget.enter()?;
                    open.push(frame);
                    None
                }
            };
            found = loop {
                let Some(frame) = open.last_mut() else {
                    return complete.ok_or_else(|| fault("unknown problem parsing YAML content"));
                };
                frame.children.extend(complete.take());
                match self.advance(frame)? {
                    Step::Empty(line) => complete = Some(self.empty(line)),
                    Step::Node(style) => break self.node(style)?,
                    Step::Pair(line) => break self.collection(TokenType::Key, None, line),
                    Step::End => {
                        self.budget.leave();
                        complete = open.pop().map(|frame| self.close(frame));
                    }
                }
            };
        }
    }

    /// A scalar or an alias, or the start of a collection.
    fn node(&mut self, style: NodeContext) -> Result<Found, Fault> {
        let first = self.scanner.peek()?;
        let line = first.start;
        if first.kind == TokenType::Alias {
            let name = self.scanner.take()?.text;
            let Some(target) = self.anchors.get(&name).copied() else {
                return Err(fault(format!("unknown anchor '{name}' referenced")));
            };
            return Ok(Found::Leaf(self.add(Content::Alias(Alias { name, target }.into()), line)));
        }
        let Properties { anchor, tag } = self.properties(first)?;
        let token = self.scanner.peek()?;
        let in_block = style != NodeContext::Flow;
        match token.kind {
            TokenType::BlockEntry if style == NodeContext::BlockOrIndentless => {
                Ok(self.collection(token.kind, anchor, line))
            }
            TokenType::FlowSequenceStart | TokenType::FlowMappingStart => {
                self.scanner.take()?;
                Ok(self.collection(token.kind, anchor, line))
            }
            TokenType::BlockSequenceStart | TokenType::BlockMappingStart if in_block => {
                self.scanner.take()?;
                Ok(self.collection(token.kind, anchor, line))
            }
            TokenType::Plain | TokenType::Styled => {
                let text = self.scanner.take()?.text.into();
                let content = match tag {
                    Some(tag) => Content::TaggedScalar(TaggedScalar { tag, text }.into()),
                    None if token.kind == TokenType::Plain => Content::Plain(text),
                    None => Content::Quoted(text),
                };
                Ok(Found::Leaf(self.anchored(anchor, content, line)))
            }
            _ if anchor.is_some() || tag.is_some() => {
                let text = Text::default();
                let content = match tag {
                    Some(tag) => Content::TaggedScalar(TaggedScalar { tag, text }.into()),
                    None => Content::Plain(text),
                };
                Ok(Found::Leaf(self.anchored(anchor, content, line)))
            }
            _ => Err(problem(token, "did not find expected node content")),
        }
    }

    /// An anchor and a tag, in either order; `first` is the current token.
    fn properties(&mut self, first: Peeked) -> Result<Properties, Fault> {
        let mut properties = Properties::default();
        let (mut tag, mut tag_at) = (None, first);
        for _ in 0..2 {
            let token = self.scanner.peek()?;
            match token.kind {
                TokenType::Anchor if properties.anchor.is_none() => {
                    properties.anchor = Some(self.scanner.take()?.text)
                }
                TokenType::Tag if tag.is_none() => {
                    tag = Some(self.scanner.take()?);
                    tag_at = token;
                }
                _ => break,
            }
        }
        self.scanner.peek()?;
        if let Some(Token { text: handle, suffix, .. }) = tag {
            let tag = if handle.is_empty() {
                suffix
            } else {
                match self.tags.get(&handle) {
                    None => String::new(),
                    // No known tag is this long, and a long prefix must not be copied for every node.
                    Some(prefix) if prefix.len() + suffix.len() > LONGEST_TAG => "?".into(),
                    Some(prefix) => format!("{prefix}{suffix}"),
                }
            };
            if tag.is_empty() && !handle.is_empty() {
                return Err(problem(tag_at, "found undefined tag handle"));
            }
            properties.tag = Some(tag).filter(|tag| !tag.is_empty());
        }
        Ok(properties)
    }

    fn anchored(&mut self, anchor: Option<String>, content: Content, line: usize) -> NodeId {
        let node = self.add(content, line);
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node);
        }
        node
    }

    /// Opens the collection that this token starts. Its anchor is valid inside it.
    fn collection(&mut self, kind: TokenType, anchor: Option<String>, line: usize) -> Found {
        let node = self.anchored(anchor, Content::Sequence(Box::default()), line);
        Found::Collection(Frame { node, kind, children: Vec::new(), without_value: false })
    }

    fn close(&mut self, frame: Frame) -> NodeId {
        if let Some(node) = self.nodes.get_mut(frame.node as usize) {
            node.content = match frame.kind {
                TokenType::BlockMappingStart | TokenType::FlowMappingStart | TokenType::Key => {
                    Content::Mapping(frame.children.into())
                }
                _ => Content::Sequence(frame.children.into()),
            };
        }
        frame.node
    }

    /// The next step in an open collection.
    fn advance(&mut self, frame: &mut Frame) -> Result<Step, Fault> {
        match (frame.kind, frame.children.len() % 2) {
            (TokenType::BlockSequenceStart, _) => self.block_sequence(),
            (TokenType::BlockMappingStart, 0) => self.block_mapping_key(),
            (TokenType::BlockMappingStart, _) => self.block_mapping_value(),
            (TokenType::FlowSequenceStart, _) => self.flow_sequence(frame.children.is_empty()),
            (TokenType::FlowMappingStart, 0) => self.flow_mapping_key(frame),
            (TokenType::FlowMappingStart, _) => self.flow_mapping_value(frame.without_value),
            (TokenType::Key, 0) if frame.children.is_empty() => self.pair_key(),
            (TokenType::Key, 0) => Ok(Step::End),
            (TokenType::Key, _) => self.pair_value(),
            _ => self.indentless_sequence(),
        }
    }

    fn block_sequence(&mut self) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenType::BlockEntry => {
                self.scanner.take()?;
                self.budget.value()?;
                Ok(match self.scanner.peek()?.kind {
                    TokenType::BlockEntry | TokenType::BlockEnd => Step::Empty(token.end),
                    _ => Step::Node(NodeContext::Block),
                })
            }
            TokenType::BlockEnd => {
                self.scanner.take()?;
                Ok(Step::End)
            }
            _ => Err(problem(token, "did not find expected '-' indicator")),
        }
    }

    /// A sequence as the value of a key, at the column of the key.
    fn indentless_sequence(&mut self) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        if token.kind != TokenType::BlockEntry {
            return Ok(Step::End);
        }
        self.scanner.take()?;
        self.budget.value()?;
        Ok(match self.scanner.peek()?.kind {
            TokenType::BlockEntry | TokenType::Key | TokenType::Value | TokenType::BlockEnd => {
                Step::Empty(token.end)
            }
            _ => Step::Node(NodeContext::Block),
        })
    }

    fn block_mapping_key(&mut self) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            TokenType::Key => {
                self.scanner.take()?;
                self.block_mapping_node(token.end)
            }
            TokenType::BlockEnd => {
                self.scanner.take()?;
                Ok(Step::End)
            }
            _ => Err(problem(token, "did not find expected key")),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Step, Fault> {
        self.budget.value()?;
        let token = self.scanner.peek()?;
        if token.kind != TokenType::Value {
            return Ok(Step::Empty(token.start));
        }
        self.scanner.take()?;
        self.block_mapping_node(token.end)
    }

    /// The node after a key or value indicator that ends on `line`.
    fn block_mapping_node(&mut self, line: usize) -> Result<Step, Fault> {
        Ok(match self.scanner.peek()?.kind {
            TokenType::Key | TokenType::Value | TokenType::BlockEnd => Step::Empty(line),
            _ => Step::Node(NodeContext::BlockOrIndentless),
        })
    }

    fn flow_sequence(&mut self, first: bool) -> Result<Step, Fault> {
        if !self.more_in_flow(first, TokenType::FlowSequenceEnd, "did not find expected ',' or ']'")? {
            return Ok(Step::End);
        }
        self.budget.value()?;
        let token = self.scanner.peek()?;
        if token.kind != TokenType::Key {
            return Ok(Step::Node(NodeContext::Flow));
        }
        self.scanner.take()?;
        Ok(Step::Pair(token.start))
    }

    /// `key: value` as an element of a flow sequence, after the key indicator.
    fn pair_key(&mut self) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        match token.kind {
            // The token is skipped, whether it is a comma or a bracket.
            TokenType::Value | TokenType::FlowEntry | TokenType::FlowSequenceEnd => {
                self.scanner.take()?;
                Ok(Step::Empty(token.end))
            }
            _ => Ok(Step::Node(NodeContext::Flow)),
        }
    }

    fn pair_value(&mut self) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        if token.kind == TokenType::Value {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.kind, TokenType::FlowEntry | TokenType::FlowSequenceEnd) {
                return Ok(Step::Node(NodeContext::Flow));
            }
        }
        Ok(Step::Empty(token.start))
    }

    fn flow_mapping_key(&mut self, frame: &mut Frame) -> Result<Step, Fault> {
        let first = frame.children.is_empty();
        if !self.more_in_flow(first, TokenType::FlowMappingEnd, "did not find expected ',' or '}'")? {
            return Ok(Step::End);
        }
        self.budget.value()?;
        frame.without_value = self.scanner.peek()?.kind != TokenType::Key;
        if frame.without_value {
            return Ok(Step::Node(NodeContext::Flow));
        }
        self.scanner.take()?;
        let token = self.scanner.peek()?;
        Ok(match token.kind {
            TokenType::Value | TokenType::FlowEntry | TokenType::FlowMappingEnd => Step::Empty(token.start),
            _ => Step::Node(NodeContext::Flow),
        })
    }

    fn flow_mapping_value(&mut self, without_value: bool) -> Result<Step, Fault> {
        let token = self.scanner.peek()?;
        if without_value || token.kind != TokenType::Value {
            return Ok(Step::Empty(token.start));
        }
        self.scanner.take()?;
        let token = self.scanner.peek()?;
        Ok(match token.kind {
            TokenType::FlowEntry | TokenType::FlowMappingEnd => Step::Empty(token.start),
            _ => Step::Node(NodeContext::Flow),
        })
    }

    /// Whether another entry follows in a flow collection; consumes the comma before it, or the end.
    fn more_in_flow(&mut self, first: bool, end: TokenType, expected: &str) -> Result<bool, Fault> {
        let mut token = self.scanner.peek()?;
        if !first && token.kind != end {
            if token.kind != TokenType::FlowEntry {
                return Err(problem(token, expected));
            }
            self.scanner.take()?;
            token = self.scanner.peek()?;
        }
        if token.kind == end {
            self.scanner.take()?;
            return Ok(false);
        }
        Ok(true)
    }
}

/// An open collection.
struct Frame {
    node: NodeId,
    /// Its first token; `Key` for a pair in a flow sequence.
    kind: TokenType,
    children: Vec<NodeId>,
    /// The key that was read last has no colon.
    without_value: bool,
}

/// A complete node, or an open collection.
enum Found {
    Leaf(NodeId),
    Collection(Frame),
}

/// The next step in a collection.
enum Step {
    /// An empty scalar on this line.
    Empty(usize),
    Node(NodeContext),
    /// A mapping with one entry, on this line.
    Pair(usize),
    End,
}

/// The context of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeContext {
    Flow,
    Block,
    /// The value of a key: a sequence needs no further indentation.
    BlockOrIndentless,
}

/// The error for an unexpected token. The reference counts lines from zero here.
#[cold]
fn problem(token: Peeked, problem: &str) -> Fault {
    match token.start {
        0 => fault(problem),
        line => fault_at(line, problem),
    }
}
