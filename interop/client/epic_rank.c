/*
 * epic_rank: one rank of in-network collectives, written as a user of libibverbs would write it. It knows
 * nothing of switches: to it, each subgroup is one RC queue pair to one peer.
 *
 *   epic_rank --dir DIR --ip OWN_IP --rank K --ranks N --steps LIST [--dtype int32|float32|int8]
 *             [--device NAME] [--repeat N] [--busy-poll] [--give-up SECONDS]
 *
 *   LIST      allreduce, reduce:ROOT, broadcast:ROOT, barrier; with commas between them, done in order; each may
 *             have a type of its own, as barrier/int32 or broadcast:1/int8, which is also what its control signal says
 *   --repeat  does the whole list so often, with the same input, and prints the times of each step
 *
 * DIR is the folder in which the rank meets the control plane (which may be a program, or a person):
 *
 *   qpns     the rank writes the QPN of its queue pair of each subgroup, a line each
 *   group    control answers: lines "mtu 1024", "message_packets 8", "window_packets 32", "timeout 16",
 *            "min_rnr_timer 1", "unpinned 0", "flags 0", and "qp PEER_IP PEER_QPN PSN" for each subgroup
 *   ready    the rank's queue pairs are in RTS;  go: all ranks' are
 *   done     the rank has all its results: a line "QPN PSN" for each subgroup with the last PSN that it has used
 *            to send, the one before the first if none;  leave: all ranks have theirs
 *   failed   in place of group, go or leave: why the job is over
 *   in.S     the rank's vector of step S;        out.S: its result, if the step has one for it
 *
 * A file appears whole, by rename. A subgroup is allreduce (with barrier), or one root of reduce or of
 * broadcast; they are numbered as they first stand in LIST. Reduce delivers to the root the sum of the
 * others, and the root adds its own part here (protocol.md 2).
 *
 * Exit status: 0 all results are there and every queue pair is in RTS; 1 not so; 2 the arguments.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "inc_spec.h"

enum { MAX_STEPS = 64, MAX_REPEAT = 100000, POSTED_RECEIVES = 64, SIGNAL_BYTES = INC_CONTROL_BYTES, ELEMENT = 4 };

/* kinds of step, numbered as in a control signal (protocol.md 10) */
static const char *const kinds[] = {
	[INC_COLL_TYPE_ALLREDUCE] = "allreduce",
	[INC_COLL_TYPE_REDUCE] = "reduce",
	[INC_COLL_TYPE_BROADCAST] = "broadcast",
	[INC_COLL_TYPE_BARRIER] = "barrier",
};

struct buffer {
	char *data;
	size_t bytes;
	struct ibv_mr *mr;
};

struct subgroup {
	enum inc_coll_type kind;
	int root;
	struct ibv_qp *qp;
	struct buffer signal; /* SIGNAL_BYTES to send, then as many to receive */
	uint64_t sequence;    /* collectives begun */
	struct sockaddr_storage peer;
	uint32_t peer_qpn, psn, packets; /* sent, each counted once */
	/* of the step that is under way: */
	int sends_done, receives_done;
};

struct step {
	enum inc_coll_type kind;
	enum inc_dtype dtype;
	int root, group;
	struct buffer in, out;
	double *took; /* ms, of each repetition */
};

static struct {
	const char *dir, *device;
	struct sockaddr_storage ip;
	int rank, ranks, repeat;
	enum inc_dtype dtype;
	bool busy_poll;
	double give_up; /* seconds from the start */
} opt = {.rank = -1, .ranks = -1, .repeat = 1, .dtype = INC_DTYPE_INT32, .give_up = 60};

/* what control answered */
static struct {
	long mtu, message_packets, window_packets, timeout, min_rnr_timer, unpinned, flags;
} cfg = {-1, -1, -1, -1, -1, -1, -1};

static struct step steps[MAX_STEPS];
static struct subgroup groups[MAX_STEPS];
static int step_n, group_n;

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "epic_rank: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static __attribute__((noreturn, format(printf, 1, 2))) void usage(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "epic_rank: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "; want epic_rank --dir DIR --ip OWN_IP --rank K --ranks N --steps LIST\n");
	exit(2);
}

