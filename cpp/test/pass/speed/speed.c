// How much slower a program is that is instrumented and never commits: "speed WORKLOAD heap|malloc". Each prints a checksum, and on
// standard error how many microseconds it took, without the start of the program.
#include "../heap.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int in_heap;
static void *get(size_t n) { return in_heap ? perdure_alloc(n) : malloc(n); }
static uint64_t seed = 88172645463325252u;
static uint64_t next(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed; }

// A hash map with open addressing.
struct slot { uint64_t key, value; };
struct map { struct slot *slots; uint64_t mask, count; };
__attribute__((noinline)) static uint64_t *map_at(struct map *m, uint64_t key) {
  for (uint64_t i = key * 0x9E3779B97F4A7C15u >> 20;; i++) {
    struct slot *s = &m->slots[i & m->mask];
    if (s->key == key) return &s->value;
    if (!s->key) { s->key = key; s->value = 0; m->count++; return &s->value; }
  }
}
static uint64_t hash(void) {
  struct map *m = get(sizeof *m);
  m->mask = 65535; m->count = 0; m->slots = get(65536 * sizeof *m->slots); memset(m->slots, 0, 65536 * sizeof *m->slots);
  for (int i = 0; i < 4000000; i++) { uint64_t r = next(); *map_at(m, r % 40000 + 1) += r; }
  uint64_t sum = m->count;
  for (int i = 1; i <= 40000; i++) sum = sum * 31 + *map_at(m, i);
  return sum;
}

// A map with a list for each bucket, as most programs have it.
struct node { struct node *next; uint64_t key, hits; char name[24]; };
static uint64_t chained(void) {
  struct node **buckets = get(16384 * sizeof *buckets); memset(buckets, 0, 16384 * sizeof *buckets);
  uint64_t nodes = 0, sum = 0;
  for (int i = 0; i < 3000000; i++) {
    uint64_t key = next() % 30000, b = key * 0x9E3779B97F4A7C15u >> 50;
    struct node *n = buckets[b];
    while (n && n->key != key) n = n->next;
    if (!n) { n = get(sizeof *n); n->next = buckets[b]; n->key = key; n->hits = 0; memset(n->name, 'a', 24); buckets[b] = n; nodes++; }
    n->hits++; n->name[key % 24] = (char)i;
  }
  for (int i = 0; i < 16384; i++) for (struct node *n = buckets[i]; n; n = n->next) sum += n->hits * n->key + n->name[3];
  return sum + nodes;
}

// A B-tree of 31 keys a node, inserted in order of chance.
enum { MAX = 31 };
struct btree { int n, leaf; uint64_t keys[MAX], values[MAX]; struct btree *kids[MAX + 1]; };
static struct btree *fresh(int leaf) { struct btree *b = get(sizeof *b); b->n = 0; b->leaf = leaf; return b; }
static void split(struct btree *p, int i) {
  struct btree *a = p->kids[i], *b = fresh(a->leaf);
  b->n = MAX / 2;
  for (int j = 0; j < b->n; j++) { b->keys[j] = a->keys[j + MAX / 2 + 1]; b->values[j] = a->values[j + MAX / 2 + 1]; }
  if (!a->leaf) for (int j = 0; j <= b->n; j++) b->kids[j] = a->kids[j + MAX / 2 + 1];
  a->n = MAX / 2;
  for (int j = p->n; j > i; j--) { p->kids[j + 1] = p->kids[j]; p->keys[j] = p->keys[j - 1]; p->values[j] = p->values[j - 1]; }
  p->kids[i + 1] = b; p->keys[i] = a->keys[MAX / 2]; p->values[i] = a->values[MAX / 2]; p->n++;
}
static void insert(struct btree **root, uint64_t key, uint64_t value) {
  if ((*root)->n == MAX) { struct btree *r = fresh(0); r->kids[0] = *root; split(r, 0); *root = r; }
  struct btree *b = *root;
  for (;;) {
    int i = 0;
    while (i < b->n && b->keys[i] < key) i++;
    if (i < b->n && b->keys[i] == key) { b->values[i] += value; return; }
    if (b->leaf) {
      for (int j = b->n; j > i; j--) { b->keys[j] = b->keys[j - 1]; b->values[j] = b->values[j - 1]; }
      b->keys[i] = key; b->values[i] = value; b->n++;
      return;
    }
    if (b->kids[i]->n == MAX) { split(b, i); if (b->keys[i] == key) { b->values[i] += value; return; } if (b->keys[i] < key) i++; }
    b = b->kids[i];
  }
}
static uint64_t walk(struct btree *b) { uint64_t s = 0; for (int i = 0; i < b->n; i++) s = s * 31 + b->keys[i] + b->values[i]; if (!b->leaf) for (int i = 0; i <= b->n; i++) s ^= walk(b->kids[i]) * 7; return s; }
static uint64_t btree(void) { struct btree *r = fresh(1); for (int i = 0; i < 1200000; i++) insert(&r, next() % 60000, i); return walk(r); }

