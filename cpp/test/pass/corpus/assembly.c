// Inline assembly: what it says of memory decides.
#include "../heap.h"
#include <stdio.h>
int main(void) {
  long *p = perdure_alloc(256);
  for (int i = 0; i < 32; i++) p[i] = 0;
  perdure_commit();
  asm volatile("movq $5, %0" : "=m"(p[3])); EXACT(); perdure_commit();
  asm("incq %0" : "+m"(p[20])); EXACT(); perdure_commit();
  long r; asm("movq $7, %0" : "=r"(r)); EXACT();
  asm volatile("" ::: "memory"); EXACT();
  p[9] = r; asm volatile("mfence" ::: "memory"); p[9]++; EXACT(); perdure_commit();
  asm volatile("movq $8, (%0)" ::"r"(&p[30]) : "memory"); CLAIM(perdure_is_unseen()); perdure_commit();
  EXACT();
  p[10] = 1;
  asm goto("testq %0, %0; jnz %l1" ::"r"(r) : "memory" : there);
  p[11] = 2;
there:
  p[12] = 3; perdure_commit();
  printf("%ld %ld %ld %ld\n", p[3], p[20], p[30], p[12]);
}