/* milliseconds since the first call */
static double now_ms(void)
{
	static struct timespec first;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (first.tv_sec == 0)
		first = t;
	return (double)(t.tv_sec - first.tv_sec) * 1e3 + (double)(t.tv_nsec - first.tv_nsec) / 1e6;
}

static bool too_late(void)
{
	return now_ms() > opt.give_up * 1e3;
}

static void *allocate(size_t bytes)
{
	size_t rounded = (bytes + 4095) & ~(size_t)4095;
	void *p = aligned_alloc(4096, rounded ? rounded : 4096);

	if (!p)
		die("no memory for %zu bytes", bytes);
	memset(p, 0, rounded ? rounded : 4096);
	return p;
}

/* ---- arguments ---- */

static int number(const char *what, const char *text, long low, long high)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 0);
	if (errno || end == text || *end || v < low || v > high)
		usage("%s: got \"%s\", want a number in %ld..%ld", what, text, low, high);
	return (int)v;
}

static bool parse_address(const char *text, struct sockaddr_storage *a)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)a;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)a;

	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		a->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		a->ss_family = AF_INET6;
	else
		return false;
	return true;
}

/* the address as RoCE has it in a GID: IPv4 is mapped into IPv6 */
static union ibv_gid gid_of(const struct sockaddr_storage *a)
{
	union ibv_gid gid = {.raw = {0}};

