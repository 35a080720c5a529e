/* Lets User-mode Linux 6.1 run on processors whose registers take more room than it knows of (AVX-512 with AMX: 11 KB; it has 2.7 KB).
 *
 * It sets the registers of its processes by PTRACE_SETREGSET with as much as it has; the host's kernel takes all of them or none (EFAULT, "ptrace
 * set fp regs failed, errno = 14"). Preloaded, this sets what UML has and leaves the rest as it is. What lies behind the first 2.7 KB
 * are the tile registers, which no program gets without asking the kernel, and UML's does not know the question.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

long ptrace(enum __ptrace_request request, ...)
{
    static char all[1 << 16] __attribute__((aligned(64))); /* UML's kernel has one thread */
    struct iovec *known, whole = {all, sizeof all};
    long word, result;
    va_list words;
    va_start(words, request);
    pid_t pid = va_arg(words, pid_t);
    void *addr = va_arg(words, void *), *data = va_arg(words, void *);
    va_end(words);
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        /* The system call, unlike the function, has a place for its result. */
        result = syscall(SYS_ptrace, request, pid, addr, &word);
        return result < 0 ? result : word;
    }
    if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE && (known = data) != NULL &&
        syscall(SYS_ptrace, PTRACE_GETREGSET, pid, addr, &whole) == 0 && whole.iov_len > known->iov_len) {
        memcpy(all, known->iov_base, known->iov_len);
        return syscall(SYS_ptrace, request, pid, addr, &whole);
    }
    return syscall(SYS_ptrace, request, pid, addr, data);
}
