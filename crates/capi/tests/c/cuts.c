/* Works on a heap or a file, tells of each commit, and may be killed or lose power: what power_cuts.rs climbs over.
 *
 *     cuts heap|file work FOLDER SEED       tells on standard output, and goes on when each line was answered:
 *                                           found S, attempt S, reported, durable, flushed; S is the fingerprint of the content
 *     cuts heap|file inspect FOLDER         prints the fingerprint of what is there; 0: nothing
 *     cuts heap|file go_on FOLDER SEED      changes something, commits durably, prints the fingerprint
 *
 * PERDURE_VOLATILE_KILL_US: kills itself after so many microseconds. Compiled with -DLIES: a flush does nothing, which must be noticed.
 *
 * Threads change disjoint parts of the heap at the same time, in sections; what a commit must hold is known because nobody changes anything
 * while the fingerprint is taken. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <perdure.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef LIES
int fdatasync(int fd) { return fd < 0; }
int fsync(int fd) { return fd < 0; }
#endif

#define THREADS 3
#define NAMES 9
#ifndef FILE_BYTES
#define FILE_BYTES (300 * 1000)
#define LONGEST (60 * 1000) /* pieces, and stores to a file */
#define COMMITS 25          /* between opening and closing */
#endif

/* A list of pieces, by raw pointers. */
struct piece {
    struct piece *next;
    size_t length;
    unsigned char bytes[];
};

static perdure *heap;
static char path[4096];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, perdure_message());
    exit(1);
}

static void tell(const char *what) {
    char answer[100];
    puts(what);
    fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin))
        exit(0); /* the test is gone */
}

static void tell_state(const char *what, uint64_t state) {
    char text[100];
    snprintf(text, sizeof text, "%s %lu", what, (unsigned long)state);
    tell(text);
}

static uint64_t mixed(uint64_t state, const void *bytes, size_t length) {
    const unsigned char *b = (const unsigned char *)bytes;
    for (size_t i = 0; i < length; i++)
        state = (state ^ b[i]) * 0x100000001b3;
    return state ? state : 1;
}

