/* A program that asks for failure-atomic syncs of its own file: records of many kinds of stores, each followed by a sync. Arguments: the file, how many
 * records ("0": only looks); prints the number of each when its sync returned, or of the last one that is in the file. */
#include <fcntl.h>
#include <perdure.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS 500

struct part {
    int a, b;
    double c;
};

struct record {
    long number;
    struct part part, copy; /* assigned as a whole */
    unsigned bits : 5, more : 20;
    char text[90];
    _Bool flag;
    long sum; /* of all that is in it */
};

struct content {
    long count;
    struct record records[RECORDS];
};

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, perdure_message());
        exit(1);
    }
}

static long sum_of(const struct record *r) {
    unsigned long sum = r->number + r->part.a + r->part.b * 3 + (long)r->part.c + r->copy.a * 7 + r->bits + r->more + r->flag;
    for (int i = 0; r->text[i]; i++)
        sum = sum * 5 + r->text[i];
    return (long)sum;
}

static void make(struct record *r, long number) {
    r->number = number;
    r->part.a = (int)number;
    r->part.b = (int)(number * 7);
    r->part.c = (double)number / 2;
    r->copy = r->part;
    r->bits = number & 31;
    r->more = number & 0xfffff;
    snprintf(r->text, sizeof r->text, "record %ld of a kind that is longer than a line, to be sure of it", number);
    memset(r->text + 80, 0, 10);
    r->flag = number & 1;
    __atomic_store_n(&r->sum, sum_of(r), __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    struct stat status;
    check(fd >= 0 && fstat(fd, &status) == 0, "open");
    if (status.st_size == 0)
        check(ftruncate(fd, sizeof(struct content)) == 0, "ftruncate");
    perdure_file *file = NULL;
    check(perdure_file_open(fd, argv[1], &file) == 0, "perdure_file_open");
    struct content *content = (struct content *)perdure_file_memory(file);
    /* Each of the last records is whole, and one beside another. */
    for (long n = content->count; n > 0 && n > content->count - RECORDS; n--) {
        const struct record *r = &content->records[n % RECORDS];
        if (r->number != n || r->sum != sum_of(r)) {
            fprintf(stderr, "record %ld is %ld, sum %ld of %ld\n", n, r->number, sum_of(r), r->sum);
            return 4;
        }
    }
    long count = atol(argv[2]);
    if (!count)
        printf("%ld\n", content->count);
    for (long i = 0; i < count; i++) {
        long n = content->count + 1;
        make(&content->records[n % RECORDS], n);
        content->count = n;
        if (n % 10 == 0) {
            /* Not this one; then it, after all. */
            check(perdure_file_abort(file) == 0 && content->count == n - 1, "abort");
            make(&content->records[n % RECORDS], n);
            content->count = n;
        }
        check(perdure_file_sync(file) == 0, "sync");
        printf("%ld\n", n);
        fflush(stdout);
    }
    perdure_stats stats;
    stats.size = sizeof stats;
    check(perdure_file_get_stats(file, &stats) == 0 && stats.missed_lines == 0 && stats.commits >= (uint64_t)count, "stats");
    const char *expected = getenv("EXPECTED_TRACKING");
    if (expected && (uint64_t)atol(expected) != stats.tracking) {
        fprintf(stderr, "stores become known in way %lu, and not %s\n", (unsigned long)stats.tracking, expected);
        return 5;
    }
    check(perdure_file_close(file) == 0, "close");
    return 0;
}
