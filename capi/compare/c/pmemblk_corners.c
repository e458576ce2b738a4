/*
 * Calls of libpmemblk in unusual places, one set for each word:
 *
 *   refusals   a function for memory that refuses some calls, and serves the next ones
 *
 * The program prints what each call answered. It is run on two libraries.
 */
#include <stdio.h>
#include <libpmemblk.h>
#include "own_memory.h"

static PMEMblkpool *reopened(PMEMblkpool *pool, const char *after)
{
    is_refusing = 0;
    if (pool != NULL)
        pmemblk_close(pool);
    errno = 0;
    pool = pmemblk_open("pool", sizeof(char[512]));
    printf("%s: open %d errno %d\n", after, pool != NULL, pool == NULL ? errno : 0);
    return pool;
}

/* Each call that gets no memory answers for itself. */
static int refusals(void)
{
    static char block[512];
    PMEMblkpool *pool = pmemblk_create("pool", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    if (pool == NULL)
        return 1;
    pmemblk_set_funcs(own_malloc, own_free, own_realloc, own_strdup);
    pmemblk_close(pool);
    is_refusing = 1;
    pmemblk_check("pool", 0);
    pool = reopened(NULL, "check");
    is_refusing = 1;
    pmemblk_write(pool, block, -1);
    pool = reopened(pool, "write");
    is_refusing = 1;
    pmemblk_open("missing/pool", 0);
    pool = reopened(pool, "failed open");
    is_refusing = 1;
    pmemblk_create("missing/pool", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    pmemblk_create("pool", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    pool = reopened(pool, "failed create");
    is_refusing = 1;
    pmemblk_check("missing/pool", 0);
    is_refusing = 0;
    PMEMblkpool *other = pmemblk_create("other", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    printf("create after check: %d\n", other != NULL);
    if (other != NULL)
        pmemblk_close(other);
    pmemblk_close(pool);
    return 0;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *word;
        int (*calls)(void);
    } sets[] = {{"refusals", refusals}};
    for (size_t set = 0; count == 2 && set < sizeof(sets) / sizeof(sets[0]); set++) {
        if (strcmp(arguments[1], sets[set].word) == 0)
            return sets[set].calls();
    }
    return 2;
}
