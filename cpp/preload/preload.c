/* libperdure-preload.so: failure-atomic msync for programs that know nothing of it.
 *
 *     PERDURE_FILES='*.db:/var/lib/thing/...' LD_PRELOAD=/usr/local/lib/libperdure-preload.so program
 *
 * A file that matches a pattern, when it is mapped MAP_SHARED and writable, is mapped by libperdure instead: msync(MS_SYNC), and
 * fsync of its descriptor, make what was stored since the last one permanent at once; munmap of its last mapping and the ordinary
 * end of the program do too. Patterns are separated by colons; one without a slash is about the last part of the name, one with a slash about
 * the whole path (fnmatch(3); * matches slashes too).
 *
 * The invariant: windows[] has exactly the mappings that the program has of such files, and a file is open while it has one. What cannot be done
 * is an error of the call, with errno, and a sentence on standard error if PERDURE_VERBOSE is set; never a silent ordinary mapping of a
 * file that was to be atomic, but where the program asks for a fixed address.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <perdure.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A file that is mapped. */
struct mapped {
    struct mapped *next;
    dev_t device;
    ino_t inode;
    perdure_file *file;
    char *memory; /* of its first byte */
    uint64_t reach;
    size_t windows;
};

/* A mapping that the program has of one. */
struct window {
    struct mapped *of;
    char *start;
    size_t length;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct mapped *files;
/* Some may have the same addresses: two mappings of one place. */
static struct window *windows;
static size_t window_count, window_room;
/* How many files are mapped: looked at without the lock, so that other programs' calls cost next to nothing. */
static size_t file_count;
static bool watches_forks;
/* libperdure itself maps files under our hands. */
static __thread int inside;

/* The next library's function of this name: those of the C library are points of cancellation, system calls are not. Looked up at the first call,
 * because constructors of other libraries run before any of ours. */
static void *next_function(void **known, const char *name) {
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        if (!found)
            abort();
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found;
}

static int real_msync(void *address, size_t length, int flags) {
    static void *known;
    return ((int (*)(void *, size_t, int))next_function(&known, "msync"))(address, length, flags);
}

static int real_fsync(int fd) {
    static void *known;
    return ((int (*)(int))next_function(&known, "fsync"))(fd);
}

static int real_fdatasync(int fd) {
    static void *known;
    return ((int (*)(int))next_function(&known, "fdatasync"))(fd);
}

static void *real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static int real_munmap(void *address, size_t length) { return syscall(SYS_munmap, address, length); }

static int real_madvise(void *address, size_t length, int advice) {
    return syscall(SYS_madvise, address, length, advice);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    if (!getenv("PERDURE_VERBOSE"))
        return;
    int kept = errno;
    va_list arguments;
    va_start(arguments, format);
    char text[1024];
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "perdure: %.*s\n", length, text);
    errno = kept;
}

static void enter(void) {
    pthread_mutex_lock(&lock);
    inside++;
}

static void leave(void) {
    int kept = errno;
    inside--;
    pthread_mutex_unlock(&lock);
    errno = kept;
}

/* A recursive lock knows its owner by a number that the child's thread does not have. */
static void leave_in_child(void) {
    inside--;
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/* The errno of a code of libperdure's. */
static int errno_of(int code) {
    switch (code) {
    case PERDURE_OK:
        return 0;
    case PERDURE_EINVAL:
        return EINVAL;
    case PERDURE_EFULL:
        return ENOSPC;
    case PERDURE_EREADONLY:
        return EROFS;
    case PERDURE_ELOCKED:
        return EAGAIN;
    case PERDURE_EADDRESS:
    case PERDURE_ETOOMANY:
        return ENOMEM;
    default:
        return EIO;
    }
}

static int failed(int code, const char *what) {
    if (!code)
        return 0;
    say("%s: %s", what, perdure_message());
    errno = errno_of(code);
    return -1;
}

static bool matches(const char *path) {
    const char *patterns = getenv("PERDURE_FILES");
    if (!patterns || !*patterns)
        return false;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char pattern[PATH_MAX];
    for (;;) {
        size_t length = strcspn(patterns, ":");
        if (length > 0 && length < sizeof pattern) {
            memcpy(pattern, patterns, length);
            pattern[length] = 0;
            if (fnmatch(pattern, strchr(pattern, '/') ? path : name, 0) == 0)
                return true;
        }
        if (!patterns[length])
            return false;
        patterns += length + 1;
    }
}

/* The path of a descriptor's file; false if it has none any more. */
static bool path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0 || path[0] != '/')
        return false;
    path[length] = 0;
    struct stat named, open;
    return stat(path, &named) == 0 && fstat(fd, &open) == 0 && named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

