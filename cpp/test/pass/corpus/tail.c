// with: mixed_plain.c
// Calls in tail position stay that, where the callee is instrumented; where it is not, they are entered for good if they must be.
#include "../heap.h"
#include "mixed.h"
#include <stdio.h>
int even(long *p, long n);
int odd(long *p, long n) { p[n & 31] = n; if (n == 0) return 0; __attribute__((musttail)) return even(p, n - 1); }
int even(long *p, long n) { p[n & 31] += n; if (n == 0) return 1; __attribute__((musttail)) return odd(p, n - 1); }
typedef int (*step)(long *p, long n);
int last(long *p, long n) { p[40] = n; return (int)n; }
step volatile steps[2] = {last, last};
__attribute__((noinline)) int through(long *p, long n) { p[n & 31]--; __attribute__((musttail)) return steps[n & 1](p, n); }
__attribute__((noinline)) int out(long *p) { p[1] = 2; __attribute__((musttail)) return plain_tail(p); }
int main(void) {
  long *p = perdure_alloc(800);
  for (int i = 0; i < 100; i++) p[i] = 0;
  perdure_commit();
  int r = even(p, 3000000); EXACT(); perdure_commit();
  r += through(p, 5); EXACT(); perdure_commit();
  r += out(p); CLAIM(perdure_is_unseen()); perdure_commit(); CLAIM(perdure_is_unseen());
  printf("%d %ld %ld\n", r, p[3], p[40]);
}
