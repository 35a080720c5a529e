/* cuts.c where all of it is read again and again: by crash.rs, once for each state of a disk. */
#define FILE_BYTES (40 * 1000)
#define LONGEST (6 * 1000)
#define COMMITS 12
#include "cuts.c"
