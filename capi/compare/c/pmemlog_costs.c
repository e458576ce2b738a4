/* Takes calls of libpmemlog one instruction at a time, and prints for each the instructions and calls that make stores durable. */
#define _GNU_SOURCE
#include <libpmemlog.h>
#include "pools_costs.h"

static int look(const void *bytes, size_t len, void *context)
{
    (void)bytes, (void)len, (void)context;
    return 1;
}

int main(void)
{
    static char bytes[5000];
    PMEMlogpool *log = NULL;
    struct iovec parts[] = {{bytes, 100}, {bytes + 100, 200}};
    if (note_steps() != 0)
        return 2;
    log = pmemlog_create("log", PMEMLOG_MIN_POOL, 0600);
    if (log == NULL)
        return 3;
    COST("append 8", pmemlog_append(log, bytes, 8));
    COST("append 100", pmemlog_append(log, bytes, 100));
    COST("append 4096", pmemlog_append(log, bytes, 4096));
    COST("append nothing", pmemlog_append(log, bytes, 0));
    COST("append too much", pmemlog_append(log, bytes, PMEMLOG_MIN_POOL));
    COST("appendv 100 and 200", pmemlog_appendv(log, parts, 2));
    COST("tell", pmemlog_tell(log));
    COST("nbyte", pmemlog_nbyte(log));
    COST("walk", pmemlog_walk(log, 0, look, NULL));
    COST("rewind", pmemlog_rewind(log));
    COST("close", pmemlog_close(log));
    return 0;
}
