/*
 * Calls of libpmem and libpmem2 on a device-DAX node or a file, and their answers. Messages end where Lodestone adds its remedies.
 *
 *   program PATH
 */
#include <errno.h>
#include <fcntl.h>
#include <libpmem.h>
#include <libpmem2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *start_of(const char *message)
{
    static char text[6000];
    snprintf(text, sizeof(text), "%s", message);
    char *end = strstr(text, "; ");
    if (end != NULL)
        *end = 0;
    return text;
}

static void map_all(const char *path)
{
    size_t len = 0;
    int is_pmem = -1;
    char *start = pmem_map_file(path, 0, 0, 0, &len, &is_pmem);
    if (start == NULL) {
        printf("map_file: errno %d %s\n", errno, start_of(pmem_errormsg()));
        return;
    }
    printf("map_file: %zu bytes, is_pmem %d, a part %d, the last byte %d, past the end %d\n", len, is_pmem,
        pmem_is_pmem(start + 4096, 8192), pmem_is_pmem(start + len - 1, 1), pmem_is_pmem(start, len + (4 << 20)));
    for (size_t at = 0; at < 8192; at += 64)
        start[at]++;
    pmem_persist(start, 8192);
    pmem_memcpy_persist(start + 65536, start, 8192);
    errno = 0;
    int deep = pmem_deep_persist(start, 8192);
    printf("deep_persist %d errno %d", deep, deep == 0 ? 0 : errno);
    deep = pmem_deep_drain(start + 65536, 8192);
    printf(", deep_drain %d errno %d", deep, deep == 0 ? 0 : errno);
    int synced = pmem_msync(start, 8192);
    printf(", msync %d errno %d\n", synced, synced == 0 ? 0 : errno);
    printf("unmap %d\n", pmem_unmap(start, len));
}

static void map_otherwise(const char *path)
{
    static const struct {
        size_t len;
        int flags;
    } calls[] = {{4096, 0}, {2 << 20, PMEM_FILE_CREATE}, {0, PMEM_FILE_CREATE}, {4096, PMEM_FILE_CREATE | PMEM_FILE_EXCL}, {4096, PMEM_FILE_TMPFILE}};
    for (size_t at = 0; at < sizeof(calls) / sizeof(calls[0]); at++) {
        size_t len = 0;
        errno = 0;
        void *start = pmem_map_file(path, calls[at].len, calls[at].flags, 0600, &len, NULL);
        if (start == NULL)
            printf("map_file %zu flags %d: errno %d %s\n", calls[at].len, calls[at].flags, errno, start_of(pmem_errormsg()));
        else
            printf("map_file %zu flags %d: %zu bytes, unmap %d\n", calls[at].len, calls[at].flags, len, pmem_unmap(start, len));
    }
}

static void ask_source(struct pmem2_source *source)
{
    size_t size = 0, alignment = 0, id_len = 0;
    uint64_t count = 0;
    printf("source: size %d", pmem2_source_size(source, &size));
    printf(" %zu, alignment %d", size, pmem2_source_alignment(source, &alignment));
    printf(" %zu, device id %d", alignment, pmem2_source_device_id(source, NULL, &id_len));
    printf(" %zu bytes, unsafe shutdowns %d", id_len, pmem2_source_device_usc(source, &count));
    printf(" %lu\n", count);
    struct pmem2_badblock_context *blocks = NULL;
    int found = pmem2_badblock_context_new(&blocks, source);
    printf("bad blocks: %d", found);
    struct pmem2_badblock block;
    while (found == 0 && (found = pmem2_badblock_next(blocks, &block)) == 0)
        printf(" %zu+%zu", block.offset, block.length);
    printf(" then %d\n", found);
    if (blocks != NULL)
        pmem2_badblock_context_delete(&blocks);
}

static void map_second(struct pmem2_source *source, enum pmem2_granularity granularity, size_t off, size_t len)
{
    struct pmem2_config *config;
    struct pmem2_map *map;
    if (pmem2_config_new(&config) != 0)
        return;
    pmem2_config_set_required_store_granularity(config, granularity);
    pmem2_config_set_offset(config, off);
    pmem2_config_set_length(config, len);
    int error = pmem2_map_new(&map, config, source);
    printf("granularity %d, %zu+%zu: %d", (int)granularity, off, len, error);
    if (error == 0) {
        char *start = pmem2_map_get_address(map);
        start[0]++;
        pmem2_get_persist_fn(map)(start, 1);
        printf(" has %d, %zu bytes", (int)pmem2_map_get_store_granularity(map), pmem2_map_get_size(map));
        printf(", deep_flush %d", pmem2_deep_flush(map, start, 4096));
        printf(", delete %d\n", pmem2_map_delete(&map));
    } else {
        printf("\n");
    }
    pmem2_config_delete(&config);
}

int main(int argc, char **argv)
{
    struct pmem2_source *source;
    if (argc != 2)
        return 2;
    map_all(argv[1]);
    map_otherwise(argv[1]);
    int file = open(argv[1], O_RDWR);
    if (file < 0 || pmem2_source_from_fd(&source, file) != 0)
        return 1;
    ask_source(source);
    for (int granularity = PMEM2_GRANULARITY_BYTE; granularity <= PMEM2_GRANULARITY_PAGE; granularity++)
        map_second(source, (enum pmem2_granularity)granularity, 0, 0);
    map_second(source, PMEM2_GRANULARITY_PAGE, 2 << 20, 2 << 20);
    map_second(source, PMEM2_GRANULARITY_PAGE, 4096, 4096);
    map_second(source, PMEM2_GRANULARITY_PAGE, 0, (size_t)1 << 40);
    pmem2_source_delete(&source);
    return 0;
}
