/* What instrumented code and the runtime agree on. Plain C: the pass and its tests include it, the runtime compares its constants.
 *
 * Invariant: between a mark and the stores that it stands for lies no instruction that could commit in the same thread or synchronise
 * with another (a call that is not known to do neither, a fence, an atomic stronger than relaxed, a volatile access). So a thread
 * that is not in a call into the runtime, and not at such an instruction, may have marked what it has not yet stored: a commit
 * must not clear cards while another thread writes, nor from a signal handler.
 *
 *   arena   [0x1000_0000_0000, 0x1fc0_0000_0000)    heaps and failure-atomic files are mapped here, and nothing else is
 *   cards   [0x2000_0000_0000, 0x2200_0000_0000)    one byte for each 64-byte line of all addresses, the arena's or not
 */
#ifndef PERDURE_PASS_ABI_H
#define PERDURE_PASS_ABI_H

#define PERDURE_ARENA_SHIFT 44 /* a is in the arena if (a >> SHIFT) == ARENA */
#define PERDURE_ARENA 1
#define PERDURE_CARD_SHIFT 6 /* card(a) = (a >> 6) + the bias; 0: clean, 1: stored to since the last commit, or of no heap */
#define PERDURE_CARD_BIAS 0x200000000000ull
#define PERDURE_CARDS_SIZE (1ull << 41) /* of all addresses: 47 bits */

/* The same in objects that ThreadSanitizer instruments too, which leaves programs other addresses: for a library that was built for it. */
#define PERDURE_TSAN_ARENA_SHIFT 40
#define PERDURE_TSAN_CARD_BIAS 0x578000000000ull

/* Functions compiled with the pass begin with these sixteen bytes: endbr64, and a no-op of twelve bytes that ends with the signature.
 * They are aligned to 16 bytes. So whoever asks for them at an address rounded down reads within one page, and nothing but such a function can begin
 * within those bytes: what the rounding dropped need not be looked at. */
#define PERDURE_SIGNATURE_PROLOGUE_LOW 0x2E666666FA1E0FF3ull /* the first eight bytes, little-endian */
#define PERDURE_SIGNATURE_PROLOGUE_HIGH 0x00841F0Fu          /* the next four */
#define PERDURE_SIGNATURE_OFFSET 12
#define PERDURE_SIGNATURE 0x45D09E5Du
#define PERDURE_SIGNATURE_ALIGN 16

#ifndef __ASSEMBLER__
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Preserves all general registers but r11, and no vector register; the stack may be aligned to 8 bytes only. In C: compile with clang.
 * Elsewhere: an entry in assembly that saves rax, rcx, rdx, rsi, rdi, r8, r9, r10 and aligns the stack around a call of an ordinary function.
 * Calls do not go through lazy binding, whose resolver would not keep r10. */
#if defined(__clang__)
#define PERDURE_MARK_CALL __attribute__((preserve_most, force_align_arg_pointer))
#else
#define PERDURE_MARK_CALL
#endif

/* Maps the cards. Called by every instrumented program and library before its constructors; does nothing the second time. Ends the
 * program with a message and status 127, as the loader does, if there is no address space for them. */
void __perdure_prepare(void);

/* Sets the cards of [p, p+n) and the summaries over them. Called for ranges. Any p, any n, 0 too. Where no heap can be, outside the arena, cards of p and its neighbourhood are set for good, so that looks find them so. Safe in
 * signal handlers and threads, keeps errno. */
void __perdure_mark(const void *p, size_t n) PERDURE_MARK_CALL;

/* The same for the lines from the first to the last, which are addresses without their lowest bits (a >> SHIFT). Called where an inline
 * look found a card that is not set. */
void __perdure_mark_lines(size_t first, size_t last) PERDURE_MARK_CALL;

/* Instrumented code stores 1: something may have been stored that it could not see, so the next commit asks the kernel for dirty
 * pages too. A commit that has asked stores 0, before it looks. */
extern unsigned char __perdure_unseen;

/* Calls into code without instrumentation that have not returned, over all threads, and one for good for each reason that never ends
 * (a function without instrumentation whose address is taken may run at any time; main itself). Instrumented code adds and
 * subtracts atomically. While this is not 0, commits ask the kernel, whatever __perdure_unseen says: such a callee may
 * commit itself, more than once, and store between. A call that is left by longjmp stays counted: slower, never wrong. */
extern unsigned long long __perdure_unseen_calls;

/* Weak in every instrumented object. 1, or 3 if verify mode is to be the default (PERDURE_INSTRUMENTED_VERIFY). The runtime refers to
 * it weakly; absent: the program is not instrumented at all. */
extern const unsigned char __perdure_instrumented;
#define PERDURE_INSTRUMENTED 1
#define PERDURE_INSTRUMENTED_VERIFY 2

#ifdef __cplusplus
}
#endif
#endif
#endif
