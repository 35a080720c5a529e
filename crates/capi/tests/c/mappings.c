/* Knows nothing of perdure, and maps files in the ways that programs do. Arguments: the file, and what to do:
 *   twice     two mappings of one place, of which one goes, and pieces of them
 *   grows     one of several mappings, when others have gone
 *   advise    MADV_DONTNEED, which takes nothing from a shared mapping
 *   threads   ends while another thread stores; its last msync that returned is told
 *   access    of a descriptor that is for reading only
 *   forks     while other threads map, sync and unmap: the children end in the ordinary way
 *   library   another library's constructor and destructor (keeps_a_log.c) use a file */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 16

static int fd;

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        _exit(1);
    }
}

static char *map(off_t page, size_t pages) {
    char *mapped = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page * PAGE);
    check(mapped != MAP_FAILED, "mmap");
    return mapped;
}

static char in_file(off_t page) {
    char byte;
    check(pread(fd, &byte, 1, page * PAGE) == 1, "read");
    return byte;
}

static void twice(void) {
    char *a = map(0, PAGES), *b = map(0, PAGES), *c = map(4, 4);
    a[0] = 'a';
    check(b[0] == 'a', "both see it");
    check(munmap(a, PAGES * PAGE) == 0, "munmap");
    b[5 * PAGE] = 'b';
    check(c[PAGE] == 'b', "the third sees it");
    check(msync(b + 5 * PAGE, PAGE, MS_SYNC) == 0 && in_file(0) == 'a' && in_file(5) == 'b', "msync");
    /* Pieces: what is left of the second is pages 0 to 2 and 6 to 15, then the last of these; the third goes in the middle of it. */
    check(munmap(b + 3 * PAGE, 3 * PAGE) == 0, "munmap of a piece");
    b[0] = 'c';
    b[15 * PAGE] = 'd';
    check(munmap(c, 4 * PAGE) == 0, "munmap of the third");
    b[0]++;
    check(munmap(b, 12 * PAGE) == 0 && in_file(0) != 'd', "munmap of more pieces");
    char *grown = mremap(b + 12 * PAGE, 4 * PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    check(grown == b + 12 * PAGE, "mremap");
    check(munmap(b + 12 * PAGE, 2 * PAGE) == 0, "munmap of the rest");
    check(in_file(0) == 'd' && in_file(15) == 'd', "the last mapping is gone");
    check(munmap(b, PAGES * PAGE) == 0, "munmap of nothing");
}

/* Of two mappings the one goes that is named, and the other is still one, which may grow. */
static void grows(void) {
    char *a = map(0, 4), *b = map(2, 1), *c = map(0, 2);
    check(munmap(b, PAGE) == 0 && munmap(c, 2 * PAGE) == 0, "munmap");
    a = mremap(a, 4 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    check(a != MAP_FAILED, "mremap");
    a[9 * PAGE] = 'g';
    check(msync(a, PAGES * PAGE, MS_SYNC) == 0 && in_file(9) == 'g', "msync");
    check(munmap(a, PAGES * PAGE) == 0, "munmap of the last");
}

static void advise(void) {
    char *a = map(0, PAGES);
    memset(a, 'x', PAGES * PAGE);
    check(madvise(a, PAGES * PAGE, MADV_DONTNEED) == 0, "madvise");
    check(a[0] == 'x' && a[7 * PAGE] == 'x', "what was stored is there");
    check(msync(a, PAGES * PAGE, MS_SYNC) == 0 && in_file(7) == 'x', "msync");
    char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    private[0] = 'p';
    check(madvise(private, PAGE, MADV_DONTNEED) == 0 && private[0] == 0, "madvise of other memory");
}

/* mmap(2): "EACCES: MAP_SHARED was requested and PROT_WRITE is set, but fd is not open in read/write mode". */
static void access_of(const char *path) {
    for (int known = 0; known < 2; known++) {
        char *writable = known ? map(0, PAGES) : NULL;
        int only = open(path, O_RDONLY);
        errno = 0;
        void *refused = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, only, 0);
        check(refused == MAP_FAILED && errno == EACCES, "a mapping for writing of a file that is open for reading");
        close(only);
        only = open(path, O_WRONLY);
        errno = 0;
        refused = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, only, 0);
        check(refused == MAP_FAILED && errno == EACCES, "a mapping of a file that is open for writing");
        close(only);
        check(!writable || munmap(writable, PAGES * PAGE) == 0, "munmap");
    }
}

static void *store(void *memory) {
    volatile long *numbers = memory;
    for (;;) {
        long next = numbers[0] + 1;
        for (int i = 0; i < PAGES; i++)
            numbers[i * PAGE / sizeof *numbers] = next;
        /* After each that returned: a line, whole. */
        char line[32];
        if (msync(memory, PAGES * PAGE, MS_SYNC) == 0) {
            int length = snprintf(line, sizeof line, "%ld\n", next);
            check(write(STDOUT_FILENO, line, length) == length, "write");
        }
    }
    return NULL;
}

static void *scribble(void *memory) {
    for (volatile char *c = memory;; c[PAGE + 8]++)
        ;
    return NULL;
}

static void threads(void) {
    char *memory = map(0, PAGES);
    pthread_t thread[2];
    check(pthread_create(&thread[0], NULL, store, memory) == 0, "a thread");
    check(pthread_create(&thread[1], NULL, scribble, memory) == 0, "a thread");
    usleep(20000);
    exit(0);
}

static void *map_and_unmap(void *ends) {
    while (!__atomic_load_n((int *)ends, __ATOMIC_RELAXED)) {
        char *memory = map(0, PAGES);
        memory[0]++;
        check(msync(memory, PAGE, MS_SYNC) == 0, "msync");
        check(munmap(memory, PAGES * PAGE) == 0, "munmap");
    }
    return NULL;
}

static void forks(void) {
    char *memory = map(0, PAGES);
    int ends = 0;
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        check(pthread_create(&thread[i], NULL, map_and_unmap, &ends) == 0, "a thread");
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            memory[PAGE] = 'c'; /* its own */
            char *more = map(0, 1);
            check(munmap(more, PAGE) == 0, "munmap in a child");
            check(msync(memory, PAGE, MS_SYNC) == -1, "msync in a child");
            exit(0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, "a child");
    }
    __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    memory[0] = 'f';
    check(msync(memory, PAGE, MS_SYNC) == 0 && in_file(0) == 'f' && in_file(1) == 0, "only the parent's");
}

int main(int argc, char **argv) {
    check(argc == 3, "arguments");
    fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    check(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0, "open");
    if (!strcmp(argv[2], "twice"))
        twice();
    if (!strcmp(argv[2], "grows"))
        grows();
    if (!strcmp(argv[2], "advise"))
        advise();
    if (!strcmp(argv[2], "access"))
        access_of(argv[1]);
    if (!strcmp(argv[2], "threads"))
        threads();
    if (!strcmp(argv[2], "forks"))
        forks();
    if (!strcmp(argv[2], "library")) {
        void (*keep_a_log)(const char *path) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "keep_a_log");
        check(keep_a_log != NULL, "keeps_a_log.c is not preloaded");
        keep_a_log(argv[1]);
    }
    return 0;
}
