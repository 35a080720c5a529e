/* A runtime for the tests of the pass: a heap without a file, and a copy of it that tells which lines were stored to.
 *
 * Invariant: at each commit, every line that differs from the copy has its card set, or something is known to be unseen. Otherwise
 * the program has lost a store, and ends with status 1. Never compiled with the pass.
 */
#define _GNU_SOURCE
#include "../../pass/abi.h"
#include "heap.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef HEAP_SIZE
#define HEAP_SIZE ((size_t)4 << 20)
#endif
#define LINE ((size_t)1 << PERDURE_CARD_SHIFT)
#define LINES (HEAP_SIZE / LINE)

static unsigned char *const heap = (unsigned char *)(((uintptr_t)PERDURE_ARENA << PERDURE_ARENA_SHIFT) + (64ul << 30));
static unsigned char *cards, *copy;
static size_t used, used_at_end;
static unsigned long marks, idle_lines;
static unsigned unseen_commits;

unsigned char __perdure_unseen;
unsigned long long __perdure_unseen_calls;
extern const unsigned char __perdure_instrumented __attribute__((weak));

static void die(const char *what) {
  fprintf(stderr, "runtime: %s\n", what);
  _exit(2);
}

static void *map(void *at, size_t size) {
  void *p = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != at)
    die("cannot map the heap");
  return p;
}

static void end(void) {
  perdure_commit();
  fprintf(stderr, "marks %lu unseen %u idle %lu\n", marks, unseen_commits, idle_lines);
}

static unsigned char *card(const void *p) { return (unsigned char *)((uintptr_t)p >> PERDURE_CARD_SHIFT) + PERDURE_CARD_BIAS; }

void __perdure_prepare(void) {
  static int is_done;
  if (is_done)
    return;
  is_done = 1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
  if (mmap(card(0), PERDURE_CARDS_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != card(0))
    die("cannot map the cards");
}

__attribute__((constructor(101))) static void begin(void) {
  if (!&__perdure_instrumented && getenv("HEAP_PLAIN") == NULL)
    die("the program is not instrumented");
  map(heap, HEAP_SIZE);
  __perdure_prepare();
  cards = card(heap);
  copy = malloc(HEAP_SIZE);
  uint64_t x = 88172645463325252u;
  for (size_t i = 0; i < HEAP_SIZE; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    heap[i] = (unsigned char)(x >> 32) | 1;
  }
  memcpy(copy, heap, HEAP_SIZE);
  atexit(end);
}

void __perdure_mark(const void *p, size_t n) {
  uintptr_t from = (uintptr_t)p - (uintptr_t)heap;
  __atomic_fetch_add(&marks, 1, __ATOMIC_RELAXED);
  if (n == 0)
    return;
  if ((uintptr_t)p >> PERDURE_ARENA_SHIFT != PERDURE_ARENA) {
    memset((void *)((uintptr_t)card(p) & ~(uintptr_t)4095), 1, 4096);
    return;
  }
  if (from >= HEAP_SIZE)
    return;
  size_t last = n > HEAP_SIZE - from ? HEAP_SIZE - 1 : from + n - 1;
  for (size_t line = from / LINE; line <= last / LINE; line++)
    __atomic_store_n(&cards[line], 1, __ATOMIC_RELAXED);
}

void __perdure_mark_lines(size_t first, size_t last) {
  __perdure_mark((const void *)(first << PERDURE_CARD_SHIFT), (last - first + 1) << PERDURE_CARD_SHIFT);
}

void *perdure_alloc(size_t size) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  size_t at = used;
  used += (size + 15) & ~(size_t)15;
  if (used + used_at_end > HEAP_SIZE)
    die("the heap is full");
  pthread_mutex_unlock(&lock);
  return heap + at;
}

void *perdure_alloc_last(size_t size) {
  if (used_at_end)
    die("there is one end only");
  used_at_end = size;
  return heap + HEAP_SIZE - size;
}

int perdure_is_unseen(void) { return __perdure_unseen || __perdure_unseen_calls; }

void perdure_commit(void) {
  if (getenv("HEAP_PLAIN"))
    return; // compiled without the pass, to see what the program should print
  int unseen = perdure_is_unseen();
  unseen_commits += unseen != 0;
  size_t lost = 0, first = 0;
  for (size_t line = 0; line < LINES; line++) {
    int changed = memcmp(heap + line * LINE, copy + line * LINE, LINE) != 0;
    idle_lines += cards[line] && !changed;
    if (changed && !cards[line] && !lost++)
      first = line * LINE;
  }
  if (lost && !unseen) {
    while (heap[first] == copy[first])
      first++;
    fprintf(stderr, "lost: %zu lines, the first at %p\n", lost, (void *)(heap + first));
    _exit(1);
  }
  memcpy(copy, heap, HEAP_SIZE);
  memset(cards, 0, LINES);
  __perdure_unseen = 0;
}

unsigned perdure_unseen_commits(void) { return unseen_commits; }
unsigned long perdure_marks(void) { return marks; }
unsigned long perdure_idle_lines(void) { return idle_lines; }

void perdure_claim(int holds, const char *what, int line) {
  if (holds)
    return;
  if (getenv("HEAP_PLAIN"))
    return;
  fprintf(stderr, "line %d: does not hold: %s\n", line, what);
  _exit(3);
}
