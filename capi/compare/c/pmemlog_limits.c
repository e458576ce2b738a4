/* Calls of libpmemlog in a process with little of everything. */
#include <libpmemlog.h>
#define CREATE(path, size) pmemlog_create(path, size, 0600)
#define OPEN(path) pmemlog_open(path)
#define CHECK(path) pmemlog_check(path)
#define CLOSE(pool) pmemlog_close(pool)
#include "pool_limits.h"
