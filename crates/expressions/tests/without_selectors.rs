//! Match conditions of configuration files without the gate `AuthorizeWithSelectors`. The setting is for the
//! process, so this file has one test.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use expressions::configuration::Scope;
use expressions::stage::{Compatibility, set_compatibility};

#[test]
fn requests_have_no_selectors() {
    set_compatibility(Compatibility { selectors: false, ..Compatibility::default() });
    for field in ["fieldSelector", "labelSelector"] {
        for text in [
            format!("has(request.resourceAttributes.{field})"),
            format!("request.resourceAttributes.?{field}.rawSelector.orValue('') == ''"),
            format!("request.resourceAttributes.{field}.requirements.size() == 0"),
        ] {
            let fault = Scope::Request.condition(&text).unwrap_err().to_string();
            assert!(fault.contains(&format!("undefined field '{field}'")), "{text}: {fault}");
        }
    }
    assert!(Scope::Request.condition("request.resourceAttributes.name == 'a'").is_ok());
}
