/* Corners of calls: classes that resemble each other, settings out of range, objects that are freed twice, patterns, defragmentation. */
#include "obj_cases.h"

/* A failure of PMDK may set neither errno nor the message, which the first call leaves alone. */
static void show(const char *what, int result)
{
    printf("%s %d", what, result);
    if (result != 0)
        printf(" errno %d", errno == 0 ? EINVAL : errno);
    if (result != 0 && strncmp(message(), "Unsafe shutdown count", 10) != 0 && strncmp(what, "heap.alloc_class", 16) == 0)
        printf(" %s", message());
    printf("\n");
}

static void add_class(size_t unit, size_t alignment, unsigned units, enum pobj_header_type header, const char *name)
{
    struct pobj_alloc_class_desc class = {.unit_size = unit, .alignment = alignment, .units_per_block = units, .header_type = header};
    errno = 0;
    int result = pmemobj_ctl_set(pop, name, &class);
    printf("%zu %zu %u %u ", unit, alignment, units, header);
    show(name, result);
    if (result == 0)
        printf("  id %u units %u\n", class.class_id, class.units_per_block);
}

static void classes(void)
{
    static const char new[] = "heap.alloc_class.new.desc";
    add_class(500, 0, 1000, POBJ_HEADER_COMPACT, "heap.alloc_class.128.desc");
    add_class(500, 0, 1000, POBJ_HEADER_COMPACT, "heap.alloc_class.129.desc");
    add_class(500, 0, 1000, POBJ_HEADER_NONE, "heap.alloc_class.130.desc");
    add_class(500, 0, 1000, POBJ_HEADER_LEGACY, "heap.alloc_class.131.desc");
    add_class(500, 0, 2000, POBJ_HEADER_COMPACT, "heap.alloc_class.132.desc");
    add_class(500, 0, 100, POBJ_HEADER_COMPACT, "heap.alloc_class.133.desc");
    add_class(500, 0, 1001, POBJ_HEADER_COMPACT, "heap.alloc_class.134.desc");
    add_class(512, 64, 1000, POBJ_HEADER_NONE, new);
    add_class(512, 128, 1000, POBJ_HEADER_NONE, new);
    add_class(512, 0, 1000, POBJ_HEADER_NONE, new);
    add_class(512, 64, 1000, POBJ_HEADER_NONE, new);
    add_class(512, 64, 1, POBJ_HEADER_NONE, new);
    add_class(512, 64, 600, POBJ_HEADER_NONE, new);
    add_class(128, 0, 1000, POBJ_HEADER_COMPACT, new);
    add_class(128, 0, 2047, POBJ_HEADER_COMPACT, new);
    add_class(128, 0, 1000, POBJ_HEADER_LEGACY, new);
    add_class(128, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class(192, 0, 1000, POBJ_HEADER_COMPACT, new);
    add_class(192, 0, 1365, POBJ_HEADER_COMPACT, new);
    add_class(262144, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class(262144, 0, 10, POBJ_HEADER_COMPACT, new);
    add_class(0, 0, 10, POBJ_HEADER_COMPACT, new);
    add_class(16, 0, 0, POBJ_HEADER_COMPACT, new);
    add_class(16, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class(8, 0, 1, POBJ_HEADER_NONE, new);
    add_class(24, 16, 1, POBJ_HEADER_NONE, new);
    add_class(500, 0, 10, 3, new);
    add_class(500, 0, 10, 77, new);
    add_class(500, 0, 0x7fffffff, POBJ_HEADER_COMPACT, new);
    add_class(500, 0, 0xffffffff, POBJ_HEADER_COMPACT, new);
    add_class(PMEMOBJ_MAX_ALLOC_SIZE, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class(PMEMOBJ_MAX_ALLOC_SIZE + 1, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class((size_t)1 << 40, 0, 1, POBJ_HEADER_COMPACT, new);
    add_class(500, 0, 10, POBJ_HEADER_COMPACT, "heap.alloc_class.0.desc");
    add_class(500, 0, 10, POBJ_HEADER_COMPACT, "heap.alloc_class.254.desc");
    add_class(500, 0, 10, POBJ_HEADER_COMPACT, "heap.alloc_class.255.desc");
}

static void set_number(const char *name, int value)
{
    int found = 77;
    printf("%s %d: ", name, value);
    errno = 0;
    show("set", pmemobj_ctl_set(pop, name, &value));
    if (pmemobj_ctl_get(pop, name, &found) == 0)
        printf("  is %d\n", found);
}

static void numbers(void)
{
    static const int values[] = {-1, 0, 1, 2, 3, 4, 5, 255, 256, -2147483647 - 1, 2147483647};
    static const char *const names[] = {"stats.enabled", "debug.heap.alloc_pattern", "tx.debug.skip_expensive_checks",
        "tx.debug.verify_user_buffers", "sds.at_create", "prefault.at_open", "heap.arenas_assignment_type", "heap.arenas_default_max",
        "heap.thread.arena_id", "heap.arena.1.automatic"};
    for (size_t name = 0; name < COUNT(names); name++)
        for (size_t at = 0; at < COUNT(values); at++)
            set_number(names[name], values[at]);
}

static void end(void)
{
    if (pmemobj_tx_stage() == TX_STAGE_WORK)
        pmemobj_tx_commit();
    printf("  stage %d errno %d", pmemobj_tx_stage(), pmemobj_tx_errno());
    printf(" end %d objects %d\n", pmemobj_tx_end(), objects());
}

static void begin(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
}

static void free_old_twice(void)
{
    PMEMoid oid;
    pmemobj_alloc(pop, &oid, 100, 2, NULL, NULL);
    begin();
    show("free", pmemobj_tx_free(oid));
    show("free", pmemobj_tx_free(oid));
    end();
}

static void free_old_twice_without_abort(void)
{
    PMEMoid oid;
    pmemobj_alloc(pop, &oid, 100, 2, NULL, NULL);
    begin();
    show("free", pmemobj_tx_xfree(oid, 0));
    show("free", pmemobj_tx_xfree(oid, POBJ_XFREE_NO_ABORT));
    end();
}

static void free_new_twice(void)
{
    begin();
    PMEMoid oid = pmemobj_tx_alloc(100, 2);
    show("free", pmemobj_tx_free(oid));
    show("free", pmemobj_tx_xfree(oid, POBJ_XFREE_NO_ABORT));
    end();
}

static void free_old_and_realloc(void)
{
    PMEMoid oid;
    pmemobj_alloc(pop, &oid, 100, 2, NULL, NULL);
    begin();
    show("free", pmemobj_tx_free(oid));
    printf("realloc %d\n", OID_IS_NULL(pmemobj_tx_realloc(oid, 1000, 2)));
    end();
}

static void free_twice_atomically(void)
{
    PMEMoid oid, other;
    pmemobj_alloc(pop, &oid, 100, 2, NULL, NULL);
    other = oid;
    pmemobj_free(&oid);
    pmemobj_free(&other);
    printf("objects %d\n", objects());
}

static void free_huge_twice(void)
{
    PMEMoid oid;
    pmemobj_alloc(pop, &oid, 1000000, 2, NULL, NULL);
    begin();
    show("free", pmemobj_tx_free(oid));
    show("free", pmemobj_tx_xfree(oid, POBJ_XFREE_NO_ABORT));
    end();
}

static void show_bytes(const char *what, PMEMoid oid, size_t asked)
{
    unsigned char *bytes = pmemobj_direct(oid);
    size_t size = pmemobj_alloc_usable_size(oid);
    printf("%s %x %x %x %x\n", what, bytes[0], bytes[asked / 2], bytes[asked - 1], bytes[size - 1]);
}

static void patterns_of(int pattern)
{
    PMEMoid oid, old;
    struct pobj_action action;
    printf("pattern %d: ", pattern);
    show("set", pmemobj_ctl_set(pop, "debug.heap.alloc_pattern", &pattern));
    pmemobj_alloc(pop, &oid, 200, 2, NULL, NULL);
    show_bytes("alloc", oid, 200);
    pmemobj_realloc(pop, &oid, 2000, 2);
    show_bytes("realloc", oid, 2000);
    pmemobj_zrealloc(pop, &oid, 20000, 2);
    show_bytes("zrealloc", oid, 20000);
    pmemobj_zalloc(pop, &old, 200, 2);
    show_bytes("zalloc", old, 200);
    pmemobj_xalloc(pop, &old, 200, 2, POBJ_XALLOC_ZERO, NULL, NULL);
    show_bytes("xalloc zero", old, 200);
    pmemobj_strdup(pop, &old, "abc", 2);
    show_bytes("strdup", old, 4);
    oid = pmemobj_reserve(pop, &action, 300, 2);
    show_bytes("reserve", oid, 300);
    pmemobj_publish(pop, &action, 1);
    oid = pmemobj_xreserve(pop, &action, 300, 2, POBJ_XALLOC_ZERO);
    show_bytes("xreserve zero", oid, 300);
    pmemobj_publish(pop, &action, 1);
    begin();
    oid = pmemobj_tx_alloc(200, 2);
    show_bytes("tx alloc", oid, 200);
    oid = pmemobj_tx_realloc(oid, 2000, 2);
    show_bytes("tx realloc", oid, 2000);
    oid = pmemobj_tx_zrealloc(oid, 20000, 2);
    show_bytes("tx zrealloc", oid, 20000);
    oid = pmemobj_tx_zalloc(200, 2);
    show_bytes("tx zalloc", oid, 200);
    oid = pmemobj_tx_xalloc(200, 2, POBJ_XALLOC_ZERO);
    show_bytes("tx xalloc zero", oid, 200);
    oid = pmemobj_tx_xalloc(200, 2, POBJ_XALLOC_NO_FLUSH);
    show_bytes("tx xalloc no flush", oid, 200);
    oid = pmemobj_tx_strdup("abc", 2);
    show_bytes("tx strdup", oid, 4);
    oid = pmemobj_tx_alloc(300000, 2);
    show_bytes("tx huge", oid, 300000);
    end();
}

static void patterns(void)
{
    static const int values[] = {90, 0, 255, 256, 346, -1, -90, -2};
    for (size_t at = 0; at < COUNT(values); at++) {
        pmemobj_close(pop);
        make_pool();
        patterns_of(values[at]);
    }
}

/* PMDK moves each object to a lower place, and Lodestone those at the end first, so that fewer move. */
static void defrag(PMEMoid **oids, size_t count, const char *what)
{
    struct pobj_defrag_result result = {77, 77};
    errno = 0;
    printf("%s: ", what);
    show("defrag", pmemobj_defrag(pop, oids, count, &result));
    printf("  total %zu relocated some %d\n", result.total, result.relocated > 0);
}

/* Which objects move is a matter of each library. PMDK moves the root away from the place that the pool knows. */
static void defragment_corners(void)
{
    PMEMoid zero = OID_NULL, oid, foreign = {.pool_uuid_lo = 4711, .off = 4711}, *oids[3] = {&zero, &oid, &oid};
    pmemobj_alloc(pop, &oid, 100, 2, NULL, NULL);
    defrag(oids, 0, "none");
    defrag(NULL, 0, "null");
    defrag(oids, 1, "null OID");
    printf("no result %d\n", pmemobj_defrag(pop, oids, 1, NULL));
    defrag(oids, 3, "one place twice");
    oids[2] = &foreign;
    defrag(oids, 3, "foreign");
    printf("message %s\n", message());
    begin();
    printf("in a transaction %d\n", pmemobj_defrag(pop, oids, 2, NULL));
    end();
}

/* Half of the objects go, and the others move down: those whose names are in the pool, and those on the stack. */
static void defragment_halves(void)
{
    static const size_t sizes[] = {40, 200, 3000, 100000, 400000};
    for (size_t size = 0; size < COUNT(sizes); size++) {
        PMEMoid *names = (PMEMoid *)r, *places[40], stack[20];
        int count = sizes[size] > 300000 ? 8 : sizes[size] > 50000 ? 16 : 40;
        for (int at = 0; at < count; at++) {
            pmemobj_alloc(pop, &names[at], sizes[size], 2, NULL, NULL);
            memset(pmemobj_direct(names[at]), at + 1, sizes[size]);
        }
        for (int at = 0; at < count; at += 2)
            pmemobj_free(&names[at]);
        size_t total = 0;
        for (int at = 1; at < count; at += 2, total++) {
            stack[total] = names[at];
            places[total] = total % 2 ? &names[at] : &stack[total];
        }
        defrag(places, total, "halves");
        int kept = 0;
        for (size_t at = 0; at < total; at++) {
            char *bytes = pmemobj_direct(*places[at]);
            kept += bytes[0] == (char)(2 * at + 2) && bytes[sizes[size] - 1] == bytes[0];
            PMEMoid oid = *places[at];
            pmemobj_free(&oid);
        }
        memset(r, 0, 65536);
        printf("  kept %d of %zu objects %d\n", kept, total, objects());
    }
}

/* An object of a ring, with a link to the next one and a name of its own. */
struct member {
    PMEMoid next, self;
    int number;
    char filling[1900];
};

#define MEMBERS 12

/* Objects whose names lie in objects that move, too: a ring, of which each member has its own name. The root and the stack have one more name of the
   first. */
static void defragment_ring(int is_reversed)
{
    PMEMoid *root = (PMEMoid *)r, names[2 * MEMBERS], *places[2 * MEMBERS + 2], stack;
    size_t count = 0;
    for (int at = 0; at < 2 * MEMBERS; at++)
        pmemobj_alloc(pop, &names[at], sizeof(struct member), 3, NULL, NULL);
    for (int at = 0; at < MEMBERS; at++) {
        struct member *member = pmemobj_direct(names[2 * at + 1]);
        *member = (struct member){.next = names[(2 * at + 3) % (2 * MEMBERS)], .self = names[2 * at + 1], .number = at};
        pmemobj_persist(pop, member, sizeof(*member));
        places[count++] = &member->next;
        places[count++] = &member->self;
        pmemobj_free(&names[2 * at]);
    }
    stack = root[0] = names[1];
    pmemobj_persist(pop, root, sizeof(*root));
    places[count++] = &stack;
    places[count++] = &root[0];
    for (size_t at = 0; is_reversed && at < count / 2; at++) {
        PMEMoid *place = places[at];
        places[at] = places[count - 1 - at];
        places[count - 1 - at] = place;
    }
    struct pobj_defrag_result result = {77, 77};
    printf("ring %d ", pmemobj_defrag(pop, places, count, &result));
    printf("places %zu moved %d same name %d\n", count, result.relocated > 0, OID_EQUALS(stack, root[0]));
    PMEMoid oid = root[0];
    for (int at = 0; at < MEMBERS + 1; at++) {
        struct member *member = pmemobj_direct(oid);
        printf("%d%s ", member->number, OID_EQUALS(member->self, oid) ? "" : "!");
        oid = member->next;
    }
    printf("objects %d\n", objects());
    for (int at = 0; at < MEMBERS; at++) {
        PMEMoid next = ((struct member *)pmemobj_direct(root[0]))->next;
        pmemobj_free(&root[0]);
        root[0] = next;
    }
    root[0] = OID_NULL;
    printf("freed, objects %d\n", objects());
}

static void defragment_rings(void)
{
    defragment_ring(0);
    defragment_ring(1);
}

/* A copy of a pool has the same number in its OIDs, so only one of both can be open. */
static void open_copy(void)
{
    pmemobj_close(pop);
    if (system("cp --sparse=always " PATH " copy") != 0)
        exit(1);
    open_pool();
    errno = 0;
    PMEMobjpool *copy = pmemobj_open("copy", "x");
    printf("copy beside it %d errno %d %s\n", copy != NULL, errno, message());
    printf("check %d\n", pmemobj_check("copy", "x"));
    PMEMoid oid;
    int failed = pmemobj_alloc(pop, &oid, 64, 2, NULL, NULL);
    printf("alloc %d in it %d\n", failed, pmemobj_pool_by_oid(oid) == pop);
    pmemobj_close(pop);
    pop = pmemobj_open("copy", "x");
    printf("copy alone %d objects %d\n", pop != NULL, objects());
    pmemobj_close(pop);
    open_pool();
    unlink("copy");
}

/* The object after one that has been freed: in a run, of chunks, and the last one. */
static void next_of_free(void)
{
    static const size_t sizes[] = {100, 100, 100, 300000, 300000, 250000, 250000, 250000, 2000, 300000};
    PMEMoid oids[COUNT(sizes)];
    for (size_t at = 0; at < COUNT(sizes); at++)
        pmemobj_alloc(pop, &oids[at], sizes[at], 2, NULL, NULL);
    for (size_t at = 0; at < COUNT(sizes); at++) {
        PMEMoid oid = oids[at], before = pmemobj_next(oid);
        pmemobj_free(&oids[at]);
        printf("%zu is followed by the same %d\n", at, OID_EQUALS(before, pmemobj_next(oid)));
    }
}

static const struct obj_case cases[] = {
    {"classes", classes},
    {"numbers", numbers},
    {"free old twice", free_old_twice},
    {"free old twice without abort", free_old_twice_without_abort},
    {"free new twice", free_new_twice},
    {"free old and realloc", free_old_and_realloc},
    {"free twice atomically", free_twice_atomically},
    {"free huge twice", free_huge_twice},
    {"patterns", patterns},
    {"defragment corners", defragment_corners},
    {"defragment halves", defragment_halves},
    {"defragment rings", defragment_rings},
    {"open copy", open_copy},
    {"next of free", next_of_free},
};

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    return run_cases(cases, COUNT(cases));
}
