/*
 * Draws sequences of calls of libpmem2 from a seed, takes them, and prints what each answered.
 *
 *   pmem2 SEED FIRST COUNT [STEP...]
 *
 * takes the sequences from FIRST on, in the current folder, which must be empty; with steps only those of each sequence.
 * The program is compiled against PMDK's headers and run on two libraries; equal output is the test. Addresses in messages
 * differ, so they are not shown.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <libpmem2.h>
#include "sequences.h"

#define STEPS 9
#define AREA (64 * 1024)
#define PAGE 4096
/* Reservations at addresses of the program's choice lie there. */
#define PLACES ((char *)0x200000000000)
#define PLACE_LEN (64 << 20)

#define SOURCES 4
#define CONFIGS 2
#define MAPS 5
#define RESERVATIONS 2

/* Objects of the sequence. */
static struct pmem2_source *sources[SOURCES];
static int descriptors[SOURCES];
static struct pmem2_config *configs[CONFIGS];
static int reservation_of_config[CONFIGS];
static struct pmem2_map *maps[MAPS];
static char *existing[MAPS];
static struct pmem2_vm_reservation *reservations[RESERVATIONS];
static struct pmem2_badblock_context *bad_blocks;
/* Memory that the library did not map. */
static char *area;

static const char *const names[] = {"f0", "f1", "f2"};
static const size_t file_lengths[] = {65536 + 100, 3 * PAGE, 0};

/* The message is the last part of a line: the other library's may go on after it. */
static void tell(int result)
{
    printf(" = %d", result);
    if (result == 0)
        return;
    printf(" message ");
    for (const char *at = pmem2_errormsg(); *at != 0;) {
        if (at[0] == '0' && at[1] == 'x') {
            printf("ADDRESS");
            at += 2 + strspn(at + 2, "0123456789abcdef");
        } else {
            putchar(*at++);
        }
    }
}

static void drop_source(int slot)
{
    if (sources[slot] != NULL)
        pmem2_source_delete(&sources[slot]);
    if (descriptors[slot] >= 0)
        close(descriptors[slot]);
    descriptors[slot] = -1;
}

static int take_descriptor(int slot, const char *name, int flags)
{
    drop_source(slot);
    descriptors[slot] = open(name, flags | O_CLOEXEC, 0600);
    return descriptors[slot];
}

static void source_from_fd(void)
{
    int slot = (int)below(SOURCES), how = (int)below(12), file = (int)below(COUNT(names)), pair[2];
    printf("source_from_fd %d %d %d", slot, how, file);
    struct pmem2_source *source = (void *)8;
    int descriptor = -1, result = 0;
    switch (how) {
    case 0:
        descriptor = take_descriptor(slot, names[file], O_WRONLY);
        break;
    case 1:
        descriptor = take_descriptor(slot, ".", O_RDONLY);
        break;
    case 2:
        descriptor = take_descriptor(slot, below(2) ? "/dev/null" : "/dev/zero", O_RDWR);
        break;
    case 3:
        drop_source(slot);
        descriptor = below(2) ? -1 : 900;
        break;
    case 4:
        drop_source(slot);
        if (pipe(pair) != 0)
            return;
        CALL(result = pmem2_source_from_fd(&source, pair[0]));
        printf(" null %d", source == NULL);
        tell(result);
        close(pair[0]);
        close(pair[1]);
        return;
    case 5:
        descriptor = take_descriptor(slot, names[file], O_RDONLY);
        break;
    default:
        descriptor = take_descriptor(slot, names[file], O_RDWR);
    }
    CALL(result = pmem2_source_from_fd(&source, descriptor));
    printf(" null %d", source == NULL);
    tell(result);
    sources[slot] = result == 0 ? source : NULL;
}

static void source_from_anon(void)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 10000, 65536, 2 << 20};
    int slot = (int)below(SOURCES), result = 0;
    size_t size = sizes[below(COUNT(sizes))];
    printf("source_from_anon %d %zu", slot, size);
    drop_source(slot);
    CALL(result = pmem2_source_from_anon(&sources[slot], size));
    tell(result);
}

