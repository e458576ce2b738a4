//! `lode ndctl monitor`.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::machine::Handle;
use lode_platform::monitor::{MonitorConfig, Notification, Observed, Observer, Subject};
use lode_platform::ndctl::{self, Inventory, ListFilter, NdModule};
use lode_platform::smart::{self, SmartEvent};
use lode_platform::sysfs::Sysfs;
use lode_platform::{Directory, DirectoryError, PlatformError, Purpose, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const WHAT: &str = "monitoring modules";
/// Longest wait before a signal, or a reader of the output that is gone, is noticed.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of an attribute that are read to arm its notice.
const ATTRIBUTE: usize = 64;

#[derive(Args, Debug)]
pub(super) struct Monitor {
    /// Only modules of these buses, as ndbus0 or ACPI.NFIT; several with spaces in between
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// Only these modules, as nmem0; several with spaces in between
    #[arg(short, long, value_name = "DIMM")]
    dimm: Option<String>,
    /// Only modules of these regions; several with spaces in between
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Only modules of these namespaces; several with spaces in between
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Events to report, with spaces in between: dimm-spares-remaining, dimm-media-temperature,
    /// dimm-controller-temperature, dimm-health-state, dimm-unclean-shutdown, or all; a real machine shows
    /// dimm-health-state without root [default: all]
    #[arg(short = 'D', long, value_name = "EVENTS")]
    dimm_event: Option<String>,
    /// File to which the notifications are appended, or standard [default: standard]
    #[arg(short, long, value_name = "FILE")]
    log: Option<String>,
    /// File with more values of these options, as ndctl's monitor.conf; /etc/ndctl.conf.d is not read
    #[arg(short, long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Refused: run it as a service, which systemd watches and stops
    #[arg(long)]
    daemon: bool,
    /// Report the events that hold again every so many seconds, too
    #[arg(short, long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    poll: Option<u32>,
    /// Print each notification over several lines
    #[arg(short = 'u', long)]
    human: bool,
    /// Tell on standard error which modules are observed
    #[arg(short, long)]
    verbose: bool,
}

/// A monitored module.
struct Monitored {
    number: u32,
    /// The module of an emulated machine.
    handle: Option<Handle>,
    observer: Observer,
}

/// Place of the notifications.
struct Log {
    file: Option<File>,
    human: bool,
}

impl Monitor {
    pub(super) fn run(&self, location: &MachineLocation, json: bool) -> Result<Output, Failure> {
        if self.daemon {
            return Err(Failure::usage_error(
                "--daemon: lode does not leave its terminal; run it as a service of systemd, or with setsid",
            ));
        }
        let config = self.config()?;
        let events = events(config.dimm_event.as_deref())?;
        let log = Log { file: log_file(config.log.as_deref())?, human: self.human && !json };
        let filter = ListFilter {
            bus: config.bus,
            module: config.dimm,
            region: config.region,
            namespace: config.namespace,
            ..ListFilter::default()
        };
        let interrupt = Interrupt::listen()?;
        if location.is_real() {
            self.monitor_real(&location.sysfs()?, &filter, &events, &log, &interrupt)
        } else {
            self.monitor_emulated(location, &filter, &events, &log, &interrupt)
        }
    }

    fn config(&self) -> Result<MonitorConfig, Failure> {
        let file = match &self.config_file {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| Failure::io(WHAT, path, &error))?;
                let config = MonitorConfig::parse(&text);
                config.map_err(|fault| Failure::new(WHAT, format_args!("{}: {fault}", path.display())))?
            }
            None => MonitorConfig::default(),
        };
        Ok(file.with_options(MonitorConfig {
            bus: self.bus.clone(),
            dimm: self.dimm.clone(),
            region: self.region.clone(),
            namespace: self.namespace.clone(),
            dimm_event: self.dimm_event.clone(),
            log: self.log.clone(),
        }))
    }

    fn monitor_emulated(
        &self,
        location: &MachineLocation,
        filter: &ListFilter,
        events: &[SmartEvent],
        log: &Log,
        interrupt: &Interrupt,
    ) -> Result<Output, Failure> {
        let watch = Watch::new(location.directory()?).map_err(failed(WHAT))?;
        let mut directory = location.open(Purpose::Change)?;
        let numbers = ndctl::inventory(directory.platform()).selected_modules(filter);
        let (mut monitored, mut notes) = (Vec::new(), Vec::new());
        for number in numbers {
            let index = number as usize;
            match directory.change(|platform| smart::enable_alarms(platform, index, events)) {
                Ok(()) => {
                    let platform = directory.platform();
                    let module = &platform.machine.modules[index];
                    let observer = Observer::new(events, Subject::of_module(platform, module));
                    monitored.push(Monitored { number, handle: Some(module.handle), observer });
                }
                Err(error @ PlatformError::Smart(_)) => notes.push(error.to_string()),
                Err(error) => return Err(failed(WHAT)(error)),
            }
        }
        let inventory = ndctl::inventory(directory.platform());
        // A reader of the output may be slow. Others can change the machine meanwhile.
        drop(directory);
        notes.iter().for_each(|text| note(text));
        self.start(&monitored, &inventory, log)?;
        let mut due = self.due();
        loop {
            let is_due = self.wait(&[(watch.as_fd(), PollFlags::IN)], &mut due, log, interrupt)?;
            let Some(is_due) = is_due else { return Ok(Output::empty()) };
            watch.clear().map_err(failed(WHAT))?;
            let Some(directory) = reopened(location, interrupt)? else { return Ok(Output::empty()) };
            let inventory = ndctl::inventory(directory.platform());
            let look = |one: &mut Monitored| Ok(one.observer.look(subject(&directory, one)?));
            let observed: Vec<Observed> = monitored.iter_mut().map(look).collect::<Result<_, Failure>>()?;
            drop(directory);
            for (one, observed) in monitored.iter().zip(&observed) {
                one.report(observed, is_due, &inventory, log)?;
            }
        }
    }

    /// Monitors what the kernel shows without root: flags, whose change is one of the health state.
    fn monitor_real(
        &self,
        sysfs: &Sysfs,
        filter: &ListFilter,
        events: &[SmartEvent],
        log: &Log,
        interrupt: &Interrupt,
    ) -> Result<Output, Failure> {
        if !events.contains(&SmartEvent::HealthState) {
            let why =
                "the kernel shows only dimm-health-state without root; run `ndctl monitor` for the others";
            return Err(Failure::new(WHAT, why));
        }
        let mut inventory = sysfs.inventory();
        let (mut monitored, mut flags) = (Vec::new(), Vec::new());
        for number in inventory.selected_modules(filter) {
            if let (Some(module), Some(path)) = (module(&inventory, number), sysfs.flags_path(number)) {
                flags.push((number, File::open(&path).map_err(|error| Failure::io(WHAT, &path, &error))?));
                let observer = Observer::new(&[SmartEvent::HealthState], Subject::of_flags(module));
                monitored.push(Monitored { number, handle: None, observer });
            }
        }
        self.start(&monitored, &inventory, log)?;
        let (mut is_due, mut due) = (false, self.due());
        loop {
            // A read arms the notice of the next change. What changed before it is in the inventory that follows. The
            // attribute of a module that is gone can't be read, and would give notice without end.
            flags.retain(|(number, file)| {
                let is_there = file.read_at(&mut [0; ATTRIBUTE], 0).is_ok();
                if !is_there {
                    note(&format!("nmem{number} is gone, and no longer observed"));
                }
                is_there
            });
            if flags.is_empty() {
                return Err(Failure::new(WHAT, "no module is left"));
            }
            inventory = sysfs.inventory();
            for one in &mut monitored {
                if let Some(module) = module(&inventory, one.number) {
                    let observed = one.observer.look(Subject::of_flags(module));
                    one.report(&observed, is_due, &inventory, log)?;
                }
            }
            let files: Vec<_> = flags.iter().map(|(_, file)| (file.as_fd(), PollFlags::PRI)).collect();
            is_due = match self.wait(&files, &mut due, log, interrupt)? {
                Some(is_due) => is_due,
                None => return Ok(Output::empty()),
            };
        }
    }

    /// Reports the events that hold at the start.
    fn start(&self, monitored: &[Monitored], inventory: &Inventory, log: &Log) -> Result<(), Failure> {
        if monitored.is_empty() {
            let why = "no module is selected; `lode ndctl list -DH` lists those that report their health";
            return Err(Failure::new(WHAT, why));
        }
        if self.verbose {
            let names: Vec<String> = monitored.iter().map(|one| format!("nmem{}", one.number)).collect();
            note(&format!("observing {}", names.join(", ")));
        }
        monitored.iter().try_for_each(|one| one.report(&one.observer.first(), false, inventory, log))
    }

    /// Returns the time of the next report of events that hold, with `--poll`.
    fn due(&self) -> Option<Instant> {
        self.poll.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()))
    }

    /// Waits for a change, or until `due`. Returns true for the latter, and sets the next time; `None` once a signal has come.
    fn wait(
        &self,
        files: &[(impl AsFd, PollFlags)],
        due: &mut Option<Instant>,
        log: &Log,
        interrupt: &Interrupt,
    ) -> Result<Option<bool>, Failure> {
        loop {
            if interrupt.is_set() {
                return Ok(None);
            }
            let left = due.map_or(PAUSE, |due| due.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                *due = self.due();
                return Ok(Some(true));
            }
            let pause = left.min(PAUSE);
            let pause = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            let out = io::stdout();
            let mut polled: Vec<PollFd> =
                files.iter().map(|(file, flags)| PollFd::new(file, *flags)).collect();
            if log.file.is_none() {
                polled.push(PollFd::new(&out, PollFlags::empty()));
            }
            match poll(&mut polled, Some(&pause)) {
                Ok(0) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::new(WHAT, io::Error::from(errno))),
                Ok(_) => {
                    if polled.iter().take(files.len()).any(|one| !one.revents().is_empty()) {
                        return Ok(Some(false));
                    }
                    // A pipe tells that its reader is gone by an error, and a socket that its peer is by a hang-up.
                    let is_gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
                    if polled.last().is_some_and(|out| out.revents().intersects(is_gone)) {
                        return Err(Failure::stdout(io::ErrorKind::BrokenPipe.into()));
                    }
                }
            }
        }
    }
}

