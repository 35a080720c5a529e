/* A program for pma: a list of numbers that grows by one in each run. As second argument: "kill" ends without the end's commit, "commit" commits and then
 * ends so, "both" commits and then ends in the ordinary way,
 * "wrong" gives back what is no block. */
#include <perdure.h>
#include <pma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct item {
    struct item *next;
    int number;
};

int main(int argc, char **argv) {
    if (strcmp(pma_version, PMA_H_VERSION) != 0 || pma_state.init != 0)
        return 3;
    const char *file = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
    if (pma_init(1, file) != 0)
        return 4;
    if (pma_state.init != (file ? 1 : 2) || pma_errno != 0 || pma_state.err != 0)
        return 5;
    struct item *first = pma_get_root();
    struct item *item = pma_malloc(sizeof *item);
    item->next = first;
    item->number = first ? first->number + 1 : 1;
    pma_set_root(item);
    char *text = pma_calloc(3, 7);
    text = pma_realloc(text, 1000);
    for (int i = 0; i < 21; i++)
        if (text[i] != 0)
            return 6;
    pma_free(text);
    pma_free(NULL);
    for (struct item *i = pma_get_root(); i; i = i->next)
        printf("%d ", i->number);
    printf("\n");
    fflush(stdout);
    if (argc > 2 && strcmp(argv[2], "kill") == 0)
        _exit(0);
    if (argc > 2 && strcmp(argv[2], "commit") == 0) {
        if (pma_commit() != 0)
            return 7;
        item->number = 1000;
        _exit(0);
    }
    if (argc > 2 && strcmp(argv[2], "both") == 0) {
        if (pma_commit() != 0)
            return 7;
        item->number += 100;
    }
    if (argc > 2 && strcmp(argv[2], "wrong") == 0) {
        void *freed = pma_malloc(10), *volatile local = &item;
        pma_free(freed);
        if (pma_errno != PERDURE_OK)
            return 8;
        pma_free(freed);
        if (pma_errno != PERDURE_EINVAL || pma_state.err != PERDURE_EINVAL)
            return 9;
        pma_errno = pma_state.err = 0;
        pma_free(local);
        if (pma_errno != PERDURE_EINVAL)
            return 10;
        pma_errno = 0;
        if (pma_realloc(local, 5) || pma_errno != PERDURE_EINVAL)
            return 11;
        if (pma_malloc((size_t)1 << 60) || pma_errno != PERDURE_EFULL)
            return 12;
    }
    if (argc > 2 && strcmp(argv[2], "check") == 0)
        pma_check_and_dump();
    return 0;
}
