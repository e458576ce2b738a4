/*
 * Pool sets with replicas for the program of libpmempool: pools, their damage, other sets to change them into, and the calls that
 * repair and change them.
 *
 * A part has a letter for its replica and a number. UUIDs that a call draws differ from library to library, so what is shown of a
 * header numbers them in the order in which they appear.
 */
#include <dirent.h>
#include <sys/mman.h>

#define REPLICAS 4
#define PARTS 3
#define MIB ((off_t)1 << 20)
/* Offsets in the first part of an object pool. */
#define HEAP 0x302000
#define OBJ_END (2 * HEADER)

/* A pool set: its options, and the parts of each replica, in MiB. */
struct set {
    const char *option;
    int count;
    struct {
        char letter;
        int count;
        int sizes[PARTS];
    } replicas[REPLICAS];
};

static struct set pool_set, target;
/* True if the set files `old` and `new` name a part twice. */
static int is_twice[2];
/* The end of the pool's content in parts whose content was moved; 0 before that. PMDK leaves old content after it. */
static off_t moved_end;
/* The signature's last letters, and the number of the format. */
static const char *kind;

static const char *const part_names[] = {"a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2", "d0", "d1", "d2"};

static const char *part_name(const struct set *set, int replica, int part)
{
    static char name[3];
    name[0] = set->replicas[replica].letter;
    name[1] = (char)('0' + part);
    return name;
}

static void draw_replica(struct set *set, int replica)
{
    set->replicas[replica].letter = (char)('a' + replica);
    set->replicas[replica].count = 1 + (int)below(below(2) == 0 ? 2 : PARTS);
    for (int part = 0; part < PARTS; part++)
        set->replicas[replica].sizes[part] = 8 + (int)below(3);
}

static const char *draw_option(void)
{
    static const char *const options[] = {"SINGLEHDR", "SINGLEHDR", "NOHDRS", "SINGLEHDR NOHDRS", "x"};
    return below(4) != 0 ? "" : options[below(below(4) == 0 ? COUNT(options) : 2)];
}

static int has_one_header(const struct set *set)
{
    return set->option[0] != '\0';
}

/* Returns the bytes of a replica that hold content. */
static off_t room(const struct set *set, int replica)
{
    off_t bytes = has_one_header(set) ? 0 : -(off_t)HEADER * (set->replicas[replica].count - 1);
    for (int part = 0; part < set->replicas[replica].count; part++)
        bytes += set->replicas[replica].sizes[part] * MIB;
    return bytes;
}

/* Returns the bytes of the least replica. */
static off_t pool_end(const struct set *set)
{
    off_t size = room(set, 0);
    for (int other = 1; other < set->count; other++)
        size = room(set, other) < size ? room(set, other) : size;
    return size;
}

/* Returns 1 if two replicas have the same parts. */
static int names_twice(const struct set *set)
{
    for (int replica = 1; replica < set->count; replica++)
        for (int other = 0; other < replica; other++)
            if (set->replicas[other].letter == set->replicas[replica].letter)
                return 1;
    return 0;
}

static void write_set(const char *name, const struct set *set, const char *end)
{
    FILE *file = fopen(name, "w");
    if (file == NULL)
        exit(4);
    fprintf(file, "PMEMPOOLSET\n");
    if (set->option[0] != '\0')
        fprintf(file, "OPTION %s\n", set->option);
    printf(" %s:%s", name, set->option);
    for (int replica = 0; replica < set->count; replica++) {
        if (replica > 0)
            fprintf(file, "REPLICA\n");
        for (int part = 0; part < set->replicas[replica].count; part++) {
            int size = set->replicas[replica].sizes[part];
            fprintf(file, "%dM %s/%s\n", size, folder, part_name(set, replica, part));
            printf(" %s=%d", part_name(set, replica, part), size);
        }
        printf(";");
    }
    is_twice[name[0] == 'n'] = names_twice(set);
    fputs(end, file);
    fclose(file);
}

static void set_uuid(unsigned char *at, int replica, int part, int is_foreign)
{
    memset(at, 16 * (replica + 1) + part + 1 + (is_foreign ? 128 : 0), 16);
}

