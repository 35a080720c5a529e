//===- KnownFunctions.cpp - What library functions write ------------------===//
//
// Sizes of structures are those of glibc on x86-64; where a standard lets a
// buffer be written beyond what is returned, its full size counts.
//
//===----------------------------------------------------------------------===//

#include "KnownFunctions.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/InstrTypes.h"

using namespace llvm;
using namespace perdure;

namespace {

constexpr unsigned Quiet = KnownFunction::Quiet;
constexpr unsigned Arguments = KnownFunction::Arguments;
constexpr unsigned Retains = KnownFunction::Retains;

constexpr WriteRule bytes(uint8_t P, uint32_t K, When W = When::Before) {
  return {P, Extent::Bytes, W, 0, 0, K};
}
constexpr WriteRule upTo(uint8_t P, uint8_t A, When W = When::Before) {
  return {P, Extent::Argument, W, A, 0, 0};
}
constexpr WriteRule product(uint8_t P, uint8_t A, uint8_t B, When W) {
  return {P, Extent::Product, W, A, B, 0};
}
constexpr WriteRule times(uint8_t P, uint8_t A, uint32_t K,
                          When W = When::Before) {
  return {P, Extent::Times, W, A, 0, K};
}
constexpr WriteRule string(uint8_t P, uint8_t A) {
  return {P, Extent::String, When::Before, A, 0, 0};
}
constexpr WriteRule append(uint8_t P, uint8_t A) {
  return {P, Extent::Append, When::Before, A, 0, 0};
}
constexpr WriteRule appendN(uint8_t P, uint8_t A, uint8_t B) {
  return {P, Extent::AppendN, When::Before, A, B, 0};
}
constexpr WriteRule returned(uint8_t P, uint8_t A) {
  return {P, Extent::Returned, When::After, A, 0, 0};
}
constexpr WriteRule printed(uint8_t P, uint8_t A) {
  return {P, Extent::Printed, When::After, A, 0, 0};
}
constexpr WriteRule sprinted(uint8_t P) {
  return {P, Extent::Sprinted, When::After, 0, 0, 0};
}

constexpr When After = When::After;
constexpr When Both = When::Both;

constexpr uint32_t Mutex = 40, Condition = 48, RwLock = 56, Semaphore = 32;
constexpr uint32_t Stat = 144, Timespec = 16, Tm = 56, Rusage = 144;
constexpr uint32_t SignalSet = 128, SignalAction = 152, Context = 968;

const KnownFunction Table[] = {
    // Memory and strings.
    {"memcpy", Quiet, {upTo(0, 2)}, 1},
    {"memmove", Quiet, {upTo(0, 2)}, 1},
    {"mempcpy", Quiet, {upTo(0, 2)}, 1},
    {"memset", Quiet, {upTo(0, 2)}, 1},
    {"__memcpy_chk", Quiet, {upTo(0, 2)}, 1},
    {"__memmove_chk", Quiet, {upTo(0, 2)}, 1},
    {"__mempcpy_chk", Quiet, {upTo(0, 2)}, 1},
    {"__memset_chk", Quiet, {upTo(0, 2)}, 1},
    {"bcopy", Quiet, {upTo(1, 2)}, 1},
    {"bzero", Quiet, {upTo(0, 1)}, 1},
    {"explicit_bzero", Quiet, {upTo(0, 1)}, 1},
    {"__explicit_bzero_chk", Quiet, {upTo(0, 1)}, 1},
    {"swab", Quiet, {upTo(1, 2)}, 1},
    {"memccpy", Quiet | Arguments},
    {"strcpy", Quiet, {string(0, 1)}, 1},
    {"stpcpy", Quiet, {string(0, 1)}, 1},
    {"__strcpy_chk", Quiet, {string(0, 1)}, 1},
    {"__stpcpy_chk", Quiet, {string(0, 1)}, 1},
    {"strncpy", Quiet, {upTo(0, 2)}, 1},
    {"stpncpy", Quiet, {upTo(0, 2)}, 1},
    {"__strncpy_chk", Quiet, {upTo(0, 2)}, 1},
    {"__stpncpy_chk", Quiet, {upTo(0, 2)}, 1},
    {"strcat", Quiet, {append(0, 1)}, 1},
    {"__strcat_chk", Quiet, {append(0, 1)}, 1},
    {"strncat", Quiet, {appendN(0, 1, 2)}, 1},
    {"__strncat_chk", Quiet, {appendN(0, 1, 2)}, 1},
    {"strlcpy", Quiet, {upTo(0, 2)}, 1},
    {"strlcat", Quiet, {upTo(0, 2)}, 1},
    {"strxfrm", Quiet, {upTo(0, 2)}, 1},
    {"wmemcpy", Quiet, {times(0, 2, 4)}, 1},
    {"wmemmove", Quiet, {times(0, 2, 4)}, 1},
    {"wmemset", Quiet, {times(0, 2, 4)}, 1},
    {"wcscpy", Quiet | Arguments},
    {"wcsncpy", Quiet, {times(0, 2, 4)}, 1},
    {"wcscat", Quiet | Arguments},
    {"strlen", Quiet},
    {"strnlen", Quiet},
    {"strcmp", Quiet},
    {"strncmp", Quiet},
    {"strcasecmp", Quiet},
    {"strncasecmp", Quiet},
    {"strcoll", Quiet},
    {"strchr", Quiet},
    {"strchrnul", Quiet},
    {"strrchr", Quiet},
    {"strstr", Quiet},
    {"strcasestr", Quiet},
    {"strspn", Quiet},
    {"strcspn", Quiet},
    {"strpbrk", Quiet},
    {"memcmp", Quiet},
    {"bcmp", Quiet},
    {"memchr", Quiet},
    {"memrchr", Quiet},
    {"rawmemchr", Quiet},
    {"memmem", Quiet},
    {"wcslen", Quiet},
    {"wcscmp", Quiet},
    {"wmemcmp", Quiet},
    {"wmemchr", Quiet},
    {"strerror", 0},
    {"strerror_r", 0, {upTo(1, 2)}, 1},
    {"__xpg_strerror_r", 0, {upTo(1, 2)}, 1},
    {"strsignal", 0},
    // Allocation. Blocks of malloc do not lie in a heap.
    {"malloc", Quiet},
    {"calloc", Quiet},
    {"realloc", Quiet},
    {"reallocarray", Quiet},
    {"free", Quiet},
    {"aligned_alloc", Quiet},
    {"memalign", Quiet},
    {"valloc", Quiet},
    {"posix_memalign", Quiet, {bytes(0, 8)}, 1},
    {"malloc_usable_size", Quiet},
    {"strdup", Quiet},
    {"strndup", Quiet},
    {"__strdup", Quiet},
    {"_Znwm", 0},
    {"_Znam", 0},
    {"_ZnwmSt11align_val_t", 0},
    {"_ZnamSt11align_val_t", 0},
    {"_ZnwmRKSt9nothrow_t", 0},
    {"_ZnamRKSt9nothrow_t", 0},
    {"_ZdlPv", 0},
    {"_ZdaPv", 0},
    {"_ZdlPvm", 0},
    {"_ZdaPvm", 0},
    {"_ZdlPvSt11align_val_t", 0},
    {"_ZdaPvSt11align_val_t", 0},
    {"_ZdlPvmSt11align_val_t", 0},
    {"_ZdaPvmSt11align_val_t", 0},
    // Numbers.
    {"atoi", Quiet},
    {"atol", Quiet},
    {"atoll", Quiet},
    {"atof", Quiet},
    {"strtol", Quiet, {bytes(1, 8)}, 1},
    {"strtoll", Quiet, {bytes(1, 8)}, 1},
    {"strtoul", Quiet, {bytes(1, 8)}, 1},
    {"strtoull", Quiet, {bytes(1, 8)}, 1},
    {"strtoimax", Quiet, {bytes(1, 8)}, 1},
    {"strtoumax", Quiet, {bytes(1, 8)}, 1},
    {"__isoc23_strtol", Quiet, {bytes(1, 8)}, 1},
    {"__isoc23_strtoll", Quiet, {bytes(1, 8)}, 1},
    {"__isoc23_strtoul", Quiet, {bytes(1, 8)}, 1},
    {"__isoc23_strtoull", Quiet, {bytes(1, 8)}, 1},
    {"strtof", Quiet, {bytes(1, 8)}, 1},
    {"strtod", Quiet, {bytes(1, 8)}, 1},
    {"strtold", Quiet, {bytes(1, 8)}, 1},
    {"frexp", Quiet, {bytes(1, 4)}, 1},
    {"frexpf", Quiet, {bytes(1, 4)}, 1},
    {"frexpl", Quiet, {bytes(1, 4)}, 1},
    {"modf", Quiet, {bytes(1, 8)}, 1},
    {"modff", Quiet, {bytes(1, 4)}, 1},
    {"modfl", Quiet, {bytes(1, 16)}, 1},
    {"remquo", Quiet, {bytes(2, 4)}, 1},
    {"remquof", Quiet, {bytes(2, 4)}, 1},
    {"sincos", Quiet, {bytes(1, 8), bytes(2, 8)}, 2},
    {"sincosf", Quiet, {bytes(1, 4), bytes(2, 4)}, 2},
    {"sincosl", Quiet, {bytes(1, 16), bytes(2, 16)}, 2},
    {"lgamma_r", Quiet, {bytes(1, 4)}, 1},
    {"nan", Quiet},
    {"rand", 0},
    {"srand", 0},
    {"random", 0},
    {"srandom", 0},
    {"drand48", 0},
    {"rand_r", Quiet, {bytes(0, 4)}, 1},
    {"getrandom", 0, {returned(0, 1)}, 1},
    {"getentropy", 0, {upTo(0, 1, After)}, 1},
    {"arc4random", 0},
    {"arc4random_uniform", 0},
    {"arc4random_buf", 0, {upTo(0, 1, After)}, 1},
    // Characters.
    {"__ctype_b_loc", Quiet},
    {"__ctype_tolower_loc", Quiet},
    {"__ctype_toupper_loc", Quiet},
    {"__ctype_get_mb_cur_max", Quiet},
    {"isalpha", Quiet},
    {"isdigit", Quiet},
    {"isalnum", Quiet},
    {"isspace", Quiet},
    {"isupper", Quiet},
    {"islower", Quiet},
    {"isprint", Quiet},
    {"ispunct", Quiet},
    {"isxdigit", Quiet},
    {"iscntrl", Quiet},
    {"tolower", Quiet},
    {"toupper", Quiet},
    {"mbtowc", Quiet, {bytes(0, 4)}, 1},
    {"mbrtowc", Quiet, {bytes(0, 4), bytes(3, 8)}, 2},
    {"mbrlen", Quiet, {bytes(2, 8)}, 1},
    {"wctomb", Quiet, {bytes(0, 16)}, 1},
    {"wcrtomb", Quiet, {bytes(0, 16), bytes(2, 8)}, 2},
    {"mbstowcs", Quiet | Arguments},
    {"wcstombs", Quiet | Arguments},
    {"setlocale", 0},
    {"localeconv", 0},
    {"nl_langinfo", 0},
    // Standard input and output. A FILE does not lie in a heap.
    {"printf", 0},
    {"fprintf", 0},
    {"vprintf", 0},
    {"vfprintf", 0},
    {"dprintf", 0},
    {"vdprintf", 0},
    {"__printf_chk", 0},
    {"__fprintf_chk", 0},
    {"__vprintf_chk", 0},
    {"__vfprintf_chk", 0},
    {"puts", 0},
    {"fputs", 0},
    {"fputs_unlocked", 0},
    {"putchar", 0},
    {"putchar_unlocked", 0},
    {"putc", 0},
    {"fputc", 0},
    {"putc_unlocked", 0},
    {"fputc_unlocked", 0},
    {"fwrite", 0},
    {"fwrite_unlocked", 0},
    {"write", 0},
    {"pwrite", 0},
    {"pwrite64", 0},
    {"writev", 0},
    {"send", 0},
    {"sendto", 0},
    {"sendmsg", 0},
    {"perror", 0},
    {"fflush", 0},
    {"fopen", 0},
    {"fopen64", 0},
    {"fdopen", 0},
    {"freopen", 0},
    {"fclose", 0},
    {"fseek", 0},
    {"fseeko", 0},
    {"ftell", 0},
    {"ftello", 0},
    {"rewind", 0},
    {"feof", 0},
    {"ferror", 0},
    {"clearerr", 0},
    {"fileno", 0},
    {"getc", 0},
    {"fgetc", 0},
    {"getchar", 0},
    {"getc_unlocked", 0},
    {"getchar_unlocked", 0},
    {"ungetc", 0},
    {"_IO_getc", 0},
    {"_IO_putc", 0},
    {"__overflow", 0},
    {"__uflow", 0},
    {"tmpfile", 0},
    {"remove", 0},
    {"rename", 0},
    {"setvbuf", Retains},
    {"setbuf", Retains},
    {"fread", 0, {product(0, 1, 2, After)}, 1},
    {"fread_unlocked", 0, {product(0, 1, 2, After)}, 1},
    {"__fread_chk", 0, {product(0, 2, 3, After)}, 1},
    {"fgets", 0, {upTo(0, 1, After)}, 1},
    {"fgets_unlocked", 0, {upTo(0, 1, After)}, 1},
    {"__fgets_chk", 0, {upTo(0, 2, After)}, 1},
    {"snprintf", 0, {printed(0, 1)}, 1},
    {"vsnprintf", 0, {printed(0, 1)}, 1},
    {"__snprintf_chk", 0, {printed(0, 1)}, 1},
    {"__vsnprintf_chk", 0, {printed(0, 1)}, 1},
    {"sprintf", 0, {sprinted(0)}, 1},
    {"vsprintf", 0, {sprinted(0)}, 1},
    {"__sprintf_chk", 0, {sprinted(0)}, 1},
    {"__vsprintf_chk", 0, {sprinted(0)}, 1},
    {"sscanf", Arguments},
    {"fscanf", Arguments},
    {"scanf", Arguments},
    {"__isoc99_sscanf", Arguments},
    {"__isoc99_fscanf", Arguments},
    {"__isoc99_scanf", Arguments},
    {"__isoc23_sscanf", Arguments},
    {"__isoc23_fscanf", Arguments},
    {"__isoc23_scanf", Arguments},
    // Files and descriptors.
    {"open", 0},
    {"open64", 0},
    {"openat", 0},
    {"creat", 0},
    {"close", 0},
    {"read", 0, {returned(1, 2)}, 1},
    {"__read_chk", 0, {returned(1, 2)}, 1},
    {"pread", 0, {returned(1, 2)}, 1},
    {"pread64", 0, {returned(1, 2)}, 1},
    {"__pread_chk", 0, {returned(1, 2)}, 1},
    {"recv", 0, {upTo(1, 2, After)}, 1}, // MSG_TRUNC returns more than it wrote
    {"readlink", 0, {returned(1, 2)}, 1},
    {"readlinkat", 0, {returned(2, 3)}, 1},
    {"lseek", 0},
    {"lseek64", 0},
    {"fsync", 0},
    {"fdatasync", 0},
    {"ftruncate", 0},
    {"ftruncate64", 0},
    {"truncate", 0},
    {"unlink", 0},
    {"mkdir", 0},
    {"rmdir", 0},
    {"access", 0},
    {"chdir", 0},
    {"chmod", 0},
    {"fchmod", 0},
    {"dup", 0},
    {"dup2", 0},
    {"isatty", 0},
    {"umask", 0},
    {"link", 0},
    {"symlink", 0},
    {"opendir", 0},
    {"closedir", 0},
    {"readdir", 0},
    {"mkstemp", 0, {string(0, 0)}, 1},
    {"mkdtemp", 0, {string(0, 0)}, 1},
    {"getcwd", 0, {upTo(0, 1)}, 1},
    {"realpath", 0, {bytes(1, 4096)}, 1},
    {"stat", 0, {bytes(1, Stat)}, 1},
    {"stat64", 0, {bytes(1, Stat)}, 1},
    {"lstat", 0, {bytes(1, Stat)}, 1},
    {"lstat64", 0, {bytes(1, Stat)}, 1},
    {"fstat", 0, {bytes(1, Stat)}, 1},
    {"fstat64", 0, {bytes(1, Stat)}, 1},
    {"fstatat", 0, {bytes(2, Stat)}, 1},
    {"fstatat64", 0, {bytes(2, Stat)}, 1},
    {"pipe", 0, {bytes(0, 8)}, 1},
    {"pipe2", 0, {bytes(0, 8)}, 1},
    {"socketpair", 0, {bytes(3, 8)}, 1},
    {"socket", 0},
    {"bind", 0},
    {"listen", 0},
    {"connect", 0},
    {"shutdown", 0},
    {"setsockopt", 0},
    {"accept", Arguments},
    {"accept4", Arguments},
    {"recvfrom", Arguments},
    {"getsockname", Arguments},
    {"getpeername", Arguments},
    {"getsockopt", Arguments},
    {"fcntl", Arguments},
    {"fcntl64", Arguments},
    {"poll", 0, {times(0, 1, 8, After)}, 1},
    {"select", 0,
     {bytes(1, 128, After), bytes(2, 128, After), bytes(3, 128, After),
      bytes(4, 16, After)}, 4},
    {"epoll_wait", 0, {times(1, 2, 12, After)}, 1},
    {"epoll_create1", 0},
    {"epoll_ctl", 0},
    {"mmap", 0},
    {"mmap64", 0},
    {"munmap", 0},
    {"mprotect", 0},
    {"madvise", 0},
    {"msync", 0},
    {"mlock", 0},
    {"munlock", 0},
    // Time.
    {"time", 0, {bytes(0, 8)}, 1},
    {"clock", 0},
    {"difftime", Quiet},
    {"mktime", 0, {bytes(0, Tm)}, 1},
    {"timegm", 0, {bytes(0, Tm)}, 1},
    {"localtime", 0},
    {"gmtime", 0},
    {"ctime", 0},
    {"asctime", 0},
    {"localtime_r", 0, {bytes(1, Tm)}, 1},
    {"gmtime_r", 0, {bytes(1, Tm)}, 1},
    {"ctime_r", 0, {bytes(1, 26)}, 1},
    {"asctime_r", 0, {bytes(1, 26)}, 1},
    {"strftime", 0, {upTo(0, 1)}, 1},
    {"gettimeofday", 0, {bytes(0, 16), bytes(1, 8)}, 2},
    {"clock_gettime", 0, {bytes(1, Timespec)}, 1},
    {"clock_getres", 0, {bytes(1, Timespec)}, 1},
    {"nanosleep", 0, {bytes(1, Timespec, After)}, 1},
    {"sleep", 0},
    {"usleep", 0},
    {"alarm", 0},
    // Processes and signals.
    {"abort", 0},
    {"exit", 0},
    {"_exit", 0},
    {"_Exit", 0},
    {"quick_exit", 0},
    {"atexit", 0},
    {"getenv", 0},
    {"setenv", 0},
    {"unsetenv", 0},
    {"system", 0},
    {"fork", 0},
    {"getpid", 0},
    {"getppid", 0},
    {"getuid", 0},
    {"geteuid", 0},
    {"getgid", 0},
    {"getegid", 0},
    {"gettid", 0},
    {"kill", 0},
    {"raise", 0},
    {"pause", 0},
    {"execv", 0},
    {"execve", 0},
    {"execvp", 0},
    {"wait", 0, {bytes(0, 4, After)}, 1},
    {"waitpid", 0, {bytes(1, 4, After)}, 1},
    {"wait4", 0, {bytes(1, 4, After), bytes(3, Rusage, After)}, 2},
    {"signal", 0},
    {"sigaction", 0, {bytes(2, SignalAction)}, 1},
    {"sigprocmask", 0, {bytes(2, SignalSet)}, 1},
    {"pthread_sigmask", 0, {bytes(2, SignalSet)}, 1},
    {"sigemptyset", Quiet, {bytes(0, SignalSet)}, 1},
    {"sigfillset", Quiet, {bytes(0, SignalSet)}, 1},
    {"sigaddset", Quiet, {bytes(0, SignalSet)}, 1},
    {"sigdelset", Quiet, {bytes(0, SignalSet)}, 1},
    {"sigismember", Quiet},
    {"sigsuspend", 0},
    {"sigaltstack", Retains},
    {"getrusage", 0, {bytes(1, Rusage)}, 1},
    {"getrlimit", 0, {bytes(1, 16)}, 1},
    {"setrlimit", 0},
    {"sysconf", 0},
    {"getpagesize", 0},
    {"gethostname", 0, {upTo(0, 1)}, 1},
    {"uname", 0, {bytes(0, 390)}, 1},
    {"getopt", 0},
    {"__errno_location", Quiet},
    {"__assert_fail", 0},
    {"__stack_chk_fail", 0},
    {"__chk_fail", 0},
    {"_setjmp", 0, {bytes(0, 200)}, 1},
    {"setjmp", 0, {bytes(0, 200)}, 1},
    {"__sigsetjmp", 0, {bytes(0, 200)}, 1},
    {"sigsetjmp", 0, {bytes(0, 200)}, 1},
    {"longjmp", 0},
    {"_longjmp", 0},
    {"siglongjmp", 0},
    {"__longjmp_chk", 0},
    {"getcontext", 0, {bytes(0, Context)}, 1},
    {"setcontext", 0},
    {"swapcontext", 0, {bytes(0, Context)}, 1},
    {"dlopen", 0},
    {"dlsym", 0},
    {"dlclose", 0},
    {"dlerror", 0},
    {"sched_yield", 0},
    // Sorting calls back, and writes between the calls.
    {"qsort", 0, {product(0, 1, 2, Both)}, 1},
    {"qsort_r", 0, {product(0, 1, 2, Both)}, 1},
    {"bsearch", 0},
    // Threads. Their objects may lie in a heap, and change while one waits.
    {"pthread_create", 0, {bytes(0, 8)}, 1},
    {"pthread_join", 0, {bytes(1, 8, After)}, 1},
    {"pthread_detach", 0},
    {"pthread_self", Quiet},
    {"pthread_equal", Quiet},
    {"pthread_exit", 0},
    {"pthread_kill", 0},
    {"pthread_cancel", 0},
    {"pthread_yield", 0},
    {"pthread_key_create", 0, {bytes(0, 4)}, 1},
    {"pthread_getspecific", 0},
    {"pthread_setspecific", 0},
    {"pthread_once", 0, {bytes(0, 4, Both)}, 1},
    {"__pthread_key_create", 0, {bytes(0, 4)}, 1},
    {"pthread_mutex_init", 0, {bytes(0, Mutex)}, 1},
    {"pthread_mutex_destroy", 0, {bytes(0, Mutex)}, 1},
    {"pthread_mutex_lock", 0, {bytes(0, Mutex, Both)}, 1},
    {"pthread_mutex_trylock", 0, {bytes(0, Mutex, Both)}, 1},
    {"pthread_mutex_timedlock", 0, {bytes(0, Mutex, Both)}, 1},
    {"pthread_mutex_unlock", 0, {bytes(0, Mutex, Both)}, 1},
    {"pthread_mutexattr_init", 0, {bytes(0, 4)}, 1},
    {"pthread_mutexattr_settype", 0, {bytes(0, 4)}, 1},
    {"pthread_mutexattr_setpshared", 0, {bytes(0, 4)}, 1},
    {"pthread_mutexattr_destroy", 0, {bytes(0, 4)}, 1},
    {"pthread_cond_init", 0, {bytes(0, Condition)}, 1},
    {"pthread_cond_destroy", 0, {bytes(0, Condition)}, 1},
    {"pthread_cond_signal", 0, {bytes(0, Condition, Both)}, 1},
    {"pthread_cond_broadcast", 0, {bytes(0, Condition, Both)}, 1},
    {"pthread_cond_wait", 0,
     {bytes(0, Condition, Both), bytes(1, Mutex, Both)}, 2},
    {"pthread_cond_timedwait", 0,
     {bytes(0, Condition, Both), bytes(1, Mutex, Both)}, 2},
    {"pthread_rwlock_init", 0, {bytes(0, RwLock)}, 1},
    {"pthread_rwlock_destroy", 0, {bytes(0, RwLock)}, 1},
    {"pthread_rwlock_rdlock", 0, {bytes(0, RwLock, Both)}, 1},
    {"pthread_rwlock_wrlock", 0, {bytes(0, RwLock, Both)}, 1},
    {"pthread_rwlock_tryrdlock", 0, {bytes(0, RwLock, Both)}, 1},
    {"pthread_rwlock_trywrlock", 0, {bytes(0, RwLock, Both)}, 1},
    {"pthread_rwlock_unlock", 0, {bytes(0, RwLock, Both)}, 1},
    {"pthread_spin_init", 0, {bytes(0, 4)}, 1},
    {"pthread_spin_lock", 0, {bytes(0, 4, Both)}, 1},
    {"pthread_spin_trylock", 0, {bytes(0, 4, Both)}, 1},
    {"pthread_spin_unlock", 0, {bytes(0, 4, Both)}, 1},
    {"pthread_barrier_init", 0, {bytes(0, 32)}, 1},
    {"pthread_barrier_wait", 0, {bytes(0, 32, Both)}, 1},
    {"pthread_attr_init", 0, {bytes(0, 56)}, 1},
    {"pthread_attr_destroy", 0, {bytes(0, 56)}, 1},
    {"pthread_attr_setdetachstate", 0, {bytes(0, 56)}, 1},
    {"pthread_attr_setstacksize", 0, {bytes(0, 56)}, 1},
    {"sem_init", 0, {bytes(0, Semaphore)}, 1},
    {"sem_destroy", 0, {bytes(0, Semaphore)}, 1},
    {"sem_wait", 0, {bytes(0, Semaphore, Both)}, 1},
    {"sem_trywait", 0, {bytes(0, Semaphore, Both)}, 1},
    {"sem_timedwait", 0, {bytes(0, Semaphore, Both)}, 1},
    {"sem_post", 0, {bytes(0, Semaphore, Both)}, 1},
    {"mtx_init", 0, {bytes(0, Mutex)}, 1},
    {"mtx_lock", 0, {bytes(0, Mutex, Both)}, 1},
    {"mtx_trylock", 0, {bytes(0, Mutex, Both)}, 1},
    {"mtx_unlock", 0, {bytes(0, Mutex, Both)}, 1},
    // Atomics of sizes that have no instruction: the size is an argument.
    {"__atomic_load", 0, {upTo(2, 0)}, 1},
    {"__atomic_store", 0, {upTo(1, 0)}, 1},
    {"__atomic_exchange", 0, {upTo(1, 0), upTo(3, 0)}, 2},
    {"__atomic_compare_exchange", 0, {upTo(1, 0), upTo(2, 0)}, 2},
    {"__atomic_load_16", 0},
    {"__atomic_store_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_exchange_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_compare_exchange_16", 0, {bytes(0, 16), bytes(1, 16)}, 2},
    {"__atomic_fetch_add_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_fetch_sub_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_fetch_and_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_fetch_or_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_fetch_xor_16", 0, {bytes(0, 16)}, 1},
    {"__atomic_is_lock_free", Quiet},
    // The C++ runtime. Exceptions and guards do not lie in a heap.
    {"_Unwind_Resume", 0},
    {"__gxx_personality_v0", 0},
    {"__cxa_allocate_exception", 0},
    {"__cxa_free_exception", 0},
    {"__cxa_throw", 0},
    {"__cxa_rethrow", 0},
    {"__cxa_begin_catch", 0},
    {"__cxa_end_catch", 0},
    {"__cxa_get_exception_ptr", 0},
    {"__cxa_atexit", 0},
    {"__cxa_thread_atexit", 0},
    {"__cxa_guard_acquire", 0},
    {"__cxa_guard_release", 0},
    {"__cxa_guard_abort", 0},
    {"__cxa_pure_virtual", 0},
    {"__cxa_deleted_virtual", 0},
    {"__cxa_bad_cast", 0},
    {"__cxa_bad_typeid", 0},
    {"__cxa_throw_bad_array_new_length", 0},
    {"__dynamic_cast", Quiet},
    {"_ZSt9terminatev", 0},
    {"_ZNSt8ios_base4InitC1Ev", 0},
    {"_ZNSt8ios_base4InitD1Ev", 0},
    {"_ZSt11_Hash_bytesPKvmm", Quiet},
    {"_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm",
     Quiet,
     {bytes(0, 16)},
     1},
    {"_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm",
     Quiet,
     {bytes(0, 16)},
     1},
    {"_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base", Quiet},
    {"_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base", Quiet},
    {"_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base", Quiet},
    {"_ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base", Quiet},
};

// The runtime marks what it writes itself.
constexpr KnownFunction Runtime{"perdure", 0};
// Reports of sanitizers, and their looks at addresses.
constexpr KnownFunction Sanitizer{"sanitizer", 0};
// std::__throw_...: ends in an exception.
constexpr KnownFunction Throw{"throw", 0};
// Members and operators of std::ostream: the stream, and what it was given.
constexpr KnownFunction Stream{"ostream", Arguments};
constexpr KnownFunction Destructor{"exception", Arguments};

} // namespace

