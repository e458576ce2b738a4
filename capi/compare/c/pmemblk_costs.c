/* Takes calls of libpmemblk one instruction at a time, and prints for each the instructions and calls that make stores durable. */
#define _GNU_SOURCE
#include <libpmemblk.h>
#include "pools_costs.h"

int main(void)
{
    static char bytes[512];
    PMEMblkpool *pool = NULL;
    if (note_steps() != 0)
        return 2;
    pool = pmemblk_create("blk", sizeof(bytes), PMEMBLK_MIN_POOL, 0600);
    if (pool == NULL)
        return 3;
    COST("bsize", pmemblk_bsize(pool));
    COST("nblock", pmemblk_nblock(pool));
    COST("read, never written", pmemblk_read(pool, bytes, 7));
    /* The first write makes the tables, which takes too many instructions to be counted. */
    pmemblk_write(pool, bytes, 0);
    COST("write", pmemblk_write(pool, bytes, 1));
    COST("write again", pmemblk_write(pool, bytes, 1));
    COST("read", pmemblk_read(pool, bytes, 1));
    COST("set_zero", pmemblk_set_zero(pool, 1));
    COST("set_zero again", pmemblk_set_zero(pool, 1));
    COST("set_error", pmemblk_set_error(pool, 1));
    COST("read of an error", pmemblk_read(pool, bytes, 1));
    COST("write past the end", pmemblk_write(pool, bytes, 1 << 30));
    COST("close", pmemblk_close(pool));
    return 0;
}
