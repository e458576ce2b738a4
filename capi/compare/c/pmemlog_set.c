/*
 * One call on the log whose set file, or file, is `set` in the current folder. A refusal is the library's message, and status 1.
 *
 *   pmemlog_set create
 *   pmemlog_set append LEN BYTE
 *   pmemlog_set read            prints the length and a hash
 *   pmemlog_set check
 */
#include <errno.h>
#include <libpmemlog.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(void)
{
    printf("errno %d %s\n", errno, pmemlog_errormsg());
    return 1;
}

static int add(const void *bytes, size_t len, void *sum)
{
    for (size_t at = 0; at < len; at++)
        *(uint64_t *)sum = (*(uint64_t *)sum ^ ((const uint8_t *)bytes)[at]) * 0x100000001b3u;
    return 1;
}

int main(int count, char **arguments)
{
    const char *call = count > 1 ? arguments[1] : "";
    if (strcmp(call, "check") == 0)
        return pmemlog_check("set") == 1 ? 0 : fail();
    PMEMlogpool *log = strcmp(call, "create") == 0 ? pmemlog_create("set", 0, 0640) : pmemlog_open("set");
    if (log == NULL)
        return fail();
    if (strcmp(call, "append") == 0 && count == 4) {
        size_t len = strtoul(arguments[2], NULL, 10);
        char *bytes = malloc(len);
        memset(bytes, atoi(arguments[3]), len);
        if (pmemlog_append(log, bytes, len) != 0)
            return fail();
        free(bytes);
    } else if (strcmp(call, "read") == 0) {
        uint64_t sum = 0xcbf29ce484222325u;
        pmemlog_walk(log, 4096, add, &sum);
        printf("%lld %lu of %zu\n", pmemlog_tell(log), sum, pmemlog_nbyte(log));
    }
    pmemlog_close(log);
    return 0;
}
