/* What the test programs see of the runtime beside them. Its functions have the runtime's prefix: the pass takes them for it. */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of the heap, 16-byte aligned, full of bytes that are not zero. */
void *perdure_alloc(size_t size);
/* The same, size bytes that end where the heap and its cards end. */
void *perdure_alloc_last(size_t size);
/* Compares all lines with what they were: one that changed without a card, while nothing is unseen, is a lost store.
 * The program then ends with status 1. Afterwards all cards are clear. */
void perdure_commit(void);
/* How often commits found that something may be unseen; and whether that is so now. */
unsigned perdure_unseen_commits(void);
int perdure_is_unseen(void);
/* Calls of __perdure_mark. */
unsigned long perdure_marks(void);
/* Lines with a card that did not change, over all commits. */
unsigned long perdure_idle_lines(void);
/* Ends the program with a message if the claim does not hold. */
void perdure_claim(int holds, const char *what, int line);
#define CLAIM(x) perdure_claim(!!(x), #x, __LINE__)
/* Nothing that happened since the last commit was unseen. */
#define EXACT() CLAIM(!perdure_is_unseen())

#ifdef __cplusplus
}

template <class T> struct HeapAllocator {
  using value_type = T;
  HeapAllocator() = default;
  template <class U> HeapAllocator(const HeapAllocator<U> &) {}
  T *allocate(size_t n) { return static_cast<T *>(perdure_alloc(n * sizeof(T))); }
  void deallocate(T *, size_t) {}
  template <class U> bool operator==(const HeapAllocator<U> &) const { return true; }
  template <class U> bool operator!=(const HeapAllocator<U> &) const { return false; }
};
#endif
#endif