static struct mapped *mapped_of(const struct stat *status) {
    struct mapped *m = files;
    while (m && (m->inode != status->st_ino || m->device != status->st_dev))
        m = m->next;
    return m;
}

static struct mapped *find_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? mapped_of(&status) : NULL;
}

/* The file that a descriptor's mappings go to: one that is mapped, or a new one. NULL: an ordinary mapping. */
static struct mapped *file_for(int fd, bool writable, int *error) {
    struct mapped *m = find_file(fd);
    if (m || !writable)
        return m;
    struct stat status;
    char path[PATH_MAX];
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !path_of(fd, path) || !matches(path))
        return NULL;
    m = calloc(1, sizeof *m);
    if (!m) {
        *error = ENOMEM;
        return NULL;
    }
    int code = perdure_file_open(fd, path, &m->file);
    if (code) {
        say("%s: cannot be mapped: %s", path, perdure_message());
        *error = errno_of(code);
        free(m);
        return NULL;
    }
    m->device = status.st_dev;
    m->inode = status.st_ino;
    if (!watches_forks) {
        /* Later than libperdure's own, and so called before: whoever has this lock may wait for libperdure's, never the other way round. */
        pthread_atfork(enter, leave, leave_in_child);
        watches_forks = true;
    }
    m->memory = perdure_file_memory(m->file);
    m->reach = perdure_file_reach(m->file);
    m->next = files;
    files = m;
    __atomic_add_fetch(&file_count, 1, __ATOMIC_RELAXED);
    perdure_stats stats = {.size = sizeof stats};
    perdure_file_get_stats(m->file, &stats);
    const char *ways[] = {"", "pages", "lines", "verify"};
    say("%s: msync is failure-atomic, by %s", path, ways[stats.tracking & 3]);
    return m;
}

/* Its last mapping is gone, or the process ends: close is how. What was stored is the file's, as it would be without us. */
static int forget_file(struct mapped *m, int (*close)(perdure_file *)) {
    struct mapped **link = &files;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    __atomic_sub_fetch(&file_count, 1, __ATOMIC_RELAXED);
    int synced = perdure_file_sync(m->file);
    int result = synced == PERDURE_EREADONLY ? 0 : failed(synced, "the last sync");
    int closed = close(m->file);
    if (!result && closed != PERDURE_EREADONLY)
        result = failed(closed, "closing");
    free(m);
    return result;
}

