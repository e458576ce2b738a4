/*
 * Takes calls of libpmem2 one instruction at a time, and prints for each the instructions that make stores durable. msync(2)
 * is counted by its system call: `m1`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <libpmem2.h>
#include "copies.h"

static char source[16384] __attribute__((aligned(4096)));

static const struct {
    const char *name;
    unsigned value;
} flags[] = {
    {"no flag", 0},
    {"NODRAIN", PMEM2_F_MEM_NODRAIN},
    {"NONTEMPORAL", PMEM2_F_MEM_NONTEMPORAL},
    {"WC+NODRAIN", PMEM2_F_MEM_WC | PMEM2_F_MEM_NODRAIN},
    {"TEMPORAL", PMEM2_F_MEM_TEMPORAL},
    {"NOFLUSH", PMEM2_F_MEM_NOFLUSH},
};

static void take(struct pmem2_map *map, size_t offset, size_t len)
{
    char *at = (char *)pmem2_map_get_address(map) + offset;
    pmem2_flush_fn flush = pmem2_get_flush_fn(map);
    pmem2_persist_fn persist = pmem2_get_persist_fn(map);
    pmem2_memcpy_fn copy = pmem2_get_memcpy_fn(map);
    pmem2_memmove_fn move = pmem2_get_memmove_fn(map);
    pmem2_memset_fn fill = pmem2_get_memset_fn(map);
    STEP(flush(at, len));
    show("flush", offset, len);
    STEP(persist(at, len));
    show("persist", offset, len);
    for (size_t index = 0; index < COUNT(flags); index++) {
        STEP(copy(at, source, len, flags[index].value));
        keep(0);
        STEP(move(at, source, len, flags[index].value));
        keep(1);
        STEP(fill(at, 7, len, flags[index].value));
        keep(2);
        show_three(offset, len, flags[index].name);
    }
}

int main(void)
{
    struct pmem2_source *file = NULL;
    struct pmem2_config *config = NULL;
    struct pmem2_map *map = NULL;
    int descriptor = open("file", O_RDWR | O_CREAT, 0600);
    if (note_steps() != 0 || ftruncate(descriptor, sizeof(source)) != 0 || pmem2_source_from_fd(&file, descriptor) != 0
        || pmem2_config_new(&config) != 0
        || pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) != 0
        || pmem2_map_new(&map, config, file) != 0)
        return 2;
    for (size_t index = 0; index < COUNT(ranges); index++)
        take(map, ranges[index].offset, ranges[index].len);
    pmem2_drain_fn drain = pmem2_get_drain_fn(map);
    STEP(drain());
    show("drain", 0, 0);
    STEP(pmem2_deep_flush(map, pmem2_map_get_address(map), 64));
    show("deep_flush", 0, 64);
    return pmem2_map_delete(&map);
}
