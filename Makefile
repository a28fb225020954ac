# outbox: a transactional outbox for PostgreSQL that publishes to Kafka
#
#   make && make install     build and install for the server of PG_CONFIG
#   make installcheck        pg_regress and TAP tests of the installed build
#   make check               everything from scratch (scripts/check)
#   make demo                a running system to play with (scripts/demo)
#   make format              reformat src/ (make format-check only looks)
#   make exports             bring exports.txt up to date with src/
#
# PG_CONFIG chooses the server, WERROR= lets warnings pass.

SCRIPT_GOALS = check demo demo-stop format format-check lint exports

ifneq (,$(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)))

# These need no server, and PGXS has a "check" of its own: leave it out.
.PHONY: $(SCRIPT_GOALS)

check:
	scripts/check

demo:
	scripts/demo

demo-stop:
	scripts/demo stop

format:
	scripts/check-format --fix

format-check:
	scripts/check-format

lint: format-check
	scripts/check-layers
	scripts/check-exports

exports:
	scripts/check-exports --fix

else

EXTENSION = outbox
MODULE_big = outbox
DATA = outbox--1.0.sql
PGFILEDESC = "outbox - transactional outbox that publishes to Kafka"

# make for VPATH builds leaves srcdir to PGXS, which is included last
ifdef VPATH
SRC = $(VPATH)
else
SRC = .
endif
SOURCES = $(sort $(patsubst $(SRC)/%,%,$(wildcard $(SRC)/src/*.c $(SRC)/src/*/*.c)))
INTERNAL_HDRS = $(wildcard $(SRC)/src/*.h $(SRC)/src/*/*.h)
OBJS = $(SOURCES:.c=.o)
SHLIB_EXPORTS = exports.txt

# PostgreSQL's headers don't pass -Wunused-parameter and -Wsign-compare.
WERROR = -Werror
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare $(WERROR)
PG_CPPFLAGS = -I$(SRC)/src $(shell pkg-config --cflags rdkafka 2>/dev/null)
SHLIB_LINK = $(shell pkg-config --libs rdkafka 2>/dev/null || echo -lrdkafka)

REGRESS = $(patsubst $(SRC)/sql/%.sql,%,$(sort $(wildcard $(SRC)/sql/*.sql)))
# The tests need shared_preload_libraries, so pg_regress starts a server of
# its own with this configuration added.
REGRESS_CONFIG = $(SRC)/t/postgresql.conf
REGRESS_OPTS = --temp-instance=$(CURDIR)/tmp_instance \
	--temp-config=$(REGRESS_CONFIG) --inputdir=$(SRC) \
	--encoding=UTF8 --no-locale
TAP_TESTS = $(if $(wildcard $(SRC)/t/*.pl),1)

EXTRA_CLEAN = exports.list tmp_instance

# Nothing here gains by inlining into queries: build no bitcode, so that no
# LLVM is needed.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(PGXS))
$(error $(PG_CONFIG) not found: install the server's development package (scripts/install-deps) or set PG_CONFIG)
endif
include $(PGXS)

# PGXS tracks no headers on most builds.
$(OBJS): $(INTERNAL_HDRS) $(SRC)/Makefile

# The linker takes a stale list without a word, and the missing function shows
# only in CREATE EXTENSION.
exports.list: check-exports
.PHONY: check-exports
check-exports: $(OBJS)
	@$(SRC)/scripts/check-exports

PROVE_FLAGS += -I $(SRC)/t/lib

endif
