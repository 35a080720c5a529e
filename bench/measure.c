/* Runs a command and says what it cost. A small C program, because a child's peak memory as the kernel reports it includes
 * the parent's at the moment of the fork: under a big parent, small programs look big.
 *
 * Usage: measure REPORT LIMIT COMMAND [ARGUMENT...]
 * After LIMIT seconds (0: never) the command and what it started are killed.
 * REPORT gets one line: wall, user and system microseconds, peak resident KiB, minor and major faults, bytes that were made
 * dirty for a medium (whole pages of files, in memory mappings too; not those of tmpfs), bytes that were passed to write and its
 * like, whether it was killed for the limit, wait status.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long micros(struct timeval t) { return t.tv_sec * 1000000LL + t.tv_usec; }

/* One fact of /proc/PID/io, -1 if it cannot be told. Of the process alone, not of its children. "write_bytes" counts a page for
 * whoever made it dirty, so a flush by others later is the process's too. */
static long long io_fact(pid_t child, const char *name) {
    char path[64], line[128], word[32];
    long long bytes = -1, value;
    snprintf(path, sizeof path, "/proc/%d/io", (int)child);
    FILE *io = fopen(path, "r");
    if (!io)
        return -1;
    while (fgets(line, sizeof line, io))
        if (sscanf(line, "%31[^:]: %lld", word, &value) == 2 && strcmp(word, name) == 0)
            bytes = value;
    fclose(io);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: measure REPORT LIMIT COMMAND [ARGUMENT...]\n");
        return 2;
    }
    const struct timespec limit = {.tv_sec = atol(argv[2])};
    struct timespec start, end;
    struct rusage used;
    int status, killed = 0;
    sigset_t ended, before;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &before);
    clock_gettime(CLOCK_MONOTONIC, &start);
    const pid_t child = fork();
    if (child < 0) {
        perror("measure: fork");
        return 2;
    }
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* an interrupted benchmark leaves nothing running */
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    if (limit.tv_sec > 0 && sigtimedwait(&ended, NULL, &limit) < 0) {
        killed = 1;
        setpgid(child, child); /* it may not have come to that itself */
        kill(-child, SIGKILL);
    }
    siginfo_t gone;
    if (waitid(P_PID, child, &gone, WEXITED | WNOWAIT) != 0) {
        perror("measure: waitid");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const long long dirtied = io_fact(child, "write_bytes"), passed = io_fact(child, "wchar");
    if (wait4(child, &status, 0, &used) != child) {
        perror("measure: wait4");
        return 2;
    }
    FILE *report = fopen(argv[1], "w");
    if (!report) {
        perror(argv[1]);
        return 2;
    }
    fprintf(report, "%lld %lld %lld %ld %ld %ld %lld %lld %d %d\n",
            (end.tv_sec - start.tv_sec) * 1000000LL + (end.tv_nsec - start.tv_nsec) / 1000, micros(used.ru_utime),
            micros(used.ru_stime), used.ru_maxrss, used.ru_minflt, used.ru_majflt, dirtied, passed, killed, status);
    return fclose(report) == 0 ? 0 : 2;
}
