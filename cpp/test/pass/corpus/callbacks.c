// with: mixed_plain.c
// A function without instrumentation whose address is given away may run at any time: unseen for good.
#include "../heap.h"
#include "mixed.h"
#include <stdlib.h>
plain_function volatile kept = plain_store;
int main(void) {
  long *p = perdure_alloc(80);
  CLAIM(perdure_is_unseen()); perdure_commit(); CLAIM(perdure_is_unseen());
  kept(p); perdure_commit(); CLAIM(perdure_is_unseen());
}
