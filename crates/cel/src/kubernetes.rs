//! The environments of the Kubernetes API server: what a new expression may use, and what a stored one may.
//!
//! A release reads what the release before it wrote, and the other way round after a downgrade. A new
//! expression may therefore use what the oldest release of the cluster knows; a stored one everything.
//!
//! | since 1. | |
//! |---|---|
//! | 0 | URLs, patterns, lists; lists and maps of one type; texts, release 0 (until 1.29) |
//! | 27 | authorization checks |
//! | 28 | numbers of different types compared, optional types, quantities |
//! | 29 | constants checked with the types; texts, release 2; sets |
//! | 30 | addresses and networks |
//! | 31 | named formats; selectors of authorization checks with their feature gate |
//! | 32 | macros with two variables |
//! | 33 | semantic versions (selectors of devices have release 0 of them in every release) |

use crate::library::{
    authz, cidr, comprehensions, format, ip, jsonpatch, lists, optional, quantity, regex, semver, sets,
    strings, urls,
};
use crate::mutation::MutationTypes;
use crate::{Env, EnvBuilder, MacroSet, Settings, Type, TypeProvider};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The most that an evaluation may cost: about a tenth of a second.
pub const COST_OF_A_CALL: u64 = 1_000_000;

/// The most that all rules of an object may cost, or all expressions of a policy's binding: about a second.
pub const COST_OF_AN_OBJECT: u64 = 10_000_000;

/// The most that the match conditions of a webhook or of a binding may cost for an object: about a quarter of
/// a second.
pub const COST_OF_MATCH_CONDITIONS: u64 = 2_500_000;

/// How many rounds of a loop pass before it is asked whether to end.
pub const ROUNDS_BETWEEN_CHECKS: u64 = 100;

/// The most bytes of the text that a `messageExpression` makes.
pub const MOST_MESSAGE_BYTES: usize = 5 * 1024;

/// The most that a rule of a definition may cost by its estimate.
pub const ESTIMATE_OF_A_RULE: u64 = 10_000_000;

/// The most that all rules of a definition may cost by their estimates.
pub const ESTIMATE_OF_A_DEFINITION: u64 = 100_000_000;

/// A minor release of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32);

impl Release {
    /// Every release: what is stored may have been written by any.
    const ALL: Self = Self(u32::MAX);
}

/// The environments of one use of expressions.
#[derive(Clone)]
pub struct EnvSet {
    /// For expressions that are written: what the release before can read too.
    pub new: Env,
    /// For expressions that are stored, and for configuration files.
    pub stored: Env,
}

impl EnvSet {
    /// The environments that all others extend, for new expressions that `compatibility` can read.
    /// `selectors_in_new` is the feature gate `AuthorizeWithSelectors`, which counts for new expressions
    /// whatever the release.
    ///
    /// They are built once for a release and shared.
    pub fn base(compatibility: Release, selectors_in_new: bool) -> Self {
        static STORED: LazyLock<Env> = LazyLock::new(|| base(Release::ALL, true));
        static NEW: LazyLock<Mutex<HashMap<(Release, bool), Env>>> = LazyLock::new(Mutex::default);
        let mut kept = NEW.lock().unwrap_or_else(PoisonError::into_inner);
        let new = kept
            .entry((compatibility, selectors_in_new))
            .or_insert_with(|| base(compatibility, selectors_in_new))
            .clone();
        Self { new, stored: STORED.clone() }
    }

    /// Larger environments: both get what is added.
    #[must_use]
    pub fn extend(&self, add: impl Fn(EnvBuilder) -> EnvBuilder) -> Self {
        Self { new: add(self.new.extend()).build(), stored: add(self.stored.extend()).build() }
    }

    /// Environments for selectors of devices. They have `cel.bind`, and release 0 of semantic versions where
    /// expressions in general have none yet.
    #[must_use]
    pub fn with_device_libraries(&self) -> Self {
        let builder = |env: &Env| {
            let builder = env.extend().settings(|settings| settings.macros.bindings = true);
            match env.function("semver") {
                Some(_) => builder,
                None => builder.functions(semver::functions(0)),
            }
        };
        Self { new: builder(&self.new).build(), stored: builder(&self.stored).build() }
    }

    /// Environments with the types of apply configurations and JSON patches ([`crate::mutation`]), which only
    /// the policies that change objects have.
    #[must_use]
    pub fn with_patches(&self) -> Self {
        self.extend(|builder| builder.functions(jsonpatch::functions()).types(Arc::new(MutationTypes)))
    }
}

fn base(release: Release, selectors: bool) -> Env {
    let since = |minor| release >= Release(minor);
    let settings = Settings {
        macros: MacroSet { optional: since(28), two_variables: since(32), bindings: false },
        homogeneous_literals: true,
        numeric_comparisons: since(28),
        optional_syntax: since(28),
        checks_literals: since(29),
    };
    let mut builder = Env::standard(settings)
        .functions(urls::functions())
        .functions(regex::functions())
        .functions(lists::functions());
    if since(27) {
        builder = builder.functions(authz::functions());
    }
    if since(28) {
        builder = builder.functions(optional::functions()).functions(quantity::functions());
    }
    builder = builder.functions(strings::functions(if since(29) { 2 } else { 0 }));
    if since(29) {
        builder = builder.functions(sets::functions());
    }
    if since(30) {
        builder =
            builder.functions(ip::functions()).functions(cidr::functions()).types(Arc::new(NetworkTypes));
    }
    if since(31) {
        builder = builder.functions(format::functions());
    }
    if selectors {
        builder = builder.functions(authz::selector_functions());
    }
    if since(32) {
        builder = builder.functions(comprehensions::functions());
    }
    if since(33) {
        builder = builder.functions(semver::functions(1));
    }
    builder.build()
}

/// The types of libraries that expressions can name. The others have names that only errors show.
struct NetworkTypes;

impl TypeProvider for NetworkTypes {
    fn find(&self, name: &str) -> Option<Type> {
        matches!(name, ip::NAME | cidr::NAME).then(|| Type::opaque(name, Vec::new()))
    }

    fn field(&self, _: &str, _: &str) -> Option<Type> {
        None
    }

    fn is_value(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}

#[cfg(test)]
mod tests;
