/*
 * outbox.c
 *		The module's entry point.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "guc.h"
#include "launcher.h"
#include "outbox.h"
#include "shmem.h"

CompatModuleMagic(OUTBOX_EXTENSION, OUTBOX_VERSION);

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	GucInit();

	if (!process_shared_preload_libraries_in_progress)
		return;

	ShmemInit();

	/* pg_upgrade starts background workers; ours must not touch anything. */
	if (!IsBinaryUpgrade)
		LauncherInit();
}
