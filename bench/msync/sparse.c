/* Large, mostly clean heaps: how long opening takes after a crash, and a commit.
 *
 *     sparse HEAP make GIB            a heap of so much, of which a page in 256 MiB was written
 *     sparse HEAP crash KIB durable|lazy
 *                                     commits of 16 lines each, anywhere, until so many KiB of journal were written; then is killed; prints the KiB
 *     sparse HEAP open                microseconds of opening it and of the first look at its root
 *     sparse HEAP scan SECONDS GIB    of commits of one line each (median, not flushed to any medium where HEAP lies in memory), having read GIB
 *                                     of its pages first; and of commits in which nothing changed
 */
#define _GNU_SOURCE /* fallocate */
#include "rounds.h"

#include <fcntl.h>
#include <perdure.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t GIB = (size_t)1 << 30;

struct blocks {
    size_t count;
    char *of[1024]; /* a GiB each */
};

static perdure *heap;

static void must(int code) {
    if (code)
        errx(1, "%s", perdure_message());
}

/* Space of a heap is reserved before it is handed out. It is given back here: what was not written reads as zeros without it too. */
static void make(const char *path, size_t gib) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
        err(1, "%s", path);
    struct blocks *blocks = perdure_calloc(heap, 1, sizeof *blocks);
    must(perdure_set_root(heap, "blocks", blocks));
    for (blocks->count = 0; blocks->count < gib; blocks->count++) {
        blocks->of[blocks->count] = perdure_malloc(heap, GIB - 4096);
        if (!blocks->of[blocks->count])
            errx(1, "%s", perdure_message());
        must(perdure_commit(heap));
        off_t at = (perdure_offset(heap, blocks->of[blocks->count]) + 4095) / 4096 * 4096;
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, GIB - 8192) != 0)
            err(1, "%s: giving space back", path);
        for (size_t i = 0; i < 4; i++)
            memset(blocks->of[blocks->count] + i * (GIB / 4), (int)i + 1, 4096);
    }
    must(perdure_commit(heap));
    close(fd);
}

static void crash(struct blocks *blocks, size_t kib, int lazy) {
    perdure_stats before = {.size = sizeof before}, now = before;
    must(perdure_get_stats(heap, &before));
    do {
        for (int i = 0; i < 16; i++) {
            uint64_t value = chance(UINT64_MAX);
            memcpy(blocks->of[chance(blocks->count)] + chance(GIB / 64 - 64) * 64, &value, sizeof value);
        }
        must(lazy ? perdure_commit_lazy(heap, NULL) : perdure_commit(heap));
        must(perdure_get_stats(heap, &now));
    } while (now.journal_bytes - before.journal_bytes < kib << 10);
    printf("%llu\n", (unsigned long long)(now.journal_bytes - before.journal_bytes) >> 10);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static struct rounds one, none;

static void scan(struct blocks *blocks, double seconds, double gib) {
    uint64_t sum = 0;
    for (size_t at = 0; at < gib * GIB; at += 4096)
        sum += (unsigned char)blocks->of[at / GIB % blocks->count][at % GIB];
    if (sum == 1)
        return;
    for (double begun = now_us(); now_us() - begun < seconds * 1e6;) {
        double t0 = now_us();
        uint64_t value = chance(UINT64_MAX);
        memcpy(blocks->of[chance(blocks->count)] + chance(4) * (GIB / 4), &value, sizeof value);
        must(perdure_commit(heap));
        double t1 = now_us();
        must(perdure_commit(heap));
        note(&one, t1 - t0);
        note(&none, now_us() - t1);
    }
    printf("%.1f %.1f %zu\n", median(&one), median(&none), one.count);
}

int main(int argc, char **argv) {
    if (argc < 3)
        errx(2, "sparse HEAP make|crash|open|scan ...");
    double t0 = now_us();
    must(perdure_open(argv[1], NULL, &heap));
    struct blocks *blocks = perdure_root(heap, "blocks");
    if (strcmp(argv[2], "open") == 0 && blocks) {
        char first = blocks->of[blocks->count - 1][0];
        printf("%.1f\n", now_us() - t0);
        if (!first)
            errx(1, "not what was committed");
    } else if (strcmp(argv[2], "make") == 0 && argc > 3)
        make(argv[1], strtoul(argv[3], NULL, 10));
    else if (strcmp(argv[2], "crash") == 0 && argc > 4 && blocks)
        crash(blocks, strtoul(argv[3], NULL, 10), strcmp(argv[4], "lazy") == 0);
    else if (strcmp(argv[2], "scan") == 0 && argc > 4 && blocks)
        scan(blocks, atof(argv[3]), atof(argv[4]));
    else
        errx(2, "nothing to do");
    must(perdure_close(heap));
}