static void source_questions(void)
{
    int slot = (int)below(SOURCES), how = (int)below(8), result = 0, number = 777;
    size_t size = 777;
    uint64_t count = 777;
    char id[64] = "";
    printf("source_questions %d %d", slot, how);
    struct pmem2_source *source = sources[slot];
    if (source == NULL)
        return;
    switch (how) {
    case 0:
        CALL(result = pmem2_source_size(source, &size));
        break;
    case 1:
        CALL(result = pmem2_source_alignment(source, &size));
        break;
    case 2:
        CALL(result = pmem2_source_get_fd(source, &number));
        if (result == 0)
            number = number == descriptors[slot];
        break;
    case 3:
        CALL(result = pmem2_source_numa_node(source, &number));
        break;
    case 4:
        CALL(result = pmem2_source_device_usc(source, &count));
        break;
    case 5:
        CALL(result = pmem2_source_device_id(source, NULL, &size));
        break;
    case 6:
        size = sizeof(id);
        CALL(result = pmem2_source_device_id(source, id, &size));
        break;
    default:
        /* The descriptor is closed under the source. */
        if (descriptors[slot] >= 0)
            close(descriptors[slot]);
        descriptors[slot] = -1;
        CALL(result = pmem2_source_size(source, &size));
    }
    printf(" size %zu number %d count %lu id %s", size, number, (unsigned long)count, id);
    tell(result);
}

static void source_delete(void)
{
    int slot = (int)below(SOURCES), result = 0;
    printf("source_delete %d", slot);
    CALL(result = pmem2_source_delete(&sources[slot]));
    printf(" null %d", sources[slot] == NULL);
    tell(result);
    drop_source(slot);
}

static void mcsafe(void)
{
    int slot = (int)below(SOURCES), is_write = (int)below(2), result = 0;
    size_t size = lengths[below(COUNT(lengths))], offset = below(16) == 0 ? below(80000) : below(2 * PAGE);
    char *buffer = below(20) == 0 ? NULL : area + below(AREA - 8192);
    printf("mcsafe %d %d %zu %zu null %d", slot, is_write, size, offset, buffer == NULL);
    if (sources[slot] == NULL)
        return;
    if (is_write)
        CALL(result = pmem2_source_pwrite_mcsafe(sources[slot], buffer, size, offset));
    else
        CALL(result = pmem2_source_pread_mcsafe(sources[slot], buffer, size, offset));
    tell(result);
}

static void config(void)
{
    int slot = (int)below(CONFIGS), how = (int)below(12), result = 0;
    printf("config %d %d", slot, how);
    if (how == 0 || configs[slot] == NULL) {
        result = pmem2_config_delete(&configs[slot]);
        printf(" null %d", configs[slot] == NULL);
        result |= pmem2_config_new(&configs[slot]);
        reservation_of_config[slot] = -1;
        tell(result);
        return;
    }
    struct pmem2_config *config = configs[slot];
    static const unsigned protections[] = {PMEM2_PROT_NONE, PMEM2_PROT_READ, PMEM2_PROT_WRITE,
        PMEM2_PROT_READ | PMEM2_PROT_WRITE, PMEM2_PROT_READ | PMEM2_PROT_EXEC, 1, 1u << 28};
    unsigned value = (unsigned)below(8);
    switch (how) {
    case 1:
    case 2:
    case 3:
        printf(" granularity %u", value % 5);
        result = pmem2_config_set_required_store_granularity(config, (enum pmem2_granularity)(value % 5));
        break;
    case 4:
    case 5: {
        size_t offset = value == 0 ? 100 : value == 1 ? (size_t)-1 : value == 2 ? (size_t)1 << 62 : (value - 3) * PAGE;
        printf(" offset %zu", offset);
        result = pmem2_config_set_offset(config, offset);
        break;
    }
    case 6:
    case 7: {
        size_t length = value == 0 ? 100 : value == 1 ? (size_t)-PAGE : (value - 2) * PAGE;
        printf(" length %zu", length);
        result = pmem2_config_set_length(config, length);
        break;
    }
    case 8:
        printf(" sharing %u", value % 4);
        result = pmem2_config_set_sharing(config, (enum pmem2_sharing_type)(value % 4));
        break;
    case 9:
        printf(" protection %u", value);
        result = pmem2_config_set_protection(config, protections[value % COUNT(protections)]);
        break;
    default: {
        int of = (int)below(RESERVATIONS + 1);
        size_t offset = value == 0 ? 100 : value * PAGE;
        struct pmem2_vm_reservation *reservation = of < RESERVATIONS ? reservations[of] : NULL;
        printf(" reservation %d %zu null %d", of, offset, reservation == NULL);
        result = pmem2_config_set_vm_reservation(config, reservation, offset);
        reservation_of_config[slot] = reservation == NULL ? -1 : of;
        break;
    }
    }
    tell(result);
}

