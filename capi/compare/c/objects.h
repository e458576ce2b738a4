/*
 * The parts of the drawn program of libpmemobj: the root, names of objects that do not depend on their places, and what is shown.
 *
 * All objects are filled to their last usable byte, so that no answer shows what another object has left.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <wchar.h>
#include <libpmemobj.h>
#include "sequences.h"

#define LAYOUT "drawn"
#define SLOTS 8
#define LOOSE 3
#define LISTS 3
#define BYTES 512

struct element;
TOID_DECLARE(struct element, 77);

/* An element can be in two lists at once. */
struct element {
    POBJ_LIST_ENTRY(struct element) a;
    POBJ_LIST_ENTRY(struct element) b;
    uint64_t value;
};

struct root {
    PMEMoid slots[SLOTS];
    uint64_t words[16];
    /* Lists 0 and 1 use the entries a, and list 2 the entries b. */
    POBJ_LIST_HEAD(list, struct element) lists[LISTS];
    PMEMmutex mutexes[2];
    PMEMrwlock rwlock;
    PMEMcond cond;
    PMEMvlt(uint64_t) variable;
    unsigned char bytes[BYTES];
};

static PMEMobjpool *pop;
static struct root *root;
static PMEMoid root_oid;
/* Objects whose names lie outside of the pool. */
static PMEMoid loose[LOOSE];

/* Slots that actions store to, which are not published yet, a bit each. */
static unsigned held;

/* Places at which the process may be killed, and the one that was drawn. */
static long points, killed_at = LONG_MAX;
static int exits_only;

/* Memory of the program for the logs of a transaction, which is freed after that. PMDK's logs leave bytes there, so no process ends before. */
static PMEMoid buffers[4];
static unsigned buffer_count;

static void point(void)
{
    if (points++ < killed_at || buffer_count != 0)
        return;
    fflush(stdout);
    if (exits_only)
        _exit(0);
    raise(SIGKILL);
}

static int same(PMEMoid left, PMEMoid right)
{
    return left.off == right.off && left.pool_uuid_lo == right.pool_uuid_lo;
}

/* The name of an object: of the place that holds its OID. */
static const char *name_of(PMEMoid oid)
{
    static char names[8][32];
    static unsigned turn;
    char *name = names[turn++ % COUNT(names)];
    if (OID_IS_NULL(oid))
        return "null";
    if (same(oid, root_oid))
        return "root";
    for (int index = 0; index < SLOTS; index++) {
        if (same(oid, root->slots[index])) {
            sprintf(name, "s%d", index);
            return name;
        }
    }
    for (int index = 0; index < LOOSE; index++) {
        if (same(oid, loose[index])) {
            sprintf(name, "l%d", index);
            return name;
        }
    }
    return pmemobj_pool_by_oid(oid) == pop ? "other" : "foreign";
}

static void show_object(PMEMoid oid)
{
    if (OID_IS_NULL(oid)) {
        printf(" null");
        return;
    }
    size_t size = pmemobj_alloc_usable_size(oid);
    printf(" [%lu %zu %016lx]", pmemobj_type_num(oid), size, hash(pmemobj_direct(oid), size));
}

/* Fills an object to its last byte, without a persist if it belongs to a transaction. */
static void fill(PMEMoid oid, int is_persisted)
{
    if (OID_IS_NULL(oid))
        return;
    size_t size = pmemobj_alloc_usable_size(oid);
    memset(pmemobj_direct(oid), (int)(below(255) + 1), size);
    if (is_persisted)
        pmemobj_persist(pop, pmemobj_direct(oid), size);
}

/* Leaves a known message, so that one of a call can be told from it. */
static const char no_message[] = "invalid query entry point none";

static void note_message(void)
{
    int value, before = errno;
    pmemobj_ctl_get(NULL, "none", &value);
    errno = before;
}

/* Shows why a call failed. A message that an earlier call has left is none of this one. */
static void show_failure(int error)
{
    const char *message = pmemobj_errormsg();
    printf(" errno %d", error);
    if (strncmp(message, no_message, sizeof(no_message) - 1) != 0)
        printf(" message %s", message);
}

/* Shows a result, and why it is not 0. */
static void show_result(int result, int error)
{
    printf(" = %d", result);
    if (result != 0)
        show_failure(error);
}

/* The sizes at the edges of classes, and bad ones. */
static size_t draw_size(void)
{
    static const size_t edges[] = {1, 16, 47, 48, 49, 63, 64, 65, 92, 93, 112, 113, 200, 281, 282, 304, 848, 849, 880, 2549, 2550,
        2672, 7652, 7653, 7728, 7729, 22961, 65000};
    static const size_t bad[] = {0, PMEMOBJ_MAX_ALLOC_SIZE, PMEMOBJ_MAX_ALLOC_SIZE + 1, SIZE_MAX, 1u << 30};
    switch (below(16)) {
    case 0:
        return bad[below(COUNT(bad))];
    case 1:
        /* Each class takes megabytes, and a pool that is nearly full refuses at different times. */
        return below(2) == 0 ? 200000 : 400000;
    case 2: case 3: case 4: case 5: case 6:
        return edges[below(COUNT(edges))];
    case 7: case 8:
        return 1 + below(4000);
    default:
        return 1 + below(600);
    }
}