const KnownFunction *KnownFunction::find(StringRef Name) {
  static const StringMap<const KnownFunction *> Map = [] {
    StringMap<const KnownFunction *> M;
    for (const KnownFunction &F : Table)
      M[F.Name] = &F;
    return M;
  }();
  if (const KnownFunction *F = Map.lookup(Name))
    return F;
  if (Name.starts_with("perdure_") || Name.starts_with("pma_") ||
      Name.starts_with("__perdure_"))
    return &Runtime;
  for (StringRef Prefix : {"__ubsan_handle_", "__asan_", "__sanitizer_"})
    if (Name.starts_with(Prefix))
      return &Sanitizer;
  if (Name.starts_with("_ZSt") && Name.contains("__throw_"))
    return &Throw;
  for (StringRef Prefix : {"_ZNSo", "_ZStlsI", "_ZSt16__ostream_insert",
                           "_ZSt4endlI", "_ZSt5flushI"})
    if (Name.starts_with(Prefix))
      return &Stream;
  // Destructors of the standard exceptions, which __cxa_throw is given. They
  // write to the exception and to the text that the library shares.
  for (StringRef Class : {"9exception", "11logic_error", "13runtime_error",
                          "12domain_error", "16invalid_argument",
                          "12length_error", "12out_of_range", "11range_error",
                          "14overflow_error", "15underflow_error",
                          "9bad_alloc", "8bad_cast", "12system_error"})
    if (Name.starts_with(("_ZNSt" + Class + "D").str()) &&
        Name.ends_with("Ev"))
      return &Destructor;
  return nullptr;
}

