//! SVG drawing of a machine, shape by shape.
//!
//! Each socket is a panel. Modules are bars, filled to scale. Lines lead from the modules of a set to its region,
//! and regions are bars to scale with their namespaces. Colours and lines are classes of the styles.

use super::plain::plain;
use super::scene::{
    Content, ModuleView, NamespaceView, Part, Place, RegionView, Scene, SocketView, Use, amount, divide,
    size_text,
};
use super::style::{ALONE, COLOURS, DRAWING, hues};
use crate::namespace::Mode;
use std::fmt::{Display, Write};

/// Width of the drawing in its own units, which all other lengths share.
pub(super) const WIDTH: usize = 1200;
const MARGIN: usize = 28;
const GAP: usize = 8;
/// Maximum width of a module, and height of its body.
const MODULE_WIDTH: usize = 184;
const BODY: usize = 112;
/// Distances from the top of a panel to its modules, from there to their bodies, and from the bodies to the regions.
const HEAD: usize = 64;
const CAPTION: usize = 44;
const CONNECTORS: usize = 72;
const REGION: usize = 62;
/// Width below which a module shows only its number beside the body.
const CAPTION_WIDTH: usize = 96;
/// Width of a character, in small and in bold text.
const CHARACTER_WIDTH: usize = 7;
const BOLD_WIDTH: usize = 8;
/// Minimum width of adjacent regions, as long as there is room. Above it they are to scale.
const REGION_WIDTH: usize = 120;
/// Number of colours for regions.
const HUES: u32 = 6;

/// Escapes markup in a text.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in plain(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // XML does not allow these characters.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Draws sockets, modules, interleave sets, regions and namespaces as an SVG file that references no other. It supports light
/// and dark mode.
pub fn drawing(scene: &Scene) -> String {
    let style = format!("<style>{COLOURS}{DRAWING}{}{ALONE}</style>\n", hues());
    draw(scene, &style)
}

/// Draws the machine, with an element of styles or without.
pub(super) fn draw(scene: &Scene, style: &str) -> String {
    let mut svg = Svg { text: String::new() };
    let mut y = MARGIN / 2;
    for socket in &scene.sockets {
        y = svg.socket(scene, socket, y) + MARGIN;
    }
    let name = escape(&scene.name);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" role=\"img\" aria-label=\"{name}\">\n{style}\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect class=\"ground\" width=\"6\" height=\"6\"/>\
         <rect class=\"line\" width=\"1.5\" height=\"6\"/></pattern></defs>\n{}</svg>\n",
        svg.text
    )
}

/// Position of a drawn module: its middle and lower edge.
struct Anchor {
    x: usize,
    y: usize,
}

struct Svg {
    text: String,
}

impl Svg {
    fn add(&mut self, shape: impl Display) {
        let _ = writeln!(self.text, "{shape}");
    }

