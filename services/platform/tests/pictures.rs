//! Pictures of the included machines are golden files. Pages contain every object, and names in them never become
//! markup.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::picture::{self, Palette, Scene};
use lode_platform::plan::{self, NamespaceRequest, PlanRequest, Rest};
use lode_platform::{CreateNamespace, GoalRequest, Mode, Platform, boot, goal, namespace};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;
use std::fs;
use uuid::Uuid;

/// A name that would become markup if it were not escaped.
const HOSTILE: &str = "</text><script>&\"'\u{202e}\u{1b}[31m";

fn uuids() -> impl FnMut() -> Uuid {
    let mut next = 0;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

fn machine(text: &str) -> Platform {
    Platform::new(Machine::parse(text).unwrap())
}

/// Returns the machine with namespaces of these modes and sizes in MiB, all of which must fit.
fn with_namespaces(mut platform: Platform, rest: Option<Rest>, requests: &[(Mode, u64, &str)]) -> Platform {
    let request = |(mode, mib, name): &(Mode, u64, &str)| {
        let (size, name) = (Some(mib << 20), (*name).to_owned());
        let namespace = CreateNamespace { mode: *mode, size, name, ..CreateNamespace::default() };
        NamespaceRequest { namespace, ..NamespaceRequest::default() }
    };
    let requests = requests.iter().map(request).collect();
    let request = PlanRequest { namespaces: requests, rest, ..PlanRequest::default() };
    let plan =
        plan::for_emulated(&platform, &request, &mut uuids()).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&mut platform, &mut uuids()).unwrap();
    platform
}

/// Returns an included machine in use: several modes, Memory Mode, a pending goal, a disabled object.
fn in_use(name: &str) -> Platform {
    let platform = machine(Machine::included(name).unwrap());
    match name {
        "fujitsu-primergy" => {
            let requests = [
                (Mode::Fsdax, 200 << 10, "database"),
                (Mode::Sector, 32 << 10, ""),
                (Mode::Devdax, 252 << 10, ""),
            ];
            with_namespaces(platform, Some(Rest::AppDirect), &requests)
        }
        "e4-pmserver" => {
            let requests =
                [(Mode::Fsdax, 600 << 10, "db"), (Mode::Raw, 300 << 10, ""), (Mode::Devdax, 120 << 10, "")];
            with_namespaces(platform, Some(Rest::MemoryMode), &requests)
        }
        "e4-storage" => {
            let mut platform = with_namespaces(platform, None, &[(Mode::Sector, 96 << 10, "journal")]);
            namespace::enable(&mut platform, "namespace0.0", false).unwrap();
            let mut request =
                GoalRequest { memory_percent: 50, reserved_percent: 10, ..GoalRequest::default() };
            request.targets.sockets = vec![1];
            let goals = goal::plan(&platform, &request).unwrap();
            goal::create(&mut platform, goals);
            platform
        }
        "lab-one" => with_namespaces(platform, None, &vec![(Mode::Raw, 16, ""); 40]),
        _ => {
            let requests = [
                (Mode::Fsdax, 512, ""),
                (Mode::Devdax, 256, ""),
                (Mode::Sector, 128, "ünï 漢字"),
                (Mode::Raw, 32, ""),
            ];
            with_namespaces(platform, None, &requests)
        }
    }
}

/// Returns a machine with `sockets` sockets of `modules` modules each.
fn large(sockets: u32, modules: u32) -> Platform {
    let mut text = "name = \"large\"\n[profile]\nipmctl = 3\nndctl = 76\nkernel = \"6.1\"\n".to_owned();
    for number in 0..sockets * modules {
        let (socket, slot) = (number / modules, number % modules);
        let handle = (socket << 12) | ((slot / 6) << 8) | ((slot % 6) << 4) | 1;
        text += &format!(
            "[[module]]\nhandle = {handle}\nphysical_id = {number}\nlocator = \"CPU{socket}_{slot}\"\n\
             capacity = \"258512MiB\"\nid = \"8089-a2-2018-{number:08x}\"\n"
        );
    }
    machine(&text)
}