bool KnownFunction::fits(const CallBase &Call) const {
  auto IsPointer = [&](unsigned I) {
    return I < Call.arg_size() && Call.getArgOperand(I)->getType()->isPointerTy();
  };
  auto IsCount = [&](unsigned I) {
    return I < Call.arg_size() &&
           Call.getArgOperand(I)->getType()->isIntegerTy() &&
           Call.getArgOperand(I)->getType()->getIntegerBitWidth() <= 64;
  };
  for (unsigned I = 0; I != Count; ++I) {
    const WriteRule &R = Writes[I];
    if (!IsPointer(R.Pointer))
      return false;
    switch (R.Size) {
    case Extent::Bytes:
      break;
    case Extent::Argument:
    case Extent::Times:
      if (!IsCount(R.A))
        return false;
      break;
    case Extent::Product:
      if (!IsCount(R.A) || !IsCount(R.B))
        return false;
      break;
    case Extent::String:
    case Extent::Append:
      if (!IsPointer(R.A))
        return false;
      break;
    case Extent::AppendN:
      if (!IsPointer(R.A) || !IsCount(R.B))
        return false;
      break;
    case Extent::Returned:
    case Extent::Printed:
      if (!IsCount(R.A) || !Call.getType()->isIntegerTy())
        return false;
      break;
    case Extent::Sprinted:
      if (!Call.getType()->isIntegerTy())
        return false;
      break;
    }
  }
  return true;
}
