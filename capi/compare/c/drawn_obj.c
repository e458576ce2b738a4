/*
 * Drawn calls of libpmemobj on the pool `pool` of the current folder, which is made if it is missing:
 *
 *   drawn_obj SEED FIRST COUNT [STEP...]   takes sequences, or the chosen steps of them, and prints each answer
 *   drawn_obj                              lists the root and all objects
 *
 * DRAWN_END says how the process ends: `close` (as without it), `exit` or `kill` with the number of a place at which it ends so, and `left`
 * for a pool that is closed with its objects. Answers name no offset: two allocators place objects elsewhere.
 */
#include "objects.h"
#include "objects_transactions.h"
#include "objects_lists.h"

#define POOL_SIZE (64u << 20)

/* Sets of three actions that are not published yet. */
#define SETS 3
static struct pobj_action sets[SETS][3];
static unsigned set_holds[SETS];

static void find_root(size_t size)
{
    root_oid = pmemobj_root(pop, size);
    if (OID_IS_NULL(root_oid)) {
        printf("no root: %s\n", pmemobj_errormsg());
        exit(3);
    }
    root = pmemobj_direct(root_oid);
}

static void open_pool(void)
{
    pop = pmemobj_open("pool", LAYOUT);
    if (pop == NULL && errno == ENOENT)
        pop = pmemobj_create("pool", LAYOUT, POOL_SIZE, 0600);
    if (pop == NULL || make_classes() != 0) {
        printf("no pool message %s\n", pmemobj_errormsg());
        exit(3);
    }
    find_root(sizeof(struct root));
    note_message();
}

static void allocate(void)
{
    PMEMoid *place = draw_place(), none = OID_NULL;
    size_t size = draw_size();
    uint64_t type = draw_type(), flags = draw_flags(0);
    int fails = below(4) == 0 ? (int)below(3) - 1 : 0, result;
    if (place != NULL && !OID_IS_NULL(*place))
        return;
    uint64_t how = below(8);
    /* The bytes after a text are none of the program's. */
    if (place == NULL && (how == 4 || how == 5))
        how = 0;
    printf("alloc %lu", how);
    show_place(place);
    printf(" %zu %lu %lx %d", size, type, flags, fails);
    errno = 0;
    switch (how) {
    case 0: case 1:
        result = pmemobj_alloc(pop, place, size, type, construct, &fails);
        break;
    case 2: case 3:
        result = pmemobj_xalloc(pop, place, size, type, flags, construct, &fails);
        break;
    case 4: {
        const char *text = "a text of some words, and more of them" + below(30);
        result = pmemobj_strdup(pop, place, below(8) == 0 ? NULL : text, type);
        break;
    }
    case 5: {
        wchar_t text[] = L"wide words";
        result = pmemobj_wcsdup(pop, place, below(8) == 0 ? NULL : text, type);
        break;
    }
    case 6:
        result = pmemobj_alloc(pop, place == NULL ? &none : place, size, type, NULL, NULL);
        break;
    default:
        result = pmemobj_zalloc(pop, place == NULL ? &none : place, size, type);
    }
    int error = errno;
    if (result == 0 && how >= 4) {
        PMEMoid oid = place == NULL ? none : *place;
        if (how == 4)
            printf(" \"%s\"", (char *)pmemobj_direct(oid));
        if (how == 5)
            printf(" %zu", wcslen(pmemobj_direct(oid)));
        if (how == 7)
            show_object(oid);
        fill(oid, 1);
    }
    if (place != NULL)
        show_object(*place);
    show_result(result, error);
}

static void reallocate(void)
{
    PMEMoid *place = draw_place();
    size_t size = draw_size();
    uint64_t type = draw_type();
    int is_zeroed = (int)below(2);
    if (place == NULL)
        return;
    size_t before = OID_IS_NULL(*place) ? 0 : pmemobj_alloc_usable_size(*place);
    printf("realloc %d", is_zeroed);
    show_place(place);
    printf(" %zu %zu %lu", before, size, type);
    errno = 0;
    int result = is_zeroed ? pmemobj_zrealloc(pop, place, size, type) : pmemobj_realloc(pop, place, size, type);
    int error = errno;
    if (result == 0 && !OID_IS_NULL(*place)) {
        size_t after = pmemobj_alloc_usable_size(*place);
        printf(" %zu %lu %016lx", after, pmemobj_type_num(*place),
            hash(pmemobj_direct(*place), is_zeroed && size > before ? after : size < before ? size : before));
        fill(*place, 1);
    }
    show_result(result, error);
}

static void release(void)
{
    PMEMoid *place = draw_place();
    if (place == NULL)
        return;
    printf("free");
    show_place(place);
    pmemobj_free(place);
    show_object(*place);
}

