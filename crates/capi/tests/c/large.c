/* large HEAP: blocks of a GiB until the heap is larger than what is reserved for it at first; the last ones are as good as any. Exit status 77: the
 * file system cannot give space back, without which this would need all of it. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <perdure.h>
#include <unistd.h>

enum { BLOCKS = 67 };
static const size_t GIB = (size_t)1 << 30;

int main(int argc, char **argv) {
    perdure *heap;
    if (argc != 2 || perdure_open(argv[1], NULL, &heap))
        errx(1, "%s", perdure_message());
    int fd = open(argv[1], O_RDWR);
    char *block = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        block = (char *)perdure_malloc(heap, GIB - 8192);
        if (!block || perdure_commit(heap))
            errx(1, "block %d: %s", i, perdure_message());
        size_t at = (size_t)(block - (char *)perdure_at(heap, 4096)) + 4096;
        at = (at + 4095) / 4096 * 4096;
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, GIB - 16384) != 0)
            return 77;
        if (perdure_of(block) != heap || perdure_at(heap, perdure_offset(heap, block)) != block)
            errx(1, "block %d: its place is not known", i);
        if (i == BLOCKS - 2) {
            perdure_free(heap, block);
            if (perdure_usable_size(heap, block) != 0)
                errx(1, "block %d was not freed", i);
        }
    }
    block[5] = 'x';
    block = (char *)perdure_realloc(heap, block, GIB - 12288);
    if (!block || perdure_set_root(heap, "last", block) || perdure_commit(heap) || perdure_close(heap))
        errx(1, "%s", perdure_message());
    if (perdure_open(argv[1], NULL, &heap))
        errx(1, "%s", perdure_message());
    block = (char *)perdure_root(heap, "last");
    if (!block || block[5] != 'x')
        errx(1, "not what was committed");
    return perdure_close(heap);
}
