/* LMDB as a store: one transaction of the only writer at a time, as it is set by default, that is durable and atomic. */
#include "ycsb.h"
#include <errno.h>
#include <lmdb.h>
#include <unistd.h>

static MDB_env *env;
static MDB_dbi db;
static MDB_txn *writing, *reading;

static void good(int code)
{
    if (code)
        fail("LMDB: %s", mdb_strerror(code));
}

static void kv_open(const char *path, uint64_t records, bool fresh)
{
    char lock[4096];
    snprintf(lock, sizeof lock, "%s-lock", path);
    if (fresh && ((unlink(path) != 0 && errno != ENOENT) || (unlink(lock) != 0 && errno != ENOENT)))
        fail("cannot remove %s: %s", path, strerror(errno));
    good(mdb_env_create(&env));
    good(mdb_env_set_mapsize(env, ((size_t)1 << 30) + records * 4 * RECORD_BYTES));
    good(mdb_env_open(env, path, MDB_NOSUBDIR, 0600));
    good(mdb_txn_begin(env, NULL, 0, &writing));
    good(mdb_dbi_open(writing, NULL, MDB_CREATE | MDB_INTEGERKEY, &db));
    good(mdb_txn_commit(writing));
    writing = NULL;
    good(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading));
    mdb_txn_reset(reading);
}

static void kv_close(void)
{
    mdb_txn_abort(reading);
    mdb_env_close(env);
}

static void kv_begin(void)
{
    good(mdb_txn_begin(env, NULL, 0, &writing));
}

static void kv_commit(void)
{
    good(mdb_txn_commit(writing));
    writing = NULL;
}

/* Reads see what is not committed yet. */
static MDB_txn *begin_read(void)
{
    if (writing)
        return writing;
    good(mdb_txn_renew(reading));
    return reading;
}

static void end_read(MDB_txn *txn)
{
    if (txn == reading)
        mdb_txn_reset(reading);
}

static bool kv_read(uint64_t key, char *record)
{
    MDB_val k = {sizeof key, &key}, v;
    MDB_txn *txn = begin_read();
    int code = mdb_get(txn, db, &k, &v);
    if (code != MDB_NOTFOUND) {
        good(code);
        memcpy(record, v.mv_data, RECORD_BYTES);
    }
    end_read(txn);
    return code == 0;
}

static void kv_insert(uint64_t key, const char *record)
{
    MDB_val k = {sizeof key, &key}, v = {RECORD_BYTES, (char *)record};
    good(mdb_put(writing, db, &k, &v, 0));
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
    MDB_val k = {sizeof key, &key}, v;
    MDB_txn *txn = begin_read();
    MDB_cursor *cursor;
    good(mdb_cursor_open(txn, db, &cursor));
    size_t done = 0;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (code == 0) {
        memcpy(records + done * RECORD_BYTES, v.mv_data, RECORD_BYTES);
        if (++done == count)
            break;
        code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    if (code != MDB_NOTFOUND)
        good(code);
    mdb_cursor_close(cursor);
    end_read(txn);
    return done;
}

static uint64_t kv_count(void)
{
    MDB_stat stat;
    MDB_txn *txn = begin_read();
    good(mdb_stat(txn, db, &stat));
    end_read(txn);
    return stat.ms_entries;
}

static uint64_t kv_rank(uint64_t key, uint64_t sequence)
{
    (void)sequence;
    return key;
}

const struct store kv_store = {
    .name = "kv", .open = kv_open, .close = kv_close, .begin = kv_begin, .commit = kv_commit,
    .read = kv_read, .insert = kv_insert, .update = kv_update, .scan = kv_scan, .count = kv_count, .rank = kv_rank,
};
