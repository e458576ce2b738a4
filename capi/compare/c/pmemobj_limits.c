/* Calls of libpmemobj in a process with little of everything. */
#include <libpmemobj.h>
#define CREATE(path, size) pmemobj_create(path, "", size, 0600)
#define OPEN(path) pmemobj_open(path, "")
#define CHECK(path) pmemobj_check(path, "")
#define CLOSE(pool) pmemobj_close(pool)
#include "pool_limits.h"
