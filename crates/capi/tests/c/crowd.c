/* The process is split while other threads are in the middle of everything: each child has a heap that it can use, and nothing that it waits for. */
#include <perdure.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define CHILDREN 60

static perdure *heap;
static int ends;

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        _exit(1);
    }
}

static void *work(void *commits) {
    long *count = perdure_calloc(heap, 1, sizeof *count);
    while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
        perdure_begin(heap);
        ++*count;
        perdure_end(heap);
        perdure_stats stats = {.size = sizeof stats};
        perdure_get_stats(heap, &stats);
        if (commits && *count % 100 == 0)
            check(perdure_commit_lazy(heap, NULL) == 0, "commit");
    }
    return NULL;
}

static void use_it(void) {
    alarm(60);
    perdure_begin(heap);
    void *block = perdure_malloc(heap, 100);
    perdure_end(heap);
    perdure_free(heap, block);
    perdure_stats stats = {.size = sizeof stats};
    check(block && perdure_get_stats(heap, &stats) == 0, "use it");
    check(perdure_commit(heap) == PERDURE_EREADONLY, "a child does not commit");
    check(perdure_close(heap) == 0, "close");
    _exit(0);
}

int main(int argc, char **argv) {
    check(argc == 2 && perdure_open(argv[1], NULL, &heap) == 0, "open");
    /* A section that is left by closing, and a heap at the same address after it, are two things. */
    perdure_begin(heap);
    perdure_begin(heap);
    check(perdure_close(heap) == 0, "close");
    check(perdure_open(argv[1], NULL, &heap) == 0, "open");
    perdure_end(heap);
    check(perdure_message()[0] == 'p', "no section is left");
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, (void *)(i % 2)) == 0, "a thread");
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0)
            use_it();
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, "a child");
    }
    __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(perdure_commit(heap) == 0 && perdure_close(heap) == 0, "the end");
    return 0;
}
