/* SQLite's own speed test, with SQLite's memory from malloc or from a heap in which nothing is ever committed.
 *
 *     sqlite_memory malloc|HEAP SPEEDTEST1'S WORDS ...
 */
#include <err.h>
#include <perdure.h>
#include <sqlite3.h>
#include <string.h>

int speedtest1(int argc, char **argv); /* its main, renamed when it is compiled */

static perdure *heap;

static void *get(int size) { return perdure_malloc(heap, size); }
static void give(void *block) { perdure_free(heap, block); }
static void *resize(void *block, int size) { return perdure_realloc(heap, block, size); }
static int size_of(void *block) { return (int)perdure_usable_size(heap, block); }
static int rounded(int size) { return (size + 15) & ~15; }
static int begin(void *context) { return context != 0; }
static void end(void *context) { (void)context; }

int main(int argc, char **argv) {
    static const sqlite3_mem_methods methods = {get, give, resize, size_of, rounded, begin, end, 0};
    if (argc < 3)
        errx(2, "sqlite_memory malloc|HEAP WORDS");
    if (strcmp(argv[1], "malloc") != 0) {
        if (perdure_open(argv[1], NULL, &heap))
            errx(1, "%s", perdure_message());
        if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
            errx(1, "SQLite takes no memory");
    }
    return speedtest1(argc - 1, argv + 1);
}
