#include "../heap.h"
#include <new>
template <class T> __attribute__((noinline)) void shared(T *p, int i) { p[i] += 5; p[i + 9] = 1; }
struct Base { virtual void set(long v) = 0; };
template <class T> struct Thing : Base { T value; __attribute__((noinline)) Thing() { value = 1; } void set(long v) override { value = v; } };
__attribute__((noinline)) inline void thrower(long *p, int i) { p[i] = 3; throw i; }
void plain(long *p);
