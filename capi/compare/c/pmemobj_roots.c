/* Roots with constructors, copies of wide strings in transactions, and the sizes of buffers for the logs. With the argument `own`: what PMDK does not do. */
#include "obj_cases.h"
#include <wchar.h>

/* A pool without a root: that of the driver is an object like others. PMDK keeps all usable bytes of a root that grows. */
static size_t grown_from;
static int is_refused, calls, shows_bytes;

static int construct(PMEMobjpool *pool, void *start, void *argument)
{
    size_t size = *(size_t *)argument;
    unsigned char *bytes = start;
    int zeros = 0, kept = 0;
    for (size_t at = 0; at < size; at++) {
        zeros += bytes[at] == 0;
        kept += bytes[at] == 7;
    }
    /* The size of a root that is new is not stored yet, so a call in here says 0. */
    printf("  constructor %d: pool %d size %zu stage %d", ++calls, pool == pop, pmemobj_root_size(pool), pmemobj_tx_stage());
    if (grown_from == 0 || shows_bytes)
        printf(" zeros %d kept %d", zeros, kept);
    printf("\n");
    memset(bytes + grown_from, 7, size - grown_from);
    pmemobj_persist(pool, start, size);
    return is_refused;
}

static void show(const char *what, PMEMoid oid, int error)
{
    printf("%s %s", what, OID_IS_NULL(oid) ? "null" : "root");
    if (OID_IS_NULL(oid))
        printf(" errno %d", error);
    printf(" size %zu calls %d", pmemobj_root_size(pop), calls);
    if (!OID_IS_NULL(oid)) {
        unsigned char *bytes = pmemobj_direct(oid);
        size_t size = pmemobj_root_size(pop);
        int sevens = 0;
        for (size_t at = 0; at < size; at++)
            sevens += bytes[at] == 7;
        printf(" sevens %d usable %zu type %lu", sevens, pmemobj_alloc_usable_size(oid), pmemobj_type_num(oid));
    }
    printf("\n");
}

static PMEMoid make_root(const char *what, size_t size)
{
    errno = 0;
    PMEMoid oid = pmemobj_root_construct(pop, size, construct, &size);
    show(what, oid, errno);
    return oid;
}

static void roots_are_constructed(void)
{
    make_root("made", 1000);
    make_root("again", 1000);
    make_root("smaller", 500);
    grown_from = 1008;
    PMEMoid before = pmemobj_root(pop, 0);
    PMEMoid after = make_root("grown", 5000);
    printf("moved %d\n", !OID_EQUALS(before, after));
    grown_from = 5168;
    make_root("grown a lot", 1000000);
    reopen();
    show("opened", pmemobj_root(pop, 0), 0);
    pmemobj_close(pop);
    printf("check %d\n", pmemobj_check(PATH, "x"));
}

/* The constructor of a root that grows finds the old bytes and zeros. */
static void roots_grow_with_their_bytes(void)
{
    shows_bytes = 1;
    make_root("made", 1000);
    grown_from = 1000;
    make_root("grown", 5000);
    reopen();
    show("opened", pmemobj_root(pop, 0), 0);
}

static void refused_roots_leave_none(void)
{
    is_refused = 1;
    make_root("refused", 1000);
    is_refused = -1;
    make_root("refused", 1000);
    reopen();
    printf("size %zu\n", pmemobj_root_size(pop));
    is_refused = 0;
    make_root("made", 2000);
    grown_from = 2096;
    is_refused = 17;
    PMEMoid before = pmemobj_root(pop, 0);
    make_root("refused to grow", 5000);
    show("kept", pmemobj_root(pop, 0), 0);
    printf("moved %d\n", !OID_EQUALS(before, pmemobj_root(pop, 0)));
    reopen();
    show("opened", pmemobj_root(pop, 0), 0);
    is_refused = 0;
    make_root("grown", 5000);
    pmemobj_close(pop);
    printf("check %d\n", pmemobj_check(PATH, "x"));
}

static void roots_of_bad_sizes_are_refused(void)
{
    make_root("none", 0);
    make_root("too large", PMEMOBJ_MAX_ALLOC_SIZE + 1);
    make_root("no room", (size_t)1 << 30);
    make_root("made", 100);
    grown_from = 112;
    make_root("too large", PMEMOBJ_MAX_ALLOC_SIZE + 1);
    make_root("no room", (size_t)1 << 30);
    make_root("none", 0);
    errno = 0;
    show("without a constructor", pmemobj_root_construct(pop, 3000, NULL, NULL), 0);
    reopen();
    show("opened", pmemobj_root(pop, 0), 0);
}

static void roots_keep_their_bytes_without_constructors(void)
{
    PMEMoid oid = pmemobj_root(pop, 100);
    memset(pmemobj_direct(oid), 7, 100);
    pmemobj_persist(pop, pmemobj_direct(oid), 100);
    show("made", oid, 0);
    for (size_t size = 101; size < 300000; size *= 3) {
        oid = pmemobj_root(pop, size);
        show("grown", oid, errno);
    }
    reopen();
    show("opened", pmemobj_root(pop, 0), 0);
    /* A root is none of the objects. */
    printf("first is root %d\n", OID_EQUALS(pmemobj_first(pop), oid));
}

