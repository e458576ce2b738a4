/*
 * The parts that the programs of libpmemlog and libpmemblk share: files of pools, their damage, and what is shown of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "own_memory.h"
#include "sequences.h"

#define HEADER 4096

/* Makes the link to a character device, again: PMDK removes the path of a device that it can't make a pool of. */
static void make_link(void)
{
    if (symlink("/dev/null", "null") != 0 && errno != EEXIST)
        exit(4);
}

/* Paths that name no pool. */
static const char *draw_bad_path(void)
{
    static char too_long[5000];
    memset(too_long, 'n', sizeof(too_long) - 1);
    const char *const bad[] = {"", ".", "missing/f", "p0/f", "null", "loop", too_long, "fifo", "p9"};
    make_link();
    return bad[below(COUNT(bad))];
}

static const char *draw_name(void)
{
    static const char *const names[] = {"p0", "p1"};
    return names[below(COUNT(names))];
}

/* A path of a pool, of a set, seldom that of a part of it, or of no pool. */
static const char *draw_path(void)
{
    if (below(12) == 0)
        return draw_bad_path();
    if (below(3) == 0)
        return below(12) == 0 ? "q0" : "set";
    return draw_name();
}

static mode_t draw_mode(void)
{
    static const mode_t modes[] = {0600, 0644, 0, 0777, 0400};
    return modes[below(COUNT(modes))];
}

/* Fletcher-64 of a header, whose words at `hole` and, from `end` on, count as zeros. */
static uint64_t checksum(const unsigned char *bytes, size_t start, size_t limit, size_t hole, size_t end)
{
    uint32_t low = 0, high = 0;
    for (size_t at = start; at < limit; at += 4) {
        uint32_t word;
        memcpy(&word, bytes + at, 4);
        low += (at >= hole && at < hole + 8) || at >= end ? 0 : word;
        high += low;
    }
    return (uint64_t)high << 32 | low;
}

static void seal(unsigned char *header)
{
    uint64_t sum = checksum(header, 0xfb8, 0xff8, 0xff0, HEADER);
    memcpy(header + 0xff0, &sum, 8);
    sum = checksum(header, 0, HEADER, 0xff8, header[16] & 2 ? 2048 : HEADER);
    memcpy(header + 0xff8, &sum, 8);
}

/* Changes a byte of a header, or of the descriptor after it, and mends the checksums or not. */
static void damage(int with_descriptor)
{
    static const unsigned places[] = {0, 4, 8, 12, 16, 19, 20, 23, 24, 40, 56, 72, 88, 104, 120, 128, 136, 137, 138, 142, 200,
        2047, 2048, 3000, 0xfb8, 0xfc0, 0xfc8, 0xff0, 0xff8, 4096, 4097, 4104, 4105, 4112, 4113, 4114, 4119, 4120};
    static const char *const names[] = {"p0", "p1", "q0", "q1"};
    /* Two implementations place blocks elsewhere, which the second part may hold. */
    const char *name = names[below(COUNT(names) - (with_descriptor ? 0 : 1))];
    unsigned place = places[below(COUNT(places) - (with_descriptor ? 0 : 9))];
    unsigned char byte = below(3) == 0 ? (unsigned char)next() : (unsigned char)(1u << below(8)), bytes[HEADER + 32];
    int is_sealed = below(3) != 0, count = 1 + (int)below(2);
    /*
     * Ours takes a header that is sound but for one feature, and the parts of a set that differ in features, for an interrupted change of
     * features, and settles that.
     */
    if ((place == 12 && byte == 1) || (place == 16 && (byte == 1 || byte == 2 || byte == 4))) {
        is_sealed = 1;
        name = names[below(2)];
    }
    printf("damage %s %u %u %d", name, place, byte, is_sealed);
    int file = open(name, O_RDWR);
    if (file < 0)
        return;
    if (pread(file, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes)) {
        bytes[place] ^= byte;
        /* A message shows the signature, and an answer is a line. */
        if (bytes[place] == '\n')
            bytes[place] = 'n';
        /* PMDK changes the state of a pool that is read-only, and one that the header's checksum covers. */
        if ((bytes[20] | bytes[21] | bytes[22] | bytes[23]) != 0 || !(bytes[16] & 2))
            memset(bytes + 0xfb8, 0, 0x40);
        else if (count == 2)
            bytes[0xfc8] ^= 1;
        if (is_sealed)
            seal(bytes);
        if (pwrite(file, bytes, sizeof(bytes), 0) < 0)
            printf(" write");
    }
    close(file);
}