	if (a->ss_family == AF_INET) {
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
	} else {
		memcpy(gid.raw, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	}
	return gid;
}

static int group_of(enum inc_coll_type kind, int root)
{
	if (kind == INC_COLL_TYPE_BARRIER)
		kind = INC_COLL_TYPE_ALLREDUCE;
	for (int g = 0; g < group_n; g++)
		if (groups[g].kind == kind && groups[g].root == root)
			return g;
	groups[group_n].kind = kind;
	groups[group_n].root = root;
	return group_n++;
}

static enum inc_dtype parse_dtype(const char *what, const char *text)
{
	if (!strcmp(text, "int32"))
		return INC_DTYPE_INT32;
	if (!strcmp(text, "float32"))
		return INC_DTYPE_FLOAT32;
	if (!strcmp(text, "int8"))
		return INC_DTYPE_INT8;
	usage("%s: got \"%s\", want int32, float32 or int8", what, text);
}

static void parse_steps(char *list)
{
	for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		struct step *s = &steps[step_n];
		char *type = strchr(word, '/'), *root = strchr(word, ':');
		size_t k;

		if (step_n == MAX_STEPS)
			usage("--steps: got more than %d, want at most so many", MAX_STEPS);
		s->dtype = opt.dtype;
		if (type) {
			*type++ = 0;
			s->dtype = parse_dtype("--steps", type);
		}
		if (root)
			*root++ = 0;
		for (k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
			if (!strcmp(word, kinds[k]))
				break;
		if (k == sizeof(kinds) / sizeof(*kinds))
			usage("--steps: got \"%s\", want allreduce, reduce:ROOT, broadcast:ROOT or barrier", word);
		s->kind = (enum inc_coll_type)k;
		if (s->dtype == INC_DTYPE_INT8 && (s->kind == INC_COLL_TYPE_ALLREDUCE || s->kind == INC_COLL_TYPE_REDUCE))
			usage("--steps: %s: got int8, want int32 or float32: only what is copied may be bytes", word);
		bool rooted = s->kind == INC_COLL_TYPE_REDUCE || s->kind == INC_COLL_TYPE_BROADCAST;
		if (rooted != (root != NULL))
			usage("--steps: %s: got %s, want %s", word, root ? "a root" : "no root", rooted ? "one, as reduce:0" : "none");
		if (root)
			s->root = number("--steps: root", root, 0, opt.ranks - 1);
		s->group = group_of(s->kind, s->root);
		step_n++;
	}
	if (!step_n)
		usage("--steps: got none");
}

static void parse(int argc, char **argv)
{
	enum { DIR_ = 1, IP, RANK, RANKS, STEPS, DTYPE, DEVICE, REPEAT, BUSY_POLL, GIVE_UP };
	static const struct option options[] = {
		{"dir", required_argument, NULL, DIR_},     {"ip", required_argument, NULL, IP},
		{"rank", required_argument, NULL, RANK},    {"ranks", required_argument, NULL, RANKS},
		{"steps", required_argument, NULL, STEPS},  {"dtype", required_argument, NULL, DTYPE},
		{"device", required_argument, NULL, DEVICE}, {"repeat", required_argument, NULL, REPEAT},
		{"busy-poll", no_argument, NULL, BUSY_POLL}, {"give-up", required_argument, NULL, GIVE_UP},
		{NULL, 0, NULL, 0},
	};
	char *list = NULL;
	int o;

	opterr = 0;
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (o) {
		case DIR_: opt.dir = optarg; break;
		case IP:
			if (!parse_address(optarg, &opt.ip))
				usage("--ip: got \"%s\", want an IPv4 or IPv6 address", optarg);
			break;
		case RANK: opt.rank = number("--rank", optarg, 0, 4095); break;
		case RANKS: opt.ranks = number("--ranks", optarg, 2, 4096); break;
		case STEPS: list = optarg; break;
		case DTYPE: opt.dtype = parse_dtype("--dtype", optarg); break;
		case DEVICE: opt.device = optarg; break;
		case REPEAT: opt.repeat = number("--repeat", optarg, 1, MAX_REPEAT); break;
		case BUSY_POLL: opt.busy_poll = true; break;
		case GIVE_UP: opt.give_up = number("--give-up", optarg, 1, 86400); break;
		default: usage("got \"%s\", which is no option or lacks its argument", argv[optind - 1]);
		}
	if (optind < argc)
		usage("got \"%s\", which is no option", argv[optind]);
	if (!opt.dir || !opt.ip.ss_family || opt.rank < 0 || opt.ranks < 0 || !list)
		usage("--dir, --ip, --rank, --ranks and --steps must be given");
	if (opt.rank >= opt.ranks)
		usage("--rank: got %d of %d ranks, want 0..%d", opt.rank, opt.ranks, opt.ranks - 1);
	parse_steps(list);
}

/* ---- files of DIR ---- */

static const char *path(const char *name)
{
	static char p[4096];

	if (snprintf(p, sizeof(p), "%s/%s", opt.dir, name) >= (int)sizeof(p))
		die("%s: the path is longer than %zu bytes", name, sizeof(p) - 1);
	return p;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	char temporary[64], from[4096];
	FILE *f;

	snprintf(temporary, sizeof(temporary), "%s.tmp", name);
	strcpy(from, path(temporary));
	f = fopen(from, "wb");
	if (!f || (bytes && fwrite(data, 1, bytes, f) != bytes) || fclose(f))
		die("write %s: %s", from, strerror(errno));
	if (rename(from, path(name)))
		die("rename %s to %s: %s", from, path(name), strerror(errno));
}

/* the file's content with a 0 byte behind it */
static struct buffer read_file(const char *name)
{
	struct buffer b = {0};
	struct stat st;
	FILE *f = fopen(path(name), "rb");

	if (!f || fstat(fileno(f), &st))
		die("read %s: %s", path(name), strerror(errno));
	b.bytes = (size_t)st.st_size;
	b.data = allocate(b.bytes + 1);
	if (fread(b.data, 1, b.bytes, f) != b.bytes)
		die("read %s: it ends before its %zu bytes", path(name), b.bytes);
	fclose(f);
	return b;
}

/* why the job is over, or NULL while it is not */
static const char *job_failed(void)
{
	return access(path("failed"), F_OK) ? NULL : read_file("failed").data;
}

static void await(const char *name, const char *what)
{
	while (access(path(name), F_OK)) {
		const char *why = job_failed();

		if (why)
			die("%s", why);
		if (too_late())
			die("gave up after %.0f s: %s has not appeared: %s", opt.give_up, path(name), what);
		usleep(2000);
	}
}

/* ---- verbs ---- */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = NULL;

