/*
 * A program in C++ with a wrapper of its own over the C calls: transactions that commit or abort by scope, exceptions that leave them, typed
 * pointers, a list in the pool. Prints what the pool holds after each step.
 */
#include <libpmemobj.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace
{

struct pool_error : std::runtime_error {
    int number;
    explicit pool_error(const char *what) : std::runtime_error(what), number(errno) {}
};

/* A pool that is closed with its owner. */
using pool_handle = std::unique_ptr<PMEMobjpool, void (*)(PMEMobjpool *)>;

pool_handle make_pool(const char *path)
{
    PMEMobjpool *pop = pmemobj_create(path, "wrapper", 2 * PMEMOBJ_MIN_POOL, 0600);
    if (pop == nullptr)
        throw pool_error("create");
    return pool_handle(pop, pmemobj_close);
}

pool_handle open_pool(const char *path, const char *layout)
{
    PMEMobjpool *pop = pmemobj_open(path, layout);
    if (pop == nullptr)
        throw pool_error("open");
    return pool_handle(pop, pmemobj_close);
}

/* A transaction of a scope: an exception that leaves it aborts. */
class transaction {
public:
    template <typename... Locks> explicit transaction(PMEMobjpool *pop, Locks &...locks)
    {
        if (pmemobj_tx_begin(pop, nullptr, TX_PARAM_NONE) != 0) {
            int error = pmemobj_tx_errno();
            pmemobj_tx_end();
            errno = error;
            throw pool_error("begin");
        }
        int taken[] = {0, pmemobj_tx_lock(TX_PARAM_MUTEX, &locks)...};
        for (int error : taken)
            if (error != 0)
                leave();
    }

    transaction(const transaction &) = delete;
    transaction &operator=(const transaction &) = delete;

    ~transaction()
    {
        if (pmemobj_tx_stage() == TX_STAGE_WORK)
            pmemobj_tx_abort(ECANCELED);
        pmemobj_tx_end();
    }

    void commit()
    {
        pmemobj_tx_commit();
        if (pmemobj_tx_errno() != 0)
            throw pool_error("commit");
    }

    static void run(PMEMobjpool *pop, const std::function<void()> &work)
    {
        transaction tx(pop);
        work();
        tx.commit();
    }

private:
    static void leave()
    {
        pmemobj_tx_end();
        throw pool_error("lock");
    }
};

/* A number in the pool that transactions keep before its first change. */
template <typename T> class kept {
public:
    operator const T &() const { return value; }

    kept &operator=(const T &other)
    {
        if (pmemobj_tx_stage() == TX_STAGE_WORK && pmemobj_tx_add_range_direct(this, sizeof(*this)) != 0)
            throw pool_error("add range");
        value = other;
        return *this;
    }

private:
    T value;
};

template <typename T> class pointer {
public:
    T *get() const { return static_cast<T *>(pmemobj_direct(oid)); }
    T *operator->() const { return get(); }
    T &operator*() const { return *get(); }
    explicit operator bool() const { return !OID_IS_NULL(oid); }

    template <typename... Arguments> void make(Arguments &&...arguments)
    {
        PMEMoid made = pmemobj_tx_alloc(sizeof(T), type());
        if (OID_IS_NULL(made))
            throw std::bad_alloc();
        new (pmemobj_direct(made)) T(std::forward<Arguments>(arguments)...);
        assign(made);
    }

    void destroy()
    {
        get()->~T();
        if (pmemobj_tx_free(oid) != 0)
            throw pool_error("free");
        assign(OID_NULL);
    }

    static uint64_t type() { return sizeof(T); }

private:
    PMEMoid oid;

    void assign(PMEMoid other)
    {
        if (pmemobj_tx_add_range_direct(this, sizeof(*this)) != 0)
            throw pool_error("add range");
        oid = other;
    }
};

struct node {
    kept<int> value;
    pointer<node> next;
    explicit node(int start) : next() { value = start; }
};

struct content {
    kept<int> count;
    pointer<node> head;
    PMEMmutex lock;
    char bytes[1024];
};

/* The values of the list, and the number of objects. */
void show(PMEMobjpool *pop, const char *what, const content *all)
{
    int objects = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        objects++;
    std::printf("%s: count %d objects %d:", what, static_cast<int>(all->count), objects);
    for (const node *at = all->head ? all->head.get() : nullptr; at != nullptr; at = at->next ? at->next.get() : nullptr)
        std::printf(" %d", static_cast<int>(at->value));
    std::printf(" stage %d\n", pmemobj_tx_stage());
}

void push(content *all, int value)
{
    pointer<node> old = all->head;
    all->head.make(value);
    if (pmemobj_tx_add_range_direct(&all->head->next, sizeof(old)) != 0)
        throw pool_error("add range");
    std::memcpy(static_cast<void *>(&all->head->next), &old, sizeof(old));
    all->count = all->count + 1;
}

void pull(content *all)
{
    pointer<node> next = all->head->next;
    all->head.destroy();
    std::memcpy(static_cast<void *>(&all->head), &next, sizeof(next));
    all->count = all->count - 1;
}

/* A local object whose destructor runs while an exception leaves. */
struct witness {
    std::string &log;
    ~witness() { log += "w"; }
};

void throw_out(PMEMobjpool *pop, content *all)
{
    std::string log;
    try {
        witness outer{log};
        transaction::run(pop, [&] {
            witness inner{log};
            push(all, 100);
            throw std::logic_error("the program's own");
        });
    } catch (const std::logic_error &error) {
        std::printf("caught %s after %s errno %d\n", error.what(), log.c_str(), pmemobj_tx_errno());
    }
}

/* The inner transaction fails: its exception ends the outer one, too, though it is caught. */
void throw_out_of_nested(PMEMobjpool *pop, content *all)
{
    try {
        transaction outer(pop);
        push(all, 200);
        try {
            transaction inner(pop);
            push(all, 201);
            throw std::runtime_error("inner");
        } catch (const std::runtime_error &error) {
            std::printf("caught %s in stage %d\n", error.what(), pmemobj_tx_stage());
        }
        if (pmemobj_tx_stage() == TX_STAGE_WORK)
            push(all, 202);
    } catch (const std::exception &error) {
        std::printf("caught %s\n", error.what());
    }
    show(pop, "nested and aborted", all);
    transaction::run(pop, [&] {
        push(all, 203);
        transaction::run(pop, [&] { push(all, 204); });
    });
}

void run_out_of_memory(PMEMobjpool *pop, content *all)
{
    try {
        transaction::run(pop, [&] {
            for (int at = 0;; at++) {
                push(all, at);
                PMEMoid large = pmemobj_tx_alloc(1 << 20, 9);
                if (OID_IS_NULL(large))
                    throw std::bad_alloc();
            }
        });
    } catch (const std::bad_alloc &) {
        std::printf("no memory, errno %d\n", pmemobj_tx_errno());
    }
}

/* Many threads, each with transactions under the pool's lock, some of which throw. */
void run_threads(PMEMobjpool *pop, content *all)
{
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([=] {
            for (int at = 0; at < 100; at++) {
                try {
                    transaction tx(pop, all->lock);
                    push(all, thread);
                    if (at % 3 == 0)
                        throw at;
                    pull(all);
                    tx.commit();
                } catch (int) {
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

void clear(PMEMobjpool *pop, content *all)
{
    transaction::run(pop, [&] {
        while (all->head)
            pull(all);
    });
}

}

int main()
{
    try {
        open_pool("missing", "wrapper");
    } catch (const pool_error &error) {
        std::printf("%s errno %d\n", error.what(), error.number);
    }
    {
        pool_handle pop = make_pool("pool");
        content *all = static_cast<content *>(pmemobj_direct(pmemobj_root(pop.get(), sizeof(content))));
        for (int value = 1; value < 4; value++)
            transaction::run(pop.get(), [&] { push(all, value); });
        show(pop.get(), "three", all);
        throw_out(pop.get(), all);
        show(pop.get(), "thrown", all);
        throw_out_of_nested(pop.get(), all);
        show(pop.get(), "nested", all);
        run_out_of_memory(pop.get(), all);
        show(pop.get(), "no memory", all);
    }
    try {
        open_pool("pool", "another");
    } catch (const pool_error &error) {
        std::printf("%s errno %d\n", error.what(), error.number);
    }
    pool_handle pop = open_pool("pool", "wrapper");
    content *all = static_cast<content *>(pmemobj_direct(pmemobj_root(pop.get(), sizeof(content))));
    show(pop.get(), "opened", all);
    run_threads(pop.get(), all);
    show(pop.get(), "threads", all);
    clear(pop.get(), all);
    show(pop.get(), "cleared", all);
    pop.reset();
    std::printf("check %d\n", pmemobj_check("pool", "wrapper"));
    return 0;
}