/* Makes the header of a part of the pool, or of another pool that has the same set. */
static void make_header(unsigned char *header, const struct set *set, int replica, int part, int is_foreign)
{
    static const unsigned char machine[] = {0x10, 0x73, 0x77, 0x37, 0xf7, 7, 0, 0, 2, 1, 0, 0, 0, 0, 62, 0};
    int parts = has_one_header(set) ? 1 : set->replicas[replica].count, others = set->count;
    memset(header, 0, HEADER);
    memcpy(header, "PMEM", 4);
    memcpy(header + 4, kind, 3);
    header[8] = kind[0] == 'O' ? 6 : 1;
    header[12] = 1;
    header[16] = has_one_header(set) ? 7 : 6;
    memset(header + 24, is_foreign ? 0x66 : 0x77, 16);
    set_uuid(header + 40, replica, part, is_foreign);
    set_uuid(header + 56, replica, (part + parts - 1) % parts, is_foreign);
    set_uuid(header + 72, replica, (part + 1) % parts, is_foreign);
    set_uuid(header + 88, (replica + others - 1) % others, 0, is_foreign);
    set_uuid(header + 104, (replica + 1) % others, 0, is_foreign);
    header[120] = 1;
    memcpy(header + 128, machine, sizeof(machine));
    seal(header);
}

/* Makes the descriptor of an object pool. */
static void make_descriptor(unsigned char *descriptor, off_t size)
{
    const uint64_t offsets[] = {OBJ_END, 1024, HEAP}, heap = (uint64_t)(size - HEAP), run = 2;
    memset(descriptor, 0, HEADER);
    memcpy(descriptor + 0x400, offsets, sizeof(offsets));
    uint32_t low = 0, high = 0;
    for (size_t at = 0; at < 0x800; at += 4) {
        uint32_t word;
        memcpy(&word, descriptor + at, 4);
        low += at >= 0x7f8 ? 0 : word;
        high += low;
    }
    uint64_t sum = (uint64_t)high << 32 | low;
    memcpy(descriptor + 0x7f8, &sum, 8);
    memcpy(descriptor + 0x808, &run, 8);
    memcpy(descriptor + 0x820, &heap, 8);
}

/* Makes one part of the pool, with marks of their places in the content. */
static void make_part(const struct set *set, int replica, int part, int is_foreign)
{
    unsigned char page[HEADER];
    const char *name = part_name(set, replica, part);
    off_t size = pool_end(set), skipped = has_one_header(set) || part == 0 ? 0 : HEADER, start = 0;
    for (int other = 0; other < part; other++)
        start += set->replicas[replica].sizes[other] * MIB - (other > 0 ? skipped : 0);
    off_t len = set->replicas[replica].sizes[part] * MIB, end = start + len - skipped;
    unlink(name);
    int failed = put(name, page, 0, 0);
    if (part == 0 || !has_one_header(set)) {
        make_header(page, set, replica, part, is_foreign);
        if (strstr(set->option, "NOHDRS") == NULL)
            failed |= put(name, page, HEADER, 0);
    }
    make_descriptor(page, size);
    if (part == 0)
        failed |= put(name, page, HEADER, HEADER);
    for (uint64_t mark = (uint64_t)(start + MIB - 1) / MIB * MIB + 4 * HEADER; (off_t)mark + 8 < (end < size ? end : size); mark += MIB)
        failed |= put(name, &mark, 8, (off_t)mark - start + skipped);
    if (failed || truncate(name, len) != 0)
        exit(5);
}

/* Removes the files of sequences with replicas. */
static void remove_replicas(void)
{
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, alphasort);
    for (int index = 0; index < count; index++) {
        const char *name = entries[index]->d_name;
        if (name[0] == '.' ? name[1] != '\0' && name[1] != '.' : name[1] >= '0' && name[1] <= '2')
            unlink(name);
        free(entries[index]);
    }
    free(entries);
    unlink("old");
    unlink("new");
}

/* Draws a part of the pool's set. */
static const char *draw_part(int *replica, int *part)
{
    *replica = (int)below((uint64_t)pool_set.count);
    *part = (int)below((uint64_t)pool_set.replicas[*replica].count);
    return part_name(&pool_set, *replica, *part);
}

static void exchange(const char *one, const char *other)
{
    if (rename(one, "0") == 0 && rename(other, one) == 0 && rename("0", other) != 0)
        exit(6);
    rename("0", one);
}

/* Changes bytes of a part; in its header, sealed or not. */
static void change_bytes(const char *name)
{
    static const unsigned places[] = {0, 8, 12, 16, 16, 20, 24, 24, 40, 40, 56, 56, 72, 72, 88, 88, 104, 104, 120, 128, 3000, 4024,
        HEADER - 8, HEADER, HEADER + 0x400, HEADER + 0x410, HEADER + 0x7f8, HEADER + 0x820, HEADER + 0x823};
    unsigned char bit = (unsigned char)(1u << below(8));
    unsigned place = places[below(COUNT(places))], is_sealed = below(3) != 0;
    printf(" %u %u %u", place, bit, is_sealed);
    flip(name, 2 * HEADER, place, bit, is_sealed);
}