static bool add_window(struct mapped *m, char *start, size_t length) {
    if (window_count == window_room) {
        size_t room = window_room ? 2 * window_room : 16;
        struct window *grown = realloc(windows, room * sizeof *windows);
        if (!grown)
            return false;
        windows = grown;
        window_room = room;
    }
    windows[window_count++] = (struct window){m, start, length};
    m->windows++;
    return true;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    int type = flags & MAP_TYPE;
    bool shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
    if (inside || !shared || (flags & MAP_ANONYMOUS) || fd < 0 || length == 0 || offset < 0)
        return real_mmap(address, length, protection, flags, fd, offset);
    bool writable = protection & PROT_WRITE;
    if (!writable && !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real_mmap(address, length, protection, flags, fd, offset);
    int access = fcntl(fd, F_GETFL) & O_ACCMODE;
    if (access == O_WRONLY || (writable && access != O_RDWR))
        return real_mmap(address, length, protection, flags, fd, offset); /* which the kernel refuses */
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
        char path[PATH_MAX];
        if (writable && path_of(fd, path) && matches(path))
            say("%s: mapped at a fixed address: msync of it is not failure-atomic", path);
        return real_mmap(address, length, protection, flags, fd, offset);
    }
    enter();
    int error = 0;
    void *result = MAP_FAILED;
    struct mapped *m = file_for(fd, writable, &error);
    if (!m && !error)
        result = real_mmap(address, length, protection, flags, fd, offset);
    else if (m && offset % sysconf(_SC_PAGESIZE))
        error = EINVAL;
    else if (m && ((uint64_t)offset > m->reach || length > m->reach - offset)) {
        say("a mapping of %zu bytes from %lld on: a file can grow up to %llu bytes while it is mapped", length, (long long)offset,
            (unsigned long long)m->reach);
        error = ENOMEM;
    } else if (m && !add_window(m, m->memory + offset, length))
        error = ENOMEM;
    else if (m)
        result = m->memory + offset;
    if (m && error && m->windows == 0)
        forget_file(m, perdure_file_close);
    if (error)
        errno = error;
    leave();
    return result;
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

static size_t in_pages(size_t length) {
    size_t page = sysconf(_SC_PAGESIZE);
    return (length + page - 1) / page * page;
}

/* A window that has some of [start, end). */
static struct window *window_in(char *start, char *end) {
    for (size_t i = 0; i < window_count; i++)
        if (windows[i].start < end && windows[i].start + in_pages(windows[i].length) > start)
            return &windows[i];
    return NULL;
}

/* The window that is [start, end): what a program names is what it mapped, although others may have the same addresses. */
static struct window *window_of(char *start, char *end) {
    for (size_t i = 0; i < window_count; i++)
        if (windows[i].start == start && windows[i].start + in_pages(windows[i].length) == end)
            return &windows[i];
    return NULL;
}

/* Takes [start, end), which is one window's or a part of it, from that; false if there is no memory to note what is left. */
static bool cut_window(struct window *w, char *start, char *end) {
    struct mapped *m = w->of;
    char *w_start = w->start, *w_end = w_start + in_pages(w->length);
    *w = windows[--window_count];
    m->windows--;
    bool kept = true;
    if (w_start < start)
        kept &= add_window(m, w_start, start - w_start);
    if (w_end > end)
        kept &= add_window(m, end, w_end - end);
    return kept;
}

int munmap(void *address, size_t length) {
    char *start = address, *end = start + in_pages(length);
    if (inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED) || length == 0 || (uintptr_t)start % in_pages(1))
        return real_munmap(address, length);
    enter();
    int result = 0;
    if (!window_in(start, end))
        result = real_munmap(address, length);
    /* Several mappings of one place in a file have the same addresses here, so each page leaves one window: if none is what is named, which of them is all
     * the same. */
    while (start < end) {
        struct window *next = window_of(start, end);
        if (!next)
            next = window_in(start, start + 1);
        if (!next)
            for (size_t i = 0; i < window_count; i++)
                if (windows[i].start > start && windows[i].start < end && (!next || windows[i].start < next->start))
                    next = &windows[i];
        if (!next)
            break;
        if (next->start > start)
            start = next->start;
        char *next_end = next->start + in_pages(next->length);
        struct mapped *m = next->of;
        char *until = next_end < end ? next_end : end;
        if (!cut_window(next, start, until)) {
            errno = ENOMEM;
            result = -1;
        }
        if (m->windows == 0 && forget_file(m, perdure_file_close) != 0)
            result = -1;
        start = until;
    }
    leave();
    return result;
}

