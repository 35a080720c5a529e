/* Runs a command and says what it cost. A small C program, because a child's peak memory as the kernel reports it includes
 * the parent's at the moment of the fork: under a big parent, small programs look big.
 *
 * Usage: measure REPORT COMMAND [ARGUMENT...]
 * REPORT gets one line: wall, user and system microseconds, peak resident KiB, minor and major faults, wait status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long micros(struct timeval t) { return t.tv_sec * 1000000LL + t.tv_usec; }

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: measure REPORT COMMAND [ARGUMENT...]\n");
        return 2;
    }
    struct timespec start, end;
    struct rusage used;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    const pid_t child = fork();
    if (child < 0) {
        perror("measure: fork");
        return 2;
    }
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (wait4(child, &status, 0, &used) != child) {
        perror("measure: wait4");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *report = fopen(argv[1], "w");
    if (!report) {
        perror(argv[1]);
        return 2;
    }
    fprintf(report, "%lld %lld %lld %ld %ld %ld %d\n",
            (end.tv_sec - start.tv_sec) * 1000000LL + (end.tv_nsec - start.tv_nsec) / 1000, micros(used.ru_utime),
            micros(used.ru_stime), used.ru_maxrss, used.ru_minflt, used.ru_majflt, status);
    return fclose(report) == 0 ? 0 : 2;
}
