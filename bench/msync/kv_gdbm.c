/* gdbm as a store, in its failure-atomic mode: each gdbm_sync makes a copy of the file that shares its blocks (FICLONE), into two files in turn. A
 * scan goes in the order of its own hash, which nobody else knows. */
#include "ycsb.h"
#include <errno.h>
#include <gdbm.h>
#include <unistd.h>

static GDBM_FILE db;

static void good(int code)
{
    if (code != 0)
        fail("gdbm: %s (%s)", gdbm_strerror(gdbm_errno), strerror(errno));
}

static void kv_open(const char *path, uint64_t records, bool fresh)
{
    char even[4096], odd[4096];
    (void)records;
    snprintf(even, sizeof even, "%s.even", path);
    snprintf(odd, sizeof odd, "%s.odd", path);
    const char *const names[] = {path, even, odd};
    for (size_t i = fresh ? 0 : 1; i < 3; i++)
        if (unlink(names[i]) != 0 && errno != ENOENT)
            fail("cannot remove %s: %s", names[i], strerror(errno));
    db = gdbm_open(path, 0, fresh ? GDBM_NEWDB | GDBM_NUMSYNC : GDBM_WRITER, 0600, NULL);
    if (!db)
        fail("gdbm: %s: %s", path, gdbm_strerror(gdbm_errno));
    good(gdbm_failure_atomic(db, even, odd));
}

static void kv_close(void) { good(gdbm_close(db)); }
static void kv_begin(void) {}
static void kv_commit(void) { good(gdbm_sync(db)); }

static datum of_key(uint64_t *key)
{
    return (datum){(char *)key, sizeof *key};
}

static bool kv_read(uint64_t key, char *record)
{
    datum found = gdbm_fetch(db, of_key(&key));
    if (!found.dptr) {
        if (gdbm_errno != GDBM_ITEM_NOT_FOUND)
            good(-1);
        return false;
    }
    memcpy(record, found.dptr, RECORD_BYTES);
    free(found.dptr);
    return true;
}

static void kv_insert(uint64_t key, const char *record)
{
    good(gdbm_store(db, of_key(&key), (datum){(char *)record, RECORD_BYTES}, GDBM_REPLACE));
}

static bool kv_update(uint64_t key, unsigned field, const char *bytes)
{
    char record[RECORD_BYTES];
    if (!kv_read(key, record))
        return false;
    memcpy(record + field * FIELD_BYTES, bytes, FIELD_BYTES);
    kv_insert(key, record);
    return true;
}

static size_t kv_scan(uint64_t key, size_t count, char *records)
{
    size_t done = 0;
    datum here = of_key(&key);
    bool is_ours = false; /* the key's bytes are gdbm's to give and ours to free */
    while (here.dptr) {
        uint64_t number;
        memcpy(&number, here.dptr, sizeof number);
        if (!kv_read(number, records + done * RECORD_BYTES))
            fail("gdbm: a key without a record");
        if (++done == count)
            break;
        datum next = gdbm_nextkey(db, here);
        if (is_ours)
            free(here.dptr);
        is_ours = true;
        here = next;
    }
    if (is_ours)
        free(here.dptr);
    return done;
}

static uint64_t kv_count(void)
{
    gdbm_count_t count;
    good(gdbm_count(db, &count));
    return count;
}

const struct store kv_store = {
    .name = "kv", .open = kv_open, .close = kv_close, .begin = kv_begin, .commit = kv_commit,
    .read = kv_read, .insert = kv_insert, .update = kv_update, .scan = kv_scan, .count = kv_count, .rank = NULL,
};
