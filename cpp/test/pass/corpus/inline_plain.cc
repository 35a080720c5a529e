// The part of inline.cc that nobody instruments; it comes first on the linker's command line.
#include "inline.h"
void plain(long *p) { shared<long>(p, 4); Thing<long> t; Base *b = &t; b->set(3); try { thrower(p, 5); } catch (int) {} }
