#include "ficlone.h"

#include <err.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void ficlone_open(struct ficlone_file *file, const char *path, size_t size) {
    file->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file->fd < 0 || posix_fallocate(file->fd, 0, size) != 0)
        err(1, "%s", path);
    for (int i = 0; i < 2; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", path, i);
        unlink(name);
        file->snapshots[i] = open(name, O_RDWR | O_CREAT | O_EXCL, 0200);
        if (file->snapshots[i] < 0)
            err(1, "%s", name);
    }
    file->next = 0;
    file->size = size;
    file->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (file->memory == MAP_FAILED)
        err(1, "%s: mmap", path);
}

static void say(int snapshot, mode_t mode) {
    if (fchmod(snapshot, mode) != 0 || fsync(snapshot) != 0)
        err(1, "a snapshot");
}

void ficlone_sync(struct ficlone_file *file) {
    if (msync(file->memory, file->size, MS_SYNC) != 0)
        err(1, "msync");
    int snapshot = file->snapshots[file->next];
    /* Not to be believed while it changes; whole on the medium before it is to be believed again. */
    say(snapshot, 0200);
    if (ioctl(snapshot, FICLONE, file->fd) != 0)
        err(1, "FICLONE");
    if (fsync(snapshot) != 0)
        err(1, "fsync");
    say(snapshot, 0400);
    file->next = !file->next;
}
