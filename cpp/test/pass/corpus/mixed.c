// with: mixed_plain.c
// Linked with an object that is compiled without the pass.
#include "../heap.h"
#include "mixed.h"
#include <stdio.h>
#include <string.h>
static long called;
long callback(long *p) { p[1]++; called++; return p[1]; }
void committing_callback(long *p) { p[2]++; perdure_commit(); }
__attribute__((noinline)) static int tail(long *p) { return plain_tail(p); }
int main(void) {
  long *p = perdure_alloc(800);
  memset(p, 0, 800); EXACT(); perdure_commit();
  plain_store(p); CLAIM(perdure_is_unseen()); perdure_commit();
  EXACT(); // nothing is sticky
  CLAIM(plain_returns(p)->a == 5); perdure_commit(); *plain_returns(p) = (struct pair){1, 2}; perdure_commit();
  struct pair *at = (struct pair *)(p + 20); *at = plain_makes(7); perdure_commit();
  CLAIM(tail(p) == 3); perdure_commit();
  plain_calls(callback, p); perdure_commit();
  // It commits several times in between, and stores after each.
  plain_commits(p); CLAIM(perdure_is_unseen()); perdure_commit();
  plain_calls_twice(committing_callback, p); CLAIM(perdure_is_unseen()); perdure_commit();
  p[3] = 3; EXACT(); perdure_commit();
  plain_function f = plain_pointer(); f(p + 40); CLAIM(perdure_is_unseen()); perdure_commit(); EXACT();
  f(p + 41); perdure_commit(); p[42] = 1; EXACT(); perdure_commit();
  printf("%ld %ld %ld %ld %ld\n", p[0], p[1], p[2], called, p[21]);
}
