//! `ipmctl load -source FILE -dimm`: firmware is examined or staged.

use crate::firmware::{self, FirmwareError, FirmwareImage, FirmwareVersion};
use crate::ipmctl::refusal::{LOAD_FIRMWARE, Words};
use crate::machine::Handle;
use crate::platform::Platform;

/// An image for modules.
#[derive(Clone, Debug)]
pub struct FirmwareLoad<'i> {
    /// The image; `None` if the file is none.
    pub image: Option<&'i FirmwareImage>,
    /// The modules.
    pub modules: &'i [Handle],
}

/// The answer of a module to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes it.
    Valid,
    /// It takes it, and has a newer version.
    Downgrade,
    /// It does not take it.
    Invalid,
}

impl FirmwareLoad<'_> {
    /// Returns what each module says, as `-examine` prints it.
    pub fn examine(&self, platform: &Platform) -> String {
        let words = Words(platform.machine.profile.ipmctl);
        let line = |module: &Handle| {
            let verdict = match self.verdict(platform, *module) {
                Verdict::Valid => "Valid",
                Verdict::Downgrade => "Downgrade (with confirmation or the force option)",
                Verdict::Invalid => "Image file is not valid",
            };
            LOAD_FIRMWARE.line(*module, verdict, words.0)
        };
        self.modules.iter().map(line).collect()
    }

    /// Returns what a module says.
    pub fn verdict(&self, platform: &Platform, module: Handle) -> Verdict {
        let Some(image) = self.image else { return Verdict::Invalid };
        let Some(index) = platform.machine.module_index(module) else { return Verdict::Invalid };
        let Some(running) = firmware::updates(&platform.machine.modules[index]) else {
            return Verdict::Invalid;
        };
        match (image.version.product() == running.product(), image.version.number() < running.number()) {
            (false, _) => Verdict::Invalid,
            (true, true) => Verdict::Downgrade,
            (true, false) => Verdict::Valid,
        }
    }

    /// Stages the image on each module, also after one that refuses. Returns the lines that ipmctl prints, and whether all
    /// took it.
    pub fn stage(&self, platform: &mut Platform) -> (String, bool) {
        let words = Words(platform.machine.profile.ipmctl);
        let mut text = words.say(&format!("Starting update on {} PMem module(s)...\n", self.modules.len()));
        let mut is_staged = true;
        for module in self.modules {
            let result = self.stage_on(platform, *module);
            is_staged &= result.is_ok();
            text += &match result {
                Ok(_) => {
                    let done = "Success, a power cycle is required to activate the FW.";
                    LOAD_FIRMWARE.line(*module, done, words.0)
                }
                Err((number, why)) => LOAD_FIRMWARE.line(*module, &words.error(number, why), words.0),
            };
        }
        (text, is_staged)
    }

    /// Stages the image on a module. A refusal has ipmctl's number and text.
    fn stage_on(
        &self,
        platform: &mut Platform,
        module: Handle,
    ) -> Result<FirmwareVersion, (u16, &'static str)> {
        const NOT_VALID: (u16, &str) = (62, "Image file is not valid");
        let image = self.image.ok_or(NOT_VALID)?;
        let index = platform.machine.module_index(module).ok_or(NOT_VALID)?;
        match firmware::stage(platform, index, image, false) {
            Ok(()) => Ok(image.version),
            Err(FirmwareError::Staged { .. }) => Err((
                68,
                "A firmware image is already staged for execution. A power cycle is required before another can be \
                 staged.",
            )),
            Err(_) => Err((69, "Failed to validate and stage firmware image.")),
        }
    }
}
