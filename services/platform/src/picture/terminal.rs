//! Picture of a machine in box characters.

use super::canvas::{Canvas, Ink, Palette, cells};
use super::scene::{
    Content, ModuleView, NamespaceView, Part, Piece, Place, RegionView, Scene, SocketView, Use, amount,
    divide, size_text,
};

/// Minimum width of a picture, even on a narrower terminal.
const WIDTH_MIN: usize = 40;
/// Maximum width of a picture. Longer lines are hard to follow.
const WIDTH_MAX: usize = 100;
/// Minimum and maximum cells of a module's card.
const CARD: (usize, usize) = (22, 40);
const CARD_HEIGHT: usize = 5;
/// Limit of modules for cards. A socket with more modules has a line for each.
const CARDS_MAX: usize = 12;
/// Minimum cells of a module's line.
const LINE_CELLS: usize = 23;
/// Minimum cells of a piece of a region with a text, including its edge.
const PIECE_CELLS: usize = 4;
/// Limit of regions. On a socket with more of them, empty regions have a line each.
const REGIONS_MAX: usize = 6;
/// Limit of sockets. In a machine with more of them, one represents all equal ones.
const SOCKETS_MAX: usize = 8;

/// Draws sockets, modules, interleave sets, regions and namespaces for the terminal. The picture is at most `width`
/// cells wide, and between 40 and 100. Names that are longer continue on the next line.
pub fn terminal(scene: &Scene, width: usize, palette: Palette) -> String {
    let mut canvas = Canvas::new(width.clamp(WIDTH_MIN, WIDTH_MAX));
    let picture = Picture { scene, width: width.clamp(WIDTH_MIN, WIDTH_MAX) };
    picture.draw(&mut canvas);
    canvas.text(palette)
}

struct Picture<'s> {
    scene: &'s Scene,
    width: usize,
}