extern int pmem2_config_set_vdm(struct pmem2_config *config, void *vdm);

static void config_vdm(void)
{
    int slot = (int)below(CONFIGS), result = 0;
    printf("config_vdm %d", slot);
    if (configs[slot] != NULL)
        CALL(result = pmem2_config_set_vdm(configs[slot], NULL));
    tell(result);
}

static void show_map(int slot)
{
    struct pmem2_map *map = maps[slot];
    char *start = NULL;
    CALL(start = pmem2_map_get_address(map));
    CALL(printf(" size %zu granularity %d", pmem2_map_get_size(map), pmem2_map_get_store_granularity(map)));
    printf(" page %d", (uintptr_t)start % PAGE == 0);
}

static void map_new(void)
{
    int slot = (int)below(MAPS), of_config = (int)below(CONFIGS), of_source = (int)below(SOURCES), result = 0;
    printf("map_new %d %d %d", slot, of_config, of_source);
    if (maps[slot] != NULL || configs[of_config] == NULL || sources[of_source] == NULL)
        return;
    struct pmem2_map *map = (void *)8;
    errno = 0;
    CALL(result = pmem2_map_new(&map, configs[of_config], sources[of_source]));
    if (result == -EEXIST)
        printf(" errno %d", errno);
    printf(" null %d", map == NULL);
    tell(result);
    maps[slot] = result == 0 ? map : NULL;
    existing[slot] = NULL;
    if (result == 0) {
        show_map(slot);
        if (reservation_of_config[of_config] < 0)
            printf(" large %d", (uintptr_t)pmem2_map_get_address(map) % (2 << 20) == 0);
    }
}

static void map_from_existing(void)
{
    int slot = (int)below(MAPS), of_source = (int)below(SOURCES), of_map = (int)below(MAPS), result = 0;
    /* With PMEM2_GRANULARITY_PAGE, PMDK's persist of such a mapping never returns. */
    int granularity = (int)below(2), how = (int)below(3);
    size_t len = (1 + below(4)) * PAGE, offset = below(12) * PAGE;
    printf("map_from_existing %d %d %d %d %zu", slot, of_source, granularity, how, len);
    if (maps[slot] != NULL || sources[of_source] == NULL)
        return;
    char *start = area + offset;
    if (how == 0 && maps[of_map] != NULL)
        start = pmem2_map_get_address(maps[of_map]);
    errno = 0;
    CALL(result = pmem2_map_from_existing(&maps[slot], sources[of_source], start, len, (enum pmem2_granularity)granularity));
    if (result == PMEM2_E_MAP_EXISTS)
        printf(" errno %d", errno);
    tell(result);
    if (result == 0) {
        existing[slot] = start;
        show_map(slot);
    } else {
        maps[slot] = NULL;
    }
}

