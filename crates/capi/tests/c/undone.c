/* undone HEAP: an abort undoes what was stored where instrumented code could not see it, and no later commit has it. */
#include <err.h>
#include <perdure.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 1 << 20 };

/* A compiler sees that memory may be stored to, and not where. */
static void store_unseen(char *at, char value) {
    __asm__ volatile("movb %1, (%0)" : : "r"(at), "q"(value) : "memory");
}

static void must(int code) {
    if (code != PERDURE_OK)
        errx(1, "%s", perdure_message());
}

static void look(const char *block, const char *when) {
    for (int at = 0; at < BYTES; at++)
        if (block[at] != (at == 40960 ? 'b' : 'a'))
            errx(1, "%s: byte %d is %c", when, at, block[at]);
}

int main(int argc, char **argv) {
    perdure *heap;
    if (argc != 2)
        return 2;
    must(perdure_open(argv[1], NULL, &heap));
    char *block = (char *)perdure_malloc(heap, BYTES);
    memset(block, 'a', BYTES);
    must(perdure_set_root(heap, "block", block));
    must(perdure_commit(heap));
    store_unseen(block + 12288, 'X');
    must(perdure_abort(heap));
    store_unseen(block + 40960, 'b');
    must(perdure_commit(heap));
    for (int round = 0; round < 3; round++) {
        store_unseen(block + 8192, 'X');
        must(perdure_abort(heap));
        look(block, "after an abort");
        block[3] = 'a';
        must(perdure_commit(heap));
    }
    store_unseen(block + 40960, 'b');
    must(perdure_commit(heap));
    must(perdure_close(heap));
    must(perdure_open(argv[1], NULL, &heap));
    look((char *)perdure_root(heap, "block"), "opened again");
    must(perdure_close(heap));
    return 0;
}
