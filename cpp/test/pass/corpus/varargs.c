// Arguments of variable number, and a va_list in the heap.
#include "../heap.h"
#include <stdarg.h>
#include <stdio.h>

struct list { va_list ap; long sum; double real; };
__attribute__((noinline)) static void take(struct list *l, int n) {
  while (n--) { l->sum += va_arg(l->ap, int); l->real += va_arg(l->ap, double); }
}
__attribute__((noinline)) static void add(struct list *l, int n, ...) {
  va_start(l->ap, n);
  EXACT(); perdure_commit();
  va_list second;
  va_copy(second, l->ap);
  take(l, n); EXACT(); perdure_commit();
  struct list *other = perdure_alloc(sizeof *other);
  va_copy(other->ap, second);
  perdure_commit();
  other->sum = 0; other->real = 0;
  take(other, n);
  va_end(second); va_end(l->ap);
}
int main(void) {
  struct list *l = perdure_alloc(sizeof *l);
  l->sum = 0; l->real = 0;
  add(l, 9, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5);
  EXACT(); perdure_commit();
  printf("%ld %g\n", l->sum, l->real);
}
