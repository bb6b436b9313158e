//! The release that documents name. The setting is for the process, so this file has one test.

use kinds::Release;
use openapi::{ServedResources, v3};

#[test]
fn documents_name_the_emulated_release() {
    v3::set_release(Release(32));
    let document = v3::document(&ServedResources::by_default(), "api/v1").unwrap_or_default();
    let text = String::from_utf8_lossy(&document);
    assert!(text.contains(r#""info":{"title":"Kubernetes","version":"1.32"}"#));
}
