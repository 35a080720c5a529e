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

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

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

static perdure *heap;

static void errs(void) {
    CHECK(perdure_set_root(heap, "x", &heap) == PERDURE_EINVAL && says("not in this heap"));
}

static void at_the_end_of_the_thread(void *nothing) {
    (void)nothing;
    errs();
}

static void *thread(void *key) {
    errs();
    CHECK(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
    return NULL;
}

static void at_exit(void) {
    errs();
    CHECK(perdure_close(heap) == PERDURE_OK);
    printf("the end\n");
}

/* Words in every place in which a program may ask for them. */
static void message(const char *path) {
    CHECK(!strcmp(perdure_message(), "") && perdure_open(path, NULL, &heap) == PERDURE_OK && atexit(at_exit) == 0);
    pthread_key_t key;
    pthread_t of;
    CHECK(pthread_key_create(&key, at_the_end_of_the_thread) == 0);
    CHECK(pthread_create(&of, NULL, thread, &key) == 0 && pthread_join(of, NULL) == 0);
    CHECK(!strcmp(perdure_message(), "")); /* each thread has its own */
    errs();
    /* The text is asked for before the error comes, as in printf("%d %s", perdure_commit(heap), perdure_message()). */
    const char *early = perdure_message();
    CHECK(perdure_wait(heap, 1000) == PERDURE_EINVAL && strstr(early, "1000") && early == perdure_message());
    /* One that is longer than its place has a beginning and an end. */
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    perdure *other;
    CHECK(perdure_open(name, NULL, &other) != PERDURE_OK);
    CHECK(says("heap \"/xxx") && says("xxx ... xxx") && says("File name too long"));
}

/* What went back, what did not, and how much there is. */
static void full(const char *path) {
    char limited[4096];
    snprintf(limited, sizeof limited, "%s.limited", path);
    perdure_options options = PERDURE_OPTIONS;
    for (int has_limit = 0; has_limit < 2; has_limit++) {
        const char *name = has_limit ? limited : path;
        options.limit = has_limit ? 1 << 20 : 0;
        CHECK(perdure_open(name, &options, &heap) == PERDURE_OK);
        long *number = (long *)perdure_malloc(heap, sizeof *number);
        CHECK(number && perdure_set_root(heap, "number", number) == PERDURE_OK && perdure_commit(heap) == PERDURE_OK);
        *number = 2;
        const size_t sizes[] = {SIZE_MAX / 2, SIZE_MAX, (size_t)1 << 45, (size_t)1 << 41};
        for (int i = 0; i < 4; i++) {
            void *block = i % 2 ? perdure_realloc(heap, number, sizes[i]) : perdure_malloc(heap, sizes[i]);
            CHECK(!block && errno == ENOMEM && says(name) && says("perdure_abort") && !says("as of its last commit"));
            CHECK(!says("(heap)") && has_limit == says("its limit of 1048576 bytes"));
            CHECK(has_limit != says("at most 1099511627776 bytes"));
        }
        if (has_limit) {
            CHECK(!perdure_malloc(heap, 5 << 20) && errno == ENOMEM && says(name) && says("its limit of 1048576 bytes"));
            CHECK(says("perdure_abort") && !says("as of its last commit"));
        }
        CHECK(*number == 2 && perdure_commit(heap) == PERDURE_OK && perdure_close(heap) == PERDURE_OK);
    }
}

/* Who has it is this process, and to wait for that is in vain. */
static void twice(const char *path) {
    perdure *other;
    double begun = seconds();
    CHECK(perdure_open(path, NULL, &heap) == PERDURE_OK);
    CHECK(perdure_open(path, NULL, &other) == PERDURE_ELOCKED && !other);
    CHECK(says(path) && says("this process has it open already") && !says("waited"));
    char name[4096];
    snprintf(name, sizeof name, "%s.file", path);
    make(name);
    perdure_file *file, *again;
    int fd = open(name, O_RDWR);
    CHECK(perdure_file_open(fd, name, &file) == PERDURE_OK);
    CHECK(perdure_file_open(fd, name, &again) == PERDURE_ELOCKED && !again);
    CHECK(says(name) && says("this process has it open already") && !says("heap") && !says("waited"));
    CHECK(seconds() - begun < 4);
    /* A child has what its parent had at the fork, and may not write it; it waits for the writer, which is not itself. */
    pid_t child = fork();
    if (child == 0) {
        perdure_options impatient = PERDURE_OPTIONS;
        impatient.lock_wait_ms = 10;
        CHECK(perdure_open(path, &impatient, &other) == PERDURE_ELOCKED && says("another process is writing") && says("lock_wait_ms"));
        CHECK(perdure_file_open(fd, name, &again) == PERDURE_ELOCKED && says("another process has it open") && says("5.0 s"));
        CHECK(says(name) && !says("heap") && !says("lock_wait_ms") && !says("SNAPSHOT"));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(perdure_file_close(file) == PERDURE_OK && perdure_close(heap) == PERDURE_OK);
    /* And then it has it no more. */
    CHECK(perdure_file_open(fd, name, &file) == PERDURE_OK && perdure_file_close(file) == PERDURE_OK);
    CHECK(perdure_open(path, NULL, &heap) == PERDURE_OK && perdure_close(heap) == PERDURE_OK);
}

/* Limits of the process. */
static void limits(const char *path) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &was) == 0);
    int found = 0;
    /* However many there are: in words, and as what it is. */
    for (int count = 3; count < 30; count++) {
        few = was;
        few.rlim_cur = count;
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        int code = perdure_open(path, NULL, &heap);
        if (code == PERDURE_OK) {
            CHECK(perdure_close(heap) == PERDURE_OK);
            break;
        }
        found++;
        CHECK(code == PERDURE_EIO && says("ulimit -n") && !says("/proc mounted"));
    }
    CHECK(found > 2 && setrlimit(RLIMIT_NOFILE, &was) == 0);
    CHECK(perdure_open(path, NULL, &heap) == PERDURE_OK && getrlimit(RLIMIT_FSIZE, &was) == 0);
    few = was;
    few.rlim_cur = 1 << 20;
    CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
    CHECK(!perdure_malloc(heap, 8 << 20) && errno == ENOMEM && says("File too large") && says("ulimit -f"));
    CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0 && perdure_malloc(heap, 8 << 20) && perdure_close(heap) == PERDURE_OK);
}

static void nobody(const char *path) {
    CHECK(perdure_open(path, NULL, &heap) == PERDURE_OK);
    CHECK(perdure_each_root(heap, NULL, NULL) == PERDURE_EINVAL && says("NULL"));
    CHECK(perdure_close(heap) == PERDURE_OK);
}

int main(int argc, char **argv) {
    static const struct {
        const char *word;
        void (*ask)(const char *path);
    } words[] = {{"access", access_of}, {"path", path_of}, {"message", message}, {"full", full}, {"twice", twice}, {"limits", limits}, {"nobody", nobody}};
    for (size_t i = 0; argc == 3 && i < sizeof words / sizeof *words; i++)
        if (!strcmp(argv[2], words[i].word)) {
            words[i].ask(argv[1]);
            return 0;
        }
    return 2;
}
