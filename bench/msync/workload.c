/* Which record, which operation: the distributions and mixes of YCSB's core workloads.
 *
 * Zipfian numbers after Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB draws them.
 */
#include "ycsb.h"
#include <math.h>

static uint64_t state;

/* splitmix64 */
static uint64_t random_word(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double random_share(void)
{
    return (double)(random_word() >> 11) * 0x1p-53;
}

static uint64_t random_below(uint64_t end)
{
    return (uint64_t)(((unsigned __int128)random_word() * end) >> 64);
}

/* FNV-1a of the number's eight bytes, least first. */
static uint64_t scramble(uint64_t number)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 8; i++, number >>= 8)
        hash = (hash ^ (number & 255)) * UINT64_C(0x100000001b3);
    return hash;
}

/* Without the top bit: SQLite's integers have a sign. */
uint64_t key_of(uint64_t number)
{
    return scramble(number) >> 1;
}

static const double THETA = 0.99;

struct zipfian {
    uint64_t items;
    double zeta, zeta2, eta;
};

static void zipfian_eta(struct zipfian *it)
{
    it->eta = (1 - pow(2.0 / (double)it->items, 1 - THETA)) / (1 - it->zeta2 / it->zeta);
}

/* More items: the sum goes on from where it is. */
static void zipfian_grow(struct zipfian *it, uint64_t items)
{
    if (items == it->items)
        return;
    for (uint64_t i = it->items; i < items; i++)
        it->zeta += pow(1.0 / (double)(i + 1), THETA);
    it->items = items;
    it->zeta2 = 1 + pow(0.5, THETA);
    zipfian_eta(it);
}

static uint64_t zipfian_next(const struct zipfian *it)
{
    double u = random_share(), uz = u * it->zeta;
    if (uz < 1)
        return 0;
    if (uz < it->zeta2)
        return 1;
    uint64_t n = (uint64_t)((double)it->items * pow(it->eta * u - it->eta + 1, 1 / (1 - THETA)));
    return n < it->items ? n : it->items - 1;
}

struct mix {
    double read, update, insert, scan; /* the rest are reads with a write behind them */
};

static struct mix mix_of(char workload)
{
    switch (workload) {
    case 'A': return (struct mix){.read = 0.5, .update = 0.5};
    case 'B': return (struct mix){.read = 0.95, .update = 0.05};
    case 'C': return (struct mix){.read = 1};
    case 'D': return (struct mix){.read = 0.95, .insert = 0.05};
    case 'E': return (struct mix){.scan = 0.95, .insert = 0.05};
    case 'F': return (struct mix){.read = 0.5};
    }
    fail("no workload %c", workload);
}

void draw(char workload, uint64_t seed, uint64_t records, struct operation *operations, size_t count)
{
    struct mix mix = mix_of(workload);
    uint64_t known = records; /* as inserts go on */
    /* YCSB's scrambled numbers: over ten thousand million items whatever the store holds, with the sum of those as a constant; then a hash. */
    struct zipfian wide = {.items = UINT64_C(10000000000), .zeta = 26.46902820178302};
    wide.zeta2 = 1 + pow(0.5, THETA);
    zipfian_eta(&wide);
    struct zipfian latest = {0};
    /* Hashed to the numbers that there will be; those that are not there yet are drawn again. */
    uint64_t expected = records + (uint64_t)((double)count * mix.insert * 2);
    state = seed * UINT64_C(0xda942042e4dd58b5) + (uint64_t)workload;
    for (size_t i = 0; i < count; i++) {
        struct operation *it = &operations[i];
        double u = random_share();
        *it = (struct operation){.kind = READ_MODIFY_WRITE};
        if (u < mix.read)
            it->kind = READ;
        else if (u < mix.read + mix.update)
            it->kind = UPDATE;
        else if (u < mix.read + mix.update + mix.insert)
            it->kind = INSERT;
        else if (u < mix.read + mix.update + mix.insert + mix.scan)
            it->kind = SCAN;
        uint64_t number;
        if (it->kind == INSERT) {
            number = known++;
        } else if (workload == 'D') {
            zipfian_grow(&latest, known);
            number = known - 1 - zipfian_next(&latest);
        } else {
            do
                number = scramble(zipfian_next(&wide)) % expected;
            while (number >= known);
        }
        it->number = (uint32_t)number;
        it->key = key_of(number);
        it->field = (uint8_t)random_below(FIELDS);
        it->length = (uint16_t)(1 + random_below(SCAN_MAX));
    }
}

char value_pool[POOL_BYTES + RECORD_BYTES];

void fill_pool(uint64_t seed)
{
    state = ~seed;
    for (size_t i = 0; i < sizeof value_pool; i++)
        value_pool[i] = (char)random_word();
}
