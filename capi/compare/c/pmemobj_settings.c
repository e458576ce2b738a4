/*
 * Shows the settings that the library has read from its environment, those of a new pool, and the answers to each access of each
 * setting. The argument `environment` shows the first two alone.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <libpmemobj.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[] = {"prefault.at_create", "prefault.at_open", "sds.at_create", "copy_on_write.at_open",
    "tx.debug.skip_expensive_checks", "tx.debug.verify_user_buffers", "tx.cache.size", "tx.cache.threshold",
    "tx.post_commit.queue_depth", "tx.post_commit.worker", "tx.post_commit.stop", "debug.heap.alloc_pattern",
    "heap.narenas.automatic", "heap.narenas.total", "heap.narenas.max", "heap.arena.0.size", "heap.arena.0.automatic",
    "heap.arena.1.automatic", "heap.arena.2.automatic", "heap.arena.5000.size", "heap.arena.create", "heap.thread.arena_id",
    "heap.arenas_assignment_type", "heap.arenas_default_max", "heap.alloc_class.0.desc", "heap.alloc_class.1.desc",
    "heap.alloc_class.53.desc", "heap.alloc_class.54.desc", "heap.alloc_class.129.desc", "heap.alloc_class.255.desc",
    "heap.alloc_class.-1.desc", "heap.alloc_class.new.desc", "heap.alloc_class.x.desc", "stats.enabled", "heap.size.granularity",
    "heap.size.extend", "heap", "x", ""};

typedef int ctl_call(PMEMobjpool *, const char *, void *);

static ctl_call *const accesses[] = {pmemobj_ctl_get, pmemobj_ctl_set, pmemobj_ctl_exec};

static void show(PMEMobjpool *pop, const char *name, unsigned how, int is_null)
{
    struct {
        struct pobj_alloc_class_desc class;
        char rest[64];
    } value;
    uint64_t words[4];
    memset(&value, 0, sizeof(value));
    /* PMDK ends with a signal where a setting that is run gets no argument. */
    if (how == 2 && is_null)
        return;
    errno = 0;
    int result = accesses[how](pop, name, is_null ? NULL : &value), error = errno;
    memcpy(words, &value, sizeof(words));
    printf("%u %s %s %d = %d", how, pop == NULL ? "none" : "pool", name, is_null, result);
    if (result != 0)
        printf(" errno %d", error == 0 ? EINVAL : error);
    else
        printf(" [%lx %lx %lx %lx]", words[0], words[1], words[2], words[3]);
    printf("\n");
}

int main(int count, char **arguments)
{
    int is_short = count > 1 && strcmp(arguments[1], "environment") == 0;
    for (unsigned index = 0; index < COUNT(names); index++)
        for (unsigned how = 0; how < (is_short ? 1 : 3); how++)
            show(NULL, names[index], how, 0);
    PMEMobjpool *pop = pmemobj_create("pool", "settings", PMEMOBJ_MIN_POOL, 0600);
    if (pop == NULL) {
        printf("no pool, errno %d\n", errno);
        return 0;
    }
    for (unsigned index = 0; index < COUNT(names); index++)
        show(pop, names[index], 0, 0);
    for (unsigned index = 0; index < COUNT(names) && !is_short; index++)
        for (unsigned how = 0; how < 3; how++)
            for (int is_null = 0; is_null < 2; is_null++)
                show(pop, names[index], how, is_null);
    pmemobj_close(pop);
    return 0;
}
