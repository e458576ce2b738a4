/*
 * Draws sequences of calls of libpmempool from a seed, takes them, and prints what each answered.
 *
 *   pmempool SEED FIRST COUNT [STEP...]
 *
 * takes the sequences from FIRST on, in the current folder, which must be empty; with steps only those of each sequence.
 * The program is compiled against PMDK's headers and run on two libraries; equal output is the test.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "sequences.h"
#include <libpmempool.h>

#define STEPS 8
/* One sequence of so many is about sets with replicas, whose parts have 8 MiB at least. */
#ifndef RARE
#define RARE 32
#endif
#define HEADER 4096
#define LEN (2 << 20)

static char folder[4096];

/* The files of the pools: a log, an object pool's header, and the parts of a set. */
static const char *const files[] = {"log", "obj", "part0", "part1"};
static const char *const paths[] = {"log", "log", "obj", "set", "set", "part0", "missing", ".", "broken", "small"};

/* Prints a message without the name of the folder, which is another one for each library. */
static void tell(void)
{
    const char *at = pmempool_errormsg(), *end;
    printf(" message ");
    while ((end = strstr(at, folder)) != NULL) {
        printf("%.*s", (int)(end - at), at);
        at = end + strlen(folder);
    }
    printf("%s", at);
}

static uint64_t checksum(const unsigned char *bytes, size_t end)
{
    uint32_t low = 0, high = 0;
    for (size_t at = 0; at < HEADER; at += 4) {
        uint32_t word;
        memcpy(&word, bytes + at, 4);
        low += at >= HEADER - 8 || at >= end ? 0 : word;
        high += low;
    }
    return (uint64_t)high << 32 | low;
}

static void seal(unsigned char *header)
{
    uint64_t sum = checksum(header, header[16] & 2 ? 2048 : HEADER);
    memcpy(header + HEADER - 8, &sum, 8);
}

static int put(const char *name, const void *bytes, size_t len, off_t at)
{
    int file = open(name, O_RDWR | O_CREAT, 0600);
    int failed = file < 0 || pwrite(file, bytes, len, at) != (ssize_t)len;
    close(file);
    return failed;
}

/* Makes a pool's file, whose links name the parts `before` and `after`. */
static void make(const char *name, unsigned char own, unsigned char before, unsigned char after)
{
    static const unsigned char machine[] = {0x10, 0x73, 0x77, 0x37, 0xf7, 7, 0, 0, 2, 1, 0, 0, 0, 0, 62, 0};
    unsigned char header[HEADER] = {0};
    int is_obj = name[0] == 'o';
    memcpy(header, is_obj ? "PMEMOBJ" : "PMEMLOG", 8);
    header[8] = is_obj ? 6 : 1;
    header[12] = 1;
    header[16] = 6;
    memset(header + 24, 0x77, 16);
    const unsigned char uuids[] = {own, before, after, own, own};
    for (int index = 0; index < 5; index++)
        memset(header + 40 + 16 * index, index > 2 && own > 1 ? before : uuids[index], 16);
    header[120] = 1;
    memcpy(header + 128, machine, sizeof(machine));
    seal(header);
    uint64_t log[] = {8192, own == 1 && before == 1 ? LEN : 2 * LEN - HEADER, 8192};
    unlink(name);
    if (put(name, header, HEADER, 0) != 0 || put(name, log, sizeof(log), HEADER) != 0 || truncate(name, LEN) != 0)
        exit(3);
}

static void make_set(void)
{
    FILE *set = fopen("set", "w");
    if (set == NULL)
        exit(3);
    fprintf(set, "PMEMPOOLSET\n2M %s/part0\n2M %s/part1\n", folder, folder);
    fclose(set);
    make("part0", 1, 2, 2);
    make("part1", 2, 1, 1);
}

static void make_all(void)
{
    make("log", 1, 1, 1);
    make("obj", 1, 1, 1);
    make_set();
    if (put("broken", "PMEMPOOLSET\n2M\n", 15, 0) != 0 || put("small", "x", 1, (off_t)lengths[below(COUNT(lengths))]) != 0)
        exit(3);
}

static int is_there(const char *name)
{
    struct stat found;
    return stat(name, &found) == 0 && (found.st_size == LEN || name[0] == 's');
}

/* Changes bits of a byte among the first `len` bytes of a file that has so many; the header is sealed after that, or not. */
static void flip(const char *name, size_t len, unsigned place, unsigned char bits, int is_sealed)
{
    unsigned char bytes[2 * HEADER];
    int file = open(name, O_RDWR);
    if (file >= 0 && pread(file, bytes, len, 0) == (ssize_t)len) {
        bytes[place] ^= bits;
        if (is_sealed)
            seal(bytes);
        if (pwrite(file, bytes, len, 0) < 0)
            printf(" write");
    }
    close(file);
}

/* A damaged field, sealed or not. */
static void damage(void)
{
    static const unsigned places[] = {0, 8, 12, 16, 20, 24, 40, 56, 72, 88, 104, 128, 200, 2047, 2048, HEADER - 8, HEADER,
        HEADER + 8, HEADER + 16};
    const char *name = files[below(COUNT(files))];
    unsigned place = places[below(COUNT(places))], is_sealed = below(3) == 0;
    unsigned char bit = (unsigned char)(1u << below(8));
    /* One feature that is turned alone is an interrupted change, which ours finishes. */
    if ((place == 12 && bit == 1) || (place == 16 && (bit == 2 || bit == 4)))
        bit = 128;
    printf("damage %s %u %u %u", name, place, bit, is_sealed);
    flip(name, HEADER + 64, place, bit, is_sealed);
}

