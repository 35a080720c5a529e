// flags: -std=c++20
// Coroutines, whose frames may lie in the heap, and lambdas, moves, arrays of objects.
#include "../heap.h"
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
struct Counter {
  struct promise_type {
    long value = 0;
    Counter get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(long v) { value = v; return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
    void *operator new(size_t n) { return perdure_alloc(n); }
    void operator delete(void *, size_t) {}
  };
  std::coroutine_handle<promise_type> h;
};
__attribute__((noinline)) Counter count(long from, long *at) { for (long i = from;; i++) { at[i & 15] = i; long local[4] = {i, i + 1, i + 2, i + 3}; co_yield local[i & 3] + at[0]; } }
struct Item { long v[3]; Item(long a = 1) : v{a, a, a} {} Item(Item &&o) noexcept { for (int i = 0; i < 3; i++) v[i] = std::exchange(o.v[i], 0); } Item &operator=(const Item &) = default; ~Item() { v[0] = -1; } };
int main() {
  long *at = static_cast<long *>(perdure_alloc(256));
  for (int i = 0; i < 32; i++) at[i] = 0;
  perdure_commit();
  Counter c = count(5, at); perdure_commit();
  long sum = 0;
  for (int i = 0; i < 40; i++) { c.h.resume(); sum += c.h.promise().value; EXACT(); perdure_commit(); }
  Item *items = new (perdure_alloc(sizeof(Item) * 20)) Item[20]; EXACT(); perdure_commit();
  for (int i = 1; i < 20; i++) { Item t(std::move(items[i])); items[i - 1] = t; new (&items[i]) Item(std::move(t)); EXACT(); perdure_commit(); }
  auto set = [items](long i, long v) mutable { items[i].v[1] = v; return [items, v](long j) { items[j].v[2] = v; }; };
  set(3, 7)(9); EXACT(); perdure_commit();
  for (int i = 0; i < 20; i++) { items[i].~Item(); } EXACT(); perdure_commit();
  printf("%ld %ld\n", sum, at[7]);
}