	if (!list || !list[0])
		die("no RDMA device; is rdma_rxe loaded, and was \"rdma link add\" done?");
	for (int i = 0; list[i] && !dev; i++)
		if (!opt.device || !strcmp(opt.device, ibv_get_device_name(list[i])))
			dev = list[i];
	if (!dev)
		die("no RDMA device %s; the first there is, is %s", opt.device, ibv_get_device_name(list[0]));
	ctx = ibv_open_device(dev);
	if (!ctx)
		die("open %s: %s", ibv_get_device_name(dev), strerror(errno));
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	if (!pd || !channel)
		die("protection domain and completion channel: %s", strerror(errno));
	cq = ibv_create_cq(ctx, 4096, NULL, channel, 0);
	if (!cq)
		die("completion queue: %s", strerror(errno));
	if (ibv_req_notify_cq(cq, 0))
		die("ask for completion events: %s", strerror(errno));
	if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK))
		die("completion channel: %s", strerror(errno));
}

/* the index of the GID that is our own address */
static uint8_t gid_index(void)
{
	struct ibv_port_attr port;
	union ibv_gid own = gid_of(&opt.ip), gid;
	char text[INET6_ADDRSTRLEN];

	if (ibv_query_port(ctx, 1, &port))
		die("query port 1: %s", strerror(errno));
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(ctx, 1, i, &gid) && !memcmp(&gid, &own, sizeof(gid)))
			return (uint8_t)i;
	inet_ntop(AF_INET6, own.raw, text, sizeof(text));
	die("none of the %d GIDs of port 1 is %s: the interface has not got the address of --ip", port.gid_tbl_len, text);
}

static void register_buffer(struct buffer *b)
{
	b->mr = ibv_reg_mr(pd, b->data, b->bytes ? b->bytes : 1, IBV_ACCESS_LOCAL_WRITE);
	if (!b->mr)
		die("register %zu bytes: %s", b->bytes, strerror(errno));
}

