/* Data of the shape that Posh's applications read: the same bytes for the same arguments, on every machine.
 *
 *     generate log BYTES SEED     lines of a web server; about one in 2,000 from a client of 128.151.150.0/24
 *     generate ray BYTES SEED     lines of a distributed ray tracer's log; two in three tell of a ray, few of them of one ray
 *     generate scan BYTES SEED    lines of JSON: hosts that answered on port 80, with the system that routes to them
 *
 * At least BYTES, up to the end of a line.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static unsigned below(unsigned bound) { return (unsigned)((next() >> 32) * bound >> 32); }

/* Of few things most of the time: a number below `bound`, small ones often. */
static unsigned skewed(unsigned bound) { return below(below(bound) + 1); }

static const char *const pages[] = {"/", "/index.html", "/news", "/search?q=memory", "/img/logo.png", "/css/site.css", "/api/v1/items", "/login", "/about", "/download/perdure.tar.gz"};
static const char *const agents[] = {"Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "curl/7.88.1", "Googlebot/2.1 (+http://www.google.com/bot.html)"};
static const int statuses[] = {200, 200, 200, 200, 200, 304, 301, 404, 403, 500, 503};

static int log_line(char *to, size_t room, uint64_t line)
{
    unsigned ip[4] = {1 + below(223), below(256), below(256), 1 + below(254)};
    if (below(2000) == 0)
        ip[0] = 128, ip[1] = 151, ip[2] = 150;
    unsigned long second = line / 40;
    return snprintf(to, room, "%u.%u.%u.%u - - [%02lu/Mar/2020:%02lu:%02lu:%02lu +0000] \"GET %s HTTP/1.1\" %d %u \"-\" \"%s\"\n", ip[0], ip[1], ip[2], ip[3],
        1 + second / 86400 % 31, second / 3600 % 24, second / 60 % 60, second % 60, pages[skewed(10)], statuses[below(11)], 100 + below(60000), agents[below(4)]);
}

enum { RAYS = 600000, WANTED_RAY = 590432 };

static int ray_line(char *to, size_t room, uint64_t line)
{
    if (line == 0)
        return snprintf(to, room, "[RAY] pathID,timestamp,hop,worker,event,treelet,latency,size\n");
    unsigned kind = below(9);
    if (kind < 6) {
        unsigned ray = below(50000) == 0 ? WANTED_RAY : below(RAYS);
        return snprintf(to, room, "[RAY] %u,%lu,%u,%u,%s,%u,%u,%u\n", ray, 1580000000000000ul + line * 13, below(9), below(200), kind & 1 ? "queued" : "traced", below(700), below(90000),
            200 + below(400));
    }
    if (kind < 8)
        return snprintf(to, room, "[INFO] worker %u: %u rays waiting, %u treelets, %u.%03u s of %s\n", below(200), below(100000), below(40), below(9), below(1000), kind & 1 ? "transfer" : "tracing");
    return snprintf(to, room, "[NET] worker %u to worker %u: %u bytes in %u us\n", below(200), below(200), below(1000000), below(100000));
}

static int scan_line(char *to, size_t room, uint64_t line)
{
    unsigned a = 1 + below(223), b = below(256), c = below(256), d = 1 + below(254), system = 100 + skewed(40000), status = (unsigned)statuses[below(11)];
    (void)line;
    return snprintf(to, room,
        "{\"ip\":\"%u.%u.%u.%u\",\"timestamp\":\"2019-09-13T%02u:%02u:%02u+00:00\",\"data\":{\"http\":{\"status\":\"success\",\"protocol\":\"http\",\"port\":80,\"result\":{\"response\":"
        "{\"status_line\":\"%u\",\"status_code\":%u,\"protocol\":{\"name\":\"HTTP/1.1\",\"major\":1,\"minor\":1},\"headers\":{\"server\":[\"%s\"],\"content_length\":[\"%u\"],"
        "\"content_type\":[\"text/html; charset=utf-8\"]},\"body_sha256\":\"%016lx%016lx%016lx%016lx\",\"content_length\":%u}}}},"
        "\"zannotate\":{\"routing\":{\"prefix\":\"%u.%u.0.0/16\",\"asn\":%u,\"path\":[%u,%u,%u],\"origin\":{\"id\":%u,\"prefix\":\"%u.%u.0.0/16\"}}}}\n",
        a, b, c, d, below(24), below(60), below(60), status, status, below(2) ? "nginx/1.14.0" : "Apache/2.4.29", below(90000), next(), next(), next(), next(), below(90000), a, b, system,
        100 + skewed(40000), 100 + skewed(40000), system, system, a, b);
}

int main(int argc, char **argv)
{
    static char out[1 << 20];
    size_t used = 0;
    uint64_t bytes, total = 0, line = 0;
    int (*make)(char *, size_t, uint64_t) = NULL;
    if (argc == 4)
        make = !strcmp(argv[1], "log") ? log_line : !strcmp(argv[1], "ray") ? ray_line : !strcmp(argv[1], "scan") ? scan_line : NULL;
    if (!make)
        errx(2, "usage: generate log|ray|scan BYTES SEED");
    bytes = strtoull(argv[2], NULL, 10);
    state = strtoull(argv[3], NULL, 10);
    while (total < bytes) {
        int n = make(out + used, sizeof out - used, line++);
        used += (size_t)n;
        total += (size_t)n;
        if (used > sizeof out - 4096 || total >= bytes) {
            if (fwrite(out, 1, used, stdout) != used)
                err(1, "output");
            used = 0;
        }
    }
    if (fflush(stdout))
        err(1, "output");
    return 0;
}