    fn rect(&mut self, class: &str, x: usize, y: usize, width: usize, height: usize) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    fn rounded(&mut self, class: &str, x: usize, y: usize, width: usize, height: usize, radius: usize) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
        ));
    }

    /// Writes a text, cut to `room`.
    fn write(&mut self, class: &str, x: usize, y: usize, room: usize, text: &str) {
        let most = room / if class.contains("name") { BOLD_WIDTH } else { CHARACTER_WIDTH };
        let text = plain(text);
        let text = match text.chars().count() {
            count if count <= most => text,
            _ if most < 3 => return,
            _ => text.chars().take(most - 1).chain(['…']).collect(),
        };
        self.add(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(&text)));
    }

    /// Writes the first of the texts that fits, or the last one, cut.
    fn write_fitting(&mut self, class: &str, x: usize, y: usize, room: usize, texts: &[String]) {
        let wide = if class.contains("name") { BOLD_WIDTH } else { CHARACTER_WIDTH };
        let fits = |text: &&String| plain(text).chars().count() <= room / wide;
        if let Some(text) = texts.iter().find(fits).or(texts.last()) {
            self.write(class, x, y, room, text);
        }
    }

    fn open(&mut self, class: &str, name: &str, title: &str) {
        let (name, title) = (escape(name), escape(title));
        self.add(format_args!("<g class=\"{class}\" data-name=\"{name}\"><title>{title}</title>"));
    }

    fn close(&mut self) {
        self.add("</g>");
    }

    /// Draws a socket. Returns the position of its lower edge.
    fn socket(&mut self, scene: &Scene, socket: &SocketView, top: usize) -> usize {
        let rows = region_rows(&socket.regions);
        let modules = if socket.modules.is_empty() { 0 } else { CAPTION + BODY + 20 };
        let connectors = if socket.modules.is_empty() || rows.is_empty() { 0 } else { CONNECTORS };
        let height = HEAD + modules + connectors + rows.len() * (REGION + 18) + 14;
        let name = socket.place.name();
        let dram = socket.dram.map_or(String::new(), |dram| format!(": {} of DRAM", amount(dram)));
        self.open("socket", &name, &format!("{name}{dram}"));
        self.rounded("panel", 1, top, WIDTH - 2, height, 14);
        let title = match socket.place {
            Place::Socket(number) => format!("Socket {number}"),
            Place::Node(_) => name,
            Place::Unknown => "Unknown socket".to_owned(),
        };
        self.write("title", MARGIN, top + 34, 300, &title);
        self.dram(scene, socket, top + 18);
        let anchors = self.modules(scene, socket, top + HEAD);
        let mut y = top + HEAD + modules + connectors;
        for row in rows {
            self.row(socket, row, &anchors, y);
            y += REGION + 18;
        }
        self.close();
        top + height
    }

    /// Draws DRAM and volatile memory at the right of the head.
    fn dram(&mut self, scene: &Scene, socket: &SocketView, y: usize) {
        let role = if scene.is_cache { "DRAM, a cache" } else { "DRAM" };
        let mut x = WIDTH - MARGIN;
        let mut chips = Vec::new();
        chips.extend(socket.dram.map(|dram| ("chip", format!("{} {role}", amount(dram)))));
        if socket.memory > 0 {
            chips.push(("chip memory", format!("{} volatile memory", amount(socket.memory))));
        }
        for (class, text) in chips.iter().rev() {
            let width = (text.chars().count() + 3) * CHARACTER_WIDTH;
            x -= width;
            self.rounded(class, x, y, width, 24, 12);
            self.write("small", x + 11, y + 16, width, text);
            x -= GAP;
        }
    }

    fn modules(&mut self, scene: &Scene, socket: &SocketView, top: usize) -> Vec<Anchor> {
        let count = socket.modules.len().max(1);
        let room = WIDTH - 2 * MARGIN;
        let step = ((room + GAP) / count).clamp(1, MODULE_WIDTH + GAP);
        let width = step.saturating_sub(GAP.min(step / 4));
        let mut anchors = Vec::new();
        for (number, view) in socket.modules.iter().enumerate() {
            let x = MARGIN + number * step;
            let before = number.checked_sub(1).map(|before| socket.modules[before].controller());
            let controller = view.controller();
            if before != Some(controller) {
                let mut same = socket.modules[number..].iter();
                let own = same.position(|one| one.controller() != controller);
                let own = own.unwrap_or(socket.modules.len() - number);
                let text = view.handle.map_or(String::new(), |_| format!("controller {controller}"));
                self.write("quiet small", x, top, own * step, &text);
                self.add(format_args!(
                    "<path class=\"rule\" d=\"M{x} {0}H{1}\"/>",
                    top + 6,
                    x + own * step - (step - width)
                ));
            }
            self.module(scene, view, x, top + 10, width);
            anchors.push(Anchor { x: x + width / 2, y: top + CAPTION + BODY + 8 });
        }
        anchors
    }

    fn module(&mut self, scene: &Scene, view: &ModuleView, x: usize, y: usize, width: usize) {
        let (condition, well, dead) = (&view.condition, view.well, view.is_dead);
        self.open(if well { "module" } else { "module ill" }, &view.name(), &module_title(view));
        let name = view.device();
        if width >= CAPTION_WIDTH {
            self.write("name", x, y + 16, width - 50, &name);
            let dot = if well { "dot" } else { "dot alarm" };
            self.add(format_args!(
                "<circle class=\"{dot}\" cx=\"{}\" cy=\"{}\" r=\"5\"/>",
                x + width - 8,
                y + 11
            ));
            let under = if well { &view.locator } else { condition };
            let class = if well { "quiet small" } else { "alarm small" };
            self.write(class, x, y + 30, width, under);
        } else {
            let short =
                if (name.len() + 1) * CHARACTER_WIDTH <= width { name } else { view.number.to_string() };
            self.write(
                if well { "small" } else { "alarm small" },
                x,
                y + 30,
                width.max(3 * CHARACTER_WIDTH),
                &short,
            );
        }
        let body = (y + CAPTION - 10, BODY);
        let largest = u128::from(scene.largest.max(1));
        let height = (u128::from(view.capacity) * body.1 as u128 / largest) as usize;
        let height = if dead { body.1 } else { height.max(12) };
        let bottom = body.0 + body.1 + 6;
        self.rounded("tank", x, bottom - height, width, height, 5);
        if dead {
            let (left, right, upper) = (x + 8, x + width - 8, bottom - height + 8);
            let lower = bottom - 8;
            self.add(format_args!(
                "<path class=\"cross\" d=\"M{left} {upper}L{right} {lower}M{right} {upper}L{left} {lower}\"/>"
            ));
        } else {
            self.fill(view, x, bottom, width, height);
        }
        if view.is_locked {
            let (middle, upper) = (x + width / 2, bottom - height / 2 - 8);
            self.add(format_args!(
                "<g class=\"lock\"><path d=\"M{0} {upper}v-5a6 6 0 0 1 12 0v5\"/><rect x=\"{1}\" y=\"{upper}\" \
                 width=\"20\" height=\"15\" rx=\"3\"/></g>",
                middle - 6,
                middle - 10
            ));
        }
        self.close();
    }

    /// Draws the parts of a module from the bottom of its body upwards. Persistent memory is drawn below volatile
    /// memory, near its region, although it is after it on the media.
    fn fill(&mut self, view: &ModuleView, x: usize, bottom: usize, width: usize, height: usize) {
        let order = |part: &&Part| match part.what {
            Use::Region(number) => (0, number),
            Use::Memory => (1, 0),
            Use::Reserved => (2, 0),
            Use::Unconfigured => (3, 0),
            Use::Inaccessible => (4, 0),
            Use::Unknown => (5, 0),
        };
        let mut parts: Vec<&Part> = view.parts.iter().collect();
        parts.sort_by_key(order);
        let sizes: Vec<u64> = parts.iter().map(|part| part.size).collect();
        let mut y = bottom - 2;
        let inner = width.saturating_sub(4).max(1);
        for (part, high) in parts.iter().zip(divide(height - 4, &sizes, 1)) {
            y -= high;
            let class = match part.what {
                Use::Memory => "fill memory".to_owned(),
                Use::Region(number) => format!("fill hue{}", number % HUES),
                Use::Reserved => "fill reserved".to_owned(),
                Use::Unconfigured | Use::Unknown => "fill blank".to_owned(),
                Use::Inaccessible => "fill kept".to_owned(),
            };
            self.rect(&class, x + 2, y, inner, high);
            let label = match part.what {
                Use::Unconfigured => "not configured".to_owned(),
                Use::Unknown => format!("{} in no region", amount(part.size)),
                Use::Inaccessible => continue,
                _ => amount(part.size),
            };
            if high >= 18 && (label.chars().count() + 1) * CHARACTER_WIDTH <= inner {
                let class = match part.what {
                    Use::Unconfigured | Use::Unknown | Use::Reserved => "quiet small",
                    Use::Memory => "bright small",
                    _ => "inside small",
                };
                self.write(class, x + 8, y + high / 2 + 4, inner, &label);
            }
        }
    }

    /// Draws adjacent regions, and the lines that lead to them.
    fn row(&mut self, socket: &SocketView, row: &[RegionView], anchors: &[Anchor], y: usize) {
        let room = WIDTH - 2 * MARGIN - GAP * (row.len() - 1);
        let sizes: Vec<u64> = row.iter().map(|view| view.size.unwrap_or(0)).collect();
        let mut x = MARGIN;
        for (view, width) in row.iter().zip(divide(room, &sizes, REGION_WIDTH)) {
            let hue = view.number % HUES;
            let members: Vec<&Anchor> = anchors
                .iter()
                .zip(&socket.modules)
                .filter(|(_, module)| view.has(module.number))
                .map(|(anchor, _)| anchor)
                .collect();
            for (number, anchor) in members.iter().enumerate() {
                let end = x + width * (2 * number + 1) / (2 * members.len());
                let (from, to) = (anchor.y, y + 16);
                let bend = (to - from) / 2;
                self.add(format_args!(
                    "<path class=\"thread stroke{hue}\" d=\"M{0} {from}C{0} {1} {end} {2} {end} {to}\"/>",
                    anchor.x,
                    from + bend,
                    to - bend
                ));
            }
            self.region(view, x, y, width);
            x += width + GAP;
        }
    }

    fn region(&mut self, view: &RegionView, x: usize, y: usize, width: usize) {
        let off = if view.enabled { "" } else { " off" };
        self.open(&format!("region{off}"), &view.name(), &region_title(view));
        let (bar, high) = (y + 16, REGION - 18);
        self.rounded(&format!("bar stroke{}", view.number % HUES), x, bar, width, high, 6);
        let sizes: Vec<u64> = view.pieces.iter().map(|piece| piece.size).collect();
        let mut at = x + 2;
        for (piece, wide) in view.pieces.iter().zip(divide(width - 4, &sizes, 3)) {
            match &piece.content {
                Content::Namespace(namespace) => self.namespace(namespace, at, bar + 2, wide, high - 4),
                content => {
                    let is_free = matches!(content, Content::Free);
                    let text =
                        if is_free { format!("{} free", amount(piece.size)) } else { "not shown".to_owned() };
                    let needed = (text.chars().count() + 2) * CHARACTER_WIDTH;
                    if needed <= wide {
                        self.write("quiet small", at + 8, bar + high / 2 + 4, wide, &text);
                    }
                }
            }
            at += wide;
        }
        let class = if view.enabled { "small" } else { "alarm small" };
        let disabled = if view.enabled { "" } else { ", disabled" };
        let (name, size) = (view.name(), size_text(view.size));
        let texts = [
            format!("{name} · {size} of {}{disabled}", view.made_of()),
            format!("{name} · {size}{disabled}"),
            name,
            format!("r{}", view.number),
        ];
        self.write_fitting(class, x, y + REGION + 11, width, &texts);
        self.close();
    }

    fn namespace(&mut self, namespace: &NamespaceView, x: usize, y: usize, width: usize, height: usize) {
        let off = if namespace.enabled { "" } else { " off" };
        self.open(&format!("namespace{off}"), &namespace.device(), &namespace_title(namespace));
        let class = format!("space {}", mode_class(namespace));
        self.rounded(&class, x, y, width.saturating_sub(1).max(1), height, 4);
        let (device, number) = (namespace.device(), format!("{}.{}", namespace.region, namespace.number));
        let mut texts = vec![device.clone(), number];
        if !namespace.name.is_empty() {
            texts.insert(0, format!("{} ({device})", namespace.name));
        }
        self.write_fitting("name", x + 8, y + 17, width.saturating_sub(10), &texts);
        let (mode, size) = (namespace.mode.as_str().to_owned(), namespace.size_text());
        let texts = [format!("{mode}, {size}"), mode];
        self.write_fitting("small", x + 8, y + 32, width.saturating_sub(10), &texts);
        self.close();
    }
}

