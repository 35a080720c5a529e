/* What the parts of the YCSB driver agree on: records, operations and stores.
 *
 * Core workloads of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010): records of ten fields of 100 bytes, found by a key that is a
 * hash of the record's number. The invariant: what is to be done follows from the seed and the counts alone, never from the store.
 */
#ifndef YCSB_H
#define YCSB_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 10, FIELD_BYTES = 100, RECORD_BYTES = FIELDS * FIELD_BYTES, SCAN_MAX = 100 };

/* Something that holds records: a structure in an engine's memory, or an engine with an interface of keys and values. Keys are there once. */
struct store {
    const char *name;
    void (*open)(const char *path, uint64_t records, bool fresh);
    void (*close)(void);
    /* Around changes: what is stored between the two becomes permanent with commit. Reads may come at any time. */
    void (*begin)(void);
    void (*commit)(void);
    bool (*read)(uint64_t key, char *record);
    void (*insert)(uint64_t key, const char *record);
    bool (*update)(uint64_t key, unsigned field, const char *bytes);
    /* Reads up to count records from that key on, in the store's order, one behind the other; gives how many there were. */
    size_t (*scan)(uint64_t key, size_t count, char *records);
    uint64_t (*count)(void);
    /* Where a key stands in the store's order, the sequence being how many were inserted before it; NULL if only the store knows. */
    uint64_t (*rank)(uint64_t key, uint64_t sequence);
};

enum kind { READ, UPDATE, INSERT, SCAN, READ_MODIFY_WRITE };

struct operation {
    uint64_t key;
    uint32_t number; /* of the record */
    uint8_t kind;
    uint8_t field;
    uint16_t length; /* of a scan */
};

/* ---- workload.c ---- */

uint64_t key_of(uint64_t number);
/* The operations of workload A to F on a store that holds that many records, drawn before any clock runs. */
void draw(char workload, uint64_t seed, uint64_t records, struct operation *operations, size_t count);

/* ---- values: places in a pool of random bytes, so that to make one costs nothing that is measured ---- */

enum { POOL_BYTES = 1 << 20 };
extern char value_pool[POOL_BYTES + RECORD_BYTES];
void fill_pool(uint64_t seed);
/* The value that the change with this stamp writes. */
static inline uint32_t value_place(uint64_t stamp)
{
    return (uint32_t)((stamp * UINT64_C(0x9e3779b97f4a7c15)) >> 44);
}
/* What a read gave, as a number: eight bytes of each field. */
static inline uint64_t digest(const char *record)
{
    uint64_t sum = 0;
    for (unsigned field = 0; field < FIELDS; field++) {
        uint64_t word;
        memcpy(&word, record + field * FIELD_BYTES + 46, sizeof word);
        sum += word * (2 * field + 1);
    }
    return sum;
}
/* The running checksum of all that was read. */
static inline uint64_t follow(uint64_t sum, uint64_t read)
{
    return sum * UINT64_C(0x5851f42d4c957f2d) + read;
}

/* ---- model.c: what a store must hold, kept another way ---- */

/* As the store is when it is loaded: records 0 to count, each stamped with its number. */
void model_load(const struct store *store, uint64_t count);
/* The checksum of these operations on what the model holds, which changes accordingly. 0 if the store's order is not known and one is a scan. */
uint64_t model_run(const struct operation *operations, size_t count, uint64_t stamp);
/* Every record of the store, byte for byte; says what is wrong and ends the program. */
void model_compare(const struct store *store);

/* Ends the program. */
#define fail(...) (fprintf(stderr, "ycsb: " __VA_ARGS__), fputc('\n', stderr), exit(1))

#endif
