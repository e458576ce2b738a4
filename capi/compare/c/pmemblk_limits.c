/* Calls of libpmemblk in a process with little of everything. */
#include <libpmemblk.h>
#define CREATE(path, size) pmemblk_create(path, 512, size, 0600)
#define OPEN(path) pmemblk_open(path, 0)
#define CHECK(path) pmemblk_check(path, 0)
#define CLOSE(pool) pmemblk_close(pool)
#include "pool_limits.h"
