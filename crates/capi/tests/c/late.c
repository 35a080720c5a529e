/* late HEAP LIBRARY: a program without instrumented code that loads a library with it (late_library.c) when a heap is open. Prints how much the largest
 * mapping is that it has before, in GiB. */
#include <dlfcn.h>
#include <err.h>
#include <perdure.h>
#include <stdio.h>

static void must(int code) {
    if (code != PERDURE_OK)
        errx(1, "%s", perdure_message());
}

static unsigned long largest_mapping(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end, largest = 0;
    if (!maps)
        err(1, "/proc/self/maps");
    while (fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2)
        if (end - start > largest)
            largest = end - start;
    fclose(maps);
    return largest;
}

int main(int argc, char **argv) {
    perdure *heap;
    if (argc != 3)
        return 2;
    must(perdure_open(argv[1], NULL, &heap));
    long *numbers = perdure_calloc(heap, 1000, sizeof *numbers);
    must(perdure_set_root(heap, "numbers", numbers));
    must(perdure_commit(heap));
    printf("%lu\n", largest_mapping() >> 30);
    void *library = dlopen(argv[2], RTLD_NOW);
    if (!library)
        errx(1, "%s", dlerror());
    void (*count)(long *number) = (void (*)(long *))dlsym(library, "count");
    if (!count)
        errx(1, "%s", dlerror());
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < 1000; i += 7)
            count(&numbers[i]);
        must(perdure_commit(heap));
        must(perdure_abort(heap)); /* to what is committed */
        for (int i = 0; i < 1000; i++)
            if (numbers[i] != (i % 7 ? 0 : round))
                errx(1, "round %d: number %d is %ld", round, i, numbers[i]);
    }
    must(perdure_close(heap));
    /* And one that is opened now. */
    must(perdure_open(argv[1], NULL, &heap));
    numbers = perdure_root(heap, "numbers");
    count(&numbers[7]);
    must(perdure_commit(heap));
    must(perdure_close(heap));
    must(perdure_open(argv[1], NULL, &heap));
    numbers = perdure_root(heap, "numbers");
    if (numbers[0] != 3 || numbers[7] != 4)
        errx(1, "%ld and %ld", numbers[0], numbers[7]);
    must(perdure_close(heap));
    return 0;
}
