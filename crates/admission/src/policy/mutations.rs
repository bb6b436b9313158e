//! The expressions of a policy that changes objects.

use super::definition::{Common, Evaluator};
use crate::conditions::Conditions;
use cel::Value as CelValue;
use expressions::Stage;
use expressions::admission::{Expression, Variables};
use expressions::patches::PatchType;
use merge::mutation::Mutation;
use object::Map;
use schema::view::View as _;
use schema::views::admissionregistration::v1alpha1::MutatingAdmissionPolicySpec;

/// The expressions of a policy.
pub(super) struct Mutations {
    pub(super) conditions: Conditions,
    pub(super) variables: Variables,
    pub(super) mutations: Box<[Mutator]>,
    /// Whether the policy is applied again if the object changes after it.
    pub(super) is_reinvoked: bool,
}

/// One mutation.
pub(super) struct Mutator {
    ty: PatchType,
    /// A batch of one expression.
    pub(super) expression: [Option<Expression>; 1],
}

impl Mutator {
    /// Why the expression has no plan.
    pub(super) fn fault(&self) -> Option<String> {
        let [expression] = &self.expression;
        expression.as_ref()?.compiled.as_ref().err().map(ToString::to_string)
    }

    /// What a value of the expression does to an object.
    pub(super) fn mutation(&self, value: &CelValue<'_>) -> Result<Mutation, String> {
        self.ty.mutation(value)
    }
}

impl Evaluator for Mutations {
    fn compile(spec: &Map) -> Self {
        let Common { scope, variables, conditions } = Common::compile(spec);
        let spec = MutatingAdmissionPolicySpec::of(spec);
        let mutations = spec.mutations();
        let mutations = mutations.iter().filter_map(|mutation| {
            let (ty, text) = match mutation.patch_type() {
                "JSONPatch" => (PatchType::JsonPatch, mutation.json_patch()?.expression()),
                _ => (PatchType::ApplyConfiguration, mutation.apply_configuration()?.expression()),
            };
            let compiled = scope.compile_mutation(text, ty, Stage::Stored);
            Some(Mutator { ty, expression: [Some(Expression { text: text.into(), compiled })] })
        });
        Self {
            conditions,
            variables,
            mutations: mutations.collect(),
            is_reinvoked: spec.reinvocation_policy() == "IfNeeded",
        }
    }
}
