/* Stores without a mark to the same line again and again: which code does so is told. Takes the heap's path and how often; from a second thread, too.
 * A store with a mark to another line stands beside it, by code that is not to be named. */
#include <perdure.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static perdure *heap;
static long *block;

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

__attribute__((noinline)) void forgets_the_mark(long value) { block[20] = value; }
__attribute__((noinline)) void forgets_it_in_a_thread(long value) { block[40] = value; }
__attribute__((noinline)) void has_a_mark(long value) {
    perdure_mark(&block[60], sizeof *block);
    block[60] = value;
}

static int turn; /* of the thread: odd */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void give_turn(int to) {
    pthread_mutex_lock(&lock);
    turn = to;
    pthread_cond_broadcast(&changed);
    while (turn == to)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *work(void *nothing) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (turn % 2 == 0)
            pthread_cond_wait(&changed, &lock);
        if (turn < 0)
            break;
        forgets_it_in_a_thread(turn);
        turn++;
        pthread_cond_broadcast(&changed);
    }
    turn = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return nothing;
}

int main(int argc, char **argv) {
    check(argc == 3 && perdure_open(argv[1], NULL, &heap) == 0, "open");
    block = (long *)perdure_calloc(heap, 100, sizeof *block);
    check(block && perdure_set_root(heap, "block", block) == 0 && perdure_commit(heap) == 0, "the block");
    pthread_t thread;
    check(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    for (int i = 0; i < atoi(argv[2]); i++) {
        forgets_the_mark(i + 1);
        has_a_mark(i + 1);
        give_turn(2 * i + 1);
        check(perdure_commit(heap) == 0, "commit");
    }
    give_turn(-1);
    pthread_join(thread, NULL);
    return perdure_close(heap);
}
