/* Knows nothing of perdure: maps a file MAP_SHARED, moves amounts between places of it, and calls msync. Arguments: the file, and what to do:
 *   run N      N transactions, each with an msync; prints the number of each when msync returned
 *   check      whether the sum holds, in the file as it can be read; prints the number of the transaction that it is as of
 *   grow       makes the file longer while it is mapped
 *   end HOW    stores without msync, and ends: exit, _exit, munmap */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES 6000
#define START 50

struct ledger {
    long transaction;
    long amounts[PLACES];
};

static void die(const char *what) {
    perror(what);
    exit(3);
}

static int sum_holds(const struct ledger *l) {
    long sum = 0;
    for (int i = 0; i < PLACES; i++)
        sum += l->amounts[i];
    return sum == (long)PLACES * START;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    struct stat status;
    if (fd < 0 || fstat(fd, &status))
        die("open");
    int is_new = status.st_size == 0;
    if (is_new && ftruncate(fd, sizeof(struct ledger)))
        die("ftruncate");
    struct ledger *l;
    if (!strcmp(argv[2], "check")) {
        /* Mapped once, so that what a crash left is made good, if anything was; then read as anybody reads. */
        l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (l == MAP_FAILED)
            die("mmap");
        if (munmap(l, sizeof *l))
            die("munmap");
        static struct ledger seen;
        if (pread(fd, &seen, sizeof seen, 0) != sizeof seen)
            die("read");
        if (seen.transaction && !sum_holds(&seen)) {
            fprintf(stderr, "the sum does not hold\n");
            return 4;
        }
        printf("%ld\n", seen.transaction);
        return 0;
    }
    l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (l == MAP_FAILED)
        die("mmap");
    struct ledger *again = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (again == MAP_FAILED)
        die("a second mmap");
    if (l->transaction == 0) {
        for (int i = 0; i < PLACES; i++)
            l->amounts[i] = START;
        l->transaction = 1;
        if (msync(l, sizeof *l, MS_SYNC))
            die("the first msync");
    }
    unsigned seed = 7 + (unsigned)l->transaction;
    if (!strcmp(argv[2], "run")) {
        long count = atol(argv[3]);
        for (long n = 0; n < count; n++) {
            for (int moves = 0; moves < 5; moves++) {
                int from = rand_r(&seed) % PLACES, to = rand_r(&seed) % PLACES;
                long amount = rand_r(&seed) % 9;
                l->amounts[from] -= amount;
                l->amounts[to] += amount;
            }
            l->transaction++;
            if (again->transaction != l->transaction)
                die("two mappings of one file differ");
            int synced = n % 3 == 2 ? fsync(fd) : msync(l, sizeof *l, MS_SYNC);
            if (synced)
                die("msync");
            printf("%ld\n", l->transaction);
            fflush(stdout);
        }
        return 0;
    }
    if (!strcmp(argv[2], "grow")) {
        size_t longer = sizeof *l + 100000;
        if (ftruncate(fd, longer))
            die("ftruncate");
        void *grown = mremap(l, sizeof *l, longer, MREMAP_MAYMOVE);
        if (grown == MAP_FAILED)
            die("mremap");
        memset((char *)grown + sizeof *l, 'x', 100000);
        if (msync(grown, longer, MS_SYNC) || munmap(grown, longer) || munmap(again, 4096))
            die("msync of what grew");
        char byte;
        if (pread(fd, &byte, 1, longer - 1) != 1 || byte != 'x')
            die("what grew is not in the file");
        if (ftruncate(fd, sizeof *l))
            die("ftruncate");
        return 0;
    }
    l->transaction += 1000;
    if (!strcmp(argv[3], "_exit"))
        _exit(0);
    if (!strcmp(argv[3], "munmap") && (munmap(again, 4096) || munmap(l, sizeof *l)))
        die("munmap");
    return 0;
}