static void map_delete(void)
{
    int slot = (int)below(MAPS), result = 0;
    printf("map_delete %d", slot);
    if (maps[slot] == NULL)
        return;
    CALL(result = pmem2_map_delete(&maps[slot]));
    printf(" null %d", maps[slot] == NULL);
    tell(result);
}

/* A mapping that allows stores, as far as the kernel lets it, and a place in it with room for `len` bytes; or a bad one. */
static char *place(size_t len, struct pmem2_map **map)
{
    int first = (int)below(MAPS);
    uint64_t offset = next();
    int is_bad = below(40) == 0;
    for (int index = 0; index < MAPS; index++) {
        *map = maps[(first + index) % MAPS];
        if (*map != NULL && pmem2_map_get_size(*map) >= len + 1) {
            char *start = pmem2_map_get_address(*map);
            return is_bad ? NULL : start + offset % (pmem2_map_get_size(*map) - len);
        }
    }
    *map = NULL;
    return NULL;
}

static void show_hash(const char *at, size_t len)
{
    if (at != NULL)
        CALL(printf(" hash %016lx", hash((const unsigned char *)at, len)));
}

static void flush(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int how = (int)below(3);
    struct pmem2_map *map;
    char *at = place(len, &map);
    printf("flush %d null %d %zu", how, at == NULL, len);
    if (map == NULL)
        return;
    if (at == NULL && len == 0)
        len = 8;
    if (at != NULL)
        CALL(at[0]++);
    if (how == 0)
        CALL(pmem2_get_persist_fn(map)(at, len));
    else
        CALL(pmem2_get_flush_fn(map)(at, len));
    pmem2_get_drain_fn(map)();
    show_hash(at, len);
}

static unsigned draw_flags(void)
{
    static const unsigned known[] = {0, PMEM2_F_MEM_NODRAIN, PMEM2_F_MEM_NONTEMPORAL, PMEM2_F_MEM_TEMPORAL, PMEM2_F_MEM_WC,
        PMEM2_F_MEM_WB, PMEM2_F_MEM_NOFLUSH, PMEM2_F_MEM_NODRAIN | PMEM2_F_MEM_WC, PMEM2_F_MEM_NODRAIN | PMEM2_F_MEM_NOFLUSH};
    return below(8) == 0 ? (unsigned)below(64) : known[below(COUNT(known))];
}

static void copy(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int how = (int)below(2), is_within = below(3) == 0;
    size_t shift = below(200);
    struct pmem2_map *map;
    char *into = place(len + shift, &map), *from = area + below(AREA - 8192), *result = NULL;
    if (is_within && into != NULL)
        from = into + shift;
    unsigned flags = draw_flags();
    printf("copy %d null %d within %d %zu %zu %x", how, into == NULL, is_within, shift, len, flags);
    if (map == NULL)
        return;
    if (how == 0)
        CALL(result = pmem2_get_memcpy_fn(map)(into, from, len, flags));
    else
        CALL(result = pmem2_get_memmove_fn(map)(into, from, len, flags));
    pmem2_get_drain_fn(map)();
    printf(" same %d", result == into);
    show_hash(into, len);
}

static void fill(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int byte = (int)below(1000) - 300;
    struct pmem2_map *map;
    char *into = place(len, &map), *result = NULL;
    unsigned flags = draw_flags();
    printf("fill null %d %d %zu %x", into == NULL, byte, len, flags);
    if (map == NULL)
        return;
    CALL(result = pmem2_get_memset_fn(map)(into, byte, len, flags));
    pmem2_get_drain_fn(map)();
    printf(" same %d", result == into);
    show_hash(into, len);
}

/* `struct pmem2_future` of <libpmem2/async.h>, whose header needs one of libminiasync, which Debian does not have. */
struct future {
    int (*task)(void *context, void *notifier);
    int (*has_property)(void *future, int property);
    struct {
        size_t data_size, output_size;
        int state;
        uint32_t padding;
        char data[0x110];
        void *dest;
    } context;
};

