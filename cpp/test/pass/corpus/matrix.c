// Rows of a length that is not known, and not empty: the marks of both loops become one.
#include "../heap.h"
#include <stdio.h>
__attribute__((noinline)) static void matrix(double *m, long r, long c) {
  __builtin_assume(c > 0);
  for (long i = 0; i < r; i++)
    for (long j = 0; j < c; j++) m[i * c + j] = i + j + 0.5;
}
__attribute__((noinline)) static void offset(char *m, long r, long c) {
  __builtin_assume(c > 9);
  for (long i = 0; i < r; i++)
    for (long j = 0; j < c - 9; j++) m[i * c + j + 5] = (char)(i * j);
}
int main(void) {
  double *m = perdure_alloc(60000);
  for (long r = 0; r < 40; r += 3)
    for (long c = 1; c < 120; c = c * 2 + 1) {
      matrix(m, r, c); EXACT(); perdure_commit();
      if (c > 9) { offset((char *)m, r, c); EXACT(); perdure_commit(); }
    }
  double sum = 0;
  for (int i = 0; i < 4000; i++) sum = sum * 0.5 + m[i];
  printf("%g\n", sum);
}
