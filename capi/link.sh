#!/usr/bin/env bash
# Makes the files of one library of the C ABI from the archive that cargo built:
#
#   capi/link.sh NAME ARCHIVE FOLDER
#
# writes FOLDER/libNAME.so.1, libNAME.so, libNAME.a and pkgconfig/libNAME.pc. NAME is pmem, pmem2, pmemlog, pmemblk, pmemobj or pmempool; ARCHIVE is the static
# library of the crate, which holds Rust's standard library, too; capi/NAME/libNAME.map lists the exported functions of each
# version node. A function of several nodes is exported in each of them; programs that are linked anew get the last.
#
# libpmemobj.so.1 takes two functions of libpmem.so.1, which FOLDER has then.
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

# The nodes and functions of the version script, a pair a line; and the functions.
sed -n -e 's/^\([A-Z_0-9.]*\) {$/node \1/p' -e 's/^ *\([a-z_0-9]*\);$/\1/p' "$map" |
    awk '$1 == "node" { node = $2; next } { print node, $1 }' >"$work/pairs"
cut -d' ' -f2 "$work/pairs" | sort -u >"$work/symbols"
# The bitcode for link-time optimisation is no use here, and Debian's binutils hand it to an LLVM that can't read it.
# The table of instructions that may fault is no use either: no signal handler reads it, and it keeps all code that it names. Code that would read it finds it empty, at
# a place of its own: an absolute address would be out of reach in a program.
cat >"$work/discard.ld" <<'END'
SECTIONS { .rodata.no_fixup : { . = ALIGN(8); __start_lode_fixup = .; __stop_lode_fixup = .; QUAD(0) } } INSERT AFTER .rodata;
SECTIONS { /DISCARD/ : { *(.llvmbc) *(.llvmcmd) *(lode_fixup) } } INSERT AFTER .comment;
END
# Collecting what nothing refers to keeps the functions, their callees and the functions that run on loading. A section group of Rust's library
# would be dropped by a linker that has another copy of it, from a program in Rust, and what refers to it would lead nowhere.
ld -r --gc-sections --force-group-allocation --strip-debug -T "$work/discard.ld" -o "$work/all.o" $(sed 's/^/-u /' "$work/symbols") "$archive"
objcopy --keep-global-symbols="$work/symbols" "$work/all.o" "$work/lib$name.o"
# The linker takes a function in one node of its script, the last. A symbol `FUNCTION@NODE` at the same place is the function
# in an earlier node, and `FUNCTION@@NODE` then the one in the last.
awk -v script="$work/script.map" '
    FNR == NR { last[$2] = $1; if (!($1 in seen)) { seen[$1] = 1; nodes[++count] = $1 }; next }
    last[$2] == $1 { names[$1] = names[$1] "        " $2 ";\n"; next }
    { print $1, $2, last[$2] }
    END {
        for (n = 1; n <= count; n++) {
            node = nodes[n]
            printf "%s {\n    global:\n%s%s};\n", node, names[node], n == count ? "    local:\n        *;\n" : "" >script
        }
    }' "$work/pairs" "$work/pairs" >"$work/earlier"
objdump -t "$work/lib$name.o" | awk 'FNR == NR { node[$2] = $1; last[$2] = $3; next } $6 in node && $3 == "F" {
    printf "--add-symbol\n%s@%s=%s:0x%s,global,function\n", $6, node[$6], $4, $1
    printf "--redefine-sym\n%s=%s@@%s\n", $6, $6, last[$6] }' "$work/earlier" - >"$work/aliases"
objcopy "@$work/aliases" "$work/lib$name.o" "$work/shared.o"
# Code gets a section of its own name in what is linked, but for libpmem2: capi/program looks for programs that flush by themselves, and passes over it. The
# functions stay in sections of their own, so a linker may leave out those that a program does not need. Symbols are added before: sections of
# one name can't be told apart then.
# libpmem2 flushes any memory, and no log hears of it, so its code is to be found.
if [ "$name" != pmem2 ]; then
    objdump -hw "$work/all.o" | awk '/, CODE/ && !seen[$2]++ { printf "--rename-section\n%s=.lode_text\n", $2 }' >"$work/renames"
    objcopy "@$work/renames" "$work/lib$name.o"
    objcopy "@$work/renames" "$work/shared.o"
fi
needed=()
if [ "$name" = pmemobj ]; then
    needed=("-L$folder" -l:libpmem.so.1 -Wl,-z,defs)
fi
mkdir -p "$folder/pkgconfig"
# One rename a file, so that a program that starts now finds a whole one.
cc -shared -o "$work/lib$name.so.1" "$work/shared.o" -Wl,-soname,"lib$name.so.1" \
    -Wl,--version-script="$work/script.map" -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro -Wl,--as-needed \
    "${needed[@]}" -lgcc_s -lpthread -ldl -lm
strip --strip-unneeded "$work/lib$name.so.1"
ar rcsD "$work/lib$name.a" "$work/lib$name.o"
ln -s "lib$name.so.1" "$work/lib$name.so"
sed -e "s|@FOLDER@|$(cd "$folder" && pwd)|" "$here/$name/lib$name.pc.in" >"$work/lib$name.pc"
mv -f "$work/lib$name.so.1" "$work/lib$name.so" "$work/lib$name.a" "$folder/"
mv -f "$work/lib$name.pc" "$folder/pkgconfig/"
