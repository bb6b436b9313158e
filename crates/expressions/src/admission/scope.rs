//! What the expressions of admission may use, with its types.

use super::Expression;
use super::variables::{DeclaredVariables, TYPE_NAME, Variable};
use crate::compiled::must_evaluate_to;
use crate::patches::PatchType;
use crate::{Compiled, Fault, Stage, stage};
use cel::declared::{NamedObject, NamedTypes};
use cel::library::authz;
use cel::types::RuntimeNames;
use cel::{EnvBuilder, EnvSet, Type};
use std::sync::{Arc, LazyLock};

/// The slots of the variables in every environment of admission. Those of the authorizer are the last ones:
/// expressions without an authorizer are evaluated without them.
pub(super) mod slot {
    pub(in crate::admission) const VARIABLES: usize = 5;
    pub(in crate::admission) const COUNT: usize = 8;
    pub(in crate::admission) const WITHOUT_AUTHORIZER: usize = 6;
}

/// The name of a variable that no expression can write: it keeps the slot of one that is not there.
const NOT_THERE: &str = "";

/// The environments of the expressions of one policy, or of the match conditions of webhooks.
pub struct Scope {
    plain: EnvSet,
    authorizing: EnvSet,
    variables: Option<Arc<DeclaredVariables>>,
}

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Says whether something holds.
    Condition,
    /// Makes the message of a condition that does not hold. It has no authorizer.
    Message,
    /// Makes a text for the audit log, or null.
    Annotation,
    /// Is named by other expressions.
    Variable,
}

impl Purpose {
    fn wanted(self) -> &'static [Type] {
        match self {
            Self::Condition => &[Type::Bool],
            Self::Message => &[Type::String],
            Self::Annotation => &[Type::String, Type::Null],
            Self::Variable => &[Type::Any],
        }
    }
}

impl Scope {
    /// The scope of expressions that name no variables of a policy.
    pub fn of_conditions(has_params: bool) -> Self {
        static ENVS: LazyLock<[(EnvSet, EnvSet); 2]> =
            LazyLock::new(|| [false, true].map(|has_params| with_variables(has_params, None)));
        let [without, with] = &*ENVS;
        let (plain, authorizing) = if has_params { with } else { without };
        Self { plain: plain.clone(), authorizing: authorizing.clone(), variables: None }
    }

    /// The scope of the expressions of a policy, which has no variables yet.
    pub fn of_policy(has_params: bool) -> Self {
        let variables = Arc::new(DeclaredVariables::default());
        let (plain, authorizing) = with_variables(has_params, Some(&variables));
        Self { plain, authorizing, variables: Some(variables) }
    }

    /// Compiles an expression.
    pub fn compile(&self, text: &str, purpose: Purpose, stage: Stage) -> Result<Compiled, Fault> {
        let envs = if purpose == Purpose::Message { &self.plain } else { &self.authorizing };
        let wanted = purpose.wanted();
        Compiled::new(stage.of(envs), text, wanted, |found| {
            format!("{} but got {}", must_evaluate_to(wanted), RuntimeNames(found))
        })
    }

    /// Compiles the expression of a mutation, which has the types of patches and an authorizer.
    pub fn compile_mutation(&self, text: &str, ty: PatchType, stage: Stage) -> Result<Compiled, Fault> {
        ty.compile(stage.of(&self.authorizing.with_patches()), text)
    }

    /// Compiles a stored expression, whose fault matters when it is evaluated.
    pub fn compile_stored(&self, text: &str, purpose: Purpose) -> Expression {
        Expression { text: text.into(), compiled: self.compile(text, purpose, Stage::Stored) }
    }

    /// Compiles a variable, which the expressions after it can name.
    pub fn add_variable(&self, name: &str, text: &str, stage: Stage) -> Variable {
        let compiled = self.compile(text, Purpose::Variable, stage);
        if let Some(variables) = &self.variables {
            variables.declare(name, compiled.as_ref().ok().map(Compiled::result_type));
        }
        Variable { name: name.into(), compiled }
    }
}

