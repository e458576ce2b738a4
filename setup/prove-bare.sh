#!/usr/bin/env bash
# Shows that the set-up is complete: runs a command (default: .ci/run) in a clone of this repository's last commit,
# in a bare Debian 12 made by debootstrap, to which only rustup and the stable toolchain have been added.
#
#   setup/prove-bare.sh [COMMAND...]      as root; needs debootstrap, git and rustup, 12 GB of disk and the network
#
# LODE_BARE=FOLDER keeps the system there and uses it again, as it was left; without it a new one is made and removed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'prove-bare: %s\n' "$*" >&2; }

if [ "$(id -u)" != 0 ]; then
    say 'must be root: it makes a chroot and mounts /proc in it'
    exit 1
fi
for tool in debootstrap git rustup unshare; do
    if ! command -v "$tool" >/dev/null; then
        say "$tool is missing"
        exit 1
    fi
done
# A mount namespace of our own: whatever happens, no mount is left behind.
if [ -z "${LODE_BARE_UNSHARED:-}" ]; then
    exec unshare --mount --propagation private env LODE_BARE_UNSHARED=yes "$PWD/setup/prove-bare.sh" "$@"
fi
if [ $# = 0 ]; then
    set -- .ci/run
fi

bare=${LODE_BARE:-$(mktemp --directory /var/tmp/lode-bare.XXXXXX)}
cleanup() {
    umount --recursive --lazy "$bare/proc" "$bare/dev" 2>/dev/null || true
    if [ -z "${LODE_BARE:-}" ]; then
        rm --recursive --force --one-file-system "$bare"
    fi
}
trap cleanup EXIT

if [ ! -e "$bare/etc/debian_version" ]; then
    say "Debian 12, minimal, in $bare"
    debootstrap --variant=minbase bookworm "$bare" >"$bare.log"
    rm "$bare.log"
    say "rustup and the stable toolchain"
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    toolchain=$(rustup run "$channel" rustc --print sysroot)
    mkdir --parents "$bare/root/.cargo/bin" "$bare/root/.rustup/toolchains"
    cp --archive "$(dirname "$(command -v rustup)")"/. "$bare/root/.cargo/bin/"
    cp --archive "$toolchain" "$bare/root/.rustup/toolchains/"
    # The name service of this machine, and the certificates that it trusts: the proof does not cover them.
    cp --dereference /etc/resolv.conf /etc/hosts "$bare/etc/"
    if [ -d /usr/local/share/ca-certificates ]; then
        mkdir --parents "$bare/usr/local/share/ca-certificates"
        cp --archive /usr/local/share/ca-certificates/. "$bare/usr/local/share/ca-certificates/"
    fi
fi
rm --recursive --force "$bare/root/lodestone"
git clone --quiet --no-local . "$bare/root/lodestone"
mount --types proc proc "$bare/proc"
mount --rbind /dev "$bare/dev"

say "commit $(git rev-parse --short HEAD): $*"
start=$SECONDS
status=0
chroot "$bare" /usr/bin/env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin:/root/.cargo/bin \
    CI=true TERM=dumb "LODE_COMMAND=$*" /bin/bash -c 'cd /root/lodestone && eval "$LODE_COMMAND"' </dev/null || status=$?
say "$* ended with status $status after $((SECONDS - start)) s"
exit "$status"
