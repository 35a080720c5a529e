/* A child sees the state of the fork for as long as it likes, whatever the parent commits, and cannot commit itself. */
#include <perdure.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 100000

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        _exit(1);
    }
}

static void fill(long *words, long n) {
    for (int i = 0; i < WORDS; i++)
        words[i] = n;
}

static int holds(const long *words, long n) {
    for (int i = 0; i < WORDS; i++)
        if (words[i] != n)
            return 0;
    return 1;
}

int main(int argc, char **argv) {
    perdure *heap = NULL;
    check(argc == 2 && perdure_open(argv[1], NULL, &heap) == 0, "open");
    long *words = perdure_malloc(heap, WORDS * sizeof *words);
    fill(words, 1);
    check(perdure_set_root(heap, "words", words) == 0 && perdure_commit(heap) == 0, "commit");
    words[0] = 5; /* not committed: the child has it, as of the fork */
    int to_child[2], to_parent[2];
    check(pipe(to_child) == 0 && pipe(to_parent) == 0, "pipes");
    char byte;
    pid_t child = fork();
    if (child == 0) {
        check(words[0] == 5, "what the parent had stored");
        check(perdure_commit(heap) == PERDURE_EREADONLY, "a child does not commit");
        check(write(to_parent[1], "x", 1) == 1 && read(to_child[0], &byte, 1) == 1, "talk");
        words[0] = 1;
        check(holds(words, 1), "the child keeps the state of the fork");
        fill(words, 9); /* private */
        check(perdure_malloc(heap, 100) != NULL, "a child may allocate for itself");
        check(perdure_abort(heap) == 0 && holds(words, 1), "back to the commit of the fork");
        check(perdure_close(heap) == 0, "close");
        _exit(0);
    }
    check(read(to_parent[0], &byte, 1) == 1, "talk");
    for (long n = 2; n < 30; n++) {
        fill(words, n);
        check(perdure_commit(heap) == 0, "commit");
    }
    check(write(to_child[1], "x", 1) == 1, "talk");
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    check(holds(words, 29), "the parent's own");
    fill(words, 30);
    check(perdure_commit(heap) == 0 && perdure_close(heap) == 0, "the end");
    /* The lock is gone with the close, although there was a child. */
    perdure_options impatient = PERDURE_OPTIONS;
    impatient.lock_wait_ms = 0;
    check(perdure_open(argv[1], &impatient, &heap) == 0, "open again");
    check(holds(perdure_root(heap, "words"), 30), "what was committed");
    return perdure_close(heap);
}
