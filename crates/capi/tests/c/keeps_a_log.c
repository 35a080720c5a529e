/* A library that knows nothing of perdure: maps before main begins, and stores to a mapped file after main has ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *text;

__attribute__((constructor)) static void begin(void) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (munmap(memory, 4096) || (fsync(-1), fdatasync(-1), msync(memory, 0, MS_ASYNC)))
        abort();
}

void keep_a_log(const char *path) {
    int fd = open(path, O_RDWR);
    text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
}

__attribute__((destructor)) static void end(void) {
    if (text) {
        strcpy(text, "the end");
        if (msync(text, 4096, MS_SYNC))
            abort();
        strcpy(text + 100, "munmap");
        munmap(text, 4096);
    }
}
