// before: inline_plain.cc
// Inline functions of which the linker keeps the copy that is not instrumented.
#include "inline.h"
#include <cstdio>
int main() {
  long *p = static_cast<long *>(perdure_alloc(400));
  for (int i = 0; i < 50; i++) p[i] = 0;
  EXACT(); perdure_commit();
  shared<long>(p, 3); perdure_commit();
  plain(p); perdure_commit();
  Thing<long> *t = new (p + 20) Thing<long>; perdure_commit();
  t->set(5); perdure_commit();
  Base *b = t; b->set(6); perdure_commit();
  try { thrower(p, 7); } catch (int) { p[9] = 1; } perdure_commit();
  p[10] = 1; CLAIM(!perdure_is_unseen()); perdure_commit();
  printf("%ld %ld\n", p[3], t->value);
}
