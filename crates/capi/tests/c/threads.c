/* Threads move amounts between accounts in sections, allocate, and commit; the sum is the same in every commit. Takes the heap's path and how many
 * moves; with a third argument it only looks. */
#include <perdure.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACCOUNTS 1000
#define THREADS 4
#define START 100

struct bank {
    long amounts[ACCOUNTS];
    uint64_t notes[THREADS]; /* position of a block that each thread replaces again and again */
    long moves[THREADS];
};

static perdure *heap;
static struct bank *bank;
static long moves;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, perdure_message());
    exit(1);
}

static void verify(const struct bank *b) {
    long sum = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        sum += __atomic_load_n(&b->amounts[i], __ATOMIC_RELAXED);
    if (sum != (long)ACCOUNTS * START) {
        fprintf(stderr, "the sum is %ld\n", sum);
        exit(1);
    }
    for (int t = 0; t < THREADS; t++)
        if (b->notes[t] && *(long *)perdure_at(heap, b->notes[t]) != b->moves[t]) {
            fprintf(stderr, "thread %d noted %ld after %ld moves\n", t, *(long *)perdure_at(heap, b->notes[t]), b->moves[t]);
            exit(1);
        }
}

static void *work(void *number) {
    int t = (int)(size_t)number;
    unsigned seed = 7 + t + 1000 * (unsigned)bank->moves[t];
    for (long i = 0; i < moves; i++) {
        perdure_begin(heap);
        int from = rand_r(&seed) % ACCOUNTS, to = rand_r(&seed) % ACCOUNTS;
        long amount = rand_r(&seed) % 10;
        __atomic_fetch_sub(&bank->amounts[from], amount, __ATOMIC_RELAXED);
        __atomic_fetch_add(&bank->amounts[to], amount, __ATOMIC_RELAXED);
        bank->moves[t]++;
        long *note = perdure_malloc(heap, sizeof *note * (1 + rand_r(&seed) % 50));
        if (!note)
            fail("malloc");
        *note = bank->moves[t];
        perdure_free(heap, perdure_at(heap, bank->notes[t]));
        bank->notes[t] = perdure_offset(heap, note);
        int inside = rand_r(&seed) % 2, how = rand_r(&seed) % 8;
        if (!inside)
            perdure_end(heap);
        if (how == 0 && perdure_commit(heap))
            fail("commit");
        if (how == 1 && perdure_commit_lazy(heap, NULL))
            fail("lazy commit");
        if (inside)
            perdure_end(heap);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    moves = atol(argv[2]);
    perdure_options options = PERDURE_OPTIONS;
    if (perdure_open(argv[1], &options, &heap))
        fail("open");
    bank = perdure_root(heap, "bank");
    if (!bank) {
        if (argc > 3)
            return 0;
        bank = perdure_calloc(heap, 1, sizeof *bank);
        for (int i = 0; i < ACCOUNTS; i++)
            bank->amounts[i] = START;
        perdure_set_root(heap, "bank", bank);
        if (perdure_commit(heap))
            fail("first commit");
    }
    verify(bank);
    if (argc > 3) {
        long sum = 0;
        for (int t = 0; t < THREADS; t++)
            sum += bank->moves[t];
        printf("%ld\n", sum);
        return perdure_close(heap);
    }
    printf("ready\n");
    fflush(stdout);
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    verify(bank);
    if (perdure_commit(heap) || perdure_close(heap))
        fail("the end");
    return 0;
}
