//! What functions of the libraries of Kubernetes do, by which both the estimate and the count of their costs
//! go. The reference looks at the name of a function alone, whatever the function is called on.

/// The cost of a check of an authorizer: an expression can afford two.
pub(super) const CHECK: u32 = 350_000;

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Asks the authorizer.
    Check,
    /// The same whatever its operands are, at the cost of one.
    One,
    /// Reads a selector of labels or fields.
    Selector,
    /// Looks at all elements of the list that it is called on.
    Elements,
    /// Reads a text, the argument, of which it makes a value of a library.
    Read,
    /// Reads a text, the argument, of which it makes a value as long as the text.
    Copy,
    /// Makes a text as long as that which it is called on, or shorter.
    Shorten,
    /// Replaces parts of the text that it is called on.
    Replace,
    /// Splits the text that it is called on.
    Split,
    /// Reads a text, the argument, and writes it again.
    Rewrite,
    /// Puts texts together.
    Join,
    /// Looks for a pattern in the text that it is called on.
    Find,
    /// Compares an address with a network.
    ContainsAddress,
    /// Compares a network with another one.
    ContainsNetwork,
    /// Checks a text with a named format.
    Validate,
}

impl Work {
    /// The work of a function; `None` if the function is none of these libraries.
    pub(super) fn of(function: &str) -> Option<Self> {
        Some(match function {
            "check" => Self::Check,
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
            | "allowed" | "reason" | "error" | "errored" => Self::One,
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast" => Self::One,
            "format.named" => Self::One,
            "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan" | "isLessThan"
            | "compareTo" | "add" | "sub" | "major" | "minor" | "patch" => Self::One,
            "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery" => Self::One,
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Elements,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Self::Read
            }
            "url" | "jsonpatch.escapeKey" => Self::Copy,
            "lowerAscii" | "upperAscii" | "substring" | "trim" => Self::Shorten,
            "replace" => Self::Replace,
            "split" => Self::Split,
            "ip.isCanonical" => Self::Rewrite,
            "join" => Self::Join,
            "find" | "findAll" => Self::Find,
            "containsIP" => Self::ContainsAddress,
            "containsCIDR" => Self::ContainsNetwork,
            "validate" => Self::Validate,
            _ => return None,
        })
    }
}
