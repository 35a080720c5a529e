/* Random pages of a file changed and made permanent at once, by clones and by libperdure, in turn.
 *
 *     file_commit FOLDER SECONDS PAGES BYTES
 *
 * Each round changes BYTES at a random place of each of PAGES pages of a file of 64 MiB, syncs it, and does the same with the other's file. Prints
 * microseconds of a round, medians: clones, a plain msync (atomic in no way), libperdure; and rounds. Compiled by cc the kernel tracks pages for
 * libperdure, compiled by perdure-cc stores mark their lines. */
#include "ficlone.h"
#include "rounds.h"

#include <fcntl.h>
#include <perdure.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, FILE_BYTES = 64 << 20 };

static void change(char *memory, int pages, size_t bytes) {
    for (int i = 0; i < pages; i++) {
        size_t at = chance(FILE_BYTES / PAGE) * PAGE + chance((PAGE - bytes) / 64 + 1) * 64;
        memset(memory + at, (int)chance(256), bytes);
        uint64_t other = chance(UINT64_MAX);
        memcpy(memory + at, &other, sizeof other); /* never what was there */
    }
}

static struct rounds clones, plain, ours;

/* The others, in a process of their own: what they ask of the kernel is unseen by code that marks its stores, and would count against ours. Does a round of
 * each for each byte that it reads. */
static void others(int orders, int answers, int pages, size_t bytes) {
    struct ficlone_file cloned, simple;
    ficlone_open(&cloned, "cloned", FILE_BYTES);
    ficlone_open(&simple, "simple", FILE_BYTES);
    for (size_t at = 0; at < FILE_BYTES; at += PAGE) {
        memset(cloned.memory + at, (int)(at >> 20), PAGE);
        memset(simple.memory + at, (int)(at >> 20), PAGE);
    }
    ficlone_sync(&cloned);
    ficlone_sync(&cloned);
    msync(simple.memory, FILE_BYTES, MS_SYNC);
    char order;
    while (read(orders, &order, 1) == 1) {
        double t0 = now_us();
        change(cloned.memory, pages, bytes);
        ficlone_sync(&cloned);
        double t1 = now_us();
        change(simple.memory, pages, bytes);
        if (msync(simple.memory, FILE_BYTES, MS_SYNC) != 0)
            err(1, "msync");
        double took[2] = {t1 - t0, now_us() - t1};
        if (write(answers, took, sizeof took) != sizeof took)
            err(1, "pipe");
    }
}

int main(int argc, char **argv) {
    if (argc != 5)
        errx(2, "file_commit FOLDER SECONDS PAGES BYTES");
    double seconds = atof(argv[2]);
    int pages = atoi(argv[3]);
    size_t bytes = strtoul(argv[4], NULL, 10);
    chance_state ^= (uint64_t)now_us();
    int orders[2], answers[2];
    if (chdir(argv[1]) != 0 || pipe(orders) != 0 || pipe(answers) != 0)
        err(1, "%s", argv[1]);
    if (fork() == 0) {
        close(orders[1]);
        others(orders[0], answers[1], pages, bytes);
        _exit(0);
    }
    close(answers[1]);
    close(orders[0]);
    int fd = open("ours", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *buffer = malloc(1 << 20);
    for (size_t at = 0; at < FILE_BYTES; at += 1 << 20) {
        memset(buffer, (int)(at >> 20), 1 << 20);
        if (pwrite(fd, buffer, 1 << 20, at) != 1 << 20)
            err(1, "ours");
    }
    perdure_file *file;
    if (fsync(fd) != 0 || perdure_file_open(fd, "ours", &file))
        errx(1, "ours: %s", perdure_message());
    char *memory = perdure_file_memory(file);
    double begun = 0;
    do {
        double took[2];
        if (write(orders[1], "", 1) != 1 || read(answers[0], took, sizeof took) != sizeof took)
            errx(1, "the others ended");
        double t0 = now_us();
        change(memory, pages, bytes);
        if (perdure_file_sync(file))
            errx(1, "ours: %s", perdure_message());
        double t1 = now_us();
        if (begun == 0) { /* the first round of all is not counted */
            begun = t1;
            continue;
        }
        note(&clones, took[0]);
        note(&plain, took[1]);
        note(&ours, t1 - t0);
    } while (now_us() - begun < seconds * 1e6);
    close(orders[1]);
    wait(NULL);
    printf("%.1f %.1f %.1f %zu\n", median(&clones), median(&plain), median(&ours), ours.count);
    return perdure_file_close(file) != PERDURE_OK;
}
