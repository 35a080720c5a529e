/* `{ n[$1]++ }` by hand: what a program made for this one question takes, as the limit that an AWK can be measured by.
 *
 * Usage: wordcount FILE [WORD]: how often WORD came, or without one the count of different words and the sum of the squares of
 * their counts.
 * Big blocks from read(2); words in one arena; an open-addressing table of 16-byte slots, which tell most strangers by their hash.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 18 };

struct slot {
    uint32_t hash, count; /* count 0: free */
    uint64_t word;        /* where in the arena: its length in 4 bytes, then itself */
};

static struct slot *table;
static size_t mask, used;
static char *arena;
static size_t arena_end, arena_size;

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "wordcount: out of memory\n");
        exit(2);
    }
    return memory;
}

static uint64_t hash_of(const char *word, size_t length) {
    uint64_t h = length * 0x9e3779b97f4a7c15u, part;
    while (length >= 8) {
        memcpy(&part, word, 8);
        h = (h ^ part) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
        word += 8;
        length -= 8;
    }
    part = 0;
    for (size_t i = 0; i < length; i++)
        part |= (uint64_t)(unsigned char)word[i] << (8 * i);
    h = (h ^ part) * 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
}

static void grow(void) {
    struct slot *old = table;
    const size_t old_size = old ? mask + 1 : 0;
    mask = old ? 2 * old_size - 1 : (1 << 16) - 1;
    table = must(calloc(mask + 1, sizeof *table));
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].count == 0)
            continue;
        size_t at = old[i].hash & mask;
        while (table[at].count)
            at = (at + 1) & mask;
        table[at] = old[i];
    }
    free(old);
}

static struct slot *find(const char *word, size_t length) {
    const uint32_t hash = (uint32_t)hash_of(word, length);
    size_t at = hash & mask;
    for (; table[at].count; at = (at + 1) & mask) {
        if (table[at].hash != hash)
            continue;
        uint32_t known;
        memcpy(&known, arena + table[at].word, sizeof known);
        if (known == length && memcmp(arena + table[at].word + sizeof known, word, length) == 0)
            break;
    }
    table[at].hash = hash;
    return &table[at];
}

static void add(const char *word, size_t length) {
    struct slot *slot = find(word, length);
    if (slot->count++)
        return;
    if (arena_size - arena_end < length + sizeof(uint32_t)) {
        arena_size = 2 * arena_size + length + (1 << 20);
        arena = must(realloc(arena, arena_size));
    }
    const uint32_t known = (uint32_t)length;
    slot->word = arena_end;
    memcpy(arena + arena_end, &known, sizeof known);
    memcpy(arena + arena_end + sizeof known, word, length);
    arena_end += length + sizeof known;
    if (++used > mask / 2)
        grow();
}

/* The first word of a line, as AWK has it: blanks around it do not count; of an empty line, the empty word. */
static void line(const char *start, const char *end) {
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    const char *stop = start;
    while (stop < end && *stop != ' ' && *stop != '\t')
        stop++;
    add(start, (size_t)(stop - start));
}

int main(int argc, char **argv) {
    const int file = argc >= 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0) {
        fprintf(stderr, "usage: wordcount FILE [WORD]\n");
        return 2;
    }
    size_t size = 2 * BLOCK, kept = 0;
    char *buffer = must(malloc(size));
    grow();
    for (ssize_t got; (got = read(file, buffer + kept, BLOCK)) > 0;) {
        const char *start = buffer, *const end = buffer + kept + got, *newline;
        while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
            line(start, newline);
            start = newline + 1;
        }
        kept = (size_t)(end - start);
        memmove(buffer, start, kept);
        if (size - kept < BLOCK) {
            size *= 2;
            buffer = must(realloc(buffer, size));
        }
    }
    if (kept)
        line(buffer, buffer + kept);
    if (argc >= 3) {
        printf("%u\n", find(argv[2], strlen(argv[2]))->count);
        return 0;
    }
    double squares = 0;
    for (size_t i = 0; i <= mask; i++)
        squares += (double)table[i].count * table[i].count;
    printf("%zu %.0f\n", used, squares);
    return 0;
}