extern struct future pmem2_memcpy_async(struct pmem2_map *, void *, const void *, size_t, unsigned);
extern struct future pmem2_memmove_async(struct pmem2_map *, void *, const void *, size_t, unsigned);
extern struct future pmem2_memset_async(struct pmem2_map *, void *, int, size_t, unsigned);

static void async(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int how = (int)below(3);
    struct pmem2_map *map;
    char *into = place(len, &map), *from = area + below(AREA - 8192);
    struct future future;
    memset(&future, 0, sizeof(future));
    printf("async %d null %d %zu", how, into == NULL, len);
    if (map == NULL || into == NULL)
        return;
    int is_done = 0, property = 0;
    CALL(future = how == 0 ? pmem2_memcpy_async(map, into, from, len, 0)
             : how == 1 ? pmem2_memmove_async(map, into, from, len, 0)
                        : pmem2_memset_async(map, into, 7, len, 0);
         property = future.has_property(&future, 0);
         while (future.context.state != 1)
             future.context.state = future.task(&future.context, NULL);
         is_done = 1);
    /* One library copies in the call, the other when the future is polled. */
    if (is_done)
        printf(" property %d sizes %zu %zu same %d", property == 1, future.context.data_size, future.context.output_size,
            future.context.dest == into);
    show_hash(into, len);
}

static void deep_flush(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int slot = (int)below(MAPS), how = (int)below(4), result = 0;
    struct pmem2_map *map = maps[slot];
    printf("deep_flush %d %d %zu", slot, how, len);
    if (map == NULL)
        return;
    char *start = pmem2_map_get_address(map);
    size_t size = pmem2_map_get_size(map);
    if (how == 0)
        start += size;
    else if (how == 1)
        start -= 1;
    else if (len > size)
        len = size;
    CALL(result = pmem2_deep_flush(map, start, len));
    tell(result);
}

static void reservation(void)
{
    int slot = (int)below(RESERVATIONS), how = (int)below(8), result = 0;
    /* PMDK can't delete a reservation of no bytes. */
    static const size_t sizes[] = {PAGE, 2 * PAGE, 5 * PAGE, 16 * PAGE, 64 * PAGE, 100, (size_t)1 << 47};
    size_t size = sizes[below(COUNT(sizes))], offset = below(8) == 0 ? 100 : below(20) * PAGE;
    printf("reservation %d %d", slot, how);
    if (how < 3 || reservations[slot] == NULL) {
        char *at = below(3) == 0 ? NULL : PLACES + slot * (long)PLACE_LEN;
        if (below(12) == 0)
            at = below(2) ? PLACES + 1 : area;
        if (reservations[slot] != NULL)
            return;
        printf(" new %d %zu", at != NULL, size);
        result = pmem2_vm_reservation_new(&reservations[slot], at, size);
        printf(" null %d", reservations[slot] == NULL);
        if (result != 0)
            reservations[slot] = NULL;
    } else if (how < 5) {
        printf(" extend %zu", size);
        /* Without an address of its own, it may grow as far as a large page. */
        if (size > 64 * PAGE && size % PAGE == 0)
            return;
        result = pmem2_vm_reservation_extend(reservations[slot], size);
    } else if (how < 7) {
        size_t all = pmem2_vm_reservation_get_size(reservations[slot]);
        if (below(3) == 0 && all > size)
            offset = all - size;
        else if (below(2))
            offset = 0;
        printf(" shrink %zu %zu", offset, size);
        result = pmem2_vm_reservation_shrink(reservations[slot], offset, size);
    } else {
        printf(" delete");
        result = pmem2_vm_reservation_delete(&reservations[slot]);
        printf(" null %d", reservations[slot] == NULL);
        for (int index = 0; result == 0 && index < CONFIGS; index++) {
            if (reservation_of_config[index] == slot)
                pmem2_config_set_vm_reservation(configs[index], NULL, 0);
        }
        if (result == 0)
            munmap(PLACES + slot * (long)PLACE_LEN, PLACE_LEN);
    }
    if (reservations[slot] != NULL) {
        CALL(printf(" size %zu page %d", pmem2_vm_reservation_get_size(reservations[slot]),
            (uintptr_t)pmem2_vm_reservation_get_address(reservations[slot]) % PAGE == 0));
    }
    tell(result);
}

