// Strings, lists, trees and hash tables: also what the C++ library has compiled of them does nothing that is unseen.
#include "../heap.h"
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <set>
#include <string>
#include <unordered_map>

static bool in_heap;
void *operator new(size_t n) { return in_heap ? perdure_alloc(n) : malloc(n); }
void operator delete(void *) noexcept {}
void operator delete(void *, size_t) noexcept {}

template <class T> static T *make() {
  in_heap = true;
  return new (perdure_alloc(sizeof(T))) T();
}
static unsigned long seed = 7;
static unsigned next(unsigned below) { return unsigned((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % below; }
static void check() { EXACT(); perdure_commit(); }

// Black nodes on the way to each leaf; ends the program if the tree is none.
using Node = std::_Rb_tree_node_base;
static int height(const Node *n, const Node *parent) {
  if (!n) return 0;
  if (n->_M_parent != parent) abort();
  const bool is_red = n->_M_color == std::_S_red;
  if (is_red && ((n->_M_left && n->_M_left->_M_color == std::_S_red) || (n->_M_right && n->_M_right->_M_color == std::_S_red))) abort();
  const int left = height(n->_M_left, n), right = height(n->_M_right, n);
  if (left != right) abort();
  return left + !is_red;
}
template <class M> static void check_tree(const M &m) {
  const Node *header = m.end()._M_node, *root = header->_M_parent;
  if (root && root->_M_color != std::_S_black) abort();
  if (header->_M_left != (root ? Node::_S_minimum(root) : header) || header->_M_right != (root ? Node::_S_maximum(root) : header)) abort();
  height(root, header);
  size_t count = 0;
  const typename M::value_type *last = nullptr;
  for (const auto &e : m) { if (last && !(*last < e)) abort(); last = &e; count++; }
  if (count != m.size()) abort();
}

static void strings() {
  auto *s = make<std::string>();
  *s = "short"; check();
  s->append(" and longer than what fits"); check();
  for (int i = 0; i < 60; i++) { s->push_back(char('a' + i % 26)); check(); }
  s->insert(3, "inside"); check(); s->erase(1, 4); check(); s->replace(2, 3, "another text"); check();
  *s += *s; check(); s->resize(200, '-'); check(); s->reserve(900); check(); s->assign(70, 'x'); check();
  auto *t = make<std::string>(); *t = *s; check(); s->swap(*t); check(); *t = std::to_string(next(1000)); check(); t->clear(); check();
  printf("%s %s %zu\n", s->c_str(), t->c_str(), s->find("xx"));
}
static void lists() {
  auto *a = make<std::list<int>>(), *b = make<std::list<int>>();
  for (int i = 0; i < 20; i++) { a->push_back(i); check(); b->push_front(int(next(50))); check(); }
  a->splice(std::next(a->begin(), 3), *b, std::next(b->begin(), 2), std::next(b->begin(), 9)); check();
  a->reverse(); check(); b->sort(); check(); a->swap(*b); check(); a->remove(7); check(); a->merge(*b); check(); a->swap(*b); check(); a->swap(*b); check(); b->swap(*a); check();
  b->reverse(); check(); a->splice(a->begin(), *b); check(); a->sort(); check();
  for (int i : *a) printf("%d ", i);
  puts("");
}
static void trees() {
  auto *m = make<std::map<int, int>>();
  auto *keys = make<std::set<unsigned>>();
  for (int round = 0; round < 900; round++) {
    int key = int(next(97));
    if (next(5) < (round / 150 % 2 ? 1u : 4u)) (*m)[key] += round; else m->erase(key);
    if (round % 3 == 0) { if (!keys->insert(next(1u << 20)).second) abort(); } else if (round % 7 == 0) keys->erase(keys->begin());
    check_tree(*m); check_tree(*keys);
    if (round % 4 == 0) check();
  }
  while (!m->empty()) { m->erase(next(2) ? m->begin() : std::prev(m->end())); check_tree(*m); check(); }
  for (int i = 0; i < 40; i++) { m->emplace(i, i); check_tree(*m); } check();
  while (!m->empty()) { m->erase(std::next(m->begin(), long(m->size() / 2))); check_tree(*m); } check();
  unsigned long sum = 0;
  for (unsigned k : *keys) sum = sum * 31 + k;
  printf("%zu %lu\n", keys->size(), sum);
}
static void tables() {
  auto *t = make<std::unordered_map<int, int>>();
  for (int i = 0; i < 300; i++) { (*t)[int(next(1000))]++; check(); if (i % 3 == 0) { t->erase(int(next(1000))); check(); } }
  t->rehash(50); check(); t->max_load_factor(0.5F); check(); t->reserve(500); check();
  unsigned long sum = 0;
  for (int i = 0; i < 1000; i++) { auto f = t->find(i); sum = sum * 31 + (f == t->end() ? 0 : unsigned(f->second)); }
  printf("%zu %lu\n", t->size(), sum);
}
int main() { strings(); lists(); trees(); tables(); }
