#!/usr/bin/env bash
# Makes the files of one library of the C ABI from the archive that cargo built:
#
#   capi/link.sh NAME ARCHIVE FOLDER
#
# writes FOLDER/libNAME.so.1, libNAME.so, libNAME.a and pkgconfig/libNAME.pc. NAME is pmem; ARCHIVE is the static library
# of the crate, which holds Rust's standard library, too; capi/NAME/libNAME.map lists the exported functions.
#
# rustc names all symbols of a shared object itself, without a version, so the linker is called here. All code first
# becomes one object whose only global symbols are the exported ones: neither a program nor another copy of Rust's
# library in it sees the rest.
set -euo pipefail
name=$1 archive=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
map=$here/$name/lib$name.map
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The functions of the version script, one a line.
sed -n 's/^ *\([a-z_0-9]*\);$/\1/p' "$map" >"$work/symbols"
# The bitcode for link-time optimisation is no use here, and Debian's binutils hand it to an LLVM that can't read it.
echo 'SECTIONS { /DISCARD/ : { *(.llvmbc) *(.llvmcmd) } } INSERT AFTER .comment;' >"$work/discard.ld"
# Collecting what nothing refers to keeps the functions, their callees and the functions that run on loading.
ld -r --gc-sections --strip-debug -T "$work/discard.ld" -o "$work/all.o" $(sed 's/^/-u /' "$work/symbols") "$archive"
objcopy --keep-global-symbols="$work/symbols" "$work/all.o" "$work/lib$name.o"
mkdir -p "$folder/pkgconfig"
# One rename a file, so that a program that starts now finds a whole one.
cc -shared -o "$work/lib$name.so.1" "$work/lib$name.o" -Wl,-soname,"lib$name.so.1" \
    -Wl,--version-script="$map" -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro -Wl,--as-needed \
    -lgcc_s -lpthread -ldl -lm
strip --strip-unneeded "$work/lib$name.so.1"
ar rcsD "$work/lib$name.a" "$work/lib$name.o"
ln -s "lib$name.so.1" "$work/lib$name.so"
sed -e "s|@FOLDER@|$(cd "$folder" && pwd)|" "$here/$name/lib$name.pc.in" >"$work/lib$name.pc"
mv -f "$work/lib$name.so.1" "$work/lib$name.so" "$work/lib$name.a" "$folder/"
mv -f "$work/lib$name.pc" "$folder/pkgconfig/"
