/*
 * One call on the block pool whose set file, or file, is `set` in the current folder. A refusal is the library's message, and status 1.
 *
 *   pmemblk_set create BSIZE
 *   pmemblk_set write BLOCK BYTE    a block below 0 counts from the end
 *   pmemblk_set read BLOCK          prints the block's first and last byte
 *   pmemblk_set check
 */
#include <errno.h>
#include <libpmemblk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(void)
{
    printf("errno %d %s\n", errno, pmemblk_errormsg());
    return 1;
}

int main(int count, char **arguments)
{
    const char *call = count > 1 ? arguments[1] : "";
    if (strcmp(call, "check") == 0)
        return pmemblk_check("set", 0) == 1 ? 0 : fail();
    int is_new = strcmp(call, "create") == 0;
    PMEMblkpool *pool = is_new ? pmemblk_create("set", strtoul(arguments[2], NULL, 10), 0, 0640) : pmemblk_open("set", 0);
    if (pool == NULL)
        return fail();
    size_t size = pmemblk_bsize(pool);
    unsigned char *bytes = calloc(1, size);
    long long block = is_new ? 0 : atoll(arguments[2]);
    if (block < 0)
        block += (long long)pmemblk_nblock(pool);
    int result = 0;
    if (strcmp(call, "write") == 0 && count == 4) {
        memset(bytes, atoi(arguments[3]), size);
        result = pmemblk_write(pool, bytes, block);
    } else if (strcmp(call, "read") == 0) {
        result = pmemblk_read(pool, bytes, block);
        printf("%d %d of %zu x %zu\n", bytes[0], bytes[size - 1], pmemblk_nblock(pool), size);
    }
    if (result != 0)
        return fail();
    free(bytes);
    pmemblk_close(pool);
    return 0;
}
