/* One line of a heap changed and committed durably, and 4 KiB written to a preallocated file and flushed, in turn.
 *
 *     line_commit FOLDER SECONDS
 *
 * Prints microseconds, medians: libperdure, pwrite and fdatasync, the middle half's ends of their ratios by pairs; and rounds. */
#include "rounds.h"

#include <fcntl.h>
#include <perdure.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK_BYTES = 16 << 20 };

static struct rounds ours, written, ratios;

int main(int argc, char **argv) {
    if (argc != 3)
        errx(2, "line_commit FOLDER SECONDS");
    if (chdir(argv[1]) != 0)
        err(1, "%s", argv[1]);
    double seconds = atof(argv[2]);
    perdure *heap;
    if (perdure_open("line.heap", NULL, &heap))
        errx(1, "%s", perdure_message());
    char *block = perdure_malloc(heap, BLOCK_BYTES);
    memset(block, 1, BLOCK_BYTES);
    if (perdure_commit(heap))
        errx(1, "%s", perdure_message());
    int fd = open("line.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    static char page[PAGE];
    for (int at = 0; at < BLOCK_BYTES; at += PAGE)
        if (pwrite(fd, page, PAGE, at) != PAGE)
            err(1, "line.file");
    if (fsync(fd) != 0)
        err(1, "line.file");
    for (double begun = now_us(); now_us() - begun < seconds * 1e6;) {
        double t0 = now_us();
        uint64_t value = chance(UINT64_MAX);
        memcpy(block + chance(BLOCK_BYTES / 64) * 64, &value, sizeof value);
        if (perdure_commit(heap))
            errx(1, "%s", perdure_message());
        double t1 = now_us();
        memcpy(page, &value, sizeof value);
        if (pwrite(fd, page, PAGE, chance(BLOCK_BYTES / PAGE) * PAGE) != PAGE || fdatasync(fd) != 0)
            err(1, "line.file");
        double t2 = now_us();
        note(&ours, t1 - t0);
        note(&written, t2 - t1);
        note(&ratios, (t1 - t0) / (t2 - t1));
    }
    median(&ratios);
    printf("%.1f %.1f %.3f %.3f %zu\n", median(&ours), median(&written), ratios.us[ratios.count / 4], ratios.us[ratios.count * 3 / 4], ours.count);
    return perdure_close(heap) != PERDURE_OK;
}