static int slot_of(struct pmem2_map *map)
{
    for (int slot = 0; slot < MAPS; slot++) {
        if (map != NULL && maps[slot] == map)
            return slot;
    }
    return -1;
}

static void walk(void)
{
    int slot = (int)below(RESERVATIONS), how = (int)below(5), of = (int)below(MAPS), result = 0;
    size_t offset = below(3) == 0 ? below(70000) : below(20) * PAGE, len = lengths[below(COUNT(lengths))];
    printf("walk %d %d %d %zu %zu", slot, how, of, offset, len);
    struct pmem2_vm_reservation *reservation = reservations[slot];
    struct pmem2_map *found = (void *)8;
    if (reservation == NULL || ((how == 1 || how == 2) && maps[of] == NULL))
        return;
    switch (how) {
    case 0:
        CALL(result = pmem2_vm_reservation_map_find(reservation, offset, len, &found));
        break;
    case 1:
        CALL(result = pmem2_vm_reservation_map_find_prev(reservation, maps[of], &found));
        break;
    case 2:
        CALL(result = pmem2_vm_reservation_map_find_next(reservation, maps[of], &found));
        break;
    case 3:
        CALL(result = pmem2_vm_reservation_map_find_first(reservation, &found));
        break;
    default:
        CALL(result = pmem2_vm_reservation_map_find_last(reservation, &found));
    }
    printf(" found %d null %d", slot_of(found), found == NULL);
    tell(result);
}

static void bad_block(void)
{
    int slot = (int)below(SOURCES), how = (int)below(4), result = 0;
    struct pmem2_badblock block = {below(4) * PAGE, below(3) * PAGE};
    if (below(12) == 0)
        block.offset = (size_t)1 << 63;
    if (below(12) == 0)
        block.length = (size_t)1 << 63;
    printf("bad_block %d %d %zu %zu", slot, how, block.offset, block.length);
    if (how == 0 || bad_blocks == NULL) {
        pmem2_badblock_context_delete(&bad_blocks);
        printf(" null %d", bad_blocks == NULL);
        if (sources[slot] == NULL)
            return;
        CALL(result = pmem2_badblock_context_new(&bad_blocks, sources[slot]));
        printf(" null %d", bad_blocks == NULL);
        if (result != 0)
            bad_blocks = NULL;
        /* The context keeps the descriptor's number. */
        if (result == 0)
            fcntl(descriptors[slot], F_DUPFD_CLOEXEC, 100);
    } else if (how == 1) {
        CALL(result = pmem2_badblock_next(bad_blocks, &block));
        printf(" offset %zu length %zu", block.offset, block.length);
    } else {
        CALL(result = pmem2_badblock_clear(bad_blocks, &block));
    }
    tell(result);
}

