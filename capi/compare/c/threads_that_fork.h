/*
 * A process that forks while other threads of it call a library, again and again.
 *
 * Each child waits until the threads stand still, and then calls the library itself: only one process may change a pool. A child that
 * does not end is killed by its alarm.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds in which a child that does not hang has ended on any machine. */
#ifndef PATIENCE
#define PATIENCE 120
#endif

static atomic_int is_over, is_still, standing;

/* Calls `step` until the process has made its forks. Stands still while a child runs. */
static void run_steps(void (*step)(void))
{
    while (!is_over) {
        if (is_still) {
            standing++;
            while (is_still)
                usleep(10);
            standing--;
        }
        step();
    }
}

/* Forks so many times, while so many threads run. Returns the number of children that failed, and prints how the first of them ended. */
static int fork_again(int forks, int threads, int (*child)(int number))
{
    int failed = 0;
    for (int number = 0; number < forks; number++) {
        int go[2], status = -1;
        if (pipe(go) != 0)
            return -1;
        /* Another moment of the threads each time. */
        for (volatile int wait = 0; wait < number % 50 * 100; wait++)
            ;
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            close(go[1]);
            alarm(PATIENCE);
            if (read(go[0], &byte, 1) != 0)
                _exit(90);
            _exit(child(number));
        }
        is_still = 1;
        while (standing < threads)
            usleep(10);
        close(go[0]);
        close(go[1]);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            if (failed++ == 0)
                printf("child %d: status %d\n", number, status);
            /* One alarm is enough. */
            if (failed == 1)
                number = forks;
        }
        is_still = 0;
        while (standing > 0)
            usleep(10);
    }
    is_over = 1;
    return failed;
}

/* Runs threads, numbered from 0, and forks beside them, as fork_again does. Returns what it returns, when the threads have ended. */
static int fork_beside(long threads, void *(*run)(void *), int forks, int (*child)(int number))
{
    pthread_t started[16];
    /* A fork that hangs is a failure, too. */
    alarm(10 * PATIENCE);
    for (long index = 0; index < threads; index++)
        pthread_create(&started[index], NULL, run, (void *)index);
    int failed = fork_again(forks, (int)threads, child);
    for (long index = 0; index < threads; index++)
        pthread_join(started[index], NULL);
    return failed;
}
