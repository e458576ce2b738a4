/* Drawn calls on lists, and on settings. */

/* The failure of a call on lists, which is shown behind them. */
static int list_result, list_errno;

/* Elements that are in no list. */
#define SPARES 4
static PMEMoid spares[SPARES];
static uint64_t next_value;

static size_t entry_of(int list)
{
    return list == 2 ? offsetof(struct element, b) : offsetof(struct element, a);
}

static int make_element(PMEMobjpool *pool, void *start, void *argument)
{
    point();
    struct element *element = start;
    size_t size = pmemobj_alloc_usable_size(pmemobj_oid(start));
    memset(element, 0, size);
    element->value = next_value;
    pmemobj_persist(pool, element, size);
    return *(int *)argument;
}

static uint64_t value_of(PMEMoid oid)
{
    return OID_IS_NULL(oid) ? 0 : ((struct element *)pmemobj_direct(oid))->value;
}

/* An element of a list; null if the list is empty. */
static PMEMoid element_of(int list)
{
    PMEMoid oid = root->lists[list].pe_first.oid;
    for (uint64_t left = below(6); left > 0 && !OID_IS_NULL(oid); left--) {
        struct element *element = pmemobj_direct(oid);
        oid = list == 2 ? element->b.pe_next.oid : element->a.pe_next.oid;
    }
    return oid;
}

/* True if an element is in a list of the other entries, or in one of these. */
static int is_in(PMEMoid oid, int is_b)
{
    struct element *element = pmemobj_direct(oid);
    return is_b ? !OID_IS_NULL(element->b.pe_next.oid) : !OID_IS_NULL(element->a.pe_next.oid);
}

static void insert_new(int list, PMEMoid dest, int before)
{
    int fails = below(6) == 0;
    size_t size = below(12) == 0 ? draw_size() : sizeof(struct element) + below(300);
    if (size < sizeof(struct element))
        size = PMEMOBJ_MAX_ALLOC_SIZE + 1;
    next_value++;
    printf(" new %zu %lu %d", size, value_of(dest), before);
    errno = 0;
    PMEMoid oid = pmemobj_list_insert_new(pop, entry_of(list), &root->lists[list], dest, before, size,
        TOID_TYPE_NUM(struct element), make_element, &fails);
    list_errno = errno;
    list_result = OID_IS_NULL(oid) ? -1 : 0;
    printf(" %lu", value_of(oid));
}

/* Takes an element out of a list. One that is in no other list goes to the spare ones, or is freed. */
static void remove_from(int list)
{
    PMEMoid oid = element_of(list);
    if (OID_IS_NULL(oid))
        return;
    int is_freed = !is_in(oid, list != 2) && below(2) == 0;
    uint64_t spare = below(SPARES);
    if (!is_freed && !is_in(oid, list != 2)) {
        if (!OID_IS_NULL(spares[spare]))
            return;
        spares[spare] = oid;
    }
    printf(" remove %lu %d", value_of(oid), is_freed);
    errno = 0;
    list_result = pmemobj_list_remove(pop, entry_of(list), &root->lists[list], oid, is_freed);
    list_errno = errno;
}

static void insert_in(int list, PMEMoid dest, int before)
{
    uint64_t spare = below(SPARES);
    PMEMoid oid = below(2) == 0 ? element_of(list == 2 ? 0 : 2) : spares[spare];
    if (OID_IS_NULL(oid) || is_in(oid, list == 2))
        return;
    printf(" insert %lu at %lu %d", value_of(oid), value_of(dest), before);
    errno = 0;
    list_result = pmemobj_list_insert(pop, entry_of(list), &root->lists[list], dest, before, oid);
    list_errno = errno;
    if (list_result == 0 && same(oid, spares[spare]))
        spares[spare] = OID_NULL;
}

static void move_to(int list, PMEMoid dest, int before)
{
    int from = (int)below(LISTS);
    PMEMoid oid = element_of(from);
    /* PMDK takes an element that is moved beside itself out of its list. */
    if (OID_IS_NULL(oid) || same(oid, dest) || (entry_of(from) != entry_of(list) && is_in(oid, list == 2)))
        return;
    if (from == list && OID_IS_NULL(dest))
        return;
    printf(" move %lu from %d to %lu %d", value_of(oid), from, value_of(dest), before);
    errno = 0;
    list_result = pmemobj_list_move(
        pop, entry_of(from), &root->lists[from], entry_of(list), &root->lists[list], dest, before, oid);
    list_errno = errno;
}

static void lists(void)
{
    int list = (int)below(LISTS), before = (int)below(2);
    PMEMoid dest = below(2) == 0 ? OID_NULL : element_of(list);
    printf("list %d", list);
    list_result = list_errno = 0;
    switch (below(7)) {
    case 0: case 1: case 2:
        insert_new(list, dest, before);
        break;
    case 3: case 4:
        remove_from(list);
        break;
    case 5:
        insert_in(list, dest, before);
        break;
    default:
        move_to(list, dest, before);
    }
    show_lists();
    show_result(list_result, list_errno);
}

