// Threads that take turns, and commit while the others wait; locks in the heap. (Not both at once: a lock that somebody waits for
// changes while the holder commits, and is marked when the wait is over.)
#include "../heap.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
struct shared { long who, count[4], log[400]; int n; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static void *work(void *arg) {
  struct shared *s = ((void **)arg)[0]; long me = (long)((void **)arg)[1];
  for (int i = 0; i < 50; i++) {
    pthread_mutex_lock(&lock);
    while (s->who != me) pthread_cond_wait(&turn, &lock);
    s->count[me]++; s->log[s->n++] = me * 100 + i;
    perdure_commit();
    s->count[me]++;
    s->who = (me + 1) % 4;
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&lock);
  }
  return (void *)me;
}
int main(void) {
  struct shared *s = perdure_alloc(sizeof *s); memset(s, 0, sizeof *s); perdure_commit();
  pthread_mutex_t *m = perdure_alloc(sizeof *m); pthread_cond_t *c = perdure_alloc(sizeof *c); pthread_rwlock_t *w = perdure_alloc(sizeof *w);
  pthread_mutex_init(m, NULL); EXACT(); perdure_commit(); pthread_cond_init(c, NULL); EXACT(); perdure_commit(); pthread_mutex_lock(m); EXACT(); perdure_commit();
  pthread_mutex_unlock(m); EXACT(); perdure_commit(); pthread_rwlock_init(w, NULL); pthread_rwlock_rdlock(w); EXACT(); perdure_commit();
  void *args[4][2]; pthread_t *t = perdure_alloc(sizeof *t * 4); void **r = perdure_alloc(32);
  for (long i = 0; i < 4; i++) { args[i][0] = s; args[i][1] = (void *)i; }
  pthread_mutex_lock(&lock); EXACT();
  for (long i = 0; i < 4; i++) { pthread_create(&t[i], NULL, work, args[i]); EXACT(); perdure_commit(); }
  pthread_mutex_unlock(&lock);
  void *got[4]; for (long i = 0; i < 4; i++) pthread_join(t[i], &got[i]);
  for (long i = 0; i < 4; i++) r[i] = got[i];
  EXACT(); perdure_commit();
  printf("%ld %ld %ld %d\n", s->count[0], s->count[3], s->log[199], s->n);
  CLAIM(perdure_unseen_commits() == 0);
}