/* Standard error goes to a file for a call, whose text is then shown as a message. */
static void perror_(void)
{
    int number = (int)below(100), own = dup(2), file = open("err", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct pmem2_source *source = NULL;
    char text[6000];
    printf("perror %d", number);
    if (pmem2_source_from_fd(&source, 901) == 0 || own < 0 || file < 0)
        return;
    fflush(stderr);
    dup2(file, 2);
    pmem2_perror("%d %s %c %.2f %ld %d %d %d %.1f", number, "text", 'x', number / 4.0, -5L, 6, 7, 8, 9.5);
    fflush(stderr);
    dup2(own, 2);
    ssize_t len = pread(file, text, sizeof(text) - 1, 0);
    text[len < 0 ? 0 : len] = 0;
    text[strcspn(text, "\n")] = 0;
    printf(" message %s", text);
    close(own);
    close(file);
    unlink("err");
}

static void *fail_elsewhere(void *argument)
{
    struct pmem2_source *source = NULL;
    printf(" first %zu", strlen(pmem2_errormsg()));
    int result = pmem2_source_from_fd(&source, 902);
    printf(" then %d", result);
    return argument;
}

static void thread(void)
{
    pthread_t other;
    int slot = (int)below(CONFIGS), result = 0;
    printf("thread");
    if (configs[slot] != NULL)
        CALL(result = pmem2_config_set_sharing(configs[slot], (enum pmem2_sharing_type)9));
    if (pthread_create(&other, NULL, fail_elsewhere, NULL) == 0)
        pthread_join(other, NULL);
    tell(result);
}

/* A child stores to a mapping and ends without a word; its parent sees the stores if the mapping is shared. */
static void fork_(void)
{
    int status = -1;
    char byte = (char)next();
    struct pmem2_map *map;
    char *at = place(300, &map);
    printf("fork null %d", at == NULL);
    if (map == NULL || at == NULL)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int answers = 0;
        CALL(pmem2_get_memset_fn(map)(at, byte, 300, 0); answers = 1);
        struct pmem2_source *source = NULL;
        struct pmem2_config *config = NULL;
        struct pmem2_map *own = NULL;
        int file = open("f0", O_RDWR);
        if (pmem2_source_from_fd(&source, file) == 0 && pmem2_config_new(&config) == 0
            && pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) == 0
            && pmem2_map_new(&own, config, source) == 0)
            answers += 2 + 4 * (pmem2_map_delete(&own) == 0);
        _exit(answers);
    }
    waitpid(child, &status, 0);
    printf(" status %d", status);
    show_hash(at, 300);
}

