/* perdure.h: memory that outlives the process.
 *
 * A heap is a file (PATH, with PATH.journal and PATH.sums beside it) that is mapped into memory. What a program stores in blocks of the heap is
 * its private affair until perdure_commit: that makes all stores since the last commit permanent at once. After a crash at any moment,
 * of the program or of the machine, the heap is as of a commit: the last durable one or a later one, never a mixture.
 *
 *     perdure *heap;
 *     if (perdure_open("numbers.heap", NULL, &heap))
 *         errx(1, "%s", perdure_message());
 *     long *count = perdure_root(heap, "count");
 *     if (!count) {
 *         count = perdure_calloc(heap, 1, sizeof *count);
 *         perdure_set_root(heap, "count", count);
 *     }
 *     ++*count;
 *     perdure_commit(heap);
 *     perdure_close(heap);
 *
 * Units are bytes. Functions that return int return PERDURE_OK (0) or an enum perdure_error; perdure_message tells the last error of the
 * thread in words. Functions that return pointers return NULL on errors and set errno, as malloc does.
 *
 * Pointers: a heap lies at its home, the same address in every process that opens it (unless PERDURE_ANYWHERE was asked for), so blocks may hold
 * pointers to blocks of the same heap. They must not hold pointers to anything else that is to be used after a restart.
 *
 * Media: on byte-addressable media (a file system mounted with dax) heaps are written by processor instructions, elsewhere by system calls. PERDURE_MEDIA in the
 * environment: "files" for system calls everywhere, "memory" for instructions on any file system whose files are memory (tmpfs), for measurements.
 *
 * Threads: all functions may be called from any thread, unless they say otherwise. A commit takes everything that any thread has stored, so it
 * must not come while another thread is half-way through a change. Either no thread stores while another one commits, which is then
 * the program's affair; or threads that change the heap do so between perdure_begin and perdure_end: then a commit waits until no
 * thread is between them, but for those that are waiting for a commit themselves. That cut is what is committed: each such section
 * as a whole, or not at all. In verify mode a store during a commit is found: it returns PERDURE_ERACE and has committed nothing.
 * A thread that calls these functions has at least 32 KiB of stack. A thread that ends in a section keeps commits waiting for ever.
 */
#ifndef PERDURE_H
#define PERDURE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERDURE_VERSION "0.1.0"

/* An open heap. */
typedef struct perdure perdure;

enum perdure_error {
    PERDURE_OK = 0,
    PERDURE_EINVAL = 1,      /* an argument that cannot be */
    PERDURE_EIO = 2,         /* the operating system refused */
    PERDURE_EABSENT = 3,     /* no such heap, and PERDURE_CREATE was not given */
    PERDURE_EFORMAT = 4,     /* not a heap, or of a version that this library does not read */
    PERDURE_EDAMAGED = 5,    /* a heap, and something in it cannot be true */
    PERDURE_EJOURNAL = 6,    /* its journal is missing or another heap's */
    PERDURE_ELOCKED = 7,     /* another process writes, and the time to wait is over; or this one has it open already: at once */
    PERDURE_EFULL = 8,       /* no room: the heap's limit, the disk, or memory */
    PERDURE_EUNTRUSTED = 9,  /* others could have written the file, and PERDURE_TRUST was not given */
    PERDURE_EPOISONED = 10,  /* a flush failed: close the heap, and open it again to see what survived */
    PERDURE_EREADONLY = 11,  /* a snapshot, or a process that was forked off, cannot commit; a file that is open for reading only cannot be synced */
    PERDURE_EADDRESS = 12,   /* something else lies where the heap must */
    PERDURE_ERACE = 13,      /* a thread stored while a commit was taken; nothing was committed */
    PERDURE_ETOOMANY = 14,   /* 64 heaps are open in this process */
    PERDURE_EUNSUPPORTED = 15, /* this kernel or library cannot do it */
    PERDURE_EINTERNAL = 16   /* a bug of the library */
};

/* Flags of perdure_options. */
#define PERDURE_CREATE 1u   /* make the heap if there is none: also of a blank file, whose size becomes the heap's limit */
#define PERDURE_SNAPSHOT 2u /* read the last commit as of now, beside a writer; stores are private and forgotten */
#define PERDURE_TRUST 4u    /* open it although others own or may write the file */
#define PERDURE_ANYWHERE 8u /* map it wherever there is room; for data without pointers */

/* How stores become known. */
enum perdure_tracking {
    PERDURE_TRACK_DEFAULT = 0, /* PERDURE_TRACK in the environment (pages, lines, verify); else lines for programs compiled with
                                  perdure-cc (verify in their debug builds), else pages */
    PERDURE_TRACK_PAGES = 1,   /* the kernel names the pages that were written to: nothing to do for the program */
    PERDURE_TRACK_LINES = 2,   /* every store is marked, by perdure-cc or by hand (perdure_mark); others are lost */
    PERDURE_TRACK_VERIFY = 3   /* both: what was not marked is committed all the same, and counted */
};

