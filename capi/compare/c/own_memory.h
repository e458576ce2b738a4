/*
 * Functions for memory that a program sets: they count, and refuse when they are told to.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static long made, freed, is_refusing;

static void *own_malloc(size_t size)
{
    if (is_refusing) {
        errno = ENOMEM;
        return NULL;
    }
    made++;
    return malloc(size);
}

static void own_free(void *start)
{
    freed += start != NULL;
    free(start);
}

static void *own_realloc(void *start, size_t size)
{
    if (is_refusing) {
        errno = ENOMEM;
        return NULL;
    }
    made += start == NULL;
    return realloc(start, size);
}

static char *own_strdup(const char *text)
{
    if (is_refusing) {
        errno = ENOMEM;
        return NULL;
    }
    made++;
    return strdup(text);
}
