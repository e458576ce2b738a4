/*
 * Calls to which the program refuses memory: one that reports success has taken effect, one that reports a failure has not, and none reaches a
 * later one.
 */
#include "obj_cases.h"

static int begin(void)
{
    return pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
}

/* Commits the transaction, if it is one still. Returns the error with which it ended. */
static int end(void)
{
    if (pmemobj_tx_stage() == TX_STAGE_WORK)
        pmemobj_tx_commit();
    return pmemobj_tx_end();
}

static int refuses;

static void *refusing_malloc(size_t size)
{
    return refuses ? NULL : malloc(size);
}

static void *refusing_realloc(void *start, size_t size)
{
    return refuses ? NULL : realloc(start, size);
}

static char *refusing_strdup(const char *text)
{
    return refuses ? NULL : strdup(text);
}

/* None of these calls aborts, so each has taken effect as it tells. */
static void calls(void)
{
    PMEMoid oids[300];
    int before = objects(), made = 0, freed = 0;
    refuses = 1;
    for (int at = 0; at < 20; at++)
        made += pmemobj_alloc(pop, NULL, 64 << at % 10, 2, NULL, NULL) == 0;
    refuses = 0;
    printf("made %d, of those told %d\n", objects() - before, made);
    begin();
    printf("range %d", pmemobj_tx_add_range(root, 0, 64));
    printf(" error %d\n", end());

    before = objects();
    made = 0;
    begin();
    refuses = 1;
    for (int at = 0; at < 300; at++) {
        oids[at] = pmemobj_tx_xalloc(64 << at % 4, 2, POBJ_XALLOC_NO_ABORT);
        made += !OID_IS_NULL(oids[at]);
    }
    refuses = 0;
    int error = end();
    printf("error %d, made %d, of those told %d\n", error, objects() - before, made);

    before = objects();
    begin();
    refuses = 1;
    for (int at = 0; at < 300; at++)
        freed += pmemobj_tx_xfree(oids[at], POBJ_XFREE_NO_ABORT) == 0;
    refuses = 0;
    error = end();
    printf("error %d, freed %d, of those told %d\n", error, before - objects(), freed);
}

/* A call without that flag aborts its transaction, of which nothing is left. */
static void aborts(void)
{
    int before = objects();
    begin();
    refuses = 1;
    PMEMoid oid = pmemobj_root(pop, 64);
    for (int at = 0; at < 300 && !OID_IS_NULL(oid); at++)
        oid = pmemobj_tx_alloc(64 << at % 4, 2);
    refuses = 0;
    printf("stage %d error is ENOMEM %d", pmemobj_tx_stage(), pmemobj_tx_errno() == ENOMEM);
    printf(" %d", end() == ENOMEM);
    printf(" objects %d\n", objects() - before);
    begin();
    printf("range %d", pmemobj_tx_add_range(root, 0, 64));
    printf(" error %d\n", end());
}

static const struct obj_case cases[] = {
    {"calls", calls},
    {"aborts", aborts},
};

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    pmemobj_set_funcs(refusing_malloc, free, refusing_realloc, refusing_strdup);
    return run_cases(cases, COUNT(cases));
}
