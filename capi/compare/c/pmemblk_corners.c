/*
 * Calls of libpmemblk in unusual places, one set for each word:
 *
 *   refusals   a function for memory that refuses some calls, and serves the next ones
 *   null       null pointers
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

static void tell(const char *call, long result)
{
    printf("%s %ld errno %d %.20s\n", call, result, errno, errno == 0 ? "" : pmemblk_errormsg());
    errno = 0;
}

static int null(void)
{
    static char block[512];
    errno = 0;
    tell("create", pmemblk_create(NULL, sizeof(block), PMEMBLK_MIN_POOL, 0600) != NULL);
    tell("open", pmemblk_open(NULL, 0) != NULL);
    tell("check", pmemblk_check(NULL, 0));
    tell("bsize", (long)pmemblk_bsize(NULL));
    tell("nblock", (long)pmemblk_nblock(NULL));
    tell("read", pmemblk_read(NULL, block, 0));
    tell("write", pmemblk_write(NULL, block, 0));
    tell("set_zero", pmemblk_set_zero(NULL, 0));
    tell("set_error", pmemblk_set_error(NULL, 0));
    pmemblk_close(NULL);
    tell("close", 0);
    PMEMblkpool *pool = pmemblk_create("pool", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    if (pool == NULL)
        return 1;
    errno = 0;
    tell("read null", pmemblk_read(pool, NULL, 0));
    tell("write null", pmemblk_write(pool, NULL, 0));
    tell("read", pmemblk_read(pool, block, 0));
    pmemblk_close(pool);
    return 0;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *word;
        int (*calls)(void);
    } sets[] = {{"refusals", refusals}, {"null", null}};
    for (size_t set = 0; count == 2 && set < sizeof(sets) / sizeof(sets[0]); set++) {
        if (strcmp(arguments[1], sets[set].word) == 0)
            return sets[set].calls();
    }
    return 2;
}
