/* What the programs here have in common: time, chance, medians, and giving up. */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static uint64_t chance_state = 88172645463325252u;

static inline uint64_t chance(uint64_t below) {
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return chance_state % below;
}

#define ROUNDS_MAX 1000000

struct rounds {
    size_t count;
    double us[ROUNDS_MAX];
};

static inline void note(struct rounds *rounds, double us) {
    if (rounds->count < ROUNDS_MAX)
        rounds->us[rounds->count++] = us;
}

static inline int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(struct rounds *rounds) {
    if (!rounds->count)
        errx(1, "not one round");
    qsort(rounds->us, rounds->count, sizeof *rounds->us, ascending);
    return rounds->us[rounds->count / 2];
}

#endif
