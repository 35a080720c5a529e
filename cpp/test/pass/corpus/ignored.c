// flags: -fperdure-ignore=by_name
// Functions that the user wants to be left alone: their callers know it.
#include "../heap.h"
#include <stdio.h>
__attribute__((noinline, annotate("perdure_ignore"))) static void quick(long *p) { p[3] = 3; }
__attribute__((noinline)) void by_name(long *p) { p[4] = 4; }
__attribute__((naked)) void bare(long *p) { __asm__("movq $5, 40(%rdi)\n ret"); }
int main(void) {
  long *p = perdure_alloc(80);
  p[1] = 1; EXACT(); perdure_commit();
  quick(p); CLAIM(perdure_is_unseen()); perdure_commit(); EXACT();
  by_name(p); CLAIM(perdure_is_unseen()); perdure_commit(); EXACT();
  bare(p); CLAIM(perdure_is_unseen()); perdure_commit(); EXACT();
  p[9] = 2; EXACT(); perdure_commit();
  printf("%ld\n", p[3] + p[4] + p[5]);
}
