/* Threads call everything that any thread may call, at the same time: for ThreadSanitizer, which sees what is done to the same memory in no order.
 * Arguments: a folder, how many rounds each thread goes, and "free" if threads may store during another one's sync of a file. Compiled with -DRACE:
 * without sections, which must be noticed.
 *
 * Each thread has two counters that lie apart and change in one section, and a block that it replaces: in whatever is committed, and so
 * after an abort and in a snapshot, the counters are equal and the block says the same. */
#include <errno.h>
#include <fcntl.h>
#include <perdure.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 5
#define FILE_BYTES (64 << 10)

#ifdef RACE
#define perdure_begin(heap) (void)(heap)
#define perdure_end(heap) (void)(heap)
#endif

struct own {
    long first, apart[100], second;
    uint64_t block;
};

struct all {
    struct own own[THREADS];
    long sum; /* of all first counters; under the program's own lock */
};

static const char *folder;
static int rounds, is_free;
static perdure *heap;
static struct all *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static perdure_ticket newest;
static perdure_file *file;
static pthread_rwlock_t syncing = PTHREAD_RWLOCK_INITIALIZER; /* where storing and syncing exclude each other */

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

static void path_of(char *path, size_t size, const char *name, int number) {
    snprintf(path, size, "%s/%s.%d", folder, name, number);
}

static void is_whole(perdure *of, const struct all *content) {
    for (int i = 0; i < THREADS; i++) {
        const struct own *own = &content->own[i];
        check(own->first == own->second, "half a section");
        check(!own->block || *(long *)perdure_at(of, own->block) == own->first, "a block of another section");
    }
}

static void change(int number, unsigned *seed) {
    struct own *own = &all->own[number];
    perdure_begin(heap);
    own->first++;
    long *block = (long *)perdure_malloc(heap, sizeof *block * (1 + (size_t)rand_r(seed) % 100));
    check(block != NULL, "malloc");
    *block = own->first;
    perdure_free(heap, perdure_at(heap, own->block));
    own->block = perdure_offset(heap, block);
    pthread_mutex_lock(&lock);
    all->sum++;
    pthread_mutex_unlock(&lock);
    own->second++;
    if (rand_r(seed) % 8 == 0) /* consistent: commits need not wait for its end */
        check(perdure_commit_lazy(heap, NULL) == 0, "a lazy commit in a section");
    perdure_end(heap);
}

static void ask(int number) {
    perdure_stats stats = {.size = sizeof stats};
    check(perdure_get_stats(heap, &stats) == 0, "stats");
    char words[100];
    const void *places[4];
    if (perdure_missed(heap, places, 4))
        perdure_report(heap, words, sizeof words);
    check(perdure_of(&all->own[number]) == heap, "of");
    check(perdure_of(&number) == NULL, "of the stack");
    check(perdure_usable_size(heap, all) >= sizeof *all, "usable size");
    check(perdure_root(heap, "all") == all, "root");
    perdure_mark(&number, sizeof number);
}

static void name(int number, unsigned *seed) {
    char text[20];
    snprintf(text, sizeof text, "name %d", number);
    perdure_begin(heap);
    check(perdure_set_root(heap, text, rand_r(seed) % 2 ? &all->own[number] : NULL) == 0, "set_root");
    perdure_end(heap);
}

static void use_another_heap(int number) {
    char path[4096];
    path_of(path, sizeof path, "own", number);
    perdure *other;
    perdure_options options = PERDURE_OPTIONS;
    options.flags |= PERDURE_ANYWHERE; /* two homes may be one place */
    check(perdure_open(path, &options, &other) == 0, "another heap");
    uint64_t *count = (uint64_t *)perdure_root(other, "count");
    if (!count) {
        count = (uint64_t *)perdure_calloc(other, 1, sizeof *count);
        check(count && perdure_set_root(other, "count", count) == 0, "its root");
    }
    ++*count;
    check(perdure_commit(other) == 0, "its commit");
    ++*count;
    check(perdure_abort(other) == 0, "its abort");
    check(perdure_close(other) == 0, "its close");
}

