// Stores of every type that C has.
#include "../heap.h"
#include <complex.h>
#include <stdio.h>
#include <string.h>

struct fields { unsigned a : 3, b : 13, c : 1; long d : 40; unsigned char e; unsigned f : 7; };
union both { double d; unsigned char bytes[24]; struct { short x, y; } s; };
struct large { long v[40]; };
struct middle { long v[25]; };
struct odd { char c[7]; short s; } __attribute__((packed));
typedef float v4 __attribute__((vector_size(16)));
typedef float v3 __attribute__((ext_vector_type(3)));
typedef int v16 __attribute__((vector_size(64)));
typedef _Bool flags __attribute__((ext_vector_type(11)));

static int seed = 7;
static int next(void) { return seed = seed * 1103515245 + 12345; }
#define ONE(type, value) do { type *p = perdure_alloc(sizeof(type)); *p = (value); EXACT(); perdure_commit(); \
    *p = (value); type *volatile q = p; perdure_commit(); *q = (value); perdure_commit(); } while (0)

__attribute__((noinline)) static void copy(struct large *to, const struct large *from) { *to = *from; }
__attribute__((noinline)) static void vla(int n, void *to, void *from) {
  struct { int v[1]; } (*a)[n] = to, (*b)[n] = from;
  memcpy(a, b, sizeof *a);
  (*a)[n - 1].v[0] = 3;
}

// Where some of the lines are marked already, and others are not.
__attribute__((noinline)) static void put(void *at, long v) { memcpy(at, &v, 8); }
__attribute__((noinline)) static void put_byte(char *at) { *at ^= 1; }
__attribute__((noinline)) static void copy_middle(struct middle *to, const struct middle *from) { *to = *from; }
static void partly_marked(char *raw, struct large *l) {
  for (int i = 0; i < 192; i++) {
    for (int line = 0; line < 4; line++) {
      put_byte(raw + line * 64); put(raw + i, next() | 1L << 40); EXACT(); perdure_commit();
    }
  }
  for (int i = 0; i < 40; i++) l[1].v[i] = next();
  for (int i = 0; i < 63; i++) {
    perdure_commit(); l[1].v[7]++;
    for (int word = 0; word < 40; word++) l[1].v[word] += 0x0101010101010101;
    perdure_commit();
    for (int line = 0; line < 5; line++) if (i >> line & 1) put_byte((char *)l + line * 64);
    copy(&l[0], &l[1]); EXACT(); perdure_commit();
    for (int word = 0; word < 40; word++) l[1].v[word] += 0x0101010101010101;
    perdure_commit();
    for (int line = 0; line < 5; line++) if (i >> line & 1) put_byte((char *)l + line * 64);
    copy_middle((struct middle *)l, (struct middle *)&l[1]); EXACT(); perdure_commit();
  }
}
int main(void) {
  partly_marked(perdure_alloc(512), perdure_alloc(3 * sizeof(struct large)));
  ONE(char, next()); ONE(short, next()); ONE(int, next()); ONE(long, next() * 77777L);
  ONE(float, next() * 0.5f); ONE(double, next() * 0.25); ONE(long double, next() * 0.125L);
  ONE(double complex, next() + next() * I); ONE(float complex, next() + 2 * I); ONE(long double complex, next() + 2 * I);
  ONE(__int128, (__int128)next() << 64 | next()); ONE(_Bool, next() & 1); ONE(void *, (void *)(long)next());
  ONE(_BitInt(17), next()); ONE(unsigned _BitInt(65), next()); ONE(_BitInt(128), next()); ONE(unsigned _BitInt(7), next() & 127);
  ONE(v4, ((v4){next(), 2, 3, 4})); ONE(v3, ((v3){next(), 2, 3})); ONE(v16, ((v16){next(), 2, 3})); ONE(_Float16, next());
  ONE(struct odd, ((struct odd){"abc", next()}));
  flags *m = perdure_alloc(sizeof *m); flags x = {1, 0, 1, 0, 1, 1, 1, 1, 0, 0, next() & 1}; *m = x; perdure_commit();

  struct fields *f = perdure_alloc(sizeof *f * 9);
  for (int i = 0; i < 9; i++) { f[i].b = next(); perdure_commit(); f[i].d = next(); f[i].f = next(); perdure_commit(); f[i].c ^= 1; f[i].a++; f[i].e--; }
  perdure_commit();
  union both *u = perdure_alloc(sizeof *u);
  u->d = next(); perdure_commit(); u->s.y = next(); perdure_commit(); u->bytes[23] = 5; perdure_commit(); *u = (union both){.d = 2};
  EXACT(); perdure_commit();
  struct large *l = perdure_alloc(sizeof *l * 3);
  for (int i = 0; i < 40; i++) l[1].v[i] = next();
  perdure_commit(); copy(&l[0], &l[1]); perdure_commit(); copy(&l[2], &l[1]); perdure_commit();
  memset(&l[1], 1, sizeof *l); perdure_commit(); memmove((char *)l + 3, l, sizeof *l + 5); perdure_commit();
  for (volatile int n = 0; n < 300; n += 7) { for (int i = 0; i < 40; i++) l[0].v[i] = next(); perdure_commit(); memmove((char *)l + n, (char *)l + 11, n); EXACT(); perdure_commit(); }
  l[2] = (struct large){{1, 2, 3}}; EXACT(); perdure_commit();
  void *a = perdure_alloc(4096), *b = perdure_alloc(4096);
  for (int n = 1; n < 900; n += 111) { memset(b, n, 4 * n); vla(n, a, b); EXACT(); perdure_commit(); }
  // Unaligned: across two lines.
  char *raw = perdure_alloc(256);
  for (int i = 0; i < 128; i++) { long v = next(); __builtin_memcpy(raw + i, &v, 8); EXACT(); perdure_commit(); }
  for (int i = 0; i < 100; i++) { struct odd o = {"xyz", next()}; memcpy(raw + i, &o, sizeof o); perdure_commit(); }
  unsigned long sum = 0;
  for (int i = 0; i < 256; i++) sum = sum * 31 + (unsigned char)raw[i];
  printf("%lu %ld\n", sum, l[1].v[0]);
}
