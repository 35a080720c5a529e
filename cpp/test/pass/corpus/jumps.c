// setjmp with its buffer in the heap, signal handlers, computed goto, switch.
#include "../heap.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

struct state { jmp_buf env; long count; long trace[64]; };
static struct state *s;
static void handler(int sig) { s->trace[40]++; s->count += sig; }
__attribute__((noinline)) static void leap(struct state *s, int v) { s->trace[v] = v; longjmp(s->env, v); }
__attribute__((noinline)) static int run(struct state *s, const unsigned char *code) {
  static void *labels[] = {&&inc, &&dec, &&store, &&halt};
  long acc = 0;
  goto *labels[*code++];
inc: acc += 3; goto *labels[*code++];
dec: acc -= 1; s->count = acc; goto *labels[*code++];
store: s->trace[acc & 31] = acc; perdure_commit(); goto *labels[*code++];
halt: return (int)acc;
}
int main(void) {
  s = perdure_alloc(sizeof *s);
  s->count = 0;
  for (int i = 0; i < 64; i++) s->trace[i] = 0;
  perdure_commit();
  int v = setjmp(s->env);
  perdure_commit();
  if (v < 5) leap(s, v + 1);
  perdure_commit();
  signal(SIGUSR1, handler);
  for (int i = 0; i < 5; i++) { raise(SIGUSR1); perdure_commit(); }
  int r = run(s, (const unsigned char[]){0, 1, 2, 0, 0, 2, 1, 2, 3});
  perdure_commit();
  EXACT();
  printf("%d %ld %ld %ld\n", r, s->count, s->trace[5], s->trace[40]);
  CLAIM(perdure_unseen_commits() == 0);
}
