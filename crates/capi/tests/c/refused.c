/* What the library refuses, it refuses at once, without a trace, and in words that help. Arguments: a file, or a heap, and what to ask for. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <perdure.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                                                        \
    do {                                                                                                                                   \
        if (!(what)) {                                                                                                                     \
            fprintf(stderr, "%s:%d: %s (errno %d, \"%s\")\n", __FILE__, __LINE__, #what, errno, perdure_message());                    \
            _exit(1);                                                                                                                      \
        }                                                                                                                                  \
    } while (0)

static int says(const char *part) { return strstr(perdure_message(), part) != NULL; }

static void make(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0 && close(fd) == 0);
}

/* A descriptor that cannot be read, or not be written. */
static void access_of(const char *path) {
    make(path);
    perdure_file *file;
    int fd = open(path, O_RDONLY);
    CHECK(perdure_file_open(fd, path, &file) == PERDURE_EREADONLY && !file);
    CHECK(says(path) && says("for reading only") && says("O_RDWR"));
    fd = open(path, O_WRONLY);
    CHECK(perdure_file_open(fd, path, &file) == PERDURE_EINVAL && !file);
    CHECK(says(path) && says("for writing only") && says("O_RDWR"));
    fd = open(path, O_RDWR);
    CHECK(perdure_file_open(fd, path, &file) == PERDURE_OK && perdure_file_close(file) == PERDURE_OK);
}

/* A descriptor of another file than the path's, and of what is no file. */
static void path_of(const char *path) {
    make(path);
    char other[4096];
    snprintf(other, sizeof other, "%s.other", path);
    perdure_file *file;
    int fd = open(path, O_RDWR);
    CHECK(perdure_file_open(fd, other, &file) == PERDURE_EINVAL && !file && says(other) && says("No such file"));
    make(other);
    CHECK(perdure_file_open(fd, other, &file) == PERDURE_EINVAL && !file && says(other) && says("another file"));
    CHECK(unlink(other) == 0);
    int null = open("/dev/null", O_RDWR), folder = open(".", O_RDONLY);
    CHECK(perdure_file_open(null, path, &file) == PERDURE_EINVAL && !file && says(path) && says("no regular file"));
    CHECK(perdure_file_open(folder, ".", &file) == PERDURE_EINVAL && !file && says("no regular file"));
    CHECK(perdure_file_open(fd, path, &file) == PERDURE_OK && perdure_file_close(file) == PERDURE_OK);
}

int main(int argc, char **argv) {
    static const struct {
        const char *word;
        void (*ask)(const char *path);
    } words[] = {{"access", access_of}, {"path", path_of}};
    for (size_t i = 0; argc == 3 && i < sizeof words / sizeof *words; i++)
        if (!strcmp(argv[2], words[i].word)) {
            words[i].ask(argv[1]);
            return 0;
        }
    return 2;
}
