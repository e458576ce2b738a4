/* Creates, changes and reads a file, as the examples of libpmem do. With an argument it prints its last message. */
#include <stdio.h>
#include <string.h>
#include <libpmem.h>

int main(int count, char **arguments)
{
    size_t mapped;
    int is_pmem;
    if (pmem_check_version(PMEM_MAJOR_VERSION, PMEM_MINOR_VERSION) != NULL)
        return 1;
    char *start = pmem_map_file("file", 10000, PMEM_FILE_CREATE | PMEM_FILE_EXCL, 0600, &mapped, &is_pmem);
    if (start == NULL) {
        puts(pmem_errormsg());
        return 1;
    }
    pmem_memcpy_persist(start, "hello, persistent memory", 25);
    pmem_memset_persist(start + 25, '!', 9000);
    if (pmem_msync(start, mapped) != 0 || pmem_unmap(start, mapped) != 0)
        return 1;
    start = pmem_map_file("file", 0, 0, 0, &mapped, NULL);
    printf("%s %zu %c %d %d\n", start, mapped, start[9024], start[9025], pmem_map_file("missing/f", 0, 0, 0, NULL, NULL) != NULL);
    puts(strncmp(pmem_errormsg(), "open missing/f: No such file or directory", 41) == 0 ? "message" : pmem_errormsg());
    if (count > 1)
        printf("%s: %s\n", arguments[1], pmem_errormsg());
    return pmem_unmap(start, mapped);
}
