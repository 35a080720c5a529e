// C++ objects in the heap: tables of virtual functions, strings and containers in place, exceptions.
#include "../heap.h"
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

struct Shape { virtual ~Shape() = default; virtual double area() const = 0; virtual void grow(double by) = 0; int id = 1; };
struct Round final : Shape { double r; explicit Round(double r) : r(r) {} double area() const override { return 3 * r * r; } void grow(double by) override { r += by; } };
struct Box : virtual Shape { double a, b; Box(double a, double b) : a(a), b(b) {} double area() const override { return a * b; } void grow(double by) override { a += by; b += by; } };
struct Error : std::runtime_error { int code; Error(int c) : std::runtime_error("error"), code(c) {} };
struct Guard { long &n; Guard(long &n) : n(n) { ++n; } ~Guard() { n += 10; } };
template <class T> using Vec = std::vector<T, HeapAllocator<T>>;
using Str = std::basic_string<char, std::char_traits<char>, HeapAllocator<char>>;
template <class T, class... A> T *make(A &&...a) { return new (perdure_alloc(sizeof(T))) T(std::forward<A>(a)...); }
__attribute__((noinline)) static void risky(long *n, int at) { Guard g(*n); n[1] = at; if (at % 3 == 0) throw Error(at); n[2] = at; }
struct Big { long v[9]; };
__attribute__((noinline)) static Big big(long n) { Big b{{n, n + 1}}; b.v[8] = n; return b; }
#define CHECK() do { EXACT(); perdure_commit(); } while (0)

int main() {
  Shape *shapes[] = {make<Round>(2.0), make<Box>(2.0, 3.0)};
  CHECK();
  for (Shape *s : shapes) { s->grow(1); CHECK(); s->id += 5; CHECK(); }
  double total = 0; for (Shape *s : shapes) total += s->area();
  Big *whole = new (perdure_alloc(sizeof(Big))) Big(big(7)); CHECK(); total += whole->v[8];
  std::string *small = make<std::string>("short"); perdure_commit();
  *small += "er"; perdure_commit(); small->assign("other"); perdure_commit();
  Str *str = make<Str>("a string that is too long for its own object, and so lies in the heap"); CHECK();
  str->append(*str); CHECK(); (*str)[70] = 'X'; CHECK(); str->insert(3, "inserted"); CHECK(); str->resize(500, 'z'); CHECK();
  auto *v = make<Vec<long>>(); CHECK();
  for (long i = 0; i < 300; i++) { v->push_back(i); if (i % 17 == 0) CHECK(); }
  CHECK(); v->insert(v->begin() + 3, 40, 7L); CHECK(); v->erase(v->begin(), v->begin() + 9); CHECK(); v->assign(100, 3); CHECK();
  auto *vv = make<Vec<Vec<Str>>>(); vv->resize(5); CHECK(); vv->at(3).push_back("nested"); CHECK(); vv->at(4) = vv->at(3); CHECK();
  auto *flags = make<std::vector<bool, HeapAllocator<bool>>>(200); CHECK(); (*flags)[77] = true; CHECK(); flags->flip(); CHECK();
  auto *list = make<std::list<int, HeapAllocator<int>>>(); for (int i = 0; i < 20; i++) list->push_front(i * 7 % 11); perdure_commit(); list->sort(); perdure_commit();
  // The tree is balanced by a function of the library: unseen, so that commits ask the kernel.
  auto *map = make<std::map<int, long, std::less<int>, HeapAllocator<std::pair<const int, long>>>>(); CHECK();
  for (int i = 0; i < 100; i++) { (*map)[i * 37 % 101] = i; perdure_commit(); }
  (*map)[37] = 9; CHECK();
  auto *hash = make<std::unordered_map<int, long, std::hash<int>, std::equal_to<int>, HeapAllocator<std::pair<const int, long>>>>();
  for (int i = 0; i < 100; i++) { (*hash)[i * 37] = i; perdure_commit(); }
  auto *some = make<std::optional<Str>>(); CHECK(); some->emplace("present"); CHECK(); some->reset(); CHECK();
  auto *one = make<std::variant<int, double, Str>>(1); *one = 2.5; CHECK(); *one = Str("text"); CHECK();
  auto *arr = make<std::array<std::pair<int, char>, 30>>(); arr->fill({1, 'x'}); CHECK();
  auto *at = make<std::atomic<long>>(5); CHECK(); at->fetch_add(3); CHECK(); at->store(at->load() * 2); CHECK();
  auto *fn = make<std::function<void(int)>>([&](int i) { (*arr)[i].first = i; }); perdure_commit();
  (*fn)(7); CHECK();
  long *n = static_cast<long *>(perdure_alloc(24)); n[0] = 0; CHECK();
  int caught = 0;
  for (int i = 1; i < 12; i++) { try { risky(n, i); } catch (const Error &e) { caught += e.code; n[2] = -1; } perdure_commit(); }
  for (int i = 0; i < 3; i++) { try { try { risky(n, 3 * i); } catch (...) { ++n[0]; throw; } } catch (std::exception &) { ++n[1]; } perdure_commit(); }
  try { (void)v->at(1000); } catch (std::out_of_range &) { n[2] = 5; } CHECK();
  shapes[0]->~Shape(); CHECK();
  printf("%g %s %zu %ld %zu %ld %ld %d %ld %ld\n", total, small->c_str(), str->size(), (*v)[50], map->size(), (*hash)[37], at->load(), caught, n[0], n[1]);
}
