//! Errors of images.

use super::fault::ImageFault;
use std::path::PathBuf;
use thiserror::Error;

/// An image can't be used or made, or a file system can't be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The image can't be used or made.
    #[error("{}: {fault}", path.display())]
    Image {
        /// Path of the image.
        path: PathBuf,
        /// The fault.
        #[source]
        fault: Box<ImageFault>,
    },
    /// The namespace is not in fsdax mode.
    #[error("{name} is not in use as fsdax; `lode ndctl create-namespace -e {name} -m fsdax -f` makes it so")]
    NotFsdax {
        /// Its name.
        name: String,
    },
    /// A program is not installed.
    #[error("{program} is not on this machine; install it, on Debian with `apt-get install {package}`")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program} failed: {says}")]
    ProgramFailed {
        /// Its name.
        program: &'static str,
        /// Its error output.
        says: String,
    },
}

impl ImageError {
    /// Makes the error of an image that can't be used or made.
    pub(super) fn of(path: impl Into<PathBuf>, fault: ImageFault) -> ImageError {
        ImageError::Image { path: path.into(), fault: Box::new(fault) }
    }
}