static int construct_root(PMEMobjpool *pool, void *start, void *argument)
{
    point();
    struct root *new = start;
    printf(" constructor %d words %016lx", pool == pop, hash((unsigned char *)new->words, sizeof(new->words)));
    return *(int *)argument;
}

/* Makes the root larger, unless actions store to it: it may move. Its size depends on the sequences before. */
static void grow_root(void)
{
    if (held != 0)
        return;
    static const size_t sizes[] = {0, 1, sizeof(struct root), sizeof(struct root) + 100, 4000, 9000, 70000, SIZE_MAX, 1u << 30};
    size_t size = sizes[below(COUNT(sizes))], before = pmemobj_root_size(pop);
    int fails = below(4) == 0, is_constructed = (int)below(2);
    printf("root %zu %d", size, is_constructed);
    errno = 0;
    PMEMoid oid;
    if (is_constructed && size <= before)
        oid = pmemobj_root_construct(pop, size, construct_root, &fails);
    else
        oid = pmemobj_root(pop, size);
    int error = errno;
    if (OID_IS_NULL(oid)) {
        show_result(-1, error);
        return;
    }
    root_oid = oid;
    root = pmemobj_direct(oid);
    size_t after = pmemobj_root_size(pop);
    for (size_t at = before; at < after; at++)
        if (((unsigned char *)root)[at] != 0) {
            printf(" no zero at %zu", at);
            break;
        }
    printf(" = %d %d %d", after >= size, after >= before, pmemobj_type_num(oid) == 0);
}

static void ask(void)
{
    PMEMoid oid = draw_object();
    static int data;
    switch (below(7)) {
    case 0:
        printf("sizes %s", name_of(oid));
        show_object(oid);
        printf(" %zu", pmemobj_alloc_usable_size(OID_NULL));
        break;
    case 1:
        printf("all");
        show_all();
        break;
    case 2: {
        unsigned char *inside = (unsigned char *)root + below(sizeof(*root));
        PMEMoid found = pmemobj_oid(inside);
        printf("addresses %d %d %d %d %s %s", pmemobj_pool_by_ptr(inside) == pop, pmemobj_pool_by_ptr(&data) == NULL,
            pmemobj_pool_by_oid(root_oid) == pop, pmemobj_direct(found) == inside, name_of(pmemobj_oid(&data)),
            name_of(pmemobj_oid(root)));
        break;
    }
    case 3: {
        PMEMoid foreign = {root_oid.pool_uuid_lo + 1, root_oid.off};
        printf("foreign %d %d", pmemobj_direct(foreign) == NULL, pmemobj_pool_by_oid(foreign) == NULL);
        break;
    }
    case 4:
        pmemobj_set_user_data(pop, below(2) == 0 ? NULL : &data);
        printf("data %d", pmemobj_get_user_data(pop) == &data);
        break;
    case 5: {
        const char *layout = below(2) == 0 ? LAYOUT : "other";
        errno = 0;
        int found = (int)below(3);
        PMEMobjpool *other = found == 0 ? pmemobj_open("pool", layout)
            : found == 1              ? pmemobj_open("missing", NULL)
                                      : pmemobj_create("pool", layout, POOL_SIZE, 0600);
        printf("open %d %s", found, layout);
        show_result(other == NULL ? -1 : 0, errno);
        break;
    }
    default:
        printf("root");
        show_root();
    }
}

static int make_variable(void *start, void *argument)
{
    printf(" constructor");
    *(uint64_t *)start = 7;
    return *(int *)argument;
}

static void volatile_variable(void)
{
    int fails = below(4) == 0;
    printf("volatile");
    errno = 0;
    uint64_t *value = pmemobj_volatile(pop, &root->variable.vlt, &root->variable.value, 8, make_variable, &fails);
    if (value == NULL) {
        show_result(-1, errno);
        return;
    }
    printf(" %lu", *value);
    (*value)++;
}

