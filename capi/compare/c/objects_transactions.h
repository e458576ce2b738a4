/* Drawn transactions. What changes between setjmp and longjmp is static, or lies in the pool. */

static int transaction_depth;

static void transaction(void);

static void on_stage(PMEMobjpool *pool, enum pobj_tx_stage stage, void *argument)
{
    point();
    printf(" stage %d %d %d", stage, pool == pop, *(int *)argument);
}

/* Reserves an object, and stores its name in a slot by two more actions; or frees the object of a slot so. Returns their number. */
static int draw_actions(struct pobj_action *out)
{
    PMEMoid *slot = draw_slot(), reserved;
    if (slot == NULL)
        return 0;
    if (!OID_IS_NULL(*slot)) {
        printf(" free s%d", (int)(slot - root->slots));
        pmemobj_defer_free(pop, *slot, &out[0]);
        pmemobj_set_value(pop, &out[1], &slot->off, 0);
        pmemobj_set_value(pop, &out[2], &slot->pool_uuid_lo, 0);
        held |= 1u << (slot - root->slots);
        return 3;
    }
    size_t size = draw_reserved_size();
    uint64_t type = draw_type();
    printf(" reserve %zu %lu s%d", size, type, (int)(slot - root->slots));
    reserved = pmemobj_reserve(pop, &out[0], size, type);
    if (OID_IS_NULL(reserved)) {
        printf(" errno %d", errno);
        return 0;
    }
    fill(reserved, 1);
    show_object(reserved);
    pmemobj_set_value(pop, &out[1], &slot->pool_uuid_lo, reserved.pool_uuid_lo);
    pmemobj_set_value(pop, &out[2], &slot->off, reserved.off);
    held |= 1u << (slot - root->slots);
    return 3;
}

/* Adds a range and stores to it. */
static void add_range(void)
{
    static const uint64_t flags[] = {0, 0, POBJ_XADD_NO_FLUSH, POBJ_XADD_NO_SNAPSHOT, POBJ_XADD_ASSUME_INITIALIZED, 1u << 9};
    uint64_t flag = flags[below(COUNT(flags))];
    int result, has_abort = below(2) == 0;
    uint64_t used = flag | (has_abort ? 0 : POBJ_XADD_NO_ABORT);
    switch (below(6)) {
    case 0: {
        PMEMoid oid = draw_object();
        size_t usable = OID_IS_NULL(oid) ? 0 : pmemobj_alloc_usable_size(oid);
        size_t off = usable == 0 ? 0 : below(usable), len = usable == 0 ? 0 : below(usable - off + 1);
        printf(" add %s %zu %zu %lx", name_of(oid), off, len, used);
        if (OID_IS_NULL(oid))
            return;
        result = used == 0 ? pmemobj_tx_add_range(oid, off, len) : pmemobj_tx_xadd_range(oid, off, len, used);
        if (result == 0)
            memset((unsigned char *)pmemobj_direct(oid) + off, (int)below(256), len);
        break;
    }
    case 1: {
        static unsigned char outside[64];
        printf(" outside %lx", used);
        result = pmemobj_tx_xadd_range_direct(outside, sizeof(outside), used);
        break;
    }
    case 2: {
        uint64_t off = below(2) == 0 ? 64u << 20 : UINT64_MAX - 100;
        printf(" beyond %lu %lx", off, used);
        result = pmemobj_tx_xadd_range(root_oid, off, 10, used);
        break;
    }
    case 3: {
        uint64_t *word = &root->words[below(COUNT(root->words))];
        printf(" word %d %lx", (int)(word - root->words), used);
        result = pmemobj_tx_xadd_range_direct(word, 8, used);
        if (result == 0)
            *word = next();
        break;
    }
    default: {
        size_t off = below(BYTES), len = below(BYTES - off + 1);
        printf(" bytes %zu %zu %lx", off, len, used);
        result = used == 0 ? pmemobj_tx_add_range_direct(root->bytes + off, len)
                           : pmemobj_tx_xadd_range_direct(root->bytes + off, len, used);
        if (result == 0)
            memset(root->bytes + off, (int)below(256), len);
    }
    }
    printf(" = %d", result);
}

