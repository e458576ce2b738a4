#!/usr/bin/env bash
# Makes the Debian package of the libraries of the C ABI:
#
#   capi/package.sh FOLDER VERSION TARGET
#
# writes TARGET/lodestone-pmdk_VERSION_ARCHITECTURE.deb, and prints its path. FOLDER has libNAME.so.1 of each library, as
# capi/link.sh writes them. The package puts them in a folder of their own, and names that folder in a file of
# /etc/ld.so.conf.d that the loader's cache reads before Debian's. It replaces no file of another package, so Debian's libraries
# and -dev packages stay; when it is removed, the next ldconfig, which dpkg runs, leaves the cache as it was.
set -euo pipefail
folder=$1 version=$2 target=$3
architecture=$(dpkg --print-architecture)
package=$target/lodestone-pmdk_${version}_$architecture.deb
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
umask 022
root=$work/root
own=/usr/lib/lodestone-pmdk
doc=$root/usr/share/doc/lodestone-pmdk
mkdir -p "$root/DEBIAN" "$root$own" "$root/etc/ld.so.conf.d" "$doc"

install -m 644 "$folder"/lib*.so.1 "$root$own/"
# The files of this folder are read in the order of their names, and Debian's own begins with a letter. It is no configuration file of dpkg:
# `apt remove` would leave it.
echo "$own" >"$root/etc/ld.so.conf.d/00-lodestone-pmdk.conf"
install -m 644 "$here/../docs/pmdk-programs.md" "$doc/"
{
    echo 'Lodestone, the libraries of its C ABI. Either license may be chosen.'
    for license in MIT APACHE; do
        printf '\n%s\n\n' "LICENSE-$license"
        cat "$here/../LICENSE-$license"
    done
} >"$doc/copyright"

libc=$(objdump -T "$root$own"/*.so.1 | grep -o 'GLIBC_[0-9.]*' | sort -u -V | tail -n 1)
cat >"$root/DEBIAN/control" <<END
Package: lodestone-pmdk
Version: $version
Architecture: $architecture
Maintainer: the authors of Lodestone
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1
Section: libs
Priority: optional
Description: persistent memory libraries of PMDK's interface, on Lodestone
 Programs that are linked with these libraries run on Lodestone while this package is
 installed, and on Debian's libraries again when it is removed.
END
# dpkg runs ldconfig after it has installed or removed the files.
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
(cd "$root" && find usr etc -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

mkdir -p "$target"
dpkg-deb --build --root-owner-group "$root" "$work/package.deb" >/dev/null
# One rename, so that a package under its name is whole.
partial=$package.partial
trap 'rm -rf "$work" "$partial"' EXIT
cp "$work/package.deb" "$partial"
mv -f "$partial" "$package"
echo "$package"