/* A size of a reservation. PMDK ends with a signal for no bytes, and takes more than the most for few. */
static size_t draw_reserved_size(void)
{
    size_t size = draw_size();
    return size == 0 ? 1 : size > PMEMOBJ_MAX_ALLOC_SIZE ? PMEMOBJ_MAX_ALLOC_SIZE : size;
}

static uint64_t draw_type(void)
{
    return below(6) == 0 ? next() : below(5);
}

/* The classes of the program, which have the numbers from FIRST_CLASS on. */
#define FIRST_CLASS 140

static int make_classes(void)
{
    struct pobj_alloc_class_desc classes[] = {{200, 0, 500, POBJ_HEADER_LEGACY, 0}, {72, 0, 1000, POBJ_HEADER_NONE, 0},
        {1000, 0, 100, POBJ_HEADER_COMPACT, 0}, {512, 512, 100, POBJ_HEADER_COMPACT, 0}};
    for (unsigned index = 0; index < COUNT(classes); index++) {
        char name[64];
        snprintf(name, sizeof(name), "heap.alloc_class.%u.desc", FIRST_CLASS + index);
        if (pmemobj_ctl_set(pop, name, &classes[index]) != 0)
            return -1;
    }
    return 0;
}

/* Flags of an allocation; few are bad. */
static uint64_t draw_flags(int is_transaction)
{
    uint64_t flags = 0;
    if (below(3) == 0)
        flags |= POBJ_XALLOC_ZERO;
    if (is_transaction && below(2) == 0)
        flags |= POBJ_XALLOC_NO_ABORT;
    switch (below(10)) {
    case 0: case 1: case 2:
        flags |= POBJ_CLASS_ID(FIRST_CLASS + below(4));
        break;
    case 3:
        flags |= POBJ_CLASS_ID(250);
        break;
    case 4:
        flags |= POBJ_ARENA_ID(1);
        break;
    /* PMDK ends with a signal for an arena that does not exist. */
    case 5:
        flags |= 1u << 10;
        break;
    default:
        break;
    }
    return flags;
}

/* A place of an OID: in the pool, outside of it, or none. */
static PMEMoid *draw_place(void)
{
    uint64_t which = below(SLOTS + LOOSE + 1);
    if (which < SLOTS)
        return held >> which & 1 ? NULL : &root->slots[which];
    return which < SLOTS + LOOSE ? &loose[which - SLOTS] : NULL;
}

/* A slot that no action stores to; NULL if it is another one. */
static PMEMoid *draw_slot(void)
{
    uint64_t which = below(SLOTS);
    return held >> which & 1 ? NULL : &root->slots[which];
}

static void show_place(const PMEMoid *place)
{
    if (place == NULL)
        printf(" none");
    else if (place >= loose && place < loose + LOOSE)
        printf(" l%d", (int)(place - loose));
    else
        printf(" s%d", (int)(place - root->slots));
}

/* An object in a slot, seldom none. */
static PMEMoid draw_object(void)
{
    for (int tries = 0; tries < 6; tries++) {
        PMEMoid *place = draw_place();
        if (place != NULL && !OID_IS_NULL(*place))
            return *place;
    }
    return OID_NULL;
}

/* Shows all objects: their number, and a sum that does not depend on their order. */
static void show_all(void)
{
    uint64_t sum = 0, count = 0, last = 0;
    int is_ascending = 1;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid)) {
        size_t size = pmemobj_alloc_usable_size(oid);
        if (pmemobj_type_num(oid) != TOID_TYPE_NUM(struct element))
            sum += hash(pmemobj_direct(oid), size) ^ size ^ pmemobj_type_num(oid) << 32;
        is_ascending &= oid.off > last;
        last = oid.off;
        count++;
    }
    printf(" objects %lu sum %016lx ascending %d", count, sum, is_ascending);
}

static void show_lists(void)
{
    for (int list = 0; list < LISTS; list++) {
        printf(" list%d", list);
        TOID(struct element) element;
        int limit = 200;
        if (list == 2) {
            POBJ_LIST_FOREACH(element, &root->lists[list], b) {
                printf(",%lu", D_RO(element)->value);
                if (limit-- == 0)
                    break;
            }
        } else {
            POBJ_LIST_FOREACH(element, &root->lists[list], a) {
                printf(",%lu", D_RO(element)->value);
                if (limit-- == 0)
                    break;
            }
        }
    }
}

/* Shows the root and what it names. */
static void show_root(void)
{
    printf(" words %016lx bytes %016lx", hash((unsigned char *)root->words, sizeof(root->words)), hash(root->bytes, BYTES));
    for (int index = 0; index < SLOTS; index++)
        show_object(root->slots[index]);
    show_lists();
}

/* A constructor that fills the object, and fails if its argument says so. */
static int construct(PMEMobjpool *pool, void *start, void *argument)
{
    point();
    PMEMoid oid = pmemobj_oid(start);
    size_t size = pmemobj_alloc_usable_size(oid);
    printf(" constructor %d %lu %zu", pool == pop, pmemobj_type_num(oid), size);
    memset(start, (int)(below(255) + 1), size);
    pmemobj_persist(pool, start, size);
    point();
    return *(int *)argument;
}
