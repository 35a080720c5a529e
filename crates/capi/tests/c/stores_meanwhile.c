/* A thread stores to a file's memory while another one syncs it, again and again: nothing that it stored is ever gone, and in the end the file has it all.
 * Where pages are tracked this is allowed. Arguments: a path, and how many stores; "fork": with a child, for which older states must be kept. */
#include <fcntl.h>
#include <perdure.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PAGES
#define PAGES 3000 /* -DPAGES=30000: more than are kept in memory once they are committed */
#endif
#define PAGE 4096
#define LINES 64

static unsigned char *memory;
static unsigned char shadow[PAGES][LINES]; /* what was stored last to the first byte of each line */
static long stores;
static int is_over;

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

static void holds_all(const unsigned char *bytes, const char *what) {
    for (int page = 0; page < PAGES; page++)
        for (int line = 0; line < LINES; line++)
            check(bytes[page * PAGE + line * 64] == shadow[page][line], what);
}

static void *store(void *nothing) {
    (void)nothing;
    unsigned seed = 1;
    for (long i = 0; i < stores; i++) {
        /* Often the same page, so that it is stored to while it is looked at. */
        int page = rand_r(&seed) % (rand_r(&seed) % 2 ? PAGES : 8), line = rand_r(&seed) % LINES;
        volatile unsigned char *at = memory + page * PAGE + line * 64;
        check(*at == shadow[page][line], "a store is gone");
        *at = ++shadow[page][line];
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    return nothing;
}

int main(int argc, char **argv) {
    check(argc >= 3, "arguments");
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    perdure_file *file;
    check(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0, "the file");
    check(perdure_file_open(fd, argv[1], &file) == 0, "open");
    memory = (unsigned char *)perdure_file_memory(file);
    pid_t child = argc > 3 ? fork() : 0;
    if (argc > 3 && child == 0) {
        pause();
        _exit(0);
    }
    stores = atol(argv[2]);
    pthread_t thread;
    check(pthread_create(&thread, NULL, store, NULL) == 0, "a thread");
    int syncs = 0;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        check(perdure_file_sync(file) == 0, "sync");
        syncs++;
    }
    pthread_join(thread, NULL);
    holds_all(memory, "a store is gone from memory");
    check(perdure_file_sync(file) == 0, "the last sync");
    if (child) /* it goes, and what waited for it comes to the file */
        check(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child, "the child's end");
    check(perdure_file_close(file) == 0, "close");
    static unsigned char found[PAGES * PAGE];
    check(pread(fd, found, sizeof found, 0) == (ssize_t)sizeof found, "read");
    holds_all(found, "a store is not in the file");
    printf("%d syncs\n", syncs);
    return 0;
}