static void store(void)
{
    static const unsigned flags[] = {0, PMEMOBJ_F_RELAXED, PMEMOBJ_F_MEM_NODRAIN, PMEMOBJ_F_MEM_NOFLUSH,
        PMEMOBJ_F_MEM_NONTEMPORAL, PMEMOBJ_F_MEM_TEMPORAL | PMEMOBJ_F_MEM_WB};
    unsigned flag = flags[below(COUNT(flags))];
    unsigned char buffer[BYTES];
    size_t off = below(BYTES), len = below(BYTES - off + 1), from = below(BYTES - len + 1);
    uint64_t how = below(8);
    memset(buffer, (int)below(256), sizeof(buffer));
    printf("store %lu %zu %zu %x", how, off, len, flag);
    unsigned char *to = root->bytes + off, *result = to;
    switch (how) {
    case 0:
        result = pmemobj_memcpy(pop, to, buffer, len, flag);
        break;
    case 1:
        result = pmemobj_memmove(pop, to, root->bytes + from, len, flag);
        break;
    case 2:
        result = pmemobj_memset(pop, to, (int)below(256), len, flag);
        break;
    case 3:
        result = pmemobj_memcpy_persist(pop, to, buffer, len);
        break;
    case 4:
        result = pmemobj_memset_persist(pop, to, (int)below(256), len);
        break;
    case 5:
        memcpy(to, buffer, len);
        pmemobj_flush(pop, to, len);
        pmemobj_drain(pop);
        break;
    case 6:
        memcpy(to, buffer, len);
        printf(" = %d", pmemobj_xpersist(pop, to, len, below(2) == 0 ? 0 : PMEMOBJ_F_RELAXED));
        break;
    default:
        memcpy(to, buffer, len);
        errno = 0;
        int flushed = pmemobj_xflush(pop, to, len, below(2) == 0 ? 0 : 1u << 20);
        show_result(flushed, errno);
        pmemobj_drain(pop);
        return;
    }
    printf(" %d %016lx", result == to, hash(root->bytes, BYTES));
}

static void reserve(void)
{
    uint64_t set = below(SETS), how = below(4);
    unsigned before = held;
    errno = 0;
    if (set_holds[set] == 0) {
        printf("actions %lu", set);
        if (draw_actions(sets[set]) != 0)
            set_holds[set] = held & ~before;
        return;
    }
    if (how == 0) {
        printf("cancel %lu", set);
        pmemobj_cancel(pop, sets[set], 3);
        held &= ~set_holds[set];
        set_holds[set] = 0;
        return;
    }
    /* Some sets together, in a copy. */
    struct pobj_action all[3 * SETS];
    size_t count = 0;
    printf("publish");
    for (uint64_t index = 0; index < SETS; index++) {
        if (set_holds[index] == 0 || (index != set && how == 1))
            continue;
        printf(" %lu", index);
        memcpy(all + count, sets[index], sizeof(sets[index]));
        count += 3;
        held &= ~set_holds[index];
        set_holds[index] = 0;
    }
    int result = pmemobj_publish(pop, all, count);
    show_result(result, errno);
    for (int index = 0; index < SLOTS; index++)
        if (!(held >> index & 1))
            show_object(root->slots[index]);
}

static void reserve_with_flags(void)
{
    struct pobj_action action;
    size_t size = draw_reserved_size();
    uint64_t type = draw_type(), flags = draw_flags(0);
    int publishes = (int)below(2);
    printf("xreserve %zu %lu %lx %d", size, type, flags, publishes);
    errno = 0;
    PMEMoid oid = pmemobj_xreserve(pop, &action, size, type, flags);
    if (OID_IS_NULL(oid)) {
        show_result(-1, errno);
        return;
    }
    if (flags & POBJ_XALLOC_ZERO)
        show_object(oid);
    fill(oid, 1);
    show_object(oid);
    if (publishes)
        show_result(pmemobj_publish(pop, &action, 1), errno);
    else
        pmemobj_cancel(pop, &action, 1);
}

/* Moves objects. One of the program's classes may get another size, so that the objects are freed after that. */
static void defragment(void)
{
    PMEMoid *places[SLOTS];
    size_t count = 0, sizes[SLOTS];
    struct pobj_defrag_result result;
    for (unsigned index = 0; index < SLOTS; index++) {
        PMEMoid oid = root->slots[index];
        if (held >> index & 1 || below(3) == 0)
            continue;
        sizes[count] = OID_IS_NULL(oid) ? 0 : pmemobj_alloc_usable_size(oid);
        places[count++] = &root->slots[index];
    }
    printf("defrag %zu", count);
    errno = 0;
    int failed = pmemobj_defrag(pop, places, count, &result);
    int error = errno;
    for (size_t index = 0; index < count; index++) {
        size_t size = OID_IS_NULL(*places[index]) ? 0 : pmemobj_alloc_usable_size(*places[index]);
        printf(" %016lx", size == 0 ? 0 : hash(pmemobj_direct(*places[index]), sizes[index]));
        printf(" %d", size >= sizes[index]);
        pmemobj_free(places[index]);
    }
    printf(" total %zu", result.total);
    show_result(failed, error);
}

