#!/usr/bin/env bash
# Builds and runs the test of the producer (test/producer_test.c).
#
#   test/producer_test.sh [MESSAGES [BROKERS]]
#
# COPT adds compiler options, for example -fsanitize=address.
#
# Without BROKERS it starts a broker of its own, and tests what happens to a
# topic with a small limit too.
. "$(dirname "$0")/../scripts/lib.sh"

messages=${1:-100000}
brokers=${2:-}
work=$(mktemp -d)
trap '"$ROOT/scripts/kafka" stop "$work/kafka"; rm -rf "$work"' EXIT

read -ra cflags < <(pkg-config --cflags rdkafka)
read -ra copt <<<"${COPT:-}"
read -ra libs < <(pkg-config --libs rdkafka)
gcc -std=gnu99 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-sign-compare -D_GNU_SOURCE "${cflags[@]}" "${copt[@]}" \
	-I"$ROOT/src" -I"$(pg_config --includedir-server)" \
	"$ROOT"/test/producer_test.c "$ROOT"/src/producer.c \
	"$ROOT"/src/producer_conf.c "$ROOT"/src/name_table.c \
	"$ROOT"/src/resolver.c -o "$work/test" \
	-L"$(pg_config --pkglibdir)" -L"$(pg_config --libdir)" "${libs[@]}" -lpgport -lpthread

limited=()
if [ -z "$brokers" ]; then
	brokers=$("$ROOT/scripts/kafka" start "$work/kafka")
	"$ROOT/scripts/kafka" topic "$work/kafka" limited 1 max.message.bytes=1000 >/dev/null
	limited=(limited)
fi
"$work/test" "$brokers" "$messages" "${limited[@]}"

# A name server that takes questions and never answers, seen by this test alone.
silent_names()
{
	echo "nameserver 127.1.2.3" >"$work/resolv.conf"
	# shellcheck disable=SC2016
	unshare -Ur -mn bash -c '
		ip link set lo up &&
		mount --bind "$0/resolv.conf" /etc/resolv.conf &&
		{ perl -MIO::Socket::INET -e "
			my \$s = IO::Socket::INET->new(Proto => q(udp),
				LocalAddr => q(127.1.2.3), LocalPort => 53) or die;
			sleep 60" & } &&
		sleep 0.5 &&
		{ timeout 1 getent hosts example.com; [ $? = 124 ] ||
			echo "# the name server answers: this proves nothing"; } &&
		"$0/test" silent-names; status=$?; kill $!; exit $status' "$work"
}

if unshare -Ur -mn ip link set lo up 2>/dev/null; then
	silent_names
else
	echo "# skipped: a silent name server needs user namespaces"
fi