impl Picture<'_> {
    fn draw(&self, canvas: &mut Canvas) {
        let (x, mut y) = canvas.fold((0, 0), 0, self.width, &self.scene.name, Ink::Strong);
        let mut x = x + 2;
        for (number, part) in self.scene.summary.iter().enumerate() {
            let text = if number == 0 { part.clone() } else { format!(" · {part}") };
            if x + cells(&text) > self.width {
                (x, y) = canvas.fold((2, y + 1), 2, self.width - 2, part, Ink::Text);
            } else {
                x += canvas.put(x, y, self.width, &text, Ink::Text);
            }
        }
        self.legend(canvas);
        let mut shown: Option<(String, u16)> = None;
        let mut equal: Vec<&SocketView> = Vec::new();
        for socket in &self.scene.sockets {
            let Place::Socket(number) = socket.place else {
                self.equal_sockets(canvas, &std::mem::take(&mut equal), &shown);
                self.socket(canvas, socket);
                shown = None;
                continue;
            };
            let appearance = appearance(socket);
            if self.scene.sockets.len() > SOCKETS_MAX
                && shown.as_ref().is_some_and(|(one, _)| *one == appearance)
            {
                equal.push(socket);
                continue;
            }
            self.equal_sockets(canvas, &std::mem::take(&mut equal), &shown);
            self.socket(canvas, socket);
            shown = Some((appearance, number));
        }
        self.equal_sockets(canvas, &equal, &shown);
        for line in &self.scene.cxl {
            canvas.fold((0, canvas.height()), 2, self.width, line, Ink::Text);
        }
    }

    /// Draws the legend of the characters in bars, for those that occur.
    fn legend(&self, canvas: &mut Canvas) {
        let parts = || self.scene.sockets.iter().flat_map(|one| &one.modules).flat_map(|one| &one.parts);
        let there = |what: Use| parts().any(|part| symbol(part.what) == symbol(what));
        let all = [
            (Use::Memory, "volatile memory"),
            (Use::Region(0), "persistent, in a region"),
            (Use::Reserved, "reserved"),
            (Use::Unconfigured, "not configured"),
            (Use::Inaccessible, "kept by firmware"),
            (Use::Unknown, "in no region"),
        ];
        let (mut y, mut x) = (canvas.height(), 0);
        for (what, words) in all.into_iter().filter(|(what, _)| there(*what)) {
            let (character, ink) = symbol(what);
            if x + cells(words) + 5 > self.width {
                (x, y) = (0, y + 1);
            }
            x += 2;
            canvas.fill(x, y, 2, character, ink);
            x += 3 + canvas.put(x + 3, y, self.width, words, Ink::Quiet);
        }
    }

    /// Lists the sockets that look like the drawn one.
    fn equal_sockets(&self, canvas: &mut Canvas, equal: &[&SocketView], shown: &Option<(String, u16)>) {
        let (Some(first), Some(last), Some((_, like))) = (equal.first(), equal.last(), shown) else { return };
        let indexes: Vec<usize> =
            equal.iter().flat_map(|one| &one.modules).map(|module| module.number).collect();
        let regions: Vec<u32> =
            equal.iter().flat_map(|one| &one.regions).map(|region| region.number).collect();
        let range = |from: String, to: String| if from == to { from } else { format!("{from} to {to}") };
        let mut parts = Vec::new();
        if let (Some(from), Some(to)) = (indexes.iter().min(), indexes.iter().max()) {
            parts.push(range(format!("nmem{from}"), format!("nmem{to}")));
        }
        if let (Some(from), Some(to)) = (regions.iter().min(), regions.iter().max()) {
            parts.push(range(format!("region{from}"), format!("region{to}")));
        }
        let (from, to) = (first.place.short_name(), last.place.short_name());
        let what =
            if from == to { format!("socket {from} looks") } else { format!("sockets {from} to {to} look") };
        let text = format!("… {what} like socket {like}: {}", parts.join(", "));
        canvas.fold((0, canvas.height()), 2, self.width, &text, Ink::Quiet);
    }

    fn socket(&self, canvas: &mut Canvas, socket: &SocketView) {
        let top = canvas.height();
        let cache = if self.scene.is_cache { ", a cache" } else { "" };
        let mut parts: Vec<String> =
            socket.dram.map(|dram| format!("{} of DRAM{cache}", amount(dram))).into_iter().collect();
        if socket.memory > 0 {
            parts.push(format!("{} of volatile memory", amount(socket.memory)));
        }
        let name = format!(" {} ", socket.place.name());
        let title = if parts.is_empty() { String::new() } else { format!(" {} ", parts.join(" ─ ")) };
        let has_room = cells(&name) + cells(&title) + 5 <= self.width;
        let mut y = top + 1;
        if !has_room {
            (_, y) = canvas.fold((2, y), 0, self.width - 4, &parts.join(", "), Ink::Text);
            y += 1;
        }
        if socket.modules.len() <= CARDS_MAX {
            y = self.cards(canvas, socket, y);
        } else {
            y = self.lines(canvas, socket, y);
        }
        let largest = socket.regions.iter().filter_map(|one| one.size).max().unwrap_or(0);
        for region in &socket.regions {
            let is_brief = socket.regions.len() > REGIONS_MAX && region.is_free();
            y = self.region(canvas, region, largest, y, is_brief);
        }
        canvas.frame(0, top, self.width, y + 1 - top, Ink::Frame);
        let x = 2 + canvas.put(2, top, self.width - 4, &name, Ink::Strong);
        if has_room {
            canvas.put(x + 1, top, self.width - x - 3, &title, Ink::Text);
        }
    }

    /// Draws the modules as cards, those of a controller in one row if there is room.
    fn cards(&self, canvas: &mut Canvas, socket: &SocketView, top: usize) -> usize {
        let inner = self.width - 4;
        let most = (inner / CARD.0).max(1);
        let of = |controller: u16| socket.modules.iter().filter(|one| one.controller() == controller).count();
        let row = (0..16).map(of).max().unwrap_or(1).max(1);
        // The rows of a controller that needs several have the same length.
        let columns = row.div_ceil(row.div_ceil(most));
        let columns = if columns == 1 { socket.modules.len().clamp(1, most) } else { columns };
        let width = (inner / columns).min(CARD.1);
        let mut y = top;
        let mut rest = socket.modules.as_slice();
        let mut cut = Vec::new();
        while let Some(first) = rest.first() {
            let same = |one: &&ModuleView| row == 1 || one.controller() == first.controller();
            let count = rest.iter().take(columns).take_while(same).count();
            let (here, others) = rest.split_at(count);
            for (column, module) in here.iter().enumerate() {
                let is_whole = self.card(canvas, module, 2 + column * width, y, width);
                cut.extend((!is_whole).then_some(module));
            }
            rest = others;
            y += CARD_HEIGHT;
        }
        for module in cut {
            let texts = [module.device(), module.locator.clone(), module.condition.clone()];
            let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            (_, y) = canvas.fold((2, y), 2, inner, &texts.join("  "), Ink::Text);
            y += 1;
        }
        y
    }

    /// Draws the card of a module. Returns false if its texts had to be cut.
    fn card(&self, canvas: &mut Canvas, view: &ModuleView, x: usize, y: usize, width: usize) -> bool {
        let room = width - 4;
        canvas.frame(x, y, width, CARD_HEIGHT, Ink::Frame);
        let condition = format!(" {} ", view.condition);
        let ink = if view.well { Ink::Quiet } else { Ink::Alarm };
        let handle = view.handle.map_or(String::new(), |handle| format!("{handle} "));
        canvas.put(x + 2, y, room, &format!(" {} {handle}", view.device()), Ink::Strong);
        let space = room.min(cells(&condition));
        canvas.put(x + 2 + room - space, y + 4, space, &condition, ink);
        let capacity = view.capacity_text();
        let for_locator = room.saturating_sub(cells(&capacity) + 1);
        canvas.put(x + 2, y + 1, for_locator, &view.locator, Ink::Text);
        canvas.put(x + 2 + room - cells(&capacity), y + 1, room, &capacity, Ink::Text);
        self.bar(canvas, view, x + 2, y + 2, room);
        let parts: Vec<&Part> = view.parts.iter().filter(|part| part.what != Use::Inaccessible).collect();
        let text = |separator: &str, label: fn(&Part) -> String| {
            parts.iter().map(|part| label(part)).collect::<Vec<_>>().join(separator)
        };
        let long = text(", ", label);
        let text = if cells(&long) <= room { long } else { text(" ", short_label) };
        canvas.put(x + 2, y + 3, room, &text, Ink::Text);
        cells(&condition) <= room && cells(&view.locator) <= for_locator
    }

    /// Draws the use of a module. The bar's length is its capacity relative to the largest one.
    fn bar(&self, canvas: &mut Canvas, view: &ModuleView, x: usize, y: usize, room: usize) {
        if view.is_dead {
            canvas.fill(x, y, room, '╳', Ink::Alarm);
            return;
        }
        let largest = u128::from(self.scene.largest.max(1));
        let len = (u128::from(view.capacity) * room as u128 / largest) as usize;
        let sizes: Vec<u64> = view.parts.iter().map(|part| part.size).collect();
        let mut at = x;
        for (part, width) in view.parts.iter().zip(divide(len.max(1), &sizes, 1)) {
            let (character, ink) = symbol(part.what);
            canvas.fill(at, y, width, character, ink);
            at += width;
        }
    }

    /// Draws the modules with a line for each, in columns.
    fn lines(&self, canvas: &mut Canvas, socket: &SocketView, top: usize) -> usize {
        let inner = self.width - 4;
        let columns = (inner / LINE_CELLS).max(1);
        let width = inner / columns;
        let rows = socket.modules.len().div_ceil(columns);
        let longest = socket.modules.iter().map(|view| view.device().len()).max().unwrap_or(0);
        let mut cut = Vec::new();
        for (number, view) in socket.modules.iter().enumerate() {
            let (x, y) = (2 + number / rows * width, top + number % rows);
            canvas.put(x, y, longest, &view.device(), Ink::Strong);
            let room = width - longest - 3;
            if !view.has_news {
                self.bar(canvas, view, x + longest + 1, y, room - 2);
                let sign = if view.well { "" } else { "!" };
                canvas.put(x + longest + room, y, 1, sign, Ink::Alarm);
            } else {
                let ink = if view.well { Ink::Quiet } else { Ink::Alarm };
                canvas.put(x + longest + 1, y, room, &view.condition, ink);
                cut.extend((cells(&view.condition) > room).then_some(view));
            }
        }
        let mut y = top + rows;
        for view in cut {
            let text = format!("{}  {}", view.device(), view.condition);
            (_, y) = canvas.fold((2, y), 2, inner, &text, Ink::Text);
            y += 1;
        }
        y
    }

    fn region(
        &self,
        canvas: &mut Canvas,
        view: &RegionView,
        largest: u64,
        top: usize,
        is_brief: bool,
    ) -> usize {
        let inner = self.width - 4;
        let x = 2 + canvas.put(2, top, inner, &view.name(), Ink::Strong);
        let mut text = format!("  {} of {}", size_text(view.size), view.made_of());
        if let Some(id) = view.set {
            text += &format!("  set {id:#018x}");
        }
        if is_brief {
            text += "  free";
        }
        let (x, mut y) = canvas.fold((x, top), 4, inner + 2 - x, &text, Ink::Text);
        if !view.enabled {
            (_, y) = canvas.fold((x, y), 4, (inner + 2).saturating_sub(x), "  disabled", Ink::Alarm);
        }
        if is_brief {
            return y + 1;
        }
        let least = (view.pieces.len() * PIECE_CELLS + 1).clamp(12, inner);
        let share =
            (u128::from(view.size.unwrap_or(0)) * inner as u128 / u128::from(largest.max(1))) as usize;
        let width = share.clamp(least, inner);
        self.pieces(canvas, &view.pieces, y + 1, width);
        y += 4;
        for namespace in view.pieces.iter().filter_map(Piece::namespace) {
            let ink = if namespace.enabled { Ink::Text } else { Ink::Quiet };
            (_, y) = canvas.fold((4, y), 6, inner - 2, &namespace_label(namespace), ink);
            y += 1;
        }
        y
    }

    /// Draws a box that is divided like the region.
    fn pieces(&self, canvas: &mut Canvas, pieces: &[Piece], y: usize, width: usize) {
        let x = 2;
        canvas.frame(x, y, width, 3, Ink::Frame);
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.size).collect();
        let has_edges = pieces.len() * PIECE_CELLS < width;
        let least = if has_edges { PIECE_CELLS } else { 0 };
        let mut at = x;
        // With edges, each piece begins with one, and the last edge is the end of the box.
        let room = if has_edges { width - 1 } else { width - 2 };
        for (number, (piece, cells_of)) in pieces.iter().zip(divide(room, &sizes, least)).enumerate() {
            let ink = if piece.namespace().is_some() { Ink::Used } else { Ink::Quiet };
            let ground = if matches!(piece.content, Content::Free) { '·' } else { ' ' };
            if !has_edges {
                let character = if piece.namespace().is_some() { '█' } else { ground };
                canvas.fill(at + 1, y + 1, cells_of, character, ink);
                at += cells_of;
                continue;
            }
            if number > 0 {
                for (row, character) in ["┬", "│", "┴"].into_iter().enumerate() {
                    canvas.put(at, y + row, 1, character, Ink::Frame);
                }
            }
            let inside = cells_of - 1;
            if piece.namespace().is_none() {
                canvas.fill(at + 1, y + 1, inside, ground, Ink::Quiet);
            }
            // Use the longest text that fits.
            if let Some(text) = texts(piece).into_iter().find(|text| cells(text) <= inside) {
                canvas.put(at + 1, y + 1, inside, &text, ink);
            }
            at += cells_of;
        }
    }
}