static uint64_t drawn(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

/* ---- a heap ---- */

static const char *name_of(int i) {
    static const char *names[NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    return names[i];
}

static uint64_t heap_fingerprint(void) {
    uint64_t state = 1;
    for (int i = 0; i < NAMES; i++) {
        state = mixed(state, &i, sizeof i);
        for (const struct piece *p = (const struct piece *)perdure_root(heap, name_of(i)); p; p = p->next) {
            if (perdure_usable_size(heap, p) < sizeof *p + p->length)
                fail("a piece that is longer than its block");
            state = mixed(state, p->bytes, p->length);
        }
    }
    return state;
}

static void fill(struct piece *p, size_t from, uint64_t *seed) {
    for (size_t i = from; i < p->length; i++)
        p->bytes[i] = (unsigned char)drawn(seed);
}

static void change_list(const char *name, uint64_t *seed) {
    struct piece *first = (struct piece *)perdure_root(heap, name), *made;
    size_t length = drawn(seed) % 12 ? drawn(seed) % 300 : drawn(seed) % LONGEST;
    switch (drawn(seed) % 5) {
    case 0: /* a piece more in front */
        made = (struct piece *)perdure_malloc(heap, sizeof *made + length);
        if (!made)
            fail("malloc");
        made->next = first;
        made->length = length;
        fill(made, 0, seed);
        if (perdure_set_root(heap, name, made))
            fail("set_root");
        break;
    case 1: /* the first one less */
        if (first) {
            if (perdure_set_root(heap, name, first->next))
                fail("set_root");
            perdure_free(heap, first);
        }
        break;
    case 2: /* the first one longer or shorter */
        if (first) {
            size_t before = first->length;
            made = (struct piece *)perdure_realloc(heap, first, sizeof *first + length);
            if (!made)
                fail("realloc");
            made->length = length;
            fill(made, before, seed);
            if (perdure_set_root(heap, name, made))
                fail("set_root");
        }
        break;
    default: /* stores here and there */
        for (struct piece *p = first; p; p = p->next)
            if (p->length)
                p->bytes[drawn(seed) % p->length] ^= (unsigned char)drawn(seed);
    }
}

struct part {
    int thread;
    uint64_t seed;
    int commits; /* in the end, as all the others do at the same time */
};

static void *change_part(void *argument) {
    struct part *part = (struct part *)argument;
    for (int n = (int)(drawn(&part->seed) % 6); n >= 0; n--) {
        int mine = part->thread + THREADS * (int)(drawn(&part->seed) % (NAMES / THREADS));
        perdure_begin(heap);
        change_list(name_of(mine), &part->seed);
        perdure_end(heap);
    }
    return NULL;
}

static void *commit_too(void *argument) {
    (void)argument;
    if (perdure_commit(heap))
        fail("commit");
    return NULL;
}

static void *wait_for(void *ticket) {
    if (perdure_wait(heap, *(perdure_ticket *)ticket))
        fail("wait");
    return NULL;
}

static void in_threads(void *(*work)(void *), struct part *parts) {
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, work, &parts[t]))
            fail("a thread");
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

static void change_heap(uint64_t *seed) {
    struct part parts[THREADS];
    for (int t = 0; t < THREADS; t++) {
        parts[t].thread = t;
        parts[t].seed = drawn(seed) * 2 + 1;
    }
    in_threads(change_part, parts);
}

static void open_heap(unsigned flags) {
    perdure_options options = PERDURE_OPTIONS;
    options.flags = flags;
    if (perdure_open(path, &options, &heap))
        fail("open");
}

static void work_on_heap(uint64_t *seed) {
    for (int openings = 1 + (int)(drawn(seed) % 3); openings > 0; openings--) {
        if (access(path, F_OK)) {
            tell_state("found", 0);
            uint64_t blank = 1;
            for (int i = 0; i < NAMES; i++)
                blank = mixed(blank, &i, sizeof i);
            tell_state("attempt", blank);
            open_heap(PERDURE_CREATE);
            tell("durable");
        } else
            open_heap(0);
        tell_state("found", heap_fingerprint());
        struct part parts[THREADS];
        for (int commits = 1 + (int)(drawn(seed) % COMMITS); commits > 0; commits--) {
            change_heap(seed);
            if (drawn(seed) % 10 == 0) {
                if (perdure_abort(heap))
                    fail("abort");
                continue;
            }
            tell_state("attempt", heap_fingerprint());
            perdure_ticket ticket, next;
            pthread_t thread;
            switch (drawn(seed) % 5) {
            case 0:
                in_threads(commit_too, parts);
                tell("durable");
                break;
            case 1:
                if (perdure_commit_lazy(heap, NULL))
                    fail("a lazy commit");
                tell("reported");
                break;
            case 2:
                if (perdure_commit_lazy(heap, &ticket))
                    fail("a lazy commit");
                tell("reported");
                if (perdure_wait(heap, ticket))
                    fail("wait");
                tell("flushed");
                break;
            case 3: /* a thread waits for it while the next one is made: its flush is none of that one's */
                if (perdure_commit_lazy(heap, &ticket))
                    fail("a lazy commit");
                tell("reported");
                if (pthread_create(&thread, NULL, wait_for, &ticket))
                    fail("a thread");
                change_heap(seed);
                tell_state("attempt", heap_fingerprint());
                if (perdure_commit_lazy(heap, &next))
                    fail("a lazy commit");
                tell("reported");
                if (perdure_wait(heap, next))
                    fail("wait");
                tell("flushed");
                pthread_join(thread, NULL);
                break;
            default:
                if (perdure_commit(heap))
                    fail("commit");
                tell("durable");
            }
        }
        if (perdure_close(heap))
            fail("close");
        tell("flushed");
    }
}

/* ---- a file ---- */

static int fd;
static perdure_file *file;
static unsigned char *memory;

static void open_file(void) {
    fd = open(path, O_RDWR);
    if (fd < 0 || perdure_file_open(fd, path, &file))
        fail("open");
    memory = (unsigned char *)perdure_file_memory(file);
}

static void close_file(void) {
    static unsigned char seen[FILE_BYTES];
    uint64_t in_memory = mixed(1, memory, FILE_BYTES);
    if (perdure_file_close(file))
        fail("close");
    if (pread(fd, seen, FILE_BYTES, 0) != FILE_BYTES || mixed(1, seen, FILE_BYTES) != in_memory)
        fail("the file is not as it was in memory");
    close(fd);
}

static void change_file(uint64_t *seed) {
    for (int n = (int)(drawn(seed) % 40); n >= 0; n--) {
        size_t at = drawn(seed) % FILE_BYTES, length = drawn(seed) % 9 ? drawn(seed) % 100 : drawn(seed) % (LONGEST / 3);
        if (length > FILE_BYTES - at)
            length = FILE_BYTES - at;
        if (drawn(seed) % 2)
            memset(memory + at, (int)drawn(seed), length);
        else
            for (size_t i = 0; i < length; i++)
                memory[at + i] = (unsigned char)drawn(seed);
    }
}

static int is_there(void) {
    struct stat status;
    return stat(path, &status) == 0 && status.st_size == FILE_BYTES;
}

static void make_file(const char *folder) {
    int made = open(path, O_RDWR | O_CREAT, 0600), of_folder = open(folder, O_RDONLY);
    if (made < 0 || of_folder < 0 || ftruncate(made, FILE_BYTES) || fsync(made) || fsync(of_folder))
        fail("making the file");
    close(made);
    close(of_folder);
}

static void work_on_file(const char *folder, uint64_t *seed) {
    for (int openings = 1 + (int)(drawn(seed) % 3); openings > 0; openings--) {
        if (!is_there()) {
            static const unsigned char zeros[FILE_BYTES];
            tell_state("found", 0);
            tell_state("attempt", mixed(1, zeros, FILE_BYTES));
            make_file(folder);
            tell("durable");
        }
        open_file();
        tell_state("found", mixed(1, memory, FILE_BYTES));
        for (int syncs = 1 + (int)(drawn(seed) % COMMITS); syncs > 0; syncs--) {
            change_file(seed);
            if (drawn(seed) % 10 == 0) {
                if (perdure_file_abort(file))
                    fail("abort");
                continue;
            }
            tell_state("attempt", mixed(1, memory, FILE_BYTES));
            if (perdure_file_sync(file))
                fail("sync");
            tell("durable");
        }
        close_file();
    }
}

/* ---- */

static void kill_myself_later(void) {
    const char *told = getenv("PERDURE_VOLATILE_KILL_US");
    long us = told ? atol(told) : 0;
    if (!us)
        return;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    struct itimerspec when = {{0, 0}, {us / 1000000, us % 1000000 * 1000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
        fail("a timer");
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int is_heap = !strcmp(argv[1], "heap");
    snprintf(path, sizeof path, "%s/%s", argv[3], is_heap ? "a.heap" : "a.data");
    uint64_t seed = (argc > 4 ? strtoul(argv[4], NULL, 10) : 0) * 0x9E3779B97F4A7C15 | 1;
    if (!strcmp(argv[2], "work")) {
        kill_myself_later();
        if (is_heap)
            work_on_heap(&seed);
        else
            work_on_file(argv[3], &seed);
        return 0;
    }
    int goes_on = !strcmp(argv[2], "go_on");
    if (is_heap) {
        if (!goes_on && access(path, F_OK)) {
            puts("0");
            return 0;
        }
        open_heap(goes_on ? PERDURE_CREATE : 0);
        if (goes_on) {
            change_heap(&seed);
            if (perdure_commit(heap))
                fail("commit");
        }
        printf("%lu\n", (unsigned long)heap_fingerprint());
        /* Also a killed one is a good one. */
        return seed % 2 || !goes_on ? perdure_close(heap) : 0;
    }
    if (!is_there()) {
        if (!goes_on) {
            puts("0");
            return 0;
        }
        make_file(argv[3]);
    }
    open_file();
    if (goes_on) {
        change_file(&seed);
        if (perdure_file_sync(file))
            fail("sync");
    }
    printf("%lu\n", (unsigned long)mixed(1, memory, FILE_BYTES));
    if (seed % 2 || !goes_on)
        close_file();
    return 0;
}
