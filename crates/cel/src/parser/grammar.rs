//! The grammar of expressions as a list of steps that [`super::recover`] walks.
//!
//! The steps are those of the parser that the reference has generated from its grammar: where it makes sure
//! that the next token fits, where it looks ahead, and what it puts into its tree. Faults depend on all
//! three.

use super::token::Kind;
use std::sync::LazyLock;

/// A set of kinds of tokens; [`END_OF_RULE`] is in it where a rule can end.
pub(super) type Set = u64;

/// That a rule can end, in a [`Set`].
pub(super) const END_OF_RULE: Set = 1 << 63;

/// The set of one kind.
pub(super) const fn one(kind: Kind) -> Set {
    1 << kind as u8
}

/// `==`, `!=`, `in`, `<`, `<=`, `>=`, `>`.
pub(super) const RELATIONS: Set = 0b1111_1110;
/// `*`, `/`, `%`.
pub(super) const PRODUCTS: Set = one(Kind::Star) | one(Kind::Slash) | one(Kind::Percent);
/// `+`, `-`.
pub(super) const SUMS: Set = one(Kind::Plus) | one(Kind::Minus);

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Start,
    Expr,
    Or,
    And,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldList,
    OptField,
    MapList,
    FieldName,
    OptExpr,
    Literal,
}

/// The number of rules.
pub(super) const RULES: usize = 17;

/// What a part of the tree is: a rule, or which alternative of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A rule whose alternative is not known: a fault came before.
    Rule(Rule),
    MemberExpr,
    Not,
    Negate,
    PrimaryExpr,
    Select,
    MemberCall,
    Index,
    Ident,
    GlobalCall,
    Nested,
    CreateList,
    CreateMap,
    CreateMessage,
    ConstantLiteral,
    SimpleName,
    EscapedName,
    Number,
    Constant,
}

/// What a token or a part is in the part that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Nothing that the tree needs.
    None,
    /// The operand, or the first one.
    Operand,
    /// The second operand, or the further ones of `&&` and `||`.
    Second,
    Third,
    /// The operator, or all of them; the token that opens a call, a list, a map or a message.
    Operator,
    /// `?` before what is optional.
    Optional,
    /// A name, or the names of a message.
    Name,
    LeadingDot,
    /// Arguments, elements, entries or fields: the list of them, and in it every one.
    Items,
    Colon,
    Value,
    Sign,
    Token,
}

/// Choices that depend on more than the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    RelationLoop,
    CalcLoop,
    CalcOperator,
    MemberLoop,
    MemberSuffix,
    Unary,
    NegateLoop,
    Primary,
    ListLoop,
    FieldLoop,
    MapLoop,
    Literal,
    FieldName,
}

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A token of a kind.
    Token(Kind, Label),
    /// A token of a set, which a decision has seen already.
    AnyOf(Set, Label),
    /// A rule, with the least precedence of its operators.
    Call(Rule, u8, Label),
    /// The alternative is known.
    Form(Form),
    /// What was read so far is the first operand of a new part.
    Recurse(Form),
    /// The next round of a rule that is its own first operand begins.
    Round,
    /// The next token has to fit. After a round of a loop, tokens that do not are passed over.
    Sync { round: bool },
    /// On to the given step unless the next token begins the step that follows.
    Unless(usize),
    /// On to one of the steps.
    Choose(Decision, Vec<usize>),
    /// On to the given step.
    Jump(usize),
    /// The rule ends.
    End,
}

/// The steps of all rules.
pub(super) struct Grammar {
    pub(super) steps: Vec<Step>,
    /// The tokens that can begin at every step.
    first: Vec<Set>,
    /// The first steps of the rules.
    entries: [usize; RULES],
}

/// The grammar.
pub(super) static GRAMMAR: LazyLock<Grammar> = LazyLock::new(Grammar::new);

impl Grammar {
    /// The step at which a rule begins.
    pub(super) fn entry(&self, rule: Rule) -> usize {
        self.entries.get(rule as usize).copied().unwrap_or(0)
    }

    /// The tokens that can begin at a step.
    pub(super) fn first(&self, step: usize) -> Set {
        self.first.get(step).copied().unwrap_or(END_OF_RULE)
    }

    fn new() -> Self {
        let mut grammar = Self { steps: Vec::new(), first: Vec::new(), entries: [0; RULES] };
        grammar.expressions();
        grammar.operands();
        grammar.lists();
        grammar.names();
        grammar.find_first();
        grammar
    }

