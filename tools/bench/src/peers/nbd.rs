//! Servers of network block devices, each a process of its own at a unix socket: nbdkit and qemu-nbd, and `lode volume serve`.

use crate::engine::{Engine, NoFigure};
use crate::program;
use anyhow::{Error, Result, bail, ensure};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until a server listens.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of a file of ours on top of its blocks.
const ROOM: u64 = 32 << 20;

/// A server that runs until it is dropped.
pub(crate) struct NbdServer {
    child: Child,
    socket: PathBuf,
}

impl NbdServer {
    /// Starts the server of an engine with `len` bytes, with its files in `folder`, which is on tmpfs.
    ///
    /// # Errors
    /// [`NoFigure`] if its program is not installed.
    pub(crate) fn start(engine: Engine, folder: &Path, len: u64) -> Result<NbdServer> {
        let socket = folder.join(format!("{engine}-socket"));
        let file = folder.join(format!("{engine}-file"));
        let mut command = match engine {
            Engine::Ours => {
                let lode = program::lode().ok_or_else(|| absent(program::NO_LODE))?;
                let size = (len + ROOM).to_string();
                let mut create = Command::new(&lode);
                create.args([
                    "--durability",
                    "line",
                    "volume",
                    "create",
                    "--format",
                    "atomic",
                    "--size",
                    &size,
                ]);
                let status = create.arg(&file).stdout(Stdio::null()).status()?;
                ensure!(status.success(), "lode volume create ended with {status}");
                let mut serve = Command::new(lode);
                serve.args(["--durability", "line", "volume", "serve"]).arg(&file);
                serve.arg("--nbd").arg(format!("unix:{}", socket.display()));
                serve
            }
            Engine::Nbdkit => {
                let mut serve = installed("nbdkit")?;
                serve.arg("--foreground").arg("--unix").arg(&socket).arg("memory").arg(len.to_string());
                serve
            }
            Engine::QemuNbd => {
                File::create_new(&file)?.set_len(len)?;
                let mut serve = installed("qemu-nbd")?;
                serve.args(["--persistent", "--format=raw", "--socket"]).arg(&socket).arg(&file);
                serve
            }
            other => bail!("{other} serves no block devices"),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut server = NbdServer { child, socket };
        server.wait()?;
        Ok(server)
    }

    /// Returns the address for clients.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Waits until the server accepts connections.
    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}");
            }
            ensure!(began.elapsed() < START_LIMIT, "the server does not listen at {}", self.socket.display());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        // A server that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn absent(reason: &str) -> Error {
    Error::new(NoFigure(reason.to_owned()))
}

/// A program of a package.
pub(crate) fn installed(name: &str) -> Result<Command> {
    let path = program::in_path(name);
    let path =
        path.ok_or_else(|| absent(&format!("{name} is missing: install the packages of packages.txt")))?;
    Ok(Command::new(path))
}
