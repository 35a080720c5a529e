/* A B-tree whose leaves are linked: nodes of up to 15 keys; records lie in blocks of their own. Nothing is ever taken away (YCSB does not), so
 * there is only splitting, on the way down, of full nodes.
 *
 * The invariant: a node that is being descended into is not full; in a node, child i holds the keys that are less than keys[i] and
 * not less than keys[i - 1]. */
#include "memory.h"

enum { KEYS = 15, HALF = KEYS / 2 };

struct node {
    uint32_t count; /* of keys */
    uint32_t is_leaf;
    uint64_t keys[KEYS];
    /* A leaf: the records, and in the last place the next leaf. Otherwise: the children, one more than keys. */
    ref links[KEYS + 1];
};

struct tree {
    ref top;
    uint64_t count;
};

static ref root;

static void btree_open(const char *path, uint64_t records, bool fresh)
{
    memory_open(path, records, fresh);
    root = memory_root(sizeof(struct tree));
    if (!fresh)
        return;
    memory_begin();
    ref leaf = allocate(sizeof(struct node));
    memset(at(leaf), 0, sizeof(struct node));
    ((struct node *)at(leaf))->is_leaf = true;
    change(root, 0, sizeof(struct tree));
    ((struct tree *)at(root))->top = leaf;
    memory_commit();
}

/* The child that a key is under. */
static unsigned child_of(const struct node *node, uint64_t key)
{
    unsigned i = 0;
    while (i < node->count && node->keys[i] <= key)
        i++;
    return i;
}

/* The first key of a leaf that is not less. */
static unsigned place_in(const struct node *leaf, uint64_t key)
{
    unsigned i = 0;
    while (i < leaf->count && leaf->keys[i] < key)
        i++;
    return i;
}

static const struct node *leaf_of(uint64_t key)
{
    const struct node *node = at(((const struct tree *)at(root))->top);
    while (!node->is_leaf)
        node = at(node->links[child_of(node, key)]);
    return node;
}

/* Where the record of a key is. */
static ref find(uint64_t key)
{
    const struct node *leaf = leaf_of(key);
    unsigned i = place_in(leaf, key);
    return i < leaf->count && leaf->keys[i] == key ? leaf->links[i] : NOWHERE;
}

static bool btree_read(uint64_t key, char *record)
{
    ref found = find(key);
    if (leads_nowhere(found))
        return false;
    memcpy(record, at(found), RECORD_BYTES);
    return true;
}

/* Splits the full child i of a node that is not full and was told of. */
static void split(struct node *parent, unsigned i)
{
    ref left_ref = parent->links[i], right_ref = allocate(sizeof(struct node));
    struct node *left = at(left_ref), *right = at(right_ref);
    change(left_ref, 0, sizeof *left);
    memset(right, 0, sizeof *right);
    right->is_leaf = left->is_leaf;
    uint64_t middle = left->keys[HALF];
    if (left->is_leaf) {
        right->count = KEYS - HALF;
        memcpy(right->keys, left->keys + HALF, right->count * sizeof *left->keys);
        memcpy(right->links, left->links + HALF, right->count * sizeof *left->links);
        right->links[KEYS] = left->links[KEYS];
        left->links[KEYS] = right_ref;
    } else {
        right->count = KEYS - HALF - 1;
        memcpy(right->keys, left->keys + HALF + 1, right->count * sizeof *left->keys);
        memcpy(right->links, left->links + HALF + 1, (right->count + 1) * sizeof *left->links);
    }
    left->count = HALF;
    memmove(parent->keys + i + 1, parent->keys + i, (parent->count - i) * sizeof *parent->keys);
    memmove(parent->links + i + 2, parent->links + i + 1, (parent->count - i) * sizeof *parent->links);
    parent->keys[i] = middle;
    parent->links[i + 1] = right_ref;
    parent->count++;
}

static void btree_insert(uint64_t key, const char *record)
{
    struct tree *tree = at(root);
    change(root, 0, sizeof *tree);
    tree->count++;
    struct node *node = at(tree->top);
    if (node->count == KEYS) {
        ref above = allocate(sizeof(struct node));
        node = at(above);
        memset(node, 0, sizeof *node);
        node->links[0] = tree->top;
        tree->top = above;
        split(node, 0);
    }
    ref here = tree->top;
    while (!node->is_leaf) {
        unsigned i = child_of(node, key);
        if (((const struct node *)at(node->links[i]))->count == KEYS) {
            change(here, 0, sizeof *node);
            split(node, i);
            i += node->keys[i] <= key;
        }
        here = node->links[i];
        node = at(here);
    }
    ref block = allocate(RECORD_BYTES);
    memcpy(at(block), record, RECORD_BYTES);
    unsigned i = place_in(node, key);
    change(here, 0, sizeof *node);
    memmove(node->keys + i + 1, node->keys + i, (node->count - i) * sizeof *node->keys);
    memmove(node->links + i + 1, node->links + i, (node->count - i) * sizeof *node->links);
    node->keys[i] = key;
    node->links[i] = block;
    node->count++;
}

static bool btree_update(uint64_t key, unsigned field, const char *bytes)
{
    ref found = find(key);
    if (leads_nowhere(found))
        return false;
    change(found, field * FIELD_BYTES, FIELD_BYTES);
    memcpy((char *)at(found) + field * FIELD_BYTES, bytes, FIELD_BYTES);
    return true;
}

static size_t btree_scan(uint64_t key, size_t count, char *records)
{
    const struct node *leaf = leaf_of(key);
    unsigned i = place_in(leaf, key);
    for (size_t done = 0; ; i++) {
        if (i == leaf->count) {
            if (leads_nowhere(leaf->links[KEYS]))
                return done;
            leaf = at(leaf->links[KEYS]);
            i = 0;
        }
        memcpy(records + done * RECORD_BYTES, at(leaf->links[i]), RECORD_BYTES);
        if (++done == count)
            return done;
    }
}

static uint64_t btree_count(void)
{
    return ((struct tree *)at(root))->count;
}

static uint64_t btree_rank(uint64_t key, uint64_t sequence)
{
    (void)sequence;
    return key;
}

const struct store btree_store = {
    .name = "btree", .open = btree_open, .close = memory_close, .begin = memory_begin, .commit = memory_commit,
    .read = btree_read, .insert = btree_insert, .update = btree_update, .scan = btree_scan, .count = btree_count, .rank = btree_rank,
};
