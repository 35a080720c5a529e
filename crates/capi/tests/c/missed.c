/* Stores by hand with marks and without: what verify mode tells of those without. Takes the heap's path, and a number that changes what is stored. */
#include <perdure.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

int main(int argc, char **argv) {
    perdure *heap;
    check(argc == 3 && perdure_open(argv[1], NULL, &heap) == 0, "open");
    char *small = (char *)perdure_root(heap, "small"), *large = (char *)perdure_root(heap, "large");
    if (!small) {
        small = (char *)perdure_calloc(heap, 1, 300);
        large = (char *)perdure_calloc(heap, 1, 1000000);
        check(perdure_set_root(heap, "small", small) == 0 && perdure_set_root(heap, "large", large) == 0, "roots");
        check(perdure_commit(heap) == 0, "the first commit");
    }
    check(perdure_report(heap, NULL, 0) == 0 && perdure_missed(heap, NULL, 0) == 0, "nothing was missed yet");
    char with = (char)atoi(argv[2]);
    perdure_mark(small, 1);
    small[0] = with;
    check(perdure_commit(heap) == 0 && perdure_report(heap, NULL, 0) == 0, "what is marked is not missed");
    small[200] = large[700007] = with;
    check(perdure_commit(heap) == 0, "commit");
    const void *places[2];
    check(perdure_missed(heap, places, 2) == 2 && places[0] == small + 200 && places[1] == large + 700007, "two places");
    char text[1000], cut[20];
    size_t length = perdure_report(heap, text, sizeof text);
    check(length == strlen(text) && perdure_report(heap, cut, sizeof cut) == length && strlen(cut) == sizeof cut - 1, "lengths");
    check(!strncmp(cut, text, sizeof cut - 1), "the beginning");
    char expected[200];
    snprintf(expected, sizeof expected, "%p, position %lu: byte 700007 of the block of %lu bytes at %p\n", (void *)(large + 700007),
             (unsigned long)perdure_offset(heap, large + 700007), (unsigned long)perdure_usable_size(heap, large), (void *)large);
    check(strstr(text, expected) != NULL, expected);
    fputs(text, stdout);
    return perdure_close(heap);
}
