# Shared by the programs in this directory; source it, don't run it.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

quick=no
pairs=5
scratch=

# parse_options NAME… -- ARGUMENT…: an option --NAME VALUE sets the variable of
# that name, with _ for -.
parse_options()
{
	local specs=() spec
	while [ "$1" != -- ]; do
		specs+=("$1")
		shift
	done
	shift
	while [ $# -gt 0 ]; do
		case $1 in
			--quick) quick=yes; shift; continue ;;
			-h | --help) usage ;;
		esac
		for spec in "${specs[@]}"; do
			[ "$1" = "--$spec" ] && [ $# -ge 2 ] || continue
			printf -v "${spec//-/_}" '%s' "$2"
			shift 2
			continue 2
		done
		usage 2
	done
}

# --- the scratch server and broker ---

# begin [SETTING…]: builds, and starts both
begin()
{
	"$ROOT/scripts/install-deps" check
	choose_server_user
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/outbox-bench.XXXXXX")
	trap finish EXIT
	trap 'exit 130' INT TERM HUP
	if [ -n "${OUTBOX_DESTDIR+set}" ]; then
		destdir=$OUTBOX_DESTDIR
	else
		destdir=$(destdir_or_none "$scratch/install")
		note "building outbox for $(pg_config --version)"
		build_and_install "$destdir" "$scratch/build.log" ||
			die 'the build failed'
	fi
	start_broker
	start_server "$@"
}

# What is said meanwhile goes to the standard error: the figures stand alone.
note()
{
	say "$*" >&2
}

finish()
{
	local status=$?
	if [ "$status" != 0 ] && [ -f "$scratch/data/server.log" ]; then
		tail -n 20 "$scratch/data/server.log" >&2
	fi
	if [ -f "$scratch/data/postmaster.pid" ]; then
		server -s -m immediate -w stop || true
	fi
	[ ! -d "$scratch/kafka" ] || "$ROOT/scripts/kafka" kill "$scratch/kafka"
	rm -rf "$scratch"
	exit "$status"
}

start_broker()
{
	brokers=${BENCH_BROKERS:-}
	[ -z "$brokers" ] || return 0
	note 'starting a Kafka broker'
	"$ROOT/scripts/kafka" fetch
	brokers=$(OUTBOX_KAFKA_JVM=${OUTBOX_KAFKA_JVM:--Xmx1g} \
		"$ROOT/scripts/kafka" start "$scratch/kafka")
}

server()
{
	unprivileged "$(pg_config --bindir)/pg_ctl" -D "$scratch/data" "$@"
}

sql()
{
	"$(pg_config --bindir)/psql" -X -q -At -v ON_ERROR_STOP=1 "$(connection)" "$@"
}

connection()
{
	echo "host=$scratch/socket port=5432 user=postgres dbname=bench"
}

# The relay is off at first. Nothing but the measured work shall write: no
# automatic vacuum, no checkpoint by time.
start_server()
{
	note 'starting PostgreSQL'
	mkdir -m 700 "$scratch/socket" "$scratch/data"
	give_to_server "$scratch" "$scratch/socket" "$scratch/data"
	quietly "$scratch/initdb.log" unprivileged "$(pg_config --bindir)/initdb" \
		-D "$scratch/data" -U postgres -A trust --encoding=UTF8 --no-locale
	{
		destdir_settings "$destdir"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$scratch/socket'"
		echo "port = 5432"
		echo "shared_preload_libraries = 'outbox'"
		echo "shared_buffers = 512MB"
		echo "max_wal_size = 8GB"
		echo "checkpoint_timeout = 1h"
		echo "autovacuum = off"
		echo "jit = off"
		echo "outbox.enabled = off"
		echo "outbox.kafka_bootstrap_servers = '$brokers'"
		printf '%s\n' "$@"
	} >>"$scratch/data/postgresql.conf"
	quietly "$scratch/start.log" server -w -l "$scratch/data/server.log" start ||
		die 'PostgreSQL did not start'
	"$(pg_config --bindir)/createdb" -h "$scratch/socket" -p 5432 -U postgres bench
	sql -c 'CREATE EXTENSION outbox' \
		-c 'SELECT outbox.start()' -c 'CALL outbox.maintain()' >"$scratch/create.log"
}

# relay on|off: returns when the worker has heard of it
relay()
{
	sql -c "ALTER SYSTEM SET outbox.enabled = $1" -c 'SELECT pg_reload_conf()' >/dev/null
}

# await QUERY: until it returns t
await()
{
	local tries=0
	until [ "$(sql -c "$1")" = t ]; do
		[ $((tries += 1)) -lt 600 ] || die "in vain waiting for: $1"
		sleep 0.1
	done
}

worker_pid()
{
	sql -c "SELECT max(pid) FROM pg_stat_activity WHERE application_name = 'outbox worker 0'"
}

# cpu_ns PID: the processor's nanoseconds so far, of all threads
cpu_ns()
{
	awk '{ sum += $1 } END { printf "%.0f\n", sum }' "/proc/$1"/task/*/schedstat
}

# memory_kb PID FIELD: RssAnon, VmHWM, … of /proc/PID/status
memory_kb()
{
	awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"
}

# --- helpers in C ---

# compile SOURCE: into the scratch directory
compile()
{
	local flags
	read -ra flags <<<"$(pkg-config --cflags --libs rdkafka)"
	cc -O2 -o "$scratch/$(basename "$1" .c)" "$ROOT/$1" "${flags[@]}" \
		-I"$(pg_config --includedir)" -L"$(pg_config --libdir)" -lpq -lpthread
}

# The client's properties as the relay sets them, NAME=VALUE a line.
relay_options()
{
	echo "bootstrap.servers=$brokers"
	sed -nE 's/^\t\{"([a-z.]+)", "([^"]*)"\},$/\1=\2/p' "$ROOT/src/kafka_config.c"
	echo message.max.bytes=1065536
}

create_topic()
{
	"$scratch/create_topic" "$brokers" "$1" 16
}

# --- figures ---

# add METRIC VALUE: one pair's figure
add()
{
	echo "$2" >>"$scratch/figure.$1"
}

# last METRIC: the figure that was added last
last()
{
	tail -n 1 "$scratch/figure.$1"
}

# divide A B [DIGITS]
divide()
{
	awk -v a="$1" -v b="$2" -v digits="${3:-6}" 'BEGIN { printf "%.*f\n", digits, a / b }'
}

# show LABEL METRIC DIGITS: median and range over the pairs
show()
{
	sort -n "$scratch/figure.$2" | awk -v label="$1" -v digits="$3" '
		{ v[NR] = $1 }
		END {
			median = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
			printf "%-46s %10.*f   (%.*f to %.*f)\n", label, digits, median,
				digits, v[1], digits, v[NR]
		}'
}

# headline TEXT: what ran where
headline()
{
	local server client
	server=$(sql -c 'SHOW server_version')
	client=$(pkg-config --modversion rdkafka)
	printf '%s\n' "$1"
	printf 'PostgreSQL %s, librdkafka %s, %s processors, load before %s\n' \
		"${server%% *}" "$client" "$(nproc)" "$load_before"
	printf '%-46s %10s   %s\n' '' median '(range)'
}
load_before=$(cut -d' ' -f1 /proc/loadavg)