static void create_qps(void)
{
	char text[16 * MAX_STEPS];
	size_t n = 0;

	for (int g = 0; g < group_n; g++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = {.max_send_wr = 256, .max_recv_wr = 2 * POSTED_RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = 1,
		};
		struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

		groups[g].qp = ibv_create_qp(pd, &attr);
		if (!groups[g].qp)
			die("queue pair of subgroup %d: %s", g, strerror(errno));
		if (ibv_modify_qp(groups[g].qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			die("queue pair %#x to INIT: %s", groups[g].qp->qp_num, strerror(errno));
		groups[g].signal = (struct buffer){.data = allocate(2 * SIGNAL_BYTES), .bytes = 2 * SIGNAL_BYTES};
		register_buffer(&groups[g].signal);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u\n", groups[g].qp->qp_num);
	}
	write_file("qpns", text, n);
}

/* reads what control answered */
static void read_group(void)
{
	static const struct {
		const char *name;
		long *to, low, high;
	} fields[] = {
		{"mtu", &cfg.mtu, 256, 4096},
		{"message_packets", &cfg.message_packets, 1, 1 << 20},
		{"window_packets", &cfg.window_packets, 1, 1 << 22},
		{"timeout", &cfg.timeout, 0, 31},
		{"min_rnr_timer", &cfg.min_rnr_timer, 0, 31},
		{"unpinned", &cfg.unpinned, 0, 1},
		{"flags", &cfg.flags, 0, 15},
	};
	int line_n = 0, qps = 0;

	await("group", "control has not answered with the group");
	struct buffer b = read_file("group");

	for (char *save = NULL, *line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char word[32], ip[INET6_ADDRSTRLEN];
		long value, qpn, psn;
		size_t f = 0, field_n = sizeof(fields) / sizeof(*fields);

		line_n++;
		if (sscanf(line, "qp %45s %li %li", ip, &qpn, &psn) == 3) {
			if (qps == group_n)
				die("group: line %d: got queue pair %d, want %d of them", line_n, qps, group_n);
			if (!parse_address(ip, &groups[qps].peer) || qpn < 1 || qpn > 0xffffff || psn < 0 || psn > 0xffffff)
				die("group: line %d: got \"%s\", want qp IP QPN PSN, both numbers of 24 bits", line_n, line);
			groups[qps].peer_qpn = (uint32_t)qpn;
			groups[qps++].psn = (uint32_t)psn;
			continue;
		}
		if (sscanf(line, "%31s %li", word, &value) != 2)
			die("group: line %d: got \"%s\", want a name and a number", line_n, line);
		while (f < field_n && strcmp(word, fields[f].name))
			f++;
		if (f == field_n || value < fields[f].low || value > fields[f].high)
			die("group: line %d: got \"%s\", want a name of epic_rank.c with a number in its range", line_n, line);
		*fields[f].to = value;
	}
	for (size_t f = 0; f < sizeof(fields) / sizeof(*fields); f++)
		if (*fields[f].to < 0)
			die("group: %s is missing", fields[f].name);
	if (qps != group_n)
		die("group: got %d queue pairs, want %d", qps, group_n);
	if (cfg.window_packets < cfg.message_packets)
		die("group: got window_packets %ld below message_packets %ld", cfg.window_packets, cfg.message_packets);
	free(b.data);
}

static enum ibv_mtu mtu_enum(long mtu)
{
	for (int e = IBV_MTU_256; e <= IBV_MTU_4096; e++)
		if (128L << e == mtu)
			return (enum ibv_mtu)e;
	die("group: mtu: got %ld, want 256, 512, 1024, 2048 or 4096", mtu);
}

static void connect_qps(void)
{
	struct ibv_port_attr port;
	uint8_t sgid = gid_index();

	if (ibv_query_port(ctx, 1, &port))
		die("query port 1: %s", strerror(errno));
	if (mtu_enum(cfg.mtu) > port.active_mtu)
		die("group: mtu: got %ld, but the port carries %d: make the MTU of the interface larger", cfg.mtu, 128 << port.active_mtu);
	for (int g = 0; g < group_n; g++) {
		struct subgroup *s = &groups[g];
		struct ibv_qp_attr rtr = {
			.qp_state = IBV_QPS_RTR,
			.path_mtu = mtu_enum(cfg.mtu),
			.dest_qp_num = s->peer_qpn,
			.rq_psn = s->psn,
			.max_dest_rd_atomic = 1,
			.min_rnr_timer = (uint8_t)cfg.min_rnr_timer,
			.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid_of(&s->peer), .sgid_index = sgid, .hop_limit = 64}},
		};
		struct ibv_qp_attr rts = {
			.qp_state = IBV_QPS_RTS,
			.timeout = (uint8_t)cfg.timeout,
			.retry_cnt = 7,
			.rnr_retry = 7, /* fewer kill the queue pair while a peer is late (protocol.md 5) */
			.sq_psn = s->psn,
			.max_rd_atomic = 1,
		};

		if (s->peer.ss_family != opt.ip.ss_family)
			die("group: subgroup %d: the peer's address and that of --ip are of different families", g);
		if (ibv_modify_qp(s->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
			die("queue pair %#x to RTR: %s%s", s->qp->qp_num, strerror(errno),
			    errno == ETIMEDOUT ? ": nobody answers ARP or neighbour discovery for the peer" : "");
		if (ibv_modify_qp(s->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						       IBV_QP_MAX_QP_RD_ATOMIC))
			die("queue pair %#x to RTS: %s", s->qp->qp_num, strerror(errno));
	}
}

static const char *state_name(enum ibv_qp_state s)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};

	return (size_t)s < sizeof(names) / sizeof(*names) ? names[s] : "UNKNOWN";
}

/* prints every queue pair's state; false if one is not in RTS */
static bool report_qps(void)
{
	bool good = true;

	for (int g = 0; g < group_n; g++) {
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;

		if (!groups[g].qp)
			continue;
		if (ibv_query_qp(groups[g].qp, &attr, IBV_QP_STATE, &init))
			die("query queue pair %#x: %s", groups[g].qp->qp_num, strerror(errno));
		printf("qp %u subgroup %s:%d state %s\n", groups[g].qp->qp_num, kinds[groups[g].kind], groups[g].root, state_name(attr.qp_state));
		good = good && attr.qp_state == IBV_QPS_RTS;
	}
	return good;
}

