//! Answers that would be larger than what was asked: long lists of errors, indented and YAML forms, warnings.
