/* Threads that store to a failure-atomic file while another one synchronises it again and again: in the end the file must hold what memory held.
 * "stores_on FILE SYNCS". Tracked by pages: marks would need sections. */
#include "perdure.h"
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 8 << 12, THREADS = 2 };
static _Atomic unsigned long *words;
static atomic_bool is_over;

static void *store(void *seed)
{
    unsigned long x = (unsigned long)seed;
    for (unsigned long i = 1; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        atomic_store_explicit(&words[x % (BYTES / sizeof *words)], i, memory_order_relaxed);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    perdure_file *file;
    pthread_t threads[THREADS];
    int fd = argc < 3 ? -1 : open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, BYTES) || perdure_file_open(fd, argv[1], &file))
        errx(1, "%s", perdure_message());
    words = perdure_file_memory(file);
    for (unsigned long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, store, (void *)(88172645463325252ul + i));
    for (int i = atoi(argv[2]); i > 0; i--)
        if (perdure_file_sync(file))
            errx(1, "%s", perdure_message());
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    static char memory[BYTES], found[BYTES];
    memcpy(memory, (void *)words, BYTES);
    if (perdure_file_sync(file) || perdure_file_close(file))
        errx(1, "%s", perdure_message());
    if (pread(fd, found, BYTES, 0) != BYTES)
        err(1, "read");
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != found[i])
            errx(1, "byte %zu is not in the file", i);
    return 0;
}
