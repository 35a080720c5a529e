/* The runtime of heap.h over libperdure: the same programs, and what they commit is looked at in the heap's file.
 *
 * Invariant: after each commit, a snapshot of the file holds what the memory held when the commit was asked for; in verify mode the pass has
 * missed nothing. Else a store was lost, and the program ends with status 1. The end is that of a program that is killed: some stores more,
 * which nobody commits, and no close; "check FILE" then compares the heap with what the last commit should have left in FILE.copy.
 * Never compiled with the pass.
 *
 * libperdure has a function of the name perdure_commit, too; it is called by its address.
 */
#define _GNU_SOURCE
#include "heap.h"
#include <dlfcn.h>
#define perdure_commit perdure_commit_of_library
#include <perdure.h>
#undef perdure_commit
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_SIZE ((size_t)256 << 10)

extern unsigned char __perdure_unseen;
extern unsigned long long __perdure_unseen_calls;

static int (*commit_of_library)(perdure *);
static perdure *heap;
static const char *path;
static unsigned char *memory, *copy;
static size_t used, used_at_end;
static unsigned unseen_commits, commits;

static void die(const char *what) {
  fprintf(stderr, "library: %s: %s\n", what, perdure_message());
  _exit(2);
}

static perdure *open_heap(unsigned flags) {
  perdure_options options = PERDURE_OPTIONS;
  options.flags = flags;
  perdure *opened;
  if (perdure_open(path, &options, &opened))
    die("open");
  return opened;
}

static void compare(const unsigned char *found, const char *when) {
  if (!memcmp(found, copy, HEAP_SIZE))
    return;
  for (size_t i = 0; i < HEAP_SIZE; i++)
    if (found[i] != copy[i]) {
      fprintf(stderr, "lost: the byte at %p is %d in the file %s, and was stored as %d\n", (void *)(memory + i), found[i], when, copy[i]);
      _exit(1);
    }
}

void perdure_commit(void) {
  unseen_commits += perdure_is_unseen();
  commits++;
  memcpy(copy, memory, HEAP_SIZE);
  if (commit_of_library(heap))
    die("commit");
  perdure *seen = open_heap(PERDURE_SNAPSHOT | PERDURE_ANYWHERE);
  compare(perdure_root(seen, "memory"), "after the commit");
  if (perdure_close(seen))
    die("close");
}

static void end(void) {
  perdure_commit();
  char told[500];
  if (perdure_report(heap, told, sizeof told)) {
    fprintf(stderr, "missed: %s", told);
    _exit(1);
  }
  char name[4096];
  snprintf(name, sizeof name, "%s.copy", path);
  FILE *file = fopen(name, "w");
  if (!file || fwrite(copy, HEAP_SIZE, 1, file) != 1 || fclose(file))
    die(name);
  fprintf(stderr, "commits %u unseen %u\n", commits, unseen_commits);
  fflush(stdout);
  perdure_mark(memory, HEAP_SIZE);
  memset(memory, 0x55, HEAP_SIZE);
  _exit(0);
}

__attribute__((constructor(101))) static void begin(void) {
  path = getenv("HEAP_FILE");
  void *library = dlopen("libperdure.so", RTLD_NOW | RTLD_NOLOAD);
  commit_of_library = library ? (int (*)(perdure *))dlsym(library, "perdure_commit") : NULL;
  if (!path || !commit_of_library)
    die("HEAP_FILE and libperdure.so");
  copy = malloc(HEAP_SIZE);
  heap = open_heap(PERDURE_CREATE);
  memory = perdure_root(heap, "memory");
  if (getenv("HEAP_CHECK")) {
    char name[4096];
    snprintf(name, sizeof name, "%s.copy", path);
    FILE *file = fopen(name, "r");
    if (!memory || !file || fread(copy, HEAP_SIZE, 1, file) != 1)
      die(name);
    compare(memory, "after a kill");
    _exit(0);
  }
  memory = perdure_malloc(heap, HEAP_SIZE);
  uint64_t x = 88172645463325252u;
  perdure_mark(memory, HEAP_SIZE);
  for (size_t i = 0; i < HEAP_SIZE; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    memory[i] = (unsigned char)(x >> 32) | 1;
  }
  if (perdure_set_root(heap, "memory", memory) || commit_of_library(heap))
    die("the beginning");
  atexit(end);
}

void *perdure_alloc(size_t size) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  size_t at = used;
  used += (size + 15) & ~(size_t)15;
  if (used + used_at_end > HEAP_SIZE)
    die("the heap is full");
  pthread_mutex_unlock(&lock);
  return memory + at;
}

void *perdure_alloc_last(size_t size) {
  used_at_end = size;
  return memory + HEAP_SIZE - size;
}

int perdure_is_unseen(void) { return __perdure_unseen || __perdure_unseen_calls; }
unsigned perdure_unseen_commits(void) { return unseen_commits; }
unsigned long perdure_marks(void) { return 0; }
unsigned long perdure_idle_lines(void) { return 0; }

void perdure_claim(int holds, const char *what, int line) {
  if (holds)
    return;
  fprintf(stderr, "line %d: does not hold: %s\n", line, what);
  _exit(3);
}
