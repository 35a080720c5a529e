// Loops whose marks can be taken out in front of them, and loops whose marks cannot.
#include "../heap.h"
#include <stdio.h>
#include <string.h>
#define F __attribute__((noinline)) static
struct rec { int id; char pad[20]; double v; };
struct wide { long v; char pad[200]; };
F void plain(int *p, int n, int v) { for (int i = 0; i < n; i++) p[i] = v * i; }
F void down(long *p, int n) { for (int i = n; i-- > 0;) p[i] = i; }
F void unsign(short *p, unsigned n) { for (unsigned i = 0; i != n; i++) p[i] = (short)i; }
F void strided(int *p, int n, int s) { for (int i = 0; i < n; i += s) p[i] = i; }
F void three(int *p, int n) { for (int i = 0; i < n; i += 3) p[i] = i; }
F void recs(struct rec *p, int n) { for (int i = 0; i < n; i++) { p[i].id = i; p[i].v = i * 0.5; } }
F void wides(struct wide *p, int n) { for (int i = 0; i < n; i++) p[i].v = i; }
F void matrix(double *m, int r, int c) { for (int i = 0; i < r; i++) for (int j = 0; j < c; j++) m[i * c + j] = i + j; }
F void fixed(double m[20][30]) { for (int i = 0; i < 20; i++) for (int j = 0; j < 30; j++) m[i][j] = i - j; }
F void column(double *m, int r, int c, int j) { for (int i = 0; i < r; i++) m[i * c + j] = i; }
F void lower(double *m, int n) { for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) m[i * n + j] = 1; }
F int until(char *d, const char *s) { int n = 0; while ((d[n] = s[n])) n++; return n; }
F int stop(int *p, int n, int at) { for (int i = 0; i < n; i++) { p[i] = i; if (i == at) return i; } return -1; }
F int stop_first(int *p, int n, const int *q) { int i; for (i = 0; i < n; i++) { if (q[i] < 0) break; p[i] = q[i]; } return i; }
F void some(int *p, const int *q, int n) { for (int i = 0; i < n; i++) if (q[i] & 1) p[i] = q[i]; }
F void few(long *p, const int *q, int n, long v) { for (int i = 0; i < n; i++) if (q[i] == 17) p[i] = v; }
F void list(struct rec **p, int n) { for (int i = 0; i < n; i++) p[i]->id += i; }
F void same(long *sum, const int *q, int n) { for (int i = 0; i < n; i++) *sum += q[i]; }
F void same_if(long *sum, const int *q, int n) { for (int i = 0; i < n; i++) if (q[i] > 0) *sum += q[i]; }
F void clear(char *p, long n) { for (long i = 0; i < n; i++) p[i] = 0; }
F void pattern(unsigned *p, long n) { for (long i = 0; i < n; i++) p[i] = 0xdeadbeef; }
F void copy(char *p, const char *q, long n) { for (long i = 0; i < n; i++) p[i] = q[i]; }
F void shift(int *p, int n) { for (int i = n - 1; i > 0; i--) p[i] = p[i - 1]; }
F void unrolled(int *p, int n) { for (int i = 0; i + 4 <= n; i += 4) { p[i] = i; p[i + 1] = 1; p[i + 2] = 2; p[i + 3] = 3; } }
F void committing(int *p, int n) { for (int i = 0; i < n; i++) { p[0] = i; p[i] = i; perdure_commit(); p[0]++; p[i]++; } }
F void rows(char *p, int n, int w) { for (int i = 0; i < n; i++) memset(p + i * w, i, w); }
F void matrix64(double *m, long r, long c) { for (long i = 0; i < r; i++) for (long j = 0; j < c; j++) m[i * c + j] = i + j; }
F void rows64(char *p, long n, long w) { for (long i = 0; i < n; i++) memset(p + i * w, i, w); }
F void bytes(unsigned char *p, unsigned char n) { for (unsigned char i = 0; i < n; i++) p[i] = i; }
F void wrap(char *p, unsigned char from) { for (unsigned char i = from; i != 10; i++) p[i] = i; }
F void two(int *p, int *q, int n) { for (int i = 0; i < n; i++) { p[i] = i; q[n - 1 - i] = i; } }
F void gather(int *p, const int *idx, int n) { for (int i = 0; i < n; i++) p[idx[i]] = i; }
F void once(int *p, int n) { do *p++ = n; while (--n > 0); }
F long chain(struct rec *p, int n) { struct rec *e = p + n; long k = 0; for (; p != e; p++, k++) p->v = p->id; return k; }
F void move(struct rec *p, const struct rec *q, int n) { for (int i = 0; i < n; i++) p[i] = q[i]; }
static void check(void) { EXACT(); perdure_commit(); }
int main(void) {
  int *q = perdure_alloc(4000); char *c = perdure_alloc(70000), *e = perdure_alloc_last(4000);
  for (int i = 0; i < 1000; i++) q[i] = (i * 7919) % 1009 - 3;
  check();
  for (int n = 0; n < 200; n = n * 3 / 2 + 1)
    for (int o = 0; o < 80; o += 28) {
      char *p = c + o; int *v = (int *)p; long *l = (long *)c + o;
      plain(v, n, 5); check(); down(l, n); check(); unsign((short *)p, n); check(); strided(v, n, 7); check(); three(v, n); check();
      recs((struct rec *)c, n); check(); wides((struct wide *)c, n); check(); matrix((double *)c, n / 4, 13); check();
      column((double *)c, n / 3, 20, 5); check(); lower((double *)c, n / 8); check(); clear(p, n * 9); check();
      stop(v, n, n / 2); check(); stop_first(v, n, q + 500); check(); some(v, q, n); check(); same(l, q, n); check(); same_if(l, q, n); check();
      pattern((unsigned *)p, n); check(); copy(p + 3000, p, n * 4); check(); shift(v, n); check(); unrolled(v, n); check();
      committing(v, n / 9); check(); rows(p, n / 5, 33); check(); rows64(p, n / 3, 70); check(); matrix64((double *)p, n / 6, n / 2); check(); bytes((unsigned char *)p, n); check(); wrap(p, 250); check();
      two(v, v + 1000, n); check(); chain((struct rec *)c, n / 2); check(); move((struct rec *)c, (struct rec *)c + 100, n / 3); check();
      if (n) { once(v, n); check(); }
    }
  fixed((double (*)[30])c); check();
  until(c + 61, "a string that is longer than one line, so that several cards are needed for it, which is the point"); check();
  int *idx = perdure_alloc(400); for (int i = 0; i < 100; i++) idx[i] = (i * 37) % 1000;
  gather((int *)c, idx, 100); check();
  struct rec *r[50]; for (int i = 0; i < 50; i++) { r[i] = (struct rec *)c + 2 * i; r[i]->id = 1; }
  list(r, 50); check();
  // Of a hundred lines one is stored to.
  for (long v = 1; v < 21; v++) { few((long *)c, q, 1000, v); check(); }
  // At the end of the heap.
  plain((int *)e, 1000, 3); check(); down((long *)e, 500); check(); clear(e, 4000); check(); plain((int *)(e + 4000), 0, 1); check();
  recs((struct rec *)e, 4000 / sizeof(struct rec)); check(); once((int *)(e + 3996), 1); check(); unrolled((int *)e, 1000); check();
  some((int *)e, q, 1000); check(); memset(e + 3900, 7, 100); check(); copy(e, c, 4000); check();
  unsigned long sum = 0; for (int i = 0; i < 70000; i++) sum = sum * 31 + (unsigned char)c[i];
  printf("%lu\n", sum);
  CLAIM(perdure_unseen_commits() == 0);
  CLAIM(perdure_idle_lines() < 1500); // the same at all levels: stores of what was there before
}