/* Allocates an object for a slot. */
static void allocate_in(PMEMoid *slot)
{
    static const char text[] = "some words of a text";
    size_t size = draw_size(), len = below(sizeof(text));
    uint64_t type = draw_type(), flags = draw_flags(1);
    wchar_t wide[32] = {0};
    PMEMoid oid;
    if (pmemobj_tx_add_range_direct(slot, sizeof(*slot)) != 0)
        return;
    for (size_t at = 0; at < len; at++)
        wide[at] = (wchar_t)(0x100 + at);
    uint64_t how = below(8);
    printf(" alloc %lu %zu %lu %lx", how, size, type, flags);
    switch (how) {
    case 0:
        oid = pmemobj_tx_alloc(size, type);
        break;
    case 1:
        oid = pmemobj_tx_zalloc(size, type);
        break;
    case 2:
        oid = pmemobj_tx_strdup(text + len, type);
        break;
    case 3:
        oid = pmemobj_tx_wcsdup(wide, type);
        break;
    case 4:
        oid = pmemobj_tx_xstrdup(below(4) == 0 ? NULL : text, type, flags);
        break;
    default:
        oid = pmemobj_tx_xalloc(size, type, flags);
    }
    if (OID_IS_NULL(oid)) {
        printf(" errno %d", errno);
        return;
    }
    if ((how == 2 && strcmp(pmemobj_direct(oid), text + len) != 0) || (how == 3 && wcscmp(pmemobj_direct(oid), wide) != 0))
        printf(" other text");
    *slot = oid;
    if (how == 1 || ((flags & POBJ_XALLOC_ZERO) && how > 3))
        show_object(oid);
    fill(oid, 0);
    show_object(oid);
}

static void change_in(PMEMoid *slot)
{
    PMEMoid oid = *slot;
    size_t size = draw_size(), before = pmemobj_alloc_usable_size(oid);
    uint64_t type = draw_type();
    if (pmemobj_tx_add_range_direct(slot, sizeof(*slot)) != 0)
        return;
    switch (below(4)) {
    case 0:
        printf(" free %s", name_of(oid));
        printf(" = %d", pmemobj_tx_free(oid));
        *slot = OID_NULL;
        return;
    case 1:
        printf(" xfree %s", name_of(oid));
        printf(" = %d", pmemobj_tx_xfree(oid, POBJ_XFREE_NO_ABORT));
        *slot = OID_NULL;
        return;
    case 2:
        printf(" realloc %s %zu %lu", name_of(oid), size, type);
        oid = pmemobj_tx_realloc(oid, size, type);
        break;
    default:
        printf(" zrealloc %s %zu %lu", name_of(oid), size, type);
        oid = pmemobj_tx_zrealloc(oid, size, type);
        if (!OID_IS_NULL(oid))
            show_object(oid);
    }
    if (OID_IS_NULL(oid) && size != 0) {
        printf(" errno %d", errno);
        return;
    }
    *slot = oid;
    if (OID_IS_NULL(oid))
        return;
    size_t after = pmemobj_alloc_usable_size(oid);
    /* What was not asked for is not copied. */
    printf(" %zu %016lx", after, hash(pmemobj_direct(oid), before < size ? before : size));
    if (same(oid, *slot) && pmemobj_tx_add_range(oid, 0, after) == 0)
        fill(oid, 0);
}

static void lock_in(void)
{
    uint64_t which = below(6);
    printf(" lock %lu", which);
    int result;
    switch (which) {
    case 0: case 1:
        result = pmemobj_tx_lock(TX_PARAM_MUTEX, &root->mutexes[which]);
        break;
    case 2:
        result = pmemobj_tx_lock(TX_PARAM_RWLOCK, &root->rwlock);
        break;
    case 3:
        result = pmemobj_tx_xlock(TX_PARAM_MUTEX, &root->mutexes[0], POBJ_XLOCK_NO_ABORT);
        break;
    case 4:
        result = pmemobj_tx_xlock(TX_PARAM_MUTEX, &root->mutexes[0], POBJ_XLOCK_NO_ABORT | 1u << 10);
        break;
    default:
        result = pmemobj_tx_xlock(TX_PARAM_RWLOCK, &root->rwlock, 1u << 10);
    }
    printf(" = %d", result);
}

static void publish_in(void)
{
    struct pobj_action own[3];
    unsigned before = held;
    int count = draw_actions(own);
    switch (below(3)) {
    case 0:
        printf(" publish = %d", pmemobj_tx_publish(own, (size_t)count));
        break;
    case 1:
        printf(" xpublish = %d", pmemobj_tx_xpublish(own, (size_t)count, POBJ_XPUBLISH_NO_ABORT));
        break;
    default:
        printf(" cancel");
        pmemobj_cancel(pop, own, (size_t)count);
        held = before;
    }
}

static void question_in(void)
{
    static int data;
    switch (below(4)) {
    case 0:
        printf(" stage %d errno %d", pmemobj_tx_stage(), pmemobj_tx_errno());
        break;
    case 1:
        pmemobj_tx_set_user_data(below(2) == 0 ? NULL : &data);
        break;
    case 2:
        printf(" data %d", pmemobj_tx_get_user_data() == &data);
        break;
    default:
        pmemobj_tx_set_failure_behavior(below(3) == 0 ? POBJ_TX_FAILURE_RETURN : POBJ_TX_FAILURE_ABORT);
        printf(" behaviour %d", pmemobj_tx_get_failure_behavior());
    }
}

