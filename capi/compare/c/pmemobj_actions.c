/* Reservations that one thread makes and another one publishes or cancels, and many actions at once. */
#include "obj_cases.h"
#include <pthread.h>

#define MANY 200

static struct pobj_action actions[3 * MANY];
static PMEMoid oids[3 * MANY];

static void show(const char *when)
{
    int objects = 0, sum = 0, words = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        objects++, sum += pmemobj_type_num(oid) == 2 ? *(int *)pmemobj_direct(oid) : 0;
    for (int at = 0; at < MANY; at++)
        words += (int)((uint64_t *)r)[at];
    printf("  %s: objects %d sum %d words %d\n", when, objects, sum, words);
}

static void finish(void)
{
    show("left");
    reopen();
    show("opened");
    pmemobj_close(pop);
    printf("  check %d\n", pmemobj_check(PATH, "x"));
}

static void in_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    pthread_create(&thread, NULL, body, argument);
    pthread_join(thread, NULL);
}

/* Objects of all sizes, each with its number. */
static void reserve(int from, int count)
{
    static const size_t sizes[] = {40, 200, 3000, 30000};
    for (int at = from; at < from + count; at++) {
        oids[at] = pmemobj_reserve(pop, &actions[at], sizes[at % 4], 2);
        if (OID_IS_NULL(oids[at])) {
            printf("  no object %d\n", at);
            continue;
        }
        *(int *)pmemobj_direct(oids[at]) = at + 1;
        pmemobj_persist(pop, pmemobj_direct(oids[at]), sizeof(int));
    }
}

static void set_words(int from, int count)
{
    for (int at = 0; at < count; at++)
        pmemobj_set_value(pop, &actions[from + at], (uint64_t *)r + at, 1000 + (uint64_t)at);
}

static void free_later(int from, int count)
{
    for (int at = 0; at < count; at++) {
        PMEMoid oid;
        pmemobj_zalloc(pop, &oid, 100, 2);
        *(int *)pmemobj_direct(oid) = 100000;
        pmemobj_defer_free(pop, oid, &actions[from + at]);
    }
}

static void publish(size_t from, size_t count)
{
    errno = 0;
    int result = pmemobj_publish(pop, actions + from, count);
    printf("  publish %zu = %d errno %d\n", count, result, result == 0 ? 0 : errno);
}

static void *reserve_some(void *count)
{
    reserve(0, (int)(long)count);
    return NULL;
}

static void *publish_some(void *count)
{
    publish(0, (size_t)count);
    return NULL;
}

static void *cancel_some(void *count)
{
    pmemobj_cancel(pop, actions, (size_t)count);
    return NULL;
}

static void publish_in_another_thread(void)
{
    reserve(0, 8);
    show("reserved");
    in_thread(publish_some, (void *)8);
    finish();
}

static void publish_what_a_gone_thread_reserved(void)
{
    in_thread(reserve_some, (void *)8);
    publish(0, 8);
    finish();
}

static void hand_from_thread_to_thread(void)
{
    in_thread(reserve_some, (void *)40);
    in_thread(publish_some, (void *)40);
    finish();
}

static void cancel_in_another_thread(void)
{
    in_thread(reserve_some, (void *)40);
    in_thread(cancel_some, (void *)40);
    show("cancelled");
    /* The space is there for others. */
    reserve(0, 40);
    publish(0, 40);
    finish();
}

static void publish_many_objects(void)
{
    reserve(0, MANY);
    publish(0, MANY);
    finish();
}

static void publish_many_words(void)
{
    set_words(0, MANY);
    show("noted");
    publish(0, MANY);
    finish();
}

static void publish_many_of_all_kinds(void)
{
    reserve(0, MANY);
    set_words(MANY, MANY);
    free_later(2 * MANY, MANY);
    show("noted");
    publish(0, 3 * MANY);
    finish();
}

static void publish_one_by_one_backwards(void)
{
    reserve(0, MANY);
    for (int at = MANY; at-- > 0;)
        if (pmemobj_publish(pop, actions + at, 1) != 0)
            printf("  publish %d\n", at);
    finish();
}

static void cancel_many_of_all_kinds(void)
{
    reserve(0, MANY);
    set_words(MANY, MANY);
    free_later(2 * MANY, MANY);
    pmemobj_cancel(pop, actions, 3 * MANY);
    finish();
}

static void publish_odd_and_cancel_even(void)
{
    reserve(0, MANY);
    for (int at = 0; at < MANY; at++) {
        if (at % 2)
            pmemobj_publish(pop, actions + at, 1);
        else
            pmemobj_cancel(pop, actions + at, 1);
    }
    finish();
}

static void publish_in_transactions(void)
{
    for (int is_aborted = 0; is_aborted < 2; is_aborted++) {
        reserve(0, MANY);
        set_words(MANY, MANY);
        free_later(2 * MANY, MANY);
        TX_BEGIN(pop) {
            printf("  publish %d\n", pmemobj_tx_publish(actions, 3 * MANY));
            if (is_aborted)
                pmemobj_tx_abort(17);
        } TX_ONABORT {
            printf("  aborted with %d\n", pmemobj_tx_errno());
        } TX_END
        show("done");
    }
    finish();
}

/* Reserved by one thread, published in the transaction of another one. */
static void *publish_in_transaction(void *count)
{
    TX_BEGIN(pop) {
        printf("  publish %d\n", pmemobj_tx_publish(actions, (size_t)count));
    } TX_END
    return NULL;
}

static void hand_to_transaction(void)
{
    reserve(0, 40);
    in_thread(publish_in_transaction, (void *)40);
    finish();
}

/* Reservations that no one publishes are none after an open. */
static void forget(void)
{
    reserve(0, 40);
    set_words(40, 40);
    free_later(80, 40);
    finish();
}

static void publish_none(void)
{
    publish(0, 0);
    pmemobj_cancel(pop, actions, 0);
    finish();
}

int main(void)
{
    static const struct obj_case cases[] = {
        {"publish in another thread", publish_in_another_thread},
        {"publish what a gone thread reserved", publish_what_a_gone_thread_reserved},
        {"hand from thread to thread", hand_from_thread_to_thread},
        {"cancel in another thread", cancel_in_another_thread},
        {"publish many objects", publish_many_objects},
        {"publish many words", publish_many_words},
        {"publish many of all kinds", publish_many_of_all_kinds},
        {"publish one by one backwards", publish_one_by_one_backwards},
        {"cancel many of all kinds", cancel_many_of_all_kinds},
        {"publish odd and cancel even", publish_odd_and_cancel_even},
        {"publish in transactions", publish_in_transactions},
        {"hand to transaction", hand_to_transaction},
        {"forget", forget},
        {"publish none", publish_none},
    };
    return run_cases(cases, COUNT(cases));
}