// Blocks filled, copied and computed with.
static uint64_t blocks(void) {
  float *a = get(400000), *b = get(400000); uint64_t sum = 0;
  for (int i = 0; i < 100000; i++) { a[i] = i; b[i] = 1; }
  for (int r = 0; r < 600; r++) {
    for (int i = 0; i < 100000; i++) a[i] = a[i] * 0.5f + b[i];
    memcpy(b + r, a, 4000); memset(a, r, 300);
    sum += (uint64_t)a[r * 7];
  }
  return sum;
}
// Small blocks: 16 to 200 bytes.
struct rec { uint64_t id, v[11]; };
static uint64_t records(void) {
  struct rec *a = get(2000 * sizeof *a); uint64_t sum = 0;
  memset(a, 0, 2000 * sizeof *a);
  for (int i = 0; i < 6000000; i++) { uint64_t r = next(); a[r % 2000] = a[(r >> 20) % 2000]; a[r % 1999].id = r; a[r % 1998].v[5] += 3; }
  for (int i = 0; i < 2000; i++) sum = sum * 31 + a[i].id + a[i].v[5];
  return sum;
}
// Sorting in place.
static uint64_t sorting(void) {
  uint32_t *a = get(400000); uint64_t sum = 0;
  for (int r = 0; r < 8; r++) {
    for (int i = 0; i < 100000; i++) a[i] = (uint32_t)next();
    for (int gap = 57060; gap; gap = gap * 4 / 9) for (int i = gap; i < 100000; i++) { uint32_t x = a[i]; int j = i; for (; j >= gap && a[j - gap] > x; j -= gap) a[j] = a[j - gap]; a[j] = x; }
    sum = sum * 31 + a[r * 999];
  }
  return sum;
}
// Text, byte by byte.
static uint64_t text(void) {
  char *a = get(100000), *b = get(100000); uint64_t sum = 0;
  for (int i = 0; i < 99999; i++) a[i] = "the quick brown fox"[next() % 19];
  a[99999] = 0;
  for (int r = 0; r < 300; r++) { char *d = b; for (const char *s = a; *s; s++) if (*s != ' ' || (s > a && s[-1] != ' ')) *d++ = (char)(*s ^ (r & 1) << 5); *d = 0; sum = sum * 31 + (uint64_t)(d - b) + b[r]; }
  return sum;
}
int main(int argc, char **argv) {
  static const struct { const char *name; uint64_t (*run)(void); } all[] = {{"hash", hash}, {"chained", chained}, {"btree", btree}, {"blocks", blocks}, {"records", records}, {"sorting", sorting}, {"text", text}};
  if (argc < 3) return 2;
  in_heap = !strcmp(argv[2], "heap");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(argv[1], all[i].name)) {
      struct timespec from, to;
      clock_gettime(CLOCK_MONOTONIC, &from);
      uint64_t sum = all[i].run();
      clock_gettime(CLOCK_MONOTONIC, &to);
      printf("%llu\n", (unsigned long long)sum);
      fprintf(stderr, "us %ld\n", (long)((to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000));
    }
}
