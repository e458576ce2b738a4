/*
 * Forks while threads read and write blocks. Each child reads and writes blocks, too.
 */
#include <libpmemblk.h>
#include <stdlib.h>
#include <string.h>
#include "threads_that_fork.h"

#define FORKS 300
#define THREADS 4
#define BLOCKS 4
#define LEN 4096

static PMEMblkpool *pool;
static _Thread_local long self;
static atomic_int failures;

static void read_one(void)
{
    static _Thread_local char block[LEN];
    static _Thread_local long next;
    failures += pmemblk_read(pool, block, next++ % BLOCKS) != 0;
}

static void write_one(void)
{
    static _Thread_local char block[LEN];
    static _Thread_local long next;
    memset(block, (int)next, LEN);
    failures += pmemblk_write(pool, block, next++ % BLOCKS) != 0;
}

static void *run(void *argument)
{
    self = (long)argument;
    run_steps(self < THREADS / 2 ? read_one : write_one);
    return NULL;
}

static int child(int number)
{
    static char block[LEN], found[LEN];
    memset(block, number, LEN);
    /* Each write takes the block that another one has left. */
    for (int round = 0; round < 64; round++) {
        if (pmemblk_write(pool, block, round % BLOCKS) != 0 || pmemblk_read(pool, found, round % BLOCKS) != 0)
            return 1;
        if (memcmp(block, found, LEN) != 0)
            return 2;
    }
    /* Blocks that no thread of the parent reads. */
    return pmemblk_set_zero(pool, BLOCKS) == 0 && pmemblk_set_error(pool, BLOCKS + 1) == 0 ? 0 : 3;
}

int main(void)
{
    FILE *file = fopen("pool", "w");
    if (file == NULL || ftruncate(fileno(file), (off_t)PMEMBLK_MIN_POOL) != 0 || fclose(file) != 0)
        return 1;
    pool = pmemblk_create("pool", LEN, 0, 0600);
    if (pool == NULL)
        return 1;
    int failed = fork_beside(THREADS, run, FORKS, child);
    printf("children failed %d\n", failed);
    if (failures != 0)
        printf("calls of the parent failed %d\n", failures);
    pmemblk_close(pool);
    return failed != 0 || failures != 0;
}