static void look_at_a_snapshot(void) {
    char path[4096];
    path_of(path, sizeof path, "heap", 0);
    perdure_options options = PERDURE_OPTIONS;
    options.flags = PERDURE_SNAPSHOT | PERDURE_ANYWHERE;
    perdure *snapshot;
    check(perdure_open(path, &options, &snapshot) == 0, "a snapshot");
    is_whole(snapshot, (const struct all *)perdure_root(snapshot, "all"));
    check(perdure_close(snapshot) == 0, "its close");
}

static void store_to_file(int number, unsigned *seed) {
    volatile unsigned char *memory = (volatile unsigned char *)perdure_file_memory(file);
    int part = FILE_BYTES / THREADS;
    if (!is_free)
        pthread_rwlock_rdlock(&syncing);
    for (int i = 0; i < 20; i++)
        memory[number * part + rand_r(seed) % part]++;
    if (!is_free)
        pthread_rwlock_unlock(&syncing);
    if (number == 0) {
        if (!is_free)
            pthread_rwlock_wrlock(&syncing);
        check(perdure_file_sync(file) == 0, "sync");
        if (!is_free)
            pthread_rwlock_unlock(&syncing);
    }
    perdure_stats stats = {.size = sizeof stats};
    check(perdure_file_get_stats(file, &stats) == 0, "a file's stats");
}

static void *work(void *argument) {
    int number = (int)(size_t)argument;
    unsigned seed = 77 + (unsigned)number;
    perdure_ticket ticket;
    for (int round = 0; round < rounds; round++) {
        change(number, &seed);
        switch (rand_r(&seed) % 12) {
        case 0:
            check(perdure_commit(heap) == 0, "commit");
            break;
        case 1:
        case 2: /* a ticket that another thread waits with */
            check(perdure_commit_lazy(heap, &ticket) == 0, "a lazy commit");
            __atomic_store_n(&newest, ticket, __ATOMIC_RELAXED);
            break;
        case 3:
            check(perdure_wait(heap, __atomic_load_n(&newest, __ATOMIC_RELAXED)) == 0, "wait");
            break;
        case 4:
            check(perdure_abort(heap) == 0, "abort");
            break;
        case 5:
            perdure_begin(heap);
            check(all->own[number].first == all->own[number].second, "half a section of its own");
            perdure_end(heap);
            break;
        case 6:
            name(number, &seed);
            break;
        case 7:
            if (round % 4 == 0)
                use_another_heap(number);
            break;
        case 8:
            if (round % 4 == 0)
                look_at_a_snapshot();
            break;
        case 9:
            check(perdure_malloc(heap, (size_t)1 << 60) == NULL && errno == ENOMEM, "more than there is");
            break;
        default:
            ask(number);
        }
        store_to_file(number, &seed);
    }
    return NULL;
}

static void open_file(void) {
    char path[4096];
    path_of(path, sizeof path, "file", 0);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    check(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0, "the file");
    check(perdure_file_open(fd, path, &file) == 0, "opening the file");
    close(fd);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    folder = argv[1];
    rounds = atoi(argv[2]);
    is_free = argc > 3;
    char path[4096];
    path_of(path, sizeof path, "heap", 0);
    check(perdure_open(path, NULL, &heap) == 0, "open");
    all = (struct all *)perdure_root(heap, "all");
    if (!all) {
        all = (struct all *)perdure_calloc(heap, 1, sizeof *all);
        check(all && perdure_set_root(heap, "all", all) == 0 && perdure_commit(heap) == 0, "the first commit");
    }
    open_file();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "a thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    is_whole(heap, all);
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += all->own[i].first;
    check(sum == all->sum, "the sum");
    check(perdure_file_sync(file) == 0 && perdure_file_close(file) == 0, "the file's end");
    check(perdure_commit(heap) == 0 && perdure_close(heap) == 0, "the end");
    printf("%ld\n", sum);
    return 0;
}
