/* SQLite as a store: a table of integer keys and blobs, with a write-ahead log that each commit flushes, statements prepared once, and a cache that holds
 * everything. */
#include "ycsb.h"
#include <errno.h>
#include <sqlite3.h>
#include <unistd.h>

static sqlite3 *db;
static sqlite3_stmt *get, *put, *set, *range, *size, *starts, *ends;

static void good(int code)
{
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW)
        fail("SQLite: %s", sqlite3_errmsg(db));
}

static void execute(const char *text)
{
    good(sqlite3_exec(db, text, NULL, NULL, NULL));
}

static sqlite3_stmt *prepared(const char *text)
{
    sqlite3_stmt *statement;
    good(sqlite3_prepare_v2(db, text, -1, &statement, NULL));
    return statement;
}

static void kv_open(const char *path, uint64_t records, bool fresh)
{
    static const char *const ends_of_names[] = {"", "-wal", "-shm"};
    char name[4096];
    (void)records;
    for (size_t i = 0; fresh && i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends_of_names[i]);
        if (unlink(name) != 0 && errno != ENOENT)
            fail("cannot remove %s: %s", name, strerror(errno));
    }
    if (sqlite3_open(path, &db) != SQLITE_OK)
        fail("%s: %s", path, sqlite3_errmsg(db));
    execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -1000000; PRAGMA mmap_size = 2147483648");
    execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB)");
    get = prepared("SELECT v FROM t WHERE k = ?");
    put = prepared("INSERT INTO t VALUES (?, ?)");
    set = prepared("UPDATE t SET v = ?2 WHERE k = ?1");
    range = prepared("SELECT v FROM t WHERE k >= ? ORDER BY k LIMIT ?");
    size = prepared("SELECT count(*) FROM t");
    starts = prepared("BEGIN IMMEDIATE");
    ends = prepared("COMMIT");
}

static void kv_close(void)
{
    sqlite3_stmt *all[] = {get, put, set, range, size, starts, ends};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    good(sqlite3_close(db));
}

static int step(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    good(code);
    return code;
}

static void step_once(sqlite3_stmt *statement)
{
    step(statement);
    good(sqlite3_reset(statement));
}

static void kv_begin(void) { step_once(starts); }
static void kv_commit(void) { step_once(ends); }

static void take(sqlite3_stmt *statement, char *record)
{
    if (sqlite3_column_bytes(statement, 0) != RECORD_BYTES)
        fail("SQLite: a record of %d bytes", sqlite3_column_bytes(statement, 0));
    memcpy(record, sqlite3_column_blob(statement, 0), RECORD_BYTES);
}

static bool kv_read(uint64_t key, char *record)
{
    good(sqlite3_bind_int64(get, 1, (sqlite3_int64)key));
    bool found = step(get) == SQLITE_ROW;
    if (found)
        take(get, record);
    good(sqlite3_reset(get));
    return found;
}

static void write_record(sqlite3_stmt *statement, uint64_t key, const char *record)
{
    good(sqlite3_bind_int64(statement, 1, (sqlite3_int64)key));
    good(sqlite3_bind_blob(statement, 2, record, RECORD_BYTES, SQLITE_STATIC));
    step_once(statement);
}

static void kv_insert(uint64_t key, const char *record)
{
    write_record(put, key, record);
}

static bool kv_update(uint64_t key, unsigned field, const char *bytes)
{
    char record[RECORD_BYTES];
    if (!kv_read(key, record))
        return false;
    memcpy(record + field * FIELD_BYTES, bytes, FIELD_BYTES);
    write_record(set, key, record);
    return true;
}

static size_t kv_scan(uint64_t key, size_t count, char *records)
{
    size_t done = 0;
    good(sqlite3_bind_int64(range, 1, (sqlite3_int64)key));
    good(sqlite3_bind_int64(range, 2, (sqlite3_int64)count));
    while (step(range) == SQLITE_ROW)
        take(range, records + done++ * RECORD_BYTES);
    good(sqlite3_reset(range));
    return done;
}

static uint64_t kv_count(void)
{
    step(size);
    uint64_t count = (uint64_t)sqlite3_column_int64(size, 0);
    good(sqlite3_reset(size));
    return count;
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