/* Settings of ints, that are got, set and set back. */
static void int_setting(const char *name, int new)
{
    int value = -7, again = -7;
    errno = 0;
    int result = pmemobj_ctl_get(pop, name, &value);
    printf(" %s get %d", name, value);
    if (result != 0) {
        show_result(result, errno);
        return;
    }
    printf(" set %d", pmemobj_ctl_set(pop, name, &new));
    printf(" get %d %d", pmemobj_ctl_get(pop, name, &again), again);
    pmemobj_ctl_set(pop, name, &value);
}

static void control(void)
{
    static const char *const ints[] = {"prefault.at_create", "prefault.at_open", "sds.at_create", "copy_on_write.at_open",
        "tx.debug.skip_expensive_checks", "tx.debug.verify_user_buffers", "heap.arena.1.automatic"};
    static const char *const longs[] = {"tx.cache.size", "tx.cache.threshold"};
    /* PMDK ends with a signal for a name that goes on behind a setting. */
    static const char *const unknown[] = {"x", "", "heap", "heap.alloc_class", "heap.alloc_class.x.desc", "heap.alloc_class.300.desc",
        "heap.alloc_class.-1.desc", "stats.heap", "heap.arena.0.size", "heap.arena.5000.size", "debug.heap", "heap..size"};
    switch (below(8)) {
    case 0:
        int_setting(ints[below(COUNT(ints))], (int)below(3));
        break;
    case 1: {
        const char *name = longs[below(COUNT(longs))];
        long long values[] = {0, 1, 32768, 1 << 20, -1, LLONG_MAX}, value = values[below(COUNT(values))], old = 0, got = 0;
        pmemobj_ctl_get(pop, name, &old);
        errno = 0;
        int result = pmemobj_ctl_set(pop, name, &value), error = errno;
        pmemobj_ctl_get(pop, name, &got);
        pmemobj_ctl_set(pop, name, &old);
        printf(" %s %lld %lld %lld", name, value, old, got);
        show_result(result, error);
        break;
    }
    case 2: case 3: {
        const char *name = unknown[below(COUNT(unknown))];
        unsigned char space[64] = {0};
        uint64_t how = below(3);
        errno = 0;
        int result = how == 0 ? pmemobj_ctl_get(pop, name, space) : how == 1 ? pmemobj_ctl_set(pop, name, space)
                                                                             : pmemobj_ctl_exec(pop, name, space);
        printf(" \"%s\" %lu", name, how);
        show_result(result, errno);
        break;
    }
    case 4: {
        struct pobj_alloc_class_desc got;
        char name[64];
        static const unsigned ids[] = {0, 1, 2, 10, 50, 127, FIRST_CLASS, FIRST_CLASS + 1, FIRST_CLASS + 3, 200, 254, 255};
        snprintf(name, sizeof(name), "heap.alloc_class.%u.desc", ids[below(COUNT(ids))]);
        memset(&got, 0, sizeof(got));
        errno = 0;
        int result = pmemobj_ctl_get(pop, name, &got);
        printf(" %s %zu %zu %u %d %u", name, got.unit_size, got.alignment, got.units_per_block, got.header_type, got.class_id);
        show_result(result, errno);
        break;
    }
    case 5: {
        static const struct pobj_alloc_class_desc bad[] = {{0, 0, 10, POBJ_HEADER_COMPACT, 0}, {100, 3, 10, POBJ_HEADER_COMPACT, 0},
            {100, 64, 10, POBJ_HEADER_NONE, 0}, {128, 0, 0, POBJ_HEADER_NONE, 0}, {128, 0, 10, MAX_POBJ_HEADER_TYPES, 0},
            {PMEMOBJ_MAX_ALLOC_SIZE + 1, 0, 10, POBJ_HEADER_NONE, 0}, {128, 128, 10, POBJ_HEADER_LEGACY, 0}};
        struct pobj_alloc_class_desc class = bad[below(COUNT(bad))];
        errno = 0;
        printf(" class %zu %zu %u %d", class.unit_size, class.alignment, class.units_per_block, class.header_type);
        int result = pmemobj_ctl_set(pop, "heap.alloc_class.250.desc", &class);
        show_result(result, errno);
        break;
    }
    case 6: {
        enum pobj_stats_enabled enabled = below(4), old = 0, got = 0;
        pmemobj_ctl_get(pop, "stats.enabled", &old);
        errno = 0;
        int result = pmemobj_ctl_set(pop, "stats.enabled", &enabled), error = errno;
        pmemobj_ctl_get(pop, "stats.enabled", &got);
        pmemobj_ctl_set(pop, "stats.enabled", &old);
        printf(" stats %d %d", got, old);
        show_result(result, error);
        break;
    }
    default: {
        static const char *const words[] = {"heap.narenas.automatic", "heap.narenas.total", "heap.narenas.max", "heap.thread.arena_id",
            "heap.arena.1.size", "heap.size.granularity", "stats.heap.curr_allocated", "stats.heap.run_allocated",
            "stats.heap.run_active", "heap.arenas_assignment_type", "heap.arenas_default_max", "tx.post_commit.queue_depth"};
        const char *name = words[below(COUNT(words))];
        uint64_t value[4] = {0};
        errno = 0;
        int result = pmemobj_ctl_get(pop, name, value);
        printf(" %s", name);
        show_result(result, errno);
    }
    }
}
