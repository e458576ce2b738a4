/* The header that the examples of PMDK include and that Debian's packages lack. */
#include <sys/stat.h>
#include <unistd.h>

#define CREATE_MODE_RW (S_IWUSR | S_IRUSR)
#define CREATE_MODE_R (S_IRUSR)
#ifndef MIN
#define MIN(left, right) ((left) < (right) ? (left) : (right))
#endif

static inline int file_exists(const char *path)
{
    return access(path, F_OK);
}

static inline int find_last_set_64(unsigned long long value)
{
    return 64 - __builtin_clzll(value) - 1;
}