typedef struct perdure_options {
    size_t size;          /* sizeof(perdure_options): set by PERDURE_OPTIONS */
    unsigned flags;       /* PERDURE_CREATE and so on, or-ed */
    unsigned tracking;    /* an enum perdure_tracking */
    uint64_t limit;       /* for a heap that is made now: its largest size in bytes; 0: none */
    int64_t lock_wait_ms; /* how long to wait for another writer, in milliseconds; negative: a minute */
} perdure_options;

/* The default: a writer that makes the heap if there is none. Also what NULL stands for. */
#define PERDURE_OPTIONS {sizeof(perdure_options), PERDURE_CREATE, PERDURE_TRACK_DEFAULT, 0, -1}

/* Opens a heap; *heap is NULL afterwards if that failed. Costs a few system calls and the reading of what a crash left in the journal, never in
 * proportion to the heap. Errors: all but ERACE. */
int perdure_open(const char *path, const perdure_options *options, perdure **heap);

/* Closes it; what was not committed is forgotten, and all pointers into the heap are void. No other thread may use the heap. NULL is
 * allowed. The handle is gone, whatever is returned: an error says that something committed is in the journal only, from where the
 * next perdure_open takes it. */
int perdure_close(perdure *heap);

/* ---- blocks. As malloc(3) has them, in the heap: aligned to 16, thread-safe, NULL and errno ENOMEM when full (EINVAL for a pointer that is no
 * block's). A block that was allocated and not committed is gone after a crash, with everything else; nothing leaks. ---- */

void *perdure_malloc(perdure *heap, size_t size);               /* also for 0: a block of its own; content arbitrary */
void *perdure_calloc(perdure *heap, size_t count, size_t size); /* zeroed */
void *perdure_realloc(perdure *heap, void *block, size_t size); /* on errors the block is as it was; size 0 gives a small block */
void perdure_free(perdure *heap, void *block);                  /* NULL is allowed; any other pointer that is no block's: errno EINVAL, nothing happens */
void *perdure_aligned_alloc(perdure *heap, size_t alignment, size_t size); /* alignment a power of two */
size_t perdure_usable_size(perdure *heap, const void *block);   /* at least what was asked for; 0 for NULL and for what is no block */

/* ---- roots: names under which a program finds its data again. Part of what is committed. ---- */

/* Names a pointer into the heap; NULL takes the name away. Errors: EINVAL for a pointer elsewhere, EFULL. */
int perdure_set_root(perdure *heap, const char *name, const void *pointer);
/* What was named, or NULL (errno 0 if there is no such name). O(1). */
void *perdure_root(perdure *heap, const char *name);
/* Calls visit for each name in the order of their making, until it returns another number than 0, which is returned. Not from inside visit: other functions
 * of this heap. */
int perdure_each_root(perdure *heap, int (*visit)(const char *name, void *pointer, void *context), void *context);

/* ---- commits ---- */

/* A commit to wait for. Numbers ascend. */
typedef uint64_t perdure_ticket;

/* Makes all stores since the last commit permanent at once, and returns when they are on the medium. Threads that call it at the same time
 * share a flush. Costs one append to the journal and one flush; bytes in proportion to the 64-byte lines that changed. Without changes:
 * nothing. On errors nothing has changed (but for EPOISONED). */
int perdure_commit(perdure *heap);

/* The same without waiting for the medium: a killed program loses nothing, a power cut may go back to an earlier commit. *ticket (if not
 * NULL) is what perdure_wait takes. */
int perdure_commit_lazy(perdure *heap, perdure_ticket *ticket);

/* Returns when the commit, and so every one before it, is on the medium. */
int perdure_wait(perdure *heap, perdure_ticket ticket);

/* Back to the last commit, at once: stores, blocks and roots since are gone. As commits do, waits for threads between perdure_begin and
 * perdure_end. */
int perdure_abort(perdure *heap);

/* A section of changes that belong together: commits come before it or after it. May be nested; each thread for itself. A thread may commit in
 * its own section: it says thereby that it is at a consistent point. */
void perdure_begin(perdure *heap);
void perdure_end(perdure *heap);

/* ---- places ---- */

/* The heap that an address lies in; NULL if in none that is open. */
perdure *perdure_of(const void *address);
/* Position in the heap's file of a pointer into the heap, and back; position 0 stands for NULL. For data that must not depend on the heap's home. */
uint64_t perdure_offset(perdure *heap, const void *pointer);
void *perdure_at(perdure *heap, uint64_t offset);

/* Tells that [address, address + size) is about to be stored to: by hand what perdure-cc does before each store. Any address; async-signal-safe. */
void perdure_mark(const void *address, size_t size);