impl Monitored {
    /// Prints a notification if an event came, or with `is_due`, if one holds.
    fn report(
        &self,
        observed: &Observed,
        is_due: bool,
        inventory: &Inventory,
        log: &Log,
    ) -> Result<(), Failure> {
        let holds = observed.events.iter().any(|(_, flag)| *flag);
        let Some(module) = module(inventory, self.number) else { return Ok(()) };
        if observed.coalesced > 0 {
            let (number, count) = (self.number, observed.coalesced);
            let plural = if count == 1 { "" } else { "s" };
            note(&format!(
                "nmem{number}: {count} event{plural} came before the next notification, which has later values"
            ));
        }
        let is_reported = observed.is_new || (is_due && holds);
        if !is_reported {
            return Ok(());
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let notification = Notification { time, pid: process::id(), events: &observed.events, module };
        log.write(&notification.print(log.human))
    }
}

impl Log {
    fn write(&self, text: &str) -> Result<(), Failure> {
        match &self.file {
            Some(file) => {
                let mut file = file;
                let written = file.write_all(text.as_bytes());
                written.map_err(|error| Failure::new("writing the log", error))
            }
            None => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
            }
        }
    }
}

/// Opens the machine again after a change. Waits as long as other commands change it; `None` once a signal has come.
fn reopened(location: &MachineLocation, interrupt: &Interrupt) -> Result<Option<Directory>, Failure> {
    let root = location.directory()?;
    loop {
        match Directory::open_within(root, Purpose::ReadOnly, PAUSE) {
            Err(DirectoryError::InUse { .. }) if !interrupt.is_set() => {}
            Err(DirectoryError::InUse { .. }) => return Ok(None),
            opened => return opened.map(Some).map_err(failed(WHAT)),
        }
    }
}

