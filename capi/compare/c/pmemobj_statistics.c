/*
 * The statistics of the heap, as far as PMDK counts: from the moment on at which they are enabled, and those of runs until the next open. With the
 * argument `own`: the numbers are those of all objects, always.
 */
#include "obj_cases.h"

static const char *const names[] = {"stats.heap.curr_allocated", "stats.heap.run_allocated", "stats.heap.run_active"};
static PMEMoid oids[8];
/* The numbers of the start of a case. */
static long base[3];

static long get(size_t at)
{
    long value = -77;
    if (pmemobj_ctl_get(pop, names[at], &value) != 0)
        printf("  %s: errno %d %s\n", names[at], errno, message());
    return value;
}

/* Shows how these numbers have grown, a bit each. */
static void show(const char *when, unsigned which)
{
    printf("  %s:", when);
    for (size_t at = 0; at < COUNT(names); at++)
        if (which >> at & 1)
            printf(" %s %ld", names[at] + 11, get(at) - base[at]);
    printf("\n");
}

static void begin(void)
{
    for (size_t at = 0; at < COUNT(names); at++)
        base[at] = get(at);
}

static void enable(int value)
{
    enum pobj_stats_enabled found = 77;
    int result = pmemobj_ctl_set(pop, "stats.enabled", &value);
    pmemobj_ctl_get(pop, "stats.enabled", &found);
    printf("  set %d = %d, is %d\n", value, result, (int)found);
}

static void use(unsigned which)
{
    static const size_t sizes[] = {100, 1000, 20000, 60000, 3000000};
    PMEMoid other;
    for (size_t at = 0; at < COUNT(sizes); at++) {
        if (pmemobj_alloc(pop, &oids[at], sizes[at], 2, NULL, NULL) != 0)
            printf("  no object of %zu\n", sizes[at]);
        show("allocated", which);
    }
    TX_BEGIN(pop) {
        other = pmemobj_tx_alloc(500, 3);
        pmemobj_tx_free(oids[1]);
    } TX_END
    show("committed", which);
    TX_BEGIN(pop) {
        pmemobj_tx_alloc(5000, 3);
        pmemobj_tx_free(oids[0]);
        pmemobj_tx_abort(1);
    } TX_END
    show("aborted", which);
    pmemobj_realloc(pop, &oids[2], 40000, 2);
    show("reallocated", which);
    struct pobj_action actions[2];
    pmemobj_reserve(pop, &actions[0], 3000, 2);
    pmemobj_defer_free(pop, other, &actions[1]);
    pmemobj_publish(pop, actions, 2);
    show("published", which);
    for (size_t at = 0; at < COUNT(sizes); at += 2) {
        pmemobj_free(&oids[at]);
        show("freed", which);
    }
}

static void disabled(void)
{
    enable(POBJ_STATS_ENABLED_TRANSIENT);
    begin();
    use(2);
}

static void both(void)
{
    enable(POBJ_STATS_ENABLED_BOTH);
    begin();
    use(3);
    reopen();
    show("opened", 1);
    enable(POBJ_STATS_ENABLED_BOTH);
    begin();
    use(1);
}

static void persistent(void)
{
    enable(POBJ_STATS_ENABLED_PERSISTENT);
    begin();
    use(1);
    reopen();
    show("opened", 1);
}

/* They are read alone. */
static void stores_are_refused(void)
{
    for (size_t at = 0; at < COUNT(names); at++) {
        long value = 5;
        errno = 0;
        int set = pmemobj_ctl_set(pop, names[at], &value), error = errno;
        errno = 0;
        int run = pmemobj_ctl_exec(pop, names[at], &value);
        printf("  set %d errno %d run %d errno %d none %d\n", set, error, run, errno, pmemobj_ctl_get(NULL, names[at], &value));
    }
}

/* The bytes of all objects with their headers, which are compact. */
static long all(void)
{
    long sum = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        sum += (long)pmemobj_alloc_usable_size(oid) + 16;
    return sum;
}

static void count_all(void)
{
    static const int values[] = {POBJ_STATS_DISABLED, POBJ_STATS_ENABLED_TRANSIENT, POBJ_STATS_ENABLED_PERSISTENT, POBJ_STATS_ENABLED_BOTH};
    for (size_t at = 0; at < COUNT(values); at++) {
        enable(values[at]);
        pmemobj_alloc(pop, NULL, 100, 2, NULL, NULL);
        pmemobj_alloc(pop, NULL, 20000, 2, NULL, NULL);
        pmemobj_alloc(pop, &oids[0], 3000000, 2, NULL, NULL);
        long huge = (long)pmemobj_alloc_usable_size(oids[0]) + 16;
        printf("  all %d runs %d active %d", get(0) == all(), get(1) == all() - huge, get(2) % 262144 == 0 && get(2) > get(1));
        reopen();
        printf(" opened %d %d\n", get(0) == all(), get(1) == all() - huge);
        pmemobj_free(&oids[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct obj_case own[] = {{"all", count_all}};
    static const struct obj_case cases[] = {
        {"transient", disabled},
        {"both", both},
        {"persistent", persistent},
        {"stores are refused", stores_are_refused},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    return argc > 1 && strcmp(argv[1], "own") == 0 ? run_cases(own, COUNT(own)) : run_cases(cases, COUNT(cases));
}
