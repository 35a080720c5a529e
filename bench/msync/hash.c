/* A key-value store: a hash table with chains, the newest first in each; records lie in the nodes. The table's size is chosen when it is
 * made. A scan goes along the buckets. */
#include "memory.h"

struct node {
    ref next;
    uint64_t key;
    char record[RECORD_BYTES];
};

struct table {
    ref buckets;
    uint64_t bits;
    uint64_t count;
};

static ref root;

static unsigned bits_for(uint64_t records)
{
    unsigned bits = 4;
    while ((UINT64_C(1) << bits) < records)
        bits++;
    return bits;
}

static uint64_t bucket_of(uint64_t key, uint64_t bits)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits);
}

static void hash_open(const char *path, uint64_t records, bool fresh)
{
    memory_open(path, records, fresh);
    root = memory_root(sizeof(struct table));
    if (!fresh)
        return;
    unsigned bits = bits_for(records);
    size_t bytes = sizeof(ref) << bits;
    memory_begin();
    ref buckets = allocate(bytes);
    memset(at(buckets), 0, bytes);
    change(root, 0, sizeof(struct table));
    *(struct table *)at(root) = (struct table){.buckets = buckets, .bits = bits};
    memory_commit();
}

static struct node *find(uint64_t key, ref *found)
{
    const struct table *table = at(root);
    const ref *buckets = at(table->buckets);
    ref here = buckets[bucket_of(key, table->bits)];
    while (!leads_nowhere(here)) {
        struct node *node = at(here);
        if (node->key == key) {
            *found = here;
            return node;
        }
        here = node->next;
    }
    return NULL;
}

static bool hash_read(uint64_t key, char *record)
{
    ref found;
    const struct node *node = find(key, &found);
    if (!node)
        return false;
    memcpy(record, node->record, RECORD_BYTES);
    return true;
}

static void hash_insert(uint64_t key, const char *record)
{
    struct table *table = at(root);
    uint64_t bucket = bucket_of(key, table->bits);
    ref added = allocate(sizeof(struct node));
    struct node *node = at(added);
    ref *buckets = at(table->buckets);
    node->next = buckets[bucket];
    node->key = key;
    memcpy(node->record, record, RECORD_BYTES);
    change(table->buckets, bucket * sizeof(ref), sizeof(ref));
    buckets[bucket] = added;
    change(root, offsetof(struct table, count), sizeof table->count);
    table->count++;
}

static bool hash_update(uint64_t key, unsigned field, const char *bytes)
{
    ref found;
    struct node *node = find(key, &found);
    if (!node)
        return false;
    change(found, offsetof(struct node, record) + field * FIELD_BYTES, FIELD_BYTES);
    memcpy(node->record + field * FIELD_BYTES, bytes, FIELD_BYTES);
    return true;
}

static size_t hash_scan(uint64_t key, size_t count, char *records)
{
    const struct table *table = at(root);
    const ref *buckets = at(table->buckets);
    uint64_t bucket = bucket_of(key, table->bits), end = UINT64_C(1) << table->bits;
    ref here;
    if (!find(key, &here))
        return 0;
    for (size_t done = 0; ; ) {
        while (leads_nowhere(here)) {
            if (++bucket == end)
                return done;
            here = buckets[bucket];
        }
        const struct node *node = at(here);
        memcpy(records + done * RECORD_BYTES, node->record, RECORD_BYTES);
        if (++done == count)
            return done;
        here = node->next;
    }
}

static uint64_t hash_count(void)
{
    return ((struct table *)at(root))->count;
}

static uint64_t hash_rank(uint64_t key, uint64_t sequence)
{
    return bucket_of(key, ((struct table *)at(root))->bits) << 32 | (UINT32_MAX - sequence);
}

const struct store hash_store = {
    .name = "hash", .open = hash_open, .close = memory_close, .begin = memory_begin, .commit = memory_commit,
    .read = hash_read, .insert = hash_insert, .update = hash_update, .scan = hash_scan, .count = hash_count, .rank = hash_rank,
};
