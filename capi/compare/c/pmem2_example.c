/* Creates, changes and reads a file, as the examples of libpmem2 do. Prints a message, and one by pmem2_perror. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <libpmem2.h>

int main(void)
{
    struct pmem2_source *source = NULL;
    struct pmem2_config *config = NULL;
    struct pmem2_map *map = NULL;
    int file = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, 10000) != 0 || pmem2_source_from_fd(&source, file) != 0
        || pmem2_config_new(&config) != 0)
        return 1;
    int result = pmem2_map_new(&map, config, source);
    printf("%d %.60s\n", result, pmem2_errormsg());
    if (pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) != 0
        || pmem2_map_new(&map, config, source) != 0)
        return 1;
    char *start = pmem2_map_get_address(map);
    pmem2_get_memcpy_fn(map)(start, "hello, persistent memory", 25, 0);
    pmem2_get_memset_fn(map)(start + 25, '!', 9000, PMEM2_F_MEM_NONTEMPORAL);
    pmem2_get_persist_fn(map)(start, pmem2_map_get_size(map));
    if (pmem2_map_delete(&map) != 0 || pmem2_map_new(&map, config, source) != 0)
        return 1;
    start = pmem2_map_get_address(map);
    printf("%s %zu %c %d %d\n", start, pmem2_map_get_size(map), start[9024], start[9025],
        pmem2_map_get_store_granularity(map));
    result = pmem2_map_delete(&map) + pmem2_source_delete(&source) + pmem2_config_delete(&config);
    struct pmem2_source *none = NULL;
    if (pmem2_source_from_fd(&none, 903) == PMEM2_E_INVALID_FILE_HANDLE)
        pmem2_perror("%s %d %.1f", "perror", 5, 2.5);
    close(file);
    return result;
}