static void check(void)
{
    const char *path = paths[below(COUNT(paths) - 1)];
    unsigned type = (unsigned)below(4) == 0 ? (unsigned)below(4) : 0;
    unsigned flags = (unsigned)below(3) == 0 ? (unsigned)below(64) : PMEMPOOL_CHECK_FORMAT_STR | (unsigned)(below(2) << 4);
    if (below(2) == 0)
        flags = PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_VERBOSE | PMEMPOOL_CHECK_REPAIR | (unsigned)(below(8) << 1);
    const char *const answers[] = {"yes", "yes", "yes", "no", "perhaps", ""};
    const char *answer = answers[below(COUNT(answers))];
    struct pmempool_check_args args = {path, NULL, (enum pmempool_pool_type)type, flags};
    PMEMpoolcheck *context = NULL;
    printf("check %s %u %x %s", path, type, flags, answer);
    CALL(context = pmempool_check_init(&args, sizeof(args) + below(2) * 8));
    if (context == NULL) {
        printf(" = none");
        return;
    }
    struct pmempool_check_status *status;
    uint64_t text = 0;
    int is_random = 0;
    while ((status = pmempool_check(context)) != NULL) {
        const char *msg = status->str.msg, *value = strstr(msg, " to ");
        int has_value = value != NULL && strstr(msg, "setting ") != NULL && (strstr(msg, "uuid") != NULL || strstr(msg, "checksum") != NULL);
        text = text * 31 + hash((const unsigned char *)msg, has_value ? (size_t)(value - msg) : strlen(msg)) + status->type;
        is_random |= strstr(msg, "setting pool_hdr.uuid") != NULL || strstr(msg, "pooset_uuid") != NULL;
        if (status->type == PMEMPOOL_CHECK_MSG_TYPE_QUESTION)
            status->str.answer = answer;
    }
    int result = pmempool_check_end(context);
    printf(" text %016lx = %d", text, result);
    /* UUIDs that may be random are in the files. Without PMEMPOOL_CHECK_VERBOSE no message tells of them. */
    if (is_random || (result == PMEMPOOL_CHECK_RESULT_REPAIRED && !(flags & PMEMPOOL_CHECK_VERBOSE)))
        make_all();
}

static void feature(void)
{
    const char *path = below(3) == 0 ? "set" : below(2) == 0 ? "log" : "obj";
    unsigned number = (unsigned)below(5), flags = below(10) == 0 ? (unsigned)below(3) : 0, which = (unsigned)below(3);
    int result = 0;
    /* PMDK ends the process for a set without a part. */
    for (unsigned index = 0; index < COUNT(files); index++) {
        if (!is_there(files[index]) || !is_there("set"))
            make_all();
    }
    printf("feature %u %s %u %u", which, path, number, flags);
    int (*const calls[])(const char *, enum pmempool_feature, unsigned) = {pmempool_feature_query, pmempool_feature_enable,
        pmempool_feature_disable};
    CALL(result = calls[which](path, (enum pmempool_feature)number, flags));
    printf(" = %d", result);
    if (result < 0)
        tell();
}

static void rm(void)
{
    const char *path = paths[below(COUNT(paths))];
    unsigned flags = (unsigned)below(9);
    int result = 0, error = 0, is_held = below(6) == 0, file = -1;
    if (is_held) {
        file = open("part1", O_RDONLY);
        flock(file, LOCK_EX | LOCK_NB);
    }
    printf("rm %s %u %d", path, flags, is_held);
    CALL(result = pmempool_rm(path, flags); error = errno);
    close(file);
    printf(" = %d", result);
    if (result != 0) {
        if (error == EISDIR || error == EAGAIN || error == EINVAL)
            printf(" errno %d", error);
        tell();
    }
}

static void again(void)
{
    printf("again");
    make_all();
}

static void versions(void)
{
    unsigned major = (unsigned)below(3), minor = (unsigned)below(6);
    const char *answer = pmempool_check_version(major, minor);
    printf("versions %u %u message %s", major, minor, answer == NULL ? "none" : answer);
}

#include "replicas.h"

static void (*const calls[])(void) = {check, check, check, check, feature, feature, rm, damage, damage, damage, again, versions};

static void show(const char *name)
{
    unsigned char bytes[HEADER + 64];
    int file = open(name, O_RDONLY);
    ssize_t len = pread(file, bytes, sizeof(bytes), 0);
    close(file);
    if (len > 0)
        printf(" %s %016lx", name, hash(bytes, (size_t)len));
}

int main(int count, char **arguments)
{
    if (count < 4 || getcwd(folder, sizeof(folder)) == NULL)
        return 2;
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    uint64_t seed = strtoul(arguments[1], NULL, 10), first = strtoul(arguments[2], NULL, 10);
    uint64_t end = first + strtoul(arguments[3], NULL, 10);
    catch_faults();
    for (uint64_t number = first; number < end; number++) {
        int has_replicas = number % RARE == RARE - 1;
        begin_step(seed, number, STEPS);
        make_all();
        if (has_replicas) {
            printf("%lu ", number);
            begin_replicas();
        }
        for (uint64_t step = 0; step < STEPS; step++) {
            if (!is_chosen(step, count - 4, arguments + 4))
                continue;
            begin_step(seed, number, step);
            printf("%lu.%lu ", number, step);
            if (has_replicas)
                replica_calls[below(COUNT(replica_calls))]();
            else
                calls[below(COUNT(calls))]();
            printf("\n");
        }
        printf("%lu end", number);
        if (has_replicas)
            show_replicas();
        for (unsigned index = 0; index < COUNT(files) && !has_replicas; index++)
            show(files[index]);
        printf("\n");
    }
    remove_replicas();
    return 0;
}
