/* Makes a log, appends to it and walks through it, as the examples of libpmemlog do. */
#include <stdio.h>
#include <string.h>
#include <libpmemlog.h>

static int print(const void *bytes, size_t len, void *argument)
{
    printf("%s%.*s", (const char *)argument, (int)len, (const char *)bytes);
    return 1;
}

int main(void)
{
    if (pmemlog_check_version(PMEMLOG_MAJOR_VERSION, PMEMLOG_MINOR_VERSION) != NULL)
        return 1;
    PMEMlogpool *log = pmemlog_create("log", PMEMLOG_MIN_POOL, 0600);
    struct iovec parts[] = {{"three ", 6}, {"four\n", 5}};
    if (log == NULL || pmemlog_append(log, "one two ", 8) != 0 || pmemlog_appendv(log, parts, 2) != 0)
        return 1;
    pmemlog_walk(log, 5, print, "|");
    printf("%zu %lld\n", pmemlog_nbyte(log), pmemlog_tell(log));
    pmemlog_close(log);
    printf("check %d\n", pmemlog_check("log"));
    log = pmemlog_open("log");
    if (log == NULL)
        return 1;
    pmemlog_walk(log, 0, print, "");
    pmemlog_rewind(log);
    printf("%lld %d\n", pmemlog_tell(log), pmemlog_open("missing/log") != NULL);
    const char *words = "open \"missing/log\": No such file or directory";
    puts(strncmp(pmemlog_errormsg(), words, strlen(words)) == 0 ? "message" : pmemlog_errormsg());
    pmemlog_close(log);
    return 0;
}
