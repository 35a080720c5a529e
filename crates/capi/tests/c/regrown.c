/* Knows nothing of perdure. Maps a file, stores here and there, cuts it and makes it longer again, and kills itself behind an msync; what was in
 * memory then must be in the file. Arguments: the file, and a seed, or "check". Each prints a number for the file's length and content. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64

static uint64_t drawn(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static void tell(const unsigned char *bytes, size_t length) {
    uint64_t state = 1;
    for (size_t i = 0; i < length; i++)
        state = (state ^ bytes[i]) * 0x100000001b3;
    printf("%zu bytes: %lx\n", length, (unsigned long)state);
    fflush(stdout);
}

int main(int argc, char **argv) {
    check(argc == 3, "arguments");
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    check(fd >= 0, "open");
    struct stat status;
    check(fstat(fd, &status) == 0, "stat");
    if (status.st_size == 0)
        check(ftruncate(fd, PAGES * PAGE) == 0, "the first length");
    unsigned char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(memory != MAP_FAILED, "mmap");
    check(fstat(fd, &status) == 0, "stat");
    size_t length = (size_t)status.st_size;
    if (!strcmp(argv[2], "check")) {
        static unsigned char seen[PAGES * PAGE];
        check(pread(fd, seen, length, 0) == (ssize_t)length && !memcmp(seen, memory, length), "the file is as in memory");
        tell(seen, length);
        return 0;
    }
    uint64_t seed = strtoul(argv[2], NULL, 10) * 0x9E3779B97F4A7C15 | 1;
    for (int steps = (int)(drawn(&seed) % 40); steps > 0; steps--) {
        switch (drawn(&seed) % 6) {
        case 0:
            length = 1 + drawn(&seed) % length;
            check((length % 2 ? truncate(argv[1], (off_t)length) : ftruncate(fd, (off_t)length)) == 0, "cut");
            break;
        case 1:
            length = PAGES * PAGE;
            check(ftruncate(fd, (off_t)length) == 0, "longer");
            break;
        case 2:
            check(msync(memory, length, MS_SYNC) == 0, "msync");
            break;
        default:
            for (int n = (int)(drawn(&seed) % 20); n >= 0; n--)
                memory[drawn(&seed) % length] = (unsigned char)drawn(&seed);
        }
    }
    check(msync(memory, length, MS_SYNC) == 0, "the last msync");
    tell(memory, length);
    raise(SIGKILL);
}