/// Returns the texts for a piece of a region, the longest first.
fn texts(piece: &Piece) -> Vec<String> {
    let namespace = match &piece.content {
        Content::Namespace(namespace) => namespace,
        Content::Free => {
            let size = amount(piece.size);
            return vec![format!(" free {size} "), format!(" {size} "), "free".to_owned()];
        }
        Content::Unknown => return vec![" not shown ".to_owned()],
    };
    let (name, mode) = (namespace.device(), namespace.mode.as_str());
    let number = format!("{}.{}", namespace.region, namespace.number);
    vec![format!(" {name} {mode} "), format!(" {number} {mode} "), format!("{number} {mode}"), number]
}

/// Returns the character and style of a use in a bar.
fn symbol(what: Use) -> (char, Ink) {
    match what {
        Use::Memory => ('▒', Ink::Memory),
        Use::Region(_) => ('█', Ink::Persistent),
        Use::Reserved => ('░', Ink::Quiet),
        Use::Unconfigured => ('·', Ink::Quiet),
        Use::Inaccessible => ('▏', Ink::Quiet),
        Use::Unknown => ('╌', Ink::Quiet),
    }
}

fn label(part: &Part) -> String {
    let size = amount(part.size);
    match part.what {
        Use::Memory => format!("{size} memory"),
        Use::Region(number) => format!("{size} region{number}"),
        Use::Reserved => format!("{size} reserved"),
        Use::Unconfigured => "not configured".to_owned(),
        Use::Inaccessible => String::new(),
        Use::Unknown => format!("{size} in no region"),
    }
}

