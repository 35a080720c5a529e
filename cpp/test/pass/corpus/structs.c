// Structures by value, as arguments and results.
#include "../heap.h"
#include <stdio.h>
struct big { long v[9]; int n; };
struct two { long a, b; };
__attribute__((noinline)) static struct big make(int n) { struct big b = {{n, n + 1, n + 2}, n}; b.v[8] = n; return b; }
__attribute__((noinline)) static struct two pair(long a) { return (struct two){a, a * 2}; }
__attribute__((noinline)) static long eat(struct big b) { b.v[1] += b.n; b.n = 0; return b.v[1] + b.v[8]; }
__attribute__((noinline)) static void fill(struct big *to, struct big from, int n) { from.v[3] = n; *to = from; to->v[4] = eat(from); }
struct big (*volatile maker)(int) = make;
int main(void) {
  struct big *b = perdure_alloc(5 * sizeof *b); struct two *t = perdure_alloc(4 * sizeof *t);
  for (int i = 0; i < 5; i++) { b[i] = make(i); EXACT(); perdure_commit(); }
  for (int i = 0; i < 5; i++) { b[i] = maker(i + 9); EXACT(); perdure_commit(); }
  for (int i = 0; i < 4; i++) { t[i] = pair(i); EXACT(); perdure_commit(); }
  fill(&b[2], b[1], 77); EXACT(); perdure_commit();
  fill(&b[0], b[2], 78); EXACT(); perdure_commit();
  struct { struct two t; char c[3]; } *x = perdure_alloc(3 * sizeof *x);
  x[0].t = t[2]; x[0].c[2] = 5; x[1] = x[0]; perdure_commit(); x[2] = x[1]; x[2].t.b++; EXACT(); perdure_commit();
  printf("%ld %ld %ld %ld %d\n", b[2].v[3], b[0].v[4], t[3].b, x[2].t.b, b[4].n);
}
