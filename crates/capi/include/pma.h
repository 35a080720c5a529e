/* pma.h: the interface of pma, the persistent memory allocator (Terence Kelly, ACM Queue 20:2, 2022), over a crash-safe heap.
 *
 * A program written for pma compiles against this header and links with -lperdure instead of pma.c. What is different: stores become permanent
 * at pma_commit and when the program ends by exit or by returning from main, all at once; a program that is killed before leaves the heap as it was at the last
 * of these. The file is a heap of perdure's, made by pma_init if it does not exist (or is blank: "truncate -s SIZE FILE" sets its limit), and "perdure check" and
 * the like understand it; pma's own files are refused. Several threads may allocate. There is no need to link at a fixed address or to
 * run the same executable: only data that point to functions or to static data need that.
 */
#ifndef PMA_H_INCLUDED
#define PMA_H_INCLUDED

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMA_H_VERSION "perdure 0.1.0"

/* Version of the library: compare it with PMA_H_VERSION. */
extern const char pma_version[];

/* 0: no error so far; else a code of enum perdure_error (perdure.h), of the last function that failed. */
extern int pma_errno;

/* What pma_init made of it; to be read only. */
extern struct pma_state {
    int init;         /* 0: not yet; 1: a persistent heap; 2: fallback, ordinary memory, because no file was given */
    int vrb;          /* verbosity: 0 silent, 1 errors, 2 and warnings, 3 and more, on standard error */
    const char *file; /* as given */
    int err;          /* as pma_errno */
} pma_state;

/* To be called once, before the others. file NULL: ordinary memory. 0, or an error code. */
int pma_init(int verbose, const char *file);

/* As malloc(3) and so on; NULL when full or not initialised, with pma_errno set. What is no block, or was freed, is not freed, and is an error too. */
void *pma_malloc(size_t size);
void *pma_calloc(size_t count, size_t size);
void *pma_realloc(void *block, size_t size);
void pma_free(void *block);

/* The one pointer from which a program finds its data: NULL in a new heap. */
void pma_set_root(void *pointer);
void *pma_get_root(void);

/* Makes everything stored so far permanent at once, and waits for the medium. 0, or an error code. Not in pma. */
int pma_commit(void);

/* Verifies the heap's structures, and tells about them on standard error. */
void pma_check_and_dump(void);

/* Sets free memory to a value, in pma; here free memory holds nothing that is kept, and this does nothing. */
void pma_set_avail_mem(unsigned long value);

#ifdef __cplusplus
}
#endif
#endif
