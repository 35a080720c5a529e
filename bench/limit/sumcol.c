/* `-F'\t' '{ s += $N }'` by hand: what a program made for this one question takes, as the limit that an AWK can be measured by.
 *
 * Usage: sumcol FILE N: the sum of column N, whole numbers in decimal.
 * Big blocks from read(2); memchr finds tabs and newlines; digits are added up where they lie.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 18 };

static double number(const char *text, const char *end) {
    const int negative = text < end && *text == '-';
    long value = 0;
    for (text += negative; text < end && *text >= '0' && *text <= '9'; text++)
        value = 10 * value + (*text - '0');
    return (double)(negative ? -value : value);
}

static double column(const char *start, const char *end, int wanted) {
    while (--wanted > 0) {
        start = memchr(start, '\t', (size_t)(end - start));
        if (!start)
            return 0;
        start++;
    }
    return number(start, end);
}

int main(int argc, char **argv) {
    const int file = argc == 3 ? open(argv[1], O_RDONLY) : -1, wanted = argc == 3 ? atoi(argv[2]) : 0;
    if (file < 0 || wanted < 1) {
        fprintf(stderr, "usage: sumcol FILE N\n");
        return 2;
    }
    size_t size = 2 * BLOCK, kept = 0;
    char *buffer = malloc(size);
    double sum = 0;
    for (ssize_t got; buffer && (got = read(file, buffer + kept, BLOCK)) > 0;) {
        const char *start = buffer, *const end = buffer + kept + got, *newline;
        while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
            sum += column(start, newline, wanted);
            start = newline + 1;
        }
        kept = (size_t)(end - start);
        memmove(buffer, start, kept);
        if (size - kept < BLOCK) {
            size *= 2;
            buffer = realloc(buffer, size);
        }
    }
    if (!buffer) {
        fprintf(stderr, "sumcol: out of memory\n");
        return 2;
    }
    if (kept)
        sum += column(buffer, buffer + kept, wanted);
    printf("%.0f\n", sum);
    return 0;
}