    fn rule(&mut self, rule: Rule, steps: impl FnOnce(&mut Self)) {
        if let Some(entry) = self.entries.get_mut(rule as usize) {
            *entry = self.steps.len();
        }
        steps(self);
        self.steps.push(Step::End);
    }

    fn token(&mut self, kind: Kind, label: Label) {
        self.steps.push(Step::Token(kind, label));
    }

    fn call(&mut self, rule: Rule, label: Label) {
        self.steps.push(Step::Call(rule, 0, label));
    }

    fn sync(&mut self, round: bool) {
        self.steps.push(Step::Sync { round });
    }

    fn set(&mut self, place: usize, step: Step) {
        if let Some(there) = self.steps.get_mut(place) {
            *there = step;
        }
    }

    /// A step that is filled in later.
    fn later(&mut self) -> usize {
        self.steps.push(Step::End);
        self.steps.len() - 1
    }

    /// `( steps )?`
    fn optional(&mut self, steps: impl FnOnce(&mut Self)) {
        self.sync(false);
        let unless = self.later();
        steps(self);
        self.set(unless, Step::Unless(self.steps.len()));
    }

    /// `( steps )*`, where the next token decides.
    fn repeated(&mut self, steps: impl FnOnce(&mut Self)) {
        self.sync(false);
        let unless = self.later();
        steps(self);
        self.sync(true);
        self.steps.push(Step::Jump(unless));
        self.set(unless, Step::Unless(self.steps.len()));
    }

    /// `( steps )*`, where a decision looks further.
    fn looped(&mut self, decision: Decision, steps: impl FnOnce(&mut Self)) {
        self.sync(false);
        let choose = self.later();
        steps(self);
        self.sync(true);
        self.steps.push(Step::Jump(choose));
        self.set(choose, Step::Choose(decision, vec![choose + 1, self.steps.len()]));
    }

    /// `first | second | ...`
    fn choice(&mut self, decision: Decision, alternatives: &[&dyn Fn(&mut Self)]) {
        self.sync(false);
        let choose = self.later();
        let (mut targets, mut jumps) = (Vec::new(), Vec::new());
        for alternative in alternatives {
            targets.push(self.steps.len());
            alternative(self);
            jumps.push(self.later());
        }
        for jump in jumps {
            self.set(jump, Step::Jump(self.steps.len()));
        }
        self.set(choose, Step::Choose(decision, targets));
    }

    fn expressions(&mut self) {
        self.rule(Rule::Start, |g| {
            g.call(Rule::Expr, Label::Operand);
            g.token(Kind::End, Label::None);
        });
        self.rule(Rule::Expr, |g| {
            g.call(Rule::Or, Label::Operand);
            g.optional(|g| {
                g.token(Kind::Question, Label::Operator);
                g.call(Rule::Or, Label::Second);
                g.token(Kind::Colon, Label::None);
                g.call(Rule::Expr, Label::Third);
            });
        });
        for (rule, kind, operand) in [(Rule::Or, Kind::Or, Rule::And), (Rule::And, Kind::And, Rule::Relation)]
        {
            self.rule(rule, |g| {
                g.call(operand, Label::Operand);
                g.repeated(|g| {
                    g.token(kind, Label::Operator);
                    g.call(operand, Label::Second);
                });
            });
        }
        self.rule(Rule::Relation, |g| {
            g.call(Rule::Calc, Label::Operand);
            g.looped(Decision::RelationLoop, |g| {
                g.steps.push(Step::Round);
                g.binary(Rule::Relation, RELATIONS, 2);
            });
        });
        self.rule(Rule::Calc, |g| {
            g.call(Rule::Unary, Label::Operand);
            g.looped(Decision::CalcLoop, |g| {
                g.steps.push(Step::Round);
                g.choice(
                    Decision::CalcOperator,
                    &[&|g: &mut Self| g.binary(Rule::Calc, PRODUCTS, 3), &|g: &mut Self| {
                        g.binary(Rule::Calc, SUMS, 2)
                    }],
                );
            });
        });
    }

    fn binary(&mut self, rule: Rule, operators: Set, precedence: u8) {
        self.steps.push(Step::Recurse(Form::Rule(rule)));
        self.steps.push(Step::AnyOf(operators, Label::Operator));
        self.steps.push(Step::Call(rule, precedence, Label::Second));
    }

