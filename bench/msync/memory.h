/* The small interface through which the structures see an engine's memory. They are written once, and compiled once for each engine.
 *
 * A `ref` is what a structure keeps to lead from one block to another: a plain pointer, or PMDK's (16 bytes, good in any process). All changes come
 * between memory_begin and memory_commit. A block that was there before is told of (`change`) before it is stored to, which only engines
 * with an undo log need; new blocks need not, as nothing leads to them if the transaction does not happen.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "ycsb.h"

void memory_open(const char *path, uint64_t records, bool fresh);
void memory_close(void);

#if defined(ENGINE_PMDK)

#include <libpmemobj.h>

typedef PMEMoid ref;
#define NOWHERE OID_NULL

static inline bool leads_nowhere(ref to) { return OID_IS_NULL(to); }
/* To where it leads. */
static inline void *at(ref to) { return pmemobj_direct(to); }

static inline ref allocate(size_t bytes)
{
    ref to = pmemobj_tx_alloc(bytes, 0);
    if (OID_IS_NULL(to))
        fail("no room: %s", pmemobj_errormsg());
    return to;
}

static inline void change(ref to, size_t offset, size_t bytes)
{
    if (pmemobj_tx_add_range(to, offset, bytes) != 0)
        fail("cannot log: %s", pmemobj_errormsg());
}

#else

typedef void *ref;
#define NOWHERE NULL

static inline bool leads_nowhere(ref to) { return to == NULL; }
static inline void *at(ref to) { return to; }
static inline void change(ref to, size_t offset, size_t bytes) { (void)to, (void)offset, (void)bytes; }

#if defined(ENGINE_VOLATILE)
static inline ref allocate(size_t bytes)
{
    ref to = malloc(bytes);
    if (!to)
        fail("no memory");
    return to;
}
#elif defined(ENGINE_PERDURE)
#include <perdure.h>
extern perdure *memory_heap;
static inline ref allocate(size_t bytes)
{
    ref to = perdure_malloc(memory_heap, bytes);
    if (!to)
        fail("%s", perdure_message());
    return to;
}
#elif defined(ENGINE_MSYNC)
ref allocate(size_t bytes);
#else
#error "which engine?"
#endif
#endif

/* The one block that is found without a ref: there, and zero, from the making of the memory on. */
ref memory_root(size_t bytes);
void memory_begin(void);
void memory_commit(void);

#endif
