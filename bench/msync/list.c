/* A linked list, the newest record first: everything is found by walking. */
#include "memory.h"

struct node {
    ref next;
    uint64_t key;
    char record[RECORD_BYTES];
};

struct list {
    ref first;
    uint64_t count;
};

static ref root;

static void list_open(const char *path, uint64_t records, bool fresh)
{
    memory_open(path, records, fresh);
    root = memory_root(sizeof(struct list));
}

static struct node *find(uint64_t key, ref *found)
{
    ref here = ((const struct list *)at(root))->first;
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

static bool list_read(uint64_t key, char *record)
{
    ref found;
    const struct node *node = find(key, &found);
    if (!node)
        return false;
    memcpy(record, node->record, RECORD_BYTES);
    return true;
}

static void list_insert(uint64_t key, const char *record)
{
    struct list *list = at(root);
    ref added = allocate(sizeof(struct node));
    struct node *node = at(added);
    node->next = list->first;
    node->key = key;
    memcpy(node->record, record, RECORD_BYTES);
    change(root, 0, sizeof *list);
    list->first = added;
    list->count++;
}

static bool list_update(uint64_t key, unsigned field, const char *bytes)
{
    ref found;
    struct node *node = find(key, &found);
    if (!node)
        return false;
    change(found, offsetof(struct node, record) + field * FIELD_BYTES, FIELD_BYTES);
    memcpy(node->record + field * FIELD_BYTES, bytes, FIELD_BYTES);
    return true;
}

static size_t list_scan(uint64_t key, size_t count, char *records)
{
    ref here;
    const struct node *node = find(key, &here);
    size_t done = 0;
    while (node) {
        memcpy(records + done * RECORD_BYTES, node->record, RECORD_BYTES);
        if (++done == count || leads_nowhere(node->next))
            break;
        node = at(node->next);
    }
    return done;
}

static uint64_t list_count(void)
{
    return ((struct list *)at(root))->count;
}

static uint64_t list_rank(uint64_t key, uint64_t sequence)
{
    (void)key;
    return UINT64_MAX - sequence;
}

const struct store list_store = {
    .name = "list", .open = list_open, .close = memory_close, .begin = memory_begin, .commit = memory_commit,
    .read = list_read, .insert = list_insert, .update = list_update, .scan = list_scan, .count = list_count, .rank = list_rank,
};
