/* The network of the rig: one client, and hosts behind a line of a given delay and rate.
 *
 * Every node is a network namespace. A TUN device in each brings its IP packets here; a packet waits as long as the line would have held
 * it and leaves through the TUN device of the node that it is for. So all of TCP pays for the line: set-up, windows, acknowledgements.
 *
 *     node 0 (client) --[ delay and rate, each way ]-- a switch --[ a rate of its own, or none ]-- nodes 1.. (hosts)
 *
 * Hosts are near each other: what goes between them waits `between`, not the line's delay.
 *
 * Invariant: packets from one node to another leave in the order in which they came, and none leaves before it is due.
 *
 * What a test may do to the line is said to a socket (see `obey`): one line of words in, an answer out.
 *
 *     link SOCKET DELAY RATE BETWEEN NAME=PID:ADDRESS...     times in ns, rates in bit/s, 0: none
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { NODES_MAX = 16, MTU = 1500, PACKET_MAX = 65536 + 64, FLOWS_MAX = 1024, READS_MAX = 32 };
/* A bucket holds what passes in this time: the relay may come late by it without the line losing anything. */
static const int64_t BURST_NS = 1000000;
/* Packets that would wait longer than the line's delay and than this, for their turn alone, are dropped: the queue of a router. */
static const int64_t QUEUE_MIN_NS = 20000000;
/* What the rest of the way takes, one way: two devices, this process woken by each packet and by the clock (measured 2026-11-22: an echo takes
 * 0.67 ms over a line of 0.5 ms). The line is so much shorter, that a round trip takes what was asked for. */
static const int64_t REST_NS = 55000;
/* What the rig has the connections of its mounts marked with (AF43, which nothing else of it uses): they are cut only when that is asked for. */
enum { MOUNT_TOS = 0x98 };

struct packet {
    struct packet *next;
    int64_t due;
    size_t len;
    struct virtio_net_hdr offload; /* checksums left to do, and segments left to cut: as the sender's kernel handed them over */
    unsigned char bytes[];
};

struct queue {
    struct packet *first, **last;
};

struct node {
    const char *name;
    struct in_addr address;
    int tun;
    int64_t rate;               /* bit/s; 0: as much as comes */
    int64_t delay;              /* to the client, one way */
    int64_t out_free, in_free;  /* when what was put on its line before has passed */
    uint64_t to_client, from_client, dropped; /* bytes of IP */
    bool refuses, silent;
    char then[8];               /* what happens after `left` bytes more; empty: nothing */
    uint64_t left;
};

/* A TCP connection; `a` is the lower address. What a side last acknowledged is where it expects the next byte. */
struct flow {
    struct flow *next;
    uint32_t address[2];
    uint16_t port[2];
    uint32_t expects[2];
    bool heard[2], dead, mount;
};

static struct node nodes[NODES_MAX];
static int node_count;
static struct queue queues[NODES_MAX][NODES_MAX];
static struct flow *flows;
static int64_t between;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* ------------------------------------------------------------------------------------------------ devices */

static void configure(int s, const char *device, struct in_addr address)
{
    struct ifreq r = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&r.ifr_addr;
    strncpy(r.ifr_name, device, IFNAMSIZ - 1);
    in->sin_family = AF_INET;
    in->sin_addr = address;
    if (address.s_addr && ioctl(s, SIOCSIFADDR, &r))
        err(1, "address of %s", device);
    in->sin_addr.s_addr = htonl(0xffffff00);
    if (address.s_addr && ioctl(s, SIOCSIFNETMASK, &r))
        err(1, "mask of %s", device);
    if (address.s_addr) {
        r.ifr_mtu = MTU;
        if (ioctl(s, SIOCSIFMTU, &r))
            err(1, "MTU of %s", device);
        /* The kernel's own queue in front of the device must not be what drops. */
        r.ifr_qlen = 10000;
        if (ioctl(s, SIOCSIFTXQLEN, &r))
            err(1, "queue of %s", device);
    }
    if (ioctl(s, SIOCGIFFLAGS, &r))
        err(1, "flags of %s", device);
    r.ifr_flags |= IFF_UP;
    if (ioctl(s, SIOCSIFFLAGS, &r))
        err(1, "%s up", device);
}