    fn operands(&mut self) {
        self.rule(Rule::Unary, |g| {
            g.choice(
                Decision::Unary,
                &[
                    &|g: &mut Self| {
                        g.steps.push(Step::Form(Form::MemberExpr));
                        g.call(Rule::Member, Label::Operand);
                    },
                    &|g: &mut Self| g.signs(Form::Not),
                    &|g: &mut Self| g.signs(Form::Negate),
                ],
            );
        });
        self.rule(Rule::Member, |g| {
            g.steps.push(Step::Form(Form::PrimaryExpr));
            g.call(Rule::Primary, Label::Operand);
            g.looped(Decision::MemberLoop, |g| {
                g.steps.push(Step::Round);
                g.choice(
                    Decision::MemberSuffix,
                    &[
                        &|g: &mut Self| {
                            g.steps.push(Step::Recurse(Form::Select));
                            g.token(Kind::Dot, Label::Operator);
                            g.optional(|g| g.token(Kind::Question, Label::Optional));
                            g.call(Rule::FieldName, Label::Name);
                        },
                        &|g: &mut Self| {
                            g.steps.push(Step::Recurse(Form::MemberCall));
                            g.token(Kind::Dot, Label::None);
                            g.token(Kind::Ident, Label::Name);
                            g.arguments();
                        },
                        &|g: &mut Self| {
                            g.steps.push(Step::Recurse(Form::Index));
                            g.token(Kind::BracketOpen, Label::Operator);
                            g.optional(|g| g.token(Kind::Question, Label::Optional));
                            g.call(Rule::Expr, Label::Second);
                            g.token(Kind::BracketClose, Label::None);
                        },
                    ],
                );
            });
        });
        self.rule(Rule::Primary, |g| {
            g.choice(
                Decision::Primary,
                &[
                    &|g: &mut Self| g.named(Form::Ident),
                    &|g: &mut Self| {
                        g.named(Form::GlobalCall);
                        g.arguments();
                    },
                    &|g: &mut Self| {
                        g.steps.push(Step::Form(Form::Nested));
                        g.token(Kind::ParenOpen, Label::None);
                        g.call(Rule::Expr, Label::Operand);
                        g.token(Kind::ParenClose, Label::None);
                    },
                    &|g: &mut Self| {
                        g.steps.push(Step::Form(Form::CreateList));
                        g.enclosed(Kind::BracketOpen, Rule::ListInit, Kind::BracketClose);
                    },
                    &|g: &mut Self| {
                        g.steps.push(Step::Form(Form::CreateMap));
                        g.enclosed(Kind::BraceOpen, Rule::MapList, Kind::BraceClose);
                    },
                    &|g: &mut Self| {
                        g.named(Form::CreateMessage);
                        g.repeated(|g| {
                            g.token(Kind::Dot, Label::None);
                            g.token(Kind::Ident, Label::Name);
                        });
                        g.enclosed(Kind::BraceOpen, Rule::FieldList, Kind::BraceClose);
                    },
                    &|g: &mut Self| {
                        g.steps.push(Step::Form(Form::ConstantLiteral));
                        g.call(Rule::Literal, Label::Operand);
                    },
                ],
            );
        });
    }

    /// Signs before a member: of `!` the next token tells whether there are more, of `-` the next two do.
    fn signs(&mut self, form: Form) {
        self.steps.push(Step::Form(form));
        self.sync(false);
        let sign = self.steps.len();
        let not = form == Form::Not;
        self.token(if not { Kind::Not } else { Kind::Minus }, Label::Operator);
        self.sync(true);
        let more = self.later();
        if not {
            self.steps.push(Step::Jump(sign));
            self.set(more, Step::Unless(more + 2));
        } else {
            self.set(more, Step::Choose(Decision::NegateLoop, vec![sign, more + 1]));
        }
        self.call(Rule::Member, Label::Operand);
    }

    /// A name, perhaps with a dot before it.
    fn named(&mut self, form: Form) {
        self.steps.push(Step::Form(form));
        self.optional(|g| g.token(Kind::Dot, Label::LeadingDot));
        self.token(Kind::Ident, Label::Name);
    }

