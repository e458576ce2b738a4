//! Pictures of real machines: golden files of what Linux 6.1 and 6.12 showed, and machines that a test makes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{lode, text};
use crate::sysfs_captures::{contents, unpack_capture};
use lode_platform::discovery::{MemoryDevice, Shown};
use lode_platform::ndctl::{Inventory, NdBus, NdMapping, NdModule, NdNamespace, NdRegion};
use lode_platform::picture::{self, Palette, Scene};
use lode_platform::sysfs::Sysfs;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A name that would become markup, or codes of a terminal, if it were not escaped.
const HOSTILE: &str = "</text><script>&\"'\u{202e}\u{1b}[31m";

fn shown(root: &Path) -> Shown {
    Shown { path: "/sys".to_owned(), ..Shown::read(&Sysfs::open(root).unwrap()) }
}

fn drawn(shown: &Shown, width: usize) -> String {
    picture::terminal(&Scene::of_shown(shown), width, Palette::Plain)
}

/// Returns the picture without frames and line breaks, so that folded texts are whole.
fn unfolded(picture: &str) -> String {
    picture.chars().filter(|one| !one.is_whitespace() && !"│┌┐└┘─".contains(*one)).collect()
}

#[test]
fn captured_kernels_are_golden_pictures() {
    let mut different = Vec::new();
    for (kernel, is_root) in [("6.1", true), ("6.12", true), ("6.12", false), ("6.1-cxl", true)] {
        let sysfs = unpack_capture(kernel, is_root);
        for width in [100, 60] {
            let picture = drawn(&shown(sysfs.path()), width);
            assert!(picture.lines().all(|line| line.chars().count() <= width), "{picture}");
            let user = if is_root { "" } else { "-user" };
            let name = format!("linux-{kernel}{user}-{width}.txt");
            let path =
                format!("{}/../../services/platform/tests/pictures/{name}", env!("CARGO_MANIFEST_DIR"));
            if fs::read_to_string(&path).unwrap_or_default() != picture {
                let ours = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
                fs::write(&ours, &picture).unwrap();
                different.push(format!("{path} is not {ours}"));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn show_draws_real_machines() {
    let sysfs = unpack_capture("6.12", true);
    let before = contents(sysfs.path());
    let show = |words: &[&str]| {
        let head = ["platform", "show", "--sysfs", text(sysfs.path())];
        lode(head.into_iter().chain(words.iter().copied()))
    };
    let scene = Scene::of_shown(&Shown::read(&Sysfs::open(sysfs.path()).unwrap()));
    assert_eq!(show(&[]).success(), picture::terminal(&scene, 100, Palette::Plain));
    assert_eq!(show(&["--svg", "-"]).success(), picture::drawing(&scene));
    assert_eq!(show(&["--html", "-"]).success(), picture::page(&scene));
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    show(&["--html", text(&page)]).success();
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page, picture::page(&scene));
    for drawn in
        ["data-name=\"namespace0.3\"", "<td>memory</td>", "data-name=\"region4\"", "<td>/dev/dax0.1</td>"]
    {
        assert_eq!(page.contains(drawn), drawn != "<td>memory</td>", "{drawn}\n{page}");
    }
    assert!(!page.contains("DRAM") && !page.contains("started") && !page.contains("healthy"), "{page}");
    assert_eq!(contents(sysfs.path()), before);
}

/// Returns a module of socket 1 with the handle 0x1001 and a share of region0, as an SMBIOS table and root see it.
fn module_with_table() -> Shown {
    let module =
        NdModule { handle: Some(0x1001), physical_id: Some(0x26), enabled: true, ..NdModule::default() };
    let mapping = NdMapping { module: 0, offset: 0, length: 96 << 30, position: Some(0) };
    let namespace = |number, start: u64, gib: u64| NdNamespace {
        size: Some(gib << 30),
        span: Some(gib << 30),
        base: Some((64 + start) << 30),
        ..NdNamespace::new(0, number)
    };
    let region = NdRegion {
        base: Some(64 << 30),
        size: Some(96 << 30),
        enabled: true,
        numa_node: Some(1),
        mappings: vec![mapping],
        namespaces: vec![namespace(0, 64, 16), namespace(1, 16, 32), namespace(2, 0, 0)],
        ..NdRegion::default()
    };
    let bus = NdBus {
        provider: "ACPI.NFIT".to_owned(),
        modules: vec![module],
        regions: vec![region],
        ..NdBus::default()
    };
    let device = |handle, locator: &str, gib: u64, persistent| MemoryDevice {
        handle,
        locator: locator.to_owned(),
        size: gib << 30,
        persistent,
        ..MemoryDevice::default()
    };
    let memory = vec![device(0x26, "CPU2_DIMM_A2", 128, true), device(0x27, "CPU2_DIMM_A1", 32, false)];
    let inventory = Inventory { buses: vec![bus], ..Inventory::default() };
    Shown { path: "/sys".to_owned(), inventory, memory, ..Shown::default() }
}

/// Returns the texts in the box of the region, in their order.
fn boxes(picture: &str) -> Vec<String> {
    let line = picture.lines().find(|line| line.matches('│').count() > 4 && line.contains("raw"));
    let parts = line.unwrap_or_else(|| panic!("{picture}")).split('│').map(|text| text.replace('·', " "));
    parts
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|text| !text.is_empty())
        .collect()
}

#[test]
fn addresses_place_namespaces_and_smbios_tells_capacities() {
    let mut shown = module_with_table();
    let picture = drawn(&shown, 100);
    assert!(picture.starts_with("/sys  1 module, 128 GiB · 96 GiB persistent\n"), "{picture}");
    assert!(picture.contains("┌─ socket 1 ─ 32 GiB of DRAM ─"), "{picture}");
    assert!(
        picture.contains("CPU2_DIMM_A2") && picture.contains("96 GiB region0, 32 GiB in no region"),
        "{picture}"
    );
    let by_address = ["free 16 GiB", "namespace0.1 raw", "free 16 GiB", "0.0 raw", "free 16 GiB"];
    assert_eq!(boxes(&picture), by_address, "{picture}");
    // Not root: no addresses, no table.
    let region = &mut shown.inventory.buses[0].regions[0];
    region.base = Some(0);
    region.namespaces.iter_mut().for_each(|namespace| namespace.base = Some(0));
    shown.memory.clear();
    let picture = drawn(&shown, 100);
    assert_eq!(boxes(&picture), ["0.0 raw", "namespace0.1 raw", "free 48 GiB"], "{picture}");
    assert!(picture.contains("≥ 96 GiB") && !picture.contains("DRAM"), "{picture}");
    // Namespaces that overlap can't be placed.
    let mut shown = module_with_table();
    shown.inventory.buses[0].regions[0].namespaces[1].base = Some(120 << 30);
    assert_eq!(boxes(&drawn(&shown, 100)), ["0.0 raw", "namespace0.1 raw", "free 48 GiB"]);
    // The kernel shows nothing of a disabled region.
    let region = &mut shown.inventory.buses[0].regions[0];
    (region.enabled, region.namespaces) = (false, Vec::new());
    let picture = drawn(&shown, 100);
    assert!(
        picture.contains("disabled") && picture.contains(" not shown ") && !picture.contains("free"),
        "{picture}"
    );
    let page = picture::page(&Scene::of_shown(&shown));
    assert!(page.contains("<td>not shown</td>") && !page.contains("<td>free</td>"), "{page}");
}

#[test]
fn conditions_are_drawn_as_the_kernel_tells_them() {
    let mut shown = module_with_table();
    let module = &mut shown.inventory.buses[0].modules[0];
    module.security = Some("locked".to_owned());
    (module.enabled, module.flags) = (false, vec!["flag_failed_flush", "flag_smart_event"]);
    for width in [40, 100] {
        let picture = drawn(&shown, width);
        assert!(unfolded(&picture).contains("failedflush,smartevent,locked,disabled"), "{picture}");
    }
    let drawing = picture::drawing(&Scene::of_shown(&shown));
    assert!(drawing.contains("class=\"module ill\"") && drawing.contains("class=\"lock\""), "{drawing}");
}

#[test]
fn regions_without_modules_are_drawn_at_their_node() {
    let region = |number, node, gib: u64| NdRegion {
        number,
        numa_node: node,
        size: Some(gib << 30),
        enabled: true,
        namespaces: vec![NdNamespace {
            size: Some(gib << 30),
            span: Some(gib << 30),
            ..NdNamespace::new(number, 0)
        }],
        ..NdRegion::default()
    };
    let bus = |provider: &str, regions| NdBus { provider: provider.to_owned(), regions, ..NdBus::default() };
    let mut shown = module_with_table();
    shown.memory.clear();
    let others = [
        bus("e820", vec![region(1, Some(1), 4), region(2, Some(3), 2)]),
        bus("virtio-pmem", vec![region(3, None, 1)]),
    ];
    shown.inventory.buses.extend(others.clone());
    let picture = drawn(&shown, 100);
    let panels: Vec<&str> = picture.split("\n┌─ ").skip(1).collect();
    let [socket, node, unknown] = panels.as_slice() else { panic!("{picture}") };
    // The modules of socket 1 have regions at node 1.
    assert!(
        socket.starts_with("socket 1 ") && socket.contains("region1  4 GiB of memory of e820"),
        "{picture}"
    );
    assert!(
        node.starts_with("NUMA node 3 ") && node.contains("region2  2 GiB of memory of e820"),
        "{picture}"
    );
    assert!(
        unknown.starts_with("unknown socket ") && unknown.contains("1 GiB of memory of virtio-pmem"),
        "{picture}"
    );
    assert!(picture.contains("7 GiB in regions without modules"), "{picture}");
    shown.inventory.buses = others.into();
    let picture = drawn(&shown, 100);
    assert!(picture.starts_with("/sys  7 GiB in regions without modules\n"), "{picture}");
    assert!(picture.contains("NUMA node 1") && !picture.contains("socket 1"), "{picture}");
    assert_eq!(
        drawn(&Shown { path: "/sys".to_owned(), ..Shown::default() }, 100).trim_end(),
        "/sys  no persistent memory that the kernel knows of"
    );
}

#[test]
fn hostile_names_of_real_machines_are_whole_and_escaped() {
    let long = format!("{HOSTILE}{}", "a name that is too long for a line, 漢字 ".repeat(6));
    let mut shown = module_with_table();
    shown.path = format!("/{long}");
    shown.memory[0].locator = long.clone();
    let bus = &mut shown.inventory.buses[0];
    bus.modules[0].id = Some(long.clone());
    bus.regions[0].namespaces[0].name = long.clone();
    bus.regions[0].namespaces[1].block_device = Some(long.clone());
    let region = NdRegion { number: 1, size: Some(1 << 30), enabled: true, ..NdRegion::default() };
    let provider = long.clone();
    shown.inventory.buses.push(NdBus { provider, regions: vec![region], ..NdBus::default() });
    let scene = Scene::of_shown(&shown);
    let seen = long.replace(['\u{202e}', '\u{1b}'], "\u{fffd}");
    for width in [40, 60, 100] {
        let picture = picture::terminal(&scene, width, Palette::Plain);
        assert!(!picture.contains(['\u{1b}', '\u{202e}']), "{picture:?}");
        let cells =
            |line: &str| line.chars().map(|one| if "漢字".contains(one) { 2 } else { 1 }).sum::<usize>();
        assert!(picture.lines().all(|line| cells(line) <= width), "{picture}");
        let (all, name) = (unfolded(&picture), unfolded(&seen));
        // Machine, slot, name, device, provider.
        assert_eq!(all.matches(name.as_str()).count(), 5, "{picture}");
    }
    let page = picture::page(&scene);
    assert!(!page.contains("<script") && !page.contains(['\u{1b}', '\u{202e}']), "{page}");
    let escaped = seen.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let escaped = escaped.replace('"', "&quot;").replace('\'', "&#39;");
    assert!(page.matches(escaped.trim_end()).count() >= 6, "{page}");
}

#[test]
fn plans_draw_before_and_after() {
    let sysfs = unpack_capture("6.12", true);
    let plan = |words: &str| {
        let head = ["platform", "plan", "--sysfs", text(sysfs.path())];
        lode(head.into_iter().chain(words.split(' '))).success()
    };
    let printed = plan("--devdax 64M --name new");
    let (_, drawings) = printed.split_once("\nBefore:\n").unwrap();
    let (before, after) = drawings.split_once("\nAfter:\n").unwrap();
    let scene = Scene::of_shown(&Shown::read(&Sysfs::open(sysfs.path()).unwrap()));
    assert_eq!(
        before,
        picture::terminal(&scene, 100, Palette::Plain).trim_end_matches('\n').to_owned() + "\n"
    );
    assert!(!before.contains("\"new\"") && after.contains("\"new\""), "{printed}");
    assert!(before.contains("free"), "{printed}");
    assert!(!plan("--devdax 64M --commands").contains("Before:"));
    // An emulated machine; a plan that changes nothing has no pictures.
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    lode(["platform", "init", "lab-one", "--state", text(&state)]).success();
    let plan = |words: &str| {
        let head = ["platform", "plan", "--state", text(&state)];
        lode(head.into_iter().chain(words.split(' '))).success()
    };
    let words = "--fsdax 64M --name data";
    let printed = plan(&format!("{words} --apply"));
    let after = printed.split_once("\nAfter:\n").unwrap().1;
    let show = lode(["platform", "show", "--state", text(&state)]).success();
    assert!(show.contains("\"data\"") && after.contains(&show), "{printed}\n{show}");
    assert!(!plan(words).contains("Before:"));
}
