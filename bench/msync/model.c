/* What a store must hold and what its reads must have given, after the same operations: arrays, without an engine beneath.
 *
 * The invariant: the ranks ascend, and each belongs to the record beside it.
 */
#include "ycsb.h"

struct placed {
    uint64_t rank;
    uint64_t number;
};

static uint32_t (*places)[FIELDS]; /* of each record's fields, in the pool */
static size_t records, room;
static struct placed *sorted;
static uint64_t (*rank_of)(uint64_t, uint64_t);

/* The first that stands not before this rank. */
static size_t find(uint64_t rank)
{
    size_t low = 0, high = records;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A record behind those that there are; its rank is not in its place yet. */
static struct placed *append(uint64_t number, uint64_t stamp)
{
    if (number != records)
        fail("record %zu comes before %" PRIu64, records, number);
    if (records == room) {
        room = room ? 2 * room : 1024;
        places = realloc(places, room * sizeof *places);
        sorted = realloc(sorted, room * sizeof *sorted);
        if (!places || !sorted)
            fail("no memory for the model");
    }
    for (unsigned field = 0; field < FIELDS; field++)
        places[number][field] = value_place(stamp) + field * FIELD_BYTES;
    sorted[records] = (struct placed){rank_of ? rank_of(key_of(number), number) : number, number};
    return &sorted[records++];
}

static int by_rank(const void *one, const void *other)
{
    uint64_t a = ((const struct placed *)one)->rank, b = ((const struct placed *)other)->rank;
    return (a > b) - (a < b);
}

void model_load(const struct store *store, uint64_t count)
{
    records = 0;
    rank_of = store->rank;
    for (uint64_t number = 0; number < count; number++)
        append(number, number);
    qsort(sorted, records, sizeof *sorted, by_rank);
}

static void insert(uint64_t number, uint64_t stamp)
{
    struct placed added = *append(number, stamp);
    records--; /* which find does not look at */
    size_t at = find(added.rank);
    memmove(sorted + at + 1, sorted + at, (records - at) * sizeof *sorted);
    sorted[at] = added;
    records++;
}

static uint64_t read_digest(uint64_t number)
{
    char record[RECORD_BYTES];
    for (unsigned field = 0; field < FIELDS; field++)
        memcpy(record + field * FIELD_BYTES, value_pool + places[number][field], FIELD_BYTES);
    return digest(record);
}

uint64_t model_run(const struct operation *operations, size_t count, uint64_t stamp)
{
    uint64_t sum = 0;
    bool known = true;
    for (size_t i = 0; i < count; i++) {
        const struct operation *it = &operations[i];
        switch (it->kind) {
        case READ_MODIFY_WRITE:
            sum = follow(sum, read_digest(it->number));
            /* fall through */
        case UPDATE:
            places[it->number][it->field] = value_place(stamp + i);
            break;
        case READ:
            sum = follow(sum, read_digest(it->number));
            break;
        case INSERT:
            insert(it->number, stamp + i);
            break;
        case SCAN:
            known = rank_of != NULL;
            if (known) {
                size_t at = find(rank_of(it->key, it->number));
                for (size_t end = at + it->length; at < end && at < records; at++)
                    sum = follow(sum, read_digest(sorted[at].number));
            }
            break;
        }
    }
    return known ? sum : 0;
}

void model_compare(const struct store *store)
{
    char record[RECORD_BYTES];
    if (store->count() != records)
        fail("%s holds %" PRIu64 " records; there are %zu", store->name, store->count(), records);
    for (uint64_t number = 0; number < records; number++) {
        if (!store->read(key_of(number), record))
            fail("%s has lost record %" PRIu64, store->name, number);
        for (unsigned field = 0; field < FIELDS; field++)
            if (memcmp(record + field * FIELD_BYTES, value_pool + places[number][field], FIELD_BYTES) != 0)
                fail("%s: field %u of record %" PRIu64 " is not what was stored", store->name, field, number);
    }
}