/* Appends memory to a log. If it is much, the log need not grow for one change more. */
static void append_buffer(void)
{
    static const size_t sizes[] = {0, 63, 64, 100, 127, 128, 192, 1000, 20000, 20000, 20000};
    static unsigned char outside[256];
    size_t size = sizes[below(COUNT(sizes))], off = below(2) == 0 ? 0 : below(100);
    enum pobj_log_type log = below(2) == 0 ? TX_LOG_TYPE_SNAPSHOT : TX_LOG_TYPE_INTENT;
    uint64_t flags = below(3) == 0 ? 0 : POBJ_XLOG_APPEND_BUFFER_NO_ABORT | (below(8) == 0 ? 1u << 10 : 0);
    PMEMoid *buffer = &buffers[buffer_count];
    printf(" buffer %d %zu %zu %lx", log, size, off, flags);
    if (below(8) == 0) {
        printf(" outside = %d", pmemobj_tx_xlog_append_buffer(log, outside, sizeof(outside), flags));
        return;
    }
    if (buffer_count == COUNT(buffers) || pmemobj_alloc(pop, buffer, 20100, 99, NULL, NULL) != 0)
        return;
    buffer_count++;
    char *start = (char *)pmemobj_direct(*buffer) + off;
    int result = flags == 0 ? pmemobj_tx_log_append_buffer(log, start, size)
                            : pmemobj_tx_xlog_append_buffer(log, start, size, flags);
    printf(" = %d", result);
    if (result != 0 || size < 20000)
        return;
    printf(" fixed %d", pmemobj_tx_log_auto_alloc(log, 0));
    off = below(BYTES);
    printf(" add %zu = %d", off, pmemobj_tx_xadd_range_direct(root->bytes + off, BYTES - off, POBJ_XADD_NO_ABORT));
    memset(root->bytes + off, (int)below(256), BYTES - off);
    printf(" grows %d", pmemobj_tx_log_auto_alloc(log, 1));
}

/* A step within a transaction. Returns 0 if the transaction has ended by it. */
static int step_in(void)
{
    PMEMoid *slot = draw_slot();
    point();
    switch (below(17)) {
    case 0: case 1: case 2: case 3:
        add_range();
        return 1;
    case 4: case 5: case 6: case 7: case 8:
        if (slot != NULL && OID_IS_NULL(*slot))
            allocate_in(slot);
        else if (slot != NULL)
            change_in(slot);
        return 1;
    case 9:
        lock_in();
        return 1;
    case 10: case 11:
        publish_in();
        return 1;
    case 12:
        question_in();
        return 1;
    case 13:
        if (transaction_depth < 3)
            transaction();
        return 1;
    case 14:
        if (below(3) != 0)
            return 1;
        if (below(4) == 0) {
            printf(" commit");
            pmemobj_tx_commit();
            return 0;
        }
        int number = (int)below(3) * 7;
        printf(" abort %d", number);
        pmemobj_tx_abort(number);
        return 0;
    case 15:
        append_buffer();
        return 1;
    default: {
        /* An atomic change within the transaction, of bytes that no range has. */
        unsigned char buffer[16];
        memset(buffer, (int)below(256), sizeof(buffer));
        printf(" persist");
        pmemobj_memcpy_persist(pop, &root->words[below(14)], buffer, sizeof(buffer));
        return 1;
    }
    }
}

static void steps_in(void)
{
    for (uint64_t left = below(7); left > 0 && step_in(); left--)
        ;
}

/* Takes a transaction, in another one or alone. */
static void transaction(void)
{
    /* PMDK ends the process if a transaction has another callback, or another argument, than the one around it. */
    static int argument = 3;
    int how = (int)below(5);
    volatile int depth = transaction_depth;
    static unsigned held_before;
    if (depth == 0)
        held_before = held;
    printf(" begin %d {", how);
    transaction_depth++;
#define BODY                                                                                                           \
    {                                                                                                                  \
        steps_in();                                                                                                    \
    }                                                                                                                  \
    TX_ONCOMMIT { printf(" committed %d", pmemobj_tx_errno()); }                                                       \
    TX_ONABORT { printf(" aborted %d", pmemobj_tx_errno()); }                                                          \
    TX_FINALLY                                                                                                         \
    {                                                                                                                  \
        transaction_depth = depth;                                                                                     \
        printf(" finally %d }", pmemobj_tx_stage());                                                                   \
    }                                                                                                                  \
    TX_END
    switch (how) {
    case 0:
        TX_BEGIN_CB(pop, on_stage, &argument)
        BODY
        break;
    case 1:
        TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, &root->mutexes[1], TX_PARAM_RWLOCK, &root->rwlock)
        BODY
        break;
    default:
        TX_BEGIN(pop)
        BODY
    }
#undef BODY
    if (depth != 0)
        return;
    held = held_before;
    while (buffer_count > 0)
        pmemobj_free(&buffers[--buffer_count]);
}
