/* Records what a program does to its files, in front of it by LD_PRELOAD: what crash.rs enumerates crashes of.
 *
 * PERDURE_RECORDING names the record: one structure per operation, the bytes of a write behind it. An operation is noted when it is done, and a flush
 * also when it begins: it promises nothing for what was noted between the two. Each note is one write(2), so notes of threads are whole, and what
 * one thread does after it has heard of another's operation is noted behind it.
 *
 * Operations that failed are not noted: the test makes sure that there were none by comparing files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A flush takes so long that other threads do something meanwhile. */
#define FLUSH_US 2000

enum kind { WRITTEN = 1, CUT, RESERVED, PUNCHED, FLUSH_BEGINS, FLUSH_ENDS, REMOVED };

struct note {
    uint64_t kind, thread, file; /* an inode */
    uint64_t offset, length;
};

static int record = -1;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PERDURE_RECORDING");
    if (path)
        record = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void stop(const char *why) {
    dprintf(2, "recorder: %s\n", why);
    _exit(99);
}

static void note(enum kind kind, int fd, uint64_t offset, uint64_t length, const void *bytes) {
    if (record < 0)
        return;
    int was = errno;
    struct stat status = {0};
    if (fd >= 0 && fstat(fd, &status))
        stop("fstat");
    struct note head = {kind, (uint64_t)syscall(SYS_gettid), status.st_ino, offset, length};
    size_t of_bytes = bytes ? length : 0;
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)bytes, of_bytes}};
    if (writev(record, parts, 2) != (ssize_t)(sizeof head + of_bytes))
        stop("writev");
    errno = was;
}

/* The function that would be called without us. */
#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        stop(name);
    return found;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    ssize_t done = REAL(pwrite64)(fd, bytes, length, offset);
    if (done > 0)
        note(WRITTEN, fd, (uint64_t)offset, (uint64_t)done, bytes);
    return done;
}

int ftruncate64(int fd, off64_t length) {
    int code = REAL(ftruncate64)(fd, length);
    if (code == 0)
        note(CUT, fd, 0, (uint64_t)length, NULL);
    return code;
}

int posix_fallocate(int fd, off_t offset, off_t length) {
    int code = REAL(posix_fallocate)(fd, offset, length);
    if (code == 0)
        note(RESERVED, fd, (uint64_t)offset, (uint64_t)length, NULL);
    return code;
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    int code = REAL(fallocate)(fd, mode, offset, length);
    if (code == 0 && !(mode & FALLOC_FL_PUNCH_HOLE))
        stop("a fallocate that is not known");
    if (code == 0)
        note(PUNCHED, fd, (uint64_t)offset, (uint64_t)length, NULL);
    return code;
}

static int flush(int (*real)(int), int fd) {
    note(FLUSH_BEGINS, fd, 0, 0, NULL);
    usleep(FLUSH_US);
    int code = real(fd);
    if (code == 0)
        note(FLUSH_ENDS, fd, 0, 0, NULL);
    return code;
}

int fdatasync(int fd) { return flush(REAL(fdatasync), fd); }
int fsync(int fd) { return flush(REAL(fsync), fd); }

int unlink(const char *path) {
    int code = REAL(unlink)(path);
    if (code == 0)
        note(REMOVED, -1, 0, 0, NULL);
    return code;
}