static void damage_replica(void)
{
    int replica, part, other_replica, other_part;
    char name[3], zeros[HEADER] = {0};
    strcpy(name, draw_part(&replica, &part));
    const char *other = draw_part(&other_replica, &other_part);
    int how = (int)below(14);
    printf("hurt %s %d", name, how);
    struct stat found;
    int is_there = stat(name, &found) == 0;
    switch (how) {
    case 0: case 1: case 2:
        unlink(name);
        break;
    case 3:
        if (is_there && put(name, zeros, HEADER, 0) != 0)
            exit(7);
        break;
    case 4:
        if (is_there && truncate(name, found.st_size - (below(2) == 0 ? 1 : HEADER)) != 0)
            printf(" errno %d", errno);
        break;
    case 5:
        if (is_there && truncate(name, found.st_size + 1) != 0)
            printf(" errno %d", errno);
        break;
    case 6:
        printf(" %s", other);
        exchange(name, other);
        break;
    case 7: case 8:
        make_part(&pool_set, replica, part, 1);
        break;
    case 9:
        for (part = 0; part < pool_set.replicas[replica].count; part++)
            make_part(&pool_set, replica, part, (int)below(2));
        break;
    default:
        change_bytes(name);
    }
}

/* Writes the second set: the first one with some changes. */
static void draw_target(void)
{
    static const char *const ends[] = {"REPLICA\n", "REPLICA host remote.set\n", "9M d0\n", "1M /d0\n", "OPTION SINGLEHDR\n", "?\n",
        "REPLICA\n9M /missing/d0\n", "REPLICA\n7M /d0\n9M /d1\n"};
    int is_odd = below(12) == 0, changes = 1 + (int)below(2) * (int)below(2), replica = (int)below(REPLICAS);
    printf("target");
    if (below(8) != 0)
        target = pool_set;
    for (int change = 0; change < changes; change++) {
        int number = (int)below((uint64_t)target.count), how = (int)below(9), other = (int)below((uint64_t)target.count);
        if (how < 4 && target.count < REPLICAS) {
            draw_replica(&target, target.count);
            target.replicas[target.count].letter = (char)(how < 3 ? 'd' : 'a' + replica);
            target.count++;
        } else if (how < 6 && target.count > 1) {
            for (int index = number; index + 1 < target.count; index++)
                target.replicas[index] = target.replicas[index + 1];
            target.count--;
        } else if (how == 6) {
            target.option = target.option[0] == '\0' ? "SINGLEHDR" : "";
        } else if (how == 7) {
            target.replicas[number].sizes[0] += 1 - 2 * (int)below(2);
        } else {
            struct set old = target;
            target.replicas[number] = old.replicas[other];
            target.replicas[other] = old.replicas[number];
        }
    }
    write_set("new", &target, is_odd ? ends[below(COUNT(ends))] : "");
}

/* Makes a pool of a set, and another set. */
static void begin_replicas(void)
{
    static const char *const kinds[] = {"LOG", "BLK"};
    kind = below(8) == 0 ? kinds[below(2)] : "OBJ";
    pool_set.option = draw_option();
    pool_set.count = below(4) == 0 ? 1 : 2 + (int)below(2);
    for (int replica = 0; replica < pool_set.count; replica++)
        draw_replica(&pool_set, replica);
    printf("begin %s", kind);
    moved_end = 0;
    is_twice[1] = 0;
    remove_replicas();
    write_set("old", &pool_set, "");
    for (int replica = 0; replica < pool_set.count; replica++) {
        for (int part = 0; part < pool_set.replicas[replica].count; part++)
            make_part(&pool_set, replica, part, 0);
    }
    target = pool_set;
    printf(" ");
    draw_target();
    printf("\n");
}

/* Writes the first set another way: it has another order, lacks something, or is no set. */
static void change_set(void)
{
    struct set other = pool_set;
    int how = (int)below(6), number = (int)below((uint64_t)other.count);
    printf("change %d", how);
    if (how == 0)
        other.option = draw_option();
    else if (how == 1)
        other.replicas[number].sizes[0]++;
    else if (how == 2 && other.replicas[number].count > 1)
        other.replicas[number].count--;
    else if (how == 3)
        other.count = other.count > 1 ? other.count - 1 : 1;
    else if (how == 4) {
        other.replicas[0] = pool_set.replicas[number];
        other.replicas[number] = pool_set.replicas[0];
    }
    write_set("old", &other, "");
}

static unsigned draw_flags(void)
{
    const unsigned flags[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 3, 4u << below(30)};
    return flags[below(COUNT(flags))];
}

static const char *draw_set(const char *usual)
{
    static const char *const others[] = {"old", "new", "a0", "missing", ".", "broken", "small", ""};
    return below(12) == 0 ? others[below(COUNT(others))] : usual;
}