/* ---- files: failure-atomic msync ----
 *
 * A program's own file, whatever its format, mapped so that it changes atomically: after a crash at any moment it is as of the last
 * perdure_file_sync that returned, or of one that was under way. Between two of them the file itself does not change. While it is mapped, or after a crash,
 * FILE.perdure and FILE.perdure.journal lie beside it: whoever copies or moves the file then must do so with them; the next perdure_file_open
 * brings the file to its last sync and removes them when it is closed. Stores become known as PERDURE_TRACK in the environment says; else by lines in
 * programs compiled with perdure-cc (verify in their debug builds), else by pages. One process at a time; other mappings of the file, and read(2), see what was synced last.
 * (libperdure-preload.so does this to mmap, msync, fsync, munmap and exit of programs that know nothing of it.) */

typedef struct perdure_file perdure_file;

/* Opens the file of a descriptor that is open for reading and writing (duplicated; the caller may close it), which is at path. EREADONLY if the descriptor is for
 * reading only; EINVAL if it is for writing only, of no regular file, or of another one than path's; ELOCKED if another process has it (after five
 * seconds), or this one does already; EJOURNAL if syncs lie beside it that were made to another file of this name. Symbolic links are followed; a file with
 * several hard links is always opened by the same one, because what lies beside it lies beside that name. */
int perdure_file_open(int fd, const char *path, perdure_file **file);
/* The memory of its first byte: the whole file from there on, also as it grows. Memory behind the file's last page cannot be used (SIGBUS), as with mmap. The
 * program may cut the file and make it longer (ftruncate): what was cut off reads as zeros then, but for the rest of the page in which the cut was, which it sets. */
void *perdure_file_memory(perdure_file *file);
/* How far the file may grow while it is open: at least 64 GiB, eight times its size when it was opened. */
uint64_t perdure_file_reach(perdure_file *file);
/* Nobody reads the file but through this memory while it is open: syncs are brought to it now and then, and when it is closed, which takes less time where a
 * sync changes a few lines. After a crash perdure_file_open brings it to the last sync as ever. Who cuts such a file and makes it longer syncs before the next
 * abort or close. */
int perdure_file_keep_private(perdure_file *file);
/* Makes all stores since the last sync permanent at once; returns when they are on the medium. Other threads may store meanwhile where pages are
 * tracked (their stores are in this sync or the next); where lines are, in programs compiled with perdure-cc, they must not. */
int perdure_file_sync(perdure_file *file);
/* Back to the last sync. */
int perdure_file_abort(perdure_file *file);
/* Closes it; stores since the last sync are forgotten. The handle is gone, whatever is returned. */
int perdure_file_close(perdure_file *file);
/* The same for a process that ends while other threads may still run: the memory stays where it is, and what they store there is forgotten. */
int perdure_file_leave(perdure_file *file);

/* ---- what happened ---- */

typedef struct perdure_stats {
    size_t size;             /* sizeof(perdure_stats), set by the caller: further fields may come */
    uint64_t commits;        /* of the heap, ever */
    uint64_t durable;        /* commits up to this one are on the medium */
    uint64_t heap_bytes;     /* size of the heap */
    uint64_t live_blocks;    /* blocks that are allocated, of all kinds */
    uint64_t live_bytes;     /* their usable bytes */
    uint64_t lines;          /* by this handle: 64-byte lines committed */
    uint64_t journal_bytes;  /* written to the journal */
    uint64_t flushes;        /* fdatasync and the like */
    uint64_t missed_lines;   /* verify mode: lines stored to without a mark; they were committed all the same */
    uint64_t address;        /* where the heap lies */
    uint64_t tracking;       /* how stores become known: an enum perdure_tracking */
} perdure_stats;

int perdure_get_stats(perdure *heap, perdure_stats *stats);
/* The same of a failure-atomic file: commits are syncs that changed something; heap_bytes, live_blocks and live_bytes are 0. */
int perdure_file_get_stats(perdure_file *file, perdure_stats *stats);

/* Verify mode: writes the places of missed stores into places (up to count addresses: for each 64-byte line the first byte that had changed), returns how
 * many are known. */
size_t perdure_missed(perdure *heap, const void **places, size_t count);

/* Verify mode: what perdure_missed tells, in words: how many lines, and for each place the address, its position in the heap's file, and which block it is in.
 * As snprintf: writes up to size bytes with a zero at the end into text, returns the length of the whole; 0: nothing was missed. A heap
 * lies where it lay, so a debugger finds the store in the next run: "watch *(long *)ADDRESS". In proportion to the heap.
 * PERDURE_REPORT=FILE in the environment: what was missed is appended to that file when a heap or a failure-atomic file is closed; and of lines that
 * are missed again, by which code, as "addr2line -e" takes it, where the kernel lets a process watch its own stores (see perf_event_open(2)). */
size_t perdure_report(perdure *heap, char *text, size_t size);

/* What a code means, in a few words; never NULL. */
const char *perdure_strerror(int code);
/* The last error of this thread in full: what, which file, why, what next; "" if there was none. A place of the thread's, always the same one: its next error is
 * written there. Of a text of more than 2 KiB the middle is left out. */
const char *perdure_message(void);

#ifdef __cplusplus
}
#endif
#endif