static void locks(void)
{
    struct timespec past = {0, 0};
    PMEMmutex *mutex = &root->mutexes[below(2)];
    uint64_t how = below(5);
    printf("locks %lu", how);
    switch (how) {
    case 0:
        printf(" %d", pmemobj_mutex_lock(pop, mutex));
        printf(" %d", pmemobj_mutex_trylock(pop, mutex));
        printf(" %d", pmemobj_mutex_timedlock(pop, mutex, &past));
        printf(" %d", pmemobj_mutex_unlock(pop, mutex));
        break;
    case 1:
        printf(" %d", pmemobj_rwlock_rdlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_tryrdlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_trywrlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_timedwrlock(pop, &root->rwlock, &past));
        printf(" %d", pmemobj_rwlock_unlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_unlock(pop, &root->rwlock));
        break;
    case 2:
        printf(" %d", pmemobj_rwlock_wrlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_tryrdlock(pop, &root->rwlock));
        printf(" %d", pmemobj_rwlock_timedrdlock(pop, &root->rwlock, &past));
        printf(" %d", pmemobj_rwlock_unlock(pop, &root->rwlock));
        break;
    case 3:
        printf(" %d", pmemobj_mutex_lock(pop, mutex));
        printf(" %d", pmemobj_cond_timedwait(pop, &root->cond, mutex, &past));
        printf(" %d", pmemobj_cond_signal(pop, &root->cond));
        printf(" %d", pmemobj_cond_broadcast(pop, &root->cond));
        printf(" %d", pmemobj_mutex_unlock(pop, mutex));
        break;
    default:
        pmemobj_mutex_zero(pop, mutex);
        pmemobj_rwlock_zero(pop, &root->rwlock);
        pmemobj_cond_zero(pop, &root->cond);
        printf(" %d", pmemobj_mutex_trylock(pop, mutex));
        printf(" %d", pmemobj_mutex_unlock(pop, mutex));
    }
}

static void reopen(void)
{
    if (held != 0)
        return;
    printf("reopen");
    pmemobj_close(pop);
    if (below(3) == 0)
        printf(" check %d", pmemobj_check("pool", below(2) == 0 ? NULL : LAYOUT));
    open_pool();
    show_root();
    show_all();
}

static void step(void)
{
    note_message();
    switch (below(34)) {
    case 0: case 1: case 2: case 3: case 4:
        allocate();
        break;
    case 5: case 6: case 7:
        reallocate();
        break;
    case 8: case 9:
        release();
        break;
    case 10:
        grow_root();
        break;
    case 11: case 12:
        ask();
        break;
    case 13:
        volatile_variable();
        break;
    case 14: case 15:
        store();
        break;
    case 16: case 17: case 18:
        reserve();
        break;
    case 19:
        reserve_with_flags();
        break;
    case 20:
        if (held == 0)
            defragment();
        break;
    case 21:
        locks();
        break;
    case 22:
        if (below(4) == 0)
            reopen();
        break;
    case 23: case 24: case 25: case 26: case 27:
        lists();
        break;
    case 28:
        printf("ctl");
        control();
        break;
    default:
        printf("transaction");
        transaction();
        show_root();
    }
}

/* Frees all objects, so that the next sequence finds an empty pool. */
static void clear(void)
{
    for (int index = 0; index < SETS; index++) {
        if (set_holds[index] != 0)
            pmemobj_cancel(pop, sets[index], 3);
        set_holds[index] = 0;
    }
    held = 0;
    memset(root, 0, sizeof(*root));
    pmemobj_persist(pop, root, sizeof(*root));
    memset(loose, 0, sizeof(loose));
    memset(spares, 0, sizeof(spares));
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_first(pop))
        pmemobj_free(&oid);
}

static void sequence(uint64_t seed, uint64_t number, int is_last, int chosen, char **steps)
{
    begin_step(seed, number, UINT64_MAX);
    uint64_t count = 4 + below(24);
    next_value = 0;
    for (uint64_t index = 0; index < count; index++) {
        if (!is_chosen(index, chosen, steps))
            continue;
        begin_step(seed, number, index);
        printf("%lu.%lu ", number, index);
        point();
        step();
        printf("\n");
    }
    printf("%lu end", number);
    show_root();
    show_all();
    printf("\n");
    if (!is_last)
        clear();
}

int main(int count, char **arguments)
{
    /* A process that is killed has said all before. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *end = getenv("DRAWN_END");
    catch_faults();
    if (count < 4) {
        open_pool();
        show_root();
        show_all();
        printf("\n");
        pmemobj_close(pop);
        return 0;
    }
    if (end != NULL && strncmp(end, "kill ", 5) == 0)
        killed_at = atol(end + 5);
    if (end != NULL && strncmp(end, "exit ", 5) == 0)
        killed_at = atol(end + 5), exits_only = 1;
    uint64_t seed = strtoul(arguments[1], NULL, 10), first = strtoul(arguments[2], NULL, 10);
    uint64_t last = first + strtoul(arguments[3], NULL, 10);
    open_pool();
    for (uint64_t number = first; number < last; number++)
        sequence(seed, number, number + 1 == last && end != NULL, count - 4, arguments + 4);
    pmemobj_close(pop);
    return 0;
}
