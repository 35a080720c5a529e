/* Failure-atomic msync as it is done with clones (FICLONE: XFS, btrfs): the file is an ordinary shared mapping, and beside it lie two
 * snapshots, of which the newest that is readable is what a crash leaves. The peer of the rows on XFS and btrfs.
 *
 * The invariant: one of the two snapshots is whole, durable and says so (mode 0400) at any time after the first sync. */
#ifndef FICLONE_H
#define FICLONE_H

#include <stddef.h>

struct ficlone_file {
    int fd;
    int snapshots[2];
    int next; /* the older of the two */
    char *memory;
    size_t size;
};

/* Makes the file and its two snapshots, PATH.0 and PATH.1. Ends the program if it cannot. */
void ficlone_open(struct ficlone_file *file, const char *path, size_t size);
void ficlone_sync(struct ficlone_file *file);

#endif