/// Splits the regions into rows, each short enough that every region in it can be seen.
fn region_rows(regions: &[RegionView]) -> Vec<&[RegionView]> {
    regions.chunks(24).collect()
}

fn mode_class(namespace: &NamespaceView) -> &'static str {
    match namespace.mode {
        Mode::Fsdax => "fsdax",
        Mode::Devdax => "devdax",
        Mode::Sector => "sector",
        Mode::Raw => "raw",
    }
}

fn module_title(view: &ModuleView) -> String {
    let texts =
        [view.device(), view.handle.map_or(String::new(), |handle| handle.to_string()), view.locator.clone()];
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    let mut lines = vec![texts.join(", ")];
    lines.extend(view.handle.map(|handle| {
        format!("controller {}, channel {}, slot {}", handle.controller(), handle.channel(), handle.slot())
    }));
    lines.push(view.condition.clone());
    if view.capacity > 0 {
        lines.push(format!("{} in all", view.capacity_text()));
    }
    lines.extend(view.parts.iter().map(|part| {
        let what = match part.what {
            Use::Memory => "volatile memory".to_owned(),
            Use::Region(number) => format!("in region{number}"),
            Use::Reserved => "reserved".to_owned(),
            Use::Unconfigured => "not configured".to_owned(),
            Use::Inaccessible => "kept by firmware".to_owned(),
            Use::Unknown => "in no region".to_owned(),
        };
        format!("{} {what}", amount(part.size))
    }));
    lines.extend(view.details.iter().cloned());
    titled(&lines)
}