/* Makes a plain file, with a byte in it or not. */
static void make_file(const size_t *sizes, size_t count)
{
    const char *name = draw_name();
    size_t len = sizes[below(count)], at = below(3) == 0 ? below(3) * 4095 : 0;
    printf("file %s %zu %zu", name, len, at);
    unlink(name);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)len) != 0 || (at != 0 && at < len && pwrite(file, "x", 1, (off_t)at) != 1))
        printf(" errno %d", errno);
    close(file);
}

/* Makes a file without its space, in place of the one that is there. */
static void make_sparse(const char *name, size_t len)
{
    unlink(name);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)len) != 0)
        exit(4);
    close(file);
}

/* Shows the parts of a header that every process writes alike, and the file's mode. Returns its bytes, to be unmapped. */
static unsigned char *show_header(const char *name, size_t *len)
{
    int file = open(name, O_RDONLY);
    if (file < 0)
        return NULL;
    struct stat stat_;
    fstat(file, &stat_);
    *len = (size_t)stat_.st_size;
    printf(" %s %zu mode %o", name, *len, stat_.st_mode);
    unsigned char *bytes = MAP_FAILED;
    if (*len >= 2 * HEADER)
        bytes = mmap(NULL, *len, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (bytes == MAP_FAILED)
        return NULL;
    printf(" header %016lx %016lx %016lx", hash(bytes, 24), hash(bytes + 0x80, 16), hash(bytes + 0x800, 0xff8 - 0x800));
    return bytes;
}

typedef int ctl_function(void *, const char *, void *);

/* Gets, sets or runs a setting. What is set is set back. */
static void settings(ctl_function *get, ctl_function *set, ctl_function *run, const char *(*message)(void))
{
    static const char *const names[] = {"prefault.at_create", "prefault.at_open", "sds.at_create", "copy_on_write.at_open",
        "prefault", "x", "", "..prefault.at_open.", "sds.at_open", "heap.size"};
    const char *name = below(20) == 0 ? NULL : names[below(COUNT(names))];
    int how = (int)below(4), value = (int)below(3), is_null = below(10) == 0, result = 0, error = 0;
    printf("ctl %d %s %d", how, name == NULL ? "(null)" : name, is_null ? -1 : value);
    switch (how) {
    case 0:
        CALL(result = get(NULL, name, is_null ? NULL : &value); error = errno);
        printf(" value %d", value);
        break;
    case 1: {
        static int before, after, is_known;
        before = after = -1;
        is_known = 0;
        CALL(is_known = name != NULL && get(NULL, name, &before) == 0);
        CALL(result = set(NULL, name, is_null ? NULL : &value); error = errno);
        if (is_known)
            CALL(get(NULL, name, &after); set(NULL, name, &before));
        printf(" before %d after %d", before, after);
        break;
    }
    default:
        CALL(result = run(NULL, name, &value); error = errno);
    }
    printf(" = %d", result);
    if (result != 0)
        printf(" errno %d message %s", error, message());
}

/* Takes the sequences that the arguments name, each in a folder whose files `show` shows and removes. */
static int take_sequences(int count, char **arguments, void (*sequence)(uint64_t, uint64_t, int, char **))
{
    if (count < 4)
        return 2;
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    uint64_t seed = strtoul(arguments[1], NULL, 10), first = strtoul(arguments[2], NULL, 10);
    uint64_t end = first + strtoul(arguments[3], NULL, 10);
    catch_faults();
    umask(022);
    if (symlink("loop", "loop") != 0 || mkfifo("fifo", 0600) != 0 || mkdir("d", 0700) != 0)
        return 2;
    for (uint64_t number = first; number < end; number++) {
        sequence(seed, number, count - 4, arguments + 4);
        /* A fault where none is expected ends the process, and leaves what it has said. */
        fflush(stdout);
    }
    return 0;
}