/// Describes a part with the bar's character in place of the word.
fn short_label(part: &Part) -> String {
    let (character, _) = symbol(part.what);
    let region = match part.what {
        Use::Region(number) => format!(" region{number}"),
        _ => String::new(),
    };
    format!("{character}{}{region}", amount(part.size))
}

fn namespace_label(namespace: &NamespaceView) -> String {
    let (name, mode, size) = (namespace.device(), namespace.mode.as_str(), namespace.size_text());
    let mut text = format!("{name:<14}{mode:<8}{size}");
    if let Some(usable) = namespace.usable.filter(|usable| Some(*usable) != namespace.size) {
        text += &format!(", {} usable", amount(usable));
    }
    for path in namespace.paths() {
        text += &format!("  {path}");
    }
    if !namespace.name.is_empty() {
        text += &format!("  \"{}\"", namespace.name);
    }
    if !namespace.enabled {
        text += "  disabled";
    }
    text
}

/// Describes the appearance of a socket, without numbers and names.
fn appearance(socket: &SocketView) -> String {
    let mut text = format!("{:?} {}", socket.dram, socket.memory);
    for module in &socket.modules {
        text += &format!("\n{} {} {}", module.capacity_text(), module.condition, module.well);
        for part in &module.parts {
            text += &format!(" {:?} {}", symbol(part.what), part.size);
        }
    }
    for view in &socket.regions {
        text += &format!("\n{} {}", view.enabled, view.made_of());
        for piece in &view.pieces {
            let what = piece.namespace().map(|one| (one.mode, one.enabled, one.usable, one.name.clone()));
            let is_free = matches!(piece.content, Content::Free);
            text += &format!(" {what:?} {is_free} {}", piece.size);
        }
    }
    text
}
