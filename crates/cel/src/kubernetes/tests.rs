//! Tests of the environments of Kubernetes.

use super::*;
use crate::library::authz::{Authorizer, Check, Decision, authorizer, authorizer_type};
use crate::{Budget, Failure, Halt};

fn fault(env: &Env, text: &str) -> Option<String> {
    env.compile(text).err().map(|issues| issues.to_string())
}

#[test]
fn a_new_expression_uses_what_the_oldest_release_knows() {
    for (since, text) in [
        (28, "quantity('1') == quantity('1')"),
        (28, "1 < 1.5"),
        (28, "optional.of(1)"),
        (29, "sets.contains([1], [1])"),
        (29, "'%s'.format(['a'])"),
        (29, "strings.quote('a')"),
        (30, "ip('::1') == ip('::1')"),
        (30, "type(cidr('::/0')) == net.CIDR"),
        (31, "format.named('uri')"),
        (32, "[1].all(i, v, i < v)"),
        (33, "semver('1.2.3')"),
    ] {
        let before = EnvSet::base(Release(since - 1), true);
        assert!(fault(&before.new, text).is_some(), "{text} before {since}");
        assert_eq!(fault(&before.stored, text), None, "{text} where it is stored");
        assert_eq!(fault(&EnvSet::base(Release(since), true).new, text), None, "{text} since {since}");
    }
}

#[test]
fn texts_before_1_29_are_split_and_not_formatted() {
    let set = EnvSet::base(Release(28), true);
    assert_eq!(fault(&set.new, "'a,b'.split(',').join('')"), None);
    assert!(fault(&set.new, "'a'.reverse()").is_some());
    assert!(fault(&set.stored, "'a'.reverse()").is_some());
}

#[test]
fn selectors_in_new_expressions_depend_on_their_gate() {
    let text = "authorizer.group('').resource('pods').labelSelector('a=b').check('list').allowed()";
    let with = |set: EnvSet| set.extend(|builder| builder.variable("authorizer", authorizer_type()));
    let off = with(EnvSet::base(Release(33), false));
    assert!(fault(&off.new, text).is_some());
    assert_eq!(fault(&off.stored, text), None);
    assert_eq!(fault(&with(EnvSet::base(Release(27), true)).new, text), None);
}

#[test]
fn patches_are_in_environments_that_ask_for_them() {
    let text = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: 1}]";
    let set = EnvSet::base(Release(33), true);
    assert!(fault(&set.new, text).is_some());
    assert_eq!(fault(&set.with_patches().new, text), None);
}

#[test]
fn an_answer_that_is_not_there_yet_ends_the_evaluation() {
    #[derive(Debug)]
    struct Slow;
    impl Authorizer for Slow {
        fn authorize(&self, _: &Check<'_>) -> Result<Decision, Failure> {
            Err(Failure::Halt(Halt::Waiting))
        }
    }
    let set =
        EnvSet::base(Release(33), true).extend(|builder| builder.variable("authorizer", authorizer_type()));
    let checked = set.stored.compile("authorizer.path('/').check('get').allowed() || true").unwrap();
    let program = set.stored.program(&checked).unwrap();
    let mut budget = Budget { limit: COST_OF_AN_OBJECT, spent: 0, interrupted: None };
    let result = program.evaluate(&[authorizer(Arc::new(Slow))], &mut budget);
    assert!(matches!(result, Err(Failure::Halt(Halt::Waiting))), "{result:?}");
}
