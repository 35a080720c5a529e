// The part of mixed.c that nobody instruments.
#include "../heap.h"
#include "mixed.h"
void plain_store(long *p) { p[0]++; }
struct pair *plain_returns(long *p) { p[10] = 5; return (struct pair *)&p[10]; }
struct pair plain_makes(long a) { return (struct pair){a, a + 1}; }
int plain_tail(long *p) { p[60]++; return 3; }
void plain_calls(long (*f)(long *), long *p) { p[30] = f(p); p[31]++; }
void plain_calls_twice(void (*f)(long *), long *p) { p[50]++; f(p); p[51]++; f(p); p[52]++; p[70]++; }
void plain_commits(long *p) { for (int i = 0; i < 5; i++) { p[80 + i]++; perdure_commit(); p[90 + i]++; } }
static void hidden(long *p) { *p = 77; }
plain_function plain_pointer(void) { return hidden; }
