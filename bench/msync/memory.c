/* Opening an engine's memory, and its transactions. The invariant: what was stored when memory_commit returns is there after
 * memory_close and memory_open, but for ENGINE_VOLATILE, which keeps nothing.
 */
#include "memory.h"
#include <errno.h>
#include <unistd.h>

#if defined(ENGINE_VOLATILE)

static ref root;

void memory_open(const char *path, uint64_t records, bool fresh)
{
    (void)path, (void)records;
    if (fresh)
        root = NULL;
}
void memory_close(void) {}
ref memory_root(size_t bytes)
{
    if (!root && !(root = calloc(1, bytes)))
        fail("no memory");
    return root;
}
void memory_begin(void) {}
void memory_commit(void) {}

#elif defined(ENGINE_PERDURE)

perdure *memory_heap;

static void remove_files(const char *path)
{
    static const char *const ends[] = {"", ".journal", ".sums"};
    char name[4096];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        if (unlink(name) != 0 && errno != ENOENT)
            fail("cannot remove %s: %s", name, strerror(errno));
    }
}

void memory_open(const char *path, uint64_t records, bool fresh)
{
    (void)records;
    if (fresh)
        remove_files(path);
    if (perdure_open(path, NULL, &memory_heap))
        fail("%s", perdure_message());
}

void memory_close(void)
{
    if (perdure_close(memory_heap))
        fail("%s", perdure_message());
}

ref memory_root(size_t bytes)
{
    void *root = perdure_root(memory_heap, "store");
    if (!root) {
        root = perdure_calloc(memory_heap, 1, bytes);
        if (!root || perdure_set_root(memory_heap, "store", root))
            fail("%s", perdure_message());
    }
    return root;
}

void memory_begin(void) {}

void memory_commit(void)
{
    if (perdure_commit(memory_heap))
        fail("%s", perdure_message());
}

#elif defined(ENGINE_PMDK)

static PMEMobjpool *pool;

void memory_open(const char *path, uint64_t records, bool fresh)
{
    if (fresh) {
        if (unlink(path) != 0 && errno != ENOENT)
            fail("cannot remove %s: %s", path, strerror(errno));
        /* What the records take and half as much again, and room for a long transaction's log. */
        pool = pmemobj_create(path, "ycsb", ((size_t)96 << 20) + records * 3 * RECORD_BYTES / 2, 0600);
    } else {
        pool = pmemobj_open(path, "ycsb");
    }
    if (!pool)
        fail("%s: %s", path, pmemobj_errormsg());
}

void memory_close(void)
{
    pmemobj_close(pool);
}

ref memory_root(size_t bytes)
{
    ref root = pmemobj_root(pool, bytes);
    if (OID_IS_NULL(root))
        fail("%s", pmemobj_errormsg());
    return root;
}

/* As TX_BEGIN and TX_END have it, but for the setjmp: nobody here goes on after an error. */
void memory_begin(void)
{
    if (pmemobj_tx_begin(pool, NULL, TX_PARAM_NONE) != 0)
        fail("%s", pmemobj_errormsg());
}

void memory_commit(void)
{
    pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0)
        fail("%s", pmemobj_errormsg());
}

#elif defined(ENGINE_MSYNC)

/* A shared mapping at a fixed address, and msync of it: what programs do that take the file for their memory. A crash in the middle of an
 * msync, or between two, leaves some pages new and some old. */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char *const PLACE = (char *)0x300000000000;
static const size_t ROOT_BYTES = 4096;

struct head {
    uint64_t used, size;
};
static struct head *head;

void memory_open(const char *path, uint64_t records, bool fresh)
{
    if (fresh && unlink(path) != 0 && errno != ENOENT)
        fail("cannot remove %s: %s", path, strerror(errno));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    struct stat told;
    if (fd < 0 || fstat(fd, &told) != 0)
        fail("%s: %s", path, strerror(errno));
    size_t size = fresh ? ((size_t)16 << 20) + records * 3 * RECORD_BYTES / 2 : (size_t)told.st_size;
    /* Space is there before it is stored to, as careful programs have it: a hole would be filled at each fault. */
    if (fresh && (errno = posix_fallocate(fd, 0, (off_t)size)) != 0)
        fail("%s: %s", path, strerror(errno));
    head = mmap(PLACE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (head == MAP_FAILED)
        fail("%s: %s", path, strerror(errno));
    close(fd);
    if (fresh)
        *head = (struct head){sizeof *head + ROOT_BYTES, size};
}

void memory_close(void)
{
    if (munmap(head, head->size) != 0)
        fail("munmap: %s", strerror(errno));
}

ref memory_root(size_t bytes)
{
    if (bytes > ROOT_BYTES)
        fail("a root of %zu bytes", bytes);
    return head + 1;
}

/* YCSB takes nothing away, so neither does this: a bump and no list of what is free. */
ref allocate(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > head->size - head->used)
        fail("the file is full");
    head->used += bytes;
    return (char *)head + head->used - bytes;
}

void memory_begin(void) {}

void memory_commit(void)
{
    if (msync(head, head->size, MS_SYNC) != 0)
        fail("msync: %s", strerror(errno));
}

#endif