/* Locks a part as another program does. Returns a descriptor. */
static int hold(void)
{
    int replica, part, file = -1;
    if (below(16) != 0)
        return -1;
    const char *name = draw_part(&replica, &part);
    printf(" held %s", name);
    file = open(name, O_RDONLY);
    flock(file, LOCK_EX | LOCK_NB);
    return file;
}

static void tell_result(int result, int error)
{
    printf(" = %d", result);
    if (result != 0) {
        printf(" errno %d", error);
        tell();
    }
}

static void sync_set(void)
{
    const char *path = draw_set("old");
    unsigned flags = draw_flags();
    int result = 0, error = 0, file;
    printf("sync \"%s\" %x%s", path, flags, is_twice[0] ? " twice" : "");
    file = hold();
    CALL(result = pmempool_sync(path, flags); error = errno);
    close(file);
    tell_result(result, error);
}

static void transform_set(void)
{
    const char *path = draw_set("old"), *other = draw_set("new");
    unsigned flags = draw_flags();
    int result = 0, error = 0, file;
    printf("transform \"%s\" \"%s\" %x%s", path, other, flags, is_twice[0] || is_twice[1] ? " twice" : "");
    file = hold();
    CALL(result = pmempool_transform(path, other, flags); error = errno);
    close(file);
    tell_result(result, error);
    if (result == 0 && has_one_header(&target) != has_one_header(&pool_set))
        moved_end = pool_end(&pool_set);
    if (result == 0 && flags == 0 && strcmp(path, "old") == 0 && strcmp(other, "new") == 0) {
        pool_set = target;
        printf(" then");
        write_set("old", &pool_set, "");
    }
}

static void (*const replica_calls[])(void) = {sync_set, sync_set, sync_set, transform_set, transform_set, transform_set, damage_replica,
    damage_replica, damage_replica, draw_target, draw_target, change_set};

/* Returns the number of a UUID: those that appeared before, and then a new one. */
static unsigned char uuid_number(const unsigned char *uuid)
{
    static unsigned char known[128][16];
    static unsigned count;
    if (uuid == NULL)
        return (unsigned char)(count = 0);
    unsigned index = 0;
    while (index < count && memcmp(known[index], uuid, 16) != 0)
        index++;
    if (index == count && count < COUNT(known))
        memcpy(known[count++], uuid, 16);
    return (unsigned char)(index + 1);
}

/* Takes from a header what is random: UUIDs, the time, and the checksum, of which is shown whether it is right. */
static void normalize(unsigned char *header)
{
    uint64_t sum;
    memcpy(&sum, header + HEADER - 8, 8);
    int is_sound = sum == checksum(header, header[16] & 2 ? 2048 : HEADER);
    for (unsigned at = 24; at < 120; at += 16)
        memset(header + at, uuid_number(header + at), 16);
    memset(header + 120, 0, 8);
    memset(header + HEADER - 8, is_sound, 8);
}

static void show_content(const char *name)
{
    static const unsigned char zeros[HEADER];
    struct stat found;
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &found) != 0 || !S_ISREG(found.st_mode))
        exit(8);
    printf(" %s %ld %o", name, (long)found.st_size, found.st_mode & 07777);
    unsigned char *bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, file, 0), page[HEADER];
    uint64_t value = 0;
    off_t end = found.st_size;
    for (int replica = 0; moved_end > 0 && replica < pool_set.count; replica++) {
        if (pool_set.replicas[replica].letter != name[0])
            continue;
        off_t left = moved_end;
        for (int part = 0; part < name[1] - '0'; part++)
            left -= pool_set.replicas[replica].sizes[part] * MIB;
        end = left < end ? left : end;
    }
    for (off_t at = 0; bytes != MAP_FAILED && at + HEADER <= end; at += HEADER) {
        /* A file without space has no content between its places. */
        if (at % MIB == 0 && at > 0 && lseek(file, at, SEEK_DATA) >= at + MIB)
            at += MIB - HEADER;
        else if (memcmp(bytes + at, zeros, HEADER) != 0) {
            memcpy(page, bytes + at, HEADER);
            if (at == 0)
                normalize(page);
            value = value * 31 + (hash(page, HEADER) ^ (uint64_t)at);
        }
    }
    if (bytes != MAP_FAILED)
        munmap(bytes, (size_t)found.st_size);
    close(file);
    printf(" %016lx", value);
}

/* Shows all files, and hidden ones by their names. */
static void show_replicas(void)
{
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, alphasort);
    uuid_number(NULL);
    for (int index = 0; index < count; index++) {
        const char *name = entries[index]->d_name;
        if (name[1] >= '0' && name[1] <= '2')
            show_content(name);
        else if (name[0] == '.' && name[1] != '\0' && name[1] != '.')
            printf(" %s", name);
        free(entries[index]);
    }
    free(entries);
}