    fn arguments(&mut self) {
        self.token(Kind::ParenOpen, Label::Operator);
        self.optional(|g| g.call(Rule::ExprList, Label::Items));
        self.token(Kind::ParenClose, Label::None);
    }

    fn enclosed(&mut self, open: Kind, items: Rule, close: Kind) {
        self.token(open, Label::Operator);
        self.optional(|g| g.call(items, Label::Items));
        self.optional(|g| g.token(Kind::Comma, Label::None));
        self.token(close, Label::None);
    }

    fn lists(&mut self) {
        self.rule(Rule::ExprList, |g| {
            g.call(Rule::Expr, Label::Items);
            g.repeated(|g| {
                g.token(Kind::Comma, Label::None);
                g.call(Rule::Expr, Label::Items);
            });
        });
        self.rule(Rule::ListInit, |g| {
            g.call(Rule::OptExpr, Label::Items);
            g.looped(Decision::ListLoop, |g| {
                g.token(Kind::Comma, Label::None);
                g.call(Rule::OptExpr, Label::Items);
            });
        });
        for (list, item, decision) in [
            (Rule::FieldList, Rule::OptField, Decision::FieldLoop),
            (Rule::MapList, Rule::OptExpr, Decision::MapLoop),
        ] {
            self.rule(list, |g| {
                g.pair(item);
                g.looped(decision, |g| {
                    g.token(Kind::Comma, Label::None);
                    g.pair(item);
                });
            });
        }
    }

    fn pair(&mut self, item: Rule) {
        self.call(item, Label::Items);
        self.token(Kind::Colon, Label::Colon);
        self.call(Rule::Expr, Label::Value);
    }

    fn names(&mut self) {
        self.rule(Rule::OptField, |g| {
            g.optional(|g| g.token(Kind::Question, Label::Optional));
            g.call(Rule::FieldName, Label::Name);
        });
        self.rule(Rule::FieldName, |g| {
            let alternatives: [&dyn Fn(&mut Self); 2] = [
                &|g: &mut Self| {
                    g.steps.push(Step::Form(Form::SimpleName));
                    g.token(Kind::Ident, Label::Name);
                },
                &|g: &mut Self| {
                    g.steps.push(Step::Form(Form::EscapedName));
                    g.token(Kind::EscapedIdent, Label::Name);
                },
            ];
            g.choice(Decision::FieldName, &alternatives);
        });
        self.rule(Rule::OptExpr, |g| {
            g.optional(|g| g.token(Kind::Question, Label::Optional));
            g.call(Rule::Expr, Label::Operand);
        });
        self.rule(Rule::Literal, |g| {
            let number = |kind: Kind| {
                move |g: &mut Self| {
                    g.steps.push(Step::Form(Form::Number));
                    g.optional(|g| g.token(Kind::Minus, Label::Sign));
                    g.token(kind, Label::Token);
                }
            };
            let constant = |kind: Kind| {
                move |g: &mut Self| {
                    g.steps.push(Step::Form(Form::Constant));
                    g.token(kind, Label::Token);
                }
            };
            g.choice(
                Decision::Literal,
                &[
                    &number(Kind::Int),
                    &constant(Kind::Uint),
                    &number(Kind::Double),
                    &constant(Kind::String),
                    &constant(Kind::Bytes),
                    &constant(Kind::True),
                    &constant(Kind::False),
                    &constant(Kind::Null),
                ],
            );
        });
    }

    /// Finds the tokens that can begin at every step; no rule can be empty.
    fn find_first(&mut self) {
        self.first = vec![0; self.steps.len()];
        loop {
            let mut changed = false;
            for (place, step) in self.steps.iter().enumerate().rev() {
                let set = match step {
                    Step::Token(kind, _) => one(*kind),
                    Step::AnyOf(set, _) => *set,
                    Step::Call(rule, ..) => self.first(self.entry(*rule)),
                    Step::Form(_) | Step::Recurse(_) | Step::Round | Step::Sync { .. } => {
                        self.first(place + 1)
                    }
                    Step::Unless(end) => self.first(place + 1) | self.first(*end),
                    Step::Choose(_, targets) => {
                        targets.iter().fold(0, |set, target| set | self.first(*target))
                    }
                    Step::Jump(to) => self.first(*to),
                    Step::End => END_OF_RULE,
                };
                if self.first(place) != set {
                    changed = true;
                    if let Some(there) = self.first.get_mut(place) {
                        *there = set;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }
}
