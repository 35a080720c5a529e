/* The YCSB driver: loads a store, runs workloads on it for a while, and compares what was read and what is left with a model.
 *
 *     ycsb STORE PATH RECORDS BATCH SECONDS OPERATIONS WORKLOADS [forget=N]
 *
 * WORKLOADS are letters A to F, run one after the other on one store; a comma makes it anew, and a plus in front of them finds it as a run of no workloads
 * left it. BATCH operations of any kind become permanent at
 * once, if one of them changed something. A workload ends after SECONDS or OPERATIONS. One line of JSON for each, and for loading. forget=N leaves the
 * Nth update out: then the comparison must fail.
 */
#include "ycsb.h"
#include <time.h>

#if defined(STORE)
extern const struct store STORE;
static const struct store *const stores[] = {&STORE};
#else
extern const struct store hash_store, btree_store, list_store;
static const struct store *const stores[] = {&hash_store, &btree_store, &list_store};
#endif

/* Loading commits so many at once, whatever the runs do: it would take minutes on some. */
enum { LOAD_BATCH = 1000 };
/* What a volatile store holds is gone when it is closed. */
#if defined(ENGINE_VOLATILE)
enum { KEEPS = false };
#else
enum { KEEPS = true };
#endif

static const struct store *store;
static const char *path;
static uint64_t records, batch, forget;
static double seconds_max;
static size_t operations_max;
static struct operation *operations;
static char buffer[SCAN_MAX * RECORD_BYTES];

static uint64_t since, commits, updates, stamp;
static bool in_change;

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void) { return clock_s(CLOCK_MONOTONIC); }
static double cpu(void) { return clock_s(CLOCK_PROCESS_CPUTIME_ID); }

static void changing(void)
{
    if (!in_change) {
        store->begin();
        in_change = true;
    }
}

static void commit(void)
{
    if (in_change) {
        store->commit();
        commits++;
        in_change = false;
    }
    since = 0;
}

static void tell(const char *workload, size_t count, double seconds, double cpu_seconds)
{
    printf("{\"store\": \"%s\", \"workload\": \"%s\", \"operations\": %zu, \"seconds\": %.9f, \"cpu\": %.9f, \"commits\": %" PRIu64 "}\n", store->name, workload, count, seconds, cpu_seconds, commits);
    fflush(stdout);
    commits = 0;
}

static void load_model(void)
{
    model_load(store, records);
    stamp = records;
}

static void load(void)
{
    store->open(path, records, true);
    double start_cpu = cpu(), start = now();
    for (uint64_t number = 0; number < records; number++) {
        changing();
        store->insert(key_of(number), value_pool + value_place(number));
        if (++since == LOAD_BATCH)
            commit();
    }
    commit();
    double took = now() - start;
    tell("load", records, took, cpu() - start_cpu);
    load_model();
}

static void write_field(const struct operation *it, uint64_t value)
{
    if (++updates == forget)
        return;
    changing();
    if (!store->update(it->key, it->field, value_pool + value_place(value)))
        fail("%s has no record %u to change", store->name, it->number);
}

static uint64_t read_record(const struct operation *it, uint64_t sum)
{
    if (!store->read(it->key, buffer))
        fail("%s has no record %u", store->name, it->number);
    return follow(sum, digest(buffer));
}

static void run(char workload)
{
    draw(workload, 1, store->count(), operations, operations_max);
    memset(buffer, 0, sizeof buffer);
    uint64_t sum = 0;
    size_t i = 0, next_look = 1, stride = 1;
    double start_cpu = cpu(), start = now(), last = start, end = start + seconds_max;
    while (i < operations_max) {
        const struct operation *it = &operations[i];
        switch (it->kind) {
        case READ:
            sum = read_record(it, sum);
            break;
        case UPDATE:
            write_field(it, stamp + i);
            break;
        case INSERT:
            changing();
            store->insert(it->key, value_pool + value_place(stamp + i));
            break;
        case SCAN: {
            size_t got = store->scan(it->key, it->length, buffer);
            for (size_t k = 0; k < got; k++)
                sum = follow(sum, digest(buffer + k * RECORD_BYTES));
            break;
        }
        case READ_MODIFY_WRITE:
            sum = read_record(it, sum);
            write_field(it, stamp + i);
            break;
        }
        i++;
        if (++since >= batch)
            commit();
        if (i == next_look) {
            /* The clock costs as much as a fast operation: about once in a millisecond is enough. */
            double t = now();
            if (t >= end)
                break;
            stride = t - last > 1e-3 ? (stride + 1) / 2 : stride < 512 ? 2 * stride : stride;
            next_look = i + stride;
            last = t;
        }
    }
    commit();
    double took = now() - start;
    tell((char[]){workload, 0}, i, took, cpu() - start_cpu);
    uint64_t expected = model_run(operations, i, stamp);
    stamp += i;
    if (sum != expected && (workload != 'E' || store->rank))
        fail("%s: workload %c read something else than was stored", store->name, workload);
}

static void check(void)
{
    if (KEEPS) {
        store->close();
        store->open(path, records, false);
    }
    model_compare(store);
}

int main(int argc, char **argv)
{
    if (argc < 8)
        fail("usage: %s STORE PATH RECORDS BATCH SECONDS OPERATIONS WORKLOADS [forget=N]", argv[0]);
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
        if (strcmp(stores[i]->name, argv[1]) == 0)
            store = stores[i];
    if (!store)
        fail("no store %s here", argv[1]);
    path = argv[2];
    records = strtoull(argv[3], NULL, 10);
    batch = strtoull(argv[4], NULL, 10);
    seconds_max = strtod(argv[5], NULL);
    operations_max = strtoull(argv[6], NULL, 10);
    if (records == 0 || batch == 0 || operations_max == 0)
        fail("counts are numbers from 1");
    if (argc > 8 && sscanf(argv[8], "forget=%" SCNu64, &forget) != 1)
        fail("unknown: %s", argv[8]);
    operations = malloc(operations_max * sizeof *operations);
    if (!operations)
        fail("no memory for %zu operations", operations_max);
    fill_pool(1);
    const char *workload = argv[7];
    if (*workload == '+') {
        workload++;
        store->open(path, records, false);
        load_model();
    } else {
        load();
    }
    for (; *workload; workload++) {
        if (*workload != ',') {
            run(*workload);
            continue;
        }
        check();
        store->close();
        load();
    }
    check();
    store->close();
    return 0;
}