fn region_title(view: &RegionView) -> String {
    let mut lines = vec![format!("{}, {} of {}", view.name(), size_text(view.size), view.made_of())];
    lines.extend(view.set.map(|id| format!("interleave set {id:#018x}")));
    if !view.members.is_empty() {
        let members: Vec<&str> = view.members.iter().map(|(_, name)| name.as_str()).collect();
        lines.push(members.join(" "));
    }
    lines.extend(view.base.map(|base| format!("from {base:#x} on")));
    if !view.enabled {
        lines.push("disabled".to_owned());
    }
    titled(&lines)
}

fn namespace_title(namespace: &NamespaceView) -> String {
    let usable = namespace.usable.map_or(String::new(), |usable| format!(", {} usable", amount(usable)));
    let mut lines = vec![
        format!("{}, {}", namespace.device(), namespace.mode.as_str()),
        format!("{}{usable}", namespace.size_text()),
    ];
    lines.extend(namespace.paths());
    if !namespace.name.is_empty() {
        lines.push(format!("called {}", namespace.name));
    }
    lines.extend(namespace.uuid.map(|uuid| uuid.to_string()));
    if !namespace.enabled {
        lines.push("disabled".to_owned());
    }
    titled(&lines)
}

/// Joins lines of a tooltip, without characters that would begin another line.
fn titled(lines: &[String]) -> String {
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join(" · ")
}
