/*
 * The parts that the programs of libpmemlog and libpmemblk share for pool sets: set files, their parts, and their end.
 *
 * A part has an absolute path: by a descriptor of the process's folder, so that the messages of both libraries have the same one.
 */
#include <dirent.h>

#define SET "set"
/* The descriptor of the folder. The current folder is another one while PMDK reads a folder of parts. */
#define FOLDER 99
#define FOLDER_PATH "/proc/self/fd/99"

/* Parts of a set file that has all options of its sizes: $1 to $3 stand for sizes, and @ for the folder. */
static const char *const sound_sets[] = {"$1 @/q0\n$2 @/q1\n", "$1 @/q0\n$2 @/q1\n", "$1 @/q0\n$2 @/q1\n",
    "OPTION SINGLEHDR\n$1 @/q0\n$2 @/q1\n", "# a comment\n\n$1 @/q0\n$2 @/q1 # another\n$3 @/q2", "$1 @/q0\n",
    "OPTION SINGLEHDR\n$1 @/d\n"};
static const char *const odd_sets[] = {"OPTION NOHDRS\n$1 @/q0\n$2 @/q1\n", "OPTION NOHDRS SINGLEHDR\n$1 @/q0\n",
    "$1 @/q0\n$2 @/q1\nREPLICA\n$3 @/q2\n", "$1 @/q0\n$2 @/q1\nREPLICA host remote.set\n", "$1 @/q0\n$2 @/q0\n", "$2 @/q1\n$1 @/q0\n",
    "$2 @/q1\n", "$1 @/q0\n$2 @/set\n", "$1 @/q0\n$2 @/missing/q1\n", "$1 @/q0\n$2 @/d\n", "$1 @/d\n", "OPTION SINGLEHDR\n1M @/d\n",
    "OPTION SINGLEHDR\n$1 @/d\n$1 @/d\n", "$1 @/q0\n1M @/q1\n", "1M @/q0\n", "$1 @/q0\n$3 @/q1\n", "$1 @/q0\n$2 @/fifo\n", "$1 @/q0\n$2 @/loop\n",
    "$1 @/q0\n$2 @/x/\n", "", "$1\n", "$1 q0\n", "1X @/q0\n", "REPLICA\n$1 @/q0\n", "$1 @/q0\nREPLICA\n", "OPTION\n$1 @/q0\n",
    "OPTION x\n$1 @/q0\n", "$1 @/q0 x\n"};

/* PMDK's open of a set without headers follows a null pointer, and keeps its locks. */
static int has_no_headers;

/* Writes a set file, whose parts have these sizes. */
static void make_set(const char *const sizes[3])
{
    int is_sound = below(4) != 0;
    size_t index = (size_t)below(is_sound ? COUNT(sound_sets) : COUNT(odd_sets));
    const char *text = is_sound ? sound_sets[index] : odd_sets[index];
    printf("set %d %zu ", is_sound, index);
    has_no_headers = strstr(text, "NOHDRS") != NULL;
    if (fcntl(FOLDER, F_GETFD) < 0 && dup2(open(".", O_RDONLY | O_DIRECTORY), FOLDER) != FOLDER)
        exit(5);
    FILE *file = fopen(SET, "w");
    if (file == NULL)
        exit(5);
    fputs(below(40) == 0 ? "PMEMPOOLSET \n" : "PMEMPOOLSET\n", file);
    for (; *text != '\0'; text++) {
        if (*text == '$')
            fputs(sizes[*++text - '1'], file);
        else if (*text == '@')
            fputs(FOLDER_PATH, file);
        else
            fputc(*text, file);
    }
    fclose(file);
}

/* Makes a set file if there is none. */
static void need_set(const char *const sizes[3])
{
    if (access(SET, F_OK) != 0)
        make_set(sizes);
}

/* Removes the parts, of which a failed create leaves PMDK's headers. */
static void remove_parts(void)
{
    static const char *const parts[] = {"q0", "q1", "q2", "d/000000.pmem"};
    for (size_t part = 0; part < COUNT(parts); part++)
        unlink(parts[part]);
}

/* Makes or removes a part. */
static void change_part(const size_t *lens, size_t count)
{
    static const char *const parts[] = {"q0", "q1", "q2"};
    const char *name = parts[below(COUNT(parts))];
    size_t len = lens[below(count)];
    int is_removed = below(2) == 0, has_byte = below(3) == 0;
    printf("part %s %zu %d %d", name, is_removed ? 0 : len, is_removed, has_byte);
    if (is_removed)
        unlink(name);
    else
        make_sparse(name, len);
    int file = has_byte && !is_removed ? open(name, O_RDWR) : -1;
    if (file >= 0 && pwrite(file, "x", 1, 100) != 1)
        printf(" errno %d", errno);
    if (file >= 0)
        close(file);
}

/* Shows how many files there are: a library leaves none of its own. */
static void show_files(void)
{
    const char *const folders[] = {".", "d"};
    make_link();
    for (size_t folder = 0; folder < COUNT(folders); folder++) {
        int count = 0;
        DIR *entries = opendir(folders[folder]);
        while (entries != NULL && readdir(entries) != NULL)
            count++;
        if (entries != NULL)
            closedir(entries);
        printf(" files %d", count);
    }
}

static void remove_set(void)
{
    unlink(SET);
    remove_parts();
    has_no_headers = 0;
}