/* ---- a step ---- */

/* The messages of a step in one direction: the control signal if there is one, then the vector in pieces. */
struct messages {
	struct buffer *vector; /* NULL: none */
	char *signal;          /* NULL: none */
	bool empty;            /* one message without payload: a Barrier */
	int count, posted;
};

struct run {
	int index, repetition;
	struct step *step;
	struct subgroup *group;
	struct messages send, receive;
	uint32_t imm;
};

static size_t message_bytes(void)
{
	return (size_t)(cfg.message_packets * cfg.mtu);
}

static void count(struct messages *m)
{
	size_t size = message_bytes();

	m->count = (m->signal != NULL) + m->empty;
	if (m->vector)
		m->count += (int)((m->vector->bytes + size - 1) / size);
}

/* message i as an SGE; bytes 0: without payload */
static struct ibv_sge piece(const struct run *r, const struct messages *m, int i)
{
	size_t size = message_bytes(), at;

	if (m->signal && i == 0)
		return (struct ibv_sge){(uintptr_t)m->signal, SIGNAL_BYTES, r->group->signal.mr->lkey};
	if (m->empty)
		return (struct ibv_sge){0};
	at = (size_t)(i - (m->signal != NULL)) * size;
	if (m->vector->bytes - at < size)
		size = m->vector->bytes - at;
	return (struct ibv_sge){(uintptr_t)(m->vector->data + at), (uint32_t)size, m->vector->mr->lkey};
}

/* wr_id: subgroup, direction, message */
enum { RECEIVE = 1 };
static uint64_t id_of(const struct run *r, int direction, int i)
{
	return (uint64_t)r->step->group << 33 | (uint64_t)direction << 32 | (uint32_t)i;
}

static void post_receives(struct run *r)
{
	struct messages *m = &r->receive;

	for (; m->posted < m->count && m->posted - r->group->receives_done < POSTED_RECEIVES; m->posted++) {
		struct ibv_sge sge = piece(r, m, m->posted);
		struct ibv_recv_wr wr = {.wr_id = id_of(r, RECEIVE, m->posted), .sg_list = &sge, .num_sge = sge.length > 0}, *bad;
		int err = ibv_post_recv(r->group->qp, &wr, &bad);

		if (err)
			die("step %d: post receive %d: %s", r->index, m->posted, strerror(err));
	}
}

/* Data may go once the control signal's result is here or, where none comes, acknowledged (protocol.md 10). */
static bool may_send_data(const struct run *r)
{
	return !r->send.signal || (r->receive.signal ? r->group->receives_done > 0 : r->group->sends_done > 0);
}

static void post_sends(struct run *r)
{
	struct messages *m = &r->send;
	int window = (int)(cfg.window_packets / cfg.message_packets);

	while (m->posted < m->count && m->posted - r->group->sends_done < window) {
		bool signal = m->signal && m->posted == 0;
		struct ibv_sge sge = piece(r, m, m->posted);
		struct ibv_send_wr wr = {
			.wr_id = id_of(r, 0, m->posted),
			.sg_list = &sge,
			.num_sge = sge.length > 0,
			.opcode = signal ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.imm_data = signal ? htobe32(r->imm) : 0,
		}, *bad;
		int err;

		if (!signal && !may_send_data(r))
			return;
		err = ibv_post_send(r->group->qp, &wr, &bad);
		if (err)
			die("step %d: post send %d: %s", r->index, m->posted, strerror(err));
		r->group->packets += sge.length ? (sge.length + (uint32_t)cfg.mtu - 1) / (uint32_t)cfg.mtu : 1;
		m->posted++;
	}
}

static __attribute__((noreturn)) void give_up(const struct run *r, const char *why)
{
	fprintf(stderr, "epic_rank: step %d (%s:%d), repetition %d: %s: %d of %d messages received, %d of %d sends acknowledged\n", r->index,
		kinds[r->step->kind], r->step->root, r->repetition, why, r->group->receives_done, r->receive.count, r->group->sends_done,
		r->send.count);
	report_qps();
	exit(1);
}

