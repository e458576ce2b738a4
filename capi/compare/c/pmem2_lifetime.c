/*
 * Loads the library whose path is the first argument again and again, and checks that it leaves nothing behind: no thread,
 * no descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <libpmem2.h>
#include "process.h"

/* The functions of the loaded library. */
static __typeof__(&pmem2_source_from_fd) source_from_fd;
static __typeof__(&pmem2_source_delete) source_delete;
static __typeof__(&pmem2_config_new) config_new;
static __typeof__(&pmem2_config_delete) config_delete;
static __typeof__(&pmem2_config_set_required_store_granularity) require;
static __typeof__(&pmem2_map_new) map_new;
static __typeof__(&pmem2_map_delete) map_delete;
static __typeof__(&pmem2_map_get_address) get_address;
static __typeof__(&pmem2_get_persist_fn) get_persist;
static __typeof__(&pmem2_errormsg) errormsg;
static __typeof__(&pmem2_vm_reservation_new) reservation_new;
static __typeof__(&pmem2_vm_reservation_delete) reservation_delete;

static int find(void *library)
{
    source_from_fd = (__typeof__(source_from_fd))dlsym(library, "pmem2_source_from_fd");
    source_delete = (__typeof__(source_delete))dlsym(library, "pmem2_source_delete");
    config_new = (__typeof__(config_new))dlsym(library, "pmem2_config_new");
    config_delete = (__typeof__(config_delete))dlsym(library, "pmem2_config_delete");
    require = (__typeof__(require))dlsym(library, "pmem2_config_set_required_store_granularity");
    map_new = (__typeof__(map_new))dlsym(library, "pmem2_map_new");
    map_delete = (__typeof__(map_delete))dlsym(library, "pmem2_map_delete");
    get_address = (__typeof__(get_address))dlsym(library, "pmem2_map_get_address");
    get_persist = (__typeof__(get_persist))dlsym(library, "pmem2_get_persist_fn");
    errormsg = (__typeof__(errormsg))dlsym(library, "pmem2_errormsg");
    reservation_new = (__typeof__(reservation_new))dlsym(library, "pmem2_vm_reservation_new");
    reservation_delete = (__typeof__(reservation_delete))dlsym(library, "pmem2_vm_reservation_delete");
    int all = source_from_fd && source_delete && config_new && config_delete && require && map_new && map_delete;
    return all && get_address && get_persist && errormsg && reservation_new && reservation_delete ? 0 : 1;
}

static struct pmem2_source *source;
static struct pmem2_config *config;

static void *fail_in_thread(void *argument)
{
    struct pmem2_map *map = NULL;
    struct pmem2_config *other = NULL;
    if (config_new(&other) == 0 && map_new(&map, other, source) == PMEM2_E_GRANULARITY_NOT_SET)
        config_delete(&other);
    return other == NULL ? argument : NULL;
}

static int use(void)
{
    struct pmem2_map *map = NULL, *second = NULL;
    struct pmem2_vm_reservation *reservation = NULL;
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 8192) != 0 || source_from_fd(&source, file) != 0 || config_new(&config) != 0
        || require(config, PMEM2_GRANULARITY_PAGE) != 0 || map_new(&map, config, source) != 0
        || reservation_new(&reservation, NULL, 65536) != 0)
        return fail(errormsg());
    char *start = get_address(map);
    strcpy(start, "stored");
    get_persist(map)(start, 7);
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, fail_in_thread, start) != 0 || pthread_join(thread, &result) != 0 || result != start)
        return fail("no failure in a thread");
    pid_t child = fork();
    if (child == 0) {
        get_persist(map)(start, 8192);
        start[0] = 'S';
        _exit(map_new(&second, config, source) != 0 || map_delete(&second) != 0 || map_delete(&map) != 0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || start[0] != 'S')
        return fail("the child could not use the mapping");
    if (map_delete(&map) != 0 || reservation_delete(&reservation) != 0 || source_delete(&source) != 0
        || config_delete(&config) != 0)
        return fail(errormsg());
    return close(file);
}

/* A cancelled thread finishes its call of the library: what it reads of the kernel's files has cancellation points. */
static void *map_cancelled(void *argument)
{
    struct pmem2_map *map = NULL;
    pthread_cancel(pthread_self());
    has_returned = map_new(&map, config, source) == 0 && map_delete(&map) == 0;
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 8192) != 0 || source_from_fd(&source, file) != 0 || config_new(&config) != 0
        || require(config, PMEM2_GRANULARITY_PAGE) != 0)
        return fail(errormsg());
    return run_cancelled(map_cancelled);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 200, .find = find, .use = use, .cancel = cancel});
}