/// The environments without and with an authorizer.
fn with_variables(has_params: bool, variables: Option<&Arc<DeclaredVariables>>) -> (EnvSet, EnvSet) {
    let plain = REQUEST.extend(|env| {
        let params = if has_params { "params" } else { NOT_THERE };
        let env = env.variable(params, Type::Dyn);
        match variables {
            None => env.variable(NOT_THERE, Type::Dyn),
            Some(variables) => env.types(variables.clone()).variable("variables", Type::object(TYPE_NAME)),
        }
    });
    let authorizing = plain.extend(|env: EnvBuilder| {
        env.variable("authorizer", authz::authorizer_type())
            .variable("authorizer.requestResource", authz::resource_check_type())
    });
    (plain, authorizing)
}

/// The environments of the objects and of the request.
pub(super) static REQUEST: LazyLock<EnvSet> = LazyLock::new(|| {
    let types: [Arc<NamedTypes>; 2] =
        [Arc::new(NamedTypes::new(namespace())), Arc::new(NamedTypes::new(request()))];
    stage::base().extend(|env| {
        let env = env
            .variable("object", Type::Dyn)
            .variable("oldObject", Type::Dyn)
            .variable("namespaceObject", Type::object("kubernetes.Namespace"))
            .variable("request", Type::object("kubernetes.AdmissionRequest"));
        types.iter().fold(env, |env, types| env.types(types.clone()))
    })
});

/// The types of the request, without its objects and its id.
fn request() -> [NamedObject; 4] {
    let text = || Type::String;
    let object = Type::object;
    let texts = || Type::list(Type::String);
    [
        NamedObject {
            name: "kubernetes.AdmissionRequest",
            fields: vec![
                ("kind", object("kubernetes.GroupVersionKind")),
                ("resource", object("kubernetes.GroupVersionResource")),
                ("subResource", text()),
                ("requestKind", object("kubernetes.GroupVersionKind")),
                ("requestResource", object("kubernetes.GroupVersionResource")),
                ("requestSubResource", text()),
                ("name", text()),
                ("namespace", text()),
                ("operation", text()),
                ("userInfo", object("kubernetes.UserInfo")),
                ("dryRun", Type::Bool),
                ("options", Type::Dyn),
            ],
        },
        NamedObject {
            name: "kubernetes.GroupVersionKind",
            fields: vec![("group", text()), ("version", text()), ("kind", text())],
        },
        NamedObject {
            name: "kubernetes.GroupVersionResource",
            fields: vec![("group", text()), ("version", text()), ("resource", text())],
        },
        NamedObject {
            name: "kubernetes.UserInfo",
            fields: vec![
                ("username", text()),
                ("uid", text()),
                ("groups", texts()),
                ("extra", Type::map(Type::String, texts())),
            ],
        },
    ]
}

/// The types of the namespace: the fields of its metadata that say something to policies.
fn namespace() -> [NamedObject; 5] {
    let text = || Type::String;
    let object = Type::object;
    let texts = || Type::list(Type::String);
    let entries = || Type::map(Type::String, Type::String);
    [
        NamedObject {
            name: "kubernetes.Namespace",
            fields: vec![
                ("metadata", object("kubernetes.NamespaceMetadata")),
                ("spec", object("kubernetes.NamespaceSpec")),
                ("status", object("kubernetes.NamespaceStatus")),
            ],
        },
        NamedObject {
            name: "kubernetes.NamespaceMetadata",
            fields: vec![
                ("name", text()),
                ("generateName", text()),
                ("namespace", text()),
                ("labels", entries()),
                ("annotations", entries()),
                ("UID", text()),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", text()),
                ("finalizers", texts()),
            ],
        },
        NamedObject { name: "kubernetes.NamespaceSpec", fields: vec![("finalizers", texts())] },
        NamedObject {
            name: "kubernetes.NamespaceStatus",
            fields: vec![
                ("conditions", Type::list(object("kubernetes.NamespaceCondition"))),
                ("phase", text()),
            ],
        },
        NamedObject {
            name: "kubernetes.NamespaceCondition",
            fields: vec![
                ("status", text()),
                ("type", text()),
                ("lastTransitionTime", Type::Timestamp),
                ("message", text()),
                ("reason", text()),
            ],
        },
    ]
}