/* A file that is cut while it is mapped: a store past its end is the program's own signal. */
static void cut(void)
{
    int how = (int)below(4), slot = (int)below(CONFIGS), result = 0;
    struct pmem2_source *source = NULL;
    struct pmem2_map *map = NULL;
    printf("cut %d", how);
    int file = open("cut", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (configs[slot] == NULL || reservation_of_config[slot] >= 0 || file < 0 || ftruncate(file, 8 * PAGE) != 0
        || pmem2_source_from_fd(&source, file) != 0) {
        close(file);
        return;
    }
    CALL(result = pmem2_map_new(&map, configs[slot], source));
    tell(result);
    if (result == 0) {
        char *start = pmem2_map_get_address(map);
        size_t size = pmem2_map_get_size(map);
        if (ftruncate(file, 0) != 0)
            printf(" truncate");
        if (how == 0)
            CALL(pmem2_get_memset_fn(map)(start, 1, size < 512 ? size : 512, 0));
        else if (how == 1)
            CALL(pmem2_get_memcpy_fn(map)(start, area, 64, 0));
        else if (how == 2)
            CALL(pmem2_get_memcpy_fn(map)(area, start, 16, PMEM2_F_MEM_NOFLUSH));
        else
            CALL(printf(" deep %d", pmem2_deep_flush(map, start, size)));
        CALL(printf(" delete %d", pmem2_map_delete(&map)));
    }
    pmem2_source_delete(&source);
    close(file);
    unlink("cut");
}

static void (*const calls[])(void) = {source_from_fd, source_from_fd, source_from_anon, source_questions, source_questions,
    source_delete, mcsafe, mcsafe, config, config, config, config_vdm, map_new, map_new, map_new, map_from_existing,
    map_delete, flush, flush, copy, copy, copy, fill, fill, async, deep_flush, reservation, reservation, reservation, walk,
    walk, bad_block};

static void show_file(const char *name)
{
    static unsigned char bytes[1 << 17];
    int file = open(name, O_RDONLY);
    /* Reading, unlike a mapping, allocates no pages for holes. */
    ssize_t len = pread(file, bytes, sizeof(bytes), 0);
    printf(" %s %zd hash %016lx", name, len, hash(bytes, len < 0 ? 0 : (size_t)len));
    close(file);
}

/* Files with content, a source of the first, and a configuration: most calls then have something to work on. */
static void prepare(void)
{
    for (size_t at = 0; at < AREA; at++)
        area[at] = (char)(at * 7 + at / 256);
    for (size_t index = 0; index < COUNT(names); index++) {
        int file = open(names[index], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (ftruncate(file, (off_t)file_lengths[index]) != 0
            || (file_lengths[index] != 0 && pwrite(file, area, 9000, 0) != 9000))
            exit(3);
        close(file);
    }
    pmem2_source_from_fd(&sources[0], take_descriptor(0, "f0", O_RDWR));
    pmem2_source_from_fd(&sources[1], take_descriptor(1, "f1", O_RDWR));
    for (int slot = 0; slot < CONFIGS; slot++) {
        pmem2_config_new(&configs[slot]);
        reservation_of_config[slot] = -1;
        if (below(8) != 0)
            pmem2_config_set_required_store_granularity(configs[slot], PMEM2_GRANULARITY_PAGE);
    }
    if (below(3) != 0)
        pmem2_map_new(&maps[0], configs[0], sources[below(2)]);
    if (below(3) == 0 && pmem2_vm_reservation_new(&reservations[0], PLACES, 32 * PAGE) == 0) {
        pmem2_config_set_vm_reservation(configs[1], reservations[0], 4 * PAGE);
        reservation_of_config[1] = 0;
    }
}

static void clean_up(void)
{
    for (int slot = 0; slot < MAPS; slot++) {
        if (maps[slot] != NULL && pmem2_map_delete(&maps[slot]) != 0)
            printf(" map %d is left", slot);
        maps[slot] = NULL;
    }
    for (int slot = 0; slot < RESERVATIONS; slot++) {
        if (reservations[slot] != NULL && pmem2_vm_reservation_delete(&reservations[slot]) != 0)
            printf(" reservation %d is left", slot);
        reservations[slot] = NULL;
        /* What a library holds beyond the reservation. */
        munmap(PLACES + slot * (long)PLACE_LEN, PLACE_LEN);
    }
    pmem2_badblock_context_delete(&bad_blocks);
    for (int slot = 0; slot < CONFIGS; slot++)
        pmem2_config_delete(&configs[slot]);
    for (int slot = 0; slot < SOURCES; slot++)
        drop_source(slot);
    /* Descriptors of contexts. */
    for (int file = 100; file < 120; file++)
        close(file);
}

static void sequence(uint64_t seed, uint64_t number, int chosen, char **steps)
{
    begin_step(seed, number, STEPS);
    prepare();
    for (uint64_t step = 0; step < STEPS; step++) {
        if (!is_chosen(step, chosen, steps))
            continue;
        begin_step(seed, number, step);
        uint64_t which = below(800);
        printf("%lu.%lu ", number, step);
        /* Forks and threads are dear, so they are rare. */
        if (which < 8)
            thread();
        else if (which < 14)
            fork_();
        else if (which < 30)
            cut();
        else if (which < 38)
            perror_();
        else
            calls[which % COUNT(calls)]();
        printf("\n");
    }
    printf("%lu end", number);
    clean_up();
    printf(" area %016lx", hash((unsigned char *)area, AREA));
    for (size_t index = 0; index < COUNT(names); index++)
        show_file(names[index]);
    printf("\n");
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    uint64_t seed = strtoul(arguments[1], NULL, 10), first = strtoul(arguments[2], NULL, 10);
    uint64_t end = first + strtoul(arguments[3], NULL, 10);
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int slot = 0; slot < SOURCES; slot++)
        descriptors[slot] = -1;
    catch_faults();
    umask(022);
    for (uint64_t number = first; number < end; number++)
        sequence(seed, number, count - 4, arguments + 4);
    return 0;
}