/// Returns what is observed of a module of an emulated machine, which may have been replaced by another one.
fn subject(directory: &Directory, one: &Monitored) -> Result<Subject, Failure> {
    let platform = directory.platform();
    let module = platform.machine.modules.get(one.number as usize);
    let module = module.filter(|module| Some(module.handle) == one.handle);
    let gone =
        || Failure::new(WHAT, format_args!("the machine was replaced by one without nmem{}", one.number));
    Ok(Subject::of_module(platform, module.ok_or_else(gone)?))
}

/// Writes a note. A monitor goes on if its standard error can't be written.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "lode: note: {text}");
}

fn module(inventory: &Inventory, number: u32) -> Option<&NdModule> {
    inventory.buses.iter().flat_map(|bus| &bus.modules).find(|module| module.number == number)
}

/// Parses the names of events.
fn events(words: Option<&str>) -> Result<Vec<SmartEvent>, Failure> {
    let words: Vec<&str> = words.unwrap_or("all").split_whitespace().collect();
    if words.contains(&"all") {
        return Ok(SmartEvent::ALL.to_vec());
    }
    let parsed = |word: &&str| {
        SmartEvent::parse(word).ok_or_else(|| {
            let known = SmartEvent::ALL.map(SmartEvent::as_str).join(", ");
            Failure::usage_error(format!("there is no event {word}: the events are {known}, or all"))
        })
    };
    words.iter().map(parsed).collect()
}

/// Opens the file of the notifications; `None` is standard output.
fn log_file(log: Option<&str>) -> Result<Option<File>, Failure> {
    match log {
        None | Some("standard") => Ok(None),
        Some("syslog") => Err(Failure::usage_error(
            "--log syslog: a service of systemd has its standard output in the journal; without one, pipe to `logger`",
        )),
        Some(path) => {
            let path = PathBuf::from(path);
            let opened = OpenOptions::new().append(true).create(true).open(&path);
            opened.map(Some).map_err(|error| Failure::io("opening the log", &path, &error))
        }
    }
}
