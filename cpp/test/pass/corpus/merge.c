// What one mark may stand for, and what ends it: every commit, wherever it hides.
#include "../heap.h"
#include <stdio.h>
#include <string.h>
struct node { long key, left, right, count; char name[80]; };
#define F __attribute__((noinline)) static
F void hidden(int c) { if (c) perdure_commit(); }
F void recurse(struct node *n, int d) { n->key = d; if (d) recurse(n, d - 1); else perdure_commit(); n->count = d; n->name[70] = d; }
F void branches(struct node *n, int c) { n->key = 1; if (c & 1) { n->key = 2; hidden(c & 2); } else n->left = 3; n->key = 4; n->left = 5; if (c & 4) { n->right = 3; } n->right = 4; n->key = 9 + c; }
F void join(struct node *n, struct node *m, int c) { struct node *x = c ? n : m; if (c) n->key = 1; else m->key = 2; x->key += 3; x->count = 1; n->count = 2; m->count = 3; }
F void around(struct node *n, int k, int c) { for (int i = 0; i < k; i++) { n->key = i; if (i == c) perdure_commit(); n->key++; n->name[i]++; } n->left = k; }
F void walk(struct node **n, int k, int c) { struct node *x = n[0]; for (int i = 0; i < k; i++) { x->key = i; x->left++; if (i & c) perdure_commit(); x->right = 4; x = n[i]; } x->count = 2; }
F void many(struct node *n) { n->key = n->left = n->right = n->count = 1; memset(n->name, 1, 80); n->name[79] = 4; n->name[0] = 3; perdure_commit(); n->name[40] = 4; n->key = 4; n->name[79] = 9; }
F void switches(struct node *n, int c) { n->key = c; switch (c) { case 0: n->left = 1; break; case 1: perdure_commit(); case 2: n->left = 7; n->key = 3; break; default: n->right = 2; } n->left++; n->right++; n->key++; }
F int go(struct node *n, int c) { again: n->key = c; if (c-- > 0) { if (c == 3) perdure_commit(); n->left = c; goto again; } n->key = 77; return c; }
F void after_hidden(struct node *n, int c) { n->key = c; hidden(c); n->key = c + 1; }
F void gaps(char *p, int c) { p[0] = (char)c; p[200] = (char)c; p[100] = (char)(c + 1); }
F void pick(long *p, long *q, int n) { for (int i = 0; i < n; i++) { long *x = i & 1 ? p : q; x[i & 7] = i + n; __asm__ volatile(""); } }
// A mark takes along what is certain to come in later blocks: nothing less, and no line that is not stored to after all.
F void ahead(struct node *n, int c) { n->key += c; if (c & 1) n->left = n->key; n->name[20] += 3; if (c & 2) { n->name[60]++; } n->name[75] += 5; }
F void either(struct node *n, int c) { n->key++; if (c & 1) { n->name[20]++; hidden(c & 2); n->name[20]++; } else n->name[20] += 2; n->name[21]++; hidden(c & 4); n->name[40]++; n->key++; }
F void unsure(struct node *n, int c) { n->key++; if (c) return; n->name[60]++; n->name[20]++; }
F void committed(struct node *n, int c) { n->key++; if (c & 1) perdure_commit(); n->name[20]++; if (c & 2) perdure_commit(); else n->left++; n->name[21]++; n->name[60]++; }
F void chain(struct node **n, int k) { struct node *x; for (int i = 0;; i++) { x = n[i]; x->key++; if (i == k) break; x->name[40]++; x = 0; } }
F void rounds(struct node *n, int k) { struct node *x = n; do { x->name[20]++; x = n + k; x->key++; } while (k-- & 3); x->name[21]++; }
F void last(struct node **n, int k) { for (int i = 0;;) { struct node *x = n[i]; x->key++; if (++i <= k) continue; x->name[20]++; break; } }
int main(void) {
  struct node *n = perdure_alloc(40 * sizeof *n), *p[40];
  memset(n, 0, 40 * sizeof *n); perdure_commit();
  for (int i = 0; i < 40; i++) p[i] = &n[i * 7 % 40];
  for (int c = 0; c < 16; c++) {
    branches(&n[c], c); EXACT(); perdure_commit(); recurse(&n[c], c); perdure_commit(); join(&n[c], &n[c + 1], c & 1); perdure_commit();
    around(&n[c], c, c / 2); perdure_commit(); walk(p, c, c & 3); perdure_commit(); many(&n[c]); perdure_commit(); switches(&n[c], c & 3); perdure_commit(); go(&n[c], c); perdure_commit(); after_hidden(&n[c], c & 1); perdure_commit(); gaps(n[c].name, c + 1); perdure_commit(); long there[8]; pick(&n[c].key, there, c); perdure_commit(); pick(there, &n[c].key, c); perdure_commit();
    unsigned long idle = perdure_idle_lines();
    ahead(&n[c], c); EXACT(); perdure_commit(); either(&n[c], c); perdure_commit(); unsure(&n[c], c & 1); perdure_commit(); committed(&n[c], c); perdure_commit(); chain(p, c); perdure_commit(); rounds(n, c); perdure_commit(); last(p, c); perdure_commit();
    CLAIM(perdure_idle_lines() == idle);
  }
  long sum = 0; for (int i = 0; i < 40; i++) sum = sum * 31 + n[i].key + n[i].left + n[i].right + n[i].count + n[i].name[40];
  printf("%ld\n", sum); CLAIM(perdure_unseen_commits() == 0);
}