static void check_receive(const struct run *r, const struct ibv_wc *wc, int i)
{
	struct ibv_sge want = piece(r, &r->receive, i);
	bool signal = r->receive.signal && i == 0;
	char why[128];

	if (wc->byte_len != want.length) {
		snprintf(why, sizeof(why), "message %d has %u bytes, want %u", i, wc->byte_len, want.length);
		give_up(r, why);
	}
	if (((wc->wc_flags & IBV_WC_WITH_IMM) != 0) != signal)
		give_up(r, signal ? "the control signal's result has no immediate" : "a result has an immediate");
	if (signal && (be32toh(wc->imm_data) != r->imm || memcmp(r->receive.signal, r->group->signal.data, SIGNAL_BYTES)))
		give_up(r, "the control signal's result is not the signal: the ranks do not agree");
}

static void take(struct run *r, const struct ibv_wc *wc)
{
	bool receive = wc->wr_id >> 32 & 1;
	int i = (int)(uint32_t)wc->wr_id;
	char why[128];

	if (wc->status != IBV_WC_SUCCESS) {
		snprintf(why, sizeof(why), "%s %d of queue pair %u ended with status %d (%s)", receive ? "receive" : "send", i, wc->qp_num,
			 wc->status, ibv_wc_status_str(wc->status));
		give_up(r, why);
	}
	if ((int)(wc->wr_id >> 33) != r->step->group)
		give_up(r, "a completion of another subgroup");
	if (receive) {
		check_receive(r, wc, i);
		r->group->receives_done++;
	} else {
		r->group->sends_done++;
	}
}

