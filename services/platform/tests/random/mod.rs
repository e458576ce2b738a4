//! Random numbers and random machines.

/// A small generator of random numbers (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Returns the file of a machine with one or two sockets.
pub(crate) fn random_machine(random: &mut Random) -> String {
    let generation = random.pick(&[1, 2, 3, 3]);
    let mut text = format!(
        "name = \"random\"\n[profile]\nipmctl = {generation}\nndctl = 76\nkernel = \"6.1\"\n\
         persistence_domain = \"memory_controller\"\n"
    );
    let mut serial = 0;
    let all_dead = random.one_in(40);
    for socket in 0..1 + random.below(2) {
        let capacity = 1344 + 1024 * random.below(4);
        for slot in 0..1 + random.below(6) {
            serial += 1;
            let handle = socket << 12 | (slot % 2) << 8 | (slot / 2) << 4 | 1;
            let capacity = if random.one_in(5) { capacity + 2048 } else { capacity };
            let health = if all_dead || random.one_in(25) { "health = \"Non-functional\"\n" } else { "" };
            let security = match random.below(40) {
                0 => "security = \"Locked\"\n",
                1 => "security = \"Unlocked\"\n",
                2 if random.one_in(2) => "security = \"Frozen\"\n",
                _ => "",
            };
            text += &format!(
                "[[module]]\nhandle = {handle:#06x}\nphysical_id = {serial}\nlocator = \"SLOT{serial}\"\n\
                 capacity = \"{capacity}MiB\"\nid = \"8089-a2-2140-{serial:08x}\"\n{health}{security}"
            );
        }
        if !random.one_in(6) {
            let gib = 1 << random.below(4);
            text += &format!(
                "[[dram]]\nsocket = {socket}\nphysical_id = {}\nlocator = \"DRAM{socket}\"\ncapacity = \"{gib}GiB\"\n",
                100 + socket
            );
        }
    }
    text
}
