/* Counts its own runs, and checks the promises of the malloc family on the way. */
#include <assert.h>
#include <errno.h>
#include <perdure.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                                        \
    do {                                                                                                                                   \
        if (!(what)) {                                                                                                                     \
            fprintf(stderr, "%s:%d: %s (errno %d, \"%s\")\n", __FILE__, __LINE__, #what, errno, perdure_message());                    \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

struct counter {
    long runs;
    struct counter *self;
    char text[100];
};

static int names(const char *name, void *pointer, void *context) {
    (void)pointer;
    strcat((char *)context, name);
    strcat((char *)context, " ");
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    perdure *heap;
    CHECK(perdure_open(argv[1], NULL, &heap) == PERDURE_OK);
    struct counter *counter = (struct counter *)perdure_root(heap, "counter");
    if (!counter) {
        CHECK(errno == 0);
        counter = (struct counter *)perdure_calloc(heap, 1, sizeof *counter);
        CHECK(counter && counter->runs == 0);
        counter->self = counter;
        CHECK(perdure_set_root(heap, "counter", counter) == PERDURE_OK);
    }
    CHECK(counter->self == counter); /* the same address in every process */
    CHECK(perdure_of(counter) == heap && perdure_of(&heap) == NULL);
    CHECK(perdure_at(heap, perdure_offset(heap, counter)) == counter);
    counter->runs++;
    snprintf(counter->text, sizeof counter->text, "run %ld", counter->runs);
    CHECK(perdure_commit(heap) == PERDURE_OK);
    printf("%s\n", counter->text);

    /* What is not committed is forgotten. */
    counter->runs = -1;
    CHECK(perdure_abort(heap) == PERDURE_OK);
    CHECK(counter->runs > 0);

    void *a = perdure_malloc(heap, 0), *b = perdure_malloc(heap, 0);
    CHECK(a && b && a != b);
    perdure_free(heap, a);
    perdure_free(heap, NULL);
    errno = 0;
    perdure_free(heap, a);
    CHECK(errno == EINVAL);
    errno = 0;
    perdure_free(heap, &heap);
    CHECK(errno == EINVAL && strstr(perdure_message(), "not in this heap"));
    for (size_t size = 1; size < 70000; size += size / 3 + 1) {
        char *p = (char *)perdure_malloc(heap, size);
        CHECK(p && (uintptr_t)p % 16 == 0 && perdure_usable_size(heap, p) >= size);
        memset(p, 7, size);
        p = (char *)perdure_realloc(heap, p, size * 3);
        CHECK(p && p[0] == 7 && p[size - 1] == 7);
        perdure_free(heap, p);
    }
    for (size_t alignment = 1; alignment <= 1 << 22; alignment *= 2) {
        void *p = perdure_aligned_alloc(heap, alignment, 100);
        CHECK(p && (uintptr_t)p % alignment == 0);
        perdure_free(heap, p);
    }
    CHECK(!perdure_aligned_alloc(heap, 24, 100) && errno == EINVAL);
    CHECK(!perdure_malloc(heap, (size_t)1 << 60) && errno == ENOMEM);
    CHECK(!perdure_malloc(heap, SIZE_MAX) && errno == ENOMEM);
    CHECK(!perdure_calloc(heap, SIZE_MAX / 2, 3) && errno == ENOMEM);

    perdure_ticket ticket = 0;
    CHECK(perdure_set_root(heap, "second", b) == PERDURE_OK);
    CHECK(perdure_commit_lazy(heap, &ticket) == PERDURE_OK && ticket > 0);
    CHECK(perdure_wait(heap, ticket) == PERDURE_OK);
    CHECK(perdure_wait(heap, ticket + 1) == PERDURE_EINVAL);
    perdure_stats stats = {.size = sizeof stats};
    CHECK(perdure_get_stats(heap, &stats) == PERDURE_OK && stats.durable >= ticket && stats.commits == ticket);
    CHECK(stats.address % 4096 == 0 && stats.heap_bytes > 0 && stats.live_blocks > 2);
    char found[100] = "";
    CHECK(perdure_each_root(heap, names, found) == 0 && !strcmp(found, "counter second "));
    CHECK(perdure_set_root(heap, "second", NULL) == PERDURE_OK && !perdure_root(heap, "second") && errno == 0);
    CHECK(perdure_set_root(heap, "elsewhere", &heap) == PERDURE_EINVAL);
    perdure_free(heap, b);
    CHECK(perdure_commit(heap) == PERDURE_OK);

    /* A second writer in the same process, another heap beside it, and a snapshot that may not lie at home. */
    perdure *other;
    perdure_options impatient = PERDURE_OPTIONS;
    impatient.lock_wait_ms = 10;
    CHECK(perdure_open(argv[1], &impatient, &other) == PERDURE_ELOCKED && !other);
    char path[4096];
    snprintf(path, sizeof path, "%s.other", argv[1]);
    CHECK(perdure_open(path, NULL, &other) == PERDURE_OK && other != heap);
    long *number = (long *)perdure_malloc(other, sizeof *number);
    *number = 42;
    CHECK(perdure_set_root(heap, "x", number) == PERDURE_EINVAL && perdure_of(number) == other);
    CHECK(perdure_commit(other) == PERDURE_OK && perdure_close(other) == PERDURE_OK);
    perdure_options snapshot = PERDURE_OPTIONS;
    snapshot.flags = PERDURE_SNAPSHOT;
    CHECK(perdure_open(argv[1], &snapshot, &other) == PERDURE_EADDRESS);
    snapshot.flags = PERDURE_SNAPSHOT | PERDURE_ANYWHERE;
    CHECK(perdure_open(argv[1], &snapshot, &other) == PERDURE_OK);
    struct counter *seen = (struct counter *)perdure_root(other, "counter");
    CHECK(seen && seen != counter && seen->runs == counter->runs);
    long before = seen->runs;
    counter->runs += 10;
    CHECK(perdure_commit(heap) == PERDURE_OK && seen->runs == before);
    seen->runs = 77;
    CHECK(perdure_commit(other) == PERDURE_EREADONLY);
    CHECK(perdure_abort(other) == PERDURE_OK && seen->runs == before);
    CHECK(perdure_close(other) == PERDURE_OK);
    counter->runs -= 10;
    CHECK(perdure_commit(heap) == PERDURE_OK);

    /* Errors. */
    CHECK(perdure_open("/nowhere/at/all", NULL, &other) == PERDURE_EIO && strstr(perdure_message(), "/nowhere"));
    CHECK(perdure_open(NULL, NULL, &other) == PERDURE_EINVAL && perdure_open(argv[1], NULL, NULL) == PERDURE_EINVAL);
    snprintf(path, sizeof path, "%s.text", argv[1]);
    FILE *text = fopen(path, "w");
    CHECK(text && fputs("not a heap\n", text) > 0 && fclose(text) == 0);
    CHECK(perdure_open(path, NULL, &other) == PERDURE_EFORMAT);
    perdure_options strange = PERDURE_OPTIONS;
    strange.flags = 1u << 20;
    CHECK(perdure_open(path, &strange, &other) == PERDURE_EINVAL);
    strange.flags = 0;
    snprintf(path, sizeof path, "%s.absent", argv[1]);
    CHECK(perdure_open(path, &strange, &other) == PERDURE_EABSENT);
    CHECK(!perdure_malloc(NULL, 1) && perdure_commit(NULL) == PERDURE_EINVAL && perdure_close(NULL) == PERDURE_OK);
    CHECK(strcmp(perdure_strerror(PERDURE_ELOCKED), perdure_strerror(999)));
    CHECK(perdure_close(heap) == PERDURE_OK);
    return 0;
}
