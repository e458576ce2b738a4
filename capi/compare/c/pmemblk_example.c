/* Makes a pool of blocks, writes some and reads them, as the examples of libpmemblk do. */
#include <stdio.h>
#include <string.h>
#include <libpmemblk.h>

int main(void)
{
    static char block[1024];
    if (pmemblk_check_version(PMEMBLK_MAJOR_VERSION, PMEMBLK_MINOR_VERSION) != NULL)
        return 1;
    PMEMblkpool *pool = pmemblk_create("blocks", sizeof(block), PMEMBLK_MIN_POOL, 0600);
    if (pool == NULL)
        return 1;
    printf("%zu %zu\n", pmemblk_nblock(pool), pmemblk_bsize(pool));
    strcpy(block, "hello, blocks");
    if (pmemblk_write(pool, block, 5) != 0 || pmemblk_write(pool, block, 6) != 0 || pmemblk_set_zero(pool, 6) != 0
        || pmemblk_set_error(pool, 7) != 0)
        return 1;
    pmemblk_close(pool);
    printf("check %d\n", pmemblk_check("blocks", 0));
    pool = pmemblk_open("blocks", sizeof(block));
    if (pool == NULL)
        return 1;
    for (int at = 4; at < 8; at++) {
        int result = pmemblk_read(pool, block, at);
        printf("%d %s\n", result, result == 0 ? block : "lost");
    }
    const char *words = "EIO due to map entry error flag";
    puts(strncmp(pmemblk_errormsg(), words, strlen(words)) == 0 ? "message" : pmemblk_errormsg());
    pmemblk_close(pool);
    return 0;
}
