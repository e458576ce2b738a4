//! Sizes of namespaces for requests.

use super::request::NamespaceRequest;
use crate::namespace::{CreateNamespace, NamespaceError, SizeRules};

/// Bytes of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Size, including page map and BTT metadata.
    pub(super) size: u64,
    /// Bytes that are available to its user.
    pub(super) usable: u64,
}

/// Returns the parameters of the namespace for a request in a region. A size is rounded up unless it must be exact. For
/// usable bytes, the size is the least that has them. `usable` returns those of a namespace of some bytes.
///
/// # Errors
/// Fails if a parameter is invalid in all regions, or the region has no space. These reasons precede the alignment of
/// the size, which [`SizeRules::size`] checks.
pub(crate) fn fitted(
    rules: &SizeRules,
    request: &NamespaceRequest,
    usable: impl Fn(&CreateNamespace, u64) -> Result<u64, NamespaceError>,
) -> Result<CreateNamespace, NamespaceError> {
    request.namespace.check()?;
    let mut parameters = CreateNamespace { region: Some(rules.region), ..request.namespace.clone() };
    if let Some(want) = request.usable {
        parameters.size = Some(least_size(rules, &parameters, want, &usable)?);
    } else if let Some(size) = parameters.size
        && !request.exact
    {
        parameters.size = Some(rules.rounded_up(&parameters, size)?);
    }
    rules.check_space(&parameters)?;
    Ok(parameters)
}

/// Returns the least valid size with which the user gets `want` bytes.
fn least_size(
    rules: &SizeRules,
    parameters: &CreateNamespace,
    want: u64,
    usable: impl Fn(&CreateNamespace, u64) -> Result<u64, NamespaceError>,
) -> Result<u64, NamespaceError> {
    let gives = |size: u64| {
        rules.check_space(&CreateNamespace { size: Some(size), ..parameters.clone() })?;
        match usable(parameters, size) {
            // The metadata takes all of it.
            Err(NamespaceError::Info { .. }) => Ok(0),
            other => other,
        }
    };
    let mut size = rules.rounded_up(parameters, want)?;
    loop {
        let given = gives(size)?;
        if given >= want {
            break;
        }
        size = rules.rounded_up(parameters, size.saturating_add(want - given))?;
    }
    let unit = rules.unit(parameters)?;
    while let Some(less) = size.checked_sub(unit).filter(|less| *less > 0)
        && rules.rounded_up(parameters, less)? == less
        && gives(less)? >= want
    {
        size = less;
    }
    Ok(size)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::namespace::Mode;

    const MIB: u64 = 1 << 20;

    /// Returns the size for a request in a region over six modules, where metadata takes a 64th and 2 MiB.
    fn size(request: &NamespaceRequest) -> Result<u64, NamespaceError> {
        let rules = SizeRules { region: 0, ways: 6, align: Some(96 * MIB), largest: 960 * MIB };
        let usable = |_: &CreateNamespace, size: u64| Ok(size - size / 64 - 2 * MIB);
        Ok(fitted(&rules, request, usable)?.size.unwrap_or(0))
    }

    fn sized(size: u64) -> NamespaceRequest {
        let namespace = CreateNamespace { size: Some(size), ..CreateNamespace::default() };
        NamespaceRequest { namespace, ..NamespaceRequest::default() }
    }

    #[test]
    fn sizes_are_rounded_up_unless_exact() {
        for (want, rounded) in [(1, 96), (96 * MIB, 96), (96 * MIB + 1, 192), (960 * MIB, 960)] {
            assert_eq!(size(&sized(want)).unwrap(), rounded * MIB, "{want}");
        }
        assert_eq!(size(&NamespaceRequest { exact: true, ..sized(1) }).unwrap(), 1);
        for want in [960 * MIB + 1, u64::MAX] {
            assert!(matches!(size(&sized(want)), Err(NamespaceError::NoSpace { .. })), "{want}");
        }
    }

    #[test]
    fn usable_bytes_take_least_size() {
        let usable = |bytes| NamespaceRequest { usable: Some(bytes), ..NamespaceRequest::default() };
        // Two units give 187 MiB.
        for (want, least) in [(1, 96), (187 * MIB, 192), (187 * MIB + 1, 288), (943 * MIB, 960)] {
            assert_eq!(size(&usable(want)).unwrap(), least * MIB, "{want}");
        }
        for want in [943 * MIB + 1, u64::MAX] {
            assert!(matches!(size(&usable(want)), Err(NamespaceError::NoSpace { .. })), "{want}");
        }
    }

    #[test]
    fn invalid_parameters_precede_lack_of_space() {
        let mut request = sized(u64::MAX);
        request.namespace.sector_size = Some(100);
        assert!(matches!(size(&request), Err(NamespaceError::SectorSize { size: 100 })));
        request.namespace.mode = Mode::Raw;
        request.namespace.align = Some(2 * MIB);
        assert!(matches!(size(&request), Err(NamespaceError::Align { .. })));
    }
}