static void copy(const wchar_t *text, uint64_t flags)
{
    errno = 0;
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    PMEMoid oid = pmemobj_tx_xwcsdup(text, 3, flags);
    printf("%lx %s errno %d tx_errno %d stage %d", flags, OID_IS_NULL(oid) ? "null" : "copy", OID_IS_NULL(oid) ? errno : 0, pmemobj_tx_errno(),
        pmemobj_tx_stage());
    if (!OID_IS_NULL(oid))
        printf(" equal %d usable %zu type %lu", wcscmp(pmemobj_direct(oid), text) == 0, pmemobj_alloc_usable_size(oid), pmemobj_type_num(oid));
    if (pmemobj_tx_stage() == TX_STAGE_WORK)
        pmemobj_tx_commit();
    printf(" end %d\n", pmemobj_tx_end());
}

static void empty_strings_have_their_class(void)
{
    copy(L"", POBJ_CLASS_ID(20));
    copy(L"", POBJ_CLASS_ID(250) | POBJ_XALLOC_NO_ABORT);
}

static void wide_strings_are_copied(void)
{
    static const uint64_t flags[] = {0, POBJ_XALLOC_NO_ABORT, POBJ_XALLOC_ZERO, POBJ_XALLOC_NO_FLUSH, POBJ_CLASS_ID(20), POBJ_CLASS_ID(250),
        POBJ_CLASS_ID(250) | POBJ_XALLOC_NO_ABORT, POBJ_ARENA_ID(1), 1u << 10, 1u << 10 | POBJ_XALLOC_NO_ABORT};
    static wchar_t huge[5 << 20];
    for (size_t at = 0; at < COUNT(flags); at++) {
        copy(L"wide \x4e2d\x6587 string", flags[at]);
        /* PMDK leaves the class out for no characters. */
        if (flags[at] >> 48 == 0)
            copy(L"", flags[at]);
        copy(NULL, flags[at]);
    }
    wmemset(huge, L'h', COUNT(huge) - 1);
    copy(huge, POBJ_XALLOC_NO_ABORT);
    copy(huge, 0);
    reopen();
    int objects = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        objects += pmemobj_type_num(oid) == 3 && (*(wchar_t *)pmemobj_direct(oid) == 0 || wcslen(pmemobj_direct(oid)) == 14);
    printf("copies %d\n", objects);
}

static void logs_have_sizes(void)
{
    static size_t sizes[] = {1, 0, 8, 63, 64, 65, 100, 4096, 1 << 20, (size_t)1 << 40, PMEMOBJ_MAX_ALLOC_SIZE, (size_t)-1, (size_t)-64, (size_t)-4096};
    static const size_t counts[] = {0, 1, 2, 3, 4, 10, 100, 1000, 1 << 20, (size_t)1 << 60, (size_t)-1};
    for (size_t at = 0; at < COUNT(sizes); at++)
        for (size_t count = 0; count <= 2; count++) {
            size_t two[2] = {sizes[at], 100};
            errno = 0;
            size_t size = pmemobj_tx_log_snapshots_max_size(two, count);
            printf("snapshots %zu x %zx = %zx errno %d\n", count, sizes[at], size, errno);
        }
    printf("all %zx\n", pmemobj_tx_log_snapshots_max_size(sizes, 9));
    for (size_t at = 0; at < COUNT(counts); at++) {
        errno = 0;
        size_t size = pmemobj_tx_log_intents_max_size(counts[at]);
        printf("intents %zx = %zx errno %d\n", counts[at], size, errno);
    }
}

/* A buffer of that size is large enough for what it was asked for, without another allocation. */
static void logs_of_these_sizes_do(void)
{
    static size_t sizes[] = {1000, 64, 5000, 1, 30000};
    int is_off = 0;
    size_t total = pmemobj_tx_log_snapshots_max_size(sizes, COUNT(sizes)), intents = pmemobj_tx_log_intents_max_size(200);
    char *buffers = NULL;
    PMEMoid buffer;
    pmemobj_zalloc(pop, &buffer, total + intents, 9);
    buffers = pmemobj_direct(buffer);
    for (int round = 0; round < 2; round++) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        printf("append %d %d\n", pmemobj_tx_log_append_buffer(TX_LOG_TYPE_SNAPSHOT, buffers, total),
            pmemobj_tx_log_append_buffer(TX_LOG_TYPE_INTENT, buffers + total, intents));
        printf("auto %d %d\n", pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_SNAPSHOT, is_off), pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_INTENT, is_off));
        size_t at = 0;
        for (size_t range = 0; range < COUNT(sizes); at += sizes[range], range++) {
            printf("add %d\n", pmemobj_tx_add_range(root, at, sizes[range]));
            memset(r + at, round + 1, sizes[range]);
        }
        for (int object = 0; object < 90; object++)
            if (OID_IS_NULL(pmemobj_tx_xalloc(100, 4, POBJ_XALLOC_NO_ABORT)))
                printf("object %d refused\n", object);
        if (round == 0)
            pmemobj_tx_commit();
        else
            pmemobj_tx_abort(7);
        printf("end %d bytes %d %d\n", pmemobj_tx_end(), r[0], r[36000]);
    }
}

int main(int argc, char **argv)
{
    static const struct obj_case own[] = {{"roots grow with their bytes", roots_grow_with_their_bytes},
        {"empty strings have their class", empty_strings_have_their_class}};
    static const struct obj_case cases[] = {
        {"roots are constructed", roots_are_constructed},
        {"refused roots leave none", refused_roots_leave_none},
        {"roots of bad sizes are refused", roots_of_bad_sizes_are_refused},
        {"roots keep their bytes without constructors", roots_keep_their_bytes_without_constructors},
        {"wide strings are copied", wide_strings_are_copied},
        {"logs have sizes", logs_have_sizes},
        {"logs of these sizes do", logs_of_these_sizes_do},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    return argc > 1 && strcmp(argv[1], "own") == 0 ? run_cases(own, COUNT(own)) : run_cases(cases, COUNT(cases));
}
