/* The input of the benchmark's rows, the same bytes every time (with one compiler: the order in which arguments are drawn is its
 * choice). random_words.c makes the pm-gawk manual's.
 *
 * Usage: generate KIND COUNT [FIRST] > file
 *   long    COUNT words, one a line, of 8 to 40 letters: 300,000 different ones, few of them often
 *   keys    lines FIRST to FIRST + COUNT of a log of names whose hot set drifts: nine of ten are from a window of 10,000 that moves
 *           on by one every ten lines, one is from anything that was ever in it
 *   tsv     COUNT lines: identifier, name, country, a whole number, a decimal fraction, date
 *   log     COUNT lines of a web server's log in the combined format
 *   prose   COUNT words of running text with capitals and punctuation, the n-th word of a vocabulary 1/n as frequent as the first
 *   csv     COUNT lines with quotes, commas within them and doubled quotes: identifier, name, remark, quantity, price
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static uint64_t draw(void) { return mix(state += 0x9e3779b97f4a7c15u); }
static long below(long n) { return (long)(draw() % (uint64_t)n); }
static double unit(void) { return (double)(draw() >> 11) * 0x1p-53; }

static void put(const char *text) { fputs(text, stdout); }

static void letters(uint64_t seed, int length) {
    for (int i = 0; i < length; i++) {
        if (i % 12 == 0)
            seed = mix(seed + 1);
        putchar('a' + (int)(seed % 26));
        seed /= 26;
    }
}

static void long_words(long count) {
    for (long i = 0; i < count; i++) {
        const double u = unit();
        const uint64_t word = mix((uint64_t)(300000 * u * u * u) + 1);
        letters(word, 8 + (int)(word % 33));
        putchar('\n');
    }
}

static void keys(long count, long first) {
    for (long line = first; line < first + count; line++) {
        state = (uint64_t)line * 0x632be59bd9b4e019u; /* so that a log can be made from its middle */
        const long base = line / 10, hot = 10000;
        const double u = unit();
        const long id = below(10) == 0 ? below(base + hot) : base + (long)((double)hot * u * u);
        const uint64_t name = mix((uint64_t)id + 1);
        printf("%s-%05lx.%lx\n", (const char *[]){"web", "db", "cache", "worker"}[name % 4], (unsigned long)id, (unsigned long)(name >> 40));
    }
}

static void tsv(long count) {
    static const char *const countries[] = {"Austria", "Brazil", "Canada", "Denmark", "Estonia", "France", "Ghana", "Hungary"};
    for (long i = 0; i < count; i++) {
        printf("%ld\t", 1000000 + i);
        letters(draw(), 4 + (int)below(9));
        printf("\t%s\t%ld\t%ld.%02ld\t2026-%02ld-%02ld\n", countries[below(8)], below(100000), below(10000), below(100), 1 + below(12), 1 + below(28));
    }
}

static void web_log(long count) {
    static const char *const methods[] = {"GET", "GET", "GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "DELETE"};
    static const char *const things[] = {"orders", "users", "items", "invoices", "search", "carts"};
    static const char *const agents[] = {
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        "curl/8.5.0",
        "Mozilla/5.0 (compatible; crawler/2.1; +http://example.org/bot.html)",
    };
    for (long i = 0; i < count; i++) {
        const long second = i / 20;
        printf("10.%ld.%ld.%ld - ", below(4), below(256), below(256));
        if (below(3) == 0)
            printf("user%ld", below(5000));
        else
            putchar('-');
        printf(" [20/Nov/2026:%02ld:%02ld:%02ld +0000] \"%s ", second / 3600 % 24, second / 60 % 60, second % 60, methods[below(10)]);
        if (below(4) == 0)
            printf("/static/%lx.css", (unsigned long)below(1 << 16));
        else
            printf("/api/v%ld/%s/%ld", 1 + below(3), things[below(6)], below(100000));
        if (below(5) == 0)
            printf("?page=%ld%s", below(40), below(8) == 0 ? "&debug=1" : "");
        const long outcome = below(1000);
        printf(" HTTP/%s\" %d %ld \"%s\" \"%s\"\n", below(3) ? "1.1" : "2.0",
               outcome < 900 ? 200 : outcome < 950 ? 304 : outcome < 990 ? 404 : outcome < 995 ? 500 : 503, 200 + below(60000),
               outcome >= 995 ? "upstream timeout" : below(2) ? "https://www.example.org/start" : "-", agents[below(4)]);
    }
}

static void prose(long count) {
    static const char *const starts[] = {"b", "br", "c", "ch", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "th", "w", ""};
    static const char *const middles[] = {"a", "e", "i", "o", "u", "ea", "ou", "ai"};
    static const char *const ends[] = {"", "n", "r", "s", "t", "nd", "ng", "ck", "l", ""};
    const double vocabulary = 60000;
    int column = 0, capital = 1;
    for (long i = 0; i < count; i++) {
        const long rank = (long)exp(unit() * log(vocabulary));
        uint64_t seed = mix((uint64_t)rank);
        char word[64] = "";
        /* Frequent words are short. */
        for (int syllables = rank < 100 ? 1 : rank < 5000 ? 2 : 3; syllables > 0; syllables--) {
            strcat(strcat(strcat(word, starts[seed % 20]), middles[seed / 20 % 8]), ends[seed / 160 % 10]);
            seed /= 1600;
        }
        if (capital && word[0] >= 'a')
            word[0] -= 'a' - 'A';
        capital = 0;
        put(word);
        column += (int)strlen(word) + 1;
        const long mark = below(100);
        if (mark < 8)
            putchar(",;:"[mark % 3]);
        else if (mark < 14) {
            putchar(".?!"[mark % 3]);
            capital = 1;
        }
        if (column > 64 || i + 1 == count) {
            putchar('\n');
            column = 0;
        } else
            putchar(' ');
    }
}

static void csv(long count) {
    for (long i = 0; i < count; i++) {
        printf("%ld,\"", 1000000 + i);
        letters(draw(), 4 + (int)below(8));
        put(", ");
        letters(draw(), 3 + (int)below(6));
        put("\",");
        switch (below(4)) {
        case 0:
            put("plain words without quotes");
            break;
        case 1:
            put("\"a size of 3\"\" and a length, both in inches\"");
            break;
        case 2:
            put("\"\"");
            break;
        default:
            put("\"called \"\"the second\"\", for a reason\"");
        }
        printf(below(2) ? ",\"%ld\",%ld.%02ld\n" : ",%ld,%ld.%02ld\n", below(100000), below(1000), below(100));
    }
}

int main(int argc, char **argv) {
    const char *kind = argc >= 3 ? argv[1] : "";
    const long count = argc >= 3 ? atol(argv[2]) : 0, first = argc >= 4 ? atol(argv[3]) : 0;
    state = 47;
    if (count <= 0)
        kind = "";
    if (strcmp(kind, "long") == 0)
        long_words(count);
    else if (strcmp(kind, "keys") == 0)
        keys(count, first);
    else if (strcmp(kind, "tsv") == 0)
        tsv(count);
    else if (strcmp(kind, "log") == 0)
        web_log(count);
    else if (strcmp(kind, "prose") == 0)
        prose(count);
    else if (strcmp(kind, "csv") == 0)
        csv(count);
    else {
        fprintf(stderr, "usage: generate long|keys|tsv|log|prose|csv COUNT [FIRST] > file\n");
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
