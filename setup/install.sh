#!/usr/bin/env bash
# Installs what one purpose needs and this machine lacks, and nothing else. Running it again changes nothing.
#
#   setup/install.sh run      what `make run` needs: the pinned stable toolchain, a C linker, the demo's word list
#   setup/install.sh test     that, the nightly toolchain for fuzzing and Miri, the oldest one that compiles the crates,
#                             cargo-fuzz, the tests' packages, and what `make lab` needs
#   setup/install.sh lab      what `make run` needs, QEMU, tools for its guests, Debian's kernels, and a newer QEMU
#   setup/install.sh bench    what `make run` needs, and the peers' packages
#
# Debian packages are installed as root, through sudo if need be. Everything else goes into rustup's own folder
# and into target/.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
entries() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "not root, and sudo is missing; run as root: $*"
    fi
}

# Installs those Debian packages of the given lists that are missing.
debian_packages() {
    local package missing=()
    if ! command -v dpkg-query >/dev/null; then
        say "not Debian: make sure yourself that you have the counterparts of: $(entries "$@" | tr '\n' ' ')"
        return
    fi
    for package in $(entries "$@"); do
        if [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} = 0 ]; then
        return
    fi
    say "installing Debian packages: ${missing[*]}"
    as_root apt-get update --quiet
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
}

# Installs what is missing of a toolchain: its name, its components, its targets. Needs no network if nothing is.
toolchain() {
    local name=$1 components=$2 targets=$3 installed part complete=yes
    installed=$(rustup component list --installed --toolchain "$name" 2>/dev/null) || complete=no
    for part in ${components//,/ }; do
        grep -q "^$part" <<<"$installed" || complete=no
    done
    for part in ${targets//,/ }; do
        grep -qx "rust-std-$part" <<<"$installed" || complete=no
    done
    if [ $complete = no ]; then
        say "installing toolchain $name with $components for $targets"
        rustup toolchain install "$name" --profile minimal --no-self-update \
            --component "$components" --target "$targets"
    fi
}

# The toolchain of rust-toolchain.toml. A cargo without rustup will do if it is new enough, except for the tests.
stable() {
    local purpose=$1 channel found
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if command -v rustup >/dev/null; then
        toolchain "$channel" rustfmt,clippy x86_64-unknown-linux-gnu,aarch64-unknown-linux-gnu
        return
    fi
    command -v cargo >/dev/null || die "neither rustup nor cargo is here: install rustup first"
    [ "$purpose" != test ] || die "the tests need three toolchains, so they need rustup first"
    found=$(cargo --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$channel" "$found" | sort --version-sort | head -n1)" != "$channel" ]; then
        die "cargo $found is older than $channel: install rustup first"
    fi
    say "no rustup: going on with cargo $found"
}

# Builds the cargo tools of a list into target/tools. Without optimisation: they only start compilers.
cargo_tools() {
    local crate version tools=${CARGO_TARGET_DIR:-target}/tools
    while read -r crate version; do
        if ! grep -qs "^\"$crate $version " "$tools/.crates.toml"; then
            say "building $crate $version into $tools"
            cargo install "$crate" --version "=$version" --locked --debug --root "$tools" --target-dir "$tools/build"
            rm -r "$tools/build"
        fi
    done < <(entries "$1")
}

# Unpacks Debian's kernels for the lab into target/lab/kernels, a folder for each series. They are not installed.
# One that is there is not replaced by a newer one: remove the folder for that.
kernels() {
    local series package folder new kernels=${CARGO_TARGET_DIR:-target}/lab/kernels
    if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
        say "the lab needs Debian on amd64: it will be skipped"
        return
    fi
    # The metapackage of Debian 12's own kernel has no series in its name.
    for series in 6.1: 6.12:-6.12; do
        folder=$kernels/${series%%:*}
        if [ -e "$folder" ]; then
            continue
        fi
        as_root apt-get update --quiet
        package=$(apt-cache depends "linux-image${series#*:}-amd64" 2>/dev/null |
            sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n1) || true
        if [ -z "$package" ]; then
            say "apt knows no kernel ${series%%:*} (its source is bookworm-security): the lab will leave it out"
            continue
        fi
        say "unpacking $package into $folder"
        new=$kernels/new
        rm -rf "$new"
        mkdir -p "$new"
        (cd "$new" && apt-get download --quiet "$package")
        dpkg-deb --extract "$new"/linux-image-*.deb "$new"
        rm "$new"/linux-image-*.deb
        /sbin/depmod --basedir "$new" "${package#linux-image-}"
        mv "$new" "$folder"
    done
}

# Unpacks the QEMU that Debian 12 has as a backport of Debian 13 into target/lab/qemu: only its program, which finds its
# libraries and firmware in the packages of Debian 12's own QEMU. Neither it nor the source is installed. One that is there is
# not replaced by a newer one.
newer_qemu() {
    local folder new suite=bookworm-backports mirror options
    folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/lab/qemu")
    if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ] || [ -e "$folder" ]; then
        return
    fi
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' |
        head -n1) || true
    if [ -z "$mirror" ]; then
        say "apt has no source of Debian 12: the lab will leave out what needs a newer QEMU"
        return
    fi
    say "unpacking QEMU of $suite into $folder"
    new=$folder.new
    rm -rf "$new"
    mkdir -p "$new"/{lists,cache}/partial "$new"/cache/archives/partial
    printf 'deb [signed-by=%s] %s %s main\n' \
        /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$suite" >"$new/sources.list"
    options=(--quiet -o "Dir::Etc::sourcelist=$new/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$new"
        -o "Dir::Cache=$new/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    if ! (apt-get "${options[@]}" update && cd "$new" && apt-get "${options[@]}" download "qemu-system-x86/$suite"); then
        say "$suite has no QEMU: the lab will leave out what needs it"
        rm -r "$new"
        return
    fi
    dpkg-deb --fsys-tarfile "$new"/qemu-system-x86_*.deb |
        tar --extract --directory "$new" --strip-components=3 ./usr/bin/qemu-system-x86_64
    mkdir "$folder"
    mv "$new/qemu-system-x86_64" "$folder"
    rm -r "$new"
}

case ${1:-} in
    run)
        debian_packages setup/packages-run.txt
        stable run
        ;;
    test)
        debian_packages setup/packages-run.txt setup/packages-test.txt setup/packages-lab.txt
        stable test
        toolchain "$(cat setup/nightly.txt)" miri,rust-src x86_64-unknown-linux-gnu
        toolchain "$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)" rustc x86_64-unknown-linux-gnu
        cargo_tools setup/tools-test.txt
        kernels
        newer_qemu
        ;;
    lab)
        debian_packages setup/packages-run.txt setup/packages-lab.txt
        stable lab
        kernels
        newer_qemu
        ;;
    bench)
        debian_packages setup/packages-run.txt tools/bench/packages.txt
        stable bench
        ;;
    *)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
say "ready for: $1"
