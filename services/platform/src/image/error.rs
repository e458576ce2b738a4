//! Errors of images.

use super::error_kind::ImageErrorKind;
use std::path::PathBuf;
use thiserror::Error;

/// An image can't be used or made, or a file system can't be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The image can't be used or made.
    #[error("{}: {kind}", path.display())]
    Image {
        /// Path of the image.
        path: PathBuf,
        /// The cause.
        #[source]
        kind: Box<ImageErrorKind>,
    },
    /// The namespace is not in fsdax mode.
    #[error("{name} is not in use as fsdax; change its mode")]
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
    #[error("{program} failed: {message}")]
    ProgramFailed {
        /// Its name.
        program: &'static str,
        /// Its error output.
        message: String,
    },
}

impl ImageError {
    /// Makes the error of an image that can't be used or made.
    pub(super) fn of(path: impl Into<PathBuf>, kind: ImageErrorKind) -> ImageError {
        ImageError::Image { path: path.into(), kind: Box::new(kind) }
    }
}