/* Enters the network namespace of process `pid` and leaves a TUN device there. */
static int tun_in(const char *pid, struct in_addr address)
{
    char path[64];
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    int space, tun, s;
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    if ((space = open(path, O_RDONLY | O_CLOEXEC)) < 0 || setns(space, CLONE_NEWNET))
        err(1, "%s", path);
    close(space);
    if ((tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
        err(1, "/dev/net/tun");
    strcpy(r.ifr_name, "line");
    if (ioctl(tun, TUNSETIFF, &r))
        err(1, "a TUN device");
    /* Packets of up to 64 KiB, cut by nobody: without this the relay makes two system calls for each 1500 bytes. */
    if (ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN))
        err(1, "segments of a TUN device");
    if ((s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
        err(1, "socket");
    configure(s, "lo", (struct in_addr){0});
    configure(s, "line", address);
    close(s);
    return tun;
}

/* ------------------------------------------------------------------------------------------------ the line */

/* Bytes that a packet is on the line: each segment of it has headers of its own. */
static uint64_t on_line(const struct packet *p)
{
    uint64_t headers = p->offload.hdr_len, size = p->offload.gso_size;
    if (p->offload.gso_type == VIRTIO_NET_HDR_GSO_NONE || !size || p->len <= headers)
        return p->len;
    return p->len + ((p->len - headers + size - 1) / size - 1) * headers;
}

static int64_t passes_in(uint64_t bytes, int64_t rate) { return rate ? (int64_t)((double)bytes * 8e9 / (double)rate) : 0; }

static int64_t delay_between(int from, int to) { return from == 0 ? nodes[to].delay : to == 0 ? nodes[from].delay : between; }

static void append(int from, int to, struct packet *p)
{
    struct queue *q = &queues[from][to];
    p->next = NULL;
    *q->last = p;
    q->last = &p->next;
}

/* A packet is put on both lines that it takes, or dropped if the queue before one of them is too long. */
static void send_along(int from, int to, struct packet *p, int64_t now)
{
    struct node *a = &nodes[from], *b = &nodes[to];
    uint64_t bytes = on_line(p);
    int64_t delay = delay_between(from, to), most = later(QUEUE_MIN_NS, 2 * delay);
    int64_t out = a->rate ? later(a->out_free, now - BURST_NS) : now, in = b->rate ? later(b->in_free, now - BURST_NS) : now;
    if (out - now > most || in - now > most) {
        nodes[from ? from : to].dropped += bytes;
        free(p);
        return;
    }
    out += passes_in(bytes, a->rate);
    in = later(in + passes_in(bytes, b->rate), out);
    if (a->rate)
        a->out_free = out;
    if (b->rate)
        b->in_free = in;
    p->due = later(in, now) + delay;
    if (from == 0)
        b->from_client += bytes;
    else if (to == 0)
        a->to_client += bytes;
    append(from, to, p);
}

static void forget(int from, int to, struct flow *only);

/* ------------------------------------------------------------------------------------------------ connections */

static struct iphdr *ip_of(struct packet *p) { return (struct iphdr *)p->bytes; }

static struct tcphdr *tcp_of(struct packet *p)
{
    struct iphdr *ip = ip_of(p);
    if (ip->protocol != IPPROTO_TCP || p->len < ip->ihl * 4u + sizeof(struct tcphdr) || ntohs(ip->frag_off) & 0x1fff)
        return NULL;
    return (struct tcphdr *)(p->bytes + ip->ihl * 4u);
}

/* The connection of a packet; `side` says which end sent it. The one that was asked for last is the first of the list. */
static struct flow *flow_of(struct packet *p, struct tcphdr *tcp, int *side)
{
    struct iphdr *ip = ip_of(p);
    int count = 0;
    *side = ntohl(ip->saddr) < ntohl(ip->daddr) ? 0 : 1;
    for (struct flow **at = &flows; *at; at = &(*at)->next, count++) {
        struct flow *f = *at;
        if (f->address[*side] == ip->saddr && f->address[!*side] == ip->daddr && f->port[*side] == tcp->source && f->port[!*side] == tcp->dest) {
            *at = f->next;
            f->next = flows;
            return flows = f;
        }
        if (count == FLOWS_MAX) { /* long over: nobody counted that many at a time */
            *at = f->next;
            free(f);
            break;
        }
    }
    struct flow *f = calloc(1, sizeof *f);
    if (!f)
        err(1, "memory");
    f->address[*side] = ip->saddr, f->address[!*side] = ip->daddr;
    f->port[*side] = tcp->source, f->port[!*side] = tcp->dest;
    f->next = flows;
    return flows = f;
}

static uint32_t sum(uint32_t so_far, const void *data, size_t len)
{
    const uint8_t *b = data;
    for (size_t i = 0; i + 1 < len; i += 2)
        so_far += (uint32_t)(b[i] << 8 | b[i + 1]);
    return so_far;
}

static uint16_t folded(uint32_t s)
{
    while (s >> 16)
        s = (s & 0xffff) + (s >> 16);
    return htons((uint16_t)~s);
}

/* A RST to one side of a connection, as if from the other. It is obeyed only if `seq` is exactly what that side expects next
 * (RFC 5961); otherwise the side answers with what it does expect, and is told again. */
static void reset(int to, uint32_t saddr, uint32_t daddr, uint16_t source, uint16_t dest, uint32_t seq, uint32_t ack, bool with_ack, int64_t due, int from)
{
    struct packet *p = calloc(1, sizeof *p + sizeof(struct iphdr) + sizeof(struct tcphdr));
    if (!p)
        err(1, "memory");
    struct iphdr *ip = ip_of(p);
    struct tcphdr *tcp = (struct tcphdr *)(ip + 1);
    p->len = sizeof *ip + sizeof *tcp;
    *ip = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP, .saddr = saddr, .daddr = daddr, .tot_len = htons((uint16_t)p->len)};
    *tcp = (struct tcphdr){.source = source, .dest = dest, .seq = htonl(seq), .ack_seq = htonl(ack), .ack = with_ack, .rst = 1, .doff = 5};
    ip->check = folded(sum(0, ip, sizeof *ip));
    tcp->check = folded(sum(sum(IPPROTO_TCP + sizeof *tcp, &ip->saddr, 8), tcp, sizeof *tcp));
    p->due = due;
    append(from, to, p);
}

static int node_at(uint32_t address)
{
    for (int i = 0; i < node_count; i++)
        if (nodes[i].address.s_addr == address)
            return i;
    return -1;
}

/* Ends a host's connections now, those of mounts if `mounts`: what was on its way is lost, and both ends are told. */
static void cut(int host, bool mounts)
{
    int64_t now = now_ns();
    for (struct flow *f = flows; f; f = f->next) {
        int ends[2] = {node_at(f->address[0]), node_at(f->address[1])};
        if ((ends[0] != host && ends[1] != host) || f->dead || (f->mount && !mounts))
            continue;
        f->dead = true;
        for (int side = 0; side < 2; side++)
            forget(ends[side], ends[!side], f);
        for (int side = 0; side < 2; side++)
            if (f->heard[side])
                reset(ends[side], f->address[!side], f->address[side], f->port[!side], f->port[side], f->expects[side], 0, false, now, ends[!side]);
    }
}

/* Drops what waits from one node for another: of one connection, or all of it. */
static void forget(int from, int to, struct flow *only)
{
    struct queue *q = &queues[from][to];
    q->last = &q->first;
    for (struct packet *p = q->first, *next; p; p = next) {
        struct tcphdr *tcp = tcp_of(p);
        int side = only && only->address[0] == nodes[from].address.s_addr ? 0 : 1;
        next = p->next;
        if (!only || (tcp && tcp->source == only->port[side] && tcp->dest == only->port[!side])) {
            free(p);
            continue;
        }
        *q->last = p;
        q->last = &p->next;
    }
    *q->last = NULL;
}

static void happen(struct node *host, const char *what)
{
    if (!strcmp(what, "cut") || !strcmp(what, "sever"))
        cut((int)(host - nodes), *what == 's');
    else if (!strcmp(what, "refuse"))
        host->refuses = true;
    else
        host->silent = true;
}

/* Whether a packet goes on; if not, who sent it may be told. */
static bool let_pass(int from, int to, struct packet *p, int64_t now)
{
    int ends[2] = {from, to};
    struct tcphdr *tcp = tcp_of(p);
    struct iphdr *ip = ip_of(p);
    int side;
    struct flow *f = tcp ? flow_of(p, tcp, &side) : NULL;
    if (f && tcp->syn && !tcp->ack) {
        f->dead = f->mount = false;
        f->heard[0] = f->heard[1] = false;
    }
    if (f && (ip->tos & ~3) == MOUNT_TOS)
        f->mount = true;
    for (int i = 0; i < 2; i++) {
        struct node *host = &nodes[ends[i]];
        if (*host->then && !(f && f->mount && !strcmp(host->then, "cut"))) {
            if (p->len > host->left) {
                char what[sizeof host->then];
                strcpy(what, host->then);
                *host->then = 0;
                happen(host, what);
            } else
                host->left -= p->len;
        }
        if (host->silent)
            return false;
    }
    if (!tcp)
        return true;
    if (tcp->syn && !tcp->ack && (nodes[from].refuses || nodes[to].refuses)) {
        /* As the host itself would: a round trip later. */
        reset(from, ip->daddr, ip->saddr, tcp->dest, tcp->source, 0, ntohl(tcp->seq) + 1, true, now + 2 * delay_between(from, to), to);
        return false;
    }
    if (tcp->ack) {
        f->expects[side] = ntohl(tcp->ack_seq);
        f->heard[side] = true;
    }
    if (f->dead) {
        if (tcp->ack && !tcp->rst)
            reset(from, ip->daddr, ip->saddr, tcp->dest, tcp->source, ntohl(tcp->ack_seq), 0, false, now, to);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ what tests say */

static struct node *host_named(const char *name)
{
    for (int i = 1; i < node_count; i++)
        if (name && !strcmp(nodes[i].name, name))
            return &nodes[i];
    return NULL;
}

static bool number(const char *word, int64_t *value)
{
    char *end;
    if (!word || !*word)
        return false;
    errno = 0;
    *value = strtoll(word, &end, 10);
    return !*end && !errno && *value >= 0;
}

static int64_t line_delay, line_rate;

static void heal(struct node *host)
{
    host->rate = 0;
    host->delay = line_delay;
    host->refuses = host->silent = false;
    *host->then = 0;
}

/* cut|sever|refuse|silence HOST [BYTES]   now, or when so many more bytes have passed to and from it; "cut" is all but mounts
 * slow HOST BITS_A_SECOND           its own line; delay HOST NS: one way
 * heal HOST                         as it was at first
 * count [reset]                     a line for each host: its name, bytes to the client, bytes from it, bytes dropped */
static void obey(char *line, FILE *answer)
{
    char *save, *what = strtok_r(line, " \n", &save), *name = strtok_r(NULL, " \n", &save), *word = strtok_r(NULL, " \n", &save);
    struct node *host = host_named(name);
    int64_t value = 0;
    if (!what)
        fputs("error: nothing said\n", answer);
    else if (!strcmp(what, "count")) {
        for (int i = 1; i < node_count; i++) {
            fprintf(answer, "%s %llu %llu %llu\n", nodes[i].name, (unsigned long long)nodes[i].to_client, (unsigned long long)nodes[i].from_client,
                (unsigned long long)nodes[i].dropped);
            if (name && !strcmp(name, "reset"))
                nodes[i].to_client = nodes[i].from_client = nodes[i].dropped = 0;
        }
    } else if (!host)
        fprintf(answer, "error: no host \"%s\"\n", name ? name : "");
    else if (!strcmp(what, "heal")) {
        heal(host);
        fputs("ok\n", answer);
    } else if (!strcmp(what, "slow") || !strcmp(what, "delay")) {
        if (!number(word, &value)) {
            fputs("error: no number\n", answer);
            return;
        }
        if (*what == 's')
            host->rate = value;
        else
            host->delay = later(value - REST_NS, 0);
        fputs("ok\n", answer);
    } else if (!strcmp(what, "cut") || !strcmp(what, "sever") || !strcmp(what, "refuse") || !strcmp(what, "silence")) {
        if (!word)
            happen(host, what);
        else if (number(word, &value)) {
            strcpy(host->then, what);
            host->left = (uint64_t)value;
        } else {
            fputs("error: no number\n", answer);
            return;
        }
        fputs("ok\n", answer);
    } else
        fprintf(answer, "error: unknown: %s\n", what);
}

static void listen_to(int door)
{
    int s = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    struct timeval patience = {.tv_sec = 1};
    char line[256];
    size_t len = 0;
    ssize_t n;
    if (s < 0)
        return;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (len < sizeof line - 1 && (n = read(s, line + len, sizeof line - 1 - len)) > 0) {
        len += (size_t)n;
        if (memchr(line, '\n', len))
            break;
    }
    line[len] = 0;
    FILE *answer = fdopen(s, "w");
    if (!answer)
        err(1, "memory");
    obey(line, answer);
    fclose(answer);
}

/* ------------------------------------------------------------------------------------------------ the loop */

static void take(int from)
{
    static struct {
        struct virtio_net_hdr offload;
        unsigned char bytes[PACKET_MAX];
    } __attribute__((packed)) in;
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t n = read(nodes[from].tun, &in, sizeof in);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            err(1, "line of %s", nodes[from].name);
        if ((size_t)n < sizeof in.offload + sizeof(struct iphdr))
            continue;
        struct packet *p = malloc(sizeof *p + (size_t)n);
        if (!p)
            err(1, "memory");
        p->len = (size_t)n - sizeof in.offload;
        p->offload = in.offload;
        memcpy(p->bytes, in.bytes, p->len);
        /* IPv6's questions for neighbours and routers, which nobody answers, end here too. */
        int to = ip_of(p)->version == 4 ? node_at(ip_of(p)->daddr) : -1;
        int64_t now = now_ns();
        if (to < 0 || to == from || !let_pass(from, to, p, now))
            free(p);
        else
            send_along(from, to, p, now);
    }
}

/* Hands over what is due; when the next one will be, or 0. */
static int64_t deliver(void)
{
    int64_t next = 0, now = now_ns();
    for (int from = 0; from < node_count; from++)
        for (int to = 0; to < node_count; to++) {
            struct queue *q = &queues[from][to];
            struct packet *p;
            while ((p = q->first) && p->due <= now) {
                struct iovec parts[] = {{&p->offload, sizeof p->offload}, {p->bytes, p->len}};
                /* A device that takes nothing has dropped the packet, as devices do. */
                if (writev(nodes[to].tun, parts, 2) < 0 && errno != EAGAIN && errno != EINTR && errno != EIO)
                    err(1, "line to %s", nodes[to].name);
                if (!(q->first = p->next))
                    q->last = &q->first;
                free(p);
            }
            if (p && (!next || p->due < next))
                next = p->due;
        }
    return next;
}

int main(int argc, char **argv)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    struct pollfd ready[NODES_MAX + 1];
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (argc < 7 || argc - 5 > NODES_MAX || !number(argv[2], &line_delay) || !number(argv[3], &line_rate) || !number(argv[4], &between))
        errx(2, "usage: link SOCKET DELAY RATE BETWEEN NAME=PID:ADDRESS...");
    if (strlen(argv[1]) >= sizeof place.sun_path)
        errx(2, "%s: too long a name for a socket", argv[1]);
    strcpy(place.sun_path, argv[1]);
    unlink(argv[1]);
    line_delay = later(line_delay - REST_NS, 0);
    if (door < 0 || bind(door, (struct sockaddr *)&place, sizeof place) || listen(door, 16))
        err(1, "%s", argv[1]);
    for (; argv[5 + node_count]; node_count++) {
        struct node *node = &nodes[node_count];
        char *save, *name = strtok_r(argv[5 + node_count], "=", &save), *pid = strtok_r(NULL, ":", &save), *address = strtok_r(NULL, "", &save);
        if (!name || !pid || !address || !inet_aton(address, &node->address))
            errx(2, "expected NAME=PID:ADDRESS");
        node->name = name;
        node->tun = tun_in(pid, node->address);
        heal(node);
    }
    nodes[0].rate = line_rate;
    for (int i = 0; i < NODES_MAX; i++)
        for (int k = 0; k < NODES_MAX; k++)
            queues[i][k].last = &queues[i][k].first;
    /* Ordinary processes are woken up to 50 us late. */
    prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < node_count; i++)
        ready[i] = (struct pollfd){.fd = nodes[i].tun, .events = POLLIN};
    ready[node_count] = (struct pollfd){.fd = door, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t next = deliver(), wait = later(next - now_ns(), 0);
        struct timespec t = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        if (ppoll(ready, (nfds_t)node_count + 1, next ? &t : NULL, NULL) < 0 && errno != EINTR)
            err(1, "poll");
        for (int i = 0; i < node_count; i++)
            if (ready[i].revents)
                take(i);
        if (ready[node_count].revents)
            listen_to(door);
    }
}
