/* The input of the pm-gawk manual's experiment (section 4.6): characters picked uniformly with rand() from the 26 letters
 * followed by 42 '@' signs; '@' becomes a newline, and blank lines are left out. Seed 47, so with the GNU C library's rand()
 * everybody gets the same bytes.
 *
 * Usage: random_words BYTES > file
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static const char signs[] = "abcdefghijklmnopqrstuvwxyz@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
    const long count = argc == 2 ? atol(argv[1]) : 0;
    if (count <= 0) {
        fprintf(stderr, "usage: random_words BYTES > file\n");
        return 2;
    }
    srand(47);
    char last = '\n';
    for (long written = 0; written < count;) {
        char sign = signs[rand() % (int)(sizeof signs - 1)];
        if (sign == '@')
            sign = '\n';
        if (sign == '\n' && last == '\n')
            continue;
        putchar(sign);
        last = sign;
        written++;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