/* Of a shared mapping MADV_DONTNEED takes pages from memory, and nothing from the file; of a private one, which ours are, it would take what was stored. */
int madvise(void *address, size_t length, int advice) {
    bool takes = advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE || advice == MADV_REMOVE;
    if (!takes || inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real_madvise(address, length, advice);
    enter();
    int result = 0;
    if (!window_in(address, (char *)address + in_pages(length)))
        result = real_madvise(address, length, advice);
    else if (advice == MADV_FREE || advice == MADV_REMOVE) {
        say("madvise: a hole in a file whose msync is failure-atomic cannot be made through its mapping");
        errno = EINVAL;
        result = -1;
    }
    leave();
    return result;
}

int msync(void *address, size_t length, int flags) {
    if (inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real_msync(address, length, flags);
    enter();
    int result;
    struct window *w = window_in(address, (char *)address + in_pages(length ? length : 1));
    if (!w)
        result = real_msync(address, length, flags);
    else if ((flags & MS_SYNC) && (flags & MS_ASYNC)) {
        errno = EINVAL;
        result = -1;
    } else if (flags & MS_SYNC) {
        struct mapped *m = w->of;
        result = failed(perdure_file_sync(m->file), "msync");
    } else
        result = 0; /* nothing has to happen, and nothing may that is not atomic */
    leave();
    return result;
}

static int sync_descriptor(int fd, int (*real)(int)) {
    if (inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real(fd);
    enter();
    struct mapped *m = find_file(fd);
    int result = m ? failed(perdure_file_sync(m->file), "fsync") : 0;
    if (result == 0)
        result = real(fd);
    leave();
    return result;
}

int fsync(int fd) { return sync_descriptor(fd, real_fsync); }

int fdatasync(int fd) { return sync_descriptor(fd, real_fdatasync); }

/* In the page in which a file now ends, what was behind the end is zero when the file is longer again (mmap(2)). The kernel sees to that in its
 * own memory; ours may be a copy. */
static void blank_behind_end(struct mapped *m, off_t end) {
    size_t page = sysconf(_SC_PAGESIZE), used = end % page;
    if ((uint64_t)end >= m->reach)
        return;
    for (char *byte = m->memory + end; used && used < page; byte++, used++)
        if (*byte)
            *byte = 0;
}

/* After a file was given a length, successfully, that was before. */
static void is_cut(struct mapped *m, const struct stat *before, off_t length) {
    if (m && length < before->st_size)
        blank_behind_end(m, length);
}

int ftruncate(int fd, off_t length) {
    static void *known;
    int (*real)(int, off_t) = (int (*)(int, off_t))next_function(&known, "ftruncate");
    if (inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real(fd, length);
    enter();
    struct stat before;
    struct mapped *m = fstat(fd, &before) == 0 ? find_file(fd) : NULL;
    int result = real(fd, length);
    if (result == 0)
        is_cut(m, &before, length);
    leave();
    return result;
}

int truncate(const char *path, off_t length) {
    static void *known;
    int (*real)(const char *, off_t) = (int (*)(const char *, off_t))next_function(&known, "truncate");
    if (inside || !__atomic_load_n(&file_count, __ATOMIC_RELAXED))
        return real(path, length);
    enter();
    struct stat before;
    struct mapped *m = stat(path, &before) == 0 ? mapped_of(&before) : NULL;
    int result = real(path, length);
    if (result == 0)
        is_cut(m, &before, length);
    leave();
    return result;
}

int truncate64(const char *path, off64_t length) __attribute__((alias("truncate")));

int ftruncate64(int fd, off64_t length) __attribute__((alias("ftruncate")));

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...) {
    void *new_address = NULL;
    if (flags & MREMAP_FIXED) {
        va_list arguments;
        va_start(arguments, flags);
        new_address = va_arg(arguments, void *);
        va_end(arguments);
    }
    if (!inside && __atomic_load_n(&file_count, __ATOMIC_RELAXED)) {
        enter();
        char *start = address;
        struct window *w = window_of(start, start + in_pages(old_length));
        if (!w)
            w = window_in(start, start + 1);
        if (w) {
            void *result = MAP_FAILED;
            uint64_t offset = start - w->of->memory;
            if ((flags & MREMAP_FIXED) || start != w->start || in_pages(old_length) != in_pages(w->length) || !new_length)
                errno = EINVAL;
            else if (new_length > w->of->reach - offset)
                errno = ENOMEM;
            else {
                w->length = new_length; /* the whole file is there already */
                result = address;
            }
            leave();
            return result;
        }
        leave();
    }
    return (void *)syscall(SYS_mremap, address, old_length, new_length, flags, new_address);
}

/* The ordinary end. The lock is kept: other threads may still run, and no msync of theirs may return from now on; and so is the memory, which
 * they may still use. */
static void end(void *nothing) {
    (void)nothing;
    if (inside) /* exit was called by a signal handler in the middle of a call of ours */
        return;
    enter();
    if (!files) {
        leave();
        return;
    }
    __atomic_add_fetch(&file_count, 1, __ATOMIC_RELAXED); /* so that they come to the lock */
    while (files)
        forget_file(files, perdure_file_leave);
}

extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);

/* Not a destructor: of all libraries' destructors ours would run first, and others may still store and call msync. What is noted before main, and for no
 * library, comes last. */
__attribute__((constructor)) static void begin(void) {
    __cxa_atexit(end, NULL, NULL);
    const char *patterns = getenv("PERDURE_FILES");
    if (!patterns || !*patterns)
        say("PERDURE_FILES names no files: every msync is an ordinary one");
}
