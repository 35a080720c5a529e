// C11 atomics of all sizes and orders.
#include "../heap.h"
#include <stdatomic.h>
#include <stdio.h>
struct big { long v[5]; };
int main(void) {
  _Atomic int *a = perdure_alloc(4); _Atomic long *b = perdure_alloc(8); _Atomic(struct big) *c = perdure_alloc(sizeof *c);
  _Atomic unsigned char *d = perdure_alloc(1); _Atomic __int128 *e = perdure_alloc(16); _Atomic double *f = perdure_alloc(8);
  atomic_flag *g = perdure_alloc(sizeof *g); _Atomic(short *) *h = perdure_alloc(8);
  atomic_init(a, 1); atomic_init(b, 2); atomic_init(d, 3); atomic_init(f, 1.0); atomic_init(h, 0); EXACT(); perdure_commit();
  atomic_store(a, 5); EXACT(); perdure_commit(); atomic_store_explicit(b, 6, memory_order_relaxed); EXACT(); perdure_commit();
  atomic_fetch_add(a, 3); EXACT(); perdure_commit(); atomic_fetch_xor(d, 0x55); EXACT(); perdure_commit();
  int old = 8; CLAIM(atomic_compare_exchange_strong(a, &old, 99)); EXACT(); perdure_commit();
  long was = 6; while (!atomic_compare_exchange_weak(b, &was, was + 1)) {} EXACT(); perdure_commit();
  atomic_store(c, ((struct big){{1, 2, 3, 4, 5}})); EXACT(); perdure_commit();
  struct big old_big = {{1, 2, 3, 4, 5}}; CLAIM(atomic_compare_exchange_strong(c, &old_big, ((struct big){{9, 9}}))); EXACT(); perdure_commit();
  struct big *out = perdure_alloc(sizeof *out); *out = atomic_exchange(c, old_big); EXACT(); perdure_commit();
  atomic_store(e, (__int128)1 << 100); EXACT(); perdure_commit(); atomic_fetch_add(e, 5); EXACT(); perdure_commit();
  *f += 2.5; EXACT(); perdure_commit(); (*d)++; EXACT(); perdure_commit();
  atomic_flag_clear(g); perdure_commit(); atomic_flag_test_and_set(g); EXACT(); perdure_commit();
  short *s = perdure_alloc(200); atomic_store(h, s); perdure_commit(); atomic_fetch_add(h, 5 * sizeof(short)); EXACT(); perdure_commit(); **h = 7; EXACT(); perdure_commit();
  __atomic_store_n(&s[50], 3, __ATOMIC_RELEASE); EXACT(); perdure_commit(); __sync_fetch_and_or(&s[51], 0x700); EXACT(); perdure_commit();
  struct big generic = {{7, 7, 7, 7, 7}}; struct big *at = perdure_alloc(sizeof *at);
  __atomic_store(at, &generic, __ATOMIC_SEQ_CST); EXACT(); perdure_commit();
  __atomic_load(at, out, __ATOMIC_SEQ_CST); EXACT(); perdure_commit();
  printf("%d %ld %d %g %ld\n", *a, *b, *d, *f, out->v[4]);
}
