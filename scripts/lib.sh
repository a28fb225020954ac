# Shared by the scripts in this directory; source it, don't run it.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_MAJOR=${PG_MAJOR:-15}
CACHE=${OUTBOX_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/outbox}
export LC_ALL=C.UTF-8

# say WORD…: one line of progress, with the seconds since the script began
say()
{
	printf '[%3ds] %s\n' "$SECONDS" "$*"
}

die()
{
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

# Print the comment at the head of a script, which is its manual.
usage()
{
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
	exit "${1:-0}"
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "need root for: $* (no sudo here)"
	fi
}

# quietly LOG COMMAND…: run it with its output in LOG, shown only if it fails
quietly()
{
	local log=$1
	shift
	"$@" >"$log" 2>&1 </dev/null && return
	local status=$?
	tail -n "${QUIETLY_LINES:-40}" "$log" >&2
	printf 'failed (%d): %s\nThe whole output is in %s\n' \
		"$status" "$*" "$log" >&2
	return "$status"
}

# What a script makes once for the cache is a directory whose name ends with a
# hash of the script. It is built under another name and has a file .complete.

# hold DIR: nobody removes it while this process lives
hold()
{
	exec 8>>"$1.use"
	flock -s 8
	touch "$1.use"
	[ -e "$1/.complete" ] || die "$1 has just been removed: try again"
}

# forget_others PREFIX DIR: removes what other versions of the script have made
# as PREFIX-HASH, unless it was used in the last week, for example by another
# checkout. The caller holds the lock under which they are made.
forget_others()
{
	local other
	for other in "$1"-*/; do
		other=${other%/}
		case $other in
			"$2" | "$1-*") ;;
			*.part | *.gone) as_root rm -rf "$other" ;;
			*) forget "$other" ;;
		esac
	done
}

# The time of the file is that of the last use; a directory that has none yet
# gets it now.
forget()
{
	(
		flock -n 8 || exit 0
		[ -z "$(find "$1.use" -mtime -7)" ] || exit 0
		as_root mv "$1" "$1.gone"
		rm -f "$1.use"
		as_root rm -rf "$1.gone"
	) 8>>"$1.use"
}

# The pg_config to build with: PG_CONFIG, else Debian's, else the first found.
pg_config()
{
	local debian=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
	if [ -z "${PG_CONFIG:-}" ] && [ -x "$debian" ]; then
		"$debian" "$@"
	else
		command "${PG_CONFIG:-pg_config}" "$@"
	fi
}

# The mirror that apt uses for Debian itself; nothing where it knows none
debian_mirror()
{
	local from
	from=$(first_mirror)
	if [ -z "$from" ]; then
		as_root apt-get -q update >/dev/null 2>&1 || true
		from=$(first_mirror)
	fi
	echo "$from"
}

first_mirror()
{
	apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }'
}

# PostgreSQL refuses to run as root. Decide once how the servers are to be
# started: as ourselves, in a user namespace that calls us nobody (the files
# stay ours), or as the user postgres.
choose_server_user()
{
	if [ "$(id -u)" != 0 ]; then
		SERVER_USER=self
	elif unshare -U --map-user=65534 --map-group=65534 true 2>/dev/null; then
		SERVER_USER=namespace
	else
		SERVER_USER=postgres
	fi
}

# give_to_server DIR…: what the servers' user must own
give_to_server()
{
	[ "$SERVER_USER" != postgres ] || chown -R postgres: "$@"
}

# unprivileged COMMAND…
unprivileged()
{
	case $SERVER_USER in
		self) "$@" ;;
		namespace) unshare -U --map-user=65534 --map-group=65534 -- "$@" ;;
		postgres) runuser -u postgres -- "$@" ;;
	esac
}

# free_ports N: N TCP ports of 127.0.0.1 that nobody uses, on one line. They
# lie below the range from which the kernel takes ports for outgoing
# connections, so that a stopped server finds its port free again.
free_ports()
{
	perl -MIO::Socket::INET -e '
		my @held;
		while (@held < $ARGV[0]) {
			my $socket = IO::Socket::INET->new(Listen => 1,
				LocalAddr => "127.0.0.1",
				LocalPort => 20000 + int rand 12000) or next;
			push @held, $socket;
		}
		print join(" ", map { $_->sockport } @held), "\n";' "$1"
}

# port_accepts PORT
port_accepts()
{
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# copy_source DIR: what a build and its tests need, without the checkout's own
# objects. Files that did not change keep their time, so a second build in DIR
# is short.
copy_source()
{
	local target=$1 name
	mkdir -p "$target"
	(
		cd "$ROOT"
		find Makefile README.md CHANGELOG.md LICENSE docs exports.txt outbox.control outbox--*.sql src sql \
			expected t test scripts bench examples \
			-type f ! -name '*.o' ! -name '*.bc' 2>/dev/null || true
	) | LC_ALL=C sort >"$target/.files.new"
	if [ -f "$target/.files" ]; then
		comm -23 "$target/.files" "$target/.files.new" | while read -r name; do
			rm -f "$target/$name" "$target/${name%.c}.o"
		done
	fi
	tar -C "$ROOT" -cf - -T "$target/.files.new" | tar -C "$target" -xf -
	mv "$target/.files.new" "$target/.files"
}

# build_and_install DESTDIR LOG [MAKE-ARGUMENT…]: the compiled objects are kept
# between runs, and one run at a time may build. COPT adds compiler options.
build_and_install()
{
	local destdir=$1 log=$2 objects arguments
	shift 2
	objects=$CACHE/build-$(printf '%s\n' "$ROOT" "$(pg_config --version)" \
		"$(pg_config --configure)" "${COPT:-}" "$*" | sha256sum | cut -c1-12)
	arguments=(-C "$objects" PG_CONFIG="$(pg_config --bindir)/pg_config" "$@")
	mkdir -p "$objects"
	(
		flock 9
		copy_source "$objects"
		quietly "$log" make -s -j2 "${arguments[@]}" &&
			quietly "$log" make install DESTDIR="$destdir" "${arguments[@]}"
	) 9>"$objects.lock"
}

# destdir_or_none DIR: DIR where the server can find an extension below it, as
# Debian's servers can; nothing where outbox has to go into the server itself
destdir_or_none()
{
	! grep -q extension_destdir "$(pg_config --bindir)/postgres" || echo "$1"
}

# The settings with which a server finds outbox below DESTDIR.
destdir_settings()
{
	[ -n "$1" ] || return 0
	echo "extension_destdir = '$1'"
	echo "dynamic_library_path = '$1$(pg_config --pkglibdir):\$libdir'"
}