#[test]
fn pictures_of_the_included_machines() {
    let mut different = Vec::new();
    for (name, text) in INCLUDED {
        for (state, platform) in [("new", machine(text)), ("used", in_use(name))] {
            let picture = picture::terminal(&Scene::of(&platform), 100, Palette::Plain);
            let path = format!("{}/tests/pictures/{name}-{state}.txt", env!("CARGO_MANIFEST_DIR"));
            let golden = fs::read_to_string(&path).unwrap_or_default();
            if picture != golden {
                let ours = format!("{}/{name}-{state}.txt", env!("CARGO_TARGET_TMPDIR"));
                fs::write(&ours, &picture).unwrap();
                different.push(format!("{path} is not {ours}"));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn pictures_fit_terminal_and_palette() {
    for (name, _) in INCLUDED {
        let platform = in_use(name);
        for width in [0, 40, 57, 80, 100, 300] {
            let picture = picture::terminal(&Scene::of(&platform), width, Palette::Plain);
            let cells =
                |line: &str| line.chars().map(|one| if "漢字".contains(one) { 2 } else { 1 }).sum::<usize>();
            let widest = picture.lines().map(cells).max().unwrap();
            assert!(widest <= width.clamp(40, 100), "{name} in {width}:\n{picture}");
            assert!(!picture.contains('\x1b'));
        }
        assert!(
            picture::terminal(&Scene::of(&platform), 100, Palette::Colour).contains("\x1b[0;36m"),
            "{name}"
        );
    }
}

#[test]
fn equal_sockets_are_drawn_once() {
    let mut platform = large(64, 24);
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let picture = picture::terminal(&Scene::of(&platform), 100, Palette::Plain);
    assert!(picture.lines().count() < 40, "{picture}");
    let last = "… sockets 1 to 63 look like socket 0: nmem24 to nmem1535, region2 to region127\n";
    assert!(picture.ends_with(last), "{picture}");
    let namespace = CreateNamespace { region: Some(60), ..CreateNamespace::default() };
    namespace::create(&mut platform, &namespace, &mut uuids()).unwrap();
    let picture = picture::terminal(&Scene::of(&platform), 100, Palette::Plain);
    assert!(picture.contains("sockets 1 to 29 look like socket 0"), "{picture}");
    assert!(
        picture.contains("namespace60.0") && picture.contains("sockets 32 to 63 look like socket 31"),
        "{picture}"
    );
}

/// Returns the drawing of a page, which is an XML document of its own.
fn drawing(page: &str) -> &str {
    let start = page.find("<svg").unwrap();
    &page[start..page.find("</svg>").unwrap() + "</svg>".len()]
}

fn names<'a>(document: &'a Document<'a>, class: &str) -> Vec<&'a str> {
    let own = |node: &Node<'_, '_>| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').next() == Some(class))
    };
    document.descendants().filter(own).filter_map(|node| node.attribute("data-name")).collect()
}

#[test]
fn pages_show_each_object_once() {
    let all = INCLUDED.map(|(name, _)| in_use(name)).into_iter();
    for platform in all.chain([large(3, 24), large(1, 1)]) {
        let page = picture::page(&Scene::of(&platform));
        let document = Document::parse(drawing(&page)).unwrap_or_else(|error| panic!("{error}\n{page}"));
        let modules: BTreeSet<String> =
            platform.machine.modules.iter().map(|module| module.handle.to_string()).collect();
        let drawn = names(&document, "module");
        assert_eq!(drawn.len(), modules.len());
        assert_eq!(drawn.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), modules);
        let regions = platform.regions();
        let mut expected: Vec<String> = regions.iter().map(|region| region.name()).collect();
        let mut drawn = names(&document, "region");
        expected.sort();
        drawn.sort_unstable();
        assert_eq!(drawn, expected);
        let namespaces = regions.iter().flat_map(|region| platform.namespaces(region));
        let mut expected: Vec<String> = namespaces.map(|namespace| namespace.device()).collect();
        let mut drawn = names(&document, "namespace");
        expected.sort();
        drawn.sort_unstable();
        assert_eq!(drawn, expected);
        // No rectangle extends past the drawing.
        let number =
            |node: &Node<'_, '_>, name: &str| node.attribute(name).and_then(|text| text.parse::<i64>().ok());
        let height = document.root_element().attribute("viewBox").unwrap().split(' ').nth(3).unwrap();
        for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
            let end = |at, len| number(&node, at).unwrap_or(0) + number(&node, len).unwrap_or(0);
            assert!(end("x", "width") <= 1200 && end("y", "height") <= height.parse().unwrap(), "{node:?}");
        }
    }
}

/// The drawing as a file of its own is that of the page, and has the styles.
#[test]
fn drawings_stand_alone() {
    for (name, _) in INCLUDED {
        let platform = in_use(name);
        let svg = picture::drawing(&Scene::of(&platform));
        let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
        let style = document.descendants().find(|node| node.has_tag_name("style")).unwrap();
        assert!(style.text().unwrap().contains("--page:") && !style.text().unwrap().contains("url(http"));
        let without_style =
            format!("{}{}", &svg[..style.range().start], svg[style.range().end..].trim_start());
        let page = picture::page(&Scene::of(&platform));
        assert_eq!(without_style.trim_end(), drawing(&page), "{name}");
    }
}

/// On a narrow screen, drawing and table scroll in boxes of their own, and the text of the drawing is not reduced.
#[test]
fn pages_fit_a_telephone() {
    let page = picture::page(&Scene::of(&in_use("e4-pmserver")));
    for (start, inside) in [
        ("<div class=\"drawing\">\n<svg", "</svg>\n</div>"),
        ("<div class=\"scroll\"><table>", "</table></div>"),
    ] {
        assert!(page.contains(start) && page.contains(inside), "{start} in {page}");
    }
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    for rule in [".drawing{overflow-x:auto}", ".scroll{overflow-x:auto}", "overflow-wrap:anywhere"] {
        assert!(style.contains(rule), "{rule} in {style}");
    }
    let narrow = style.split_once("@media(max-width:700px){").unwrap().1.lines().next().unwrap();
    // The drawing is 1200 units wide: a unit is a pixel.
    assert!(narrow.contains("svg{min-width:1200px}") && narrow.contains("white-space:nowrap"), "{narrow}");
    assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"));
}

/// Names are whole, however narrow the terminal is.
#[test]
fn long_names_continue_on_the_next_line() {
    let long = format!("{HOSTILE}{}", "a name that is too long for a line, 漢字 ".repeat(6));
    let quoted = toml_text(&long);
    let text = Machine::included("lab-pair").unwrap();
    let text = text.replace("\"lab-pair\"", &quoted).replace("\"CPU0_DIMM_A2\"", &quoted);
    let name = long[..60].trim_end();
    let platform = with_namespaces(machine(&text), None, &[(Mode::Raw, 1024, name)]);
    let whole = |text: &str| {
        let kept = |one: &char| !one.is_whitespace() && !"│┌┐└┘─".contains(*one);
        text.replace(['\u{202e}', '\u{1b}'], "\u{fffd}").chars().filter(kept).collect::<String>()
    };
    for width in [40, 60, 100] {
        let picture = picture::terminal(&Scene::of(&platform), width, Palette::Plain);
        let all = whole(&picture);
        assert_eq!(all.matches(&whole(&long)).count(), 2, "of machine and module: {picture}");
        assert!(all.contains(&format!("\"{}\"", whole(name))), "{picture}");
    }
}

#[test]
fn hostile_names_are_escaped() {
    let quoted = toml_text(HOSTILE);
    let text = Machine::included("lab-pair").unwrap();
    let text = text.replace("\"lab-pair\"", &quoted).replace("\"CPU0_DIMM_A2\"", &quoted);
    let platform = with_namespaces(machine(&text), None, &[(Mode::Raw, 1024, HOSTILE)]);
    let page = picture::page(&Scene::of(&platform));
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page}");
    assert_eq!(page.matches("</text>&lt;").count(), 0);
    let document = Document::parse(drawing(&page)).unwrap();
    let seen = "</text><script>&\"'\u{fffd}\u{fffd}[31m";
    let titles =
        document.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text());
    assert_eq!(titles.filter(|title| title.contains(seen)).count(), 2, "of a module and of a namespace");
    assert_eq!(document.root_element().attribute("aria-label"), Some(seen));
    for palette in [Palette::Plain, Palette::Colour] {
        let picture = picture::terminal(&Scene::of(&platform), 100, palette);
        assert!(!picture.contains("\x1b[31m") && !picture.contains('\u{202e}'), "{picture:?}");
        assert!(picture.contains("</text><script>&"), "{picture}");
    }
}

fn toml_text(text: &str) -> String {
    let characters = text.chars().map(|one| format!("\\U{:08x}", u32::from(one)));
    format!("\"{}\"", characters.collect::<String>())
}
