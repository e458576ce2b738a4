//! pmempool_feature_query(3) and its relatives.

use crate::failures::failure;
use crate::pool;
use lode_capi_entry::Failure;
use lode_layout::PmdkFeatures;
use lode_pmdk::{FeatureError, PmdkAccess, PmdkFeature};
use std::path::Path;

/// A feature of pmempool_feature_query(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Only the first part of a replica has a header. It follows from the set file.
    SingleHeader,
    /// The others, which can be turned on and off.
    Turned(PmdkFeature),
}

impl Feature {
    /// Returns the feature of a number of `enum pmempool_feature`.
    pub(crate) fn of_number(number: u32, flags: u32) -> Result<Feature, Failure> {
        let feature = match number {
            0 => Feature::SingleHeader,
            1 => Feature::Turned(PmdkFeature::ShortChecksum),
            2 => Feature::Turned(PmdkFeature::ShutdownState),
            3 => Feature::Turned(PmdkFeature::CheckBadBlocks),
            _ => {
                let text = format!("invalid feature: {number:#x}; the features are 0 to 3");
                return Err(Failure::invalid(text));
            }
        };
        if flags != 0 {
            return Err(Failure::invalid(format!("invalid flags: {flags:#x}; pass 0")));
        }
        Ok(feature)
    }
}

/// Returns whether the pool at `path` has the feature.
pub(crate) fn query(path: &Path, feature: Feature) -> Result<bool, Failure> {
    let features = pool::open(path, PmdkAccess::CopyOnWrite)?.features().map_err(|error| refused(&error))?;
    Ok(match feature {
        Feature::SingleHeader => features.has_single_header(),
        Feature::Turned(feature) => feature.is_in(features),
    })
}

/// Turns the feature of the pool at `path` on or off.
///
/// # Durability
/// The change is in all headers, durably, on return. A crash before that leaves the old or the new features to the next call.
pub(crate) fn turn(path: &Path, feature: Feature, is_on: bool) -> Result<(), Failure> {
    let Feature::Turned(feature) = feature else {
        let text = "unsupported feature: SINGLEHDR; it follows from OPTION SINGLEHDR of the set file";
        return Err(Failure::invalid(text));
    };
    let pool = pool::open(path, PmdkAccess::ReadWrite)?;
    let features = pool.features().map_err(|error| refused(&error))?;
    if feature.is_in(features) != is_on {
        check_others(feature, is_on, features)?;
    }
    pool.set_features(feature.set_in(features, is_on)).map_err(|error| refused(&error))
}

/// Refuses a shutdown state that the checksum counts: each store of the state would make the checksum wrong.
fn check_others(feature: PmdkFeature, is_on: bool, features: PmdkFeatures) -> Result<(), Failure> {
    match (feature, is_on) {
        (PmdkFeature::ShutdownState, true) if !features.has_short_checksum() => Err(Failure::invalid(
            "enable CKSUM_2K prior to enabling SHUTDOWN_STATE; its checksum leaves the state out",
        )),
        (PmdkFeature::ShortChecksum, false) if features.has_shutdown_state() => Err(Failure::invalid(
            "disable SHUTDOWN_STATE prior to disabling CKSUM_2K; the checksum would count the state",
        )),
        _ => Ok(()),
    }
}

/// Returns the failure of features that can't be read or changed. PMDK's last words name the place.
fn refused(error: &FeatureError) -> Failure {
    match error {
        FeatureError::Pool(error) => failure(error),
        FeatureError::Unknown { .. } => {
            Failure::invalid(format!("invalid features - replica #0 part #0: {error}"))
        }
        FeatureError::Differ { replica, part, .. } => {
            Failure::invalid(format!("invalid features - replica #{replica} part #{part}: {error}"))
        }
        error => Failure::invalid(error.to_string()),
    }
}