/* takes what has completed; waits for something if nothing has, and looks now and then if the job is over */
static void progress(struct run *r)
{
	enum { LOOK_MS = 100 };
	static double looked;
	const char *why;
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct ibv_wc wc[16];
	struct ibv_cq *which;
	void *context;
	int n;

	while ((n = ibv_poll_cq(cq, sizeof(wc) / sizeof(*wc), wc)) == 0) {
		if (too_late())
			give_up(r, "gave up: nothing completes");
		if (now_ms() - looked > LOOK_MS) {
			looked = now_ms();
			why = job_failed();
			if (why)
				give_up(r, why);
		}
		if (opt.busy_poll || poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		if (!ibv_get_cq_event(channel, &which, &context)) {
			ibv_ack_cq_events(which, 1);
			if (ibv_req_notify_cq(cq, 0))
				give_up(r, "no more completion events");
		}
	}
	if (n < 0)
		give_up(r, "polling the completion queue failed");
	for (int i = 0; i < n; i++)
		take(r, &wc[i]);
}

static void add(struct step *s)
{
	for (size_t at = 0; at + ELEMENT <= s->out.bytes; at += ELEMENT) {
		if (s->dtype == INC_DTYPE_INT32) {
			uint32_t a, b;

			memcpy(&a, s->out.data + at, ELEMENT);
			memcpy(&b, s->in.data + at, ELEMENT);
			a += b;
			memcpy(s->out.data + at, &a, ELEMENT);
		} else {
			float a, b;

			memcpy(&a, s->out.data + at, ELEMENT);
			memcpy(&b, s->in.data + at, ELEMENT);
			a += b;
			memcpy(s->out.data + at, &a, ELEMENT);
		}
	}
}

static void put64(char *to, uint64_t v)
{
	v = htobe64(v);
	memcpy(to, &v, sizeof(v));
}

static void do_step(int index, int repetition)
{
	struct step *s = &steps[index];
	struct subgroup *g = &groups[s->group];
	struct run r = {.index = index, .repetition = repetition, .step = s, .group = g};
	bool barrier = s->kind == INC_COLL_TYPE_BARRIER;
	bool sends = s->kind == INC_COLL_TYPE_REDUCE ? s->root != opt.rank : s->kind != INC_COLL_TYPE_BROADCAST || s->root == opt.rank;
	bool receives = s->kind == INC_COLL_TYPE_REDUCE ? s->root == opt.rank : s->kind != INC_COLL_TYPE_BROADCAST || s->root != opt.rank;
	double start = now_ms();

	g->sends_done = g->receives_done = 0;
	if (cfg.unpinned) {
		r.imm = (uint32_t)s->kind << INC_CONTROL_TYPE_SHIFT | (uint32_t)INC_OP_SUM << INC_CONTROL_OP_SHIFT |
			(uint32_t)s->dtype << INC_CONTROL_DTYPE_SHIFT | (uint32_t)cfg.flags << INC_CONTROL_FLAGS_SHIFT | (uint32_t)s->root;
		put64(g->signal.data, barrier ? 0 : s->in.bytes);
		put64(g->signal.data + 8, g->sequence++);
		r.send.signal = sends ? g->signal.data : NULL;
		r.receive.signal = receives ? g->signal.data + SIGNAL_BYTES : NULL;
	} else if (barrier) {
		r.send.empty = r.receive.empty = true;
	}
	if (!barrier) {
		r.send.vector = sends ? &s->in : NULL;
		r.receive.vector = receives ? &s->out : NULL;
	}
	count(&r.send);
	count(&r.receive);
	while (g->sends_done < r.send.count || g->receives_done < r.receive.count) {
		post_receives(&r);
		post_sends(&r);
		progress(&r);
	}
	if (s->kind == INC_COLL_TYPE_REDUCE && receives)
		add(s);
	s->took[repetition] = now_ms() - start;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void prepare_steps(void)
{
	for (int i = 0; i < step_n; i++) {
		struct step *s = &steps[i];
		char name[16];

		s->took = allocate((size_t)opt.repeat * sizeof(*s->took));
		if (s->kind == INC_COLL_TYPE_BARRIER)
			continue;
		snprintf(name, sizeof(name), "in.%d", i);
		s->in = read_file(name);
		if (s->dtype != INC_DTYPE_INT8 && s->in.bytes % ELEMENT)
			die("%s: got %zu bytes, want whole elements of %d", path(name), s->in.bytes, ELEMENT);
		s->out = (struct buffer){.data = allocate(s->in.bytes), .bytes = s->in.bytes};
		register_buffer(&s->in);
		register_buffer(&s->out);
	}
}

static void write_results(void)
{
	for (int i = 0; i < step_n; i++) {
		struct step *s = &steps[i];
		bool has = s->kind == INC_COLL_TYPE_ALLREDUCE || (s->kind == INC_COLL_TYPE_REDUCE && s->root == opt.rank) ||
			   (s->kind == INC_COLL_TYPE_BROADCAST && s->root != opt.rank);
		char name[16];

		qsort(s->took, (size_t)opt.repeat, sizeof(*s->took), by_value);
		printf("step %d %s:%d repetitions %d ms_min %.3f ms_median %.3f ms_p99 %.3f\n", i, kinds[s->kind], s->root, opt.repeat,
		       s->took[0], s->took[opt.repeat / 2], s->took[opt.repeat - 1 - opt.repeat / 100]);
		snprintf(name, sizeof(name), "out.%d", i);
		if (has)
			write_file(name, s->out.data, s->out.bytes);
	}
}

static void write_done(void)
{
	char text[24 * MAX_STEPS];
	size_t n = 0;

	for (int g = 0; g < group_n; g++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u %u\n", groups[g].qp->qp_num,
				      (groups[g].psn + groups[g].packets - 1) & 0xffffff);
	write_file("done", text, n);
}

int main(int argc, char **argv)
{
	bool good;

	now_ms();
	parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device();
	prepare_steps();
	create_qps();
	read_group();
	connect_qps();
	write_file("ready", "", 0);
	await("go", "another rank is not ready");
	for (int n = 0; n < opt.repeat; n++)
		for (int i = 0; i < step_n; i++)
			do_step(i, n);
	write_results();
	write_done();
	/* Until all have their results, the last acknowledgement of this rank may be asked for again. */
	await("leave", "another rank is not done");
	good = report_qps();
	for (int g = 0; g < group_n; g++)
		ibv_destroy_qp(groups[g].qp);
	return good ? 0 : 1;
}
