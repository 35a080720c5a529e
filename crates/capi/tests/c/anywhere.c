/* A heap that lies wherever there is room, beside another one: positions in the place of pointers. Prints how often it was run. */
#include <perdure.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

struct item {
    uint64_t next; /* a position */
    long number;
};

int main(int argc, char **argv) {
    perdure *heap = NULL, *seen = NULL;
    perdure_options options = PERDURE_OPTIONS;
    options.flags |= PERDURE_ANYWHERE;
    check(argc == 2 && perdure_open(argv[1], &options, &heap) == 0, "open");
    uint64_t *first = (uint64_t *)perdure_root(heap, "first");
    if (!first) {
        first = (uint64_t *)perdure_calloc(heap, 1, sizeof *first);
        check(perdure_set_root(heap, "first", first) == 0 && perdure_commit(heap) == 0, "the beginning");
    }
    struct item *last = (struct item *)perdure_at(heap, *first);
    struct item *item = (struct item *)perdure_calloc(heap, 1, sizeof *item);
    check(perdure_commit(heap) == 0, "a block");
    item->next = *first;
    item->number = last ? last->number + 1 : 1;
    *first = perdure_offset(heap, item);
    check(perdure_commit(heap) == 0, "commit");
    options.flags = PERDURE_SNAPSHOT | PERDURE_ANYWHERE;
    check(perdure_open(argv[1], &options, &seen) == 0, "a snapshot beside it");
    uint64_t *first_seen = (uint64_t *)perdure_root(seen, "first");
    check(first_seen != first && *first_seen == *first, "what the snapshot sees");
    long length = 0;
    for (struct item *i = (struct item *)perdure_at(seen, *first_seen); i; i = (struct item *)perdure_at(seen, i->next), length++)
        check(i->number == item->number - length, "an item");
    printf("%ld\n", length);
    return perdure_close(seen) || perdure_close(heap);
}
