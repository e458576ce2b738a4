/*
 * Functions of the program that libpmemlog calls, and that do unusual things; one for each word:
 *
 *   throw      throws an exception out of a walk
 *   exit       ends the thread in a walk
 *   tell       asks for the length of the log that it walks
 *   append     appends to the log that it walks
 *   rewind     rewinds the log that it walks
 *   nested     walks the log that it walks
 *   malloc     calls the library from the function for memory, with pools that are opened, and calls that fail
 *
 * With a second word it goes on with calls that would wait for a walk that has not ended. The program prints what each call answered. It is
 * run on two libraries.
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <libpmemlog.h>
#include <map>
#include <pthread.h>
#include <string>
#include <unistd.h>

namespace {

PMEMlogpool *pool;
int calls;

int throwing(const void *, size_t, void *)
{
    if (++calls == 2)
        throw std::string("thrown");
    return 1;
}

int ending(const void *, size_t, void *)
{
    calls++;
    pthread_exit(&calls);
}

int telling(const void *, size_t len, void *)
{
    printf("%zu of %lld, %zu\n", len, pmemlog_tell(pool), pmemlog_nbyte(pool));
    return 1;
}

int appending(const void *, size_t, void *)
{
    calls++;
    printf("append %d\n", pmemlog_append(pool, "more", 4));
    return 1;
}

int rewinding(const void *, size_t, void *)
{
    calls++;
    errno = 0;
    pmemlog_rewind(pool);
    printf("errno %d %.40s\n", errno, pmemlog_errormsg());
    return 1;
}

int counting(const void *, size_t len, void *bytes)
{
    *static_cast<size_t *>(bytes) += len;
    return 1;
}

int walking(const void *, size_t, void *)
{
    size_t bytes = 0;
    pmemlog_walk(pool, 2, counting, &bytes);
    printf("nested %zu\n", bytes);
    return 1;
}

/* The calls after a walk: none of them waits for it. */
void after()
{
    size_t bytes = 0;
    printf("append %d\n", pmemlog_append(pool, "end", 3));
    pmemlog_walk(pool, 3, counting, &bytes);
    printf("tell %lld walk %zu\n", pmemlog_tell(pool), bytes);
    pmemlog_rewind(pool);
    printf("tell %lld\n", pmemlog_tell(pool));
}

void throw_out()
{
    try {
        pmemlog_walk(pool, 4, throwing, nullptr);
        printf("nothing was thrown\n");
    } catch (const std::string &text) {
        printf("%s in call %d\n", text.c_str(), calls);
    }
}

void *walk_and_end(void *)
{
    pmemlog_walk(pool, 4, ending, nullptr);
    return nullptr;
}

void end_thread()
{
    pthread_t thread;
    void *result = nullptr;
    pthread_create(&thread, nullptr, walk_and_end, nullptr);
    pthread_join(thread, &result);
    printf("ended %d in call %d\n", result == &calls, calls);
}

/* Set while a function for memory calls the library, which may ask for memory. */
thread_local bool is_inside;
int inner;

void *calling_malloc(size_t size)
{
    if (!is_inside) {
        is_inside = true;
        inner += pmemlog_errormsg() != nullptr;
        inner += pmemlog_check_version(1, 0) == nullptr;
        inner += pmemlog_check_version(9, 0) != nullptr;
        inner += pmemlog_check("missing") != 1;
        if (pool != nullptr) {
            size_t bytes = 0;
            inner += pmemlog_tell(pool) >= 0;
            pmemlog_walk(pool, 0, counting, &bytes);
        }
        is_inside = false;
    }
    return malloc(size);
}

void *calling_realloc(void *start, size_t size)
{
    return start == nullptr ? calling_malloc(size) : realloc(start, size);
}

char *calling_strdup(const char *text)
{
    char *copy = static_cast<char *>(calling_malloc(strlen(text) + 1));
    return strcpy(copy, text);
}

void call_from_malloc()
{
    struct iovec parts[2] = {{const_cast<char *>("one"), 3}, {nullptr, 0}};
    pmemlog_set_funcs(calling_malloc, free, calling_realloc, calling_strdup);
    PMEMlogpool *other = pmemlog_create("other", PMEMLOG_MIN_POOL, 0600);
    printf("create %d\n", other != nullptr);
    if (other != nullptr)
        pmemlog_close(other);
    other = pmemlog_open("other");
    printf("open %d check %d\n", other != nullptr, pmemlog_check("missing"));
    if (other != nullptr)
        pmemlog_close(other);
    printf("appendv %d", pmemlog_appendv(pool, parts, 2));
    printf(" %d", pmemlog_append(pool, parts, PMEMLOG_MIN_POOL));
    printf(" open %d\n", pmemlog_open("missing") != nullptr);
    pmemlog_set_funcs(nullptr, nullptr, nullptr, nullptr);
    printf("calls %d\n", inner > 0);
}

void walk(int (*function)(const void *, size_t, void *))
{
    pmemlog_walk(pool, 5, function, nullptr);
}

} // namespace

int main(int count, char **arguments)
{
    const std::map<std::string, void (*)()> words = {
        {"throw", throw_out},
        {"exit", end_thread},
        {"tell", [] { walk(telling); }},
        {"append", [] { walk(appending); }},
        {"rewind", [] { walk(rewinding); }},
        {"nested", [] { walk(walking); }},
        {"malloc", call_from_malloc},
    };
    if (count < 2 || words.count(arguments[1]) == 0)
        return 2;
    /* A call that waits for itself. */
    alarm(60);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    unlink("pool");
    unlink("other");
    pool = pmemlog_create("pool", PMEMLOG_MIN_POOL, 0600);
    if (pool == nullptr || pmemlog_append(pool, "0123456789", 10) != 0)
        return 1;
    words.at(arguments[1])();
    if (count > 2)
        after();
    pmemlog_close(pool);
    return 0;
}
