/* A ledger in Kyoto Cabinet: what its transactions are worth when the program is killed, and what they cost.
 *
 *     ledger FILE run COUNT                     transactions of random content, each told on standard output when it has returned
 *     ledger FILE check [repair]                the number of the last transaction, if all is as it left it; repair: opened as anybody would
 *     ledger FILE speed SECONDS RECORDS BYTES   microseconds of a durable transaction that changes so many values, median and mean
 *
 * The invariant of run: transaction t is a function of t alone, so that check can say what must be there.
 */
#include <kchashdb.h>

#include <algorithm>
#include <map>
#include <time.h>
#include <vector>

using kyotocabinet::HashDB;
typedef std::map<std::string, std::string> Model;

static void fail(HashDB &db, const char *what) {
  fprintf(stderr, "ledger: %s: %s\n", what, db.error().message());
  exit(1);
}

/* xorshift64*, from a number. */
struct Chance {
  uint64_t state;
  explicit Chance(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 1) { next(); }
  uint64_t next() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
  }
  uint64_t below(uint64_t n) { return next() % n; }
};

static std::string text(Chance &chance) {
  /* Most are short; some fill pages, so that the file grows and holes are left. */
  size_t length = chance.below(20) == 0 ? chance.below(9000) : chance.below(200);
  std::string made(length, ' ');
  for (size_t i = 0; i < length; i++)
    made[i] = 'a' + chance.below(26);
  return made;
}

/* What transaction t does, to a database or to the model of one. */
template <class Set, class Append, class Remove> static void transaction(uint64_t t, Set set, Append append, Remove remove) {
  Chance chance(t);
  for (uint64_t changes = 1 + chance.below(12); changes; changes--) {
    std::string key = "account " + std::to_string(chance.below(400));
    switch (chance.below(5)) {
    case 0: remove(key); break;
    case 1: append(key, text(chance)); break;
    default: set(key, text(chance));
    }
  }
  set("transactions", std::to_string(t));
}

static void apply(HashDB &db, uint64_t t) {
  transaction(
      t, [&](const std::string &k, const std::string &v) { if (!db.set(k, v)) fail(db, "set"); },
      [&](const std::string &k, const std::string &v) { if (!db.append(k, v)) fail(db, "append"); },
      [&](const std::string &k) { if (!db.remove(k) && db.error() != HashDB::Error::NOREC) fail(db, "remove"); });
}

static uint64_t last(HashDB &db) {
  std::string number;
  return db.get("transactions", &number) ? std::stoull(number) : 0;
}

static void run(HashDB &db, uint64_t count) {
  for (uint64_t t = last(db) + 1; count; t++, count--) {
    if (t % 3 == 0) { /* one that is regretted */
      if (!db.begin_transaction(true)) fail(db, "begin");
      apply(db, t + 1000003);
      if (t % 9 == 0 && !db.clear()) fail(db, "clear");
      if (!db.end_transaction(false)) fail(db, "abort");
    }
    if (!db.begin_transaction(true)) fail(db, "begin");
    apply(db, t);
    if (!db.end_transaction(true)) fail(db, "commit");
    printf("%llu\n", (unsigned long long)t);
    fflush(stdout);
  }
}

static void check(HashDB &db) {
  uint64_t found = last(db);
  Model model;
  for (uint64_t t = 1; t <= found; t++)
    transaction(
        t, [&](const std::string &k, const std::string &v) { model[k] = v; }, [&](const std::string &k, const std::string &v) { model[k] += v; },
        [&](const std::string &k) { model.erase(k); });
  HashDB::Cursor *cursor = db.cursor();
  std::string key, value;
  size_t seen = 0;
  for (cursor->jump(); cursor->get(&key, &value, true); seen++) {
    Model::iterator at = model.find(key);
    if (at == model.end() || at->second != value) {
      fprintf(stderr, "ledger: after transaction %llu \"%s\" is not what it was\n", (unsigned long long)found, key.c_str());
      exit(3);
    }
  }
  delete cursor;
  if (seen != model.size() || db.count() != (int64_t)model.size()) {
    fprintf(stderr, "ledger: after transaction %llu there are %zu records, counted as %lld, instead of %zu\n", (unsigned long long)found, seen,
            (long long)db.count(), model.size());
    exit(3);
  }
  printf("%llu\n", (unsigned long long)found);
}

static double now_us() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Transactions on 100,000 records, each of which changes some of them, as a store of orders or of sessions does. */
static void speed(HashDB &db, double seconds, uint64_t records, size_t bytes) {
  const uint64_t keys = 100000;
  char key[32];
  std::string value(bytes, 'x');
  if ((uint64_t)db.count() < keys) {
    for (uint64_t i = 0; i < keys; i++) {
      int length = snprintf(key, sizeof key, "%012llu", (unsigned long long)i);
      if (!db.set(key, length, value.data(), bytes)) fail(db, "set");
    }
    if (!db.synchronize(true)) fail(db, "synchronize");
  }
  Chance chance((uint64_t)now_us()); /* other values each time: what is stored again as it was needs no commit */
  std::vector<double> took;
  double begun = now_us(), now = begun;
  while (now - begun < seconds * 1e6) {
    if (!db.begin_transaction(true)) fail(db, "begin");
    for (uint64_t i = 0; i < records; i++) {
      int length = snprintf(key, sizeof key, "%012llu", (unsigned long long)chance.below(keys));
      uint64_t number = chance.next();
      memcpy(&value[0], &number, std::min(bytes, sizeof number));
      if (!db.set(key, length, value.data(), bytes)) fail(db, "set");
    }
    if (!db.end_transaction(true)) fail(db, "commit");
    double then = now;
    now = now_us();
    took.push_back(now - then);
  }
  std::sort(took.begin(), took.end());
  double sum = 0;
  for (double t : took) sum += t;
  printf("%.2f %.2f %zu\n", took[took.size() / 2], sum / took.size(), took.size());
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  std::string command = argv[2];
  HashDB db;
  db.tune_buckets(200000);
  if (!db.tune_map((int64_t)256 << 20)) return 2;
  uint32_t mode = HashDB::OWRITER | HashDB::OCREATE;
  if (command == "check")
    /* Nothing is repaired: what was committed is what there is. */
    mode = argc > 3 ? HashDB::OWRITER : HashDB::OREADER | HashDB::ONOREPAIR;
  if (!db.open(argv[1], mode)) fail(db, "open");
  if (command == "run" && argc > 3) run(db, std::stoull(argv[3]));
  else if (command == "check") check(db);
  else if (command == "speed" && argc > 5) speed(db, std::stod(argv[3]), std::stoull(argv[4]), std::stoull(argv[5]));
  else return 2;
  if (!db.close()) fail(db, "close");
  return 0;
}
