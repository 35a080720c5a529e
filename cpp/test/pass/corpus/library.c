// Library functions and system calls that write into the heap.
#define _GNU_SOURCE
#include "../heap.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void check(void) { EXACT(); perdure_commit(); }
int main(int argc, char **argv) {
  char *p = perdure_alloc(8192);
  volatile int n = 300;
  int fd[2];
  if (pipe(fd) || write(fd[1], argv[0], 1) != 1) return 1;
  check();
  CLAIM(read(fd[0], p + 100, 500) == 1); check();
  char big[400]; memset(big, 'b', sizeof big); big[399] = 0;
  CLAIM(write(fd[1], big, 400) == 400);
  CLAIM(read(fd[0], p + 10, 1000) == 400); check();
  FILE *f = tmpfile();
  for (int i = 0; i < 100; i++) fprintf(f, "line %d of the file\n", i);
  rewind(f);
  CLAIM(fread(p, 7, 30, f) == 30); check();
  CLAIM(fgets(p + 1000, n, f) != NULL); check();
  fclose(f);
  CLAIM(snprintf(p + 2000, n, "%s-%d", big, 5) == 401); check();
  CLAIM(snprintf(p + 2000, 10, "%d", 12345) == 5); check();
  snprintf(p + 2200, 0, "%d", 12345); check();
  // The end of the text is the first byte of another line.
  CLAIM(snprintf(p + 2304, 100, "%.64s", big) == 64); check(); CLAIM(sprintf(p + 2432, "%.64s", big) == 64); check();
  CLAIM(sprintf(p + 2600, "%.80f", 1.0 / 3) == 82); check();
  strcpy(p + 3000, big); check(); strcat(p + 3000, big + 200); check(); strncat(p + 3000, big, 70); check();
  strncpy(p + 4000, "abc", n); check(); CLAIM(stpcpy(p + 4400, big) == p + 4400 + 399); check();
  void *(*volatile set)(void *, int, size_t) = memset;
  memcpy(p + 5000, big, n); check(); memmove(p + 5001, p + 5000, n); check(); memset(p + 4999, 0, n); check();
  CLAIM(strlen(p + 3000) == 399 + 199 + 70);
  int *v = (int *)(p + 6000);
  for (int i = 0; i < 200; i++) v[i] = (i * 7919) % 1000;
  check(); qsort(v, 200, sizeof *v, compare); check();
  for (int i = 1; i < 200; i++) CLAIM(v[i - 1] <= v[i]);
  double *d = (double *)(p + 7000);
  d[1] = modf(n + 0.5, &d[0]); check(); d[2] = frexp(n, (int *)&d[3]); check();
  memset(p + 7100, 0, sizeof(char *)); // across two lines
  CLAIM(strtol("77x", (char **)(p + 7100), 10) == 77 && **(char **)(p + 7100) == 'x'); check();
  stat("/", (struct stat *)(p + 7200)); check(); time((time_t *)(p + 7400)); check();
  time_t when = 86400; gmtime_r(&when, (struct tm *)(p + 7500)); check();
  clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(p + 7600)); check();
  // Not exact: the callee is not known when it is compiled, or nobody knows how far it writes.
  set(p + 5000, 9, n); CLAIM(perdure_is_unseen()); perdure_commit();
  sscanf("12 34", "%d %d", (int *)(p + 7000), (int *)(p + 7900)); CLAIM(perdure_is_unseen()); perdure_commit();
  int there; sscanf("12", "%d", &there); check();
  strcpy(p, "a,b,c"); check(); strtok(p, ","); CLAIM(perdure_is_unseen()); perdure_commit(); strtok(NULL, ","); perdure_commit();
  printf("%d %s %g %d\n", v[100], p + 2000, d[2], argc);
}
