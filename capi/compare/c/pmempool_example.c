/* Checks and repairs a pool, asks for features, turns them and removes it, as pmempool does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libpmempool.h>

/* A header of a log pool, with a checksum that is wrong: a file that no other library has to make. */
static int make(const char *path)
{
    static const unsigned char start[] = {'P', 'M', 'E', 'M', 'L', 'O', 'G', 0, 1, 0, 0, 0, 1, 0, 0, 0, 6};
    FILE *file = fopen(path, "w");
    if (file == NULL || fwrite(start, sizeof(start), 1, file) != 1 || fseek(file, (2 << 20) - 1, SEEK_SET) != 0)
        return 1;
    return fputc(0, file) == EOF || fclose(file) != 0;
}

/* PMDK leaves errno as another call has set it where a check has no error number of its own. */
static void check(const char *path, unsigned type, unsigned flags, const char *answer, size_t size)
{
    struct pmempool_check_args args = {path, NULL, (enum pmempool_pool_type)type, flags};
    PMEMpoolcheck *check = pmempool_check_init(&args, size);
    printf("check %u %x", type, flags);
    if (check == NULL) {
        printf(" errno %d\n", errno);
        return;
    }
    struct pmempool_check_status *status;
    while ((status = pmempool_check(check)) != NULL) {
        printf("\n %d %s", status->type, status->str.msg);
        if (status->type == PMEMPOOL_CHECK_MSG_TYPE_QUESTION)
            status->str.answer = answer;
    }
    printf("\n result %d\n", pmempool_check_end(check));
}

int main(void)
{
    if (pmempool_check_version(PMEMPOOL_MAJOR_VERSION, PMEMPOOL_MINOR_VERSION) != NULL)
        return 1;
    puts(pmempool_check_version(2, 0));
    puts(pmempool_check_version(1, 4));
    puts(pmempool_errormsg());
    if (make("log") != 0)
        return 1;
    static const unsigned flags[] = {PMEMPOOL_CHECK_FORMAT_STR, 0, PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_VERBOSE,
        PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_DRY_RUN, PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_ALWAYS_YES,
        PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_REPAIR | PMEMPOOL_CHECK_VERBOSE};
    size_t size = sizeof(struct pmempool_check_args);
    for (unsigned index = 0; index < sizeof(flags) / sizeof(flags[0]); index++)
        check("log", PMEMPOOL_POOL_TYPE_DETECT, flags[index], "no", size);
    check("log", PMEMPOOL_POOL_TYPE_BLK, flags[0], "no", size);
    check("log", PMEMPOOL_POOL_TYPE_DETECT, flags[0], "no", size - 1);
    check("log", PMEMPOOL_POOL_TYPE_DETECT, flags[0], "no", size + 8);
    unsigned all = flags[5] | PMEMPOOL_CHECK_ADVANCED;
    check("log", PMEMPOOL_POOL_TYPE_LOG, all, "perhaps", size);
    check("log", PMEMPOOL_POOL_TYPE_LOG, all | PMEMPOOL_CHECK_DRY_RUN, "yes", size);
    printf("feature");
    for (unsigned feature = 0; feature < 5; feature++)
        printf(" %d", pmempool_feature_query("log", (enum pmempool_feature)feature, 0));
    printf(" %d %d %d\n", pmempool_feature_query("log", PMEMPOOL_FEAT_CKSUM_2K, 1), pmempool_rm("log", 8),
        pmempool_feature_enable("log", PMEMPOOL_FEAT_SINGLEHDR, 0));
    printf("rm %d", pmempool_rm("log", 0));
    printf(" %d %d\n", pmempool_rm("log", 0), pmempool_rm("log", PMEMPOOL_RM_FORCE));
    return 0;
}
