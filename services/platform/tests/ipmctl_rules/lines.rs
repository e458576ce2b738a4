//! Random command lines, legal and illegal.

use crate::random::Random;
use lode_platform::Platform;

/// Returns a line that begins with `create` or `delete`. Most lines are legal, or nearly.
pub(crate) fn random_line(random: &mut Random, platform: &Platform) -> Vec<String> {
    let is_create = !random.one_in(3);
    let is_clear = !is_create && random.one_in(2);
    let mut options: Vec<Vec<String>> = Vec::new();
    let mut targets: Vec<Vec<String>> = Vec::new();
    let mut properties: Vec<String> = Vec::new();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    for option in [
        "-f",
        "-FORCE",
        "-u GiB",
        "-units mib",
        "-o text",
        "-output nvmxml",
        "-ddrt",
        "-smbus",
        "-lpmb",
        "-a",
        "-spmb",
    ] {
        let chance = match option {
            "-f" => 2,
            "-FORCE" | "-a" | "-spmb" => 60,
            _ => 12,
        };
        if random.one_in(chance) && (is_create || random.one_in(8)) {
            options.push(owned(&option.split(' ').collect::<Vec<_>>()));
        }
    }
    targets.push(match (is_clear, random.below(3)) {
        (false, _) => owned(&["-goal"]),
        (true, 0) => owned(&["-pcd", "config"]),
        (true, _) => owned(&["-pcd"]),
    });
    if !random.one_in(3) {
        targets.push(match modules(random, platform) {
            list if list.is_empty() => owned(&["-dimm"]),
            list => vec!["-dimm".to_owned(), list],
        });
    }
    if !is_clear && random.one_in(3) || random.one_in(60) {
        let list: Vec<String> = (0..1 + random.below(2))
            .map(|_| (*random.pick(&["0", "0x0", "1", "0x0001", "1", "7", "x"])).to_owned())
            .collect();
        targets.push(vec!["-socket".to_owned(), list.join(",")]);
    }
    if is_create {
        let percent = |random: &mut Random| {
            (*random.pick(&["0", "0", "10", "25", "50", "75", "99", "100", "0x20", "101", "5%", "a"]))
                .to_owned()
        };
        if random.one_in(2) {
            properties.push(format!("MemoryMode={}", percent(random)));
        }
        if random.one_in(4) {
            properties.push(format!("reserved={}", percent(random)));
        }
        if random.one_in(2) {
            let kind =
                random.pick(&["AppDirect", "AppDirectNotInterleaved", "appdirectnotinterleaved", "Storage"]);
            properties.push(format!("PersistentMemoryType={kind}"));
        }
        if random.one_in(8) {
            let version = random.pick(&["1.1", "1.2", "1.3", "2.1", "1", "1.x"]);
            properties.push(format!("NamespaceLabelVersion={version}"));
        }
    }
    for parts in [&mut options, &mut targets] {
        for index in (1..parts.len()).rev() {
            parts.swap(index, random.below(index as u64 + 1) as usize);
        }
    }
    let mut words: Vec<String> = options.into_iter().chain(targets).flatten().chain(properties).collect();
    if random.one_in(4) {
        damage(random, &mut words);
    }
    let verb =
        if is_create { random.pick(&["create", "CREATE"]) } else { random.pick(&["delete", "Delete"]) };
    words.insert(0, (*verb).to_owned());
    words
}

/// Returns a line that begins with `set`, `load`, `dump` or `start`. Most lines are legal, or nearly.
pub(crate) fn random_operation_line(random: &mut Random) -> Vec<String> {
    let (verb, options, targets, properties) = *random.pick(&[
        (
            "set",
            "-f -ddrt -output text",
            "-sensor MediaTemperature -dimm 1",
            "AlarmThreshold=51 AlarmEnabled=1",
        ),
        ("load", "-source file -x -f -recover -smbus -lpmb", "-dimm 1,2", ""),
        ("load", "-source file -f -units GiB -o nvmxml -spmb", "-goal -dimm 1 -socket 0", ""),
        ("dump", "-destination file -ddrt -output text", "-system -config", ""),
        ("start", "-lpmb -o text", "-diagnostic Quick,FW -dimm 1", ""),
    ]);
    let mut words = vec![verb.to_owned()];
    for part in [options, targets, properties] {
        // A word that is no name is the value of the one before.
        let mut groups: Vec<Vec<String>> = Vec::new();
        for word in part.split(' ').filter(|word| !word.is_empty()) {
            match groups.last_mut() {
                Some(group) if !word.starts_with('-') && !word.contains('=') => group.push(word.to_owned()),
                _ => groups.push(vec![word.to_owned()]),
            }
        }
        groups.retain(|group| group[0] == "-source" || !random.one_in(3));
        words.extend(groups.into_iter().flatten());
    }
    if random.one_in(3) {
        let mut rest = words.split_off(1);
        damage(random, &mut rest);
        words.extend(rest);
    }
    words
}

/// Makes a line probably illegal.
fn damage(random: &mut Random, words: &mut Vec<String>) {
    let junk = [
        "-foo",
        "5",
        "-force",
        "-f",
        "MemoryMode=5",
        "Reserved=",
        "x=y",
        "-region",
        "-goal",
        "-dimm",
        "word",
        "-pcd",
        "=",
        "-u",
    ];
    let at = random.below(words.len() as u64 + 1) as usize;
    match random.below(4) {
        0 => words.insert(at, (*random.pick(&junk)).to_owned()),
        1 if at < words.len() => {
            words.remove(at);
        }
        2 if at < words.len() => words.insert(at, words[at].clone()),
        _ => {
            let other = random.below(words.len().max(1) as u64) as usize;
            if at < words.len() && other < words.len() {
                words.swap(at, other);
            }
        }
    }
}

/// Returns a list of modules: all of a socket, all without configuration, or any.
fn modules(random: &mut Random, platform: &Platform) -> String {
    let all = &platform.machine.modules;
    let socket = random.below(2) as u16;
    let kind = random.below(5);
    let keeps_dead = random.one_in(10);
    let mut named: Vec<u32> = Vec::new();
    for module in all {
        let is_dead = module.capacity == 0 || format!("{:?}", module.health) == "NonFunctional";
        let takes = match kind {
            0 => module.handle.socket() == socket,
            1 => platform.state.partition(module.handle).is_none(),
            2 => module.handle.socket() == socket && platform.state.partition(module.handle).is_none(),
            3 => platform.state.cleared.contains(&module.handle),
            _ => random.one_in(3),
        };
        if takes && (!is_dead || keeps_dead) {
            named.push(module.handle.0);
        }
    }
    let mut words: Vec<String> = named
        .iter()
        .map(|handle| match random.below(6) {
            0 => handle.to_string(),
            1 => format!("0X{handle:x}"),
            2 => all.iter().find(|one| one.handle.0 == *handle).unwrap().identity.unwrap().to_string(),
            _ => format!("{handle:#06x}"),
        })
        .collect();
    if random.one_in(20) {
        let odd = random.pick(&["0x2222", "4294967296", "0xg", "8089-a2-2140-ffffffff", "1"]);
        words.push((*odd).to_owned());
    }
    words.join(",")
}
